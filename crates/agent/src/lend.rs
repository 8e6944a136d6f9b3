//! Divides the memory of shared devices among the tasks with ledgers, and calls loans back.
//! [`gpool_node::loans`] decides. Memory that a task requested and does not use is lent too, since
//! the library before the driver makes its allocation wait until the memory is back.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use gpool_model::agent::{LoanIs, LoanReport};
use gpool_model::device::Loan;
use gpool_model::id::{DeviceUuid, TaskId};
use gpool_model::unit::{Bytes, Timestamp};
use gpool_node::loans::{self, Act, Decision, Rung, Tenant, decide};
use gpool_node::presence::{MemoryPresence, reserve};
use gpool_sys::clock;

use crate::facts::now;
use crate::grow::{Departure, Keeper, OldestQuestion, TaskLedger};
use crate::input::{LoanAction, ThreadInput};
use gpool_shepherd::message::DeviceMemory;

/// The step of grants: a smaller one would make programs ask for each small allocation.
const STEP: u64 = 64 << 20;
/// Rounds of a decision: the use of memory can change meanwhile.
const ROUNDS: u32 = 4;
/// How long memory that was granted on request stays reserved for the process.
const PROMISE: Duration = Duration::from_secs(1);
/// A context can be larger than its charge: this much more is no loan.
const SLACK: Bytes = Bytes::from_mib(512);

/// A task on a device.
pub(crate) struct Seat {
    pub task: TaskId,
    /// Its index in the ledger.
    pub place: usize,
    pub tenant: Tenant,
    /// The memory that its processes count.
    ledger_usage: Bytes,
    /// The memory that its wish needs, not rounded.
    needed: Bytes,
}

impl Keeper {
    /// Makes the grants on a device fit its memory, and grants wishes as far as possible. Returns
    /// the answers; `None` while the driver's figures are missing, a task is being restored there,
    /// or the use changes all the time.
    pub(crate) fn balance(
        &mut self,
        device: &DeviceUuid,
        questions: &BTreeMap<TaskId, OldestQuestion>,
    ) -> Option<BTreeMap<TaskId, loans::WishAnswer>> {
        let usable = self.usable(device)?;
        let here = self.tasks.iter().filter(|(_, kept)| kept.place(device).is_some());
        let here: Vec<TaskId> = here.map(|(task, _)| *task).collect();
        here.iter().for_each(|task| self.clear(*task));
        for _ in 0..ROUNDS {
            let mut seats: Vec<Seat> = here
                .iter()
                .filter_map(|task| self.seat(*task, device, questions.get(task)))
                .collect();
            for seat in &mut seats {
                let is_called = seat.tenant.called.is_some();
                seat.tenant.can_move &= is_called && !self.roomy(device, seat).is_empty();
            }
            let mut present: Vec<(&mut Tenant, MemoryPresence)> = seats
                .iter_mut()
                .map(|seat| (&mut seat.tenant, self.tasks[&seat.task].presence))
                .collect();
            let reserved = reserve(usable, &mut present);
            let mut tenants: Vec<Tenant> = seats.iter().map(|seat| seat.tenant).collect();
            let held = self.held_on(device);
            // After the seats, so that the plan for it is passed over.
            tenants.extend((!held.is_zero()).then(|| Tenant::leaving(held)));
            let now = Timestamp::new(clock::boot_ms());
            let memory = usable.saturating_add(held);
            let mut plan = decide(memory, self.deadline, &tenants, now);
            reserved.apply(&mut plan, tenants.iter());
            let mut is_lower = false;
            for (seat, decision) in seats.iter().zip(&plan) {
                if decision.grant.bytes < seat.tenant.granted {
                    let ledger = &self.tasks[&seat.task].ledger;
                    ledger.grant(seat.place, decision.grant.bytes.get());
                    is_lower = true;
                }
            }
            // A process may use its grant until it is lower, so the use is read again after that.
            if is_lower {
                continue;
            }
            return self.apply(device, &seats, &plan, questions).filter(|_| !reserved.is_frozen);
        }
        None
    }

    /// The memory of a device that the tasks with ledgers can use together, without the part of
    /// those that left it and may come back.
    pub(crate) fn usable(&self, device: &DeviceUuid) -> Option<Bytes> {
        let has_ledger = |task: TaskId| self.tasks.contains_key(&task);
        let usable = self.facts.lock().devices.get(device)?.usable(&has_ledger);
        Some(usable.saturating_sub(self.held_on(device)))
    }

    /// The memory of a device that is kept for tasks which left it.
    fn held_on(&self, device: &DeviceUuid) -> Bytes {
        let left = self.tasks.values().filter(|kept| kept.place(device).is_none());
        left.map(|kept| kept.held_on(device)).fold(Bytes::ZERO, Bytes::saturating_add)
    }

    /// Carries out a plan, and returns the answers.
    fn apply(
        &mut self,
        device: &DeviceUuid,
        seats: &[Seat],
        plan: &[Decision],
        questions: &BTreeMap<TaskId, OldestQuestion>,
    ) -> Option<BTreeMap<TaskId, loans::WishAnswer>> {
        let mut answers = BTreeMap::new();
        // The first that waits is the reason for all calls.
        let waits = seats.iter().zip(plan).filter(|(_, decision)| {
            decision.grant.wish == Some(loans::WishAnswer::Wait) || decision.is_late
        });
        let first = waits.min_by_key(|(seat, _)| seat.tenant.wish.map(|wish| wish.since));
        let beneficiary = first.map(|(seat, _)| seat.task);
        let mut loans = Vec::new();
        for (seat, decision) in seats.iter().zip(plan) {
            let kept = self.tasks.get_mut(&seat.task)?;
            kept.ledger.grant(seat.place, decision.grant.bytes.get());
            match decision.called {
                Some(called) => drop(kept.calls.insert(seat.place, called)),
                None => {
                    kept.calls.remove(&seat.place);
                    kept.can_move |= kept.calls.is_empty();
                }
            }
            if decision.grant.wish == Some(loans::WishAnswer::Yes) {
                kept.pending_grants.insert(seat.place, (seat.needed, Instant::now()));
            }
            answers.extend(decision.grant.wish.map(|answer| (seat.task, answer)));
            loans.extend(kept.loan(seat, decision));
            let mut facts = self.facts.lock();
            let granted = facts.granted.entry(seat.task).or_default();
            // Memory that is called back has a deadline of its own.
            let called = decision.called.map_or(Bytes::ZERO, |_| seat.ledger_usage);
            granted.insert(device.clone(), decision.grant.bytes.max(called));
            drop(facts);
            self.act(device, seat, decision, beneficiary);
            let late = questions.get(&seat.task).filter(|it| decision.is_late && !it.is_late);
            if let (Some(question), Some(wish)) = (late, seat.tenant.wish) {
                self.waiting[question.ix].is_late = true;
                self.facts.lock().lending.entry(device.clone()).or_default().n_late += 1;
                let waited = Timestamp::new(clock::boot_ms()).since(wish.since);
                let is = LoanIs::Late { bytes: wish.total, waited };
                self.report(seat.task, Some(device.clone()), is);
            }
        }
        self.facts.lock().lending.entry(device.clone()).or_default().loans = loans;
        Some(answers)
    }

    fn act(
        &mut self,
        device: &DeviceUuid,
        seat: &Seat,
        decision: &Decision,
        beneficiary: Option<TaskId>,
    ) {
        let (task, on) = (seat.task, Some(device.clone()));
        match decision.act {
            None => {}
            Some(Act::Notify) => {
                self.tell(task);
                let keep = decision.called.map_or(Bytes::ZERO, |called| called.keep);
                let bytes = seat.tenant.used.saturating_sub(keep);
                let departure = self.tasks.get(&task).map_or(Departure::No, |kept| kept.departure);
                let beneficiary = match departure {
                    Departure::No => beneficiary,
                    Departure::ForUnknown => None,
                    Departure::For(task) => Some(task),
                };
                if let Some(beneficiary) = beneficiary {
                    self.report(task, on, LoanIs::Called { bytes, beneficiary });
                }
            }
            Some(Act::Back) => self.tell(task),
            Some(Act::Move) => self.send_elsewhere(device, seat, beneficiary),
            Some(Act::Leave) => self.let_leave(task),
            Some(Act::Pause) => {
                if let Some(kept) = self.tasks.get_mut(&task) {
                    kept.presence = MemoryPresence::Leaving;
                }
                self.sender.send(ThreadInput::LoanAction(LoanAction::Pause(task)));
            }
            Some(Act::Stop) => {
                self.report(task, on, LoanIs::Stopped);
                self.sender.send(ThreadInput::LoanAction(LoanAction::Stop(
                    task,
                    Rung::grace(self.deadline),
                )));
            }
        }
    }

    /// Tells a task how much memory it may use on each of its devices.
    pub(crate) fn tell(&self, task: TaskId) {
        let Some(kept) = self.tasks.get(&task) else { return };
        let shares = kept.ledger.shares();
        let of_device = |(ix, device): (usize, &DeviceUuid)| {
            let share = shares.get(ix)?;
            let limit = Bytes::new(share.limit);
            let keep = kept.calls.get(&ix).map_or(limit, |called| called.keep);
            let request = Bytes::new(share.request);
            Some(DeviceMemory { device: device.clone(), request, limit: keep.min(limit) })
        };
        let devices = kept.devices.iter().enumerate().filter_map(of_device).collect();
        self.sender.send(ThreadInput::LoanAction(LoanAction::Tell(task, devices)));
    }

    pub(crate) fn report(&self, task: TaskId, device: Option<DeviceUuid>, is: LoanIs) {
        if let Some(device) = device {
            let report = LoanReport { task, device, is };
            self.sender.send(ThreadInput::LoanAction(LoanAction::Report(report)));
        }
    }

    /// A task on a device. The driver's figure counts where it is higher, because it includes
    /// processes that do not count their memory.
    pub(crate) fn seat(
        &self,
        task: TaskId,
        device: &DeviceUuid,
        question: Option<&OldestQuestion>,
    ) -> Option<Seat> {
        let kept = self.tasks.get(&task)?;
        let place = kept.place(device)?;
        let share = kept.ledger.shares().get(place).copied()?;
        let granted = Bytes::new(share.granted);
        let [mut request, mut limit] = [share.request, share.limit].map(Bytes::new);
        let facts = self.facts.lock();
        let figures = facts.devices.get(device);
        let seen = figures.and_then(|figures| figures.tasks.get(&task)?.used).unwrap_or_default();
        drop(facts);
        // A task that damaged its file may have used all of its grant.
        let ledger_usage = kept.ledger_usage(place).unwrap_or(granted);
        let needed = ledger_usage.saturating_add(question.map_or(Bytes::ZERO, |it| it.bytes));
        let promised = kept.pending_grants.get(&place).filter(|(_, at)| at.elapsed() < PROMISE);
        let charged = ledger_usage.max(promised.map_or(Bytes::ZERO, |(bytes, _)| *bytes));
        let is_away = kept.presence.is_away();
        let used = if is_away { kept.held_on(device).max(seen) } else { charged.max(seen) };
        let more = used.saturating_sub(charged);
        if more <= SLACK {
            request = request.saturating_add(more);
            limit = limit.max(request);
        }
        let wish = question.filter(|_| !is_away).map(|question| {
            let stepped = needed.get().checked_next_multiple_of(STEP).unwrap_or(u64::MAX);
            let most = match needed {
                _ if needed <= request => request,
                _ if needed <= limit => limit,
                _ => needed,
            };
            loans::Wish { total: Bytes::new(stepped).min(most), since: question.since }
        });
        let tenant = Tenant {
            request,
            limit,
            used,
            granted,
            wish,
            priority: kept.priority,
            started_at: kept.since,
            called: kept.calls.get(&place).copied(),
            can_move: kept.can_move && kept.presence == MemoryPresence::Here,
            can_pause: kept.can_pause && kept.presence == MemoryPresence::Here,
            // After it left, the driver's figure is an old one for a moment.
            is_leaving: kept.presence != MemoryPresence::Here,
            departs: kept.departure != Departure::No,
        };
        Some(Seat { task, place, tenant, ledger_usage, needed })
    }
}

impl TaskLedger {
    /// The task's loan on a device, for people.
    fn loan(&mut self, seat: &Seat, decision: &Decision) -> Option<Loan> {
        let bytes = seat.tenant.loan();
        if bytes.is_zero() {
            self.loan_starts.remove(&seat.place);
            return None;
        }
        let now = now();
        let since = *self.loan_starts.entry(seat.place).or_insert(now);
        Some(Loan { task: seat.task, bytes, since, keep: decision.called.map(|it| it.keep) })
    }
}
