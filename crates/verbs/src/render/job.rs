//! One job as a page for `gpool show`, and the first line of `gpool run`.

use gpool_cli::render::clock::span;
use gpool_cli::render::page::Page;
use gpool_cli::render::reason::sentence;
use gpool_cli::render::view::View;
use gpool_cli::render::words::{self, indexes};
use gpool_model::job::JobState;
use gpool_wire::time::Time;
use gpool_wire::{Attempted, Job, PlacedOn, Report, TaskStatus};

use super::life::ran;

/// The page of a job, with the elements of a small array.
#[must_use]
pub fn page(job: &Job, elements: Option<&[Job]>, view: &View<'_>) -> String {
    let headline =
        format!("job {} \"{}\" · {}", job.id, job.name, words::state(job.state.as_str()));
    let mut page = Page::new(&headline);
    let owner = format!(
        "{} · project {} · priority {}",
        view.user(&job.user),
        job.project,
        job.request.priority_number()
    );
    page.label("user", &owner);
    page.label("wants", &words::wants(job));
    page.label_if("kind", kind(job).as_deref());
    match (job.request.script.is_some(), job.private) {
        (_, true) => {}
        (true, _) => {
            page.label("script", &format!("{} {}", job.name, words::command(&job.request.command)))
        }
        (false, _) => page.label("command", &words::command(&job.request.command)),
    }
    page.label_if("directory", job.request.directory.as_deref());
    if job.request.pty.is_some() {
        page.label("terminal", &format!("its own; gpool attach {}", job.id));
    }
    let active: Vec<String> = job.request.activate.iter().map(words::active).collect();
    page.labels("active", &active);
    if let Some(setup) = &job.setup_job {
        page.label("setup", &format!("job {setup}"));
    }
    for (label, text) in job.request.labeled() {
        page.label(label, &text);
    }
    if let Some(logs) = &job.run.logs {
        page.label_if("log", logs.stdout.as_deref());
        page.label_if("error log", logs.stderr.as_deref());
    }
    life(&mut page, job, view);
    page.label("submitted", &view.clock.full(job.submitted_at));
    times(&mut page, job, view);
    super::arrays::add_element(&mut page, job);
    super::arrays::elements(&mut page, job, elements, view);
    match job.gang.as_ref().filter(|gang| !gang.tasks.is_empty()) {
        Some(gang) => {
            let tasks: Vec<String> =
                gang.tasks.iter().map(|task| self::task(task, job, view)).collect();
            page.labels("tasks", &tasks);
        }
        None => {
            let places: Vec<String> = job.placement.iter().map(place).collect();
            page.labels("where", &places);
        }
    }
    outcome(&mut page, job, view);
    page.text()
}

/// The kind of a job, and when it counts as idle; `None` for the usual ones.
fn kind(job: &Job) -> Option<String> {
    let idle = job
        .request
        .idle_after_seconds()
        .map(|after| format!(", idle after {} without GPU use", span(after)));
    let is_usual = idle.is_none() && ["", "train"].contains(&job.request.kind_word());
    (!is_usual).then(|| format!("{}{}", job.request.kind_word(), idle.unwrap_or_default()))
}

/// Since when a job has not used its GPUs.
pub(super) fn idle(since: Time, view: &View<'_>) -> String {
    format!("no GPU use since {}", view.clock.full(since))
}

/// Adds how a job ended or why it does not run, and its usage.
fn outcome(page: &mut Page, job: &Job, view: &View<'_>) {
    if job.state.is_end() {
        page.label("end", &words::end(job));
    }
    page.label_if("output", output(job, view).as_deref());
    page.label_if("retry", retry(job, view).as_deref());
    page.label_if("try", way_on(job).as_deref());
    let reasons = job.wait.reasons.iter().map(|it| sentence(it, &job.user, view));
    let reasons: Vec<String> = reasons.collect();
    page.labels("because", &reasons);
    let more = words::more_reasons(job.wait.n_more_reasons);
    page.label_if("", more.map(|more| format!("and it waits for {more}")).as_deref());
    let leaves = job.state == JobState::Stopping;
    page.label_if("because", job.run.cause_text.as_deref().filter(|_| leaves));
    page.label_if("waits", job.run.stalled.as_deref());
    page.label_if("idle", job.run.idle_since.map(|at| idle(at, view)).as_deref());
    page.label_if("not released", job.run.not_released.as_deref());
    if let Some(since) = job.run.paused_since {
        let cause = job.run.cause_text.as_ref().map(|it| format!(" ({it})")).unwrap_or_default();
        page.label("paused", &format!("since {}{cause}", view.clock.full(since)));
        let starts = gpool_cli::render::eta::starts(job, view);
        page.label_if("continues", Some(starts.as_str()).filter(|it| *it != words::NOTHING));
    }
    if let Some(live) = &job.usage.live {
        let ran = job.run.started_at.map(|at| view.now.0.since(at.0));
        page.label_if(
            "CPU",
            live.cpu_s.zip(ran).map(|(cpu, ran)| super::report::cores(cpu, ran)).as_deref(),
        );
        for (label, text) in live.rows() {
            page.label(label, &text);
        }
    }
    if job.usage.total.is_some() {
        super::report::used(page, &Report::new(job.clone(), view.now));
    }
    super::report::errors(page, job);
    super::report::metrics(page, job);
}

/// A hint after a job has ended badly.
fn way_on(job: &Job) -> Option<String> {
    let id = &job.id;
    match job.state {
        JobState::Lost => {
            Some(format!("its output: gpool logs {id}; run it again: gpool retry {id}"))
        }
        JobState::Failed | JobState::TimedOut => {
            let has_run = job.run.started_at.is_some() && !job.private;
            has_run.then(|| format!("its output: gpool logs {id}"))
        }
        _ => None,
    }
}

/// Adds when the job may start, how it is retried, and how earlier attempts ended.
fn life(page: &mut Page, job: &Job, view: &View<'_>) {
    let moments = [
        ("begin", job.request.begin),
        ("deadline", job.request.deadline),
        ("released", job.wait.release_at),
    ];
    for (label, at) in moments {
        page.label_if(label, at.map(|at| view.clock.full(at)).as_deref());
    }
    if !job.request.exits.is_empty() {
        let signal =
            job.request.checkpoint.as_ref().map(|it| format!(" by {it}")).unwrap_or_default();
        let exit = |exit: &String| match exit.as_str() {
            "checkpoint" => format!("{exit}{signal}"),
            "pause" if job.request.yields.is_some() => "pause (cooperative)".to_owned(),
            _ => exit.clone(),
        };
        let exits: Vec<String> = job.request.exits.iter().map(exit).collect();
        page.label("exits", &exits.join(", otherwise "));
    }
    if let Some(retry) = &job.request.retry {
        let exits = retry.exits.iter().map(|code| format!("exit {code}"));
        let after: Vec<String> = retry.on.iter().cloned().chain(exits).collect();
        let after =
            if after.is_empty() { "any failure but oom".to_owned() } else { after.join(", ") };
        let used = job.run.n_retries;
        page.label("retries", &format!("{used} of {} used, after {after}", retry.most));
    }
    let attempt = |it: &Attempted| {
        let code = it.exit_code.map(|code| format!(" {code}")).unwrap_or_default();
        // The text of the cause names the job that took the devices.
        let is_taken = ["taken_back", "checkpointed"].contains(&it.again.as_str());
        let taken = it.cause_text.as_deref().filter(|_| is_taken);
        let cause = it.cause.as_ref().filter(|_| !is_taken);
        let cause = cause.map(|cause| format!(" ({cause})")).unwrap_or_default();
        let at = view.clock.full(it.ended_at);
        format!(
            "#{} {}{code}{cause} {at} · {}",
            it.attempt,
            words::state(&it.outcome),
            taken.unwrap_or(&it.again)
        )
    };
    page.labels("earlier", &job.run.attempts.iter().map(attempt).collect::<Vec<_>>());
}

/// How long gpool keeps the output of an ended job.
fn output(job: &Job, view: &View<'_>) -> Option<String> {
    let until = job.run.output_kept_until?;
    let is_over = until <= view.now;
    let kept = if is_over { "removed; it was kept until" } else { "kept until" };
    Some(format!("{kept} {}", view.clock.full(until)))
}

/// How long an ended job can be retried.
fn retry(job: &Job, view: &View<'_>) -> Option<String> {
    Some(match (job.run.can_retry?, job.run.retry_until) {
        (false, _) => "no longer possible: its environment or script was removed".to_owned(),
        (true, Some(until)) if until > view.now => {
            format!("possible until {}", view.clock.full(until))
        }
        (true, _) => "possible until its environment is removed, which is due now".to_owned(),
    })
}

fn times(page: &mut Page, job: &Job, view: &View<'_>) {
    let waited = span(job.wait.waited_s);
    match job.run.started_at {
        Some(started) => {
            let run = if job.run.attempt > 1 {
                format!(", run {}", job.run.attempt)
            } else {
                String::new()
            };
            page.label("started", &format!("{} (waited {waited}{run})", view.clock.full(started)));
        }
        None if !job.state.is_end() => {
            page.label("waited", &waited.to_string());
            let starts = gpool_cli::render::eta::starts(job, view);
            page.label_if("starts", Some(starts.as_str()).filter(|it| *it != words::NOTHING));
        }
        None => {}
    }
    if let Some(ended) = job.run.ended_at {
        let ran = ran(job, view).map_or("never ran".to_owned(), |ran| format!("ran {ran}"));
        page.label("ended", &format!("{} ({ran})", view.clock.full(ended)));
    } else if let Some(ran) = ran(job, view) {
        page.label("runs for", &ran.to_string());
    }
}

/// A task in a line: `0 on lab1: GPU 0-3 · failed 3 after 5m`.
fn task(task: &TaskStatus, job: &Job, view: &View<'_>) -> String {
    let rank = usize::try_from(task.rank).unwrap_or(usize::MAX);
    let devices = job.placement.get(rank).map(|placed| placed.devices.as_slice());
    let devices = match devices {
        Some(devices) if !devices.is_empty() => format!(": GPU {}", indexes(devices)),
        _ => String::new(),
    };
    let until = task.ended_at.unwrap_or(view.now);
    let ran = task.started_at.map(|at| until.0.since(at.0));
    let code = task.exit_code.filter(|code| *code != 0).map(|code| format!(" {code}"));
    let ran = ran.map(|ran| format!(" after {ran}")).filter(|_| task.ended_at.is_some());
    let (code, ran) = (code.unwrap_or_default(), ran.unwrap_or_default());
    let part = task.part.as_ref().map(|part| format!(" ({part})")).unwrap_or_default();
    let (rank, node, state) = (task.rank, &task.node, &task.state);
    format!("{rank}{part} on {node}{devices} · {state}{code}{ran}")
}

fn place(placed: &PlacedOn) -> String {
    if placed.devices.is_empty() {
        return placed.node.clone();
    }
    let booked = placed.booked.as_ref().map(|booked| format!(", booked GPU {}", indexes(booked)));
    let (gpus, uuids) = (indexes(&placed.devices), placed.uuids.join(", "));
    format!("{}: GPU {gpus} ({uuids}){}", placed.node, booked.unwrap_or_default())
}

/// The line that `run` prints before a job's output:
/// `job 1843 "train" · 2 GPUs on lab1 (GPU 4,5) · …`.
#[must_use]
pub fn headline(job: &Job) -> String {
    let mut parts = vec![format!("job {} \"{}\"", job.id, job.name)];
    let places: Vec<String> = job.placement.iter().map(spoken_place).collect();
    let gpus = words::gpus(&job.request.gpus_words());
    parts.push(match places.as_slice() {
        [] => gpus,
        places => format!("{gpus} on {}", places.join(", ")),
    });
    parts.extend(job.request.cpu_cores().map(words::cores));
    parts.extend(job.request.mem_bytes().map(|bytes| gpool_model::Bytes::new(bytes).to_string()));
    parts.push(words::limit(job).map_or("no limit".to_owned(), |limit| format!("limit {limit}")));
    parts.push(format!("project {}", job.project));
    gpool_cli::render::safe::safe(&parts.join(" · ")).into_owned()
}

fn spoken_place(placed: &PlacedOn) -> String {
    match placed.devices.as_slice() {
        [] => placed.node.clone(),
        devices => format!("{} (GPU {})", placed.node, indexes(devices)),
    }
}
