//! `gpool submit`: hands in a job, or many, and prints their ids.

use std::fs::File;
use std::io::{BufWriter, Read, Write as _};
use std::path::Path;

use clap::Args;
use gpool_client::{Client, Error, new_key};
use gpool_wire::create::BulkDefaults;
use gpool_wire::{Delayed, Forecast, Job, JobCreate, Problem, catalogue};
use serde_json::json;

use crate::args::job_flags::JobFlags;
use crate::errors;
use crate::exit::Exit;
use crate::failure::{Failure, Result};
use crate::render::clock::span;
use crate::render::eta::likely;
use crate::render::job::waits;
use crate::render::json;
use crate::render::words;
use crate::request::{self, Request};
use crate::screen::not_written;
use crate::script::Script;
use crate::session::Session;

/// Hand in a job and print its id
#[derive(Debug, Clone, Args)]
#[command(after_help = "gpool submit [FLAGS] SCRIPT [ARGUMENTS…]\n\
    gpool submit [FLAGS] -- COMMAND [ARGUMENTS…]\n\n\
    Lines '# GPOOL --gpus 2 --time 1h' at a script's start are flags, and so are variables such as \
    GPOOL_SUBMIT_GPUS=2. The command line goes before both.")]
pub struct SubmitArgs {
    #[command(flatten)]
    flags: JobFlags,
    /// Print only the id, as -q does
    #[arg(long)]
    parsable: bool,
    /// Say what would happen, and do nothing
    #[arg(long)]
    dry_run: bool,
    /// Many jobs, a line of JSON each; - is standard input
    #[arg(long, value_name = "FILE", conflicts_with = "words")]
    from_jsonl: Option<String>,
    /// A script and its arguments, or a command after --
    #[arg(trailing_var_arg = true, value_name = "SCRIPT | -- COMMAND")]
    words: Vec<String>,
}

/// Runs it. `is_command` says whether two dashes stood before the words.
///
/// # Errors
/// What was asked is not understood, impossible or refused.
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

/// Says what may surprise.
pub fn say(request: &Request, session: &Session) {
    for remark in &request.remarks {
        session.screen.note(&format!("note: {remark}"));
    }
    for warning in &request.warnings {
        session.screen.warn(warning);
    }
}

/// Says what a job gets other than it asked for.
pub fn note_terms(job: &Job, session: &Session) {
    job.notes.iter().for_each(|note| session.screen.warn(note));
}

/// Submits it, or refuses it where it may not wait.
///
/// # Errors
/// The server refuses, or it would have to wait and may not.
pub fn hand_in(client: &Client, request: &Request) -> Result<Job> {
    if request.no_queue {
        let forecast = client.forecast(&request.job)?;
        if !forecast.starts {
            return Err(request::would_wait(&forecast.reasons));
        }
    }
    let job = client.submit(&request.job, Some(&new_key())).map_err(unsure)?;
    // Somebody may have been faster since the forecast.
    if request.no_queue && !job.reasons.is_empty() && job.placement.is_empty() {
        client.cancel(std::slice::from_ref(&job.id))?;
        return Err(request::would_wait(&job.reasons));
    }
    Ok(job)
}

/// Says that a submission without an answer may have been carried out, and how to find out.
pub fn unsure(error: Error) -> Failure {
    let is_unsure = error.is_unsure();
    let failure = Failure::from(error);
    if !is_unsure {
        return failure;
    }
    failure
        .why("the job may have been submitted: the server has not confirmed it")
        .tip("gpool show @   (your newest job, once a server answers)")
}

/// Says why a job does not start at once, or when it will.
pub fn note_wait(client: &Client, job: &Job, session: &Session) {
    let Some(note) = waits(job) else { return };
    // Whether it can be said or not, the job was handed in.
    let why = client.why_briefly(&job.id).ok();
    let (eta, missing) = why.map(|why| (why.eta, why.eta_missing)).unwrap_or_default();
    let id = &job.id;
    let note = match (eta, missing.filter(|_| job.deadline.is_some())) {
        (Some(eta), _) => {
            let likely = likely(&eta, &session.view());
            format!("job {id} waits. {likely}. gpool why {id}")
        }
        (None, Some(missing)) => format!("job {id} waits. {missing}. gpool why {id}"),
        (None, None) => note,
    };
    session.screen.note(&format!("note: {note}"));
}

/// Says what would become of it.
///
/// # Errors
/// The server refuses it.
pub fn dry_run(client: &Client, job: &JobCreate, session: &Session) -> Result {
    let forecast = client.forecast(job)?;
    if session.global.json {
        session.screen.data(&json::one(&forecast))?;
        return Ok(Exit::OK);
    }
    let text = match forecast.starts {
        true => format!("would start at once on {}\n", words::places(&forecast.placement)),
        false => {
            let reasons = forecast.reasons.iter().map(|reason| format!("  {}\n", reason.text));
            let more = words::more_reasons(forecast.n_more_reasons);
            let more = more.map(|more| format!("  {more}\n")).unwrap_or_default();
            format!("would wait\n{}{more}", reasons.collect::<String>())
        }
    };
    let mut text = text;
    if let Some(eta) = forecast.eta.as_ref().filter(|_| !forecast.starts) {
        text.push_str(&format!("{}\n", likely(eta, &session.view())));
    }
    text.push_str(&delays(&forecast, session));
    session.screen.data(&text)?;
    Ok(Exit::OK)
}

/// Whom it would delay, the worst first.
fn delays(forecast: &Forecast, session: &Session) -> String {
    const NAMED: usize = 5;
    let view = session.view();
    let name = |delayed: &Delayed| {
        let by = span(delayed.by_s);
        format!("  job {} ({}) by {by}\n", delayed.job, view.user(&delayed.user))
    };
    let n = forecast.delays.len();
    let mut text = match n {
        0 => return String::new(),
        n => format!("would delay {}\n", words::count(n as u64, "job")),
    };
    text.extend(forecast.delays.iter().take(NAMED).map(name));
    if n > NAMED {
        text.push_str(&format!("  and {} more\n", n - NAMED));
    }
    text
}

/// Submits a file of jobs in one transaction. What flags say is what lines leave out.
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
        session
            .screen
            .data(&format!("{n_jobs} jobs, of which {n_starts} would start at once\n"))?;
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
    // A million ids are written as they come, not gathered first.
    let mut out = BufWriter::new(std::io::stdout().lock());
    for id in answer.ids() {
        writeln!(out, "{id}").map_err(|error| not_written(&error))?;
    }
    out.flush().map_err(|error| not_written(&error))?;
    Ok(Exit::OK)
}

/// A problem with a line of the file. The server counts the line of defaults, which the user does
/// not see.
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
