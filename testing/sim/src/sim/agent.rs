//! Agents with the real brain: what `gpool_agent` does around `Converge`, in the same order, on
//! the files and processes of a [`Machine`](crate::machine::Machine). Each act may be the last.

use std::collections::VecDeque;

use gpool_model::agent::{Order, Report, Stamp, TaskEnd, TaskOrder, Terms};
use gpool_model::job::EndCause;
use gpool_model::{Generation, LeaseTerms, Millis, TaskId};
use gpool_node::converge::{Action, Converge, Input, Moves, Seats};
use gpool_node::lease::Lease;
use gpool_node::presence::MemoryPresence;

use crate::broken::Invariant;
use crate::bug::Bug;
use crate::claim::{Claim, ShepherdOrder, Why};
use crate::machine::{Agent, Forked};
use crate::network::{Said, Sent, set_term};
use crate::nodes::{Answer, Question};
use crate::sim::moves::found;
use crate::sim::process::not_run;
use crate::sim::{Sim, picked};

impl Sim {
    /// After how long an agent that has heard nothing says again what the node is.
    const ANNOUNCE: u64 = 5000;

    /// Whether a node has no agent, and nothing of an earlier one is about to claim a task: a new
    /// one waits for that.
    pub(crate) fn can_start_agent(&self, m: usize) -> bool {
        let machine = &self.machines[m];
        // Where another defence is planted out, this one is too: one alone keeps the promise.
        let is_out = matches!(
            self.bug,
            Some(Bug::LaunchesNotAwaited | Bug::ClaimShared | Bug::PreventSkipped)
        );
        machine.agent.is_none() && (machine.forked.is_empty() || is_out)
    }

    /// An agent is started where one can be: it looks at the claims, and says first what the node
    /// is.
    pub(crate) fn start_agent(&mut self, m: usize) {
        if !self.can_start_agent(m) {
            return;
        }
        let bug = self.bug;
        let machine = &mut self.machines[m];
        machine.n_agents += 1;
        let number = machine.n_agents;
        if bug == Some(Bug::ClaimDropped) {
            machine.claims.retain(|_, claim| claim.ended.is_none() && claim.started.is_none());
        }
        machine.agent = Some(Agent {
            number,
            converge: Converge::new(machine.done.iter().copied()),
            sequence: 0,
            asked: std::collections::BTreeMap::new(),
            unsaid: std::collections::BTreeMap::new(),
            since: self.now,
            ledgers: std::collections::BTreeSet::new(),
            calls: std::collections::BTreeMap::new(),
            presence: std::collections::BTreeMap::new(),
            staying: std::collections::BTreeSet::new(),
            loans: std::collections::BTreeMap::new(),
            is_complete: false,
            lend_at: None,
            said: machine.view(),
            acts_left: None,
            term: gpool_model::Term(0),
            announce_at: Some(self.now + Self::ANNOUNCE),
            has_adopted: bug != Some(Bug::AnswerTooEarly),
            lease: Lease::new(LeaseTerms::USUAL),
            beat_at: self.cluster.leases.then_some(self.now),
        });
        let done = self.machines[m].done.clone();
        self.keep(|| (Question::Start { node: m, done }, Answer::Started));
        self.say_inventory(m);
        if bug != Some(Bug::AnswerTooEarly) {
            self.adopt_all(m);
        }
        self.describe(m);
        if bug == Some(Bug::LeaseTrusted) {
            let beat = self.machines[m].boot_clock(self.now);
            self.renew(m, beat);
        }
    }

    /// The agent's logic learns of the devices.
    fn describe(&mut self, m: usize) {
        let machine = &self.machines[m];
        let is_told = self.bug != Some(Bug::DevicesUntold);
        let Some(agent) = machine.agent.as_ref().filter(|_| is_told) else { return };
        let mut devices = agent.said.clone();
        let moves = if machine.can_move { Moves::Freely } else { Moves::No };
        if self.bug == Some(Bug::DeviceTooSmall) {
            for device in &mut devices {
                device.memory = device.memory.saturating_sub(gpool_model::Bytes::from_gib(1));
            }
        }
        self.agent_input(m, Input::Devices { devices, moves });
    }

    /// An agent without a question from a server announces its node again.
    pub(crate) fn announce(&mut self, m: usize) {
        let now = self.now;
        let Some(agent) = self.machines[m].agent.as_mut() else { return };
        if agent.announce_at.is_some_and(|at| at <= now) {
            agent.announce_at = Some(now + Self::ANNOUNCE);
            self.say_inventory(m);
        }
    }

    fn adopt_all(&mut self, m: usize) {
        let tasks: Vec<TaskId> = self.machines[m].claims.keys().copied().collect();
        for task in tasks {
            self.adopt_and_tell(m, task);
            self.find_unsettled(m, task);
            self.keep_ledger(m, task);
            if !self.machines[m].can_move && !self.machines[m].pauses {
                self.connect_task(m, task);
            }
        }
        self.complete_ledgers(m);
    }

    /// An agent finds out what became of a task, and goes on from there.
    pub(crate) fn adopt_and_tell(&mut self, m: usize, task: TaskId) {
        if let Some(found) = self.adopt(m, task, Generation::default()) {
            self.agent_input(m, found);
        }
    }

    /// Kills an agent. Its pending device checks are lost; shepherds and programs go on.
    pub(crate) fn kill_agent(&mut self, m: usize) {
        if self.machines[m].agent.take().is_some() {
            self.totals.agents_killed += 1;
            // Its connection is gone, with the orders under way.
            self.links[m].orders.clear();
        }
    }

    /// An order arrives.
    pub(crate) fn obey(&mut self, m: usize, sent: Sent) {
        let Sent { to, mut order, beat } = sent;
        let machine = &mut self.machines[m];
        let Some(agent) = machine.agent.as_mut() else { return };
        let own = gpool_model::Incarnation::new(format!("{}-{}", machine.node.name, agent.number));
        if to.is_some_and(|to| to != own) && self.bug != Some(Bug::OrderToLaterAgent) {
            return;
        }
        if !self.may_start(m, &order, beat) {
            return;
        }
        let Some(agent) = self.machines[m].agent.as_mut() else { return };
        let term = order.term();
        agent.announce_at = None;
        let is_old = term < agent.term;
        agent.term = agent.term.max(term);
        match (self.bug, &mut order) {
            (Some(Bug::OldTermObeyed), order) => set_term(order, agent.term),
            (Some(Bug::OldGenerationObeyed), Order::Run(run)) => {
                run.generation = Generation(run.generation.0 + 1000);
            }
            _ => {}
        }
        let before = self.n_actions;
        let was_sync = matches!(order, Order::Sync { .. });
        self.watch.signal = match &order {
            Order::Signal { term, request, .. } => Some((*term, *request)),
            _ => None,
        };
        self.agent_input(m, Input::Order(order));
        if is_old && self.n_actions != before {
            self.blame(Invariant::Term, format!("an order of {term} was obeyed after a later one"));
        }
        let agent = self.machines[m].agent.as_mut();
        if was_sync && let Some(agent) = agent.filter(|agent| !agent.has_adopted) {
            agent.has_adopted = true;
            self.adopt_all(m);
        }
    }

    /// Gives the brain an input, and does all that follows from it.
    pub(crate) fn agent_input(&mut self, m: usize, input: Input) {
        let mut seen = VecDeque::from([input]);
        while let Some(input) = seen.pop_front() {
            self.note(|| format!("    agent {m}: {input:?}"));
            let Some(agent) = self.machines[m].agent.as_mut() else { return };
            let actions = agent.converge.step(input.clone());
            let question = || Question::Input { node: m, input: Box::new(input) };
            self.keep(|| (question(), Answer::Actions(actions.clone())));
            for action in actions {
                if !self.may_act(m) {
                    return;
                }
                self.n_actions += 1;
                self.carry_out(m, action, &mut seen);
            }
        }
    }

    /// Counts an act of an agent that is doomed; false if it is dead.
    pub(crate) fn may_act(&mut self, m: usize) -> bool {
        let Some(agent) = self.machines[m].agent.as_mut() else { return false };
        match agent.acts_left.as_mut() {
            Some(0) => {
                self.kill_agent(m);
                return false;
            }
            Some(left) => *left -= 1,
            None => {}
        }
        true
    }

    fn carry_out(&mut self, m: usize, action: Action, seen: &mut VecDeque<Input>) {
        match action {
            Action::Launch { order, mut seats } => {
                if self.bug == Some(Bug::LaunchBooked) {
                    seats.slots.clone_from(&order.allocation.slots);
                }
                let is_checked = seats.slots.is_empty() || self.bug == Some(Bug::CheckSkipped);
                let Some(agent) = self.machines[m].agent.as_mut() else { return };
                if is_checked {
                    self.fork(m, order, seats);
                } else {
                    agent.asked.insert(order.task(), (order, seats));
                }
            }
            Action::Prevent { task, generation } => {
                seen.extend(self.prevent(m, task, generation));
            }
            Action::Stop { task, grace, .. } => self.stop(m, task, grace, seen),
            Action::Change { task, generation, terms } => {
                seen.extend(self.change(m, task, generation, &terms));
            }
            Action::Pause { task, generation, runs_on } => {
                self.tell(m, task, ShepherdOrder::Pause(generation, runs_on));
            }
            Action::Resume { task, generation, devices, booked } => {
                self.note_presence(m, task, MemoryPresence::Resuming);
                self.tell(m, task, ShepherdOrder::Resume(generation, devices, booked));
            }
            Action::Stay { .. } => {}
            Action::Detach { task, .. } => {
                if self.presence(m, task) == MemoryPresence::Here {
                    self.note_presence(m, task, MemoryPresence::Leaving);
                }
                self.tell(m, task, ShepherdOrder::Detach);
                if self.bug == Some(Bug::DetachNotAwaited) {
                    seen.push_back(Input::Detached { task, is_done: true });
                }
            }
            Action::Attach { task, devices } => {
                if self.presence(m, task) != MemoryPresence::Away {
                    self.note_presence(m, task, MemoryPresence::Returning);
                }
                self.tell(m, task, ShepherdOrder::Attach(devices));
            }
            Action::Signal { task, signal, .. } => {
                let times = if self.bug == Some(Bug::SignalTwice) { 2 } else { 1 };
                for _ in 0..times {
                    self.watch_signal(task, signal);
                }
            }
            Action::Report(report) => self.say(m, report),
            Action::Forget(task) => {
                self.machines[m].done.push(task);
                // Between the ledger and the claim it may end.
                if self.may_act(m) {
                    let machine = &mut self.machines[m];
                    let moved = machine.claims.remove(&task).map(|claim| (task, claim));
                    machine.records.extend(moved);
                }
            }
        }
    }

    /// Ends a task, or prevents its start.
    fn stop(&mut self, m: usize, task: TaskId, grace: Millis, seen: &mut VecDeque<Input>) {
        let Some(agent) = self.machines[m].agent.as_mut() else { return };
        let number = agent.number;
        if let Some((order, _)) = agent.asked.remove(&task) {
            seen.extend(self.prevent(m, task, order.generation));
            return;
        }
        for forked in &mut self.machines[m].forked {
            if forked.order.task() == task && forked.by == number {
                let sooner = forked.stop.map_or(grace, |before| before.min(grace));
                forked.stop = Some(sooner);
            }
        }
        self.begin_end(m, task, Why::StopOrder, grace);
        if self.bug == Some(Bug::EndTooEarly) {
            let end = not_run(self.machines[m].clock(self.now));
            seen.push_back(Input::Ended { task, end: TaskEnd { stopped: true, ..end } });
        }
    }

    /// Gives a task other terms, and reports it.
    fn change(
        &mut self,
        m: usize,
        task: TaskId,
        generation: Generation,
        terms: &Terms,
    ) -> Option<Input> {
        let machine = &mut self.machines[m];
        let agent = machine.agent.as_mut()?;
        let number = agent.number;
        if let Some((order, _)) = agent.asked.get_mut(&task) {
            order.generation = generation;
            std::sync::Arc::make_mut(&mut order.spec).time_limit = terms.limit;
            terms.resize(&mut order.allocation.slots);
            return Some(Input::Changed { task, generation });
        }
        for forked in &mut machine.forked {
            if forked.order.task() == task && forked.by == number {
                forked.changed = Some((generation, terms.clone()));
            }
        }
        let claim = machine.claims.get_mut(&task)?;
        if !claim.has_shepherd || claim.ended.is_some() || claim.generation >= generation {
            return None;
        }
        let (before, parts) = (claim.limit_at, claim.seats.slots.clone());
        claim.change(generation, terms);
        if self.bug == Some(Bug::ResizeUnapplied) {
            claim.seats.slots = parts;
        }
        self.watch_limit(m, task);
        self.watch_size(m, task);
        if !self.may_act(m) {
            return None;
        }
        if self.bug != Some(Bug::ResizeUntold) {
            self.resize_ledger(m, task);
        }
        if self.bug == Some(Bug::LimitUnapplied)
            && let Some(claim) = self.machines[m].claims.get_mut(&task)
        {
            claim.limit_at = before;
        }
        Some(Input::Changed { task, generation })
    }

    /// Claims a task that has an order to end, or reports its state.
    fn prevent(&mut self, m: usize, task: TaskId, generation: Generation) -> Option<Input> {
        if self.machines[m].is_claimed(task) {
            return self.adopt(m, task, generation);
        }
        let end = TaskEnd { stopped: true, ..not_run(self.machines[m].clock(self.now)) };
        self.claim_ended(m, task, generation, end)
    }

    /// Claims a task with its end, so that no shepherd can any more.
    fn claim_ended(
        &mut self,
        m: usize,
        task: TaskId,
        generation: Generation,
        end: TaskEnd,
    ) -> Option<Input> {
        let machine = &mut self.machines[m];
        if self.bug != Some(Bug::PreventSkipped) {
            let claim = Claim {
                generation,
                boot: machine.boot,
                ended: Some(end.clone()),
                ..Claim::default()
            };
            machine.claims.insert(task, claim);
            if !self.may_act(m) {
                return None;
            }
        }
        Some(Input::Ended { task, end })
    }

    /// Returns the state of a claimed task.
    pub(crate) fn adopt(
        &mut self,
        m: usize,
        task: TaskId,
        generation: Generation,
    ) -> Option<Input> {
        let machine = &mut self.machines[m];
        let clock = machine.clock(self.now);
        let boot = machine.boot;
        let Some(claim) = machine.claims.get(&task) else {
            if let Some(record) = machine.records.get(&task) {
                return Some(found(task, record, false, self.bug));
            }
            let cause = EndCause::LaunchFailed { why: "its shepherd was ended".to_owned() };
            let end = TaskEnd { cause: Some(cause), ..not_run(clock) };
            return self.claim_ended(m, task, generation, end);
        };
        if claim.ended.is_none() && !(claim.has_shepherd && claim.boot == boot) {
            let rebooted = claim.boot != boot;
            let started_at = claim.started.map(|(_, at)| at);
            let cause = if rebooted { EndCause::Rebooted } else { EndCause::ShepherdLost };
            let end = TaskEnd { started_at, cause: Some(cause), ..not_run(clock) };
            self.kill_program(m, task);
            let claim = self.machines[m].claims.get_mut(&task);
            claim.expect("it was just looked at").ended = Some(end);
        }
        Some(found(task, &self.machines[m].claims[&task], false, self.bug))
    }

    /// The devices of a task were asked.
    pub(crate) fn check_devices(&mut self, m: usize, pick: u64) {
        let machine = &mut self.machines[m];
        let Some(agent) = machine.agent.as_mut() else { return };
        let tasks: Vec<TaskId> = agent.asked.keys().copied().collect();
        let Some(task) = crate::sim::picked(&tasks, pick) else { return };
        let (order, seats) = agent.asked.remove(&task).expect("it was picked from these");
        // The server learns of the device's state before a task is refused for it.
        self.look(m);
        let devices = self.machines[m].unusable(&seats);
        if devices.is_empty() {
            if self.may_act(m) {
                self.fork(m, order, seats);
            }
        } else {
            self.totals.refusals += 1;
            self.agent_input(m, Input::Refused { task, devices });
        }
    }

    fn fork(&mut self, m: usize, order: Box<TaskOrder>, seats: Seats) {
        let unusable = self.machines[m].unusable(&seats);
        if !unusable.is_empty() {
            let what = format!("{} is launched on {unusable:?}, which can't be used", order.task());
            self.blame(Invariant::Device, what);
        }
        let machine = &mut self.machines[m];
        if let Some(agent) = &mut machine.agent {
            let by = agent.number;
            let fence = agent.lease.take_fence(order.task());
            let fence_at = fence.map(|over_at| machine.true_time(over_at));
            machine.forked.push(Forked { order, seats, by, stop: None, changed: None, fence_at });
        }
    }

    /// The agent looks at its devices, and says so if they are not as it said last.
    pub(crate) fn look(&mut self, m: usize) {
        let view = self.machines[m].view();
        let Some(agent) = self.machines[m].agent.as_mut() else { return };
        if agent.said != view {
            agent.said = view;
            self.describe(m);
            self.say_inventory(m);
        }
    }

    fn say_inventory(&mut self, m: usize) {
        let Some(agent) = self.machines[m].agent.as_ref() else { return };
        let machine = &self.machines[m];
        let boot = if self.bug == Some(Bug::RebootUnnoticed) { 1 } else { machine.boot };
        let report = Report::Inventory {
            stamp: Stamp::default(),
            capacity: machine.node.capacity.clone(),
            devices: agent.said.clone(),
            boot_id: format!("boot-{boot}"),
            facts: Box::new(machine.facts()),
        };
        self.say(m, report);
    }

    /// A program does not use its devices any more, or needs them again; its agent reports that.
    pub(crate) fn idle(&mut self, m: usize, pick: u64) {
        let machine = &mut self.machines[m];
        let now = machine.clock(self.now);
        let task = picked(&machine.may_be_idle(), pick);
        let Some(claim) = task.and_then(|task| machine.claims.get_mut(&task)) else { return };
        claim.idle_since = if claim.idle_since.is_some() { None } else { Some(now) };
        self.say_inventory(m);
    }

    fn say(&mut self, m: usize, mut report: Report) {
        let bug = self.bug;
        if matches!(report, Report::Tasks { .. }) && bug != Some(Bug::InventoryOnce) {
            self.say_inventory(m);
        }
        let machine = &mut self.machines[m];
        let Some(number) = machine.agent.as_ref().map(|agent| agent.number) else { return };
        let incarnation = machine.incarnation(number);
        let Some(agent) = machine.agent.as_mut() else { return };
        if let Report::Inventory { stamp, .. } | Report::Tasks { stamp, .. } = &mut report {
            agent.sequence += 1;
            *stamp = Stamp { incarnation, sequence: agent.sequence };
        }
        if let Some(bug) = bug {
            self.spoil(bug, m, &mut report);
        }
        self.links[m].say(Said { by: number, report });
    }
}
