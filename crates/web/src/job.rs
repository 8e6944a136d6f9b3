//! The page of a job: its state, why it waits, its events and the end of its output.

use askama::Template;
use gpool_wire::{Job, JobEvent, Time};

use crate::text::{places, span, until};
use crate::written;

/// More events than this are not shown; the last ones are.
const EVENTS_MAX: usize = 200;

/// The contents of the page of a job.
#[derive(Debug, Clone, Copy)]
pub struct JobPage<'a> {
    /// The signed-in user.
    pub user: &'a str,
    /// The job.
    pub job: &'a Job,
    /// Its events, oldest first.
    pub events: &'a [JobEvent],
    /// The end of its output; `Err` says why it is not shown.
    pub output: Result<&'a str, &'a str>,
    /// The time of the answers.
    pub now: Time,
}

struct Event<'a> {
    at: String,
    ago: String,
    text: &'a str,
    by: &'a str,
}

#[derive(Template)]
#[template(path = "job.html")]
struct Page<'a> {
    user: &'a str,
    id: &'a str,
    name: &'a str,
    state: &'a str,
    rows: Vec<(&'static str, String)>,
    reasons: Vec<&'a str>,
    events: Vec<Event<'a>>,
    n_earlier: usize,
    output: String,
    no_output: &'a str,
}

impl JobPage<'_> {
    /// The page.
    #[must_use]
    pub fn page(&self) -> String {
        let Self { user, job, events, output, .. } = *self;
        let n_earlier = events.len().saturating_sub(EVENTS_MAX);
        let event = |it| self.event(it);
        let page = Page {
            user,
            id: &job.id,
            name: &job.name,
            state: job.state.as_str(),
            rows: self.rows(),
            reasons: job.reasons.iter().map(|reason| reason.text.as_str()).collect(),
            events: events[n_earlier..].iter().rev().map(event).collect(),
            n_earlier,
            output: output.map(readable).unwrap_or_default(),
            no_output: output.err().unwrap_or_default(),
        };
        written(&page)
    }

    fn event<'e>(&self, event: &'e JobEvent) -> Event<'e> {
        Event {
            at: event.time.to_string(),
            ago: format!("{} ago", span(until(self.now, event.time))),
            text: &event.text,
            by: event.by.as_deref().unwrap_or_default(),
        }
    }

    fn rows(&self) -> Vec<(&'static str, String)> {
        let job = self.job;
        let ago = |at: Time| format!("{} ago ({})", span(until(self.now, at)), at.short());
        let start = job.eta.as_ref().and_then(|eta| eta.p50);
        let seconds = |limit: f64| std::time::Duration::try_from_secs_f64(limit).ok();
        let limit = job.time_limit.and_then(seconds);
        let all = [
            ("User", Some(job.user.clone())),
            ("Project", Some(job.project.clone())),
            ("GPUs", Some(job.gpus.clone())),
            ("Place", Some(places(&job.placement)).filter(|it| !it.is_empty())),
            ("Priority", Some(job.priority.to_string())),
            ("Time limit", limit.map(|limit| span(limit.as_secs()))),
            ("Submitted", Some(ago(job.submitted_at))),
            ("Expected start", start.map(|at| format!("in {}", span(until(at, self.now))))),
            ("Started", job.started_at.map(ago)),
            ("Idle", job.idle_since.map(|at| format!("for {}", span(until(self.now, at))))),
            ("Ended", job.ended_at.map(ago)),
            ("Exit code", job.exit_code.map(|code| code.to_string())),
            ("Cause", job.cause_text.clone()),
            ("Command", Some(job.command.join(" ")).filter(|it| !it.is_empty())),
        ];
        all.into_iter().filter_map(|(label, text)| Some((label, text?))).collect()
    }
}

/// Output without control characters and terminal sequences.
fn readable(output: &str) -> String {
    let mut text = String::with_capacity(output.len());
    let mut chars = output.chars().peekable();
    while let Some(char) = chars.next() {
        match char {
            '\u{1b}' if chars.next_if_eq(&'[').is_some() => {
                // A control sequence ends with a letter or one of these (ECMA-48, 5.4).
                while chars.next().is_some_and(|it| !('@'..='~').contains(&it)) {}
            }
            '\n' | '\t' => text.push(char),
            char if char.is_control() => {}
            char => text.push(char),
        }
    }
    text
}
