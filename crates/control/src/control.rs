//! One step of the state machine, and the effects that wait for a commit.

mod again;
mod arrays;
mod budget;
pub(crate) mod claims;
pub(crate) mod cycle;
mod drain;
mod edit;
mod extend;
mod gang;
mod grow;
mod hold;
mod hold_missing;
mod idle;
mod in_the_way;
mod jobs;
mod judge;
pub(crate) mod known_ends;
mod late;
mod moments;
pub(crate) mod nodes;
mod outbox;
mod over_limit;
mod pause;
mod policy;
mod projects;
mod pulls;
mod remove_node;
mod reports;
mod reseat;
mod reserve;
mod resize;
mod sessions;
mod set_aside;
mod settle;
pub(crate) mod submit;
mod subscriptions;
mod upkeep;
mod xids;

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use gpool_model::agent::Report;
use gpool_model::effect::{Change, Commit};
use gpool_model::event::{Journaled, Upkeep};
use gpool_model::{
    Caller, Command, Effect, Event, Generation, Job, JobId, JobNumber, JournalEntry, Node, Notice,
    Phase, Plan, PlannedStart, Policy, Refusal, Reply, RequestId, Revision, Seq, TaskId, Term,
    Timestamp,
};
use gpool_sched::Workspace;
use gpool_world::{World, has_begun};

use crate::control::known_ends::KnownEnds;
use crate::control::outbox::Couriers;
use crate::control::sessions::Sessions;
use crate::control::settle::EndedJobs;

/// The state machine of one server.
#[derive(Debug, Clone)]
pub struct Control {
    pub(crate) world: World,
    pub(crate) workspace: Workspace,
    /// The time of the present step.
    pub(crate) now: Timestamp,
    /// The journal entry of the present event, if it gets one.
    pub(crate) seq: Seq,
    journal: Vec<JournalEntry>,
    pub(crate) sessions: Sessions,
    pub(crate) couriers: Couriers,
    /// Grows with reports of agents that matter for later decisions: the identity of an agent, and
    /// the tasks that it mentioned before its first answer. Such an event is journaled although no
    /// record changes.
    pub(crate) n_learnt: u64,
    /// The server is stopping and starts no more jobs.
    pub(crate) is_stopping: bool,
    /// The disk of the state folder is full, and the server starts no more jobs.
    pub(crate) is_full: bool,
    /// Whether the last cycle may have left something to decide.
    pub(crate) has_more: bool,
    /// The planned starts of the last cycle, and the ones last written to the journal.
    pub(crate) planned: Vec<PlannedStart>,
    pub(crate) journaled_starts: Vec<PlannedStart>,
    /// Tasks that ran although they should not have, and were ordered to end.
    pub(crate) strays: BTreeSet<TaskId>,
    /// News about the use of GPUs that the journal does not have yet.
    pub(crate) unsaid: Vec<Upkeep>,
    /// Ends with consequences that are not settled yet.
    pub(crate) unsettled_ends: Vec<EndedJobs>,
    pub(crate) is_settling: bool,
    /// The number of plans so far; each multiple of `verify_one_of` is verified.
    pub(crate) n_plans: u64,
    pub(crate) verify_one_of: u64,
    /// Corrupts each plan before it is verified, for tests of the verification.
    pub(crate) distort: Option<fn(&mut Plan)>,
    /// Effects of the present step that wait for its commit.
    effects: Vec<Effect>,
    /// Effects of earlier steps, each with the revision that must be durable first.
    // Invariant: revisions only grow from front to back.
    waiting: VecDeque<(Revision, Effect)>,
    durable: Revision,
}

impl Control {
    /// How long the answer to a create with an idempotency key is remembered.
    pub(crate) const REQUEST_RETENTION: gpool_model::Millis = gpool_model::Millis::from_hours(24);
    /// The largest number of remembered answers of one user, so that memory and disk stay bounded.
    pub(crate) const REQUESTS_OF_USER_MAX: usize = 100_000;

    /// Takes over a loaded world: all of it is durable, and no agent has reported yet.
    #[must_use]
    pub fn new(mut world: World) -> Self {
        world.disconnect_nodes();
        Self::over(world)
    }

    /// Returns a state machine without agents, to simulate a world: it trusts the recorded
    /// allocations and waits for no commits.
    pub(crate) fn imagined(world: World, now: Timestamp) -> Self {
        Self { now, durable: Revision(u64::MAX), ..Self::over(world) }
    }

    /// Takes over a world within the life of a server, after the agents have reported.
    pub(crate) fn remembering(world: World) -> Self {
        Self::over(world)
    }

    /// From now on, no effect waits for its commit.
    pub(crate) fn believe_all_durable(&mut self) {
        self.durable = Revision(u64::MAX);
    }

    fn over(world: World) -> Self {
        Self {
            durable: world.revision(),
            seq: world.cluster().last_seq,
            couriers: Couriers::new(world.outbox().all()),
            world,
            workspace: Workspace::default(),
            now: Timestamp::ZERO,
            journal: Vec::new(),
            sessions: Sessions::default(),
            n_learnt: 0,
            is_stopping: false,
            is_full: false,
            has_more: true,
            planned: Vec::new(),
            journaled_starts: Vec::new(),
            strays: BTreeSet::new(),
            unsaid: Vec::new(),
            unsettled_ends: Vec::new(),
            is_settling: false,
            n_plans: 0,
            verify_one_of: 1,
            distort: None,
            effects: Vec::new(),
            waiting: VecDeque::new(),
        }
    }

    /// Returns the state machine of a new cluster; its first step commits the world.
    #[must_use]
    pub fn create(policy: Policy) -> Self {
        let mut control = Self::new(World::new(policy));
        control.durable = Revision(0);
        control
    }

    /// Corrupts every later plan before it is verified. A check that has never refused a plan may
    /// be unable to.
    pub fn distort_plans(&mut self, distort: fn(&mut Plan)) {
        self.distort = Some(distort);
    }

    /// The state, including changes that are not durable yet.
    #[must_use]
    pub fn world(&self) -> &World {
        &self.world
    }

    /// The last revision that a commit got.
    #[must_use]
    pub fn revision(&self) -> Revision {
        self.world.revision()
    }

    /// The last revision that is known to be durable.
    #[must_use]
    pub fn durable(&self) -> Revision {
        self.durable
    }

    /// The answers to requests that wait for their commit, the newest first.
    pub fn waiting_replies(
        &self,
    ) -> impl Iterator<Item = (RequestId, &Result<Reply, Refusal>)> + use<'_> {
        self.waiting.iter().rev().filter_map(|(_, effect)| match effect {
            Effect::Reply { request, reply } => Some((*request, reply)),
            _ => None,
        })
    }

    /// Returns the state beside the world as text, for tools that compare states. Equal worlds with
    /// equal texts behave the same.
    #[must_use]
    pub fn beside_world(&self) -> String {
        let revision = self.world.revision().0;
        let waiting = self.waiting.iter().map(|(at, effect)| (revision - at.0, effect));
        let waiting: Vec<_> = waiting.collect();
        format!(
            "{:?}",
            (
                (&self.sessions, &self.couriers),
                (self.is_stopping, self.is_full, self.has_more),
                (revision - self.durable.0, waiting),
                (&self.planned, &self.journaled_starts),
            )
        )
    }

    /// Tasks that ran on a node although they should not have, since this state machine was made,
    /// and were ordered to end.
    #[must_use]
    pub fn strays(&self) -> &BTreeSet<TaskId> {
        &self.strays
    }

    /// Returns when the next step is due if nothing happens.
    #[must_use]
    pub fn next_timer(&self) -> Option<Timestamp> {
        let others = [self.sessions.next_timer(), self.couriers.next_timer()];
        self.next_change().into_iter().chain(others.into_iter().flatten()).min()
    }

    /// Returns the next change that time alone brings, without repeated questions to agents and
    /// repeated notifications. Those matter only where messages are lost.
    #[must_use]
    pub fn next_change(&self) -> Option<Timestamp> {
        self.world.next_timer().into_iter().chain(self.next_planned()).min()
    }

    /// Processes events that arrived together, decides which jobs start, and returns at most one
    /// commit and everything that may be done now. If `now` is before that of the last step, the
    /// clock stands still.
    pub fn step(&mut self, now: Timestamp, events: impl IntoIterator<Item = Event>) -> Vec<Effect> {
        self.now = self.now.max(now);
        self.world.tell_time(self.now);
        let before = self.world.n_changes();
        let (mut time_passed, mut needs_plan) = (false, self.has_more);
        for event in events {
            match event {
                Event::Committed { revision } => self.durable = self.durable.max(revision),
                Event::TimerFired => time_passed = true,
                Event::ServerStarted { .. }
                | Event::ServerStopping
                | Event::DiskFull { .. }
                | Event::Requested { .. }
                | Event::Reported { .. }
                | Event::AgentSilence { .. }
                | Event::Delivered { .. } => needs_plan |= self.take(event),
            }
        }
        let after_events = self.world.n_changes();
        if time_passed {
            self.send_questions();
        }
        self.wake_jobs();
        self.come_into_claims();
        if time_passed || self.world.n_changes() != before {
            self.keep_up();
        }
        let n_changes = self.world.n_changes();
        if time_passed || n_changes != after_events || (needs_plan && n_changes != before) {
            self.cycle();
        }
        self.send_deliveries();
        self.flush()
    }

    /// Processes one event; returns whether the next plan may differ from the last one.
    fn take(&mut self, event: Event) -> bool {
        let before = (self.world.n_changes(), self.n_learnt);
        let is_planned_start = self.is_planned_start(&event);
        self.seq = self.world.cluster().last_seq.next();
        match event.clone() {
            Event::ServerStarted { term, n_skipped_jobs } => {
                self.server_started(term, n_skipped_jobs);
            }
            Event::Requested { request, caller, command } => {
                self.requested(request, &caller, command);
            }
            Event::Reported { node, report } => self.reported(&node, report),
            Event::AgentSilence { node, silence } => self.silence(&node, silence),
            Event::Delivered { id, sent } => self.delivered(&id, sent),
            Event::ServerStopping => self.is_stopping = true,
            Event::DiskFull { is_full } => self.is_full = is_full,
            Event::TimerFired | Event::Committed { .. } => {}
        }
        // These change no record. Later decisions depend on the first; people read the others.
        let is_kept = matches!(
            event,
            Event::ServerStopping
                | Event::DiskFull { .. }
                | Event::Reported {
                    report: Report::Loan(_) | Report::Move(_) | Report::Output(_),
                    ..
                }
        );
        // A start may change more than its own job: other jobs waited for it.
        let is_planned = is_planned_start && self.world.n_changes() == before.0 + 1;
        let is_journaled = is_kept || (self.world.n_changes(), self.n_learnt) != before;
        if is_journaled {
            self.note(Journaled::Event(event));
        }
        is_journaled && !is_planned
    }

    /// Journals an entry as number `self.seq`.
    pub(crate) fn note(&mut self, entry: Journaled) {
        self.journal.push(JournalEntry { seq: self.seq, time: self.now, entry });
        let mut cluster = self.world.cluster().clone();
        cluster.last_seq = self.seq;
        self.world.put_cluster(cluster);
    }

    fn server_started(&mut self, term: Term, n_skipped_jobs: u64) {
        let mut cluster = self.world.cluster().clone();
        assert!(term > cluster.term, "a server starts with a term of its own");
        cluster.term = term;
        cluster.last_job = JobNumber(cluster.last_job.0.saturating_add(n_skipped_jobs));
        cluster.n_skipped_jobs = cluster.n_skipped_jobs.saturating_add(n_skipped_jobs);
        self.world.put_cluster(cluster);
        if n_skipped_jobs > 0 {
            self.skip_generations(term);
            self.skip_attempts();
            self.unsettle_nodes();
        }
        self.ask_all();
    }

    /// Agents and shepherds ignore generations older than the newest one that they have seen, and a
    /// backup does not know that one. A restore raises the term by far more than the changes of any
    /// job. So the term is a generation that no agent has seen, even if a backup is restored
    /// several times.
    fn skip_generations(&mut self, term: Term) {
        let jobs: Vec<Job> = self.world.job_rows().map(|row| row.job.clone()).collect();
        for mut job in jobs {
            job.generation = job.generation.next().max(Generation(term.0));
            self.put_job(job);
        }
    }

    /// A job that waits in a backup may have run since. Its attempt numbers, like job numbers, are
    /// not assigned again: agents refuse an attempt that is over, and its output still exists.
    fn skip_attempts(&mut self) {
        let waits = |job: &&Job| job.phase.allocations().is_empty();
        let jobs: Vec<Job> =
            self.world.job_rows().map(|row| &row.job).filter(waits).cloned().collect();
        for mut job in jobs {
            if job.array.is_some() {
                self.skip_attempts_of(job.id.number);
                continue;
            }
            job.attempt = job.attempt.next();
            self.put_job(job);
        }
    }

    /// After a restore the tasks on the nodes are unknown until each agent has reported.
    fn unsettle_nodes(&mut self) {
        let nodes = self.world.nodes().iter().map(|row| row.node.clone());
        for node in nodes.collect::<Vec<_>>() {
            self.world.put_node(Node { settled_boot_id: String::new(), ..node });
        }
    }

    /// Carries out a command without a decision of the scheduler; the answer comes at once.
    pub(crate) fn try_out(&mut self, caller: &Caller, command: Command) -> Result<Reply, Refusal> {
        self.requested(RequestId(0), caller, command);
        match self.effects.pop() {
            Some(Effect::Reply { reply, .. }) => reply,
            _ => Ok(Reply::Done),
        }
    }

    fn requested(&mut self, request: RequestId, caller: &Caller, command: Command) {
        let reply = match command {
            Command::Submit { jobs, key, ends, array_ends, dry_run } => {
                let ends = KnownEnds { jobs: &ends, arrays: &array_ends };
                match dry_run {
                    true => self.would_submit(caller, &jobs, ends),
                    false => self.submit(caller, jobs, key, ends),
                }
            }
            Command::OnJobs { jobs, verb } => self.on_jobs(caller, &jobs, verb, request),
            Command::HoldMissing { jobs, missing } => self.hold_missing(caller, &jobs, &missing),
            Command::Retry { jobs } => self.retry(caller, &jobs),
            Command::Edit { job, version, patch, ends } => {
                let ends = KnownEnds { jobs: &ends, arrays: &[] };
                self.edit(caller, job, version, &patch, ends)
            }
            Command::AllowDevices { node, devices } => {
                self.allow_devices(caller, &node, devices.as_deref())
            }
            Command::SetPolicy { preset, set, dry_run } => {
                self.set_policy(caller, preset.as_deref(), &set, dry_run)
            }
            Command::Reserve { reservation, consent } => {
                self.reserve(caller, *reservation, consent)
            }
            Command::EditReservation { name, patch, consent } => {
                self.edit_reservation(caller, &name, *patch, consent)
            }
            Command::Unreserve { names } => self.unreserve(caller, &names),
            Command::Drain { targets, by, reason, consent } => {
                self.drain(caller, &targets, by, &reason, consent)
            }
            Command::Undrain { targets } => self.undrain(caller, &targets),
            Command::SetUserCaps { user, caps } => self.set_user_caps(caller, user, caps),
            Command::SetOverspent { all } => self.set_overspent(caller, all),
            Command::ReportLate { jobs } => self.report_late(caller, jobs),
            Command::Subscribe { payer, rules } => self.subscribe(caller, payer, rules),
            Command::ReportSpending { all } => self.report_spending(caller, all),
            Command::ReportDigests { all } => self.report_digests(caller, all),
            Command::ChangeProjects(ask) => self.change_projects(caller, &ask),
            Command::MoveNodes { nodes, pool } => self.move_nodes(caller, &nodes, &pool),
            Command::LabelNodes { nodes, change } => self.label_nodes(caller, &nodes, &change),
            Command::RemoveNode { node, is_off } => self.remove_node(caller, &node, is_off),
            Command::SetDeviceStrategy { strategy } => self.set_strategy(caller, strategy),
        };
        self.reply(request, reply);
    }

    fn reply(&mut self, request: RequestId, reply: Result<Reply, Refusal>) {
        self.effects.push(Effect::Reply { request, reply });
    }

    /// Adds an effect to be carried out once the present step is durable.
    pub(crate) fn effect(&mut self, effect: Effect) {
        self.effects.push(effect);
    }

    /// Replaces the state of a job, and publishes a change of its phase.
    pub(crate) fn put_job(&mut self, job: Job) {
        let row = self.world.job(job.id);
        let before = row.map(|row| row.job.phase.state());
        let had_begun = row.is_none_or(|row| has_begun(&row.job));
        let spec = row.map(|row| Arc::clone(&row.spec));
        let state = job.phase.state();
        if before != Some(state) {
            let exit_code = match &job.phase {
                Phase::Ended(end) => end.exit.map(gpool_model::job::ExitStatus::shell_code),
                _ => None,
            };
            self.publish(Change::JobState { job: job.id, state, exit_code });
            if let Some(spec) = spec {
                self.tell(&spec, &job, state);
            }
        }
        let id = job.id;
        let begins = has_begun(&job) && !had_begun;
        self.world.put_job(job);
        if begins {
            self.settle_start(id);
        }
    }

    pub(crate) fn publish(&mut self, change: Change) {
        self.effects.push(Effect::Publish(Notice { seq: self.seq, time: self.now, change }));
    }

    /// Returns a copy of the state of a live job.
    pub(crate) fn job(&self, id: JobId) -> Job {
        self.world.job(id).expect("asked only for jobs that are there").job.clone()
    }

    /// Releases the commit of this step and the effects of durable commits.
    fn flush(&mut self) -> Vec<Effect> {
        let mut out = Vec::new();
        if self.world.is_changed() && self.journal.is_empty() {
            self.seq = self.world.cluster().last_seq.next();
            self.note(Journaled::Event(Event::TimerFired));
        }
        if let Some((revision, records, ended)) = self.world.take_changes() {
            let journal = std::mem::take(&mut self.journal);
            let term = self.world.cluster().term;
            out.push(Effect::Commit(Commit { revision, term, records, journal, ended }));
        }
        let revision = self.world.revision();
        self.waiting.extend(self.effects.drain(..).map(|effect| (revision, effect)));
        while let Some((_, effect)) =
            self.waiting.pop_front_if(|(revision, _)| *revision <= self.durable)
        {
            out.push(effect);
        }
        out
    }
}
