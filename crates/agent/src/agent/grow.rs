//! The thread that answers the questions of tasks with fractions of devices, and clears the entries
//! of dead processes in their ledgers. [`gpool_node::loans`] decides. Memory that a task requested
//! is not lent to others, so every loan is of memory that nobody was promised.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::AsFd;
use std::sync::mpsc::{Receiver, TryRecvError};
use std::time::{Duration, Instant};

use gpool_ledger::{Answer, Asks, Ledger, Question, UsageError, Wish};
use gpool_model::id::{DeviceUuid, TaskId};
use gpool_model::unit::{Bytes, Timestamp};
use gpool_node::loans::{self, Tenant, divide};
use gpool_sys::clock;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::seen::Seen;
use super::wake::Waker;

/// How long a process waits for an answer before its allocation fails.
pub(super) const ANSWER: Duration = Duration::from_secs(10);
/// The time between two checks for dead processes.
const TICK: Duration = Duration::from_secs(1);
/// The step of grants: a smaller one would make programs ask for each small allocation.
const STEP: u64 = 64 << 20;
/// Rounds of a decision: the use of memory can change meanwhile.
const ROUNDS: u32 = 4;

/// A message to the thread.
pub(super) enum Message {
    /// Answer the questions of a task.
    Keep(TaskId, Kept),
    /// The task has ended.
    End(TaskId),
    /// The agent ends.
    Stop,
}

/// The ledger of a running task.
pub(super) struct Kept {
    ledger: Ledger,
    asks: Asks,
    /// By the index in the ledger.
    devices: Vec<DeviceUuid>,
    /// Since when this agent answers it.
    since: Timestamp,
}

/// A question that waits for the driver's figures.
struct Waiting {
    task: TaskId,
    device: usize,
    bytes: u64,
    question: Question,
    since: Timestamp,
    until: Instant,
}

/// The state of the thread.
pub(super) struct Keeper {
    tasks: BTreeMap<TaskId, Kept>,
    waiting: Vec<Waiting>,
    messages: Receiver<Message>,
    waker: Waker,
    seen: Seen,
    cleared: Instant,
}

impl Kept {
    pub(super) fn new(ledger: Ledger, asks: Asks, devices: Vec<DeviceUuid>) -> Self {
        Self { ledger, asks, devices, since: Timestamp::new(clock::unix_ms()) }
    }

    /// The task's place on a device.
    fn place(&self, device: &DeviceUuid) -> Option<usize> {
        self.devices.iter().position(|it| it == device)
    }

    /// The memory that the processes count on a device.
    fn counted(&self, place: usize) -> Result<Bytes, UsageError> {
        let processes = self.ledger.processes()?;
        let used = processes.iter().filter_map(|process| process.used.get(place));
        Ok(Bytes::new(used.fold(0, |sum, used| sum.saturating_add(*used))))
    }
}

impl Keeper {
    pub(super) fn new(messages: Receiver<Message>, waker: Waker, seen: Seen) -> Self {
        let (tasks, waiting) = (BTreeMap::new(), Vec::new());
        Self { tasks, waiting, messages, waker, seen, cleared: Instant::now() }
    }

    /// Runs until the agent's handle is gone.
    pub(super) fn run(mut self) {
        loop {
            let asking = self.wait();
            self.waker.clear();
            loop {
                match self.messages.try_recv() {
                    Ok(Message::Keep(task, kept)) => self.keep(task, kept),
                    Ok(Message::End(task)) => self.forget(task),
                    Ok(Message::Stop) | Err(TryRecvError::Disconnected) => return,
                    Err(TryRecvError::Empty) => break,
                }
            }
            for task in asking {
                self.hear(task);
            }
            self.answer_waiting();
            if self.cleared.elapsed() >= TICK {
                self.cleared = Instant::now();
                self.balance_all();
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
    fn keep(&mut self, task: TaskId, kept: Kept) {
        self.tasks.insert(task, kept);
        self.balance_all();
    }

    fn balance_all(&self) {
        self.tasks.keys().for_each(|task| self.clear(*task));
        let devices = self.tasks.values().flat_map(|kept| &kept.devices);
        for device in devices.collect::<BTreeSet<_>>() {
            self.balance(device, &BTreeMap::new());
        }
    }

    fn forget(&mut self, task: TaskId) {
        self.tasks.remove(&task);
        self.waiting.retain(|it| it.task != task);
        let mut facts = self.seen.facts();
        facts.damaged.remove(&task);
        facts.granted.remove(&task);
        for figures in facts.devices.values_mut() {
            figures.tasks.remove(&task);
        }
    }

    /// Clears the entries of a task's dead processes.
    fn clear(&self, task: TaskId) {
        let Some(kept) = self.tasks.get(&task) else { return };
        let cleared = kept.ledger.take_back_dead();
        let damaged = &mut self.seen.facts().damaged;
        match cleared {
            Ok(_) => damaged.remove(&task),
            Err(_) => damaged.insert(task),
        };
    }

    /// Takes one question of a task: others come in the next round, after those of other tasks.
    fn hear(&mut self, task: TaskId) {
        let Some(kept) = self.tasks.get(&task) else { return };
        let Ok(Some(question)) = kept.asks.next() else { return };
        // The gate opens by other means than an answer.
        let Wish::Memory { device, bytes } = question.wish else { return };
        let until = Instant::now() + ANSWER;
        let since = Timestamp::new(clock::unix_ms());
        self.waiting.push(Waiting { task, device, bytes, question, since, until });
    }

    /// Answers the questions that can be answered now: of each task on a device the oldest, as long
    /// as there are any.
    fn answer_waiting(&mut self) {
        let mut later = Vec::new();
        while let Some(first) = self.waiting.first() {
            let Some(device) = self.device_of(first).cloned() else {
                self.reply(0, Answer::No);
                continue;
            };
            let mut wishes: BTreeMap<TaskId, (u64, Timestamp)> = BTreeMap::new();
            let mut oldest: BTreeMap<TaskId, usize> = BTreeMap::new();
            for (ix, waiting) in self.waiting.iter().enumerate() {
                if self.device_of(waiting) == Some(&device) && !oldest.contains_key(&waiting.task) {
                    oldest.insert(waiting.task, ix);
                    wishes.insert(waiting.task, (waiting.bytes, waiting.since));
                }
            }
            let answers = self.balance(&device, &wishes);
            // From the last on, so that the positions of the others stay.
            let mut asked: Vec<(TaskId, usize)> = oldest.into_iter().collect();
            asked.sort_by_key(|(_, ix)| std::cmp::Reverse(*ix));
            for (task, ix) in asked {
                match answers.as_ref().map(|answers| answers.get(&task)) {
                    Some(Some(loans::Answer::Yes)) => self.reply(ix, Answer::Yes),
                    Some(Some(loans::Answer::No) | None) => self.reply(ix, Answer::No),
                    None | Some(Some(loans::Answer::Wait)) => {
                        if Instant::now() < self.waiting[ix].until {
                            later.push(self.waiting.remove(ix));
                        } else {
                            self.reply(ix, Answer::No);
                        }
                    }
                }
            }
        }
        later.sort_by_key(|waiting| waiting.since);
        self.waiting = later;
    }

    fn device_of(&self, waiting: &Waiting) -> Option<&DeviceUuid> {
        self.tasks.get(&waiting.task)?.devices.get(waiting.device)
    }

    fn reply(&mut self, ix: usize, answer: Answer) {
        // A process that is gone needs no answer.
        let _ = self.waiting.remove(ix).question.answer(answer);
    }

    /// Makes the grants on a device fit its memory, and grants wishes as far as possible. Returns
    /// the answers; `None` while the driver's figures are missing or the use changes all the time.
    fn balance(
        &self,
        device: &DeviceUuid,
        wishes: &BTreeMap<TaskId, (u64, Timestamp)>,
    ) -> Option<BTreeMap<TaskId, loans::Answer>> {
        let has_ledger = |task: TaskId| self.tasks.contains_key(&task);
        let usable = self.seen.facts().devices.get(device)?.usable(&has_ledger);
        let sharing: Vec<(TaskId, &Kept, usize)> = self
            .tasks
            .iter()
            .filter_map(|(task, kept)| Some((*task, kept, kept.place(device)?)))
            .collect();
        sharing.iter().for_each(|(task, _, _)| self.clear(*task));
        for _ in 0..ROUNDS {
            let tenants: Vec<(Tenant, Bytes)> = sharing
                .iter()
                .map(|(task, kept, at)| self.tenant((*task, kept), *at, wishes.get(task)))
                .collect();
            let plan = divide(usable, &tenants.iter().map(|(it, _)| *it).collect::<Vec<_>>());
            let mut is_lower = false;
            for (((_, kept, at), (_, granted)), grant) in sharing.iter().zip(&tenants).zip(&plan) {
                if grant.bytes < *granted {
                    kept.ledger.grant(*at, grant.bytes.get());
                    is_lower = true;
                }
            }
            // A process may use its grant until it is lower, so the use is read again after that.
            if is_lower {
                continue;
            }
            let mut facts = self.seen.facts();
            let mut answers = BTreeMap::new();
            for ((task, kept, at), grant) in sharing.iter().zip(&plan) {
                kept.ledger.grant(*at, grant.bytes.get());
                let of_task = facts.granted.entry(*task).or_default();
                of_task.insert(device.clone(), grant.bytes);
                answers.extend(grant.wish.map(|answer| (*task, answer)));
            }
            return Some(answers);
        }
        None
    }

    /// A task's memory on a device, and its grant. The driver's figure counts where it is higher,
    /// because it includes processes that do not count their memory.
    fn tenant(
        &self,
        (task, kept): (TaskId, &Kept),
        place: usize,
        wish: Option<&(u64, Timestamp)>,
    ) -> (Tenant, Bytes) {
        let share = kept.ledger.shares().get(place).copied();
        let (request, limit, granted) =
            share.map_or((0, 0, 0), |share| (share.request, share.limit, share.granted));
        let counted = kept.counted(place);
        let facts = self.seen.facts();
        let figures = kept.devices.get(place).and_then(|device| facts.devices.get(device));
        let seen = figures.and_then(|figures| figures.tasks.get(&task)?.used);
        // A task that damaged its file may have used all of its grant.
        let counted = counted.unwrap_or(Bytes::new(granted));
        let (request, limit) = (Bytes::new(request), Bytes::new(limit));
        let wish = wish.map(|(more, since)| {
            let needed = counted.saturating_add(Bytes::new(*more));
            let stepped =
                Bytes::new(needed.get().checked_next_multiple_of(STEP).unwrap_or(u64::MAX));
            let total = if needed <= limit { stepped.min(limit) } else { needed };
            loans::Wish { total, since: *since }
        });
        let tenant = Tenant {
            request,
            limit,
            // What it requested counts as used, so that it is not lent.
            used: counted.max(seen.unwrap_or_default()).max(request),
            wish,
            // An order to run a task does not carry the priority of its job.
            priority: 0,
            started_at: kept.since,
        };
        (tenant, Bytes::new(granted))
    }
}
