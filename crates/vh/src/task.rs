//! `gpool vh task run`: submits the executions of a task as jobs of a group.

use std::path::Path;

use clap::{Args, Subcommand};
use gpool_cli::args::job_flags::JobFlags;
use gpool_cli::exit::Exit;
use gpool_cli::failure::Result;
use gpool_cli::hand_in::{hand_in, say};
use gpool_cli::render::json;
use gpool_cli::render::safe::safe;
use gpool_cli::render::words::count;
use gpool_cli::request;
use gpool_cli::session::Session;
use gpool_client::new_key;
use gpool_valohai::config::{Config, Step, Task};
use gpool_valohai::task::{TaskValues, executions};
use serde_json::json;

use crate::execute::{self, Draft};
use crate::failure::{finding, invalid};
use crate::options::{self, RunFlags, RunLine};
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
        match submit(task, step, (number, draft, row), &line.flags, &project, session) {
            Ok(id) => ids.push(id),
            Err(failure) if ids.is_empty() => return Err(failure),
            Err(failure) => {
                return Err(failure
                    .why(format!("submitted so far: {}", count(ids.len() as u64, "execution")))
                    .tip(format!("gpool cancel {}", ids.join(" "))));
            }
        }
    }
    if session.global.json {
        let items: Vec<_> = ids.iter().map(|id| json!({"id": id})).collect();
        session.screen.data(&json::list(&items))?;
        return Ok(Exit::OK);
    }
    session.screen.data(&ids.iter().map(|id| format!("{id}\n")).collect::<String>())?;
    Ok(Exit::OK)
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

fn submit(
    task: &Task,
    step: &Step,
    (number, mut draft, row): (usize, Draft, &TaskValues),
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
    own.push(format!("--group={}/execution/{number}", folder::plain(&task.name)));
    // The values tell the executions apart in lists.
    let values = row.iter().map(|(name, values)| format!("{name}={}", values.join(",")));
    own.push(format!("--note={}", values.collect::<Vec<_>>().join(" ")));
    let mut request = request::of_command(JobFlags::read(&own)?, &words[at + 1..])?;
    request.resolve(&client, session)?;
    say(&request, session);
    Ok(hand_in(&client, &request)?.id)
}
