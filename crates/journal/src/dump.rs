//! The parts of a store that a user can attach to a bug report: the journal and the state as a
//! scenario, without texts that users wrote. Commands, names, notes, environments and scripts are
//! left out. Reads only.

use gpool_model::agent::{Report, TaskIs, TaskReport};
use gpool_model::event::{Journaled, Upkeep};
use gpool_model::job::ExitStatus;
use gpool_model::{
    Command, Decision, DrainTarget, Event, JobId, PlannedStart, ProjectChange, ProjectChangeHow,
    ProjectsAsk, Seq, Silence,
};
use gpool_scenario::Situation;
use gpool_store::{JournalEntry, Reader};
use gpool_wire::Time;
use gpool_wire::cause::{cause_word, loan_words, move_words, output_words};
use gpool_world::Snapshot;

use crate::case::Case;
use crate::codec;
use crate::inspect::world_of;
use crate::now;

/// Ids that one line names.
const NAMED_MAX: usize = 20;
/// Jobs of a state that is written as a scenario; more are no case that a person reads.
const JOBS_MAX: usize = 2000;

/// The last entries of the journal, a line each.
pub fn journal(reader: &Reader, n_entries: u32) -> Result<Vec<String>, String> {
    let loaded = reader.load().map_err(|error| error.to_string())?;
    let from = Seq(loaded.seq.0.saturating_sub(u64::from(n_entries)) + 1);
    let entries = reader.journal(from, n_entries).map_err(|error| error.to_string())?;
    Ok(entries.iter().map(line).collect())
}

/// Returns the present state as the text of a scenario.
///
/// # Errors
/// The store can't be read, or is too large for that.
pub fn scenario(reader: &Reader) -> Result<String, String> {
    let loaded = reader.load().map_err(|error| error.to_string())?;
    let mut world = world_of(&loaded)?;
    let n_jobs = world.jobs().len();
    if n_jobs > JOBS_MAX {
        return Err(format!("{n_jobs} jobs are more than the maximum of {JOBS_MAX}"));
    }
    let now = now();
    world.advance(now);
    Ok(Situation::of(&Snapshot { world: &world, now }).to_string())
}

/// The present state with the plan that is made from it, as a file of its own.
///
/// # Errors
/// The store can't be read, or its records contradict each other.
pub fn case(reader: &Reader) -> Result<Case, String> {
    let loaded = reader.load().map_err(|error| error.to_string())?;
    let records = loaded.records.iter().map(codec::decode).collect::<Result<Vec<_>, _>>();
    let records = records.map_err(|error| error.to_string())?;
    Case::of(loaded.revision, records, now()).map_err(|error| error.to_string())
}

fn line(entry: &JournalEntry) -> String {
    let what = match codec::journaled(&entry.body) {
        Ok(Journaled::Event(event)) => of_event(&event),
        Ok(Journaled::Planned { basis, decisions, planned }) => {
            let mut lines: Vec<String> = decisions.iter().map(of_decision).collect();
            lines.extend(planned.iter().flatten().map(of_planned));
            format!("planned from revision {basis}: {}", some(&lines))
        }
        Ok(Journaled::Kept { kept }) => {
            let kept: Vec<String> = kept.iter().map(of_upkeep).collect();
            format!("kept up: {}", some(&kept))
        }
        Err(error) => format!("unreadable: {error}"),
    };
    format!("{} {} {what}", entry.seq, Time(entry.time))
}

fn of_event(event: &Event) -> String {
    match event {
        Event::ServerStarted { term, n_skipped_jobs: 0 } => format!("server started, term {term}"),
        Event::ServerStarted { term, n_skipped_jobs } => {
            format!("server started, term {term}, {n_skipped_jobs} job numbers skipped")
        }
        Event::ServerStopping => "server stopping".to_owned(),
        Event::DiskFull { is_full: true } => "disk full".to_owned(),
        Event::DiskFull { is_full: false } => "disk has room".to_owned(),
        Event::Requested { caller, command, .. } => {
            format!("user {} asked: {}", caller.owner.uid, of_command(command))
        }
        Event::Reported { node, report } => format!("report of node {node}: {}", of_report(report)),
        Event::AgentSilence { node, silence: Some(Silence { since, is_lost }) } => {
            let what = if *is_lost { "lost, silent" } else { "silent" };
            format!("the agent of {node} is {what} since {}", Time(*since))
        }
        Event::AgentSilence { node, silence: None } => {
            format!("the agent of {node} is heard again")
        }
        Event::Delivered { id, sent } => format!("message {id}: {sent:?}"),
        Event::TimerFired => "timer".to_owned(),
        Event::Committed { revision } => format!("committed {revision}"),
    }
}

fn of_command(command: &Command) -> String {
    let on = |word: &str, jobs: &[JobId]| {
        let ids: Vec<String> = jobs.iter().map(ToString::to_string).collect();
        format!("{word} {}", some(&ids))
    };
    match command {
        Command::Submit { jobs, key, dry_run, .. } => {
            let dry_run = if *dry_run { ", dry run" } else { "" };
            let key = if key.is_some() { ", with a key" } else { "" };
            format!("submit {} jobs{key}{dry_run}", jobs.len())
        }
        Command::OnJobs { jobs, verb } => {
            format!("{}: {}", on(verb.name(), jobs), gpool_wire::verb::done(*verb))
        }
        Command::HoldMissing { jobs, .. } => on("hold for a missing file", jobs),
        Command::Retry { jobs } => on("retry", jobs),
        Command::Edit { job, .. } => format!("edit {job}"),
        Command::AllowDevices { node, devices } => match devices {
            None => format!("allow all devices of {node}"),
            Some(devices) => format!("allow {} devices of {node}", devices.len()),
        },
        Command::SetPolicy { preset, set, dry_run } => of_policy(preset.as_deref(), set, *dry_run),
        Command::Reserve { reservation, .. } => {
            let name = reservation.name.as_ref().map_or("a new one", |name| name.as_str());
            format!("reserve {name} for {:?}", reservation.beneficiary)
        }
        Command::EditReservation { name, .. } => format!("change reservation {name}"),
        Command::Unreserve { names } => {
            let names: Vec<String> = names.iter().map(ToString::to_string).collect();
            format!("end reservations {}", some(&names))
        }
        Command::Drain { targets, .. } => format!("drain {}", some(&targets_of(targets))),
        Command::Undrain { targets } => format!("undrain {}", some(&targets_of(targets))),
        Command::SetUserCaps { user, caps } => {
            format!("caps of {}: {caps:?}", user.as_deref().unwrap_or("all users"))
        }
        Command::ChangeProjects(ask) => of_projects(ask),
        Command::MoveNodes { nodes, pool } => {
            let names: Vec<String> = nodes.iter().map(ToString::to_string).collect();
            format!("{} into pool {pool}", some(&names))
        }
        Command::LabelNodes { nodes, change } => {
            let names: Vec<String> = nodes.iter().map(ToString::to_string).collect();
            let removed = change.remove.iter().map(|name| format!("{name}-"));
            let labels: Vec<String> =
                gpool_model::label::texts(&change.set).into_iter().chain(removed).collect();
            format!("label {} {}", some(&names), some(&labels))
        }
        Command::RemoveNode { node, is_off } => {
            format!("remove {node}{}", if *is_off { ", which is off" } else { "" })
        }
        Command::SetOverspent { all } => format!("{} budgets are used up", all.len()),
        Command::ReportLate { jobs } => format!("{} jobs missed their forecasts", jobs.len()),
        Command::Subscribe { payer, rules } => {
            format!("{} addresses for notifications of {payer}", rules.len())
        }
        Command::ReportSpending { all } => format!("{} costs against budgets", all.len()),
        Command::ReportDigests { all } => format!("{} digests", all.len()),
        Command::SetDeviceStrategy { strategy } => format!("device strategy {strategy:?}"),
    }
}

/// A change of the policy: its preset and its settings.
fn of_policy(preset: Option<&str>, set: &[(String, String)], dry_run: bool) -> String {
    let set: Vec<String> = set.iter().map(|(key, value)| format!("{key}={value}")).collect();
    let preset = preset.unwrap_or("as it is");
    let dry = if dry_run { ", tried" } else { "" };
    format!("policy {preset}: {}{dry}", some(&set))
}

/// Changes of projects: the verb and the name of each.
fn of_projects(ask: &ProjectsAsk) -> String {
    let word = |change: &ProjectChange| {
        let verb = match change.how {
            ProjectChangeHow::Create { .. } => "create",
            ProjectChangeHow::Declare { .. } => "declare",
            ProjectChangeHow::Edit { .. } => "edit",
            ProjectChangeHow::Delete { .. } => "delete",
        };
        format!("{verb} {}", change.name)
    };
    let words: Vec<String> = ask.changes.iter().map(word).collect();
    let dry = if ask.dry_run { ", tried" } else { "" };
    format!("projects: {}{dry}", some(&words))
}

fn targets_of(targets: &[DrainTarget]) -> Vec<String> {
    let word = |target: &DrainTarget| match &target.device {
        Some(device) => format!("{}:{device}", target.node),
        None => target.node.to_string(),
    };
    targets.iter().map(word).collect()
}

fn of_upkeep(kept: &Upkeep) -> String {
    match kept {
        Upkeep::Ended { reservation } => format!("reservation {reservation} is over"),
        Upkeep::Replaced { reservation } => format!("new devices for reservation {reservation}"),
        Upkeep::Joining { job, joins } => format!("job {job} waits to join job {joins}"),
        Upkeep::Left { job } => format!("the job that job {job} joined has ended"),
        Upkeep::SetAside { job, violations } => {
            format!(
                "job {job} is held, because its plan violates an invariant: {}",
                violations.join("; ")
            )
        }
        Upkeep::Displaced { job, how, by } => format!("job {job} is a victim of {by}: {how}"),
        Upkeep::Idle { job, since: None, .. } => format!("job {job} uses its GPUs again"),
        Upkeep::Idle { job, done, .. } => {
            let done = done.map(|done| format!(": {}", done.as_str())).unwrap_or_default();
            format!("job {job} is idle{done}")
        }
        Upkeep::OverLimit { job, memory, done, .. } => {
            let (used, limit) = (memory.used, memory.limit);
            format!("job {job} uses {used}, its limit is {limit}: {}", done.as_str())
        }
        Upkeep::NearLimit { job, near } => {
            format!("job {job} has {} left of its limit of {}", near.left, near.limit)
        }
        Upkeep::Xid { job, seen } => {
            let (xid, node, device) = (seen.xid, &seen.node, seen.device);
            format!("{node}:{device} of job {job} reported Xid {xid}")
        }
        Upkeep::Returns { job } => format!("job {job} needs its released GPUs"),
    }
}

fn of_report(report: &Report) -> String {
    match report {
        Report::Inventory { devices, .. } => format!("inventory of {} devices", devices.len()),
        Report::Tasks { term, tasks, .. } => {
            let tasks: Vec<String> = tasks.iter().map(of_task).collect();
            format!("all its tasks in term {term}: {}", some(&tasks))
        }
        Report::Task(task) => of_task(task),
        Report::Move(report) => format!("{}: {}", report.task, move_words(report)),
        Report::Output(report) => format!("{}: {}", report.task, output_words(report.cut)),
        Report::Loan(loan) => format!("{}: {}", loan.task, loan_words(loan)),
    }
}

fn of_task(report: &TaskReport) -> String {
    let is = match &report.is {
        TaskIs::Launching => "launching".to_owned(),
        TaskIs::Running { pid, .. } => format!("running as {pid}"),
        TaskIs::Paused { pid, .. } => format!("paused as {pid}"),
        TaskIs::NotMoved { pid, why, .. } => format!("paused as {pid}, not moved: {why}"),
        TaskIs::NotPaused { pid, why, .. } => format!("running as {pid}, not paused: {why}"),
        TaskIs::Ended(end) => {
            let exit = match end.exit {
                Some(ExitStatus::Code(code)) => format!("ended, exit {code}"),
                Some(ExitStatus::Signal(signal)) => format!("ended, signal {signal}"),
                None => "ended".to_owned(),
            };
            end.cause
                .as_ref()
                .map_or(exit.clone(), |cause| format!("{exit}, {}", cause_word(cause)))
        }
        TaskIs::Refused { devices } => format!("refused, {} devices in use", devices.len()),
        TaskIs::Over => "over before".to_owned(),
    };
    format!("{} {is}", report.task)
}

fn of_decision(decision: &Decision) -> String {
    match decision {
        Decision::Start { job, attempt, placements, .. } => {
            let places: Vec<String> = placements
                .iter()
                .map(|placement| format!("{} ({} GPUs)", placement.node, placement.slots.len()))
                .collect();
            format!("start {job}#{attempt} on {}", places.join(", "))
        }
        Decision::Resume { job, attempt, .. } => format!("resume {job}#{attempt}"),
        Decision::Evict { job, attempt, why, beneficiary, exit } => {
            format!("evict {job}#{attempt} for {beneficiary} ({}, {exit})", why.as_str())
        }
    }
}

fn of_planned(planned: &PlannedStart) -> String {
    let nodes: Vec<&str> = planned.placements.iter().map(|place| place.node.as_str()).collect();
    format!("{} is planned to start on {} at {}", planned.job, nodes.join(", "), Time(planned.at))
}

/// The first names of a list, and the number of the others.
fn some(names: &[String]) -> String {
    let first = names[..names.len().min(NAMED_MAX)].join(", ");
    match names.len().saturating_sub(NAMED_MAX) {
        0 if names.is_empty() => "none".to_owned(),
        0 => first,
        more => format!("{first} and {more} more"),
    }
}
