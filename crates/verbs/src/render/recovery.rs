//! The recovery at the last start of a server: one line for `up` and `status`, several for
//! `doctor`.

use gpool_cli::render::view::View;
use gpool_cli::render::words::count;
use gpool_wire::{Became, Before, RecoveredJob, Recovery};

/// Most ids in one line.
const NAMED_MAX: usize = 20;

/// One line of the recovery report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecoveryLine {
    /// The subject of the line.
    pub what: &'static str,
    /// Whether something was lost or wrong.
    pub is_bad: bool,
    /// The finding.
    pub text: String,
}

/// The report in one line; `None` if there is nothing to report.
#[must_use]
pub fn in_short(recovery: &Recovery, view: &View<'_>) -> Option<String> {
    let n = |became| n_of(recovery, became);
    let mut parts = Vec::new();
    match n(Became::WentOn) {
        0 => {}
        jobs => parts.push(format!("took over {}", count(jobs, "running job"))),
    }
    match n(Became::Again) {
        0 => {}
        jobs => parts.push(format!("started {} again", count(jobs, "job"))),
    }
    match n(Became::Ended) {
        0 => {}
        jobs => parts.push(format!("{jobs} ended in the meantime")),
    }
    if let lost @ 1.. = n(Became::Lost) {
        let by = match recovery.rebooted_at {
            Some(at) if recovery.before == Before::MachineDown => {
                format!(" to the reboot at {}", view.clock.short(at, view.now))
            }
            _ => String::new(),
        };
        parts.push(format!("{lost} {} lost{by}", if lost == 1 { "was" } else { "were" }));
    }
    if parts.is_empty() && !recovery.is_notable() {
        return None;
    }
    if let waiting @ 1.. = recovery.n_waiting {
        parts.push(format!("{waiting} {} waiting", if waiting == 1 { "is" } else { "are" }));
    }
    if parts.is_empty() {
        parts.push("no job was running or waiting".to_owned());
    }
    let text = parts.join("; ");
    Some(if recovery.is_notable() { format!("{text}: gpool doctor") } else { text })
}

#[must_use]
pub fn lines(recovery: &Recovery, view: &View<'_>) -> Vec<RecoveryLine> {
    let line = |what, is_bad, text| RecoveryLine { what, is_bad, text };
    let started = view.clock.full(recovery.started_at);
    let mut lines =
        vec![line("last start", false, format!("{started}; {}", before(recovery, view)))];
    if recovery.before == Before::Nothing {
        return lines;
    }
    if let Some(at) = recovery.rebooted_at {
        let text = format!("the machine was started at {}", view.clock.full(at));
        lines.push(line("restart", false, text));
    }
    let named = |became| -> Vec<&RecoveredJob> { recovery.that(became).collect() };
    let went_on = named(Became::WentOn);
    if !went_on.is_empty() {
        let text = format!(
            "{} and {} taken over: {}",
            went_on_words(&went_on),
            was(&went_on),
            ids(&went_on)
        );
        lines.push(line("continued", false, text));
    }
    let again = named(Became::Again);
    if !again.is_empty() {
        let text = format!("{}, which had not started: {}", jobs(&again), ids(&again));
        lines.push(line("ordered again", false, text));
    }
    let ended = named(Became::Ended);
    if !ended.is_empty() {
        let text =
            format!("{} ended without a server, with known results: {}", jobs(&ended), ids(&ended));
        lines.push(line("ended", false, text));
    }
    for (job, why) in shown_lost(&named(Became::Lost)) {
        lines.push(line("lost", true, format!("job {job}: {why}")));
    }
    let waiting = match recovery.n_waiting {
        0 => "no waiting jobs".to_owned(),
        1 => "1 waiting job".to_owned(),
        n => format!("{n} waiting jobs"),
    };
    lines.push(line("queue", false, waiting));
    if !recovery.unexpected.is_empty() {
        let text = format!("found and ended unknown runs: {}", some(&recovery.unexpected));
        lines.push(line("unexpected", true, text));
    }
    if recovery.n_skipped_jobs > 0 {
        let n = gpool_cli::render::words::grouped(recovery.n_skipped_jobs);
        let text = format!("{n} are skipped: jobs may have used them after the restored backup");
        lines.push(line("job numbers", false, text));
    }
    lines
}

fn before(recovery: &Recovery, view: &View<'_>) -> String {
    let seen = recovery.last_seen_at.map(|at| view.clock.full(at));
    let last = |text: &str| match &seen {
        Some(seen) => format!("{text}; its last record is of {seen}"),
        None => text.to_owned(),
    };
    match recovery.before {
        Before::Nothing => "the first start: the store is new".to_owned(),
        Before::Stopped => match &seen {
            Some(seen) => format!("the previous server was stopped at {seen}"),
            None => "the previous server was stopped".to_owned(),
        },
        Before::Killed => last("the previous server was killed or failed"),
        Before::MachineDown => {
            last("the machine went down with the previous server (power cut, crash or restart)")
        }
        Before::Restored => last("the store was restored from a backup"),
    }
}

fn n_of(recovery: &Recovery, became: Became) -> u64 {
    u64::try_from(recovery.that(became).count()).unwrap_or(u64::MAX)
}

fn jobs(of: &[&RecoveredJob]) -> String {
    count(u64::try_from(of.len()).unwrap_or(u64::MAX), "job")
}

fn went_on_words(of: &[&RecoveredJob]) -> String {
    format!("{} continued", jobs(of))
}

fn was(of: &[&RecoveredJob]) -> &'static str {
    if of.len() == 1 { "was" } else { "were" }
}

fn ids(of: &[&RecoveredJob]) -> String {
    let name = |job: &&RecoveredJob| match (job.became, job.exit_code) {
        (Became::Ended, Some(code)) => format!("{} (exit {code})", job.id),
        (Became::Ended, None) => {
            format!("{} ({})", job.id, gpool_cli::render::words::state(job.state.as_str()))
        }
        _ => job.id.clone(),
    };
    some(&of.iter().map(name).collect::<Vec<_>>())
}

/// A list with the first names and the number of the others.
fn some(names: &[String]) -> String {
    let first = names[..names.len().min(NAMED_MAX)].join(", ");
    match names.len() - names.len().min(NAMED_MAX) {
        0 => first,
        more => format!("{first} and {more} more"),
    }
}

/// Each lost job with its cause; many lost jobs in one line.
fn shown_lost(lost: &[&RecoveredJob]) -> Vec<(String, String)> {
    let why = |job: &RecoveredJob| {
        let (id, cause) = (&job.id, job.cause_text.as_deref().or(job.cause.as_deref()));
        let cause = cause.unwrap_or("unknown cause");
        format!("{cause}. Its output: gpool logs {id}; to run it again: gpool retry {id}")
    };
    let mut shown: Vec<(String, String)> =
        lost.iter().take(NAMED_MAX).map(|job| (job.id.clone(), why(job))).collect();
    if let Some(rest) = lost.get(NAMED_MAX..).filter(|rest| !rest.is_empty()) {
        shown.push((ids(rest), "gpool queue --state lost lists them".to_owned()));
    }
    shown
}
