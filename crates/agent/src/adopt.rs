//! Finds out the state of a claimed task: alive, ended, or lost with its shepherd. The order of the
//! checks prevents a reused process ID from being taken for the shepherd.

use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use gpool_model::agent::TaskEnd;
use gpool_model::id::TaskId;
use gpool_model::job::EndCause;
use gpool_sys::cgroup::{Group, Site};
use gpool_sys::{clock, pidfd, proc};

use crate::task_state::not_started;
use gpool_shepherd::layout::{Layout, claim_name, claimed_task};
use gpool_shepherd::marked;
use gpool_shepherd::record::{ClaimFile, ClaimRecord};

/// How long a claim's lock may be held by a process that can't be found.
const PATIENCE_MS: u64 = 2000;
/// How long the agent's thread waits for processes that it has killed. Most end sooner.
const MOMENT_MS: u64 = 100;
/// Pause between two checks.
const PAUSE: Duration = Duration::from_millis(1);

/// The state of a claimed task.
pub(crate) enum Adopted {
    Alive {
        record: ClaimRecord,
        shepherd: OwnedFd,
    },
    /// The shepherd is dead, and the agent is ending the processes that it left.
    Leaving {
        record: ClaimRecord,
    },
    /// The task is over. Without a record its generation is unknown.
    Over {
        record: Option<ClaimRecord>,
        end: Box<TaskEnd>,
    },
    /// No process has ever claimed the task.
    Unclaimed,
}

/// Finds out the state of a task from its claim.
pub(crate) fn adopt(layout: &Layout, task: TaskId) -> io::Result<Adopted> {
    // If a shepherd ends between two of these checks, the answers contradict each other. The child
    // of a shepherd that was killed just after forking holds the lock until it notices. A later
    // round finds the lock released in both cases.
    let give_up = clock::boot_ms() + PATIENCE_MS;
    while clock::boot_ms() < give_up {
        let Some(found) = ClaimFile::open(layout, task)? else { return Ok(Adopted::Unclaimed) };
        let claimant = found.read()?.map(|record| record.claimant);
        // The order matters: the process that holds the lock lives now, so it also had this process
        // ID when the pidfd was opened.
        let shepherd = claimant.map(|claimant| pidfd::open(claimant.shepherd)).transpose()?;
        if !found.is_held()? {
            return over(layout, found);
        }
        if let (Some(Some(shepherd)), Some(record)) = (shepherd, found.read()?) {
            return Ok(Adopted::Alive { record, shepherd });
        }
        std::thread::sleep(PAUSE);
    }
    Err(io::Error::other("an unknown process holds the claim"))
}

fn over(layout: &Layout, found: ClaimFile) -> io::Result<Adopted> {
    let record = found.read()?;
    if let Some(end) = record.as_ref().and_then(|record| record.ended.clone()) {
        if let Some(record) = &record {
            // The shepherd was killed after it noted the end and before it removed its control
            // group.
            group_of(record).remove();
        }
        return Ok(Adopted::Over { record, end: Box::new(end) });
    }
    // A claim always has its first line, except after a crash of the machine.
    let rebooted = record.as_ref().is_none_or(|record| record.claimant.boot_id != proc::boot_id());
    let mut cause = EndCause::Rebooted;
    if let Some(record) = record.as_ref().filter(|_| !rebooted) {
        fail::fail_point!("agent-lost-before");
        let may_be_left = match end_leftovers(layout, record)? {
            Leftovers::Some => return Ok(Adopted::Leaving { record: record.clone() }),
            Leftovers::None => false,
            Leftovers::Unknown => true,
        };
        // Read again: the nursery has noted it by now.
        let by = found.read()?.and_then(|record| record.killed);
        let shepherd = record.claimant.shepherd;
        cause = EndCause::ShepherdEnded { shepherd, by, may_be_left };
        fail::fail_point!("agent-lost-ended");
    }
    let end = TaskEnd {
        started_at: record.as_ref().and_then(|record| record.started).map(|(_, at)| at),
        ..not_started(cause)
    };
    // A later agent then reports the same end. If the disk is full, it finds the end out again.
    let _ = found.ended(&end);
    fail::fail_point!("agent-lost-noted");
    Ok(Adopted::Over { record, end: Box::new(end) })
}

/// Removes the control groups of finished tasks that are already put away. Their shepherds were
/// killed before they could do it.
pub(crate) fn put_groups_away(layout: &Layout, site: &Site) {
    for name in site.groups() {
        // Only such tasks: a shepherd that is about to start its program already has a control
        // group.
        if claimed_task(&name).is_some_and(|task| layout.record(task).exists()) {
            site.existing(&name).remove();
        }
    }
}

fn group_of(record: &ClaimRecord) -> Group {
    record.claimant.site.existing(&claim_name(record.claimant.task))
}

/// What remains of a task after its shepherd was killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Leftovers {
    /// Processes that have not ended yet.
    Some,
    /// Certainly nothing.
    None,
    /// Nothing that can be found. Neither a control group nor a nursery has held its processes, so
    /// a process that changed its environment may live.
    Unknown,
}

/// Ends the processes that a killed shepherd left: those in its control group, those that its
/// nursery adopted, and those that started with the environment of its run. Waits for a moment; the
/// caller repeats the call while some are left.
pub(crate) fn end_leftovers(layout: &Layout, record: &ClaimRecord) -> io::Result<Leftovers> {
    let group = group_of(record);
    let is_grouped = group.kill();
    let (claimant, give_up) = (&record.claimant, clock::boot_ms() + MOMENT_MS);
    let kill_marked = || marked::kill(layout, claimant.task, claimant.shepherd_started);
    while group.is_populated() || is_being_swept(record) || kill_marked() {
        if clock::boot_ms() >= give_up {
            return Ok(Leftovers::Some);
        }
        std::thread::sleep(PAUSE);
    }
    group.remove();
    // Read again: the nursery notes the cleanup before it reaps the shepherd.
    let found = ClaimFile::open(layout, record.claimant.task)?;
    let record = found.map(|found| found.read()).transpose()?.flatten();
    Ok(match is_grouped || record.is_some_and(|record| record.is_swept) {
        true => Leftovers::None,
        false => Leftovers::Unknown,
    })
}

/// Whether the nursery is still ending the processes that the shepherd left. The nursery reaps the
/// shepherd only afterwards.
fn is_being_swept(record: &ClaimRecord) -> bool {
    let claimant = &record.claimant;
    proc::stat(claimant.shepherd).is_some_and(|stat| {
        let is_it = stat.started <= claimant.shepherd_started && stat.state == b'Z';
        is_it && claimant.nursery == Some(stat.parent)
    })
}
