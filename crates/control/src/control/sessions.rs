//! What is known of the agents in this life of the server, and when each is asked again. Orders
//! and reports may be lost, so an agent is asked until its answer fits what the server believes,
//! and then rarely.

use std::collections::{BTreeMap, BTreeSet};

use gpool_model::agent::{Order, Stamp};
use gpool_model::{Effect, Incarnation, Millis, NodeName, Phase, Round, TaskId, Timestamp};

use crate::control::Control;

/// All agents, and when they are to be asked.
#[derive(Debug, Clone, Default)]
pub(crate) struct Sessions {
    by_node: BTreeMap<NodeName, Session>,
    /// Whom to ask next, and when.
    // Invariant: each session once, when it is due.
    due: BTreeSet<(Timestamp, NodeName)>,
}

/// The agent of one node.
#[derive(Debug, Clone)]
struct Session {
    /// The newest inventory that was taken over, which says who the agent is.
    stamp: Option<Stamp>,
    /// Tasks that the agent spoke of before its first answer, which may be older than that.
    spoken_of: BTreeSet<TaskId>,
    /// The last question.
    round: Round,
    /// Whether anything was ordered since that question.
    was_ordered: bool,
    due: Timestamp,
    /// After how long it is asked again if it does not answer.
    patience: Millis,
}

impl Default for Session {
    fn default() -> Self {
        Self {
            stamp: None,
            spoken_of: BTreeSet::new(),
            round: Round(0),
            was_ordered: false,
            due: Timestamp::ZERO,
            patience: Sessions::REPEAT,
        }
    }
}

impl Sessions {
    /// After how long an agent is asked again whose answer did not come or did not fit; twice as
    /// long after each question without an answer.
    const REPEAT: Millis = Millis::from_secs(5);
    /// After how long an agent is asked again whose answer did fit.
    const QUIET: Millis = Millis::from_secs(60);

    /// When the next agent is to be asked.
    pub fn next_timer(&self) -> Option<Timestamp> {
        self.due.first().map(|(at, _)| *at)
    }

    fn schedule(&mut self, node: &NodeName, due: Timestamp) {
        let session = self.by_node.entry(node.clone()).or_default();
        self.due.remove(&(session.due, node.clone()));
        session.due = due;
        self.due.insert((due, node.clone()));
    }
}

impl Control {
    /// Takes note of an inventory: `None` if a newer one was heard before, else whether it is the
    /// first of that agent.
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

    /// Takes note that an agent spoke of a task, if it has not answered yet.
    pub(crate) fn note_spoken_of(&mut self, node: &NodeName, task: TaskId) {
        let is_awaited = self.world.node(node).is_some_and(|row| !row.node.connected);
        if let Some(session) = self.sessions.by_node.get_mut(node).filter(|_| is_awaited) {
            self.n_learnt += u64::from(session.spoken_of.insert(task));
        }
    }

    /// The tasks that an agent spoke of before its first answer.
    pub(crate) fn take_spoken_of(&mut self, node: &NodeName) -> BTreeSet<TaskId> {
        let session = self.sessions.by_node.get_mut(node);
        session.map(|session| std::mem::take(&mut session.spoken_of)).unwrap_or_default()
    }

    /// Whether that is the agent whose inventory was taken over.
    pub(crate) fn is_known(&self, node: &NodeName, who: &Incarnation) -> bool {
        self.incarnation(node).as_ref() == Some(who)
    }

    fn incarnation(&self, node: &NodeName) -> Option<Incarnation> {
        let session = self.sessions.by_node.get(node)?;
        session.stamp.as_ref().map(|stamp| stamp.incarnation.clone())
    }

    /// Asks an agent what it has.
    pub(crate) fn ask(&mut self, node: &NodeName) {
        let session = self.sessions.by_node.entry(node.clone()).or_default();
        let due = self.now.after(session.patience);
        session.patience = session.patience.saturating_add(session.patience).min(Sessions::QUIET);
        self.sessions.schedule(node, due);
        let session = self.sessions.by_node.entry(node.clone()).or_default();
        session.round = session.round.next();
        session.was_ordered = false;
        let order = Order::Sync { term: self.world.cluster().term, round: session.round };
        // Not only for the agent that was heard last: another one answers as well.
        self.effect(Effect::Order { node: node.clone(), to: None, order });
    }

    /// Asks all agents.
    pub(crate) fn ask_all(&mut self) {
        let nodes = self.world.nodes_by_name().map(|(_, row)| row.node.name.clone());
        for node in nodes.collect::<Vec<_>>() {
            self.ask(&node);
        }
    }

    /// Asks the agents whose time has come.
    pub(crate) fn ask_due(&mut self) {
        let due = self.sessions.due.iter().take_while(|(at, _)| *at <= self.now);
        for node in due.map(|(_, node)| node.clone()).collect::<Vec<_>>() {
            self.ask(&node);
        }
    }

    /// Tells an agent something that it has to hear sooner or later. One that is not known yet is
    /// told when it has said what it has.
    pub(crate) fn order(&mut self, node: &NodeName, order: Order) {
        let to = self.incarnation(node);
        if to.is_none() {
            return;
        }
        let session = self.sessions.by_node.entry(node.clone()).or_default();
        session.was_ordered = true;
        let due = self.now.after(Sessions::REPEAT).min(session.due);
        self.sessions.schedule(node, due);
        self.effect(Effect::Order { node: node.clone(), to, order });
    }

    /// Tells an agent something that may be lost.
    pub(crate) fn order_once(&mut self, node: &NodeName, order: Order) {
        if let Some(to) = self.incarnation(node) {
            self.effect(Effect::Order { node: node.clone(), to: Some(to), order });
        }
    }

    /// Takes note that an agent answered, and whether there is anything left to say.
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
