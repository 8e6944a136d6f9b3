//! Ends the processes that a killed shepherd leaves. The kernel gives orphans to the nearest
//! ancestor that adopts them (`PR_SET_CHILD_SUBREAPER`): to their shepherd, and after its death to
//! the nursery. A child that the nursery did not fork therefore descends from a dead shepherd, and
//! is killed. A job can change its environment, session and process group, but not its ancestors.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use gpool_model::id::TaskId;
use gpool_model::job::ExitStatus;
use gpool_sys::{child, pidfd, proc};
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};

use crate::layout::Layout;
use crate::record::ClaimFile;

/// Pause between two checks of processes that were killed and have not ended.
const PAUSE: Duration = Duration::from_millis(100);
/// How often one call reads the list of children. Reading it takes microseconds, which catches a
/// program that only forks and exits, faster than a walk over all processes.
const ROUNDS: usize = 100;

/// The children of the nursery.
#[derive(Debug)]
pub(super) struct Brood {
    layout: Layout,
    /// By process ID; `None` for a name that is no task's.
    shepherds: BTreeMap<u32, Option<TaskId>>,
    /// Whether a shepherd was killed and processes of its job live. Until these have ended, dead
    /// shepherds are not reaped: an agent that no longer sees a shepherd relies on its task being
    /// gone.
    is_sweeping: bool,
}

impl Brood {
    pub(super) fn new(layout: Layout) -> Self {
        Self { layout, shepherds: BTreeMap::new(), is_sweeping: false }
    }

    pub(super) fn born(&mut self, shepherd: u32, name: &str) {
        self.shepherds.insert(shepherd, name.parse().ok());
    }

    /// Whether no shepherd is left, and no process of one.
    pub(super) fn is_empty(&self) -> bool {
        self.shepherds.is_empty()
    }

    /// The longest time to wait for events of children.
    pub(super) fn pause(&self) -> Option<Duration> {
        self.is_sweeping.then_some(PAUSE)
    }

    /// Reaps children that have ended, and kills the processes that shepherds have left.
    pub(super) fn look(&mut self) {
        while let Some(ended) = child::first_ended() {
            // A shepherd that ends by itself has seen the last process of its task end.
            let is_whole = ended.status == Ok(0) || !self.shepherds.contains_key(&ended.pid);
            if is_whole {
                self.reap(ended.pid);
                continue;
            }
            self.is_sweeping = !self.sweep();
            if self.is_sweeping {
                return;
            }
        }
    }

    /// Kills processes that shepherds have left. Returns whether none are left of the shepherds
    /// that were dead at the call.
    fn sweep(&mut self) -> bool {
        let has_ended = |pid: &u32| proc::stat(*pid).is_none_or(|stat| stat.state == b'Z');
        let dead: Vec<u32> = self.shepherds.keys().copied().filter(has_ended).collect();
        let me = std::process::id();
        for _ in 0..ROUNDS {
            let mut others = proc::children_now(me);
            others.retain(|pid| !self.shepherds.contains_key(pid));
            if others.is_empty() {
                break;
            }
            // Their children become children of the nursery when they die.
            others.iter().for_each(|pid| kill_child(*pid));
            others.into_iter().filter(has_ended).for_each(|pid| self.reap(pid));
        }
        // This walks all processes. One that was orphaned meanwhile may be missing from the list of
        // children, but its dead parent, not reaped yet, is in it.
        let children = proc::children(me).into_iter().map(|(pid, _)| pid);
        let others: BTreeSet<u32> =
            children.filter(|pid| !self.shepherds.contains_key(pid)).collect();
        if others.is_empty() {
            for pid in dead {
                // Before it is reaped: the agent waits for the reaping.
                self.note(pid);
                self.reap(pid);
            }
            return true;
        }
        // All descendants are stopped first, so that none forks while the others are killed.
        signal_below(&others, Signal::STOP);
        signal_below(&others, Signal::KILL);
        false
    }

    /// Notes in a claim that nothing is left and how the shepherd ended, unless the shepherd noted
    /// the end. If the disk is full, the agent reports that processes may be left.
    fn note(&self, shepherd: u32) {
        let task = self.shepherds.get(&shepherd).copied().flatten();
        let found = task.and_then(|task| ClaimFile::open(&self.layout, task).ok().flatten());
        let record = |found: &ClaimFile| found.read().ok().flatten();
        let has_no_end = |found: &ClaimFile| record(found).is_some_and(|it| it.ended.is_none());
        let by = child::ended(shepherd).map(|ended| match ended.status {
            Ok(code) => ExitStatus::Code(code),
            Err(signal) => ExitStatus::Signal(signal),
        });
        let _ = found.filter(has_no_end).map(|found| found.swept(by));
    }

    fn reap(&mut self, pid: u32) {
        let _ = waitpid(Pid::from_raw(pid.cast_signed()), WaitOptions::NOHANG);
        self.shepherds.remove(&pid);
    }
}

/// Kills a child of this process. Its process ID can't be reused until it is reaped.
pub(crate) fn kill_child(pid: u32) {
    if let Some(pid) = Pid::from_raw(pid.cast_signed()) {
        let _ = kill_process(pid, Signal::KILL);
    }
}

/// Sends a signal to these children of this process and to all their descendants.
fn signal_below(roots: &BTreeSet<u32>, signal: Signal) {
    for pid in roots.iter().flat_map(|root| [vec![*root], proc::descendants(*root)].concat()) {
        let Ok(Some(process)) = pidfd::open(pid) else { continue };
        // Checked after opening: the process ID of a descendant may have been reused before.
        if proc::nearest_ancestor(pid, &|pid| roots.contains(&pid)).is_some() {
            let _ = pidfd::signal(process, signal.as_raw());
        }
    }
}
