//! The counters of a cycle; the state updates them.

/// The state of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TaskStatus {
    Pending,
    Gated,
    Bound,
    Running,
    Pipelined,
    Releasing,
    /// Ended in a trial; it may be placed again.
    Evicted,
    Succeeded,
    Failed,
}

impl TaskStatus {
    /// It waits for a place.
    pub(crate) fn waits(self) -> bool {
        matches!(self, Self::Pending | Self::Evicted)
    }

    /// It has its place.
    pub(crate) fn holds(self) -> bool {
        matches!(self, Self::Bound | Self::Running)
    }

    /// It has its place, or will have it.
    pub(crate) fn active(self) -> bool {
        self.holds() || self == Self::Pipelined
    }
}

/// A place, and the shared devices there, as rows of `State::lots`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct At {
    pub place: usize,
    pub lot: (usize, usize),
}

/// What a task counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TaskNow {
    pub state: TaskStatus,
    /// Where it is or will be.
    pub at: Option<At>,
    /// The place that it leaves.
    pub from: Option<At>,
    /// Whether its project is charged for it.
    pub charged: bool,
    /// Its state before a trial evicted it.
    pub was: TaskStatus,
}

/// The free amount of a resource, and the further amount after all leaving tasks and claims, which
/// is negative if there is a claim on free capacity.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Free {
    pub idle: i64,
    pub leaving: i64,
}

impl Free {
    pub(crate) fn later(self) -> i64 {
        self.idle + self.leaving
    }

    pub(crate) fn count(&mut self, how: Hold, amount: i64) {
        match how {
            Hold::Stay => self.idle -= amount,
            Hold::Leave => {
                self.idle -= amount;
                self.leaving += amount;
            }
            Hold::Claim => self.leaving -= amount,
        }
    }
}

/// How a task counts on a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hold {
    Stay,
    Leave,
    Claim,
}

/// The free capacity of a node.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct NodeFree {
    pub cpu: Free,
    pub memory: Free,
    pub slots: Free,
}

/// The free capacity of a place.
#[derive(Debug, Clone, Default)]
pub(crate) struct PlaceFree {
    pub whole: Free,
    pub instances: Vec<Free>,
    /// Tasks there that no counter knows.
    pub unbooked: i64,
    /// The devices that were ever shared in this cycle, as rows of the state.
    pub shared: Vec<usize>,
}

/// A device that is shared, by memory or thousandths.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Shared {
    pub place: usize,
    /// The allocated amount, with leaving tasks.
    pub used: i64,
    pub leaving: i64,
    pub claimed: i64,
}

impl Shared {
    /// Whether there is or will be anything on it.
    pub(crate) fn live(self) -> bool {
        self.used > 0 || self.claimed > 0
    }

    /// Whether all its tasks leave and there is no claim: then it counts as a whole device.
    pub(crate) fn all_leave(self) -> bool {
        self.used > 0 && self.used == self.leaving && self.claimed == 0
    }

    /// Returns its use of the whole devices of its place.
    pub(crate) fn whole(self) -> Free {
        Free {
            idle: if self.used > 0 { -1 } else { 0 },
            leaving: if self.all_leave() {
                1
            } else if self.used == 0 && self.claimed > 0 {
                -1
            } else {
                0
            },
        }
    }
}

/// How many tasks of a set do what.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct SetNow {
    pub holding: i64,
    pub claiming: i64,
    pub waiting: i64,
    pub leaving: i64,
    pub succeeded: i64,
}

impl SetNow {
    /// Those that have a place or will have it.
    pub(crate) fn active(self) -> i64 {
        self.holding + self.claiming
    }

    pub(crate) fn counter(&mut self, state: TaskStatus) -> Option<&mut i64> {
        match state {
            TaskStatus::Pending | TaskStatus::Evicted => Some(&mut self.waiting),
            TaskStatus::Bound | TaskStatus::Running => Some(&mut self.holding),
            TaskStatus::Pipelined => Some(&mut self.claiming),
            TaskStatus::Releasing => Some(&mut self.leaving),
            TaskStatus::Succeeded => Some(&mut self.succeeded),
            TaskStatus::Gated | TaskStatus::Failed => None,
        }
    }
}
