//! The page that explains why a job waits: `gpool why`.

mod nodes;
mod start;

use std::collections::BTreeMap;

use gpool_cli::render::clock::span;
use gpool_cli::render::page::Page;
use gpool_cli::render::reason::sentence;
use gpool_cli::render::safe::safe;
use gpool_cli::render::view::View;
use gpool_cli::render::words::{self, count, indexes};
use gpool_model::job::JobState;
use gpool_wire::{Ahead, Attempted, Job, JobEvent, Place, PlacedOn, Reason, Why};
use unicode_width::UnicodeWidthStr as _;

use super::arrays;

const WIDTH: usize = 80;
/// Indentation of the lines below a heading.
const INDENT: &str = "  ";
/// Reasons that the page explains by the GPUs of each node.
const OF_CAPACITY: &[&str] = &[
    "gpus_not_free",
    "gpus_not_free_together",
    "gpu_share_not_free",
    "share_not_allowed",
    "nodes_not_free",
    "tasks_not_free",
    "paused_on",
    "paused_on_missing",
];
/// Reasons that do not block alone and explain those that do.
const CONTEXT: &[&str] = &["only_in_pool", "only_on_nodes", "gpu_time_had"];
/// Most reasons shown of one kind.
const OF_KIND_MAX: usize = 4;
/// A shorter wait is not mentioned.
const SHORT_S: f64 = 1.0;

#[must_use]
pub fn page(why: &Why, view: &View<'_>) -> String {
    match why.job.state {
        JobState::Held | JobState::Waiting | JobState::Pending | JobState::Paused => {
            waiting(why, view)
        }
        _ => not_waiting(why, view),
    }
}

/// The page of a job that does not wait, or that already has its devices: its state, and how long
/// it waited.
fn not_waiting(why: &Why, view: &View<'_>) -> String {
    let job = &why.job;
    let mut page = Page::default();
    wrapped(&mut page, "", &format!("{} {}.", name(job, view), state(job, view)));
    if let Some(stalled) = &job.run.stalled {
        wrapped(&mut page, "", &format!("It is paused at the moment, and waits: {stalled}."));
    }
    if let Some(lost) = &why.lost {
        wrapped(&mut page, "", &format!("{}.", safe(lost)));
    }
    if let Some(why) = &job.run.not_released {
        wrapped(&mut page, "", &format!("Its GPUs are not released: {why}."));
    }
    wrapped(&mut page, "", &waited(why, view).unwrap_or_default());
    node_events(&mut page, why, view);
    attempts(&mut page, job, view);
    if !why.reasons.is_empty() {
        page.line(match job.array.is_some() {
            true => "Its other elements wait because",
            false => "It has not started yet because",
        });
        reasons(&mut page, why, view);
    }
    let id = &job.id;
    let is_failure = matches!(job.state, JobState::Failed | JobState::TimedOut | JobState::Lost);
    let mut next = format!("Events: gpool events {id}.");
    if is_failure && !job.private {
        if job.run.started_at.is_some() {
            next.insert_str(0, &format!("Output: gpool logs {id}. "));
        }
        next.push_str(&format!(" Again: gpool retry {id}."));
    }
    page.line(&next);
    page.text()
}

fn waiting(why: &Why, view: &View<'_>) -> String {
    let job = &why.job;
    let name = name(job, view);
    let mut page = Page::default();
    let state = match job.run.paused_since {
        Some(since) => {
            let since = view.clock.short(since, view.now);
            format!("has been paused since {since} on {}", places(&job.placement))
        }
        None => "waits".to_owned(),
    };
    wrapped(&mut page, "", &format!("{name} {state}."));
    attempts(&mut page, job, view);
    match (why.reasons.is_empty(), job.run.paused_since) {
        (true, _) => page.line("Nothing blocks it: it starts with the next decision."),
        (false, None) => page.line("It waits because"),
        (false, Some(_)) => page.line("It does not continue because"),
    }
    reasons(&mut page, why, view);
    if let Some(lost) = &why.lost {
        wrapped(&mut page, INDENT, &format!("{}.", safe(lost)));
    }
    start::expected(&mut page, why, view);
    if let Some(place) = why.place.as_ref().filter(|it| it.n_ahead > 0 && !is_ahead(why)) {
        label(&mut page, "Queue", &format!("{}.", ahead(place, view)));
    }
    start::sooner(&mut page, why, view);
    page.text()
}

/// `Job 4 (train)`; for jobs of other users `Job 4 (train) of ana`.
fn name(job: &Job, view: &View<'_>) -> String {
    let name = if job.private { String::new() } else { format!(" ({})", job.name) };
    let of = if job.user == view.me { String::new() } else { format!(" of {}", job.user) };
    format!("Job {}{name}{of}", job.id)
}

/// The state of a job that does not wait, as the rest of a sentence.
fn state(job: &Job, view: &View<'_>) -> String {
    let on = match job.placement.as_slice() {
        [] => String::new(),
        placement => format!(" on {}", places(placement)),
    };
    let since = job.run.started_at.map(|at| view.clock.short(at, view.now));
    let ended = job.run.ended_at.map(|at| format!(" at {}", view.clock.short(at, view.now)));
    let (ended, end) = (ended.unwrap_or_default(), words::end(job));
    match job.state {
        JobState::Running => match (&job.array, since) {
            (Some(array), _) => format!("is running: {}", arrays::progress(array)),
            (None, Some(since)) => {
                let idle =
                    job.run.idle_since.map(|at| format!(", idle: {}", super::job::idle(at, view)));
                format!("has been running since {since}{on}{}", idle.unwrap_or_default())
            }
            (None, None) => format!("is running{on}"),
        },
        JobState::Starting => format!("is starting{on}"),
        JobState::Stopping => match &job.run.cause_text {
            Some(cause) => format!("is stopping{on}: {cause}"),
            None => format!("is stopping{on}"),
        },
        JobState::Succeeded => format!("succeeded{ended}"),
        JobState::Failed => format!("failed{ended}: {end}"),
        JobState::TimedOut => format!("timed out{ended}: {end}"),
        JobState::Lost => format!("was lost{ended}: {end}"),
        JobState::Cancelled => match end.strip_prefix("cancelled by ") {
            Some(by) => format!("was cancelled{ended} by {}", view.user(by)),
            None => format!("was cancelled{ended}: {end}"),
        },
        JobState::Held | JobState::Waiting | JobState::Pending | JobState::Paused => {
            words::state(job.state.as_str())
        }
    }
}

/// Where a job runs: `lab1, GPUs 0–1`.
fn places(placement: &[PlacedOn]) -> String {
    let place = |placed: &PlacedOn| match placed.devices.as_slice() {
        [] => placed.node.clone(),
        [one] => format!("{}, GPU {one}", placed.node),
        devices => format!("{}, GPUs {}", placed.node, indexes(devices)),
    };
    placement.iter().map(place).collect::<Vec<_>>().join("; ")
}

/// How long a job waited, and for which jobs.
fn waited(why: &Why, view: &View<'_>) -> Option<String> {
    if let Some(event) = why.life.iter().find(|event| event.kind == "waited") {
        return Some(view.clock.localized(&format!("It {}.", event.text), view.now));
    }
    let job = &why.job;
    (job.wait.waited_s >= SHORT_S && job.array.is_none()).then(|| match job.run.started_at {
        Some(_) => format!("It waited {}.", span(job.wait.waited_s)),
        None => format!("It waited {} and did not start.", span(job.wait.waited_s)),
    })
}

/// Adds the last moves between GPUs, and the last events about GPU memory above a request.
fn node_events(page: &mut Page, why: &Why, view: &View<'_>) {
    const EVENTS_MAX: usize = 4;
    const KINDS: [&str; 6] =
        ["loan", "loan_called", "guarantee_late", "not_limited", "moved", "not_moved"];
    let is_shown = |event: &&JobEvent| KINDS.contains(&&*event.kind);
    let all: Vec<&JobEvent> = why.life.iter().filter(is_shown).collect();
    for event in &all[all.len().saturating_sub(EVENTS_MAX)..] {
        page.line(&super::life::line(event, view));
    }
}

/// Adds the reasons that block a job, each as a sentence, with those of the same kind for other
/// nodes and those that explain them. If none blocks alone, all are shown.
fn reasons(page: &mut Page, why: &Why, view: &View<'_>) {
    let is_blocking =
        |code: &str| why.reasons.iter().any(|reason| reason.blocking && reason.code == code);
    let some_block = why.reasons.iter().any(|reason| reason.blocking);
    let is_shown = |reason: &&Reason| {
        let code = reason.code.as_str();
        !some_block || is_blocking(code) || CONTEXT.contains(&code)
    };
    let mut nodes = Some(nodes::sentences(why, view)).filter(|it| !it.is_empty());
    let mut shown: BTreeMap<&str, usize> = BTreeMap::new();
    let (mut n_jobs, mut n_others) = (why.n_more_reasons, 0);
    for reason in why.reasons.iter().filter(is_shown) {
        let n_shown = shown.entry(&reason.code).or_default();
        *n_shown += 1;
        if *n_shown > OF_KIND_MAX {
            *(if reason.code == "waits_for_job" { &mut n_jobs } else { &mut n_others }) += 1;
            continue;
        }
        let mut text = format!("{}.", self::reason(reason, why, view));
        if OF_CAPACITY.contains(&reason.code.as_str())
            && let Some(nodes) = nodes.take()
        {
            text = format!("{text} {nodes}");
        }
        wrapped(page, INDENT, &text);
    }
    if n_others > 0 {
        let more = count(n_others, "more such reason");
        page.line(&format!("{INDENT}{more}: gpool why {} -o json", why.job.id));
    }
    if let Some(more) = words::more_reasons(n_jobs) {
        page.line(&format!("{INDENT}It waits for {more}."));
    }
}

fn reason(reason: &Reason, why: &Why, view: &View<'_>) -> String {
    match &why.place {
        Some(place) if reason.code == "ahead_in_order" && place.n_ahead > 0 => ahead(place, view),
        _ => sentence(reason, &why.job.user, view),
    }
}

/// Whether the reasons name the jobs before it.
fn is_ahead(why: &Why) -> bool {
    let is_ahead = |reason: &Reason| reason.blocking && reason.code == "ahead_in_order";
    why.reasons.iter().any(is_ahead)
}

/// The jobs before it: `2 jobs are before it: 1840 (ana, 1 GPU), 1841 (you, 2 GPUs)`.
fn ahead(place: &Place, view: &View<'_>) -> String {
    let name =
        |job: &Ahead| format!("{} ({}, {})", job.job, view.user(&job.user), words::gpus(&job.gpus));
    let named = place.ahead.iter().map(name).collect::<Vec<_>>().join(", ");
    let verb = if place.n_ahead == 1 { "is" } else { "are" };
    let jobs = format!("{} {verb} before it", count(place.n_ahead, "job"));
    match place.ahead.len() as u64 {
        0 => jobs,
        n if n < place.n_ahead => format!("{jobs}, the last: {named}"),
        _ => format!("{jobs}: {named}"),
    }
}

fn attempts(page: &mut Page, job: &Job, view: &View<'_>) {
    for attempt in &job.run.attempts {
        wrapped(page, "", &attempt_line(attempt, view));
    }
}

/// An earlier attempt: `Run 1 ran 14:02–14:40 (38m): preempted for job 12, which has …`.
fn attempt_line(attempt: &Attempted, view: &View<'_>) -> String {
    let ended = view.clock.short(attempt.ended_at, view.now);
    let ran = match attempt.started_at {
        Some(started) => {
            let length = attempt.ended_at.0.since(started.0);
            format!("ran {}–{ended} ({length})", view.clock.short(started, view.now))
        }
        None => format!("did not start, ended {ended}"),
    };
    let code = attempt.exit_code.map(|code| format!(", exit {code}")).unwrap_or_default();
    let end = match (&attempt.cause_text, attempt.again.as_str()) {
        (Some(cause), _) => cause.clone(),
        (None, "retry") => format!("{}{code}, and runs again", words::state(&attempt.outcome)),
        (None, "node_failed") => "its node failed".to_owned(),
        (None, "requeued") => "returned to the queue".to_owned(),
        (None, again) => again.replace('_', " "),
    };
    format!("Run {} {ran}: {end}.", attempt.attempt)
}

/// Adds a line with a label in the first column.
fn label(page: &mut Page, label: &str, text: &str) {
    const COLUMN: usize = 17;
    let lines = lines(text, WIDTH - COLUMN);
    for (n, line) in lines.iter().enumerate() {
        let label = if n == 0 { label } else { "" };
        page.line(&format!("{label:<COLUMN$}{line}"));
    }
}

/// Adds a text as lines that are not wider than the page; words stay whole.
fn wrapped(page: &mut Page, indent: &str, text: &str) {
    for line in lines(text, WIDTH - indent.width()) {
        page.line(&format!("{indent}{line}"));
    }
}

fn lines(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ').filter(|word| !word.is_empty()) {
        match lines.last_mut() {
            Some(line) if line.width() + 1 + word.width() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}
