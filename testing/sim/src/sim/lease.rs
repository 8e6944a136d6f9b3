//! Leases of agents on other machines: beats and their answers, silence as the server sees it, and
//! the ends of fenced tasks. The server's own boot clock is true time.

use std::collections::BTreeSet;

use gpool_control::lease::{LeaseWatch, Reachability};
use gpool_model::agent::Order;
use gpool_model::{
    AllocationState, Command, Event, LeaseTerms, Millis, NodeName, Phase, Silence, TaskId,
    Timestamp,
};
use gpool_world::World;

use crate::broken::Invariant;
use crate::bug::Bug;
use crate::claim::Why;
use crate::machine::{Agent, Machine};
use crate::network::Beat;
use crate::sim::Sim;

/// How long an agent may be silent.
const SILENT_AFTER: Millis = Millis::from_secs(15);

impl Sim {
    fn terms(&self) -> LeaseTerms {
        match self.bug {
            // Without the stretch and the time to kill it is 35 s, by the server's clock.
            Some(Bug::DriftIgnored) => LeaseTerms { lasts: Millis::new(22_100) },
            _ => LeaseTerms::USUAL,
        }
    }

    /// What a new server knows of the leases.
    pub(crate) fn new_leases(&self) -> Vec<LeaseWatch> {
        let since = match self.bug {
            Some(Bug::LostByRestart) => self.now.saturating_sub(60_000),
            _ => self.now,
        };
        let leased = self.machines.iter().filter(|_| self.cluster.leases);
        leased.map(|_| LeaseWatch::new(since)).collect()
    }

    fn watch_of(&mut self, m: usize) -> Option<&mut LeaseWatch> {
        self.server.as_mut()?.leases.get_mut(m)
    }

    /// A message of an agent has arrived.
    pub(crate) fn note_message(&mut self, m: usize) {
        let now = self.now;
        self.watch_of(m).into_iter().for_each(|watch| watch.hear(now));
    }

    /// When an agent becomes silent, or is lost.
    pub(crate) fn next_silence(&self) -> Option<u64> {
        let watches = self.server.iter().flat_map(|server| &server.leases);
        let times = watches.flat_map(|watch| {
            let heard_at = self.now.saturating_sub(watch.silence(self.now).get());
            [SILENT_AFTER, self.terms().lost_after()].map(|after| heard_at + after.get() + 1)
        });
        times.filter(|at| *at > self.now).min()
    }

    /// The server looks for agents that became silent, are lost, or are heard again.
    pub(crate) fn look_for_silence(&mut self) {
        let (now, clock, terms, bug) = (self.now, self.server_clock(), self.terms(), self.bug);
        let Some(server) = self.server.as_mut().filter(|it| it.paused_until.is_none()) else {
            return;
        };
        let mut events = Vec::new();
        for (watch, machine) in server.leases.iter_mut().zip(&self.machines) {
            let Some(standing) = watch.look(now, SILENT_AFTER, Some(terms)) else { continue };
            let since = Timestamp::new(clock.get().saturating_sub(watch.silence(now).get()));
            let silence = match standing {
                Reachability::Present => None,
                Reachability::Silent if bug == Some(Bug::SilenceUntold) => continue,
                Reachability::Silent => Some(Silence { since, is_lost: false }),
                Reachability::Lost => Some(Silence { since, is_lost: true }),
            };
            if bug == Some(Bug::RenewedTooEarly) {
                watch.readmit();
            }
            let node = machine.node.name.clone();
            events.push((standing, Event::AgentSilence { node, silence }));
        }
        for (standing, event) in events {
            match standing {
                Reachability::Present => {}
                Reachability::Silent => self.totals.silences += 1,
                Reachability::Lost => self.totals.losses += 1,
            }
            self.tell_server(event);
        }
    }

    /// Every order from before the loss of an agent has left.
    pub(crate) fn readmit(&mut self, node: &NodeName) {
        let m = self.machines.iter().position(|machine| machine.node.name == *node);
        m.and_then(|m| self.watch_of(m)).into_iter().for_each(LeaseWatch::readmit);
    }

    /// Whether the server has a record of a node, and does not reach it.
    pub(crate) fn may_leave(&self, m: usize) -> bool {
        let server = self.server.as_ref().filter(|it| it.paused_until.is_none());
        let name = &self.machines[m].node.name;
        let row = server.and_then(|it| it.control.world().node(name));
        row.is_some_and(|row| !row.node.is_reachable())
    }

    /// The machine goes off, and an admin removes its node. It may join again later.
    pub(crate) fn leave(&mut self, m: usize) {
        if self.may_leave(m) {
            self.totals.removals += 1;
            self.reboot(m, 0, 0);
            let node = self.machines[m].node.name.clone();
            self.watch.agreed.forget_pool(&node);
            self.ask_as_admin(Command::RemoveNode { node, is_off: true });
        }
    }

    /// The beat that an order carries.
    pub(crate) fn last_beat(&mut self, m: usize) -> Option<u64> {
        self.watch_of(m).and_then(|watch| watch.last_beat())
    }

    /// An agent sends a beat, if it is due.
    pub(crate) fn beat(&mut self, m: usize) {
        let now = self.now;
        let machine = &mut self.machines[m];
        let sent_at = machine.boot_clock(now);
        let is_due = |agent: &&mut Agent| agent.beat_at.is_some_and(|at| at <= now);
        let Some(agent) = machine.agent.as_mut().filter(is_due) else { return };
        agent.beat_at = Some(now + LeaseTerms::USUAL.beat_every().get());
        let beat = Beat { by: agent.number, sent_at, is_answer: false };
        self.links[m].send_beat(beat, now);
    }

    /// Beats reach the server, and answers reach the agent.
    pub(crate) fn beats_arrive(&mut self, m: usize) {
        let now = self.now;
        for beat in self.links[m].due_beats(now) {
            if beat.is_answer {
                let agent = self.machines[m].agent.as_ref();
                if agent.is_some_and(|agent| agent.number == beat.by) {
                    self.renew(m, beat.sent_at);
                }
                continue;
            }
            // Stands for the first message of a connection: the agent of a removed node is heard.
            let node = self.machines[m].node.name.clone();
            let server = self.server.as_ref().filter(|it| it.paused_until.is_none());
            if server.is_some_and(|it| it.control.world().node(&node).is_none()) {
                self.tell_server(Event::AgentSilence { node, silence: None });
            }
            if let Some(watch) = self.watch_of(m)
                && watch.beat(beat.sent_at, now)
            {
                self.links[m].send_beat(Beat { is_answer: true, ..beat }, now);
            }
        }
    }

    /// The lease of an agent is renewed, and so is that of its fenced tasks.
    pub(crate) fn renew(&mut self, m: usize, sent_at: u64) {
        let (bug, now) = (self.bug, self.now);
        let machine = &mut self.machines[m];
        let boot_clock = machine.boot_clock(now);
        let Some(agent) = machine.agent.as_mut() else { return };
        let number = agent.number;
        let beat = if bug == Some(Bug::LeaseFromAnswer) { boot_clock } else { sent_at };
        let Some(over_at) = agent.lease.renew(beat, boot_clock) else { return };
        // A renewal never revives an expired fence, even before the task has been ended.
        let fence_at = machine.true_time(over_at);
        let forked = machine.forked.iter_mut().filter(|forked| forked.by == number);
        let claims = machine.claims.values_mut();
        let linked = claims.filter(|claim| claim.link == Some(number) && claim.is_alive());
        let fences = forked.map(|it| &mut it.fence_at).chain(linked.map(|it| &mut it.fence_at));
        for fence in fences.flatten().filter(|at| **at > now) {
            *fence = fence_at.max(*fence);
        }
    }

    /// Whether an agent may carry out an order, as far as its lease is concerned.
    pub(crate) fn may_start(&mut self, m: usize, order: &Order, beat: Option<u64>) -> bool {
        let Order::Run(run) = order else { return true };
        let machine = &mut self.machines[m];
        let now = machine.boot_clock(self.now);
        let beat = if self.bug == Some(Bug::LateOrderObeyed) { Some(now) } else { beat };
        let agent = machine.agent.as_mut().filter(|_| self.cluster.leases);
        agent.is_none_or(|agent| agent.lease.admits(run, beat, now))
    }

    /// Ends a fenced task if the lease is over; whether it is.
    pub(crate) fn end_without_lease(&mut self, m: usize, task: TaskId) -> bool {
        let (now, bug) = (self.now, self.bug);
        let machine: &mut Machine = &mut self.machines[m];
        let has_agent = machine.agent.is_some();
        let claim = machine.claims.get_mut(&task).expect("it was picked from these");
        if claim.fence_at.is_none_or(|at| at > now) {
            return false;
        }
        claim.fence_at = None;
        if bug == Some(Bug::LeaseIgnored) || (bug == Some(Bug::LeaseWithAgent) && !has_agent) {
            return true;
        }
        let own = claim.order.as_ref().map_or(Millis::ZERO, |order| order.spec.grace);
        self.begin_end(m, task, Why::Fence, own.min(LeaseTerms::GRACE));
        true
    }

    /// Checks that a step placed no task on a silent node.
    pub(crate) fn check_silent(&mut self, before: &BTreeSet<TaskId>) {
        let Some(server) = &self.server else { return };
        let placed = placed(server.control.world());
        let silent = placed.difference(before).find(|task| {
            let node = server.control.world().job(task.job).and_then(|row| {
                row.job.phase.allocations().iter().find(|it| it.task == **task).map(|it| &it.node)
            });
            let watches = self.machines.iter().zip(&server.leases);
            watches
                .filter(|(machine, _)| Some(&machine.node.name) == node)
                .any(|(_, watch)| watch.silence(self.now) > SILENT_AFTER)
        });
        if let Some(task) = silent.copied() {
            self.blame(Invariant::Silent, format!("{task} is placed on a node that is silent"));
        }
    }
}

/// The tasks that have been placed and have not started.
pub(crate) fn placed(world: &World) -> BTreeSet<TaskId> {
    let starting = world.holding().filter(|row| matches!(row.job.phase, Phase::Starting { .. }));
    let allocations = starting.flat_map(|row| row.job.phase.allocations());
    let placed = allocations.filter(|it| it.state == AllocationState::Placed);
    placed.map(|allocation| allocation.task).collect()
}
