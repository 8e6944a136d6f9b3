//! What a run can break, and the first thing that it broke.

use std::fmt;

macro_rules! invariants {
    ($($(#[doc = $doc:literal])* $name:ident $code:literal;)*) => {
        /// What must hold.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Invariant {
            $($(#[doc = $doc])* $name,)*
        }

        impl Invariant {
            /// A short name, which begins with the number of the promise that it belongs to.
            #[must_use]
            pub fn code(self) -> &'static str {
                match self { $(Self::$name => $code),* }
            }

            /// What must hold, in a sentence.
            #[must_use]
            pub fn what(self) -> &'static str {
                match self { $(Self::$name => concat!($($doc),*)),* }
            }
        }
    };
}

invariants! {
    /// A device is used by one task at a time, or by shares that fit it.
    DeviceUsedTwice "I1-device";
    /// The node's logic has each task where it really is.
    Places "N-places";
    /// Each device that the books show as free can be freed: no task waits for its devices once
    /// nothing moves, and each move that began is completed.
    Freed "N-freed";
    /// A task that the server takes for paused uses no device.
    Paused "N-paused";
    /// The memory of a device is granted once.
    LentTwice "N-memory";
    /// A call for a loan leaves the request.
    BelowRequest "N-request";
    /// An agent has the loans that there are, a new one too.
    Ledger "N-ledger";
    /// An agent that stays meets each request in time; if none stayed, the delay is reported.
    Guarantee "N-guarantee";
    /// The state does not contradict itself.
    State "I1-state";
    /// A job with an answered submission exists, or has ended.
    JobLost "I2-lost";
    /// A number is given to one job.
    NumberReused "I2-number";
    /// A submission that is repeated under its key is answered the same.
    KeyAnsweredTwice "I2-key";
    /// A program is started once.
    StartedTwice "I3-twice";
    /// A program starts only where the server believes it to.
    StartedUnknown "I3-unknown";
    /// A signal that was asked for once is sent at most once.
    SignalledTwice "I3-signal";
    /// No task is placed on a silent node.
    Silent "I3-silent";
    /// A job that has ended has no program that runs.
    EndedAlive "I7-alive";
    /// The reported end of a job is the true one.
    EndUntrue "I8-end";
    /// A time limit ends a program.
    LimitPassed "I8-limit";
    /// Terms only grow, and an agent obeys none that is older.
    Term "I9-term";
    /// The same inputs do the same again.
    Replay "I10-replay";
    /// The durable state is exactly the commits, in order.
    Store "I10-store";
    /// No answer or order leaves before the state behind it is durable.
    TooEarly "P-durable";
    /// No job starts on capacity that is reserved for others, or drained.
    Reserved "E1-reserved";
    /// An answered change stays.
    Undone "P-undone";
    /// Each notification about a job is delivered, or still in the outbox.
    Untold "P-told";
    /// No plan breaks an invariant.
    Alert "E7-alert";
    /// The beneficiary of an eviction claims the devices until it starts on them.
    Taken "E7-taken";
    /// A second cycle does nothing.
    SecondCycle "E5-cycle";
    /// Nothing waits that fits, and each wait has its reason.
    Waits "E6-waits";
    /// Later jobs never delay a planned start; only documented reasons do.
    Planned "E9-planned";
    /// The order in which records are loaded changes no plan.
    LoadOrder "E8-order";
    /// Nothing is launched on a device that can't be used.
    Device "P-device";
    /// Once faults cease, everything that can end ends and nothing is left over.
    Settling "I7-settling";
    /// Nothing panics.
    Panic "panic";
}

/// The first broken invariant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Broken {
    /// Which invariant.
    pub invariant: Invariant,
    /// How, for people.
    pub what: String,
    /// After how many happenings.
    pub step: usize,
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { invariant, what, step } = self;
        write!(f, "{} ({}) after {step} happenings: {what}", invariant.code(), invariant.what())
    }
}
