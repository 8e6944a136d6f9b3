//! State of the agents in this life of the server, and when each is asked again. Orders and reports
//! may be lost. So the server asks an agent repeatedly until its answer fits the server's state,
//! and rarely after that.

use std::collections::{BTreeMap, BTreeSet};

use gpool_model::agent::{Order, Stamp};
use gpool_model::{
    DeviceUuid, Effect, Incarnation, Millis, NodeName, Phase, ResourceKind, Round, TaskId,
    Timestamp,
};

use gpool_world::NodeRow;

use crate::control::Control;

/// All agents, and when each is asked next.
#[derive(Debug, Clone, Default)]
pub(crate) struct Sessions {
    by_node: BTreeMap<NodeName, Session>,
    /// The next questions, by time.
    // Invariant: each session is in the set once, by its `due`.
    next_questions: BTreeSet<(Timestamp, NodeName)>,
    /// The nodes with devices that the last question named as closed.
    with_closed: BTreeSet<NodeName>,
}

/// The agent of one node.
#[derive(Debug, Clone)]
struct Session {
    /// The stamp of the newest accepted inventory; it identifies the agent.
    stamp: Option<Stamp>,
    /// Tasks that the agent mentioned before its first answer, which may be older than these
    /// reports.
    spoken_of: BTreeSet<TaskId>,
    /// The last question.
    round: Round,
    /// The devices that the question named as closed for guests.
    closed: BTreeSet<DeviceUuid>,
    /// Whether the server sent an order after that question.
    was_ordered: bool,
    next_question_at: Timestamp,
    /// How long the server waits for an answer before it asks again.
    patience: Millis,
}

impl Default for Session {
    fn default() -> Self {
        Self {
            stamp: None,
            spoken_of: BTreeSet::new(),
            round: Round(0),
            closed: BTreeSet::new(),
            was_ordered: false,
            next_question_at: Timestamp::ZERO,
            patience: Sessions::REPEAT,
        }
    }
}

impl Sessions {
    /// The time until the next question if an answer did not come or did not fit; it doubles with
    /// each question without an answer.
    const REPEAT: Millis = Millis::from_secs(5);
    /// The time until the next question if the answer did fit.
    const QUIET: Millis = Millis::from_secs(60);

    /// Returns when the next question is due.
    pub fn next_timer(&self) -> Option<Timestamp> {
        self.next_questions.first().map(|(at, _)| *at)
    }

    /// Forgets the agent of a node that was removed.
    pub fn forget(&mut self, node: &NodeName) {
        if let Some(session) = self.by_node.remove(node) {
            self.next_questions.remove(&(session.next_question_at, node.clone()));
        }
        self.with_closed.remove(node);
    }

    fn schedule(&mut self, node: &NodeName, due: Timestamp) {
        let session = self.by_node.entry(node.clone()).or_default();
        self.next_questions.remove(&(session.next_question_at, node.clone()));
        session.next_question_at = due;
        self.next_questions.insert((due, node.clone()));
    }
}

impl Control {
    /// Records an inventory. Returns `None` if a newer one was received before, else whether it is
    /// the first of that agent.
    pub(crate) fn introduce(&mut self, node: &NodeName, stamp: Stamp) -> Option<bool> {
        let session = self.sessions.by_node.entry(node.clone()).or_default();
        let known = session.stamp.as_ref();
        let same = known.filter(|known| known.incarnation == stamp.incarnation);
        if same.is_some_and(|same| same.sequence >= stamp.sequence) {
            return None;
        }
        let is_new = same.is_none();
        if is_new {
            session.spoken_of.clear();
        }
        session.stamp = Some(stamp);
        session.patience = Sessions::REPEAT;
        self.n_learnt += u64::from(is_new);
        Some(is_new)
    }

    /// Records that an agent mentioned a task before its first answer.
    pub(crate) fn note_spoken_of(&mut self, node: &NodeName, task: TaskId) {
        let is_awaited = self.world.node(node).is_some_and(|row| !row.node.connected);
        if let Some(session) = self.sessions.by_node.get_mut(node).filter(|_| is_awaited) {
            self.n_learnt += u64::from(session.spoken_of.insert(task));
        }
    }

    /// Takes the tasks that an agent mentioned before its first answer.
    pub(crate) fn take_spoken_of(&mut self, node: &NodeName) -> BTreeSet<TaskId> {
        let session = self.sessions.by_node.get_mut(node);
        session.map(|session| std::mem::take(&mut session.spoken_of)).unwrap_or_default()
    }

    /// Whether this agent sent the accepted inventory.
    pub(crate) fn is_known(&self, node: &NodeName, who: &Incarnation) -> bool {
        self.incarnation(node).as_ref() == Some(who)
    }

    fn incarnation(&self, node: &NodeName) -> Option<Incarnation> {
        let session = self.sessions.by_node.get(node)?;
        session.stamp.as_ref().map(|stamp| stamp.incarnation.clone())
    }

    /// Asks an agent for its tasks, and tells it which devices are closed for guests.
    pub(crate) fn ask(&mut self, node: &NodeName) {
        let closed = self.closed_on(node);
        let session = self.sessions.by_node.entry(node.clone()).or_default();
        let due = self.now.after(session.patience);
        session.patience = session.patience.saturating_add(session.patience).min(Sessions::QUIET);
        self.sessions.schedule(node, due);
        let session = self.sessions.by_node.entry(node.clone()).or_default();
        session.round = session.round.next();
        session.was_ordered = false;
        session.closed.clone_from(&closed);
        match closed.is_empty() {
            true => drop(self.sessions.with_closed.remove(node)),
            false => drop(self.sessions.with_closed.insert(node.clone())),
        }
        let order = Order::Sync { term: self.world.cluster().term, round: session.round, closed };
        // Not only the last known agent: another one answers as well.
        self.effect(Effect::Order { node: node.clone(), to: None, order });
    }

    /// The devices of a node that only tasks may use that booked them: drained, reserved now, or
    /// not allowed by an admin.
    pub(crate) fn closed_on(&self, node: &NodeName) -> BTreeSet<DeviceUuid> {
        // Only a node that can pause tasks can move them, so others have no guests.
        let can_move = |row: &&NodeRow| row.node.capacity.get(&ResourceKind::PauseMemory) > 0;
        let Some(row) = self.world.node(node).filter(can_move) else { return BTreeSet::new() };
        let active = self.world.reservations().values().filter(|it| it.is_active(self.now));
        let active: Vec<_> = active.filter(|it| it.what.touches(node)).collect();
        let is_closed = |device: &&DeviceUuid| {
            row.node.drain_of(device).is_some()
                || !row.node.allows(device)
                || active.iter().any(|it| it.what.has_device(node, device))
        };
        let devices = row.node.devices.iter().map(|device| &device.uuid);
        devices.filter(is_closed).cloned().collect()
    }

    /// Asks the agents for which the closed devices have changed since the last question.
    pub(crate) fn ask_where_closed(&mut self) {
        let drained = self.world.drained().map(|row| &row.node.name);
        let reserved = self
            .world
            .reservations()
            .values()
            .flat_map(|it| it.what.nodes.iter().chain(it.what.devices.keys()));
        let nodes: BTreeSet<NodeName> =
            drained.chain(reserved).chain(&self.sessions.with_closed).cloned().collect();
        for node in nodes {
            let closed = self.closed_on(&node);
            let session = self.sessions.by_node.get(&node);
            if session.is_some_and(|session| session.stamp.is_some() && session.closed != closed) {
                self.ask(&node);
            }
        }
    }

    pub(crate) fn ask_all(&mut self) {
        let nodes = self.world.nodes_by_name().map(|(_, row)| row.node.name.clone());
        for node in nodes.collect::<Vec<_>>() {
            self.ask(&node);
        }
    }

    /// Asks an agent that is heard although its node has no record: it was removed, and the first
    /// inventory of the agent is lost or older.
    pub(crate) fn meet(&mut self, node: &NodeName) {
        if self.world.node(node).is_none() && !self.sessions.by_node.contains_key(node) {
            self.ask(node);
        }
    }

    /// Sends the questions that are due.
    pub(crate) fn send_questions(&mut self) {
        let due = self.sessions.next_questions.iter().take_while(|(at, _)| *at <= self.now);
        for node in due.map(|(_, node)| node.clone()).collect::<Vec<_>>() {
            self.ask(&node);
        }
    }

    /// Sends an order that the agent must receive sooner or later. An unknown agent gets it after
    /// its first report.
    pub(crate) fn order(&mut self, node: &NodeName, order: Order) {
        let to = self.incarnation(node);
        if to.is_none() {
            return;
        }
        let session = self.sessions.by_node.entry(node.clone()).or_default();
        session.was_ordered = true;
        let due = self.now.after(Sessions::REPEAT).min(session.next_question_at);
        self.sessions.schedule(node, due);
        self.effect(Effect::Order { node: node.clone(), to, order });
    }

    /// Sends an order that may be lost.
    pub(crate) fn order_once(&mut self, node: &NodeName, order: Order) {
        if let Some(to) = self.incarnation(node) {
            self.effect(Effect::Order { node: node.clone(), to: Some(to), order });
        }
    }

    /// Records an answer of an agent, and whether any order is left to send.
    pub(crate) fn answered(&mut self, node: &NodeName, round: Round) {
        let is_settled = |row: &gpool_world::JobRow| {
            matches!(row.job.phase, Phase::Running { .. }) || row.job.phase.is_parked()
        };
        let all_run = self.held_on(node).all(is_settled);
        let Some(session) = self.sessions.by_node.get_mut(node) else {
            return;
        };
        session.patience = Sessions::REPEAT;
        if session.round == round && !session.was_ordered && all_run {
            self.sessions.schedule(node, self.now.after(Sessions::QUIET));
        }
    }

    fn held_on(&self, node: &NodeName) -> impl Iterator<Item = &gpool_world::JobRow> {
        let is_here = |row: &&gpool_world::JobRow| {
            row.job.phase.allocations().iter().any(|it| it.node == *node)
        };
        self.world.holding().filter(is_here)
    }
}
