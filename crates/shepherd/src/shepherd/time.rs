//! The timers of a shepherd: the time limit, the warning before it, the deadline, the grace period,
//! and the repeated kills at the end. All use the boot clock, which users can't set; a deadline is
//! converted from the wall clock once, when the program starts.

use gpool_model::agent::{TaskOrder, Terms};
use gpool_model::id::Generation;
use gpool_model::life::{Warned, Warning};
use gpool_model::unit::{Millis, Timestamp};
use gpool_model::{Compat, LeaseTerms};
use gpool_sys::clock;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};

use super::files::write_deadline;
use super::yielding::Yielding;
use super::{Shepherd, Why};
use crate::message::FromShepherd;

/// Pause between two kills while a task is being ended.
const SWEEP: Millis = Millis::new(50);

/// How long a task may run.
pub(super) struct Allowed {
    /// The generation of the last order.
    generation: Generation,
    limit: Option<Millis>,
    deadline: Option<Timestamp>,
    warning: Option<Warning>,
    /// When the program started, moved later by the time that it was paused.
    since: Option<u64>,
    /// When it was paused; `None` while it runs.
    paused_at: Option<u64>,
    deadline_at: Option<u64>,
    /// When the lease of the agent is over, if the task is fenced.
    fence_at: Option<u64>,
    /// The end that the job was warned of.
    warned_of: Option<u64>,
    /// Whether the limit differs from the one in the program's environment.
    is_changed: bool,
}

impl Allowed {
    pub(super) fn new(order: &TaskOrder, fence_at: Option<u64>) -> Self {
        let spec = &order.spec;
        Self {
            generation: order.generation,
            limit: spec.time_limit,
            deadline: spec.life.deadline,
            warning: *spec.life.warning,
            since: None,
            paused_at: None,
            deadline_at: None,
            fence_at,
            warned_of: None,
            is_changed: false,
        }
    }

    /// Starts the clock: the program has just started.
    pub(super) fn start(&mut self) {
        let now = clock::boot_ms();
        self.since = Some(now);
        let left = |at: Timestamp| at.since(Timestamp::new(clock::unix_ms())).get();
        self.deadline_at = self.deadline.map(|at| now.saturating_add(left(at)));
    }

    /// Pauses the clock: time stands still, except for the deadline.
    pub(super) fn pause(&mut self) {
        self.paused_at = self.paused_at.or_else(|| Some(clock::boot_ms()));
    }

    pub(super) fn resume(&mut self) {
        let paused_at = self.paused_at.take();
        let pause = paused_at.map_or(0, |at| clock::boot_ms().saturating_sub(at));
        self.since = self.since.map(|since| since.saturating_add(pause));
    }

    /// When the time is over, and why.
    fn over(&self) -> Option<(u64, Why)> {
        let since = self.since?;
        let limit = self.limit.filter(|_| self.paused_at.is_none());
        let limit = limit.map(|limit| (since.saturating_add(limit.get()), Why::TimeLimit));
        let deadline = self.deadline_at.map(|at| (at, Why::Deadline));
        limit.into_iter().chain(deadline).min_by_key(|(at, _)| *at)
    }

    /// When to warn the job of its next end, that end, and the warning.
    fn warning(&self) -> Option<(u64, u64, Warning)> {
        let (over_at, _) = self.over().filter(|(at, _)| self.warned_of != Some(*at))?;
        let warning = self.warning?;
        Some((over_at.saturating_sub(warning.before.get()), over_at, warning))
    }
}

impl Shepherd {
    /// Applies new terms, once they are noted in the claim. If noting fails, the agent repeats the
    /// order.
    pub(super) fn change(&mut self, generation: Generation, terms: Terms) {
        if generation > self.allowed.generation {
            let limit = terms.limit;
            self.resize(&terms);
            if self.claim.changed(generation, terms).is_err() {
                return;
            }
            fail::fail_point!("shepherd-change-noted");
            self.allowed.generation = generation;
            if self.allowed.limit != limit {
                self.allowed.limit = limit;
                self.allowed.is_changed = true;
                self.set_timer();
                self.show_deadline();
            }
        }
        self.link.say(&FromShepherd::Changed { generation: self.allowed.generation });
    }

    /// Renews the lease, unless it is over: the task may run elsewhere by now.
    pub(super) fn renew(&mut self, until: u64) {
        if let Some(fence_at) = self.allowed.fence_at.filter(|at| clock::boot_ms() < *at) {
            self.allowed.fence_at = Some(fence_at.max(until));
            self.set_timer();
        }
    }

    /// Whether the task is fenced, and the lease is over.
    pub(super) fn is_fenced_off(&self) -> bool {
        self.allowed.fence_at.is_some_and(|at| clock::boot_ms() >= at)
    }

    /// Ends the task because the lease is over, also if it is ending already.
    fn fence_off(&mut self) {
        let own = self.launch.order.spec.grace;
        self.begin_end(Why::Fence, own.min(LeaseTerms::GRACE), None);
        self.allowed.fence_at = None;
        self.set_timer();
    }

    /// Starts the clock: the program has started.
    pub(super) fn start_time(&mut self) {
        self.allowed.start();
        self.set_timer();
        self.show_deadline();
    }

    /// Writes the end of the job's time into a file in its folder, if it differs from the one in
    /// its environment.
    fn show_deadline(&self) {
        if !self.allowed.is_changed || self.allowed.since.is_none() {
            return;
        }
        let over_at = self.allowed.over().map(|(at, _)| {
            let left = at.saturating_sub(clock::boot_ms());
            clock::unix_ms().saturating_add(left) / 1000
        });
        let folder = self.layout.attempt(self.task());
        // The file is only information: without it the limit still applies.
        let _ = write_deadline(&folder, self.owner, over_at);
    }

    /// Begins to end the task, or brings its end forward. With `signal`, only its process group
    /// gets that signal, and the job has the grace period to save its work.
    pub(super) fn begin_end(&mut self, why: Why, grace: Millis, signal: Option<i32>) {
        let kill_at = clock::boot_ms().saturating_add(grace.get());
        // The program may be started already, and must not get a signal twice.
        self.read_setup();
        match &mut self.ending {
            Some((_, earlier)) => {
                *earlier = kill_at.min(*earlier);
                if signal.is_none() && std::mem::take(&mut self.is_saving) {
                    self.terminate();
                }
            }
            // The task has ended by itself, and its remaining processes are being killed already.
            None if self.exit.is_some() => return,
            None => {
                self.ending = Some((why, kill_at));
                self.is_saving = signal.is_some();
                let is_started = self.started.is_some();
                match (&mut self.tree, signal) {
                    (Some(tree), Some(signal)) => tree.signal_program(signal, is_started),
                    (Some(_), None) => self.terminate(),
                    (None, _) => {}
                }
                // Paused processes could not handle the signal.
                self.thaw();
                self.end_if_alone();
            }
        }
        self.set_timer();
    }

    /// Sets the timer for the next event: the end of the time, the warning before it, the kill, or
    /// the next sweep.
    pub(super) fn set_timer(&mut self) {
        self.bound_end();
        let sweep = self.sweeps().then_some(0);
        let kill = self.ending.map(|(_, at)| at);
        let goes_on = self.ending.is_none();
        let over = self.allowed.over().map(|(at, _)| at).filter(|_| goes_on);
        let warning = self.allowed.warning().map(|(at, ..)| at).filter(|_| goes_on);
        let answer = self.halt.yielding.as_ref().map(Yielding::next_check_at).filter(|_| goes_on);
        let (metrics, fence) = (self.next_metrics_at(), self.allowed.fence_at);
        let due = [sweep, kill, over, warning, answer, metrics, fence];
        let due = due.into_iter().flatten().min();
        let Some(due) = due else { return };
        let due = due.max(clock::boot_ms().saturating_add(SWEEP.get().min(1)));
        self.set_timer_at(due);
    }

    /// A time limit also holds for a task that is ending: an earlier order to end it may have
    /// given it more time. A job that saves its work keeps the time for that.
    fn bound_end(&mut self) {
        let over = self.allowed.over().filter(|_| !self.is_saving);
        let over_at = over.map(|(at, _)| at.max(clock::boot_ms()));
        let grace = self.launch.order.spec.grace;
        if let (Some((_, kill_at)), Some(over_at)) = (&mut self.ending, over_at) {
            *kill_at = over_at.saturating_add(grace.get()).min(*kill_at);
        }
    }

    fn set_timer_at(&mut self, due: u64) {
        if self.timer.is_none() {
            let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
            self.timer = timerfd_create(TimerfdClockId::Boottime, flags).ok();
        }
        let Some(timer) = &self.timer else { return };
        let seconds = i64::try_from(due / 1000).unwrap_or(i64::MAX);
        let nanos = i64::try_from(due % 1000 * 1_000_000).unwrap_or(0);
        let time = Itimerspec {
            it_interval: Timespec { tv_sec: 0, tv_nsec: 0 },
            it_value: Timespec { tv_sec: seconds, tv_nsec: nanos },
        };
        let _ = timerfd_settime(timer, TimerfdTimerFlags::ABSTIME, &time);
    }

    pub(super) fn on_time(&mut self) {
        if let Some(timer) = &self.timer {
            let mut count = [0_u8; 8];
            let _ = rustix::io::read(timer, &mut count[..]);
        }
        self.say_metrics();
        if self.is_fenced_off() {
            self.fence_off();
        }
        let time = clock::boot_ms();
        let over = self.ending.is_some_and(|(_, kill_at)| time >= kill_at);
        if over || self.sweeps() || self.halt.lost.is_some() {
            self.kill();
            // Repeated until the last process is gone: it may have forked in between, or the kernel
            // may take a while to end it.
            self.sweep_again();
        } else if self.ending.is_none() {
            self.on_its_time(time);
        } else {
            self.set_timer();
        }
    }

    /// Handles the warning and the end of the job's time. If the time was extended, sets the timer
    /// again.
    fn on_its_time(&mut self, time: u64) {
        self.look_for_answer(time);
        if let Some((_, over_at, warning)) = self.allowed.warning().filter(|(at, ..)| time >= *at) {
            self.allowed.warned_of = Some(over_at);
            if let Some(tree) = &self.tree {
                match warning.to {
                    Warned::Group => tree.signal_group(warning.signal),
                    Warned::Command => tree.signal_main(warning.signal),
                    Warned::Others => {
                        // In a script of Slurm, other processes than those of steps get nothing.
                        let spec = &self.launch.order.spec;
                        let is_slurms = spec.compat.contains(&Compat::Slurm);
                        if !tree.signal_steps(warning.signal) && !is_slurms {
                            tree.signal_others(warning.signal);
                        }
                    }
                }
            }
        }
        match self.allowed.over() {
            Some((at, why)) if time >= at => {
                self.begin_end(why, self.launch.order.spec.grace, None);
            }
            _ => self.set_timer(),
        }
    }

    /// Checks again soon whether all processes have ended.
    pub(super) fn sweep_again(&mut self) {
        self.set_timer_at(clock::boot_ms().saturating_add(SWEEP.get()));
    }
}
