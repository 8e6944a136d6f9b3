//! What became of a task that was claimed: alive, ended, or lost with its shepherd. The order of
//! the questions is what keeps a reused process id from being taken for a shepherd.

use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use gpool_model::agent::TaskEnd;
use gpool_model::id::TaskId;
use gpool_model::job::{EndCause, Usage};
use gpool_model::unit::Timestamp;
use gpool_sys::cgroup::{Group, Site};
use gpool_sys::{clock, pidfd, proc};
use rustix::process::Signal;

use crate::environment::mark;
use crate::layout::{Layout, claim_name, claimed_task};
use crate::record::{Found, Record};

/// How long a claim may be held by nobody who can be found.
const PATIENCE_MS: u64 = 2000;
/// How long the agent's thread waits for processes that it has killed. Most end sooner.
const MOMENT_MS: u64 = 100;
/// Between two looks.
const PAUSE: Duration = Duration::from_millis(1);

/// What was found.
pub(super) enum Adopted {
    /// Its shepherd lives, and this is it.
    Alive { record: Record, shepherd: OwnedFd },
    /// Its shepherd is dead, and processes of it are being ended.
    Leaving { record: Record },
    /// It is over. Without a record nobody knows of which generation it was.
    Over { record: Option<Record>, end: TaskEnd },
    /// Nobody has ever claimed it.
    Unclaimed,
}

/// Looks at the claim of a task.
pub(super) fn adopt(layout: &Layout, task: TaskId) -> io::Result<Adopted> {
    // A shepherd that ends between two of the questions makes the answers not fit together, and
    // one that was killed just after forking leaves a child that holds the claim until it notices;
    // then a later round finds it gone.
    let give_up = clock::boot_ms() + PATIENCE_MS;
    while clock::boot_ms() < give_up {
        let Some(found) = Found::open(layout, task)? else { return Ok(Adopted::Unclaimed) };
        let claimant = found.read()?.map(|record| record.claimant);
        // Opened first, tested after: whoever holds the lock lives now, and so had this id then.
        let shepherd = claimant.map(|claimant| pidfd::open(claimant.shepherd)).transpose()?;
        if !found.is_held()? {
            return over(layout, found);
        }
        if let (Some(Some(shepherd)), Some(record)) = (shepherd, found.read()?) {
            return Ok(Adopted::Alive { record, shepherd });
        }
        std::thread::sleep(PAUSE);
    }
    Err(io::Error::other("the claim is held by a process that can't be found"))
}

fn over(layout: &Layout, found: Found) -> io::Result<Adopted> {
    let record = found.read()?;
    if let Some(end) = record.as_ref().and_then(|record| record.ended.clone()) {
        if let Some(record) = &record {
            // Killed between its last line and putting its group away.
            group_of(record).remove();
        }
        return Ok(Adopted::Over { record, end });
    }
    // A claim is never seen without its first line, but after the machine went down.
    let rebooted = record.as_ref().is_none_or(|record| record.claimant.boot_id != proc::boot_id());
    let mut cause = EndCause::Rebooted;
    if let Some(record) = record.as_ref().filter(|_| !rebooted) {
        fail::fail_point!("agent-lost-before");
        cause = match end_leftovers(layout, record)? {
            Leftovers::Some => return Ok(Adopted::Leaving { record: record.clone() }),
            Leftovers::None => EndCause::ShepherdLost,
            Leftovers::Unknown => EndCause::ProcessesMayBeLeft,
        };
        fail::fail_point!("agent-lost-ended");
    }
    let end = TaskEnd {
        started_at: record.as_ref().and_then(|record| record.started).map(|(_, at)| at),
        ended_at: Timestamp::new(clock::unix_ms()),
        exit: None,
        cause: Some(cause),
        stopped: false,
        usage: Usage::default(),
    };
    // So that a later agent says the same; if there is no room, it finds it out again.
    let _ = found.ended(&end);
    fail::fail_point!("agent-lost-noted");
    Ok(Adopted::Over { record, end })
}

/// Puts away the groups of tasks that are over and forgotten, whose shepherds were killed before
/// they could.
pub(super) fn put_groups_away(layout: &Layout, site: &Site) {
    for name in site.groups() {
        // Nobody else's: a shepherd that is about to start its program has made its group already.
        if claimed_task(&name).is_some_and(|task| layout.record(task).exists()) {
            site.existing(&name).remove();
        }
    }
}

fn group_of(record: &Record) -> Group {
    record.claimant.site.existing(&claim_name(record.claimant.task))
}

/// What a killed shepherd left of its task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Leftovers {
    /// Processes that have not ended yet.
    Some,
    /// Nothing, certainly.
    None,
    /// Nothing that can be found. Neither a control group nor a nursery has held its processes, so
    /// one that changed its environment may live.
    Unknown,
}

/// Ends what a shepherd that was killed left behind: its control group, what its nursery has taken
/// in, and whatever started with the environment of its run. Waits for a moment; to be repeated as
/// long as some is left.
pub(super) fn end_leftovers(layout: &Layout, record: &Record) -> io::Result<Leftovers> {
    let group = group_of(record);
    let is_grouped = group.kill();
    let give_up = clock::boot_ms() + MOMENT_MS;
    while group.is_populated() || is_being_swept(record) || end_marked(layout, record) {
        if clock::boot_ms() >= give_up {
            return Ok(Leftovers::Some);
        }
        std::thread::sleep(PAUSE);
    }
    group.remove();
    // Read again: the nursery notes it before it reaps the shepherd.
    let found = Found::open(layout, record.claimant.task)?;
    let record = found.map(|found| found.read()).transpose()?.flatten();
    Ok(match is_grouped || record.is_some_and(|record| record.is_swept) {
        true => Leftovers::None,
        false => Leftovers::Unknown,
    })
}

/// Whether its nursery is still ending what it left: until then its shepherd is not reaped.
fn is_being_swept(record: &Record) -> bool {
    let claimant = &record.claimant;
    proc::stat(claimant.shepherd).is_some_and(|stat| {
        let is_it = stat.started <= claimant.shepherd_started && stat.state == b'Z';
        is_it && claimant.nursery == Some(stat.parent)
    })
}

/// Kills what started with the environment of its run; whether there was any.
fn end_marked(layout: &Layout, record: &Record) -> bool {
    let task = record.claimant.task;
    let mark = mark(&layout.attempt(task));
    let rank = task.rank.to_string();
    let me = std::process::id();
    let is_left = |pid: u32| {
        // What started before the claim can't be of it.
        proc::stat(pid).is_some_and(|stat| {
            stat.started >= record.claimant.shepherd_started && stat.state != b'Z'
        }) && proc::started_with(pid, &mark)
            // Another task of its gang has the same folder. Who does not say is the first.
            && proc::variable_at_start(pid, "GPOOL_RANK").is_none_or(|it| it == rank.as_bytes())
    };
    let mut found = false;
    for pid in proc::all().into_iter().filter(|pid| *pid != me && is_left(*pid)) {
        found = true;
        let Ok(Some(process)) = pidfd::open(pid) else { continue };
        // Asked again after opening: the id may have changed hands.
        if is_left(pid) {
            let _ = pidfd::signal(&process, Signal::KILL.as_raw());
        }
    }
    found
}
