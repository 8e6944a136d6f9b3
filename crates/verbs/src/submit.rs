//! `gpool submit`: submits one or many jobs and prints their ids.

use std::fs::File;
use std::io::{BufWriter, Read, Write as _};
use std::path::Path;

use clap::Args;
use gpool_cli::args::job_flags::JobFlags;
use gpool_cli::errors;
use gpool_cli::exit::Exit;
use gpool_cli::failure::{Failure, Result};
use gpool_cli::hand_in::{dry_run, hand_in, note_terms, note_wait, say, unsure};
use gpool_cli::render::json;
use gpool_cli::request;
use gpool_cli::screen::not_written;
use gpool_cli::script::Script;
use gpool_cli::session::Session;
use gpool_client::new_key;
use gpool_wire::create::BulkDefaults;
use gpool_wire::field::heading;
use gpool_wire::{Problem, catalogue};
use serde_json::json;

#[derive(Debug, Clone, Args)]
#[command(args_override_self = true)]
#[command(after_help = "Lines such as '# GPOOL --gpus 2 --time 1h' at the start of a script and \
    variables such as GPOOL_SUBMIT_GPUS=2 set flags too. The command line overrides both.")]
pub struct SubmitArgs {
    #[command(flatten)]
    flags: JobFlags,
    /// Print only the ID, as -q does
    #[arg(long, help_heading = heading::SUBMISSION)]
    parsable: bool,
    /// Check the job without submitting it
    #[arg(long, help_heading = heading::SUBMISSION)]
    dry_run: bool,
    /// File with many jobs, one JSON object per line; - is standard input
    #[arg(long, value_name = "FILE", conflicts_with = "words", help_heading = heading::SUBMISSION)]
    from_jsonl: Option<String>,
    /// Script and its arguments, or a command after --
    #[arg(trailing_var_arg = true, value_name = "SCRIPT | -- COMMAND")]
    #[arg(help_heading = None::<&'static str>)]
    words: Vec<String>,
}

/// Runs the verb. `is_command` says whether `--` precedes the words.
pub fn run(args: SubmitArgs, is_command: bool, session: &Session) -> Result {
    let quiet = args.parsable || session.screen.quiet;
    if let Some(path) = &args.from_jsonl {
        return many(&args, path, session);
    }
    let mut request = match (args.words.split_first(), is_command) {
        (None, _) => {
            return Err(Failure::new(errors::USAGE, "there is nothing to submit")
                .tip("gpool submit train.sh")
                .tip("gpool submit --gpus 1 -- python train.py"));
        }
        (Some(_), true) => request::of_command(args.flags, &args.words)?,
        (Some((script, arguments)), false) => {
            request::of_script(args.flags, &Script::read(script)?, arguments)?
        }
    };
    let client = session.client()?;
    request.resolve(&client, session)?;
    if !quiet {
        say(&request, session);
    }
    if args.dry_run {
        return dry_run(&client, &request.job, session);
    }
    let job = hand_in(&client, &request)?;
    if !quiet {
        note_terms(&job, session);
    }
    if session.global.json {
        session.screen.data(&json::one(&job))?;
    } else {
        session.screen.data(&format!("{}\n", job.id))?;
    }
    if !quiet && !session.global.json {
        note_wait(&client, &job, session);
    }
    Ok(Exit::OK)
}

/// Submits a file of jobs in one transaction. Flags are the defaults of all lines.
fn many(args: &SubmitArgs, path: &str, session: &Session) -> Result {
    let mut request = request::of_many(args.flags.clone())?;
    let mut lines: Box<dyn Read> = match path {
        "-" => Box::new(std::io::stdin()),
        path if Path::new(path).is_dir() => {
            let what = format!("{path} is a directory, not a file of jobs");
            return Err(Failure::new(catalogue::SCRIPT_MISSING, what));
        }
        path => Box::new(File::open(path).map_err(|error| {
            Failure::new(catalogue::SCRIPT_MISSING, format!("can't read {path}: {error}"))
        })?),
    };
    let client = session.client()?;
    request.resolve(&client, session)?;
    let defaults = BulkDefaults { defaults: request.job };
    let mut first = serde_json::to_vec(&defaults).unwrap_or_default();
    first.push(b'\n');
    let mut body = first.as_slice().chain(&mut lines);
    if args.dry_run {
        let forecasts =
            client.forecast_many(&mut body).map_err(|error| at_line(error.problem(), path))?;
        let n_starts = forecasts.items.iter().filter(|forecast| forecast.starts).count();
        let n_jobs = forecasts.items.len();
        session.screen.data(&format!("{n_jobs} jobs; {n_starts} would start at once\n"))?;
        return Ok(Exit::OK);
    }
    let answer = client.submit_many(&mut body, Some(&new_key())).map_err(|error| {
        match error.is_unsure() {
            true => unsure(error),
            false => at_line(error.problem(), path),
        }
    })?;
    if session.global.json {
        let items: Vec<_> = answer.ids().map(|id| json!({"id": id})).collect();
        session.screen.data(&json::list(&items))?;
        return Ok(Exit::OK);
    }
    // A million ids are written as they arrive, and not collected first.
    let mut out = BufWriter::new(std::io::stdout().lock());
    for id in answer.ids() {
        writeln!(out, "{id}").map_err(|error| not_written(&error))?;
    }
    out.flush().map_err(|error| not_written(&error))?;
    Ok(Exit::OK)
}

/// The failure for a line of the file. The server also counts the line with the defaults, which the
/// user does not see.
fn at_line(mut problem: Problem, path: &str) -> Failure {
    if let Some(line) = problem.line
        && let Some(what) = problem.detail.strip_prefix(&format!("line {line}: "))
    {
        let path = if path == "-" { "standard input" } else { path };
        problem.detail = format!("{path}, line {}: {what}", line.saturating_sub(1));
    }
    Failure::from(problem)
}

impl SubmitArgs {
    /// The script and its arguments, or the command.
    #[must_use]
    pub fn words(&self) -> &[String] {
        &self.words
    }
}
