//! The thread that answers the questions of tasks with fractions of devices, and clears the entries
//! of dead processes in their ledgers. [`crate::lend`] divides the memory.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::AsFd;
use std::sync::mpsc::{Receiver, TryRecvError};
use std::time::{Duration, Instant};

use gpool_ledger::{Answer, Ledger, Question, QuestionSocket, UsageError, Wish};
use gpool_model::id::{DeviceUuid, TaskId};
use gpool_model::unit::{Bytes, Millis, Timestamp};
use gpool_model::{Sharer, SlotPart};
use gpool_node::loans::{self, Called};
use gpool_node::presence::MemoryPresence;
use gpool_sys::clock;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::facts::now;
use crate::input::InputSender;
use crate::shared_facts::SharedFacts;
use crate::wake::Waker;

/// How long a process waits for an answer before its allocation fails.
pub(crate) const ANSWER: Duration = Duration::from_secs(10);
/// The time between two checks for dead processes.
const TICK: Duration = Duration::from_secs(1);

pub(crate) enum GrowMessage {
    /// Answer the questions of a task.
    Keep(TaskId, Box<TaskLedger>),
    /// The ledgers of all tasks of earlier agents are open.
    Adopted,
    /// The shepherd of the task has connected.
    Connected {
        task: TaskId,
        /// Whether the task's memory is off its devices.
        is_off: bool,
    },
    /// The shares of the task have these sizes now, by slot.
    Resize(TaskId, Vec<SlotPart>),
    /// The task comes to these devices, by slot.
    Moved(TaskId, Vec<DeviceUuid>),
    End(TaskId),
    /// The task is elsewhere now.
    At(TaskId, MemoryPresence),
    /// The server has paused a task.
    Settled(TaskId),
    /// The task waits for room to be restored.
    Waits(TaskId),
    /// The task could not be paused, for this reason.
    Stays(TaskId, String),
    /// The task has to leave its devices, because another one needs room there.
    Depart(TaskId, Option<TaskId>),
    /// The task could not be moved.
    Stay(TaskId),
    /// The task is between devices, and these are chosen for it, by slot.
    Come(TaskId, Vec<DeviceUuid>),
    Stop,
}

/// Whether a task has to leave its devices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Departure {
    No,
    ForUnknown,
    For(TaskId),
}

/// The ledger of a running task.
pub(crate) struct TaskLedger {
    pub ledger: Ledger,
    asks: QuestionSocket,
    /// By the index in the ledger.
    pub devices: Vec<DeviceUuid>,
    /// The start of its program; until that is known, since when this agent answers it.
    pub since: Timestamp,
    pub priority: i32,
    pub presence: MemoryPresence,
    /// Whether it may still be moved for its loans.
    pub can_move: bool,
    /// Whether it may still be paused for them.
    pub can_pause: bool,
    pub departure: Departure,
    /// The devices that it goes to when they have room, by slot.
    pub comes: Option<Vec<DeviceUuid>>,
    /// Memory of the device that it leaves for its loan: its restore on another one can fail.
    pub holds: Option<(DeviceUuid, Bytes)>,
    /// The calls for its loans, by index.
    pub calls: BTreeMap<usize, Called>,
    /// Since when it has loans, by index.
    pub loan_starts: BTreeMap<usize, Timestamp>,
    /// Memory that was granted on request and may not be charged yet, by index.
    pub pending_grants: BTreeMap<usize, (Bytes, Instant)>,
}

pub(crate) struct PendingQuestion {
    pub task: TaskId,
    pub device: usize,
    pub bytes: Bytes,
    question: Question,
    /// On the boot clock.
    pub since: Timestamp,
    until: Instant,
    /// Whether it was reported that it waits too long.
    pub is_late: bool,
}

/// The oldest question of a task about a device.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OldestQuestion {
    pub ix: usize,
    pub bytes: Bytes,
    pub since: Timestamp,
    pub is_late: bool,
}

/// The state of the thread.
pub(crate) struct Keeper {
    pub tasks: BTreeMap<TaskId, TaskLedger>,
    pub waiting: Vec<PendingQuestion>,
    /// Whether the ledgers of all tasks of earlier agents are open. Before that, memory that one of
    /// them may use would be granted again.
    is_complete: bool,
    messages: Receiver<GrowMessage>,
    waker: Waker,
    pub facts: SharedFacts,
    /// Where the actions on borrowers go.
    pub sender: InputSender,
    /// The longest time until a called loan is back.
    pub deadline: Millis,
    cleared: Instant,
}

impl TaskLedger {
    pub(crate) fn new(
        ledger: Ledger,
        asks: QuestionSocket,
        devices: Vec<DeviceUuid>,
        sharer: Option<&Sharer>,
    ) -> Self {
        Self {
            ledger,
            asks,
            devices,
            since: now(),
            priority: sharer.map_or(0, |sharer| sharer.priority),
            presence: MemoryPresence::Here,
            can_move: true,
            can_pause: true,
            departure: Departure::No,
            comes: None,
            holds: None,
            calls: BTreeMap::new(),
            loan_starts: BTreeMap::new(),
            pending_grants: BTreeMap::new(),
        }
    }

    /// The task's place on a device.
    pub(crate) fn place(&self, device: &DeviceUuid) -> Option<usize> {
        self.devices.iter().position(|it| it == device)
    }

    /// The memory that the processes count on a device.
    pub(crate) fn ledger_usage(&self, place: usize) -> Result<Bytes, UsageError> {
        let processes = self.ledger.processes()?;
        let used = processes.iter().filter_map(|process| process.used.get(place));
        Ok(Bytes::new(used.fold(0, |sum, used| sum.saturating_add(*used))))
    }
}

impl Keeper {
    pub(crate) fn new(
        messages: Receiver<GrowMessage>,
        waker: Waker,
        facts: SharedFacts,
        sender: InputSender,
        deadline: Millis,
    ) -> Self {
        let (tasks, waiting, cleared) = (BTreeMap::new(), Vec::new(), Instant::now());
        let is_complete = false;
        Self { tasks, waiting, is_complete, messages, waker, facts, sender, deadline, cleared }
    }

    /// Runs until the agent's handle is gone.
    pub(crate) fn run(mut self) {
        loop {
            let asking = self.wait();
            self.waker.clear();
            loop {
                match self.messages.try_recv() {
                    Ok(GrowMessage::Keep(task, kept)) => self.keep(task, *kept),
                    Ok(GrowMessage::Adopted) => {
                        self.is_complete = true;
                        self.settle_all();
                    }
                    Ok(GrowMessage::Connected { task, is_off }) => self.connected(task, is_off),
                    Ok(GrowMessage::Resize(task, parts)) => self.resize(task, &parts),
                    Ok(GrowMessage::Moved(task, devices)) => self.moved(task, devices),
                    Ok(GrowMessage::End(task)) => self.forget(task),
                    Ok(GrowMessage::At(task, presence)) => self.note(task, presence),
                    Ok(GrowMessage::Settled(task)) => self.settled(task),
                    Ok(GrowMessage::Waits(task)) => self.waits(task),
                    Ok(GrowMessage::Stays(task, why)) => self.stays(task, why),
                    Ok(GrowMessage::Depart(task, beneficiary)) => self.depart(task, beneficiary),
                    Ok(GrowMessage::Stay(task)) => self.stay(task),
                    Ok(GrowMessage::Come(task, devices)) => self.come(task, devices),
                    Ok(GrowMessage::Stop) | Err(TryRecvError::Disconnected) => return,
                    Err(TryRecvError::Empty) => break,
                }
            }
            for task in asking {
                self.hear(task);
            }
            self.settle();
            if self.is_complete && self.cleared.elapsed() >= TICK {
                self.cleared = Instant::now();
                self.settle_all();
                self.bring_back();
                self.look_at_gates();
            }
        }
    }

    /// Waits for a message, a question or the next check; returns the tasks that ask.
    fn wait(&self) -> Vec<TaskId> {
        let mut fds = vec![PollFd::from_borrowed_fd(self.waker.fd(), PollFlags::IN)];
        let asks = self.tasks.values().map(|kept| kept.asks.as_fd());
        fds.extend(asks.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)));
        // Without tasks there is nothing to check.
        let most = (!self.tasks.is_empty()).then_some(TICK);
        let most = most.and_then(|most| Timespec::try_from(most).ok());
        if poll(&mut fds, most.as_ref()).is_err() {
            return Vec::new();
        }
        let is_ready = |fd: &PollFd<'_>| fd.revents().contains(PollFlags::IN);
        let ready = fds[1..].iter().zip(self.tasks.keys()).filter(|(fd, _)| is_ready(fd));
        ready.map(|(_, task)| *task).collect()
    }

    /// Begins to answer a task. Others lose unused grants that reach into its request.
    fn keep(&mut self, task: TaskId, kept: TaskLedger) {
        self.tasks.insert(task, kept);
        self.facts.lock().gated.insert(task);
        self.settle_all();
    }

    /// A smaller limit takes no memory away: the task can't allocate until it is below, and what is
    /// above its request is a loan as before.
    fn resize(&mut self, task: TaskId, parts: &[SlotPart]) {
        let Some(kept) = self.tasks.get(&task) else { return };
        let before = kept.ledger.shares();
        for (place, part) in parts.iter().enumerate() {
            if let SlotPart::Share { memory, limit, .. } = part {
                kept.ledger.resize(place, memory.get(), limit.max(memory).get());
            }
        }
        let sizes = |shares: &[gpool_ledger::Share]| -> Vec<_> {
            shares.iter().map(|share| (share.request, share.limit)).collect()
        };
        if sizes(&before) != sizes(&kept.ledger.shares()) {
            self.settle_all();
            self.tell(task);
        }
    }

    pub(crate) fn settle_all(&mut self) {
        let devices = self.tasks.values().flat_map(|kept| &kept.devices).cloned();
        for device in devices.collect::<BTreeSet<_>>() {
            self.settle_on(&device);
        }
    }

    /// Divides the memory of its new devices with the task. Nothing was called back there.
    fn moved(&mut self, task: TaskId, devices: Vec<DeviceUuid>) {
        let Some(kept) = self.tasks.get_mut(&task) else { return };
        kept.devices = devices;
        kept.calls.clear();
        kept.pending_grants.clear();
        self.facts.lock().leaves(task);
        self.settle_all();
    }

    fn forget(&mut self, task: TaskId) {
        self.tasks.remove(&task);
        self.waiting.retain(|it| it.task != task);
        let mut facts = self.facts.lock();
        facts.leaves(task);
        facts.damaged.remove(&task);
        facts.gated.remove(&task);
        facts.returning.remove(&task);
        for figures in facts.devices.values_mut() {
            figures.tasks.remove(&task);
        }
    }

    /// Clears the entries of a task's dead processes.
    pub(crate) fn clear(&self, task: TaskId) {
        let Some(kept) = self.tasks.get(&task) else { return };
        let cleared = kept.ledger.take_back_dead();
        let damaged = &mut self.facts.lock().damaged;
        match cleared {
            Ok(_) => damaged.remove(&task),
            Err(_) => damaged.insert(task),
        };
    }

    /// Takes one question of a task: others come in the next round, after those of other tasks.
    fn hear(&mut self, task: TaskId) {
        let Some(kept) = self.tasks.get(&task) else { return };
        let Ok(Some(question)) = kept.asks.next() else { return };
        let Wish::Memory { device, bytes, waited } = question.wish else {
            // The gate opens by other means than an answer.
            return self.look_at_gates();
        };
        let bytes = Bytes::new(bytes);
        let until = Instant::now()
            + if self.is_owed(task, device, bytes) { owed_for(self.deadline) } else { ANSWER };
        // A wrong time only changes the order of guaranteed wishes, and the report of a late one.
        let waited = u64::try_from(waited.as_millis()).unwrap_or(u64::MAX);
        let since = Timestamp::new(clock::boot_ms().saturating_sub(waited));
        self.waiting.push(PendingQuestion {
            task,
            device,
            bytes,
            question,
            since,
            until,
            is_late: false,
        });
    }

    /// Finds the tasks with released devices that wait at their gate. A question can be lost with
    /// the agent that heard it, so the ledgers count.
    fn look_at_gates(&self) {
        let waits = |(task, kept): (&TaskId, &TaskLedger)| {
            let is_released = kept.presence == MemoryPresence::Paused
                && kept.ledger.gate() == gpool_ledger::Gate::Released;
            (is_released && kept.ledger.n_waiting().is_ok_and(|n| n > 0)).then_some(*task)
        };
        let returning = self.tasks.iter().filter_map(waits).collect();
        self.facts.lock().returning = returning;
    }

    /// Whether the task's request covers this much more.
    fn is_owed(&self, task: TaskId, device: usize, bytes: Bytes) -> bool {
        let Some(kept) = self.tasks.get(&task) else { return false };
        let request = kept.ledger.shares().get(device).map_or(0, |share| share.request);
        let counted = kept.ledger_usage(device).unwrap_or_default();
        counted.saturating_add(bytes) <= Bytes::new(request)
    }

    /// Answers the questions that can be answered now.
    fn settle(&mut self) {
        self.waiting.retain(|waiting| !waiting.question.is_gone());
        let known = |waiting: &PendingQuestion| {
            self.tasks.get(&waiting.task).is_some_and(|it| waiting.device < it.devices.len())
        };
        let (known, unknown): (Vec<PendingQuestion>, Vec<PendingQuestion>) =
            std::mem::take(&mut self.waiting).into_iter().partition(known);
        self.waiting = known;
        for mut waiting in unknown {
            let _ = waiting.question.answer(Answer::No);
        }
        let asked: BTreeSet<DeviceUuid> =
            self.waiting.iter().filter_map(|it| self.device_of(it).cloned()).collect();
        for device in asked {
            self.settle_on(&device);
        }
    }

    /// Divides the memory of a device, as long as a question about it can be answered: of each task
    /// the oldest.
    fn settle_on(&mut self, device: &DeviceUuid) {
        while self.is_complete {
            let mut asked: BTreeMap<TaskId, OldestQuestion> = BTreeMap::new();
            for (ix, waiting) in self.waiting.iter().enumerate() {
                if self.device_of(waiting) == Some(device) {
                    let (bytes, since, is_late) = (waiting.bytes, waiting.since, waiting.is_late);
                    asked.entry(waiting.task).or_insert(OldestQuestion {
                        ix,
                        bytes,
                        since,
                        is_late,
                    });
                }
            }
            let answers = self.balance(device, &asked);
            let mut n_answered = 0;
            // From the last on, so that the positions of the others stay.
            let mut order: Vec<(TaskId, usize)> =
                asked.iter().map(|(task, asked)| (*task, asked.ix)).collect();
            order.sort_by_key(|(_, ix)| std::cmp::Reverse(*ix));
            // A paused task could not read its answer.
            order.retain(|(task, _)| !self.tasks[task].presence.is_away());
            for (task, ix) in order {
                let answer = match answers.as_ref().map(|answers| answers.get(&task)) {
                    Some(Some(loans::WishAnswer::Yes)) => Answer::Yes,
                    Some(Some(loans::WishAnswer::No) | None) => Answer::No,
                    None | Some(Some(loans::WishAnswer::Wait))
                        if Instant::now() < self.waiting[ix].until =>
                    {
                        continue;
                    }
                    None | Some(Some(loans::WishAnswer::Wait)) => Answer::No,
                };
                n_answered += 1;
                // A process that is gone needs no answer.
                let _ = self.waiting.remove(ix).question.answer(answer);
            }
            if n_answered == 0 {
                return;
            }
        }
    }

    fn device_of(&self, waiting: &PendingQuestion) -> Option<&DeviceUuid> {
        self.tasks.get(&waiting.task)?.devices.get(waiting.device)
    }
}

/// How long a process waits for memory that it requested.
pub(crate) fn owed_for(deadline: Millis) -> Duration {
    // The agent answers after twice the deadline at the latest.
    Duration::from_millis(deadline.get().saturating_mul(2)).saturating_add(ANSWER)
}
