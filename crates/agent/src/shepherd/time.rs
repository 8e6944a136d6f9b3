//! What a shepherd does because of time: the limit, the grace, and looking again at what is being
//! ended. All on the boot clock, which nobody can set.

use gpool_model::unit::Millis;
use gpool_sys::clock;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};

use super::{Shepherd, Why};

/// While a task is being ended, how long until it is looked at again.
const SWEEP: Millis = Millis::new(50);

impl Shepherd {
    /// Begins to end the task, or brings the end forward.
    pub(super) fn begin_end(&mut self, why: Why, grace: Millis) {
        let kill_at = clock::boot_ms().saturating_add(grace.get());
        match &mut self.ending {
            Some((_, earlier)) => *earlier = kill_at.min(*earlier),
            // What is left of a task that has ended by itself is being swept away already.
            None if self.exit.is_some() => return,
            None => {
                self.ending = Some((why, kill_at));
                if let Some(tree) = &self.tree {
                    tree.terminate();
                }
            }
        }
        self.set_timer();
    }

    /// Sets the timer for what is due next: the time limit, the kill, the next sweep.
    pub(super) fn set_timer(&mut self) {
        let sweep = self.exit.map(|_| 0);
        let kill = self.ending.map(|(_, at)| at);
        let limit = self.limit_at.filter(|_| self.ending.is_none());
        let Some(due) = [sweep, kill, limit].into_iter().flatten().min() else { return };
        let due = due.max(clock::boot_ms().saturating_add(SWEEP.get().min(1)));
        self.set_timer_at(due);
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

    /// Something is due.
    pub(super) fn on_time(&mut self) {
        if let Some(timer) = &self.timer {
            let mut count = [0_u8; 8];
            let _ = rustix::io::read(timer, &mut count[..]);
        }
        let time = clock::boot_ms();
        let over = self.ending.is_some_and(|(_, kill_at)| time >= kill_at);
        if over || self.exit.is_some() {
            if let Some(tree) = &self.tree {
                tree.kill();
            }
            // Until the last is gone: it may have started others in between, or be kept by the
            // kernel for a while.
            self.sweep_again();
        } else if self.ending.is_none() && self.limit_at.is_some_and(|at| time >= at) {
            self.begin_end(Why::TimeLimit, self.launch.order.spec.grace);
        } else {
            self.set_timer();
        }
    }

    /// Looks again soon whether all that is being ended has gone.
    pub(super) fn sweep_again(&mut self) {
        self.set_timer_at(clock::boot_ms().saturating_add(SWEEP.get()));
    }
}
