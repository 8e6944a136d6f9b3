//! `gpool vh pipeline run`: submits the executions of a pipeline as jobs of a group, each after
//! those that it needs.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use gpool_cli::args::job_flags::JobFlags;
use gpool_cli::exit::Exit;
use gpool_cli::failure::Result;
use gpool_cli::hand_in::{hand_in, say};
use gpool_cli::render::json;
use gpool_cli::render::safe::safe;
use gpool_cli::request;
use gpool_cli::session::Session;
use gpool_client::{Client, new_key};
use gpool_valohai::config::{Config, Pipeline};
use gpool_valohai::pipeline::{PipelineExecution, executions};
use gpool_yaml::Value;
use serde_json::json;

use crate::execute::{self, Draft};
use crate::failure::{finding, invalid};
use crate::late::mark;
use crate::options::{self, RunFlags, RunLine};
use crate::plan::{LateSource, LateValue};
use crate::{file, folder, task};

#[derive(Debug, Clone, Args)]
pub struct PipelineArgs {
    #[command(subcommand)]
    action: PipelineAction,
}

#[derive(Debug, Clone, Subcommand)]
enum PipelineAction {
    /// Run a pipeline as a group of jobs, and print the ID of each node
    Run(PipelineRunArgs),
}

#[derive(Debug, Clone, Args)]
#[command(args_override_self = true)]
struct PipelineRunArgs {
    #[command(flatten)]
    flags: RunFlags,
    /// Name of the pipeline; then flags, variables and parameters, e.g. --adhoc --epochs=3
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true)]
    #[arg(value_name = "PIPELINE")]
    words: Vec<String>,
}

/// For `on-error: retry`, which has no number.
const RETRY: &str = "--retry=3";

/// An execution that is ready to be submitted.
struct ReadyExecution {
    execution: PipelineExecution,
    draft: Draft,
    folder: PathBuf,
}

/// Runs the command.
///
/// # Errors
/// The file, a value or the server refuses.
pub fn run(args: PipelineArgs, session: &Session) -> Result {
    let PipelineAction::Run(PipelineRunArgs { flags, words }) = args.action;
    let line = options::read(flags, &words[1..])?;
    if line.flags.watch {
        return Err(invalid("a pipeline has several outputs, so --watch does not apply")
            .tip("gpool logs --follow ID   (of one node)"));
    }
    let project = file::project(&line.flags.yaml)?;
    let (config, warnings) = execute::read(&project, &line.flags)?;
    warnings.iter().for_each(|warning| session.screen.warn(&safe(warning)));
    let pipeline = find(&config, &words[0], &line.flags.yaml)?;
    let client = session.client()?;
    // Everything is checked before a folder is made or a job is submitted.
    let seed = u64::from_str_radix(&new_key()[..8], 16).unwrap_or_default();
    let planned = planned(&config, pipeline, &line, seed, &|_| "/valohai".to_owned())?;
    for execution in &planned {
        let draft = draft(execution, pipeline, &line, &project, &client, session)?;
        if line.flags.dry_run {
            let at = Path::new("/valohai");
            session.verb(&execute::words(&execution.step, &line.flags, &draft, at, &client)?)?;
        }
    }
    if line.flags.dry_run {
        return Ok(Exit::OK);
    }
    let mut folders = Vec::new();
    for _ in &planned {
        folders.push(folder::create()?);
    }
    let outputs = |ix: usize| folders[ix].join("outputs").display().to_string();
    let planned = self::planned(&config, pipeline, &line, seed, &outputs)?;
    let mut ready = Vec::new();
    for (execution, folder) in planned.into_iter().zip(folders.iter().cloned()) {
        let mut draft = draft(&execution, pipeline, &line, &project, &client, session)?;
        execute::fill(&mut draft, &line.flags, &project, &folder)?;
        ready.push(ReadyExecution { execution, draft, folder });
    }
    let ids = submit(ready, pipeline, &line.flags, &client, session)?;
    show(&ids, session)
}

fn find<'c>(config: &'c Config, name: &str, yaml: &str) -> Result<&'c Pipeline> {
    config.pipelines.iter().rev().find(|pipeline| pipeline.name == name).ok_or_else(|| {
        let names: Vec<&str> = config.pipelines.iter().map(|it| it.name.as_str()).collect();
        let failure = invalid(format!("{yaml} has no pipeline {name:?}"));
        match names.is_empty() {
            true => failure.why("it has none"),
            false => failure.why(format!("its pipelines are {}", names.join(", "))),
        }
    })
}

/// The executions with the values of edges; a late parameter has a mark in place of its value.
fn planned(
    config: &Config,
    pipeline: &Pipeline,
    line: &RunLine,
    seed: u64,
    outputs: &dyn Fn(usize) -> String,
) -> Result<Vec<PipelineExecution>> {
    let options = line.options.iter();
    let values: Vec<(String, Vec<String>)> =
        options.map(|(name, value)| (name.clone(), value.iter().cloned().collect())).collect();
    let mut planned = executions(config, pipeline, &values, seed, outputs)
        .map_err(|it| finding(&it, &line.flags.yaml))?;
    for execution in &mut planned {
        for (ix, late) in execution.late.iter().enumerate() {
            let own = execution.step.parameters.iter_mut().find(|it| it.name == late.parameter);
            if let Some(own) = own {
                own.default = Some(Value::Text(mark(ix)));
            }
        }
    }
    Ok(planned)
}

fn draft(
    execution: &PipelineExecution,
    pipeline: &Pipeline,
    line: &RunLine,
    project: &Path,
    client: &Client,
    session: &Session,
) -> Result<Draft> {
    let own = RunLine { flags: line.flags.clone(), options: Vec::new() };
    let mut draft = execute::draft(&execution.step, &own, project, client, session)?;
    let is_late = !execution.late.is_empty() || !execution.late_inputs.is_empty();
    if draft.image.is_some() && is_late {
        let (yaml, line, node) = (&line.flags.yaml, execution.line, &execution.node);
        let what =
            format!("{yaml}, line {line}: node {node:?} needs files or values of other nodes");
        return Err(invalid(what)
            .why("a container has no runner, which fetches them when the job starts")
            .tip("gpool vh pipeline run PIPELINE --adhoc --no-image"));
    }
    let variables = [("VH_PIPELINE_ID", &pipeline.name), ("VH_PIPELINE_NODE_ID", &execution.node)];
    let variables = variables.map(|(name, value)| (name.to_owned(), value.clone()));
    draft.request.variables.extend(variables);
    Ok(draft)
}

/// Submits the executions in order; returns the names of nodes with their IDs.
fn submit(
    ready: Vec<ReadyExecution>,
    pipeline: &Pipeline,
    flags: &RunFlags,
    client: &Client,
    session: &Session,
) -> Result<Vec<(String, String)>> {
    let mut ids: Vec<(String, String)> = Vec::new();
    for mut own in ready {
        let submitted = submit_one(&mut own, pipeline, flags, &ids, client, session);
        match submitted {
            Ok(id) => ids.push((place(&own.execution), id)),
            Err(failure) if ids.is_empty() => return Err(failure),
            Err(failure) => {
                let earlier: Vec<&str> = ids.iter().map(|(_, id)| id.as_str()).collect();
                let earlier = earlier.join(" ");
                return Err(failure
                    .why(format!("executions that are submitted: {earlier}"))
                    .tip(format!("gpool cancel {earlier}")));
            }
        }
    }
    Ok(ids)
}

fn submit_one(
    own: &mut ReadyExecution,
    pipeline: &Pipeline,
    flags: &RunFlags,
    ids: &[(String, String)],
    client: &Client,
    session: &Session,
) -> Result<String> {
    let ReadyExecution { execution, draft, folder } = own;
    let late = execution.late.iter().enumerate().map(|(ix, late)| LateValue {
        parameter: late.parameter.clone(),
        source: LateSource::Metric { job: ids[late.execution_ix].1.clone(), key: late.key.clone() },
        mark: mark(ix),
    });
    draft.plan.late = late.collect();
    folder::write(folder, &draft.plan)?;
    let words = execute::words(&execution.step, flags, draft, folder, client)?;
    let at = words.iter().position(|word| word == "--").unwrap_or(words.len());
    let mut flags = words[1..at].to_vec();
    flags.push(format!("--group={}/{}", folder::plain(&pipeline.name), place(execution)));
    if execution.is_retried {
        flags.push(RETRY.to_owned());
    }
    if !execution.values.is_empty() {
        flags.push(format!("--note={}", task::values_text(&execution.values)));
    }
    let command = words.get(at + 1..).unwrap_or_default();
    let mut request = request::of_command(JobFlags::read(&flags)?, command)?;
    let needs = execution.needs.iter().map(|need| {
        let kind = if need.may_fail { "end" } else { "ok" };
        format!("{kind}:{}", ids[need.execution_ix].1)
    });
    request.after = needs.collect();
    request.resolve(client, session)?;
    say(&request, session);
    Ok(hand_in(client, &request)?.id)
}

/// The role of an execution in the group of its pipeline: `train`, or `train/3` in a task.
fn place(execution: &PipelineExecution) -> String {
    let node = folder::plain(&execution.node);
    execution.number.map_or(node.clone(), |number| format!("{node}/{number}"))
}

fn show(ids: &[(String, String)], session: &Session) -> Result {
    if session.global.json {
        let items: Vec<_> = ids.iter().map(|(node, id)| json!({"id": id, "node": node})).collect();
        session.screen.data(&json::list(&items))?;
        return Ok(Exit::OK);
    }
    let lines: String = ids.iter().map(|(node, id)| format!("{id} {}\n", safe(node))).collect();
    session.screen.data(&lines)?;
    Ok(Exit::OK)
}
