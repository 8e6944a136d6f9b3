//! A server with a store that is slow and fails, and agents behind a network that loses, repeats
//! and reorders.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use gpool_control::Control;
use gpool_model::job::{BlobId, JobState, Owner};
use gpool_model::record::EndedJob;
use gpool_model::{
    Caller, Command, Commit, Dependency, Effect, Event, JobId, JobPatch, Millis, NewJob, Policy,
    ProjectName, Record, RecordKey, Refusal, Reply, RequestId, Revision, Timestamp,
};
use gpool_scenario::{DeviceChange, JobSeed, Situation};
use gpool_world::{JobRow, Snapshot, World};

use crate::agent::Agent;

/// One thing that happens; picks are taken modulo what there is.
#[derive(Debug, Clone)]
pub enum Happening {
    Submit(JobSeed),
    Cancel(u32),
    Hold(u32),
    Release(u32),
    Edit(u32, i32),
    Device(u32, u32, DeviceChange),
    /// An order reaches its agent: node, which, and whether it comes again later.
    Order(u32, u32, bool),
    LoseOrder(u32, u32),
    Report(u32, u32, bool),
    LoseReport(u32, u32),
    Start(u32, u32),
    Refuse(u32, u32),
    End(u32, u32, i32),
    RestartAgent(u32),
    /// The oldest commit becomes durable, and the server hears of it.
    Commit,
    /// The server is killed after so many more commits became durable unheard; or the next one
    /// failed. Memory is dropped and loaded again.
    RestartServer(u32),
    Pass(Millis),
}

/// What was put into a control since it was made, to do it again.
struct Life {
    records: Vec<Record>,
    revision: Revision,
    inputs: Vec<(Timestamp, Vec<Event>)>,
    outputs: Vec<Vec<Effect>>,
}

pub struct Server {
    control: Control,
    life: Option<Life>,
    now: Timestamp,
    store: BTreeMap<RecordKey, Record>,
    stored: Revision,
    archive: BTreeMap<JobId, EndedJob>,
    last_seq: u64,
    in_flight: VecDeque<Commit>,
    pub agents: Vec<Agent>,
    acknowledged: BTreeSet<JobId>,
    last_request: RequestId,
    n_replies: u64,
}

impl Server {
    /// A new cluster of the nodes of a situation, whose agents are about to announce themselves.
    pub fn new(situation: &Situation) -> Self {
        let agents = situation.nodes.iter().cloned().map(Agent::new).collect();
        let mut server = Self {
            control: Control::create(situation.policy.clone()),
            life: None,
            now: situation.now,
            store: BTreeMap::new(),
            stored: Revision(0),
            archive: BTreeMap::new(),
            last_seq: 0,
            in_flight: VecDeque::new(),
            agents,
            acknowledged: BTreeSet::new(),
            last_request: RequestId(0),
            n_replies: 0,
        };
        server.begin();
        server
    }

    pub fn world(&self) -> &World {
        self.control.world()
    }

    pub fn policy(&self) -> &Policy {
        self.world().policy()
    }

    /// How many requests were answered.
    pub fn n_replies(&self) -> u64 {
        self.n_replies
    }

    /// How many jobs have ended, in whatever way.
    pub fn n_ended(&self) -> usize {
        self.archive.len()
    }

    pub fn happen(&mut self, what: &Happening) {
        match what {
            Happening::Submit(seed) => self.submit(seed),
            Happening::Cancel(pick) => self.ask_about(*pick, |jobs| Command::Cancel { jobs }),
            Happening::Hold(pick) => self.ask_about(*pick, |jobs| Command::Hold { jobs }),
            Happening::Release(pick) => self.ask_about(*pick, |jobs| Command::Release { jobs }),
            Happening::Edit(pick, priority) => {
                let patch = JobPatch { priority: Some(*priority), note: None };
                self.ask_about(*pick, |jobs| Command::Edit { job: jobs[0], version: None, patch });
            }
            Happening::Device(node, device, change) => self.device(*node, *device, *change),
            Happening::Order(node, pick, again) => {
                let agent = self.agent(*node);
                if let Some(order) = take(&mut agent.orders, *pick, *again) {
                    agent.obey(order);
                }
            }
            Happening::LoseOrder(node, pick) => {
                drop(take(&mut self.agent(*node).orders, *pick, false));
            }
            Happening::Report(node, pick, again) => {
                let agent = self.agent(*node);
                let node = agent.node.name.clone();
                if let Some(report) = take(&mut agent.reports, *pick, *again) {
                    self.step(vec![Event::Reported { node, report }]);
                }
            }
            Happening::LoseReport(node, pick) => {
                drop(take(&mut self.agent(*node).reports, *pick, false));
            }
            Happening::Start(node, pick) => {
                let now = self.now;
                self.agent(*node).start(*pick, now);
            }
            Happening::Refuse(node, pick) => self.agent(*node).refuse(*pick),
            Happening::End(node, pick, code) => {
                let now = self.now;
                self.agent(*node).end(*pick, *code, now);
            }
            Happening::RestartAgent(node) => self.agent(*node).restart(),
            Happening::Commit => drop(self.make_durable()),
            Happening::RestartServer(n_commits) => self.restart(*n_commits),
            Happening::Pass(length) => {
                self.now = self.now.after(*length);
                self.step(vec![Event::TimerFired]);
            }
        }
    }

    /// Makes the oldest commit durable and says so; false if there is none.
    pub fn make_durable(&mut self) -> bool {
        let Some(revision) = self.store_oldest() else { return false };
        self.step(vec![Event::Committed { revision }]);
        true
    }

    /// Drops memory and takes over what is durable: so many of the commits on their way, no more.
    pub fn restart(&mut self, n_commits: u32) {
        for _ in 0..n_commits {
            self.store_oldest();
        }
        self.in_flight.clear();
        self.replay();
        if self.stored == Revision(0) {
            // Not even the beginning was durable.
            self.control = Control::create(self.policy().clone());
            self.life = None;
        } else {
            let records: Vec<Record> = self.store.values().cloned().collect();
            let world = World::load(self.stored, records.clone());
            self.control = Control::new(world.expect("what was committed fits together"));
            let (revision, inputs, outputs) = (self.stored, Vec::new(), Vec::new());
            self.life = Some(Life { records, revision, inputs, outputs });
        }
        self.begin();
    }

    fn begin(&mut self) {
        let term = self.world().cluster().term.next();
        self.step(vec![Event::ServerStarted { term, n_skipped_jobs: 0 }]);
        for agent in &mut self.agents {
            agent.announce();
        }
    }

    /// The same inputs do the same again, effect for effect.
    pub fn replay(&self) {
        let Some(life) = &self.life else { return };
        let world = World::load(life.revision, life.records.clone()).expect("it was loaded before");
        let mut control = Control::new(world);
        for ((now, events), expected) in life.inputs.iter().zip(&life.outputs) {
            assert_eq!(&control.step(*now, events.clone()), expected);
        }
        assert_eq!(control.world().records(), self.world().records());
    }

    fn step(&mut self, events: Vec<Event>) {
        let effects = self.control.step(self.now, events.clone());
        if let Some(life) = &mut self.life {
            life.inputs.push((self.now, events));
            life.outputs.push(effects.clone());
        }
        for effect in effects {
            match effect {
                Effect::Commit(commit) => self.in_flight.push_back(commit),
                Effect::Reply { reply, .. } => self.replied(&reply),
                Effect::Order { node, order } => {
                    let mut agents = self.agents.iter_mut();
                    let agent = agents.find(|agent| agent.node.name == node);
                    agent.expect("orders go to nodes that are there").orders.push(order);
                }
                Effect::Publish(_) => {}
                Effect::Alert { violations } => panic!("{}", violations.join("\n")),
            }
        }
    }

    fn replied(&mut self, reply: &Result<Reply, Refusal>) {
        self.n_replies += 1;
        if let Ok(Reply::Submitted { first, n_jobs, .. }) = reply {
            for number in first.0..first.0 + *n_jobs {
                let is_new = self.acknowledged.insert(JobId::single(number));
                assert!(is_new, "number {number} is given out twice");
            }
        }
    }

    fn store_oldest(&mut self) -> Option<Revision> {
        let commit = self.in_flight.pop_front()?;
        assert_eq!(commit.revision, self.stored.next(), "commits are gapless");
        for change in commit.records {
            match change.value {
                Some(record) => drop(self.store.insert(change.key, record)),
                None => drop(self.store.remove(&change.key)),
            }
        }
        for entry in commit.journal {
            assert_eq!(entry.seq.0, self.last_seq + 1, "the journal is gapless");
            self.last_seq = entry.seq.0;
        }
        for ended in commit.ended {
            let before = self.archive.insert(ended.id(), ended);
            assert!(before.is_none(), "{before:?} ended twice");
        }
        self.stored = commit.revision;
        Some(commit.revision)
    }

    fn submit(&mut self, seed: &JobSeed) {
        let after = seed
            .after
            .and_then(|(pick, kind)| self.pick(pick, |_| true).map(|job| Dependency { job, kind }));
        let job = NewJob {
            name: Arc::from("job"),
            project: ProjectName::new("default"),
            command: vec!["true".to_owned()],
            script: None,
            context: BlobId(Arc::from("none")),
            directory: "/".to_owned(),
            stdin: None,
            stdout: None,
            stderr: None,
            gpus: seed.gpus.clone(),
            gpus_written: Arc::from(seed.gpus.to_string()),
            cpus: seed.cpus,
            memory: seed.memory,
            time_limit: seed.limit,
            grace: Millis::from_secs(10),
            after: after.into_iter().collect(),
            priority: seed.priority,
            note: None,
            hold: seed.is_held,
            allow_unsatisfiable: true,
        };
        self.ask(Command::Submit { jobs: vec![job], key: None, ends: vec![], dry_run: false });
    }

    fn ask_about(&mut self, pick: u32, command: impl FnOnce(Vec<JobId>) -> Command) {
        if let Some(job) = self.pick(pick, |_| true) {
            self.ask(command(vec![job]));
        }
    }

    fn ask(&mut self, command: Command) {
        self.last_request = self.last_request.next();
        let owner = Owner { uid: 0, gid: 0, user: Arc::from("root") };
        let caller = Caller { owner, admin: true };
        self.step(vec![Event::Requested { request: self.last_request, caller, command }]);
    }

    fn device(&mut self, node: u32, device: u32, change: DeviceChange) {
        let now = self.now;
        let agent = self.agent(node);
        let Some(device_ix) = (device as usize).checked_rem(agent.node.devices.len()) else {
            return;
        };
        if change == DeviceChange::Forbid {
            let node = agent.node.name.clone();
            let devices = Some(vec![device_ix.to_string()]);
            if self.world().node(&node).is_some() {
                self.ask(Command::AllowDevices { node, devices });
            }
            return;
        }
        change.apply(&mut agent.node, device_ix, now);
        agent.announce();
    }

    /// Everything that must hold at every moment.
    pub fn check(&self) {
        let mut world = self.world().clone();
        world.advance(self.now);
        let snapshot = Snapshot { world: &world, now: self.now };
        let found: Vec<String> =
            gpool_verify::check(&snapshot).iter().map(ToString::to_string).collect();
        assert!(found.is_empty(), "{}\nin\n{}", found.join("\n"), Situation::of(&snapshot));
        self.check_devices();
        for id in &self.acknowledged {
            let on_its_way = self.in_flight.iter().flat_map(|commit| &commit.ended);
            let has_ended = self.archive.contains_key(id)
                || on_its_way.map(EndedJob::id).any(|ended| ended == *id);
            let is_live = world.job(*id).is_some();
            assert_ne!(has_ended, is_live, "job {id} has ended: {has_ended}, is live: {is_live}");
        }
    }

    /// On no device of any node are two tasks that were launched and have not ended.
    fn check_devices(&self) {
        for agent in &self.agents {
            let mut users = BTreeMap::new();
            for (task, devices) in agent.live() {
                for device in devices {
                    if let Some(other) = users.insert(device, task) {
                        panic!("tasks {other} and {task} are both on device {device}");
                    }
                }
            }
        }
    }

    /// With an honest network and store from now on, everything that can end does.
    pub fn settle(&mut self) {
        for agent in &mut self.agents {
            agent.restart();
        }
        let n_commits = u32::try_from(self.in_flight.len()).expect("few");
        self.restart(n_commits);
        for _ in 0..10_000 {
            let mut is_quiet = !self.make_durable();
            for node in 0..u32::try_from(self.agents.len()).expect("few") {
                let agent = self.agent(node);
                is_quiet &= agent.orders.is_empty() && agent.reports.is_empty();
                is_quiet &= agent.live().next().is_none();
                self.happen(&Happening::Order(node, 0, false));
                self.happen(&Happening::Report(node, 0, false));
                self.happen(&Happening::Start(node, 0));
                self.happen(&Happening::End(node, 0, 0));
            }
            if is_quiet {
                return self.check_settled();
            }
        }
        panic!("it does not come to rest: {}", self.situation());
    }

    fn check_settled(&self) {
        self.check();
        for row in self.world().jobs().values() {
            let state = row.job.phase.state();
            // Others wait for these, or for themselves.
            assert!(state <= JobState::Pending, "job {} is {state} for ever", row.job.id);
        }
        for agent in &self.agents {
            assert!(agent.is_clean(), "something is left on {}", agent.node.name);
            let row = self.world().node(&agent.node.name).expect("it was announced");
            assert!(row.node.connected);
        }
        let mut world = self.world().clone();
        world.advance(self.now);
        let snapshot = Snapshot { world: &world, now: self.now };
        let mut workspace = gpool_sched::Workspace::default();
        let plan = gpool_sched::plan(&snapshot, world.policy(), &mut workspace);
        assert_eq!(plan.decisions, [], "what could start did");
        assert_eq!(gpool_verify::verify_fully(&snapshot, world.policy(), &plan), []);
        self.replay();
    }

    /// The state, for whoever reads why a test failed.
    pub fn situation(&self) -> String {
        Situation::of(&Snapshot { world: self.world(), now: self.now }).to_string()
    }

    fn agent(&mut self, node: u32) -> &mut Agent {
        let n_agents = self.agents.len();
        &mut self.agents[node as usize % n_agents]
    }

    fn pick(&self, pick: u32, wanted: impl Fn(&JobRow) -> bool) -> Option<JobId> {
        let rows = self.world().jobs().values().filter(|row| wanted(row));
        let ids: Vec<JobId> = rows.map(|row| row.job.id).collect();
        ids.get((pick as usize).checked_rem(ids.len())?).copied()
    }
}

/// Takes a message out of those on their way; `again` leaves a copy.
fn take<T: Clone>(messages: &mut Vec<T>, pick: u32, again: bool) -> Option<T> {
    let at = (pick as usize).checked_rem(messages.len())?;
    Some(if again { messages[at].clone() } else { messages.remove(at) })
}
