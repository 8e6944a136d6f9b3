//! `srun`: starts processes in the tasks of a job; outside of a job, submits a job for them and
//! shows its output.

use gpool_cli::errors;
use gpool_cli::exit::Exit;
use gpool_cli::failure::{Failure, Result};
use gpool_cli::foreign::flag::{ParsedArgs, PassedFlag};
use gpool_cli::foreign::slurm::flags::SRUN;
use gpool_cli::foreign::slurm::shape::with_tres;
use gpool_cli::foreign::slurm::translate::{translate, without_replaced};
use gpool_cli::foreign::translated::Translated;
use gpool_cli::session::Session;
use gpool_step::StepJob;

use super::{input_variables, select};
use crate::shim::{gpool, read, say_ignored};

/// Flags that the step reads even if a job is submitted for it.
const OF_STEP: [&str; 15] = [
    "label",
    "mpi",
    "unbuffered",
    "kill-on-bad-exit",
    "wait",
    "input",
    "output",
    "error",
    "ntasks-per-node",
    "cpus-per-task",
    "gpus-per-task",
    "ntasks",
    "export",
    "multi-prog",
    "open-mode",
];

/// Runs the command.
pub fn run(words: &[String], session: &Session) -> Result {
    let Some(mut args) = read(&SRUN, words, session)? else { return Ok(Exit::OK) };
    if args.words.is_empty() {
        return Err(Failure::new(errors::USAGE, "srun: the command is missing")
            .tip("srun --gpus 1 python train.py"));
    }
    let here = StepJob::here();
    let is_in_job = here.is_some() || args.has("jobid");
    let variables = without_replaced(input_variables::of_srun(is_in_job), &args.flags);
    args.flags = variables.into_iter().chain(args.flags).collect();
    args.flags = with_tres(&args.flags)?;
    let named = select::ids(args.value("jobid").map(str::to_owned).into_iter())?;
    match (named.first(), here) {
        (Some(id), Some(job)) if id == job.id() => gpool_step::run(&job, &args, session),
        (Some(id), _) => gpool_step::run(&StepJob::of(id, session)?, &args, session),
        (None, Some(job)) => gpool_step::run(&job, &args, session),
        (None, None) => as_job(&args, session),
    }
}

/// Submits a job for the step.
fn as_job(args: &ParsedArgs, session: &Session) -> Result {
    as_job_of(args, &inner(args)?, session)
}

/// Submits a job for a step. `inner` is the command that starts the step in the job, unless the
/// step is a single process.
pub(super) fn as_job_of(args: &ParsedArgs, inner: &[String], session: &Session) -> Result {
    let mut translation = translate(&args.flags)?;
    let launcher = translation.words.iter().find_map(|(word, _)| word.strip_prefix("--launcher="));
    let has_launcher = launcher.is_some();
    // A file with programs is read by the step.
    let is_single = launcher.is_none_or(|n| n == "1") && !args.has("multi-prog");
    say_ignored(args, session);
    for warning in translation.warnings.iter().chain(&translation.contradictions) {
        session.screen.warn(warning);
    }
    let mut line: Vec<String> = vec!["run".to_owned(), "--compat=slurm".to_owned()];
    let mut command = args.words.clone();
    if !has_launcher {
        line.push("--launcher=1".to_owned());
    }
    if !is_single {
        // The step opens these files itself.
        let is_file = |word: &str| {
            ["--stdout=", "--stderr=", "--stdin="].iter().any(|flag| word.starts_with(flag))
        };
        translation.words.retain(|(word, _)| !is_file(word));
        if !translation.words.iter().any(|(word, _)| word.starts_with("--name=")) {
            line.push(format!("--name={}", name(&command[0])));
        }
        command = inner.to_vec();
    } else {
        join_output(&mut translation, args);
        // The program of the job is its step.
        line.extend(["SLURM_STEP_ID", "SLURM_STEPID"].map(|name| format!("--env={name}=0")));
    }
    line.extend(translation.mail.rule().map(|rule| format!("--notify={rule}")));
    // The command of the job is the step, so it gets signals for steps.
    let words = translation.words.into_iter().map(|(word, _)| word);
    line.extend(words.map(|word| word.replacen("--signal-before=S:", "--signal-before=", 1)));
    if args.has("pty") {
        // Only `run` has this flag, so it is not translated.
        line.push("--pty".to_owned());
    }
    line.push("--".to_owned());
    line.extend(command);
    gpool(&line, session)
}

/// The words that start this program as `srun`.
pub(super) fn program() -> Result<Vec<String>> {
    let program = std::env::current_exe().map_err(|error| {
        Failure::new(errors::INTERNAL, format!("can't find the program gpool: {error}"))
    })?;
    Ok([&*program.to_string_lossy(), "shim", "srun"].map(str::to_owned).to_vec())
}

/// The command line of the step that the job's first task starts.
fn inner(args: &ParsedArgs) -> Result<Vec<String>> {
    Ok(program()?.into_iter().chain(of_step(args)).collect())
}

/// The flags and words of a step.
pub(super) fn of_step(args: &ParsedArgs) -> impl Iterator<Item = String> {
    let is_of_step = |given: &&PassedFlag| OF_STEP.contains(&given.flag.long);
    let flags = args.flags.iter().filter(is_of_step).map(|given| match &*given.value {
        "" => given.flag.spelling(),
        value => format!("{}={value}", given.flag.spelling()),
    });
    let last = std::iter::once("--".to_owned()).chain(args.words.iter().cloned());
    flags.chain(last).collect::<Vec<_>>().into_iter()
}

fn name(program: &str) -> &str {
    program.rsplit('/').find(|part| !part.is_empty()).unwrap_or(program)
}

/// Joins standard error with standard output unless it has its own file.
fn join_output(translation: &mut Translated, args: &ParsedArgs) {
    if translation.joins_output
        && !args.has("error")
        && let Some((path, from)) =
            translation.words.iter().find(|(word, _)| word.starts_with("--stdout"))
    {
        let path = path.replacen("--stdout", "--stderr", 1);
        translation.words.push((path, from.clone()));
    }
}
