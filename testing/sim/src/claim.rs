//! The claim of a task, with its shepherd and its program: they live on when the agent does not.

use std::collections::VecDeque;

use gpool_model::agent::{TaskEnd, TaskIs, TaskOrder, TaskReport, Terms};
use gpool_model::device::Guest;
use gpool_model::{Bytes, DeviceUuid, Generation, TaskId, Timestamp};
use gpool_node::converge::Seats;

/// Why a program was ordered to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Why {
    StopOrder,
    Limit,
    Deadline,
    CalledBack,
    /// The lease of its agent is over.
    Fence,
}

/// What an agent tells a shepherd about its devices.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ShepherdOrder {
    /// Leave the devices, to go to others.
    Detach,
    /// Come to these devices.
    Attach(Vec<DeviceUuid>),
    /// Pause; the flag lets the program run on, without its devices.
    Pause(Generation, bool),
    /// Go on, on these devices; the second ones are booked for it.
    Resume(Generation, Vec<DeviceUuid>, Vec<DeviceUuid>),
    /// Pause, because a loan was called.
    Vacate,
    /// That is over.
    Return,
}

/// An allocation that waits for an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Wish {
    /// What the program would use with it.
    pub total: Bytes,
    /// Since when it waits, by true time.
    pub since: u64,
    /// Whether an agent has reported that it waits too long.
    pub is_late: bool,
}

/// The memory of a task on one of its devices.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Memory {
    /// Request and limit, as its agent has them.
    pub request: Bytes,
    pub limit: Bytes,
    pub used: Bytes,
    /// The limit up to which it does not ask.
    pub granted: Bytes,
    pub wish: Option<Wish>,
    /// The rest that it may keep, if its loan is called back.
    pub keep: Option<Bytes>,
    /// Whether it will use all of its grant just before that is lowered.
    pub surges: bool,
    /// Whether the agent has divided the memory since the use changed.
    pub is_seen: bool,
}

/// The claim of a task, with its shepherd and its program while they live.
#[derive(Debug, Clone, Default)]
pub(crate) struct Claim {
    pub generation: Generation,
    pub boot: u32,
    /// `None` if an agent claimed it, to prevent it.
    pub order: Option<Box<TaskOrder>>,
    pub has_shepherd: bool,
    pub started: Option<(u32, Timestamp)>,
    /// Since when it has not used its devices.
    pub idle_since: Option<Timestamp>,
    /// Why it is ending, and when it is killed.
    pub ending: Option<(Why, u64)>,
    /// When its program was started, by true time.
    pub since: u64,
    pub limit_at: Option<u64>,
    pub deadline_at: Option<u64>,
    /// When the lease is over, by true time; `None` if it is not fenced, or it is over.
    pub fence_at: Option<u64>,
    pub ended: Option<TaskEnd>,
    /// Where it is.
    pub seats: Seats,
    /// Whether it left its devices, to go to others.
    pub is_detached: bool,
    /// The last order to pause (`true`) or resume that was carried out.
    pub halted: Option<(Generation, bool)>,
    /// Whether its node wants it to be paused, for its loans.
    pub by_node: bool,
    /// Since when it is paused, by true time.
    pub paused_at: Option<u64>,
    /// Devices that it comes to once they have room.
    pub comes_to: Option<Vec<DeviceUuid>>,
    /// The devices that were booked with its order to resume; empty without one.
    pub rebooked: Vec<DeviceUuid>,
    /// Whether there was room to restore it, and that is under way.
    pub is_restoring: bool,
    /// The order to resume it that has no answer yet.
    pub resumption: Option<Resumption>,
    /// The devices that it was paused on.
    pub home: Vec<DeviceUuid>,
    /// Whether it can't resume on other devices than it left.
    pub is_fixed: bool,
    /// The agent that its shepherd has connected to last.
    pub link: Option<u32>,
    /// The orders that its shepherd has yet to read.
    pub orders: VecDeque<ShepherdOrder>,
    /// Whether a move of it has failed.
    pub has_failed: bool,
    /// Its memory on each of its devices; empty on a machine that does not lend.
    pub memory: Vec<Memory>,
}

/// An order to resume a task, while its memory comes back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Resumption {
    /// The order that the claim shows until the restore begins; none if that is the last one.
    pub earlier: Option<(Generation, bool)>,
}

impl Claim {
    pub fn is_running(&self) -> bool {
        self.started.is_some() && self.ended.is_none()
    }

    pub fn is_unstarted(&self) -> bool {
        self.is_alive() && self.started.is_none()
    }

    /// Whether its shepherd lives.
    pub fn is_alive(&self) -> bool {
        self.has_shepherd && self.ended.is_none()
    }

    pub fn is_paused(&self) -> bool {
        self.halted.is_some_and(|(_, is_paused)| is_paused)
    }

    /// Whether its program uses its devices now.
    pub fn is_on_devices(&self) -> bool {
        self.is_running() && !self.is_detached && self.paused_at.is_none()
    }

    /// Whether it uses no device and should again.
    pub fn comes_back(&self) -> bool {
        let is_off = self.paused_at.is_some() || self.comes_to.is_some();
        is_off && !self.is_paused() && !self.by_node
    }

    /// The priority of its job.
    pub fn priority(&self) -> i32 {
        let sharer = self.order.as_ref().and_then(|order| order.sharer.as_ref());
        sharer.map_or(0, |sharer| sharer.priority)
    }

    /// The task as a guest, if it is on a device that it has not booked.
    pub fn guest_on(&self, task: TaskId, device: &DeviceUuid) -> Option<Guest> {
        let mut places = self.seats.slots.iter().zip(&self.seats.booked);
        let (_, booked) =
            places.find(|(slot, booked)| slot.device == *device && **booked != *device)?;
        Some(Guest { task, booked: booked.clone(), is_stuck: false })
    }

    /// It comes to these devices.
    pub fn move_to(&mut self, devices: Vec<DeviceUuid>) {
        self.is_detached = false;
        for (slot, device) in self.seats.slots.iter_mut().zip(devices) {
            slot.device = device;
        }
    }

    /// Other terms are noted.
    pub fn change(&mut self, generation: Generation, terms: &Terms) {
        self.generation = generation;
        if let Some(order) = &mut self.order {
            std::sync::Arc::make_mut(&mut order.spec).time_limit = terms.limit;
            terms.resize(&mut order.allocation.slots);
        }
        terms.resize(&mut self.seats.slots);
        if self.started.is_some() {
            self.limit_at = terms.limit.map(|limit| self.since + limit.get());
        }
    }

    /// Its time limit holds while it is ending, too.
    pub fn bound_end(&mut self, now: u64) {
        let grace = self.order.as_ref().map_or(0, |order| order.spec.grace.get());
        let over_at = self.over_at().filter(|_| self.started.is_some());
        if let (Some((_, kill_at)), Some(over_at)) = (&mut self.ending, over_at) {
            *kill_at = (over_at.max(now) + grace).min(*kill_at);
        }
    }

    pub fn next_end(&self) -> Option<u64> {
        let kill = self.ending.map(|(_, at)| at);
        let next = kill.or(self.over_at().filter(|_| self.started.is_some()));
        next.into_iter().chain(self.fence_at).min()
    }

    /// When its time is over.
    pub fn over_at(&self) -> Option<u64> {
        let limit = self.limit_at.filter(|_| self.paused_at.is_none());
        limit.into_iter().chain(self.deadline_at).min()
    }

    /// Whether its memory is off its devices, or still being restored, as with a real driver.
    pub fn is_off(&self) -> bool {
        self.paused_at.is_some() || self.is_detached || self.comes_to.is_some()
    }

    /// The last order to pause or resume as the claim shows it: a shepherd notes an order to resume
    /// when the restore begins, and that the task is not paused when it is over.
    pub fn shown_halt(&self) -> Option<(Generation, bool)> {
        let resumption = self.resumption.filter(|_| self.paused_at.is_some() && !self.by_node);
        match resumption {
            Some(_) if self.is_restoring => self.halted.map(|(generation, _)| (generation, true)),
            Some(Resumption { earlier: Some(earlier) }) => Some(earlier),
            _ => self.halted,
        }
    }

    pub fn report(&self, task: TaskId) -> TaskReport {
        let halt = self.shown_halt();
        let is = match (&self.ended, self.started) {
            (Some(end), _) => TaskIs::Ended(end.clone()),
            (None, Some((pid, started_at))) if halt.is_some_and(|(_, is_paused)| is_paused) => {
                TaskIs::Paused { pid, started_at }
            }
            (None, Some((pid, started_at))) => TaskIs::Running { pid, started_at },
            (None, None) => TaskIs::Launching,
        };
        let halted = halt.map(|(generation, _)| generation);
        let generation = halted.map_or(self.generation, |halted| halted.max(self.generation));
        TaskReport { task, generation, is }
    }
}
