//! The history of a job: events from its record and the journal, and the jobs that used the devices
//! it waited for.

use axum::Json;
use axum::extract::State;
use gpool_model::agent::{
    LoanIs, LoanReport, MoveIs, MoveReason, MoveReport, OutputReport, Report, TaskIs, TaskReport,
};
use gpool_model::event::{Journaled, Upkeep};
use gpool_model::record::EndedJob;
use gpool_model::{
    Allocation, Command, Decision, DeviceUuid, Event, Exit, JobId, JobSpec, JournalEntry, Millis,
    Phase, Placement, Refusal, Timestamp,
};
use gpool_store::{ArchiveFilter, JournalSearch};
use gpool_wire::cause::{cause_words, loan_words, move_words, output_words};
use gpool_wire::job::PRIVATE;
use gpool_wire::{JobEvent, List, PlacedOn, Time, VERBS, VerbRow, verb};
use serde_json::{Value, json};

use super::asker::Asks;
use super::extract::{ApiError, Segment, job_id};
use super::found::{self, FoundJob};
use super::gpu_use::{of_idle, over_limit, xid};
use super::job_event::{event, facts};
use crate::api::Api;
use gpool_journal::codec;
use gpool_server::fault::internal;

/// Maximum number of journal entries read for one job.
const ENTRIES_MAX: u32 = 2_000;
/// Maximum size of these entries in bytes: one entry can contain a whole bulk submission.
const ENTRIES_BYTES: usize = 16 << 20;
/// Maximum number of ended jobs searched for earlier users of the job's devices.
const OTHERS_MAX: u32 = 2_000;
/// Maximum size of these jobs' records in bytes.
const OTHERS_BYTES: usize = 4 << 20;
/// A shorter wait needs no explanation.
const SHORT: Millis = Millis::from_secs(10);
/// Maximum number of other jobs named.
const NAMED: usize = 5;

/// Lists the events of a job in order: user requests, decisions of the scheduler, reports of the
/// node, and the jobs that used the devices it waited for.
#[utoipa::path(
    get, path = "/jobs/{id}/events", operation_id = "jobs_events",
    params(("id" = String, Path, description = "The job")),
    responses(
        (status = 200, description = "The events", body = List<JobEvent>),
        (status = 404, description = "There is no such job", body = gpool_wire::Problem,
         content_type = "application/problem+json"),
    )
)]
pub(crate) async fn get(
    State(api): State<Api>,
    Asks(asker): Asks,
    Segment(id): Segment,
) -> Result<Json<List<JobEvent>>, ApiError> {
    let found = found::find(&api, job_id(&id)?).await?;
    let is_seen = asker.may_see(found.spec.owner.uid);
    let uid = asker.caller.owner.uid;
    Ok(Json(List::new(of(&api, uid, &found, is_seen).await?)))
}

/// Returns the events of a job. Other users see type and time, without text from the owner.
pub(crate) async fn of(
    api: &Api,
    uid: u32,
    found: &FoundJob,
    is_seen: bool,
) -> Result<Vec<JobEvent>, Refusal> {
    let told = all_of(api, uid, found).await?;
    Ok(if is_seen { told } else { told.into_iter().map(for_stranger).collect() })
}

fn for_stranger(mut told: JobEvent) -> JobEvent {
    match told.kind.as_str() {
        // All users can see place, times and queue order, as in the queue.
        "submitted" | "planned" | "started" | "running" | "run_ended" | "refused" | "displaced"
        | "waited" | "grows" | "joins" | "left" | "moved" | "not_moved" | "idle" | "active"
        | "xid" | "output_cut" => {}
        kind if VERBS.iter().any(|row| row.event == Some(kind)) => {}
        // The cause can contain a file name.
        "ended" => {
            let of_fact = |name: &str| told.facts.get(name).filter(|value| !value.is_null());
            let state = of_fact("state").and_then(Value::as_str).unwrap_or("ended");
            let code = of_fact("exit_code").map(|code| format!(": exit {code}"));
            told.text = format!("{}{}", state.replace('_', " "), code.unwrap_or_default());
        }
        _ => {
            PRIVATE.clone_into(&mut told.text);
            told.facts.clear();
        }
    }
    told
}

async fn all_of(api: &Api, uid: u32, found: &FoundJob) -> Result<Vec<JobEvent>, Refusal> {
    let id = found.job.id;
    let since = found.spec.submitted_at;
    let until = match &found.job.phase {
        // The journal entry has the time at which the server received the report.
        Phase::Ended(end) => end.ended_at.after(Millis::from_hours(1)),
        _ => gpool_server::clock::now(),
    };
    let events = api.handle.search(uid, move |reader| {
        let (alone, run) = (format!("\"{id}\""), format!("\"{id}#"));
        let words = [alone.as_bytes(), run.as_bytes()];
        let search =
            JournalSearch { since, until, words, limit: ENTRIES_MAX, bytes_max: ENTRIES_BYTES };
        // An entry can be many times larger than its part about the job.
        let of_row = |row: gpool_store::JournalEntry| {
            let entry = codec::journaled(&row.body).ok()?;
            Some(of_entry(id, &JournalEntry { seq: row.seq, time: row.time, entry }))
        };
        let entries = reader.journal_about(&search).map_err(internal)?;
        Ok(entries.into_iter().filter_map(of_row).flatten().collect::<Vec<_>>())
    });
    let mut told = vec![submitted(&found.spec)];
    let mut last = String::new();
    for event in events.await? {
        // Agents can send a report again.
        let words = format!("{} {}", event.kind, event.text);
        // A shepherd repeats this to each agent.
        let is_known = event.kind == "output_cut"
            && told.iter().any(|it: &JobEvent| it.kind == event.kind && it.text == event.text);
        if std::mem::replace(&mut last, words.clone()) != words && !is_known {
            told.push(event);
        }
    }
    if let Some(waited) = waited(api, uid, found).await? {
        told.push(waited);
    }
    told.extend(ended(found));
    told.sort_by_key(|event| event.time);
    Ok(told)
}

fn submitted(spec: &JobSpec) -> JobEvent {
    // The scheduler creates jobs that extend an elastic job; no user submits them.
    let by = Some(spec.owner.user.to_string()).filter(|_| spec.joins.is_none());
    let made = if spec.joins.is_some() { "created" } else { "submitted" };
    let parts: Vec<String> = spec.parts.iter().map(|part| format!("--part {part}")).collect();
    let text = match (parts.is_empty(), spec.has_gpus()) {
        (false, _) => format!("{made} with {}", parts.join(" ")),
        (true, true) => format!("{made} with --gpus {}", spec.gpus_written),
        (true, false) => format!("{made} without GPUs"),
    };
    JobEvent { by, ..event(spec.id, spec.submitted_at, "submitted", text) }
}

fn ended(found: &FoundJob) -> Option<JobEvent> {
    let Phase::Ended(end) = &found.job.phase else { return None };
    let state = end.outcome.state();
    let code = end.exit.map(gpool_model::job::ExitStatus::shell_code);
    let why = match (&end.cause, code) {
        (Some(cause), _) => format!(": {}", cause_words(cause)),
        (None, Some(code)) => format!(": exit {code}"),
        (None, None) => String::new(),
    };
    let words = state.as_str().replace('_', " ");
    let mut told = event(found.job.id, end.ended_at, "ended", format!("{words}{why}"));
    told.facts = facts([("state", json!(state)), ("exit_code", json!(code))]);
    Some(told)
}

fn of_entry(id: JobId, entry: &JournalEntry) -> Vec<JobEvent> {
    let told = match &entry.entry {
        Journaled::Planned { decisions, planned, .. } => {
            let mut told: Vec<JobEvent> =
                decisions.iter().filter_map(|decision| started(id, entry, decision)).collect();
            let ours = planned.iter().flatten().find(|planned| planned.job == id);
            told.extend(ours.map(|planned| {
                let place = places(&planned.placements);
                let text = format!("is planned to start on {place}");
                let told = event(id, entry.time, "planned", text);
                JobEvent { facts: facts([("at", json!(Time(planned.at)))]), ..told }
            }));
            told
        }
        Journaled::Event(Event::Requested { caller, command, .. }) => {
            let is_server = matches!(command, Command::ReportLate { .. });
            let by = (!is_server).then(|| caller.owner.user.to_string());
            let asked = request_event(id, command);
            let told = asked.map(|(kind, text)| event(id, entry.time, kind, text));
            told.map(|told| JobEvent { by, ..told }).into_iter().collect()
        }
        Journaled::Event(Event::Reported { report, .. }) => {
            if let Report::Loan(loan) = report {
                return of_loan(id, entry, loan).into_iter().collect();
            }
            if let Report::Output(report) = report {
                return of_output(id, entry, report).into_iter().collect();
            }
            if let Report::Move(report) = report {
                return of_move(id, entry, report).into_iter().collect();
            }
            let reports = match report {
                Report::Task(report) => std::slice::from_ref(report),
                Report::Tasks { tasks, .. } => tasks,
                _ => &[],
            };
            let ours = reports.iter().filter(|report| report.task.job == id);
            ours.filter_map(|report| reported(id, entry.time, report)).collect()
        }
        Journaled::Kept { kept } => {
            kept.iter().filter_map(|kept| of_upkeep(id, entry.time, kept)).collect()
        }
        Journaled::Event(_) => Vec::new(),
    };
    let seq = Some(entry.seq.0);
    told.into_iter().map(|told| JobEvent { seq, ..told }).collect()
}

/// The event of a change without a request.
fn of_upkeep(id: JobId, time: Timestamp, kept: &Upkeep) -> Option<JobEvent> {
    match kept {
        Upkeep::Displaced { job, how, by } if *job == id => {
            let how = how.as_str().replace('_', " ");
            Some(event(id, time, "displaced", format!("stopped for {by}: {how}")))
        }
        Upkeep::Idle { .. } | Upkeep::Returns { .. } => of_idle(id, time, kept),
        Upkeep::Xid { job, seen } if *job == id => Some(xid(id, time, seen)),
        Upkeep::OverLimit { job, node, memory, done } if *job == id => {
            Some(over_limit(id, time, node, *memory, *done))
        }
        Upkeep::NearLimit { job, near } if *job == id => {
            let text = format!("has {} left of its limit of {}", near.left, near.limit);
            Some(event(id, time, "near_limit", text))
        }
        Upkeep::SetAside { job, violations } if *job == id => {
            let text = format!("its plan broke a rule: {}", violations.join("; "));
            Some(event(id, time, "set_aside", text))
        }
        Upkeep::Joining { job, joins } if *joins == id => {
            Some(event(id, time, "grows", format!("job {job} may join it")))
        }
        Upkeep::Joining { job, joins } if *job == id => {
            Some(event(id, time, "joins", format!("waits to join job {joins}")))
        }
        Upkeep::Left { job } if *job == id => {
            Some(event(id, time, "left", "the job that it joined has ended".to_owned()))
        }
        _ => None,
    }
}

fn of_output(id: JobId, entry: &JournalEntry, report: &OutputReport) -> Option<JobEvent> {
    let then = if report.is_stopped { "it is stopped" } else { "the rest is dropped" };
    let text = format!("{}; {then}", output_words(report.cut));
    (report.task.job == id).then(|| event(id, entry.time, "output_cut", text))
}

fn of_loan(id: JobId, entry: &JournalEntry, loan: &LoanReport) -> Option<JobEvent> {
    let kind = match (&loan.is, loan.task.job == id) {
        (LoanIs::Called { .. }, _) => "loan_called",
        (LoanIs::Late { .. }, true) => "guarantee_late",
        (LoanIs::NotLimited { .. }, true) => "not_limited",
        (_, true) => "loan",
        (_, false) => return None,
    };
    let text = match &loan.is {
        LoanIs::Called { bytes, beneficiary } if beneficiary.job == id => {
            format!("{bytes} that job {} was lent are called back for it", loan.task.job)
        }
        _ => loan_words(loan),
    };
    Some(event(id, entry.time, kind, text))
}

/// The event of a job that moved, and of the job that it made room for.
fn of_move(id: JobId, entry: &JournalEntry, report: &MoveReport) -> Option<JobEvent> {
    let beneficiary = match report.reason {
        Some(MoveReason::Room { beneficiary } | MoveReason::Loan { beneficiary }) => {
            Some(beneficiary.job)
        }
        _ => None,
    };
    let words = move_words(report);
    let text = match report.task.job {
        moved if moved == id => words,
        moved if beneficiary == Some(id) => format!("gets room: job {moved} {words}"),
        _ => return None,
    };
    let kind = if report.is == MoveIs::Done { "moved" } else { "not_moved" };
    let told = event(id, entry.time, kind, text);
    let (from, to) = report.changed();
    let facts = facts([
        ("moved", json!(report.task.job)),
        ("from", json!(from)),
        ("to", json!(to)),
        ("beneficiary", json!(beneficiary)),
        ("took_s", json!(report.took.map(gpool_wire::time::seconds))),
    ]);
    Some(JobEvent { facts, ..told })
}

fn started(id: JobId, entry: &JournalEntry, decision: &Decision) -> Option<JobEvent> {
    match decision {
        Decision::Start { job, attempt, placements, .. } if *job == id => {
            let text = format!("starts on {}, run {attempt}", places(placements));
            let told = event(id, entry.time, "started", text);
            Some(JobEvent { facts: facts([("attempt", json!(attempt.0))]), ..told })
        }
        Decision::Resume { job, attempt, placements, .. } if *job == id => {
            let text = format!("continues on {}, run {attempt}", places(placements));
            let told = event(id, entry.time, "resumed", text);
            Some(JobEvent { facts: facts([("attempt", json!(attempt.0))]), ..told })
        }
        Decision::Evict { job, attempt, why, beneficiary, exit } if *job == id => {
            let how = match exit {
                Exit::Pause => ": it is paused",
                Exit::Checkpoint => ": it saves its state and runs again later",
                Exit::Requeue => ": it runs again later",
                Exit::Kill => ": it ends, as its exits allow",
            };
            let text = format!("is preempted for job {beneficiary}{how}");
            let told = event(id, entry.time, "taken_back", text);
            let facts = facts([
                ("attempt", json!(attempt.0)),
                ("why", json!(why)),
                ("beneficiary", json!(beneficiary)),
                ("exit", json!(exit)),
            ]);
            Some(JobEvent { facts, ..told })
        }
        _ => None,
    }
}

/// Returns the type and text of the event for a request.
fn request_event(id: JobId, command: &Command) -> Option<(&'static str, String)> {
    match command {
        Command::OnJobs { jobs, verb } if jobs.contains(&id) => {
            Some((VerbRow::of(*verb).event?, verb::done(*verb)))
        }
        Command::Edit { job, patch, .. } if *job == id => {
            // Omits the values: a note is private.
            let fields: Vec<&str> = patch.edits().map(|edit| edit.key).collect();
            Some(("edited", format!("changed: {}", fields.join(", "))))
        }
        Command::ReportLate { jobs } => {
            let late = &jobs.iter().find(|it| it.job == id)?.late;
            Some(("late", format!("did not start by {}, as forecast", Time(late.p90).short())))
        }
        _ => None,
    }
}

fn reported(id: JobId, time: Timestamp, report: &TaskReport) -> Option<JobEvent> {
    let run = report.task.attempt;
    match &report.is {
        TaskIs::Running { started_at, .. } => {
            Some(event(id, *started_at, "running", format!("run {run} has started")))
        }
        TaskIs::Ended(end) => {
            let code = end.exit.map(gpool_model::job::ExitStatus::shell_code);
            let how = code.map(|code| format!(", exit {code}")).unwrap_or_default();
            let told = event(id, end.ended_at, "run_ended", format!("run {run} has ended{how}"));
            Some(JobEvent { facts: facts([("exit_code", json!(code))]), ..told })
        }
        TaskIs::Paused { .. } => Some(event(id, time, "paused", format!("run {run} is paused"))),
        TaskIs::NotMoved { why, .. } => {
            let text = format!("run {run} could not resume on another GPU: {why}");
            Some(event(id, time, "not_moved", text))
        }
        TaskIs::NotPaused { why, .. } => {
            let text = format!("run {run} could not be paused: {why}");
            Some(event(id, time, "not_paused", text))
        }
        TaskIs::Refused { devices } => {
            let n = devices.len();
            let text = format!("its node refused it: other processes used {n} of its GPUs");
            Some(event(id, time, "refused", text))
        }
        TaskIs::Over => {
            let text = format!("run {run} had ended since the restored backup");
            Some(event(id, time, "refused", text))
        }
        TaskIs::Launching => None,
    }
}

fn places(placements: &[Placement]) -> String {
    let place = |placement: &Placement| {
        let placed = PlacedOn::new(&placement.node, &placement.slots);
        match placed.devices.as_slice() {
            [] => placed.node,
            devices => {
                let indexes: Vec<String> = devices.iter().map(ToString::to_string).collect();
                format!("{}:{}", placed.node, indexes.join(","))
            }
        }
    };
    placements.iter().map(place).collect::<Vec<_>>().join(" ")
}

/// Returns which jobs used the job's devices before it, and which jobs started while it waited.
async fn waited(api: &Api, uid: u32, found: &FoundJob) -> Result<Option<JobEvent>, Refusal> {
    let (from, Some((to, held))) = (found.spec.submitted_at, first_start(found)) else {
        return Ok(None);
    };
    if to.since(from) <= SHORT {
        return Ok(None);
    }
    let filter = ArchiveFilter {
        since: Some(from),
        limit: OTHERS_MAX,
        bytes_max: Some(OTHERS_BYTES),
        ..ArchiveFilter::default()
    };
    let id = found.job.id;
    let read = move |reader: &gpool_store::Reader| -> Result<Vec<EndedJob>, Refusal> {
        let rows = reader.archive(&filter).map_err(internal)?;
        rows.iter().map(|row| codec::decode_ended(row).map_err(internal)).collect()
    };
    let others = api.handle.search(uid, read).await?;
    let others: Vec<&EndedJob> = others.iter().filter(|other| other.id() != id).collect();
    let devices: Vec<&DeviceUuid> =
        held.iter().flat_map(|held| &held.slots).map(|slot| &slot.device).collect();
    let mut before: Vec<(Timestamp, &EndedJob)> = others
        .iter()
        .filter_map(|other| {
            let Phase::Ended(end) = &other.job.phase else { return None };
            let had = end.allocations.iter().flat_map(|held| &held.slots);
            let mut shared = had.filter(|slot| devices.contains(&&slot.device));
            let is_before = end.started_at.is_some() && end.ended_at <= to;
            (is_before && shared.next().is_some()).then_some((end.ended_at, *other))
        })
        .collect();
    before.sort_by_key(|(at, other)| (std::cmp::Reverse(*at), other.id()));
    let meanwhile =
        others.iter().filter(|other| started_at(other).is_some_and(|at| at >= from && at < to));
    let (n_meanwhile, n_later) = meanwhile.fold((0_u64, 0_u64), |(n, later), other| {
        (n + 1, later + u64::from(other.spec.submitted_at > from))
    });
    Ok(Some(waited_words(id, from, to, &before, (n_meanwhile, n_later))))
}

fn waited_words(
    id: JobId,
    from: Timestamp,
    to: Timestamp,
    before: &[(Timestamp, &EndedJob)],
    (n_meanwhile, n_later): (u64, u64),
) -> JobEvent {
    let name = |other: &EndedJob| format!("{} ({})", other.id(), other.spec.owner.user);
    let named: Vec<String> = before.iter().take(NAMED).map(|(_, other)| name(other)).collect();
    let had = match named.is_empty() {
        true => String::new(),
        false => format!(" for capacity that job {} used", named.join(", ")),
    };
    let jobs = if n_meanwhile == 1 { "job" } else { "jobs" };
    let went = match (n_meanwhile, n_later) {
        (0, _) => String::new(),
        (n, 0) => format!("; {n} {jobs} submitted before it started in that time"),
        (n, later) => {
            format!("; {n} {jobs} started in that time, {later} of them submitted after it")
        }
    };
    let text = format!("waited {}{had}{went}", to.since(from));
    let ids: Vec<String> = before.iter().map(|(_, other)| other.id().to_string()).collect();
    let facts = facts([
        ("after", json!(ids)),
        ("n_started_meanwhile", json!(n_meanwhile)),
        ("n_submitted_later", json!(n_later)),
    ]);
    JobEvent { facts, ..event(id, to, "waited", text) }
}

fn started_at(other: &EndedJob) -> Option<Timestamp> {
    match &other.job.phase {
        Phase::Ended(end) => end.started_at,
        _ => None,
    }
}

/// Returns when the job got its current or last devices, and the allocations.
fn first_start(found: &FoundJob) -> Option<(Timestamp, &[Allocation])> {
    match &found.job.phase {
        Phase::Starting { allocations, since } => Some((*since, allocations)),
        Phase::Running { allocations, started_at }
        | Phase::Paused { allocations, started_at, .. } => Some((*started_at, allocations)),
        Phase::Stopping { allocations, started_at, .. } => {
            started_at.map(|at| (at, &allocations[..]))
        }
        Phase::Ended(end) => end.started_at.map(|at| (at, &end.allocations[..])),
        _ => None,
    }
}
