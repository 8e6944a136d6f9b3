//! Tasks on their devices: shepherds leave devices and come to others, pause and resume, as agents
//! tell them. A shepherd that lives longer than its agent still reads what that one told it.

use gpool_model::agent::TaskIs;
use gpool_model::{Bytes, TaskId};
use gpool_node::converge::{Input, Seats};
use gpool_node::presence::MemoryPresence;
use gpool_world::World;

use crate::broken::Invariant;
use crate::bug::Bug;
use crate::claim::{Claim, ShepherdOrder};
use crate::machine::Machine;
use crate::sim::{Sim, picked};

impl Sim {
    /// An agent tells a shepherd something, now or once it connects.
    pub(crate) fn tell(&mut self, m: usize, task: TaskId, told: ShepherdOrder) {
        self.note(|| format!("    tell {task} {told:?}"));
        let is_lost = matches!(
            (self.bug, &told),
            (Some(Bug::DetachLost), ShepherdOrder::Detach)
                | (Some(Bug::AttachLost), ShepherdOrder::Attach(_))
                | (Some(Bug::ReturnForgotten), ShepherdOrder::Return)
        );
        let machine = &mut self.machines[m];
        let Some(agent) = machine.agent.as_mut().filter(|_| !is_lost) else { return };
        match machine.claims.get_mut(&task).filter(|claim| claim.link == Some(agent.number)) {
            Some(claim) => claim.orders.push_back(told),
            None => agent.unsaid.entry(task).or_default().push(told),
        }
    }

    /// Whether a shepherd is connected to the agent that is there.
    pub(crate) fn is_connected(&self, m: usize, task: TaskId) -> bool {
        let machine = &self.machines[m];
        let link = machine.claims.get(&task).and_then(|claim| claim.link);
        link.is_some() && link == machine.agent.as_ref().map(|agent| agent.number)
    }

    /// A shepherd of an earlier agent connects to this one.
    pub(crate) fn connect(&mut self, m: usize, pick: u64) {
        if let Some(task) = picked(&self.machines[m].unconnected(), pick) {
            self.connect_task(m, task);
        }
    }

    /// On nodes that do not move tasks nothing depends on when that is.
    pub(crate) fn connect_task(&mut self, m: usize, task: TaskId) {
        // It finds the end of the earlier connection only after all messages there.
        while self.machines[m].claims.get(&task).is_some_and(|claim| !claim.orders.is_empty()) {
            self.obey_told(m, task, false);
        }
        let machine = &mut self.machines[m];
        let (Some(agent), Some(claim)) = (machine.agent.as_mut(), machine.claims.get_mut(&task))
        else {
            return;
        };
        claim.link = Some(agent.number);
        if !machine.can_move && !machine.pauses {
            return;
        }
        claim.orders.extend(agent.unsaid.remove(&task).unwrap_or_default());
        if claim.ended.is_none() {
            let found = found(task, claim, true, self.bug);
            self.agent_input(m, found);
            self.introduce(m, task);
            self.say_halt(m, task);
        }
    }

    /// A shepherd reads a message and carries it out, or can't.
    pub(crate) fn read_told(&mut self, m: usize, pick: u64, fails: bool) {
        if let Some(task) = picked(&self.machines[m].told(), pick) {
            self.obey_told(m, task, fails);
        }
    }

    fn obey_told(&mut self, m: usize, task: TaskId, fails: bool) {
        let Some(claim) = self.machines[m].claims.get_mut(&task) else { return };
        let told = claim.orders.pop_front();
        if claim.ended.is_some() {
            return;
        }
        if claim.is_restoring || told.is_none() {
            self.restore(m, task);
        }
        match told {
            Some(told @ (ShepherdOrder::Detach | ShepherdOrder::Attach(_))) => {
                self.move_on(m, task, told, fails)
            }
            Some(told) => self.halt(m, task, told, fails),
            None => {}
        }
        self.totals.moves_failed += u64::from(fails);
        self.watch_limit(m, task);
        self.watch_place(m, task);
    }

    /// A shepherd leaves its devices, or comes to others.
    fn move_on(&mut self, m: usize, task: TaskId, told: ShepherdOrder, fails: bool) {
        let claim = self.machines[m].claims.get_mut(&task).expect("its shepherd reads");
        let answer = match told {
            // Only the devices that it left are certain to take it.
            ShepherdOrder::Attach(devices) if fails && claim.seats.devices() != devices => {
                claim.has_failed = true;
                self.note_presence(m, task, MemoryPresence::Paused);
                Input::NotAttached { task, left: self.machines[m].claims[&task].seats.devices() }
            }
            ShepherdOrder::Attach(devices) => {
                claim.comes_to = Some(devices);
                return self.go_on(m, task);
            }
            _ => {
                let fails = fails && claim.comes_to.is_none();
                if !fails {
                    claim.comes_to = None;
                }
                claim.is_detached |= !fails;
                claim.has_failed |= fails;
                let presence = match fails {
                    true => self.presence(m, task).stayed(),
                    false => MemoryPresence::Paused,
                };
                self.watch_place(m, task);
                self.note_presence(m, task, presence);
                Input::Detached { task, is_done: !fails }
            }
        };
        self.answer(m, task, answer);
    }

    /// The agent that a shepherd is connected to hears from it.
    pub(crate) fn answer(&mut self, m: usize, task: TaskId, answer: Input) {
        if self.is_connected(m, task) {
            self.note(|| format!("    {answer:?}"));
            self.agent_input(m, answer);
        }
    }

    /// Notes which devices a task uses now, and checks that they have room for it.
    pub(crate) fn watch_place(&mut self, m: usize, task: TaskId) {
        let was: Vec<_> = self.devices_of(m, task);
        self.leave_devices(m, task);
        let Some(claim) = self.machines[m].claims.get(&task).filter(|it| it.is_on_devices()) else {
            return;
        };
        let seats = claim.seats.clone();
        for (slot, booked) in seats.slots.iter().zip(&seats.booked) {
            let device = &slot.device;
            let is_new_guest = device != booked && !was.contains(device);
            self.totals.guests += u64::from(is_new_guest);
            let all = self.machines[m].node.devices.iter().find(|it| it.uuid == *device);
            let memory = all.map_or(Bytes::ZERO, |it| it.memory);
            let users = self.watch.users.entry((m, device.clone())).or_default();
            let alone = slot.part.is_alone();
            let other = users.iter().find(|(_, part)| alone || part.is_alone());
            let other = other.map(|(other, _)| *other);
            users.insert(task, slot.part);
            // A share that grows where it is moves others away, once they run.
            let is_new = !was.contains(device) && !self.watch.outgrown.contains(&task);
            let requests = users.values().map(|part| part.memory_of(memory));
            let requests = requests.fold(Bytes::ZERO, Bytes::saturating_add);
            if let Some(other) = other {
                let what = format!("{other} and {task} are both on {device}");
                self.blame(Invariant::DeviceUsedTwice, what);
            } else if requests > memory && is_new {
                let what = format!("{requests} of {memory} of {device} are in use with {task}");
                self.blame(Invariant::DeviceUsedTwice, what);
            }
        }
        self.watch.outgrown.remove(&task);
    }

    fn devices_of(&self, m: usize, task: TaskId) -> Vec<gpool_model::DeviceUuid> {
        let users = self.watch.users.iter().filter(|((of, _), _)| *of == m);
        let own = users.filter(|(_, users)| users.contains_key(&task));
        own.map(|((_, device), _)| device.clone()).collect()
    }

    /// The shares of a task have another size.
    pub(crate) fn watch_size(&mut self, m: usize, task: TaskId) {
        let Some(claim) = self.machines[m].claims.get(&task) else { return };
        for slot in &claim.seats.slots {
            let users = self.watch.users.get_mut(&(m, slot.device.clone()));
            if let Some(part) = users.and_then(|users| users.get_mut(&task)) {
                self.totals.resizes += u64::from(*part != slot.part);
                let [size, before] = [slot.part, *part].map(|it| it.memory_of(Bytes::ZERO));
                // One that grows moves others away, which takes a while.
                match size > before {
                    true => {
                        self.watch.outgrown.extend(self.machines[m].launching_on(&slot.device));
                    }
                    false => *part = slot.part,
                }
            }
        }
    }

    /// A task uses no device of the machine any more.
    pub(crate) fn leave_devices(&mut self, m: usize, task: TaskId) {
        for (_, users) in self.watch.users.iter_mut().filter(|((of, _), _)| *of == m) {
            users.remove(&task);
        }
    }

    /// Checks that each agent has the tasks where they are, and that nothing waits for devices that
    /// can be freed.
    pub(crate) fn check_places(&mut self) {
        let world = self.server.as_ref().map(|server| server.control.world());
        let found = self.machines.iter().find_map(|machine| {
            let displaced = displaced(machine).or_else(|| forgotten(machine));
            let displaced = displaced.map(|what| (Invariant::Places, what));
            displaced.or_else(|| unfreed(machine, world).map(|what| (Invariant::Freed, what)))
        });
        if let Some((invariant, what)) = found {
            self.blame(invariant, what);
        }
    }
}

/// A task by its claim. Before it `is_settled`, its shepherd may still read messages of earlier
/// agents.
pub(crate) fn found(task: TaskId, claim: &Claim, is_settled: bool, bug: Option<Bug>) -> Input {
    let mut seats = claim.seats.clone();
    // A shepherd notes the devices that its task was sent to before the task comes there.
    let sent = claim.comes_to.iter().flatten();
    for (slot, device) in seats.slots.iter_mut().zip(sent) {
        slot.device = device.clone();
    }
    if !claim.rebooked.is_empty() {
        seats.booked.clone_from(&claim.rebooked);
    }
    let is_detached = claim.is_detached && claim.comes_to.is_none();
    if bug == Some(Bug::PartsForgotten) {
        seats = Seats::default();
    }
    if bug == Some(Bug::PlaceForgotten) {
        for (slot, booked) in seats.slots.iter_mut().zip(&seats.booked) {
            slot.device = booked.clone();
        }
    }
    Input::Found { report: claim.report(task), seats, is_detached, is_settled }
}

/// Whether nothing is on its way between a shepherd and the agent of this number.
fn is_calm(claim: &Claim, agent: u32) -> bool {
    claim.link == Some(agent) && claim.orders.is_empty()
}

/// A task that is not where its agent has it.
fn displaced(machine: &Machine) -> Option<String> {
    let agent = machine.agent.as_ref()?;
    let (task, seats, really) = agent.converge.seats().find_map(|(task, seats)| {
        let claim = machine.claims.get(&task)?;
        let is_known = claim.is_on_devices() && is_calm(claim, agent.number);
        (is_known && claim.seats.devices() != seats.devices())
            .then(|| (task, seats.devices(), claim.seats.devices()))
    })?;
    let name = &machine.node.name;
    Some(format!("{task} is on {really:?} of {name}, and its agent has it on {seats:?}"))
}

/// A task that is paused for its loans, and its agent has it on its devices.
fn forgotten(machine: &Machine) -> Option<String> {
    let agent = machine.agent.as_ref().filter(|agent| agent.has_adopted)?;
    let is_here = |task: &TaskId| {
        let presence = agent.presence.get(task).copied().unwrap_or_default();
        presence == MemoryPresence::Here
    };
    let mut claims = machine.claims.iter().filter(|(_, claim)| claim.is_alive());
    let (task, _) = claims.find(|(task, claim)| {
        claim.by_node && claim.paused_at.is_some() && is_calm(claim, agent.number) && is_here(task)
    })?;
    Some(format!("{task} is paused for its loans, and its agent has it on its devices"))
}

/// Whether something moves on a machine, or is launched.
pub(crate) fn is_under_way(machine: &Machine) -> bool {
    let Some(agent) = machine.agent.as_ref().filter(|agent| agent.has_adopted) else { return true };
    !agent.asked.is_empty()
        || !machine.forked.is_empty()
        || machine.claims.values().filter(|claim| claim.is_alive()).any(|claim| {
            // After a failed move tasks may have to wait for others to end.
            claim.started.is_none() || claim.has_failed || !is_calm(claim, agent.number)
        })
}

/// A task that waits for devices on a machine on which nothing moves.
fn unfreed(machine: &Machine, world: Option<&World>) -> Option<String> {
    let agent = machine.agent.as_ref().filter(|_| !is_under_way(machine))?;
    let name = &machine.node.name;
    // One that was paused for its loans on its way to devices, or before it resumed there, returns
    // when its agent looks next.
    let is_on_its_way =
        |claim: &Claim| claim.by_node && (claim.comes_to.is_some() || claim.resumption.is_some());
    let comes_back = |claim: &Claim| claim.comes_back() || is_on_its_way(claim);
    if machine.claims.values().any(|claim| claim.is_alive() && comes_back(claim)) {
        return None;
    }
    // The room of a share that shrinks or ends is booked before the order for that arrives.
    let is_noted = world.map(|world| machine.has_noted_all(world));
    if is_noted == Some(false) {
        return None;
    }
    let away = machine.claims.iter().find(|(_, claim)| {
        claim.is_running() && claim.has_shepherd && claim.is_detached && claim.paused_at.is_none()
    });
    if let Some((task, _)) = away {
        return Some(format!("{task} left its devices on {name}, and nothing brings it back"));
    }
    // Without the server it may not have.
    is_noted?;
    let waits = agent.converge.tasks().into_iter().find(|report| {
        matches!(report.is, TaskIs::Launching) && !machine.claims.contains_key(&report.task)
    })?;
    Some(format!("{} waits for its devices on {name}, and nothing moves", waits.task))
}
