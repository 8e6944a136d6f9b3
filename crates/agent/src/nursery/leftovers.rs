//! Processes that a killed shepherd leaves, whatever they did to get away. The kernel gives orphans
//! to the nearest ancestor that takes them (`PR_SET_CHILD_SUBREAPER`): to their shepherd, and after
//! its death to the nursery. A child of the nursery that it did not fork therefore descends from a
//! dead shepherd, and is ended. Environment, session and process group don't matter: a job can
//! change those, and not its ancestors.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use gpool_model::id::TaskId;
use gpool_sys::{child, pidfd, proc};
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};

use crate::layout::Layout;
use crate::record::Found;

/// Between two looks at processes that were killed and have not ended.
const PAUSE: Duration = Duration::from_millis(100);
/// Looks at the list of children in one go. They take microseconds, so that a program which does
/// nothing but fork and exit, faster than all processes can be looked at, is caught.
const ROUNDS: usize = 100;

/// The children of the nursery.
#[derive(Debug)]
pub(super) struct Brood {
    layout: Layout,
    /// By their process ids; `None` for a name that is no task's.
    shepherds: BTreeMap<u32, Option<TaskId>>,
    /// Whether a shepherd was killed and processes of its job live. Until they have ended, dead
    /// shepherds are not reaped: an agent that no longer sees a shepherd knows that nothing is left
    /// of the task.
    is_sweeping: bool,
}

impl Brood {
    /// None yet.
    pub(super) fn new(layout: Layout) -> Self {
        Self { layout, shepherds: BTreeMap::new(), is_sweeping: false }
    }

    /// A shepherd was forked.
    pub(super) fn born(&mut self, shepherd: u32, name: &str) {
        self.shepherds.insert(shepherd, name.parse().ok());
    }

    /// Whether no shepherd is left, nor anything that one left.
    pub(super) fn is_empty(&self) -> bool {
        self.shepherds.is_empty()
    }

    /// How long to wait for news of children at most.
    pub(super) fn pause(&self) -> Option<Duration> {
        self.is_sweeping.then_some(PAUSE)
    }

    /// Reaps children that have ended, and ends what shepherds have left.
    pub(super) fn look(&mut self) {
        while let Some(ended) = child::first_ended() {
            // A shepherd that ends by itself has seen its last process end.
            let is_whole = ended.code == Some(0) || !self.shepherds.contains_key(&ended.pid);
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

    /// Ends what shepherds have left; whether nothing is left of those that were dead before.
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
            // Their own children come here when they die.
            others.iter().for_each(|pid| kill_child(*pid));
            others.into_iter().filter(has_ended).for_each(|pid| self.reap(pid));
        }
        // Asked of all processes: one that was orphaned meanwhile is in no list of children, but
        // its parent, dead and not reaped, is in this one.
        let children = proc::children(me).into_iter().map(|(pid, _)| pid);
        let others: BTreeSet<u32> =
            children.filter(|pid| !self.shepherds.contains_key(pid)).collect();
        if others.is_empty() {
            for pid in dead {
                // Before it is reaped: its agent waits for that.
                self.note(pid);
                self.reap(pid);
            }
            return true;
        }
        // All below them stopped first, so that none starts others while they are ended.
        signal_below(&others, Signal::STOP);
        signal_below(&others, Signal::KILL);
        false
    }

    /// Notes in a claim that nothing is left, unless its shepherd has noted the end. Without room
    /// for it the agent can't be certain, and says so.
    fn note(&self, shepherd: u32) {
        let task = self.shepherds.get(&shepherd).copied().flatten();
        let found = task.and_then(|task| Found::open(&self.layout, task).ok().flatten());
        let record = |found: &Found| found.read().ok().flatten();
        let has_no_end = |found: &Found| record(found).is_some_and(|it| it.ended.is_none());
        let _ = found.filter(has_no_end).map(Found::swept);
    }

    fn reap(&mut self, pid: u32) {
        let _ = waitpid(Pid::from_raw(pid.cast_signed()), WaitOptions::NOHANG);
        self.shepherds.remove(&pid);
    }
}

/// Kills a child of this process. Its id can't mean another process until it is reaped.
pub(crate) fn kill_child(pid: u32) {
    if let Some(pid) = Pid::from_raw(pid.cast_signed()) {
        let _ = kill_process(pid, Signal::KILL);
    }
}

/// Sends some children of this process and all that is below them a signal.
fn signal_below(roots: &BTreeSet<u32>, signal: Signal) {
    for pid in roots.iter().flat_map(|root| [vec![*root], proc::descendants(*root)].concat()) {
        let Ok(Some(process)) = pidfd::open(pid) else { continue };
        // Asked after opening: the id of one further below may have changed hands before.
        if proc::nearest_ancestor(pid, &|pid| roots.contains(&pid)).is_some() {
            let _ = pidfd::signal(process, signal.as_raw());
        }
    }
}
