//! Bugs that are planted to see whether the simulation finds them: a check that has never caught
//! anything may not be able to. Each is done to the messages, files and processes around the real
//! state machine and the real agent, as a wrong implementation of them would.

use gpool_model::{
    Allocation, AllocationState, Amount, GpuRequest, JobId, MilliGpu, Phase, PoolName, Record,
    ResourceKind, Share, TaskId,
};

macro_rules! bugs {
    ($($(#[doc = $doc:literal])* $name:ident;)*) => {
        /// A bug that can be planted.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Bug {
            $($(#[doc = $doc])* $name,)*
        }

        impl Bug {
            /// Every one.
            pub const ALL: &'static [Self] = &[$(Self::$name),*];

            /// Returns a description of the bug.
            #[must_use]
            pub fn what(self) -> &'static str {
                match self { $(Self::$name => concat!($($doc),*)),* }
            }
        }
    };
}

bugs! {
    /// Answers leave before their commit is durable.
    ReplyTooEarly;
    /// Orders leave before their commit is durable.
    OrderTooEarly;
    /// The store says that a commit is durable and has not synced it.
    SyncDropped;
    /// A journal entry of a commit is not written.
    JournalDropped;
    /// A record is written otherwise than was asked.
    RecordChanged;
    /// Ended jobs leave memory and do not reach the archive.
    ArchiveDropped;
    /// An element of an array that ended does not reach the others that did.
    ElementDropped;
    /// The last job number is forgotten by a restart.
    NumberReused;
    /// A server starts without a term of its own.
    TermKept;
    /// An idempotency key is not kept.
    KeyForgotten;
    /// Time-driven events never come.
    TimerDropped;
    /// Orders to end a task never arrive.
    StopLost;
    /// Acknowledgements never arrive.
    AcknowledgeLost;
    /// An acknowledgement covers not the reported launch but any later one.
    AcknowledgeTooMuch;
    /// An order reaches an agent that was started after it was made.
    OrderToLaterAgent;
    /// An order of an earlier term is obeyed.
    OldTermObeyed;
    /// An order of an earlier generation is obeyed.
    OldGenerationObeyed;
    /// Two shepherds can claim the same task, and agents do not wait for those of earlier ones.
    ClaimShared;
    /// Claims are gone when an agent starts.
    ClaimDropped;
    /// An agent answers before it has looked at the claims.
    AnswerTooEarly;
    /// An agent reports the end of a task as soon as it gets the order to end it.
    EndTooEarly;
    /// A reboot is not reported.
    RebootUnnoticed;
    /// Exit codes 0 and 1 are swapped.
    ExitSwapped;
    /// The end of a task is reported once and never repeated.
    EndToldOnce;
    /// A refusal is reported as a launch under way.
    RefusalHidden;
    /// Devices are not asked before a launch.
    CheckSkipped;
    /// Changes of devices are reported once and never repeated.
    InventoryOnce;
    /// A signal is sent twice.
    SignalTwice;
    /// A time limit is not enforced.
    LimitIgnored;
    /// Another time limit is noted and not enforced.
    LimitUnapplied;
    /// A deadline is not enforced.
    DeadlineIgnored;
    /// A task that must never be launched is not kept from it, and agents do not wait as above.
    PreventSkipped;
    /// An agent starts while a shepherd of an earlier one has yet to claim its task.
    LaunchesNotAwaited;
    /// Messages that wait to be sent are forgotten by a restart.
    OutboxForgotten;
    /// Reservations are forgotten by a restart.
    ReservationForgotten;
    /// There are no planned starts: any job that fits now starts.
    StartsUnplanned;
    /// A late inventory is taken for a new one.
    InventoryUnordered;
    /// Quotas of projects have no effect.
    SharesIgnored;
    /// Projects are forgotten by a restart.
    ProjectForgotten;
    /// What projects are guaranteed is forgotten by a restart.
    GuaranteeForgotten;
    /// Which pool a node was put into is forgotten by a restart.
    PoolForgotten;
    /// A restart requeues a job with claims while their victims are still ending.
    ClaimForgotten;
    /// After a restart, a job with claims starts without waiting for their victims.
    ClaimNotAwaited;
    /// Jobs are preempted, and no job starts on their devices.
    TakenForNobody;
    /// A job starts on the devices of its victims at once, and the victims stay.
    VictimStays;
    /// After a restart, a share that waits for its victims also waits for the other shares.
    OthersAwaited;
    /// A task starts on the devices that the server booked, not on those that its node chose.
    LaunchBooked;
    /// A new agent takes each task to be where it is booked.
    PlaceForgotten;
    /// A new agent does not know the devices of tasks.
    PartsForgotten;
    /// An agent never tells its logic which devices there are.
    DevicesUntold;
    /// Messages to leave devices never arrive.
    DetachLost;
    /// Messages to come to devices never arrive.
    AttachLost;
    /// A task that moves goes back to the devices that it left.
    AttachIgnored;
    /// An agent does not wait until a task has left its devices.
    DetachNotAwaited;
    /// An agent takes devices to be smaller than the server does.
    DeviceTooSmall;
    /// A new agent does not know the memory of tasks.
    LedgersForgotten;
    /// A new agent divides memory before it knows that of all tasks.
    LentBeforeAdopted;
    /// An agent does not read the use of memory again after it lowered a grant.
    UseNotReread;
    /// An agent divides memory only when a program asks.
    CallsUntimed;
    /// A task that keeps a called loan is never stopped.
    ReclaimSkipped;
    /// A task begins with its request granted, although that may be lent.
    RequestGrantedAtOnce;
    /// A borrower may keep less than its request.
    KeepTooLittle;
    /// The new size of shares is forgotten by a restart.
    ResizeForgotten;
    /// A new size is noted as received, and the shares keep the old one.
    ResizeUnapplied;
    /// An agent does not lend by the new size of shares.
    ResizeUntold;
    /// A new agent does not lend by a size that an earlier one noted.
    SizeNotReread;
    /// The memory of a task is restored where there is no room for it.
    ReturnedWithoutRoom;
    /// Tasks grow while another one is restored beside them.
    GrowthDuringRestore;
    /// The memory of a task that is paused for its loans still counts on its devices.
    AwayCounted;
    /// An agent lends the memory of a task that it pauses before the task has left.
    LeavingNotAwaited;
    /// Messages that end a pause for loans never arrive.
    ReturnForgotten;
    /// A new agent does not know which tasks are paused for their loans.
    AwayForgotten;
    /// The end of a pause for loans also ends a pause by the server.
    ReturnCancelsPause;
    /// A paused task resumes on the devices that it left, not on those that it was sent to.
    ResumedOnOldDevices;
    /// A pause that fails is reported as done.
    PauseFailureHidden;
    /// An agent takes a task for present that refuses a pause because it is away for its loans.
    AbsentTakenForPresent;
    /// The server is not told that an agent is silent.
    SilenceUntold;
    /// An agent counts its lease from the answer to its beat, not from the beat.
    LeaseFromAnswer;
    /// The server takes an agent for lost as soon as the lease is over by its own clock.
    DriftIgnored;
    /// A task goes on when the lease of its agent is over.
    LeaseIgnored;
    /// Only a living agent ends tasks when its lease is over.
    LeaseWithAgent;
    /// An agent obeys an order to start that comes after the lease from its time.
    LateOrderObeyed;
    /// An order does not say that its task is fenced.
    FenceUntold;
    /// A server renews the lease of a lost agent before all orders from before have left.
    RenewedTooEarly;
    /// A new server takes agents for silent since before it was there.
    LostByRestart;
    /// A new agent takes its lease for renewed.
    LeaseTrusted;
    /// The scheduler's plan is wrong, and no job can be named for it.
    PlanWrong;
    /// The scheduler's plan is wrong for some jobs. The others must not notice.
    PlanWrongForSome;
}

impl Bug {
    /// Bugs that need a coincidence too rare for random seeds; exploring the protocol in full finds
    /// them.
    pub const FOR_EXPLORING: &'static [Self] = &[Self::LaunchesNotAwaited];

    /// Bugs that break no promise: the server survives them.
    pub const SURVIVED: &'static [Self] = &[Self::PlanWrongForSome];

    /// Whether it matters only where jobs share devices.
    pub(crate) fn is_of_shares(self) -> bool {
        self >= Self::OthersAwaited && self <= Self::KeepTooLittle
    }

    /// Whether it matters only where shares change their size and tasks are paused.
    pub(crate) fn is_elastic(self) -> bool {
        self >= Self::ResizeForgotten && self <= Self::PauseFailureHidden
    }

    /// Whether it matters only where idle tasks are released.
    pub(crate) fn is_of_idle(self) -> bool {
        self == Self::AbsentTakenForPresent
    }

    /// Whether it matters only where agents have leases.
    pub(crate) fn is_of_leases(self) -> bool {
        self >= Self::SilenceUntold && self <= Self::LeaseTrusted
    }

    /// Whether plans are made wrong for a job.
    pub(crate) fn is_wrong_for(self, job: JobId) -> bool {
        self == Self::PlanWrongForSome && job.number.0 % 5 == 3
    }
}

impl Bug {
    /// Changes the records that a restart reads, where that needs more than one of them.
    pub(crate) fn spoil(self, records: &mut [&mut Record]) {
        if self != Self::OthersAwaited {
            return;
        }
        let shares = records.iter().filter_map(|record| match record {
            Record::Job(job) => Some(job.phase.allocations()),
            _ => None,
        });
        let shares = shares.flatten().filter(|it| it.state == AllocationState::Running);
        let shares: Vec<Allocation> = shares.cloned().collect();
        for record in records.iter_mut() {
            let Record::Job(job) = record else { continue };
            for claim in job.phase.allocations_mut() {
                let is_beside = |it: &&Allocation| {
                    let mut slots = it.slots.iter();
                    slots.any(|own| claim.slots.iter().any(|slot| slot.device == own.device))
                };
                let beside: Vec<TaskId> =
                    shares.iter().filter(is_beside).map(|it| it.task).collect();
                if let AllocationState::Claimed { after } = &mut claim.state {
                    after.extend(beside);
                }
            }
        }
    }

    /// Whether a record survives a restart; it may be changed by it.
    pub(crate) fn keeps(self, record: &mut Record) -> bool {
        match (self, record) {
            (Self::OutboxForgotten, Record::Delivery(_))
            | (Self::ReservationForgotten, Record::Reservation(_)) => return false,
            (Self::ProjectForgotten, Record::Project(it)) => {
                return it.name.as_str() == "default";
            }
            (Self::GuaranteeForgotten, Record::Project(it)) => {
                let mut gpus = it.quota(&ResourceKind::Gpu);
                gpus.guaranteed = Some(Amount::NOTHING);
                it.quotas.set(ResourceKind::Gpu, gpus);
            }
            (Self::ResizeForgotten, Record::JobSpec(spec)) if spec.gpus.share().is_some() => {
                let changed = std::sync::Arc::make_mut(spec);
                let whole = GpuRequest::whole(changed.gpus.n_devices());
                let first = Share::Part { request: MilliGpu::new(1), limit: MilliGpu::new(1) };
                changed.gpus = whole.shared(first).expect("it was asked for whole");
            }
            (Self::PoolForgotten, Record::Node(node)) => node.pool = PoolName::usual(),
            (Self::ClaimForgotten | Self::ClaimNotAwaited, Record::Job(job)) => {
                let Phase::Starting { allocations, since } = &mut job.phase else { return true };
                let mut is_claim = false;
                for it in allocations {
                    if let AllocationState::Claimed { after } = &mut it.state {
                        after.clear();
                        is_claim = true;
                    }
                }
                if is_claim && self == Self::ClaimForgotten {
                    job.phase = Phase::Pending { since: *since };
                }
            }
            _ => {}
        }
        true
    }
}
