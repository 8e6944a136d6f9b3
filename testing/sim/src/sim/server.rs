//! The server around the real state machine: what `gpool_server` does, in the same order. Each
//! effect that it carries out may be the last.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use gpool_control::Control;
use gpool_control::lease::LeaseWatch;
use gpool_model::agent::Order;
use gpool_model::effect::Change;
use gpool_model::{
    Alert, Effect, Event, Generation, JobNumber, OnNodeLost, Phase, Record, Refusal, Reply,
    RequestId, Revision, Term, Timestamp,
};
use gpool_world::World;

use crate::broken::Invariant;
use crate::bug::Bug;
use crate::network::Sent;
use crate::sim::distortion::begun;
use crate::sim::planned::Before;
use crate::sim::replay::Life;
use crate::sim::taken::Causes;
use crate::sim::{Sim, keeping, lease};
use crate::store::Told;
use crate::swarm;

/// The server while it lives.
#[derive(Debug, Clone)]
pub(crate) struct Server {
    pub control: Control,
    pub life: Life,
    pub inbox: Vec<Event>,
    /// Until then nothing is tried, after a commit failed.
    pub paused_until: Option<u64>,
    pub is_stopping: bool,
    /// It is killed after that number of further effects.
    pub effects_left: Option<u64>,
    pub last_request: RequestId,
    /// The user's request that each command belongs to.
    pub pending: BTreeMap<RequestId, usize>,
    /// Effects that a planted bug lets go too early, all but those that it is about.
    held: VecDeque<(Revision, Effect)>,
    /// The lease of each agent; none where agents have none.
    pub leases: Vec<LeaseWatch>,
}

impl Sim {
    /// After a failed commit, how long until the next is tried.
    const PAUSE: u64 = 1000;

    pub(crate) fn server_clock(&self) -> Timestamp {
        Timestamp::new(self.now.saturating_add_signed(self.server_skew))
    }

    /// Starts a server on the durable state, under a new term.
    pub(crate) fn start_server(&mut self) {
        if self.server.is_some() {
            return;
        }
        self.store.reset();
        let Some((control, life)) = self.load() else { return };
        let leases = self.new_leases();
        self.server = Some(Server {
            leases,
            control,
            life,
            inbox: Vec::new(),
            paused_until: None,
            is_stopping: false,
            effects_left: None,
            last_request: RequestId(0),
            pending: BTreeMap::new(),
            held: VecDeque::new(),
        });
        self.begin();
    }

    /// Loads a state machine from the durable state.
    fn load(&mut self) -> Option<(Control, Life)> {
        if self.store.revision == Revision(0) {
            let control = begun(Control::create(swarm::policy(self.bug)), self.bug);
            return Some((control, Life::new(Vec::new(), Revision(0))));
        }
        let mut records: Vec<Record> = self.store.records.values().cloned().collect();
        if self.bug == Some(Bug::NumberReused) {
            for record in &mut records {
                if let Record::Cluster(cluster) = record {
                    cluster.last_job = JobNumber(cluster.last_job.0.saturating_sub(1));
                }
            }
        }
        if let Some(bug) = self.bug {
            records.retain_mut(|record| bug.keeps(record));
            self.store.records.retain(|_, record| bug.keeps(record));
            bug.spoil(&mut records.iter_mut().collect::<Vec<_>>());
            bug.spoil(&mut self.store.records.values_mut().collect::<Vec<_>>());
        }
        let revision = self.store.revision;
        match World::load(revision, records.clone()) {
            Ok(world) => {
                let control = begun(Control::new(world), self.bug);
                Some((control, Life::new(records, revision)))
            }
            Err(error) => {
                self.blame(Invariant::Store, format!("can't load the durable state: {error}"));
                None
            }
        }
    }

    fn begin(&mut self) {
        let Some(server) = &self.server else { return };
        let term = server.control.world().cluster().term.next();
        self.n_lives += 1;
        if self.bug == Some(Bug::TermKept) && term > Term(1) {
            return self.step(vec![Event::TimerFired]);
        }
        self.step(vec![Event::ServerStarted { term, n_skipped_jobs: 0 }]);
    }

    /// Kills the server; that number of the commits under way become durable.
    pub(crate) fn kill_server(&mut self, durable: u64) {
        let Some(server) = self.server.take() else { return };
        self.totals.servers_killed += 1;
        self.replay(&server.life, server.control.world());
        let in_flight = u64::try_from(self.store.in_flight.len()).expect("few");
        for _ in 0..durable.min(in_flight) {
            self.persist();
        }
        self.store.reset();
        if self.bug == Some(Bug::SyncDropped) {
            self.store.lose_unsynced();
        }
        self.forget_pending(&server);
        self.post.under_way.clear();
    }

    /// Ends the server if it has the order to stop and no work left.
    fn end_stopped(&mut self) {
        let is_over = self.server.as_ref().is_some_and(|server| {
            server.is_stopping && server.control.durable() == server.control.revision()
        });
        if is_over && let Some(server) = self.server.take() {
            self.replay(&server.life, server.control.world());
            self.forget_pending(&server);
            self.post.under_way.clear();
            self.store.reset();
        }
    }

    /// Something reaches the server.
    pub(crate) fn tell_server(&mut self, event: Event) {
        let Some(server) = self.server.as_mut() else { return };
        if server.paused_until.is_none() {
            server.inbox.push(event);
        } else if let Event::Requested { request, .. } = event {
            let refusal = Refusal::StorageFull { why: "the disk is full".to_owned() };
            self.answered(request, Err(refusal));
        }
        let server = self.server.as_ref();
        let n = server.map_or(0, |server| server.inbox.len());
        if u64::try_from(n).expect("few") >= self.cluster.batch {
            self.take_inbox();
        }
    }

    /// The server takes all that has come into one step.
    pub(crate) fn take_inbox(&mut self) {
        let clock = self.server_clock();
        let Some(server) = self.server.as_mut() else { return };
        if server.paused_until.is_some() {
            return;
        }
        let mut events = std::mem::take(&mut server.inbox);
        let is_due = server.control.next_timer().is_some_and(|at| at <= clock);
        if is_due && self.bug != Some(Bug::TimerDropped) {
            events.push(Event::TimerFired);
        }
        if !events.is_empty() {
            self.step(events);
        }
    }

    /// The server hears from its store.
    pub(crate) fn hear(&mut self) {
        let Some(told) = self.store.told.pop_front() else { return };
        match told {
            Told::Durable(revision) => {
                self.release_held(revision);
                self.tell_server(Event::Committed { revision });
                self.end_stopped();
            }
            Told::Failed => self.commit_failed(),
        }
    }

    /// Handles a failed commit: memory goes back to the durable state.
    fn commit_failed(&mut self) {
        let paused_until = Some(self.now + Self::PAUSE);
        let Some(server) = self.server.as_mut().filter(|it| it.paused_until.is_none()) else {
            return;
        };
        self.totals.commits_failed += 1;
        server.paused_until = paused_until;
        server.inbox.clear();
        server.held.clear();
        let requests: Vec<RequestId> = server.pending.keys().copied().collect();
        for request in requests {
            let refusal = Refusal::StorageFull { why: "the disk is full".to_owned() };
            self.answered(request, Err(refusal));
        }
        if let Some(server) = self.server.take() {
            self.replay(&server.life, server.control.world());
            self.store.reset();
            if let Some((control, life)) = self.load() {
                self.server = Some(Server { control, life, ..server });
            }
        }
    }

    /// The server tries again, if its pause is over.
    pub(crate) fn resume(&mut self) {
        let now = self.now;
        let Some(server) = self.server.as_mut() else { return };
        if server.paused_until.is_some_and(|until| until <= now) {
            server.paused_until = None;
            server.leases.iter_mut().for_each(LeaseWatch::tell_again);
            self.begin();
        }
    }

    fn step(&mut self, events: Vec<Event>) {
        let clock = self.server_clock();
        let early = matches!(self.bug, Some(Bug::ReplyTooEarly | Bug::OrderTooEarly));
        let requests: Vec<RequestId> = events.iter().filter_map(request_of).collect();
        let planned = Before::of(self);
        let (taken, causes) = (self.claims(), Causes::of(&events));
        let Some(server) = self.server.as_mut() else { return };
        let before = keeping::starting(server.control.world());
        let placed = lease::placed(server.control.world());
        let mut effects = server.life.step(&mut server.control, clock, events);
        let at = server.life.clock();
        let outsider = keeping::outsider(server.control.world(), at, &before, &taken);
        let committed = effects.iter().find_map(|effect| match effect {
            Effect::Commit(commit) => Some(commit.revision),
            _ => None,
        });
        if let Some(revision) = committed.filter(|_| early) {
            let events = vec![Event::Committed { revision }];
            for effect in server.life.step(&mut server.control, clock, events) {
                let is_early = match effect {
                    Effect::Reply { .. } => self.bug == Some(Bug::ReplyTooEarly),
                    Effect::Order { .. } => self.bug == Some(Bug::OrderTooEarly),
                    Effect::Commit(_)
                    | Effect::Deliver(_)
                    | Effect::Readmit(_)
                    | Effect::Publish(_)
                    | Effect::Alert(_) => false,
                };
                if is_early {
                    effects.push(effect);
                } else {
                    server.held.push_back((revision, effect));
                }
            }
        }
        self.note_requests(&requests);
        self.note_step(&effects);
        if let Some(before) = planned {
            self.check_planned(&before, &effects);
        }
        self.check_claims(&taken, &causes);
        self.check_silent(&placed);
        if let Some(what) = outsider {
            self.blame(Invariant::Reserved, what);
        }
        self.carry_out_all(effects);
    }

    fn release_held(&mut self, durable: Revision) {
        let Some(server) = self.server.as_mut() else { return };
        let mut effects = Vec::new();
        while let Some((_, effect)) = server.held.pop_front_if(|(at, _)| *at <= durable) {
            effects.push(effect);
        }
        self.carry_out_all(effects);
    }

    fn carry_out_all(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            let Some(server) = self.server.as_mut() else { return };
            match server.effects_left.as_mut() {
                Some(0) => return self.kill_server(0),
                Some(left) => *left -= 1,
                None => {}
            }
            self.effect(effect);
        }
    }

    fn effect(&mut self, effect: Effect) {
        match effect {
            Effect::Commit(commit) => {
                for ended in &commit.ended {
                    self.check_end(ended);
                }
                self.store.submit(commit);
            }
            Effect::Reply { request, reply } => self.replied(request, reply),
            Effect::Order { node, to, order } => {
                self.check_order(&node, &order);
                let found = self.machines.iter().position(|it| it.node.name == node);
                let m = found.expect("orders go to nodes that are there");
                if let Some(order) = self.spoil_order(order) {
                    let beat = self.last_beat(m);
                    self.links[m].send(Sent { to, order, beat });
                }
            }
            Effect::Readmit(node) => self.readmit(&node),
            Effect::Deliver(delivery) => self.post(*delivery),
            Effect::Publish(notice) => {
                if let Change::JobState { job, state, .. } = notice.change
                    && state.is_end()
                {
                    let durable = self.store.archive.get(&job).map(|it| it.job.phase.state());
                    if durable != Some(state) {
                        let what =
                            format!("job {job} is reported as {state}, durable: {durable:?}");
                        self.blame(Invariant::TooEarly, what);
                    }
                }
            }
            Effect::Alert(alert) => self.alerted(&alert),
        }
    }

    /// A plan was refused. Where plans are made wrong for some jobs, these are set aside, and
    /// nothing else.
    fn alerted(&mut self, alert: &Alert) {
        let is_expected = |bug: Bug| alert.set_aside.is_some_and(|job| bug.is_wrong_for(job));
        match self.bug.is_some_and(is_expected) {
            true => self.totals.set_aside += 1,
            false => self.blame(Invariant::Alert, alert.violations.join("; ")),
        }
    }

    fn replied(&mut self, request: RequestId, reply: Result<Reply, Refusal>) {
        if let Ok(Reply::Submitted { first, n_jobs, .. }) = &reply {
            for number in first.0..first.0 + n_jobs {
                if !self.is_durable(number) {
                    let what = format!("job {number} is answered and is not durable");
                    self.blame(Invariant::TooEarly, what);
                }
            }
        }
        self.answered(request, reply);
    }

    /// What an order says must be durable, and its term no older than those before.
    fn check_order(&mut self, node: &gpool_model::NodeName, order: &Order) {
        let term = order.term();
        let (last, life) = self.watch.last_term;
        if term < last || (term == last && life != self.n_lives) {
            let what = format!("an order of {term} follows one of {last} from an earlier server");
            self.blame(Invariant::Term, what);
        }
        self.watch.last_term = (term, self.n_lives);
        let (task, generation) = match order {
            Order::Run(run) => (run.task(), run.generation),
            Order::Acknowledge { task, generation, .. } => (*task, *generation),
            Order::Sync { .. }
            | Order::Stop { .. }
            | Order::Change { .. }
            | Order::Pause { .. }
            | Order::Resume { .. }
            | Order::Signal { .. } => return,
        };
        let durable = self.store.job(task.job);
        let is_early = match (order, durable) {
            (Order::Run(_), None) => {
                let ended = self.store.archive.get(&task.job);
                ended.is_none_or(|ended| ended.job.attempt < task.attempt)
            }
            (Order::Run(_), Some(job)) => {
                job.generation <= generation && job.phase.allocations().is_empty()
            }
            (_, None) => false,
            (_, Some(job)) => {
                let here = job.phase.allocations().iter();
                let still = here.filter(|it| it.task == task && it.node == *node);
                // A gang holds what a task had that has ended.
                let course =
                    usize::try_from(task.rank).ok().and_then(|ix| job.course.tasks.get(ix));
                let has_ended = course.is_some_and(|course| course.end.is_some());
                job.generation == generation && still.count() > 0 && !has_ended
            }
        };
        if is_early {
            let what = format!("{order:?} is sent before its commit is durable");
            self.blame(Invariant::TooEarly, what);
        }
    }

    /// What a planted bug makes of an order; `None` if it never arrives.
    fn spoil_order(&self, mut order: Order) -> Option<Order> {
        match (self.bug, &mut order) {
            (Some(Bug::StopLost), Order::Stop { .. })
            | (Some(Bug::AcknowledgeLost), Order::Acknowledge { .. }) => return None,
            (Some(Bug::AcknowledgeTooMuch), Order::Acknowledge { generation, .. }) => {
                *generation = Generation(generation.0 + 1000);
            }
            (Some(Bug::FenceUntold), Order::Run(run)) => {
                Arc::make_mut(&mut run.spec).life.on_node_lost = OnNodeLost::Wait;
            }
            _ => {}
        }
        Some(order)
    }

    /// What a task holds, as the server believes it, or as it is durable while there is none.
    pub(crate) fn believed(&self, task: gpool_model::TaskId) -> Option<gpool_model::Allocation> {
        let job = match &self.server {
            Some(server) => server.control.world().job(task.job).map(|row| row.job.clone()),
            None => self.store.job(task.job),
        };
        let phase: Phase = job?.phase;
        phase.allocations().iter().find(|allocation| allocation.task == task).cloned()
    }
}

fn request_of(event: &Event) -> Option<RequestId> {
    match event {
        Event::Requested { request, .. } => Some(*request),
        _ => None,
    }
}
