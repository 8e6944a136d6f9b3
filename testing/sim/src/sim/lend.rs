//! The memory of shared devices: programs allocate and free it; agents lend it and call loans back,
//! as `gpool_agent` does around [`gpool_node::loans`]. Use and grants outlive the agent.

use gpool_model::{Bytes, DeviceUuid, TaskId, Timestamp};
use gpool_node::loans::{self, Act, Called, Decision, Rung, Tenant};
use gpool_node::presence::MemoryPresence;

use crate::broken::Invariant;
use crate::bug::Bug;
use crate::claim::{Claim, Memory, Why, Wish};
use crate::machine::Machine;
use crate::nodes::{Answer, DEADLINE, Question, divide};
use crate::sim::{Sim, picked};

/// The time between two looks of an agent at the memory, in milliseconds.
const TICK: u64 = 1000;
/// Rounds of a decision: programs may use a grant until it is lower.
const ROUNDS: u32 = 4;

/// A task on a device, for its agent.
pub(crate) struct Seat {
    pub task: TaskId,
    /// Its place among the devices of the task.
    place: usize,
    pub tenant: Tenant,
    pub presence: MemoryPresence,
}

impl Sim {
    /// An agent answers for the memory of a task, which begins with nothing granted or was found.
    pub(crate) fn keep_ledger(&mut self, m: usize, task: TaskId) {
        let bug = self.bug;
        let machine = &mut self.machines[m];
        let Some(agent) = machine.agent.as_mut() else { return };
        let claim = machine.claims.get_mut(&task).filter(|claim| !claim.memory.is_empty());
        let Some(claim) = claim else { return };
        if claim.link != Some(agent.number) && bug == Some(Bug::LedgersForgotten) {
            return;
        }
        claim.memory.iter_mut().for_each(|memory| memory.is_seen = false);
        let is_own = claim.link == Some(agent.number);
        agent.ledgers.insert(task);
        // An earlier agent may have ended before it changed the size.
        match is_own || bug != Some(Bug::SizeNotReread) {
            true => self.resize_ledger(m, task),
            false => self.lend(m),
        }
    }

    /// An agent lends by the size that is noted for the shares of a task.
    pub(crate) fn resize_ledger(&mut self, m: usize, task: TaskId) {
        let machine = &mut self.machines[m];
        let Some(claim) = machine.claims.get(&task) else { return };
        let size = |(place, slot): (usize, &gpool_model::Slot)| {
            let whole = machine.memory_at(task, place);
            let request = slot.part.memory_of(whole);
            [request, slot.part.limit_of(whole).max(request)]
        };
        let sizes: Vec<_> = claim.seats.slots.iter().enumerate().map(size).collect();
        let claim = machine.claims.get_mut(&task).expect("it was just looked at");
        for (memory, [request, limit]) in claim.memory.iter_mut().zip(sizes) {
            memory.is_seen &= memory.request == request;
            (memory.request, memory.limit) = (request, limit);
        }
        self.lend(m);
    }

    /// An agent has the ledgers of all tasks of earlier agents, and begins to divide memory.
    pub(crate) fn complete_ledgers(&mut self, m: usize) {
        if let Some(agent) = self.machines[m].agent.as_mut() {
            agent.is_complete = true;
            self.lend(m);
        }
    }

    /// A program on a machine that lends has started.
    pub(crate) fn open_ledger(&mut self, m: usize, task: TaskId) {
        let is_granted = self.bug == Some(Bug::RequestGrantedAtOnce);
        let machine = &mut self.machines[m];
        let Some(claim) = machine.claims.get_mut(&task).filter(|_| machine.lends) else { return };
        let begun = claim.seats.slots.iter().map(|slot| match is_granted {
            true => {
                let request = slot.part.memory_of(Bytes::ZERO);
                Memory { used: request, granted: request, ..Memory::default() }
            }
            false => Memory::default(),
        });
        claim.memory = begun.collect();
        self.keep_ledger(m, task);
    }

    /// A program allocates a part of a device, or asks for it.
    pub(crate) fn grow(&mut self, m: usize, pick: u64, percent: u64) {
        let now = self.now;
        let machine = &mut self.machines[m];
        let Some((task, place)) = picked(&machine.growing(), pick) else { return };
        let whole = machine.memory_at(task, place);
        let Some(memory) = machine.memory_mut(task, place) else { return };
        let more = Bytes::new(whole.get() / 100 * percent.min(100));
        let total = memory.used.saturating_add(more);
        if total <= memory.granted {
            memory.uses(total);
        } else {
            memory.wish = Some(Wish { total, since: now, is_late: false });
            self.lend(m);
        }
    }

    /// A program frees memory: its loan that is called back, or a part of all its memory.
    pub(crate) fn shrink(&mut self, m: usize, pick: u64, percent: u64) {
        let machine = &mut self.machines[m];
        let Some((task, place)) = picked(&machine.shrinking(), pick) else { return };
        let Some(memory) = machine.memory_mut(task, place) else { return };
        let freed = Bytes::new(memory.used.get() / 100 * percent.min(100));
        let rest = memory.used.saturating_sub(freed);
        memory.uses(memory.keep.map_or(rest, |keep| keep.min(memory.used)));
    }

    /// A program will use all of its grant just before it is lowered.
    pub(crate) fn surge(&mut self, m: usize, pick: u64) {
        let machine = &mut self.machines[m];
        let Some((task, place)) = picked(&machine.growing(), pick) else { return };
        machine.memory_mut(task, place).into_iter().for_each(|memory| memory.surges = true);
    }

    /// An agent looks at the memory while tasks wait or loans are called.
    pub(crate) fn lend_due(&mut self, m: usize) {
        let agent = self.machines[m].agent.as_ref();
        let at = agent.and_then(|agent| agent.lend_at);
        if at.is_some_and(|at| at <= self.now) {
            self.lend(m);
            self.bring_back(m);
        }
    }

    /// An agent divides the memory of each device, and answers the programs.
    pub(crate) fn lend(&mut self, m: usize) {
        let is_early = self.bug == Some(Bug::LentBeforeAdopted);
        let agent = self.machines[m].agent.as_ref();
        if !agent.is_some_and(|agent| agent.is_complete || is_early) {
            return;
        }
        let devices: Vec<DeviceUuid> =
            self.machines[m].node.devices.iter().map(|device| device.uuid.clone()).collect();
        for device in &devices {
            while self.lend_on(m, device) > 0 {}
        }
        let (now, is_timed) = (self.now, self.bug != Some(Bug::CallsUntimed));
        let machine = &mut self.machines[m];
        let waits = machine.claims.values().filter(|claim| claim.is_running());
        let waits = waits.flat_map(|claim| &claim.memory).any(|memory| memory.wish.is_some());
        if let Some(agent) = machine.agent.as_mut() {
            let is_away = agent.presence.values().any(|presence| *presence != MemoryPresence::Here);
            let is_open = waits || is_away || !agent.calls.is_empty();
            agent.lend_at = (is_open && is_timed).then_some(now + TICK);
        }
    }

    /// Returns the number of answers.
    fn lend_on(&mut self, m: usize, device: &DeviceUuid) -> usize {
        let now = Timestamp::new(self.now);
        let memory = self.machines[m].usable(device);
        for _ in 0..ROUNDS {
            let mut seats = self.machines[m].tenants(device, self.bug);
            let asked: Vec<_> = seats.iter().map(|seat| (seat.tenant, seat.presence)).collect();
            let mut tenants = asked.clone();
            let (mut plan, is_frozen) = divide(memory, &mut tenants, now);
            let question = || Question::Divide { memory, now, tenants: asked };
            self.keep(|| (question(), Answer::Plan(plan.clone())));
            for (seat, (tenant, _)) in seats.iter_mut().zip(tenants) {
                seat.tenant = tenant;
            }
            for called in plan.iter_mut().filter_map(|decision| decision.called.as_mut()) {
                if self.bug == Some(Bug::KeepTooLittle) {
                    called.keep = called.keep.div_floor(2);
                }
            }
            let mut is_lower = false;
            for (seat, decision) in seats.iter().zip(&plan) {
                if decision.grant.bytes < seat.tenant.granted {
                    is_lower = true;
                    if !self.may_act(m) {
                        return 0;
                    }
                    let memory = self.machines[m].memory_mut(seat.task, seat.place);
                    memory.into_iter().for_each(|memory| memory.lower(decision.grant.bytes));
                }
            }
            // A program may use its grant until it is lower, so the use is read again after that.
            if !is_lower || self.bug == Some(Bug::UseNotReread) {
                return self.carry_out_loans(m, &seats, &plan, is_frozen);
            }
        }
        0
    }

    fn carry_out_loans(
        &mut self,
        m: usize,
        seats: &[Seat],
        plan: &[Decision],
        is_frozen: bool,
    ) -> usize {
        let mut n_answers = 0;
        for (seat, decision) in seats.iter().zip(plan) {
            if !self.may_act(m) {
                return 0;
            }
            let key = (seat.task, seat.place);
            let machine = &mut self.machines[m];
            if let Some(memory) = machine.memory_mut(seat.task, seat.place) {
                memory.granted = decision.grant.bytes;
                memory.is_seen = memory.used == seat.tenant.used;
            }
            if let Some(agent) = machine.agent.as_mut() {
                agent.calls.remove(&key);
                agent.calls.extend(decision.called.map(|called| (key, called)));
                agent.loans.insert(key, seat.tenant.loan());
            }
            self.act_on_loan(m, seat, decision);
            if !is_frozen {
                n_answers += usize::from(self.answer_wish(m, seat, decision));
            }
        }
        n_answers
    }

    /// Acts on a borrower.
    fn act_on_loan(&mut self, m: usize, seat: &Seat, decision: &Decision) {
        let Seat { task, place, tenant, .. } = seat;
        let keep = decision.called.map(|called| called.keep);
        if keep.is_some_and(|keep| keep < tenant.request) {
            let what = format!("{task} may keep {keep:?}, and requested {}", tenant.request);
            self.blame(Invariant::BelowRequest, what);
        }
        if let Some(memory) = self.machines[m].memory_mut(*task, *place) {
            memory.keep = keep;
        }
        match decision.act {
            Some(Act::Notify) => self.totals.calls += 1,
            Some(Act::Stop) if self.bug != Some(Bug::ReclaimSkipped) => {
                if tenant.loan().is_zero() {
                    let what = format!("{task} is stopped for a loan, and has none");
                    self.blame(Invariant::BelowRequest, what);
                }
                self.watch.called_back.insert(*task);
                self.begin_end(m, *task, Why::CalledBack, Rung::grace(DEADLINE));
            }
            Some(Act::Pause) => self.vacate(m, *task),
            Some(Act::Stop | Act::Back | Act::Move | Act::Leave) | None => {}
        }
    }

    /// Answers the wish of a task, if there is an answer; returns whether there is.
    fn answer_wish(&mut self, m: usize, seat: &Seat, decision: &Decision) -> bool {
        let now = self.now;
        // A paused task can't read its answer.
        if !self.machines[m].claims.get(&seat.task).is_some_and(Claim::is_on_devices) {
            return false;
        }
        let Some(memory) = self.machines[m].memory_mut(seat.task, seat.place) else { return false };
        let Some(wish) = memory.wish.as_mut().filter(|_| decision.grant.wish.is_some()) else {
            return false;
        };
        wish.is_late |= decision.is_late;
        let (total, waited) = (wish.total, now.saturating_sub(wish.since));
        match decision.grant.wish {
            Some(loans::WishAnswer::Yes) => {
                memory.wish = None;
                memory.uses(total);
                self.totals.loans += u64::from(total > seat.tenant.request);
                true
            }
            Some(loans::WishAnswer::No) => {
                memory.wish = None;
                if total <= seat.tenant.request && waited < 2 * DEADLINE.get() {
                    let what = format!("{} is refused {total} after {waited} ms", seat.task);
                    self.blame(Invariant::Guarantee, what);
                }
                true
            }
            Some(loans::WishAnswer::Wait) | None => false,
        }
    }

    /// Checks that memory is granted once, agents know the loans, and requests are met in time.
    pub(crate) fn check_lending(&mut self) {
        let now = self.now;
        let found = self.machines.iter().filter(|machine| machine.lends).find_map(|machine| {
            let twice = granted_twice(machine).map(|what| (Invariant::LentTwice, what));
            let untrue = || untrue(machine).map(|what| (Invariant::Ledger, what));
            let late = || unmet(machine, now).map(|what| (Invariant::Guarantee, what));
            twice.or_else(untrue).or_else(late)
        });
        if let Some((invariant, what)) = found {
            self.blame(invariant, what);
        }
    }
}

impl Machine {
    /// The shares that are on their devices.
    fn present(&self) -> impl Iterator<Item = (TaskId, usize, &gpool_model::Slot, &Memory)> {
        self.shared().filter(|(task, ..)| self.claims[task].is_on_devices())
    }

    /// The device of a share: where it is, or where its agent sends it.
    pub(crate) fn device_of(&self, task: TaskId, place: usize) -> Option<DeviceUuid> {
        let claim = self.claims.get(&task)?;
        let sent = self.agent.as_ref().filter(|_| !claim.is_on_devices()).and_then(|agent| {
            let seats = agent.converge.seats().find(|(other, _)| *other == task);
            Some(seats?.1.slots.get(place)?.device.clone())
        });
        sent.or_else(|| Some(claim.seats.slots.get(place)?.device.clone()))
    }

    /// Whether the memory of a task that comes back has room, which no other task may use.
    pub(crate) fn can_restore(&self, task: TaskId) -> bool {
        let claim = &self.claims[&task];
        let devices = claim.comes_to.clone().unwrap_or_else(|| claim.seats.devices());
        let restoring = |task: &TaskId| self.claims[task].is_restoring;
        devices.iter().zip(&claim.memory).all(|(device, own)| {
            let all = self.node.devices.iter().find(|it| it.uuid == *device);
            let others = self.shared().filter(|(other, _, slot, _)| {
                let is_there = self.claims[other].is_on_devices() || restoring(other);
                *other != task && slot.device == *device && is_there
            });
            let used = others.fold(own.used, |sum, (.., it)| sum.saturating_add(it.used));
            claim.is_restoring
                || (own.used <= own.granted && all.is_some_and(|it| used <= it.memory))
        })
    }

    /// Whether the tasks on a device requested more than it has.
    pub(crate) fn is_outgrown(&self, device: &gpool_model::Device) -> bool {
        let on_devices = self.claims.values().filter(|claim| claim.is_on_devices());
        let slots = on_devices.flat_map(|claim| &claim.seats.slots);
        let here = slots.filter(|slot| slot.device == device.uuid && self.can_move);
        let requests = here.map(|slot| slot.part.memory_of(device.memory));
        requests.fold(Bytes::ZERO, Bytes::saturating_add) > device.memory
    }

    /// The shares of running programs, with their memory.
    fn shared(&self) -> impl Iterator<Item = (TaskId, usize, &gpool_model::Slot, &Memory)> {
        let running = self.claims.iter().filter(|(_, claim)| claim.is_running());
        running.flat_map(|(task, claim)| {
            let slots = claim.seats.slots.iter().zip(&claim.memory).enumerate();
            let shares = slots.filter(|(_, (slot, _))| !slot.part.is_alone());
            shares.map(|(place, (slot, memory))| (*task, place, slot, memory))
        })
    }

    /// Shares with programs that wait for no memory.
    pub(crate) fn growing(&self) -> Vec<(TaskId, usize)> {
        let free = self.present().filter(|(_, _, _, memory)| memory.wish.is_none());
        free.map(|(task, place, ..)| (task, place)).collect()
    }

    /// Whether a program waits for memory, or a loan is called back.
    pub(crate) fn is_calling(&self) -> bool {
        self.shared().any(|(_, _, _, memory)| memory.wish.is_some() || memory.keep.is_some())
    }

    /// Shares with memory to free; first those with loans that are called back.
    pub(crate) fn shrinking(&self) -> Vec<(TaskId, usize)> {
        let users = self.present().filter(|(_, _, _, memory)| !memory.used.is_zero());
        let mut users: Vec<_> = users.collect();
        users.sort_by_key(|(_, _, _, memory)| memory.keep.is_none());
        users.into_iter().map(|(task, place, ..)| (task, place)).collect()
    }

    fn memory_mut(&mut self, task: TaskId, place: usize) -> Option<&mut Memory> {
        self.claims.get_mut(&task)?.memory.get_mut(place)
    }

    /// The memory of the device of a share.
    pub(crate) fn memory_at(&self, task: TaskId, place: usize) -> Bytes {
        let slot = self.claims.get(&task).and_then(|claim| claim.seats.slots.get(place));
        let device = slot
            .and_then(|slot| self.node.devices.iter().find(|device| device.uuid == slot.device));
        device.map_or(Bytes::ZERO, |device| device.memory)
    }

    /// The memory of a device for the tasks with ledgers that the agent has opened.
    pub(crate) fn usable(&self, device: &DeviceUuid) -> Bytes {
        let all = self.node.devices.iter().find(|it| it.uuid == *device);
        let ledgers = self.agent.as_ref().map(|agent| &agent.ledgers);
        let others = self.present().filter(|(task, _, slot, _)| {
            slot.device == *device && !ledgers.is_some_and(|ledgers| ledgers.contains(task))
        });
        let used = others.map(|(_, _, _, memory)| memory.used);
        let used = used.fold(Bytes::ZERO, Bytes::saturating_add);
        all.map_or(Bytes::ZERO, |device| device.memory).saturating_sub(used)
    }

    /// The tasks on a device with ledgers that the agent has opened.
    pub(crate) fn tenants(&self, device: &DeviceUuid, bug: Option<Bug>) -> Vec<Seat> {
        let Some(agent) = &self.agent else { return Vec::new() };
        let here = self.shared().filter(|(task, place, ..)| {
            agent.ledgers.contains(task) && self.device_of(*task, *place).as_ref() == Some(device)
        });
        let seat = |(task, place, _, memory): (TaskId, usize, &gpool_model::Slot, &Memory)| {
            let presence = agent.presence.get(&task).copied().unwrap_or_default();
            let claim = &self.claims[&task];
            // The driver counts the memory that is really there.
            let is_hidden = presence.comes_back() && bug == Some(Bug::GrowthDuringRestore);
            let is_seen = claim.is_on_devices() || (claim.is_restoring && !is_hidden);
            let is_counted = (is_seen && bug != Some(Bug::LeavingNotAwaited))
                || !(presence.is_away() || is_hidden)
                || bug == Some(Bug::AwayCounted);
            let wish = memory
                .wish
                .filter(|_| !presence.is_away())
                .map(|wish| loans::Wish { total: wish.total, since: Timestamp::new(wish.since) });
            let called: Option<Called> = agent.calls.get(&(task, place)).copied();
            let tenant = Tenant {
                request: memory.request,
                limit: memory.limit,
                used: if is_counted { memory.used } else { Bytes::ZERO },
                granted: memory.granted,
                wish,
                priority: claim.priority(),
                started_at: Timestamp::new(claim.since),
                called,
                can_move: false,
                can_pause: self.pauses
                    && presence == MemoryPresence::Here
                    && !agent.staying.contains(&task),
                is_leaving: presence != MemoryPresence::Here,
                departs: false,
            };
            Seat { task, place, tenant, presence }
        };
        here.map(seat).collect()
    }
}

impl Memory {
    /// The program uses this much from now on.
    fn uses(&mut self, total: Bytes) {
        self.is_seen &= self.used == total;
        self.used = total;
    }

    /// The grant becomes lower, perhaps just after the program used it.
    fn lower(&mut self, granted: Bytes) {
        if std::mem::take(&mut self.surges) {
            self.uses(self.granted.max(self.used));
        }
        self.granted = granted;
    }
}

/// A device with more memory granted than it has.
fn granted_twice(machine: &Machine) -> Option<String> {
    machine.node.devices.iter().find_map(|device| {
        let here = machine.shared().filter(|(_, _, slot, _)| slot.device == device.uuid);
        let most = here.map(|(task, _, _, memory)| machine.most(task, memory));
        let all = most.fold(Bytes::ZERO, Bytes::saturating_add);
        let (uuid, memory) = (&device.uuid, device.memory);
        (all > memory).then(|| format!("{all} of {memory} of {uuid} are used or granted"))
    })
}

/// A loan that the agent has wrong.
fn untrue(machine: &Machine) -> Option<String> {
    let agent = machine.agent.as_ref().filter(|agent| agent.has_adopted)?;
    machine.present().find_map(|(task, place, slot, memory)| {
        let request = slot.part.memory_of(machine.memory_at(task, place));
        if memory.request != request && agent.ledgers.contains(&task) {
            let known = memory.request;
            return Some(format!("{task} requests {request}, and its agent has {known}"));
        }
        let loan = memory.used.saturating_sub(request);
        let known = agent.loans.get(&(task, place)).copied();
        let is_unknown = !agent.ledgers.contains(&task);
        // The memory of a task that is about to be there, or away, counts otherwise.
        let is_here = agent.presence.get(&task).is_none_or(|it| *it == MemoryPresence::Here);
        let is_wrong =
            is_unknown || (is_here && memory.is_seen && known.unwrap_or_default() != loan);
        is_wrong.then(|| format!("{task} borrows {loan}, and its agent has {known:?}"))
    })
}

/// A request that was not met in time, although the agent was there, or without an incident.
fn unmet(machine: &Machine, now: u64) -> Option<String> {
    let agent = machine.agent.as_ref().filter(|agent| agent.has_adopted)?;
    let limit = DEADLINE.get() + 2 * TICK;
    machine.present().filter(|_| !machine.is_pausing()).find_map(|(task, place, slot, memory)| {
        let wish = memory.wish?;
        let request = slot.part.memory_of(machine.memory_at(task, place));
        let waited = now.saturating_sub(wish.since);
        let there = now.saturating_sub(agent.since);
        let is_unmet = waited.min(there) > limit;
        let is_untold = waited > limit && there > 2 * TICK && !wish.is_late;
        (wish.total <= request && (is_unmet || is_untold))
            .then(|| format!("{task} waits for {} since {waited} ms", wish.total))
    })
}
