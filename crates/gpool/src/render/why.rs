//! The page that explains why a job waits: `gpool why`.

use gpool_cli::render::clock::span;
use gpool_cli::render::eta::interval;
use gpool_cli::render::page::Page;
use gpool_cli::render::safe::safe;
use gpool_cli::render::view::View;
use gpool_cli::render::words::{self, count, indexes};
use gpool_model::device::DeviceState;
use gpool_model::job::JobState;
use gpool_wire::{Attempted, Place, Reason, Time, Why, WhyDevice, WhyNode, WhyReserved};
use unicode_width::UnicodeWidthStr as _;

use super::life;

/// Most changes shown that would help.
const HELPS_MAX: usize = 6;
/// Most changes shown that would not help.
const NO_GAIN_MAX: usize = 4;
/// The column of the marks; longer texts move it.
const COLUMN: usize = 66;

/// The whole answer.
#[must_use]
pub fn page(why: &Why, view: &View<'_>) -> String {
    let job = &why.job;
    let headline = format!(
        "Job {} \"{}\" ({}, project {}) wants {}.",
        job.id,
        job.name,
        view.user(&job.user),
        job.project,
        words::wants(job)
    );
    let mut page = Page::new(&headline);
    match job.state {
        JobState::Held | JobState::Waiting | JobState::Pending | JobState::Paused => {
            waiting(&mut page, why, view);
        }
        _ => not_waiting(&mut page, why, view),
    }
    page.text()
}

/// The page of a job that does not wait, or that already has its devices: its state and its events.
fn not_waiting(page: &mut Page, why: &Why, view: &View<'_>) {
    let job = &why.job;
    let now = view.clock.short(why.as_of, why.as_of);
    let word = words::state(job.state.as_str());
    let is = match job.state.is_end() {
        true => format!("it has ended: {word}, {}", words::end(job)),
        false => format!("it is in state {word}"),
    };
    if why.reasons.is_empty() {
        page.line(&format!("Now {now}. It waits for nothing: {is}."));
    } else {
        page.line(&format!("Now {now}. It is in state {word}, and not started yet because"));
    }
    for reason in &why.reasons {
        page.line(&format!("  {}", reason.text));
    }
    if let Some(more) = words::more_reasons(why.n_more_reasons) {
        page.line(&format!("  {more}"));
    }
    if !job.placement.is_empty() {
        page.line(&format!("Where: {}.", words::places(&job.placement)));
    }
    if !why.life.is_empty() {
        page.line("");
        page.line("What has happened to it");
    }
    for event in &why.life {
        page.line(&format!("  {}", life::line(event, view)));
    }
}

fn waiting(page: &mut Page, why: &Why, view: &View<'_>) {
    let job = &why.job;
    let now = view.clock.short(why.as_of, why.as_of);
    let word = words::state(job.state.as_str());
    match job.paused_since {
        Some(since) => {
            let since = view.clock.short(since, view.now);
            let cause = job.cause_text.as_ref().map(|it| format!(" ({it})")).unwrap_or_default();
            page.line(&format!("Now {now}. It is paused since {since}{cause}."));
            page.line(&format!("It goes on where it is: {}.", words::places(&job.placement)));
        }
        None => {
            page.line(&format!("Now {now}. It is {word} and has waited {}.", span(job.waited_s)))
        }
    }
    for attempt in &job.attempts {
        page.line(&attempt_line(attempt, view));
    }
    if let Some(place) = &why.place {
        page.line(&place_line(place, view));
    }
    page.line("");
    match (why.reasons.is_empty(), job.paused_since) {
        (true, _) => page.line("Nothing keeps it: it starts with the next decision."),
        (false, None) => page.line("Not started because"),
        (false, Some(_)) => page.line("It does not go on because"),
    }
    for line in reason_lines(&why.reasons) {
        page.line(&line);
    }
    if let Some(more) = words::more_reasons(why.n_more_reasons) {
        page.line(&format!("  {more}"));
    }
    for line in fine_lines(why) {
        page.line(&line);
    }
    for (n, node) in why.nodes.iter().enumerate() {
        let label = if n == 0 { "Nodes" } else { "" };
        page.line(&format!("{label:<11} {}", node_line(node)));
        let devices = device_line(&node.devices, view);
        if node.connected && !devices.is_empty() {
            page.line(&format!("{:<13} {devices}", ""));
        }
    }
    page.line("");
    expected(page, why, view);
    sooner(page, why, view);
    page.line(&format!("Decision log: gpool events {}", job.id));
}

/// An earlier attempt: `Run 1 ran 14:02–14:40 (38m): preempted for job 12, which has …`.
fn attempt_line(attempt: &Attempted, view: &View<'_>) -> String {
    let ended = view.clock.short(attempt.ended_at, view.now);
    let ran = match attempt.started_at {
        Some(started) => {
            let length = attempt.ended_at.0.since(started.0);
            format!("ran {}–{ended} ({length})", view.clock.short(started, view.now))
        }
        None => format!("never started, ended {ended}"),
    };
    let code = attempt.exit_code.map(|code| format!(", exit {code}")).unwrap_or_default();
    let end = match (&attempt.cause_text, attempt.again.as_str()) {
        (Some(cause), _) => cause.clone(),
        (None, "retry") => format!("{}{code}, and is run again", words::state(&attempt.outcome)),
        (None, "node_failed") => "its node failed".to_owned(),
        (None, "requeued") => "put back into the queue".to_owned(),
        (None, again) => again.replace('_', " "),
    };
    format!("Run {} {ran}: {end}.", attempt.attempt)
}

/// The position in the queue:
/// `2 jobs go first of the 48 that wait: 1840 (ana, 1 GPU), 1841 (ana, 2 GPUs).`
fn place_line(place: &Place, view: &View<'_>) -> String {
    let ahead: Vec<String> = place
        .ahead
        .iter()
        .map(|job| {
            let gpus = words::gpus(&job.gpus);
            format!("{} ({}, {gpus})", job.job, view.user(&job.user))
        })
        .collect();
    let named = match (ahead.len() as u64, place.n_ahead) {
        (0, _) => String::new(),
        (named, n) if named < n => format!(", the last of them {}", ahead.join(", ")),
        _ => format!(": {}", ahead.join(", ")),
    };
    let n_others = place.n_pending.saturating_sub(1);
    match (place.n_ahead, n_others) {
        (0, 0) => "No other job waits for the same room.".to_owned(),
        (0, n) => {
            format!("It is the first of {} that wait for the same room.", count(n + 1, "job"))
        }
        (n, _) => {
            let verb = if n == 1 { "goes" } else { "go" };
            let (jobs, n_pending) = (count(n, "job"), place.n_pending);
            format!("{jobs} {verb} first{named}; {n_pending} wait for the same room.")
        }
    }
}

/// Adds the expected start, and the jobs that must end first.
fn expected(page: &mut Page, why: &Why, view: &View<'_>) {
    let Some(eta) = &why.eta else {
        if let Some(missing) = &why.eta_missing {
            let none = if why.job.deadline.is_some() { "none" } else { "not known" };
            page.line(&format!("Expected start   {none}: {missing}"));
        }
        return;
    };
    if eta.p90.is_some() && eta.p90 == why.job.begin && why.frees.is_empty() {
        let begin = interval(eta, view);
        page.line(&format!("Expected start   {begin}, its begin time: there is room then"));
        return;
    }
    if let Some(at) = eta.planned_at {
        let at = view.clock.short(at, view.now);
        page.line(&format!("Planned start    by {at}: later jobs do not delay it"));
    }
    let middle = eta.p50.map(|at| format!(" (middle {})", view.clock.short(at, view.now)));
    let because = if why.frees.is_empty() { "" } else { ", because" };
    let when = interval(eta, view);
    let is_exact = eta.p10.is_some() && eta.p10 == eta.p90;
    let middle = middle.filter(|_| when != "now" && !is_exact).unwrap_or_default();
    let basis = match eta.basis.as_str() {
        "limit" => "by time limits",
        "predicted" => "by how long such jobs ran",
        _ => "by time limits and how long such jobs ran",
    };
    // If no job has to end first, the forecast does not depend on run times.
    let basis = match is_exact && why.frees.is_empty() {
        true => String::new(),
        false => format!(", {basis}"),
    };
    page.line(&format!("Expected start   {when}{middle}{basis}{because}"));
    for frees in &why.frees {
        let moment = |at: &Option<Time>| at.map(|at| view.clock.short(at, view.now));
        let at = match (moment(&frees.p10), moment(&frees.p90)) {
            (Some(from), Some(to)) if from == to => format!(" at {from}"),
            (Some(from), Some(to)) => format!(" at {from}–{to}"),
            (Some(from), None) => format!(" from {from} on"),
            (None, _) => String::new(),
        };
        let what = match frees.n_gpus {
            0 => "ends".to_owned(),
            n => format!("frees {}", count(u64::from(n), "GPU")),
        };
        let (job, user) = (&frees.job, view.user(&frees.user));
        page.line(&format!("  {job} ({user}) {what}{at} ({})", frees.because));
    }
}

/// Adds changes that would make it start sooner, and a few that would not.
fn sooner(page: &mut Page, why: &Why, view: &View<'_>) {
    let helps = why.alternatives.iter().filter(|it| it.helps).take(HELPS_MAX);
    let others = why.alternatives.iter().filter(|it| !it.helps).take(NO_GAIN_MAX);
    let shown: Vec<(String, String, String)> = helps
        .chain(others)
        .map(|it| {
            let when = it.eta.as_ref().map(|eta| interval(eta, view));
            let gain = it.gain_s.map(|gain| format!("{} sooner", span(gain)));
            match it.helps {
                true => (it.flags.clone(), when.unwrap_or_default(), gain.unwrap_or_default()),
                false => (it.flags.clone(), "no gain".to_owned(), String::new()),
            }
        })
        .collect();
    if shown.is_empty() {
        return;
    }
    page.line("It could start sooner with");
    let width = |of: fn(&(String, String, String)) -> &String| {
        shown.iter().map(|row| of(row).width()).max().unwrap_or(0)
    };
    let (first, second) = (width(|row| &row.0), width(|row| &row.1));
    for (flags, when, gain) in &shown {
        let gaps = (first - flags.width(), second - when.width());
        let line =
            format!("  {flags}{}   {when}{}   {gain}", " ".repeat(gaps.0), " ".repeat(gaps.1));
        page.line(line.trim_end());
    }
}

/// Checks that the job passes, where the user may wonder.
fn fine_lines(why: &Why) -> Vec<String> {
    if why.job.state != JobState::Pending {
        return Vec::new();
    }
    let kept = ["gpu", "agent", "node", "reserved", "not_reserved", "maintenance"];
    let is_kept =
        kept.iter().any(|start| why.reasons.iter().any(|reason| reason.code.starts_with(start)));
    let mut fine = Vec::new();
    if why.job.gpus != "0" && !is_kept {
        fine.push("enough GPUs of the kind are free");
    }
    if why.place.as_ref().is_some_and(|place| place.n_ahead == 0) {
        fine.push("no other job is considered before it");
    }
    let first = why.reasons.len() + 1;
    let line = |(n, text): (usize, &str)| {
        let gap = COLUMN.saturating_sub(text.width());
        format!("  {n}. {text}{:gap$} [ok]", "")
    };
    (first..).zip(fine).map(line).collect()
}

/// Numbered reasons, with a mark behind each that blocks alone; the marks form a column.
fn reason_lines(reasons: &[Reason]) -> Vec<String> {
    let texts: Vec<_> = reasons.iter().map(|reason| safe(&reason.text)).collect();
    let marked = texts.iter().zip(reasons).filter(|(_, reason)| reason.blocking);
    let column = marked.map(|(text, _)| text.width()).max().unwrap_or(0).max(COLUMN);
    let mut lines = Vec::with_capacity(reasons.len());
    for (n, (text, reason)) in texts.iter().zip(reasons).enumerate() {
        let mut line = format!("  {}. {text}", n + 1);
        if reason.blocking {
            let gap = column - text.width();
            line.push_str(&format!("{:gap$} [blocks]", ""));
        }
        lines.push(line);
    }
    lines
}

fn node_line(node: &WhyNode) -> String {
    if !node.connected {
        return format!("{}: its agent does not answer", node.name);
    }
    if node.devices.is_empty() {
        return format!("{}: no GPUs", node.name);
    }
    format!(
        "{}: {} of {} usable now, {} of the kind asked for",
        node.name,
        node.n_free,
        node.devices.len(),
        node.n_matching
    )
}

/// What uses each device, neighbours together: `0,1 job 1839 · 3 unmanaged (eve)`.
fn device_line(devices: &[WhyDevice], view: &View<'_>) -> String {
    let mut groups: Vec<(String, Vec<u32>)> = Vec::new();
    for device in devices {
        let what = device_words(device, view);
        match groups.iter_mut().find(|(words, _)| *words == what) {
            Some((_, of)) => of.push(device.index),
            None => groups.push((what, vec![device.index])),
        }
    }
    let group = |(what, of): &(String, Vec<u32>)| format!("{} {what}", indexes(of));
    groups.iter().map(group).collect::<Vec<_>>().join(" · ")
}

fn device_words(device: &WhyDevice, view: &View<'_>) -> String {
    let user = device.user.as_deref().map(|user| format!(" ({user})")).unwrap_or_default();
    let until = match (device.until, device.until_by.as_deref()) {
        (Some(at), Some("limit" | "stopping")) => {
            format!(" until {}", view.clock.short(at, view.now))
        }
        (Some(at), Some("predicted")) => {
            format!(" until about {}", view.clock.short(at, view.now))
        }
        // Other sources are too uncertain to show a time.
        _ => String::new(),
    };
    match (device.state, &device.job) {
        (DeviceState::Busy | DeviceState::HeldIdle, Some(job)) => {
            format!("job {job}{user}{until}")
        }
        (DeviceState::Unmanaged, _) => format!("unmanaged{user}"),
        (DeviceState::Free, _) if !device.matches => format!("free, but {}", device.model),
        (DeviceState::Free, _) if device.reserved.is_some() => {
            device.reserved.as_ref().map(|by| reserved_words(by, view)).unwrap_or_default()
        }
        (state, _) => device_state(state).to_owned(),
    }
}

/// Why the job can't use a free device: `reserved by night until 18:00`.
fn reserved_words(by: &WhyReserved, view: &View<'_>) -> String {
    let Some(name) = &by.by else { return "not reserved for it".to_owned() };
    let what = if by.maintenance { "maintenance" } else { "reserved by" };
    let from = by.from.filter(|from| *from > view.now);
    let from = from.map(|at| format!(" from {}", view.clock.short(at, view.now)));
    let until = match by.until {
        Some(at) => format!(" until {}", view.clock.short(at, view.now)),
        None => " until released".to_owned(),
    };
    format!("{what} {name}{}{until}", from.unwrap_or_default())
}

/// The word for a device's state.
#[must_use]
pub fn device_state(state: DeviceState) -> &'static str {
    match state {
        DeviceState::Free => "free",
        DeviceState::Busy => "busy",
        DeviceState::HeldIdle => "held idle",
        DeviceState::Unmanaged => "unmanaged",
        DeviceState::Drained => "drained",
        DeviceState::Divided => "divided",
        DeviceState::Unhealthy => "unhealthy",
        DeviceState::Lost => "lost",
        DeviceState::Unknown => "unknown",
    }
}
