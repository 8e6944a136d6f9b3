//! Submits a job, prints notes about it, and makes dry runs.

use gpool_client::{Client, Error, new_key};
use gpool_model::job::JobState;
use gpool_wire::{Delayed, Forecast, Job, JobCreate};

use crate::exit::Exit;
use crate::failure::{Failure, Result};
use crate::render::clock::span;
use crate::render::eta::likely;
use crate::render::safe::safe;
use crate::render::view::View;
use crate::render::{json, reason, words};
use crate::request::{self, Request};
use crate::session::Session;

/// Prints the notes and warnings of a request.
pub fn say(request: &Request, session: &Session) {
    for remark in &request.remarks {
        session.screen.note(&format!("note: {remark}"));
    }
    for warning in &request.warnings {
        session.screen.warn(warning);
    }
}

/// Prints where the accepted job differs from its request, and suggestions for the next one.
pub fn note_terms(job: &Job, session: &Session) {
    job.notes.iter().for_each(|note| session.screen.warn(note));
    for hint in &job.hints {
        let flags = hint.flags.as_ref().map(|flags| format!("; {flags} would let it share a GPU"));
        let text = format!("note: {}{}", hint.text, flags.unwrap_or_default());
        session.screen.note(&safe(&text));
    }
}

/// Submits a job, or refuses it if it would have to wait and `--no-queue` is given.
///
/// # Errors
/// The server refuses, or the job would have to wait.
pub fn hand_in(client: &Client, request: &Request) -> Result<Job> {
    if request.no_queue {
        let forecast = client.forecast(&request.job)?;
        if !forecast.starts {
            return Err(request::would_wait(&forecast.reasons));
        }
    }
    let job = client.submit(&request.job, Some(&new_key())).map_err(unsure)?;
    // Another job may have started since the forecast.
    if request.no_queue && !job.wait.reasons.is_empty() && job.placement.is_empty() {
        client.cancel(std::slice::from_ref(&job.id))?;
        return Err(request::would_wait(&job.wait.reasons));
    }
    Ok(job)
}

/// Explains that a submission without an answer may have succeeded, and how to find out.
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

/// Prints why a job does not start at once, or when it will.
pub fn note_wait(client: &Client, job: &Job, session: &Session) {
    let view = session.view();
    let Some(note) = waits(job, &view) else { return };
    // A failure here does not matter: the job is submitted. A held job has no forecast.
    let is_held = job.state == JobState::Held;
    let why = (!is_held).then(|| client.why_briefly(&job.id).ok()).flatten();
    let (eta, missing) = why.map(|why| (why.eta, why.eta_missing)).unwrap_or_default();
    let id = &job.id;
    let note = match (eta, missing.filter(|_| job.request.deadline.is_some())) {
        (Some(eta), _) => {
            let likely = likely(&eta, &view);
            format!("job {id} waits. {likely}. gpool why {id}")
        }
        (None, Some(missing)) => {
            let missing = view.clock.localized(&missing, view.now);
            format!("job {id} waits: {missing}. gpool why {id}")
        }
        (None, None) => note,
    };
    session.screen.note(&format!("note: {note}"));
}

/// Prints the result of a dry run.
pub fn dry_run(client: &Client, job: &JobCreate, session: &Session) -> Result {
    let forecast = client.forecast(job)?;
    if session.global.json {
        session.screen.data(&json::one(&forecast))?;
        return Ok(Exit::OK);
    }
    let text = match forecast.starts {
        true => format!("would start at once on {}\n", words::places(&forecast.placement)),
        false => {
            let (me, view) = (session.me(), session.view());
            let reasons = forecast.reasons.iter();
            let reasons = reasons.map(|it| format!("  {}\n", reason::sentence(it, me, &view)));
            let more = words::more_reasons(forecast.n_more_reasons);
            let more = more.map(|more| format!("  It waits for {more}\n")).unwrap_or_default();
            format!("would wait\n{}{more}", reasons.collect::<String>())
        }
    };
    let mut text = text;
    let is_held = forecast.reasons.iter().any(|it| it.code == "over_budget");
    if let Some(eta) = forecast.eta.as_ref().filter(|_| !forecast.starts && !is_held) {
        text.push_str(&format!("{}\n", likely(eta, &session.view())));
    }
    text.push_str(&delays(&forecast, session));
    session.screen.data(&text)?;
    Ok(Exit::OK)
}

/// The jobs that it would delay, the longest delay first.
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

/// Why a job does not start at once, and what to do next:
/// `job 1844 waits. It needs 4 GPUs, and 2 are free. gpool why 1844`.
#[must_use]
pub fn waits(job: &Job, view: &View<'_>) -> Option<String> {
    let id = &job.id;
    let text = match job.state {
        JobState::Held => match job.wait.reasons.first().filter(|it| it.code != "held_by_user") {
            None => format!("job {id} is held. gpool release {id}"),
            Some(first) => {
                format!("{}. gpool why {id}", reason::of_job(id, first, &job.user, view))
            }
        },
        JobState::Waiting | JobState::Pending => {
            let why = reason::of_job(id, job.wait.reasons.first()?, &job.user, view);
            format!("{why}. gpool why {id}")
        }
        _ => return None,
    };
    Some(safe(&text).into_owned())
}
