//! Pauses: by orders of the server, and by the node for a called loan. A task goes on once neither
//! wants it to be paused, as soon as its memory has room on its devices.

use gpool_model::agent::Order;
use gpool_model::job::JobState;
use gpool_model::{
    AllocationState, Bytes, Command, DrainTarget, Exit, Generation, JobId, JobVerb, Node, Phase,
    TaskId,
};
use gpool_node::converge::{Halting, Input};
use gpool_node::presence::{MemoryPresence, can_return};
use gpool_world::World;

use crate::broken::Invariant;
use crate::bug::Bug;
use crate::claim::{Claim, Resumption, ShepherdOrder};
use crate::machine::Machine;
use crate::sim::moves::is_under_way;
use crate::sim::projects::{preset, without_quotas};
use crate::sim::{Sim, picked};

impl Sim {
    /// Where the agent takes the memory of a task to be.
    pub(crate) fn presence(&self, m: usize, task: TaskId) -> MemoryPresence {
        let agent = self.machines[m].agent.as_ref();
        agent.and_then(|agent| agent.presence.get(&task).copied()).unwrap_or_default()
    }

    /// The agent learns where the memory of a task is, if the task is connected to it.
    pub(crate) fn note_presence(&mut self, m: usize, task: TaskId, next: MemoryPresence) {
        if !self.machines[m].lends || !self.is_connected(m, task) {
            return;
        }
        let before = self.presence(m, task);
        if let Some(agent) = self.machines[m].agent.as_mut() {
            agent.presence.insert(task, before.then(next));
        }
        self.lend(m);
    }

    /// A new agent finds a task that is off its devices.
    pub(crate) fn find_unsettled(&mut self, m: usize, task: TaskId) {
        let machine = &mut self.machines[m];
        let (Some(agent), Some(claim)) = (machine.agent.as_mut(), machine.claims.get(&task)) else {
            return;
        };
        if machine.lends && claim.is_off() && claim.link != Some(agent.number) {
            agent.presence.insert(task, MemoryPresence::Unsettled);
        }
    }

    /// A shepherd that connects says whether its task is off its devices, and then more.
    pub(crate) fn introduce(&mut self, m: usize, task: TaskId) {
        let is_off = self.machines[m].claims[&task].is_off();
        let (now, before) = (self.now, self.presence(m, task));
        if before == MemoryPresence::Unsettled {
            self.machines[m].wait_anew(now);
        }
        match before {
            MemoryPresence::Unsettled if !is_off => {
                self.note_presence(m, task, MemoryPresence::Here)
            }
            MemoryPresence::Here if is_off => {
                self.note_presence(m, task, MemoryPresence::Unsettled)
            }
            _ => self.lend(m),
        }
    }

    /// An agent pauses a task that keeps a called loan.
    pub(crate) fn vacate(&mut self, m: usize, task: TaskId) {
        let is_awaited = self.bug != Some(Bug::LeavingNotAwaited);
        let presence = if is_awaited { MemoryPresence::Leaving } else { MemoryPresence::Away };
        if let Some(agent) = self.machines[m].agent.as_mut() {
            agent.presence.insert(task, presence);
        }
        self.tell(m, task, ShepherdOrder::Vacate);
    }

    /// An agent brings tasks back that it paused for their loans, once they have room.
    pub(crate) fn bring_back(&mut self, m: usize) {
        let Some(agent) = self.machines[m].agent.as_ref() else { return };
        let away = agent.presence.iter().filter(|(_, it)| **it == MemoryPresence::Away);
        let away: Vec<TaskId> = away.map(|(task, _)| *task).collect();
        for task in away {
            if self.machines[m].has_room_for(task, self.bug) {
                self.note_presence(m, task, MemoryPresence::Returning);
                self.tell(m, task, ShepherdOrder::Return);
            }
        }
    }

    /// A shepherd tells a new agent whether its task is paused.
    pub(crate) fn say_halt(&mut self, m: usize, task: TaskId) {
        let claim = &self.machines[m].claims[&task];
        let is_off = claim.paused_at.is_some() || claim.is_detached;
        let (by_node, is_paused) = (claim.by_node, claim.is_paused() || claim.is_detached);
        if is_off && by_node && self.bug != Some(Bug::AwayForgotten) {
            self.note_presence(m, task, MemoryPresence::Away);
        }
        if is_off && is_paused {
            self.note_presence(m, task, MemoryPresence::Paused);
        }
        self.say_waits(m, task);
    }

    /// A shepherd reads that its task should be paused or go on.
    pub(crate) fn halt(&mut self, m: usize, task: TaskId, told: ShepherdOrder, fails: bool) {
        match told {
            ShepherdOrder::Vacate => self.leave_for_node(m, task, fails),
            ShepherdOrder::Return => {
                let cancels = self.bug == Some(Bug::ReturnCancelsPause);
                let claim = self.machines[m].claims.get_mut(&task).expect("its shepherd reads");
                claim.by_node = false;
                if cancels && let Some((_, is_paused)) = &mut claim.halted {
                    *is_paused = false;
                }
                self.go_on(m, task);
            }
            ShepherdOrder::Pause(generation, runs_on) => {
                self.pause(m, task, (generation, runs_on), fails);
            }
            ShepherdOrder::Resume(generation, devices, booked) => {
                let claim = self.machines[m].claims.get_mut(&task).expect("its shepherd reads");
                let (last, is_paused) = claim.halted.unwrap_or_default();
                if generation < last {
                    return;
                }
                if generation == last && is_paused {
                    // The same order was refused before.
                    return self.say_not_moved(m, task, generation);
                }
                let earlier = claim.shown_halt().filter(|_| !claim.by_node);
                claim.resumption = Some(Resumption { earlier });
                claim.halted = Some((generation, false));
                let is_elsewhere = claim.is_detached || claim.seats.devices() != devices;
                claim.comes_to = is_elsewhere.then_some(devices);
                claim.rebooked = booked;
                self.go_on(m, task);
            }
            ShepherdOrder::Detach | ShepherdOrder::Attach(_) => {}
        }
    }

    fn pause(
        &mut self,
        m: usize,
        task: TaskId,
        (generation, runs_on): (Generation, bool),
        fails: bool,
    ) {
        let claim = self.machines[m].claims.get_mut(&task).expect("its shepherd reads");
        let (halted, was_paused) = claim.halted.unwrap_or_default();
        if generation < halted || claim.ending.is_some() {
            return;
        }
        let not_paused = Halting::NotPaused { why: "the driver refused".to_owned() };
        let is_away = claim.by_node || claim.is_detached || claim.comes_to.is_some();
        if runs_on && is_away {
            claim.halted = Some((generation, was_paused));
            self.totals.pauses_away += 1;
            if self.bug == Some(Bug::AbsentTakenForPresent) {
                self.note_presence(m, task, MemoryPresence::Here);
            }
            return self.answer(m, task, Input::Halted { task, generation, halting: not_paused });
        }
        if fails && claim.is_restoring {
            // The order waits until the memory is back.
            claim.resumption = None;
            self.come_back(m, task);
        }
        let claim = &self.machines[m].claims[&task];
        if fails && claim.paused_at.is_none() {
            self.totals.pauses_refused += 1;
            self.note_presence(m, task, MemoryPresence::Here);
            let is_hidden = self.bug == Some(Bug::PauseFailureHidden);
            let halting = if is_hidden { Halting::Paused } else { not_paused };
            return self.answer(m, task, Input::Halted { task, generation, halting });
        }
        let claim = self.machines[m].claims.get_mut(&task).expect("its shepherd reads");
        claim.halted = Some((generation, true));
        self.totals.pauses += 1;
        self.stop_use(m, task);
        self.note_presence(m, task, MemoryPresence::Paused);
        self.answer(m, task, Input::Halted { task, generation, halting: Halting::Paused });
    }

    /// The memory of a task leaves its devices.
    fn stop_use(&mut self, m: usize, task: TaskId) {
        let now = self.now;
        let claim = self.machines[m].claims.get_mut(&task).expect("its shepherd acts");
        if claim.paused_at.is_none() {
            claim.home = claim.seats.devices();
        }
        claim.paused_at = claim.paused_at.or(Some(now));
        (claim.comes_to, claim.resumption) = (None, None);
        claim.rebooked.clear();
        self.machines[m].wait_anew(now);
        self.watch_place(m, task);
    }

    fn leave_for_node(&mut self, m: usize, task: TaskId, fails: bool) {
        let now = self.now;
        let claim = self.machines[m].claims.get_mut(&task).expect("its shepherd reads");
        if claim.by_node {
            return self.note_presence(m, task, MemoryPresence::Away);
        }
        let order = claim.order.as_ref();
        let may = order.is_some_and(|order| order.spec.life.exits.contains(&Exit::Pause));
        let fails = fails && claim.paused_at.is_none();
        if fails || !may || claim.ending.is_some() {
            if self.is_connected(m, task)
                && let Some(agent) = self.machines[m].agent.as_mut()
            {
                agent.staying.insert(task);
            }
            self.machines[m].wait_anew(now);
            let presence = self.presence(m, task).stayed();
            return self.note_presence(m, task, presence);
        }
        claim.by_node = true;
        self.totals.vacated += 1;
        self.stop_use(m, task);
        self.note_presence(m, task, MemoryPresence::Away);
    }

    /// A task goes on if neither server nor node want it to be paused.
    pub(crate) fn go_on(&mut self, m: usize, task: TaskId) {
        let claim = &self.machines[m].claims[&task];
        let (by_node, is_paused) = (claim.by_node, claim.is_paused());
        if !by_node && !is_paused {
            return self.restore(m, task);
        }
        if by_node {
            self.note_presence(m, task, MemoryPresence::Away);
        }
        if is_paused {
            self.note_presence(m, task, MemoryPresence::Paused);
        }
    }

    /// The memory of a task comes back: there is room, and then it is there.
    pub(crate) fn restore(&mut self, m: usize, task: TaskId) {
        let is_careless = self.bug == Some(Bug::ReturnedWithoutRoom);
        let machine = &mut self.machines[m];
        let has_room = is_careless || machine.can_restore(task);
        let claim = machine.claims.get_mut(&task).expect("its shepherd acts");
        let is_off = claim.paused_at.is_some() || claim.comes_to.is_some();
        if is_off && (!has_room || claim.by_node || claim.is_paused()) {
            return self.say_waits(m, task);
        }
        if is_off && !claim.is_restoring && !claim.memory.is_empty() {
            claim.is_restoring = true;
            return;
        }
        self.come_back(m, task);
    }

    /// A shepherd tells its agent that the restore of its task waits for room.
    fn say_waits(&mut self, m: usize, task: TaskId) {
        let claim = &self.machines[m].claims[&task];
        let waits = claim.comes_back() && !claim.is_restoring;
        let presence = self.presence(m, task);
        if waits
            && matches!(
                presence,
                MemoryPresence::Here | MemoryPresence::Paused | MemoryPresence::Unsettled
            )
        {
            self.note_presence(m, task, MemoryPresence::Resuming);
        }
    }

    fn come_back(&mut self, m: usize, task: TaskId) {
        let (now, bug, can_move) = (self.now, self.bug, self.machines[m].can_move);
        let claim = self.machines[m].claims.get_mut(&task).expect("its shepherd acts");
        claim.is_restoring = false;
        let was_paused = claim.paused_at.is_some();
        let generation = claim.halted.map(|(generation, _)| generation).unwrap_or_default();
        let devices = claim.comes_to.take().unwrap_or_else(|| claim.seats.devices());
        if was_paused && claim.home != devices && !can_move {
            if std::mem::take(&mut claim.is_fixed) {
                return self.not_moved(m, task, generation);
            }
            self.totals.remaps += 1;
            self.totals.shares_remapped += u64::from(claim.seats.sharer.is_some());
        }
        let is_moved = claim.seats.devices() != devices;
        let is_attached = claim.is_detached && claim.resumption.is_none();
        let stays = match was_paused {
            true => bug == Some(Bug::ResumedOnOldDevices),
            false => bug == Some(Bug::AttachIgnored),
        };
        match stays {
            true => claim.is_detached = false,
            false => claim.move_to(devices),
        }
        if !claim.rebooked.is_empty() {
            claim.seats.booked = std::mem::take(&mut claim.rebooked);
        }
        if let Some(since) = claim.paused_at.take() {
            claim.limit_at = claim.limit_at.map(|at| at + now.saturating_sub(since));
        }
        let is_resumed = claim.resumption.take().is_some();
        self.totals.moves += u64::from(is_moved && is_attached);
        self.totals.resumes += u64::from(was_paused);
        self.machines[m].wait_anew(now);
        self.watch_limit(m, task);
        self.watch_place(m, task);
        self.note_presence(m, task, MemoryPresence::Here);
        if is_attached {
            self.answer(m, task, Input::Attached { task });
        }
        if is_resumed {
            self.answer(m, task, Input::Halted { task, generation, halting: Halting::Resumed });
        }
    }

    /// The driver can't restore a task on other devices.
    fn not_moved(&mut self, m: usize, task: TaskId, generation: Generation) {
        let claim = self.machines[m].claims.get_mut(&task).expect("its shepherd acts");
        claim.halted = Some((generation, true));
        claim.resumption = None;
        let devices = claim.home.clone();
        claim.move_to(devices.clone());
        claim.seats.booked.clone_from(&devices);
        claim.rebooked.clear();
        self.totals.moves_failed += 1;
        self.note_presence(m, task, MemoryPresence::Paused);
        self.say_not_moved(m, task, generation);
    }

    fn say_not_moved(&mut self, m: usize, task: TaskId, generation: Generation) {
        let claim = self.machines[m].claims.get(&task).expect("its shepherd acts");
        let (why, devices) = ("the driver refused".to_owned(), claim.seats.devices());
        let halting = Halting::NotMoved { why, devices };
        self.answer(m, task, Input::Halted { task, generation, halting });
    }

    /// A paused task will not resume on other devices.
    pub(crate) fn fix(&mut self, m: usize, pick: u64) {
        let machine = &mut self.machines[m];
        let task = picked(&machine.paused(), pick);
        if let Some(claim) = task.and_then(|task| machine.claims.get_mut(&task)) {
            claim.is_fixed = true;
        }
    }

    /// Paused jobs may go on, and nothing keeps them from their devices: no drain, reservation,
    /// policy or quota; returns whether there are any.
    pub(crate) fn resume_all(&mut self) -> bool {
        let jobs = self.holding(JobState::Paused);
        let server = self.server.as_ref().filter(|it| it.paused_until.is_none());
        let Some(server) = server.filter(|_| !jobs.is_empty()) else { return false };
        let world = server.control.world();
        let reserved = world.reservations().keys().cloned().collect();
        let all = world.nodes().iter().map(|row| &row.node);
        let allows = all.filter(|node| node.allowed.is_some());
        let allow = |node: &Node| Command::AllowDevices { node: node.name.clone(), devices: None };
        let mut commands: Vec<Command> = allows.map(allow).collect();
        let undrain = |node: &Node| DrainTarget { node: node.name.clone(), device: None };
        let drained = world.drained().map(|row| undrain(&row.node));
        commands.push(Command::Undrain { targets: drained.collect() });
        commands.push(Command::Unreserve { names: reserved });
        commands.extend([preset("fair"), without_quotas(world)]);
        let resume = |job: &JobId| Command::on(vec![*job], JobVerb::Resume);
        commands.extend(jobs.iter().map(resume));
        commands.into_iter().for_each(|command| self.ask_as_admin(command));
        true
    }

    /// Checks that paused tasks use no device, and that shares have the size that the server has.
    pub(crate) fn check_pauses(&mut self) {
        let Some(server) = self.server.as_ref().filter(|_| !self.store.is_broken) else { return };
        let world = server.control.world();
        let mut found = self.outgrown(world).map(|what| (Invariant::Freed, what));
        for row in world.holding() {
            for it in row.job.phase.allocations() {
                let m = self.machines.iter().position(|machine| machine.node.name == it.node);
                let Some(m) = m else { continue };
                let Some(claim) = self.machines[m].claims.get(&it.task) else { continue };
                let task = it.task;
                if matches!(it.state, AllocationState::Paused { .. }) && claim.is_on_devices() {
                    let what = format!("{task} is paused, and uses its devices");
                    found = Some((Invariant::Paused, what));
                }
                let parts = claim.seats.slots.iter().map(|slot| slot.part);
                let is_calm = matches!(row.job.phase, Phase::Running { .. })
                    && claim.is_alive()
                    && claim.generation == row.job.generation
                    && !self.links[m].orders.iter().any(|it| is_change(&it.order));
                if is_calm && !parts.eq(it.slots.iter().map(|slot| slot.part)) {
                    let what = format!("{task} has another size than the server has noted");
                    found = Some((Invariant::Places, what));
                }
            }
        }
        if let Some((invariant, what)) = found {
            self.blame(invariant, what);
        }
    }
}

impl Sim {
    /// A device that is too small for its tasks, although they have the sizes that the server
    /// booked and nothing moves.
    fn outgrown(&self, world: &World) -> Option<String> {
        self.machines.iter().filter(|it| it.can_move && !is_under_way(it)).find_map(|machine| {
            let comes_back = machine.claims.values().any(Claim::comes_back);
            let is_still = machine.has_noted_all(world) && !comes_back;
            let mut devices = machine.node.devices.iter().filter(|_| is_still);
            let device = devices.find(|device| machine.is_outgrown(device))?;
            let name = &machine.node.name;
            Some(format!("{} of {name} is too small for its tasks", device.uuid))
        })
    }
}

fn is_change(order: &Order) -> bool {
    matches!(order, Order::Change { .. } | Order::Run(_))
}

impl Machine {
    /// Whether its tasks have the terms that the server booked: an order to change them may be
    /// behind others, or lost.
    pub(crate) fn has_noted_all(&self, world: &World) -> bool {
        let is_noted = |(task, claim): (&TaskId, &Claim)| {
            let row = world.job(task.job);
            row.is_some_and(|row| row.job.generation == claim.generation)
        };
        self.claims.iter().filter(|(_, claim)| claim.ended.is_none()).all(is_noted)
    }

    /// Whether memory of a task is on its way to a device or away from it, or its agent has not
    /// heard where it goes: programs wait for that.
    pub(crate) fn is_pausing(&self) -> bool {
        let is_under_way = |(task, claim): (&TaskId, &Claim)| {
            let has_news = !claim.orders.is_empty() || self.is_unsettled(*task);
            claim.is_alive() && (claim.comes_back() || has_news)
        };
        self.claims.iter().any(is_under_way)
            || self.agent.as_ref().is_some_and(|agent| !agent.unsaid.is_empty())
    }

    /// Whether its agent has not heard what becomes of a task that is off its devices.
    fn is_unsettled(&self, task: TaskId) -> bool {
        let presence = self.agent.as_ref().and_then(|agent| agent.presence.get(&task));
        presence == Some(&MemoryPresence::Unsettled)
    }

    /// A task ends. If its memory was on its way to a device or away from it, that is over.
    pub(crate) fn end_pause(&mut self, task: TaskId, now: u64) {
        let claim = &self.claims[&task];
        if claim.comes_back() || !claim.orders.is_empty() || self.is_unsettled(task) {
            self.wait_anew(now);
        }
    }

    /// The time until a program gets the memory of its request begins anew.
    fn wait_anew(&mut self, now: u64) {
        let memory = self.claims.values_mut().flat_map(|claim| &mut claim.memory);
        for wish in memory.filter_map(|memory| memory.wish.as_mut()) {
            wish.since = now;
        }
    }

    /// Whether the devices of a task have room for all its memory, without the requests of others.
    fn has_room_for(&self, task: TaskId, bug: Option<Bug>) -> bool {
        let Some(claim) = self.claims.get(&task) else { return false };
        claim.memory.iter().enumerate().all(|(place, memory)| {
            let Some(device) = self.device_of(task, place) else { return false };
            let (own, others): (Vec<_>, Vec<_>) =
                self.tenants(&device, bug).into_iter().partition(|seat| seat.task == task);
            let others = others.into_iter().map(|it| (it.task, it.tenant, it.presence));
            let usable: Bytes = self.usable(&device);
            own.first()
                .is_some_and(|own| can_return(usable, memory.used, (task, &own.tenant), others))
        })
    }
}
