//! `gpool vh task run`: submits the executions of a task as jobs of a group.

use std::path::Path;

use clap::{Args, Subcommand};
use gpool_cli::args::job_flags::JobFlags;
use gpool_cli::exit::Exit;
use gpool_cli::failure::{Failure, Result};
use gpool_cli::hand_in::{hand_in, say};
use gpool_cli::render::json;
use gpool_cli::render::safe::safe;
use gpool_cli::render::words::count;
use gpool_cli::request;
use gpool_cli::session::Session;
use gpool_client::new_key;
use gpool_valohai::config::{Config, Step, Task};
use gpool_valohai::parameter::ParameterType;
use gpool_valohai::task::{Search, SearchParameter, TaskValues, executions, members, search};
use gpool_yaml::Value;
use serde_json::json;

use crate::execute::{self, Draft};
use crate::failure::{finding, invalid};
use crate::late::mark;
use crate::options::{self, RunFlags, RunLine};
use crate::plan::{LateSource, LateValue, Members};
use crate::{file, folder};

#[derive(Debug, Clone, Args)]
pub struct TaskArgs {
    #[command(subcommand)]
    action: TaskAction,
}

#[derive(Debug, Clone, Subcommand)]
enum TaskAction {
    /// Run the executions of a task as a group of jobs, and print their IDs
    Run(TaskRunArgs),
}

#[derive(Debug, Clone, Args)]
#[command(args_override_self = true)]
struct TaskRunArgs {
    #[command(flatten)]
    flags: RunFlags,
    /// Name of the task; then flags, variables and parameters of all executions
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true)]
    #[arg(value_name = "TASK")]
    words: Vec<String>,
}

/// Runs the command.
///
/// # Errors
/// The file, a value or the server refuses.
pub fn run(args: TaskArgs, session: &Session) -> Result {
    let TaskAction::Run(TaskRunArgs { flags, words }) = args.action;
    let line = options::read(flags, &words[1..])?;
    if line.flags.watch {
        return Err(invalid("a task has several outputs, so --watch does not apply")
            .tip("gpool logs --follow ID   (of one execution)"));
    }
    let project = file::project(&line.flags.yaml)?;
    let (config, warnings) = execute::read(&project, &line.flags)?;
    warnings.iter().for_each(|warning| session.screen.warn(&safe(warning)));
    let task = find(&config, &words[0], &line.flags.yaml)?;
    let step = file::step(&config, &task.step, &line.flags.yaml)?;
    if let Some((n, values)) = members(task).map_err(|it| finding(&it, &line.flags.yaml))? {
        return run_together(task, step, (n, &values), &line, &project, session);
    }
    if let Some(search) = search(task).map_err(|it| finding(&it, &line.flags.yaml))? {
        return run_search(task, step, &search, &line, &project, session);
    }
    let seed = u64::from_str_radix(&new_key()[..8], 16).unwrap_or_default();
    let rows = executions(task, seed).map_err(|it| finding(&it, &line.flags.yaml))?;
    let client = session.client()?;
    // Everything is checked before a folder is made or a job is submitted.
    let drafts = rows
        .iter()
        .map(|row| draft(task, step, row, &line, &project, session))
        .collect::<Result<Vec<_>>>()?;
    let mut ids: Vec<String> = Vec::new();
    for (number, (draft, row)) in drafts.into_iter().zip(&rows).enumerate() {
        if line.flags.dry_run {
            let at = Path::new("/valohai");
            session.verb(&execute::words(step, &line.flags, &draft, at, &client)?)?;
            continue;
        }
        let place = format!("/execution/{number}");
        match submit(task, step, (&place, draft, row), &[], &line.flags, &project, session) {
            Ok(id) => ids.push(id),
            Err(failure) if ids.is_empty() => return Err(failure),
            Err(failure) => {
                return Err(failure
                    .why(format!("submitted so far: {}", count(ids.len() as u64, "execution")))
                    .tip(format!("gpool cancel {}", ids.join(" "))));
            }
        }
    }
    show(&ids, session)
}

fn show(ids: &[String], session: &Session) -> Result {
    if session.global.json {
        let items: Vec<_> = ids.iter().map(|id| json!({"id": id})).collect();
        session.screen.data(&json::list(&items))?;
        return Ok(Exit::OK);
    }
    session.screen.data(&ids.iter().map(|id| format!("{id}\n")).collect::<String>())?;
    Ok(Exit::OK)
}

/// Runs a task that chooses values by results, as a sweep: its trials are the executions.
fn run_search(
    task: &Task,
    step: &Step,
    search: &Search,
    line: &RunLine,
    project: &Path,
    session: &Session,
) -> Result {
    let mut step = step.clone();
    let mut late = Vec::new();
    let mut sweep = vec!["sweep".to_owned(), "--method=bayes".to_owned()];
    let mut values = Vec::new();
    // A value of the command line is that of all executions.
    let is_open = |it: &&SearchParameter| !line.options.iter().any(|(name, _)| *name == it.name);
    for (ix, parameter) in search.parameters.iter().filter(is_open).enumerate() {
        let Some(own) = step.parameters.iter_mut().find(|it| it.name == parameter.name) else {
            let what = format!("step {:?} has no parameter {:?}", step.name, parameter.name);
            return Err(invalid(format!("{}, line {}: {what}", line.flags.yaml, task.line)));
        };
        own.default = Some(Value::Text(mark(ix)));
        let is_text = own.kind == ParameterType::Text;
        let source = LateSource::CommandLine { is_text };
        late.push(LateValue { parameter: parameter.name.clone(), source, mark: mark(ix) });
        // Names of a sweep have no `-`.
        let name = parameter.name.replace(|c: char| !c.is_ascii_alphanumeric(), "_");
        sweep.push(format!("--param={name}={}", parameter.domain));
        values.push(format!("--value={}={{{name}}}", parameter.name));
    }
    if late.is_empty() {
        return Err(invalid("every parameter of the task has a value on the command line")
            .tip("gpool vh exec run STEP   (runs a step once)"));
    }
    sweep.push(format!("--name={}", folder::plain(&task.name)));
    sweep.push(format!("--metric={}:{}", search.metric, search.target));
    sweep.push(format!("--trials={}", search.n_executions));
    sweep.extend(search.n_parallel.map(|n| format!("--parallel={n}")));
    let mut draft = draft(task, &step, &TaskValues::new(), line, project, session)?;
    if draft.image.is_some() {
        return Err(needs_host(task, line, "get values from a search"));
    }
    draft.plan.late = late;
    draft.plan.members = Members::Jobs;
    let folder = match line.flags.dry_run {
        true => Path::new("/valohai").to_path_buf(),
        false => folder::create()?,
    };
    if !line.flags.dry_run {
        execute::fill(&mut draft, &line.flags, project, &folder)?;
    }
    let words = execute::words(&step, &line.flags, &draft, &folder, &session.client()?)?;
    sweep.extend(words.into_iter().skip(1).filter(|word| !word.starts_with("--name=")));
    sweep.extend(values);
    session.verb(&sweep)
}

fn needs_host(task: &Task, line: &RunLine, what: &str) -> Failure {
    let (yaml, line) = (&line.flags.yaml, task.line);
    invalid(format!("{yaml}, line {line}: the executions of task {:?} {what}", task.name))
        .why("a container has no runner, which does this when the job starts")
        .tip("gpool vh task run TASK --adhoc --no-image")
}

/// Runs the executions of a distributed task as the tasks of one job.
fn run_together(
    task: &Task,
    step: &Step,
    (n, values): (usize, &TaskValues),
    line: &RunLine,
    project: &Path,
    session: &Session,
) -> Result {
    let mut draft = draft(task, step, values, line, project, session)?;
    if draft.image.is_some() {
        return Err(needs_host(task, line, "get the addresses of the others"));
    }
    draft.plan.members = Members::Tasks;
    let tasks = format!("--tasks={n}");
    if line.flags.dry_run {
        let at = Path::new("/valohai");
        let mut words = execute::words(step, &line.flags, &draft, at, &session.client()?)?;
        words.insert(1, tasks);
        return session.verb(&words);
    }
    let id = submit(task, step, ("", draft, values), &[tasks], &line.flags, project, session)?;
    show(&[id], session)
}

fn find<'c>(config: &'c Config, name: &str, yaml: &str) -> Result<&'c Task> {
    config.tasks.iter().rev().find(|task| task.name == name).ok_or_else(|| {
        let names: Vec<&str> = config.tasks.iter().map(|it| it.name.as_str()).collect();
        let failure = invalid(format!("{yaml} has no task {name:?}"));
        match names.is_empty() {
            true => failure.why("it has none"),
            false => failure.why(format!("its tasks are {}", names.join(", "))),
        }
    })
}

/// An execution: the values of the task override those of the step, and the command line both.
fn draft(
    task: &Task,
    step: &Step,
    row: &TaskValues,
    line: &RunLine,
    project: &Path,
    session: &Session,
) -> Result<Draft> {
    let is_said = |name: &str| line.options.iter().any(|(own, _)| own == name);
    let own = row.iter().filter(|(name, _)| !is_said(name));
    let own = own
        .flat_map(|(name, values)| values.iter().map(|value| (name.clone(), Some(value.clone()))));
    let options = own.chain(line.options.iter().cloned()).collect();
    let own = RunLine { flags: line.flags.clone(), options };
    let mut draft = execute::draft(step, &own, project, &session.client()?, session)?;
    draft.request.variables.push(("VH_TASK_ID".to_owned(), task.name.clone()));
    Ok(draft)
}

/// The values of an execution in one line.
#[must_use]
pub fn values_text(values: &TaskValues) -> String {
    let words = values.iter().map(|(name, values)| format!("{name}={}", values.join(",")));
    words.collect::<Vec<_>>().join(" ")
}

fn submit(
    task: &Task,
    step: &Step,
    (place, mut draft, row): (&str, Draft, &TaskValues),
    more: &[String],
    flags: &RunFlags,
    project: &Path,
    session: &Session,
) -> Result<String> {
    let client = session.client()?;
    let folder = folder::create()?;
    execute::fill(&mut draft, flags, project, &folder)?;
    let words = execute::words(step, flags, &draft, &folder, &client)?;
    let at = words.iter().position(|word| word == "--").unwrap_or(words.len());
    let mut own = words[1..at].to_vec();
    own.extend_from_slice(more);
    own.push(format!("--group={}{place}", folder::plain(&task.name)));
    // The values tell the executions apart in lists.
    own.push(format!("--note={}", values_text(row)));
    let mut request = request::of_command(JobFlags::read(&own)?, &words[at + 1..])?;
    request.resolve(&client, session)?;
    say(&request, session);
    Ok(hand_in(&client, &request)?.id)
}
