//! One machine as it really is: its devices, and the shepherds and programs on it, which live on
//! when the agent does not.

use std::collections::{BTreeMap, BTreeSet};

use gpool_model::agent::{TaskOrder, Terms};
use gpool_model::job::ExitStatus;
use gpool_model::node::{IdleTask, NodeFacts};
use gpool_model::{
    Bytes, Device, DeviceHealth, DeviceProcess, DeviceUuid, Generation, Incarnation, Millis, Node,
    Slot, TaskId, Timestamp,
};
use gpool_node::converge::{Converge, Seats};
use gpool_node::lease::Lease;
use gpool_node::loans::Called;
use gpool_node::presence::MemoryPresence;

use crate::claim::{Claim, Memory, ShepherdOrder};
use crate::swarm::NodeShape;

/// How a device is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Real {
    Well,
    Faulty,
    Gone,
    Hung,
    /// Another program uses it, since then.
    Taken(Timestamp),
}

/// A shepherd that was forked and has not claimed its task.
#[derive(Debug, Clone)]
pub(crate) struct Forked {
    pub order: Box<TaskOrder>,
    /// Where it starts.
    pub seats: Seats,
    /// Which agent forked it.
    pub by: u32,
    pub stop: Option<Millis>,
    /// New terms that it received.
    pub changed: Option<(Generation, Terms)>,
    /// Until when its program may run without a later lease, by true time.
    pub fence_at: Option<u64>,
}

/// The agent while it lives.
#[derive(Debug, Clone)]
pub(crate) struct Agent {
    /// Which of its node, counted from 1.
    pub number: u32,
    pub converge: Converge,
    pub sequence: u64,
    /// Tasks with devices that are being checked.
    pub asked: BTreeMap<TaskId, (Box<TaskOrder>, Seats)>,
    /// Messages for shepherds of earlier agents that have not connected.
    pub unsaid: BTreeMap<TaskId, Vec<ShepherdOrder>>,
    /// When it was started, by true time.
    pub since: u64,
    /// The tasks with ledgers that it has opened.
    pub ledgers: BTreeSet<TaskId>,
    /// The calls for loans of a task on one of its devices.
    pub calls: BTreeMap<(TaskId, usize), Called>,
    /// The tasks with memory that is not on their devices, or on its way.
    pub presence: BTreeMap<TaskId, MemoryPresence>,
    /// Tasks that can't be paused for their loans.
    pub staying: BTreeSet<TaskId>,
    /// The loans as it has divided the memory.
    pub loans: BTreeMap<(TaskId, usize), Bytes>,
    /// Whether it has the ledgers of all tasks of earlier agents. It divides no memory before.
    pub is_complete: bool,
    /// When it divides the memory again.
    pub lend_at: Option<u64>,
    /// The devices as they were reported last.
    pub said: Vec<Device>,
    /// It is killed after that number of further actions.
    pub acts_left: Option<u64>,
    /// The newest term that it has seen.
    pub term: gpool_model::Term,
    /// When it says again what the node is; `None` once it has heard anything.
    pub announce_at: Option<u64>,
    /// Whether it has looked at the claims; it does before all else, unless a bug is planted.
    pub has_adopted: bool,
    /// Its lease, where agents have one.
    pub lease: Lease,
    /// When it sends the next beat, by true time.
    pub beat_at: Option<u64>,
}

/// What really became of a task.
#[derive(Debug, Clone)]
pub(crate) struct Run {
    pub machine: usize,
    /// The devices that the server booked, and its parts of them.
    pub booked: Vec<Slot>,
    pub started_at: Timestamp,
    /// When it must have ended at the latest, if it has a time limit.
    pub over_by: Option<u64>,
    /// How and when it ended.
    pub ended: Option<(Timestamp, ExitStatus)>,
    /// Whether its time limit ended it.
    pub was_limited: bool,
}

#[derive(Debug, Clone)]
pub(crate) struct Machine {
    /// What an agent finds; its devices are as they were built.
    pub node: Node,
    /// Whether it can move running tasks between devices.
    pub can_move: bool,
    /// Whether it lends the memory of shared devices.
    pub lends: bool,
    /// Whether it pauses tasks for their loans.
    pub pauses: bool,
    pub real: Vec<Real>,
    pub boot: u32,
    /// How far its clock is from true time.
    pub skew: i64,
    /// How much faster or slower its boot clock runs, in thousandths.
    pub drift: i64,
    pub claims: BTreeMap<TaskId, Claim>,
    /// Claims of ended tasks, moved away.
    pub records: BTreeMap<TaskId, Claim>,
    pub forked: Vec<Forked>,
    /// The record of ended tasks.
    pub done: Vec<TaskId>,
    pub agent: Option<Agent>,
    pub n_agents: u32,
    pub next_pid: u32,
}

impl Machine {
    pub fn new(node: Node, shape: NodeShape) -> Self {
        Self {
            real: vec![Real::Well; node.devices.len()],
            node,
            can_move: shape.moves,
            lends: shape.lends,
            pauses: shape.pauses,
            boot: 1,
            skew: 0,
            drift: i64::try_from(shape.fast).expect("few")
                - i64::try_from(shape.slow).expect("few"),
            claims: BTreeMap::new(),
            records: BTreeMap::new(),
            forked: Vec::new(),
            done: Vec::new(),
            agent: None,
            n_agents: 0,
            next_pid: 1000,
        }
    }

    pub fn clock(&self, now: u64) -> Timestamp {
        Timestamp::new(now.saturating_add_signed(self.skew))
    }

    /// Its boot clock at a true time.
    pub fn boot_clock(&self, now: u64) -> u64 {
        now.saturating_add_signed(i64::try_from(now).expect("small") / 1000 * self.drift)
    }

    /// The first true time at which its boot clock has come so far.
    pub fn true_time(&self, boot_clock: u64) -> u64 {
        let rate = u64::try_from(1000 + self.drift).expect("a drift is small");
        (u128::from(boot_clock) * 1000).div_ceil(u128::from(rate)).try_into().expect("a time")
    }

    pub fn incarnation(&self, number: u32) -> Incarnation {
        Incarnation::new(format!("{}-{number}", self.node.name))
    }

    /// The devices as an agent sees them now.
    pub fn view(&self) -> Vec<Device> {
        let mut devices = self.node.devices.clone();
        for (device, real) in devices.iter_mut().zip(&self.real) {
            match real {
                Real::Well => {}
                Real::Faulty => {
                    device.health = DeviceHealth::Unhealthy { why: "Xid 48".to_owned() };
                }
                Real::Gone => device.health = DeviceHealth::Lost,
                Real::Hung => {
                    device.health = DeviceHealth::Unknown { why: "no answer".to_owned() };
                }
                Real::Taken(since) => device.unmanaged.push(DeviceProcess {
                    pid: 77,
                    user: None,
                    name: None,
                    memory: None,
                    seen_since: *since,
                }),
            }
            let claims = self.claims.iter().filter(|(_, claim)| claim.is_running());
            let guests = claims.filter_map(|(task, claim)| claim.guest_on(*task, &device.uuid));
            device.guests = guests.collect();
        }
        devices
    }

    /// The devices of a task that must not be used now.
    pub fn unusable(&self, seats: &Seats) -> Vec<DeviceUuid> {
        let slots = seats.slots.iter().map(|slot| &slot.device);
        let is_well = |uuid: &&DeviceUuid| {
            let at = self.node.devices.iter().position(|device| device.uuid == **uuid);
            at.is_some_and(|at| self.real[at] == Real::Well)
        };
        slots.filter(|uuid| !is_well(uuid)).cloned().collect()
    }

    /// Whether a shepherd has ever claimed the task.
    pub fn is_claimed(&self, task: TaskId) -> bool {
        self.claims.contains_key(&task) || self.records.contains_key(&task)
    }

    /// Returns the claimed tasks with a running program.
    pub fn running(&self) -> Vec<TaskId> {
        let running = self.claims.iter().filter(|(_, claim)| claim.is_running());
        running.map(|(task, _)| *task).collect()
    }

    /// Returns the claimed tasks without a started program.
    pub fn unstarted(&self) -> Vec<TaskId> {
        let unstarted = self.claims.iter().filter(|(_, claim)| claim.is_unstarted());
        unstarted.map(|(task, _)| *task).collect()
    }

    /// Returns the tasks with shepherds that have not connected to this agent.
    pub fn unconnected(&self) -> Vec<TaskId> {
        let Some(agent) = self.agent.as_ref().filter(|agent| agent.has_adopted) else {
            return Vec::new();
        };
        let is_apart = |claim: &Claim| claim.is_alive() && claim.link != Some(agent.number);
        let claims = self.claims.iter().filter(|(_, claim)| is_apart(claim));
        claims.map(|(task, _)| *task).collect()
    }

    /// Returns the tasks with shepherds that have something to read, or to complete.
    pub fn told(&self) -> Vec<TaskId> {
        let is_due = |task: TaskId, claim: &Claim| {
            !claim.orders.is_empty() || (claim.comes_back() && self.can_restore(task))
        };
        let told = self.claims.iter().filter(|(task, it)| it.is_alive() && is_due(**task, it));
        told.map(|(task, _)| *task).collect()
    }

    /// The tasks that are being launched on a device.
    pub fn launching_on(&self, device: &DeviceUuid) -> Vec<TaskId> {
        let is_new = |claim: &Claim| claim.is_alive() && claim.started.is_none();
        let asked = self.agent.iter().flat_map(|agent| &agent.asked);
        let asked = asked.map(|(task, (_, seats))| (*task, seats));
        let forked = self.forked.iter().map(|forked| (forked.order.task(), &forked.seats));
        let claimed = self.claims.iter().filter(|(_, claim)| is_new(claim));
        let claimed = claimed.map(|(task, claim)| (*task, &claim.seats));
        let all = asked.chain(forked).chain(claimed);
        let there = all.filter(|(_, seats)| seats.slots.iter().any(|it| it.device == *device));
        there.map(|(task, _)| task).collect()
    }

    pub fn paused(&self) -> Vec<TaskId> {
        let paused = self.claims.iter().filter(|(_, it)| it.is_alive() && it.paused_at.is_some());
        paused.map(|(task, _)| *task).collect()
    }

    /// What an agent reports of its node.
    pub fn facts(&self) -> NodeFacts {
        let mut facts = self.node.facts.clone();
        for (task, claim) in self.claims.iter().filter(|(_, claim)| claim.is_running()) {
            match claim.idle_since {
                Some(since) if claim.paused_at.is_none() => {
                    facts.idle.push(IdleTask { task: *task, since, has_gate: true });
                }
                None if claim.is_paused() => facts.returning.push(*task),
                _ => {}
            }
        }
        facts
    }

    /// Returns the tasks of jobs that are released when they do not use their devices.
    pub fn may_be_idle(&self) -> Vec<TaskId> {
        let may = |claim: &Claim| {
            let spec = claim.order.as_ref().map(|order| &order.spec);
            claim.is_running() && spec.is_some_and(|spec| spec.idle_after().is_some())
        };
        let all = self.claims.iter().filter(|(_, claim)| self.pauses && may(claim));
        all.map(|(task, _)| *task).collect()
    }

    /// The memory that a task may have on a device of its own now. While its agent lets it be
    /// restored, that is all that it had.
    pub fn most(&self, task: TaskId, memory: &Memory) -> Bytes {
        let claim = &self.claims[&task];
        let presence = self.agent.as_ref().and_then(|agent| agent.presence.get(&task));
        let comes_back = presence.is_some_and(|presence| presence.comes_back());
        let is_at_home = claim.comes_to.as_ref().is_none_or(|to| *to == claim.seats.devices());
        match claim.is_on_devices() {
            true => memory.used.max(memory.granted),
            false if claim.is_restoring && comes_back && is_at_home => memory.used,
            false => Bytes::ZERO,
        }
    }

    /// Whether nothing is left of any task.
    pub fn is_clean(&self) -> bool {
        let is_idle = |agent: &Agent| agent.asked.is_empty() && agent.converge.tasks().is_empty();
        self.claims.is_empty() && self.forked.is_empty() && self.agent.as_ref().is_some_and(is_idle)
    }

    /// When something is due by itself: a time limit, or the end of a grace.
    pub fn next(&self) -> Option<u64> {
        let live = self.claims.values().filter(|claim| claim.ended.is_none() && claim.has_shepherd);
        let agent = self.agent.iter();
        let timers = |agent: &Agent| [agent.announce_at, agent.lend_at, agent.beat_at];
        let own = agent.flat_map(timers).flatten();
        live.filter_map(Claim::next_end).chain(own).min()
    }
}
