//! Everything there is in one run, and what happens to it.

mod agent;
mod check;
mod client;
mod distortion;
mod heads;
pub(crate) mod keeping;
mod lease;
mod lend;
mod moves;
mod planned;
mod post;
mod presence;
mod process;
mod projects;
mod replay;
mod server;
mod settle;
mod taken;
mod totals;

use std::collections::BTreeMap;

use gpool_model::{DeviceUuid, Event, JobId, RequestId, SlotPart, TaskId, Term, Version};

use crate::broken::{Broken, Invariant};
use crate::bug::Bug;
use crate::happening::{Happening, Kind};
use crate::machine::{Machine, Real, Run};
use crate::network::{Link, Said, take};
use crate::nodes::{Answer, Question};
use crate::store::Store;
use crate::swarm::Cluster;

use client::Asking;
use post::Post;
use server::Server;
pub use totals::Totals;

/// One run.
#[derive(Debug, Clone)]
pub struct Sim {
    pub(crate) cluster: Cluster,
    pub(crate) bug: Option<Bug>,
    /// True time in milliseconds; every clock is some way off it.
    pub(crate) now: u64,
    pub(crate) server: Option<Server>,
    pub(crate) server_skew: i64,
    pub(crate) n_lives: u64,
    pub(crate) store: Store,
    pub(crate) machines: Vec<Machine>,
    pub(crate) links: Vec<Link>,
    pub(crate) askings: Vec<Asking>,
    pub(crate) watch: Watch,
    pub(crate) post: Post,
    /// Number of actions that the agents' logic has returned.
    pub(crate) n_actions: u64,
    /// The newest agent incarnation of each node with a received report.
    heard: Vec<u32>,
    pub(crate) totals: Totals,
    pub(crate) broken: Option<Broken>,
    pub(crate) step_no: usize,
    pub(crate) trace: Option<Vec<String>>,
    /// What the logic of the nodes was asked, with its answers, if that is kept.
    pub(crate) asked: Option<Vec<(Question, Answer)>>,
}

/// The true events, and the promises to users.
#[derive(Debug, Clone, Default)]
pub(crate) struct Watch {
    /// Every program that was ever started.
    pub runs: BTreeMap<TaskId, Run>,
    /// The tasks on each device of each machine, and their parts of it.
    pub users: BTreeMap<(usize, DeviceUuid), BTreeMap<TaskId, SlotPart>>,
    /// Tasks that were being launched on a device when another one grew there.
    pub outgrown: std::collections::BTreeSet<TaskId>,
    /// Jobs with an answered submission, with its request.
    pub acknowledged: BTreeMap<JobId, usize>,
    /// The answer to the submission under each key.
    pub keys: BTreeMap<(u32, String), (u64, u64)>,
    /// Jobs with a request to cancel them, and whether it was answered.
    pub cancelled: BTreeMap<JobId, bool>,
    /// The least version of each job with an answered change.
    pub versions: BTreeMap<JobId, Version>,
    /// The size of each job's shares after a change that was answered, with the job's version.
    pub sizes: BTreeMap<JobId, (Version, gpool_model::GpuRequest)>,
    /// Reservations until they are released, which was answered.
    pub reserved: std::collections::BTreeSet<gpool_model::ReservationName>,
    /// Reservations with a request to end them.
    pub released: std::collections::BTreeSet<gpool_model::ReservationName>,
    /// The answered settings of projects, and the pools of nodes.
    pub agreed: projects::Agreed,
    /// The beneficiaries of evicted jobs, until they have the devices.
    pub taken: taken::Taken,
    /// Tasks that could not be launched, or lost their shepherd.
    pub unlaunched: std::collections::BTreeSet<TaskId>,
    /// Tasks that were stopped because they kept a called loan.
    pub called_back: std::collections::BTreeSet<TaskId>,
    /// The term of the last order, and the server that sent it.
    pub last_term: (Term, u64),
    /// The signal that is being delivered, and those that were.
    pub signal: Option<(Term, RequestId)>,
    pub signalled: std::collections::BTreeSet<(Term, RequestId, TaskId)>,
    /// Changes of the world at the last look at its plan.
    pub planned: Option<(u64, u64)>,
}

impl Sim {
    /// Returns a cluster with agents and server freshly started.
    #[must_use]
    pub fn new(cluster: &Cluster, bug: Option<Bug>) -> Self {
        Self::made(cluster, bug, None)
    }

    /// The same, which keeps the questions to the logic of its nodes.
    #[must_use]
    pub fn recorded(cluster: &Cluster) -> Self {
        Self::made(cluster, None, Some(Vec::new()))
    }

    fn made(cluster: &Cluster, bug: Option<Bug>, asked: Option<Vec<(Question, Answer)>>) -> Self {
        let nodes = cluster.nodes.iter().enumerate();
        let machines: Vec<Machine> =
            nodes.map(|(position, shape)| Machine::new(shape.node(position), *shape)).collect();
        let mut sim = Self {
            cluster: cluster.clone(),
            bug,
            now: 1_000_000_000_000,
            server: None,
            server_skew: 0,
            n_lives: 0,
            store: Store::default(),
            links: machines.iter().map(|_| Link::default()).collect(),
            heard: vec![0; machines.len()],
            machines,
            askings: Vec::new(),
            watch: Watch::default(),
            post: Post::default(),
            n_actions: 0,
            totals: Totals { happenings: vec![0; Kind::ALL.len()], ..Totals::default() },
            broken: None,
            step_no: 0,
            trace: None,
            asked,
        };
        sim.start_server();
        for m in 0..sim.machines.len() {
            if !sim.cluster.nodes[m].joins_late {
                sim.start_agent(m);
            }
        }
        sim
    }

    /// Keeps a line for each happening and each step from now on.
    pub fn keep_trace(&mut self) {
        self.trace = Some(Vec::new());
    }

    /// The lines that were kept.
    #[must_use]
    pub fn trace(&self) -> &[String] {
        self.trace.as_deref().unwrap_or_default()
    }

    /// Keeps a question to the logic of a node, if that is asked for.
    pub(crate) fn keep(&mut self, asked: impl FnOnce() -> (Question, Answer)) {
        if let Some(all) = &mut self.asked {
            all.push(asked());
        }
    }

    /// Returns the first broken invariant.
    #[must_use]
    pub fn broken(&self) -> Option<&Broken> {
        self.broken.as_ref()
    }

    /// What the run consisted of so far.
    #[must_use]
    pub fn totals(&self) -> &Totals {
        &self.totals
    }

    pub(crate) fn blame(&mut self, invariant: Invariant, what: String) {
        if self.broken.is_none() {
            self.note(|| format!("BROKEN {}: {what}", invariant.code()));
            self.broken = Some(Broken { invariant, what, step: self.step_no });
        }
    }

    pub(crate) fn note(&mut self, line: impl FnOnce() -> String) {
        if let Some(trace) = &mut self.trace {
            trace.push(line());
        }
    }

    /// Something happens; then everything is checked.
    pub fn happen(&mut self, what: &Happening) {
        let at = Kind::ALL.iter().position(|kind| *kind == what.kind);
        self.totals.happenings[at.expect("every kind is among all")] += 1;
        self.step_no += 1;
        let now = self.now;
        self.note(|| format!("{now} {what}"));
        self.act(what);
        self.check();
    }

    fn act(&mut self, what: &Happening) {
        match what.kind {
            kind if kind.is_asked() => self.wish(what),
            Kind::Commit => {
                self.persist();
                self.hear();
            }
            Kind::Persist => self.persist(),
            Kind::Hear => self.hear(),
            Kind::Send => self.receive(what.count("pick"), what.count("becomes")),
            Kind::Pass => self.pass(what.count("ms")),
            Kind::StartServer => self.start_server(),
            Kind::FailCommit => self.store.fail(),
            Kind::Disk => self.store.is_full = what.is("full"),
            Kind::KillServer => self.kill_server(what.count("durable")),
            Kind::DoomServer => {
                if let Some(server) = &mut self.server {
                    server.effects_left = Some(what.count("effects"));
                }
            }
            Kind::StopServer => {
                if let Some(server) = self.server.as_mut().filter(|it| it.paused_until.is_none()) {
                    server.is_stopping = true;
                    self.tell_server(Event::ServerStopping);
                }
            }
            Kind::Jump => self.jump(what.count("clock"), what.number("ms")),
            _ => self.act_on_node(what),
        }
    }

    fn act_on_node(&mut self, what: &Happening) {
        let all: Vec<usize> = (0..self.machines.len()).collect();
        let Some(m) = picked(&all, what.count("node")) else { return };
        let (now, pick) = (self.now, || what.count("pick"));
        let until = || what.count("ms").saturating_add(now);
        match what.kind {
            Kind::Order => self.deliver_order(m, pick(), false),
            Kind::RepeatOrder => self.deliver_order(m, pick(), true),
            Kind::LoseOrder => drop(take(&mut self.links[m].orders, pick(), false)),
            Kind::DelayOrder => self.links[m].delay_order(pick(), until()),
            Kind::CutOrders => self.links[m].is_cut_down = what.is("on"),
            Kind::Report => self.deliver_report(m, pick(), false),
            Kind::RepeatReport => self.deliver_report(m, pick(), true),
            Kind::LoseReport => drop(take(&mut self.links[m].reports, pick(), false)),
            Kind::DelayReport => self.links[m].delay_report(pick(), until()),
            Kind::CutReports => self.links[m].is_cut_up = what.is("on"),
            Kind::Part => {
                let how = what.count("how") % 4;
                self.links[m].is_cut_up = how == 1 || how == 2;
                self.links[m].is_cut_down = how == 1 || how == 3;
                if what.is("ms") {
                    self.pass(what.count("ms"));
                }
            }
            Kind::Leave => self.leave(m),
            Kind::Lag => self.links[m].lag = what.count("ms"),
            Kind::Check => self.check_devices(m, pick()),
            Kind::Claim => self.claim(m, pick()),
            Kind::Start => self.start_program(m, pick()),
            Kind::Step => self.read_told(m, pick(), false),
            Kind::FailStep => self.read_told(m, pick(), true),
            Kind::Connect => self.connect(m, pick()),
            Kind::Grow => self.grow(m, pick(), what.count("percent")),
            Kind::Shrink => self.shrink(m, pick(), what.count("percent")),
            Kind::Surge => self.surge(m, pick()),
            Kind::FailRestore => self.fix(m, pick()),
            Kind::Idle => self.idle(m, pick()),
            Kind::Exit => self.exit(m, pick(), what.number("code")),
            Kind::FailStart => self.fail_start(m, pick()),
            Kind::KillShepherd => self.kill_shepherd(m, pick()),
            Kind::Look => self.look(m),
            Kind::StartAgent => self.start_agent(m),
            Kind::KillAgent => self.kill_agent(m),
            Kind::DoomAgent => {
                if let Some(agent) = &mut self.machines[m].agent {
                    agent.acts_left = Some(what.count("acts"));
                }
            }
            Kind::Reboot => self.reboot(m, what.count("lost"), what.count("forgotten")),
            Kind::Snatch => self.snatch(m, pick(), what.count("becomes")),
            Kind::Device => self.change_device(m, what.count("device"), what.count("becomes")),
            _ => {}
        }
    }

    fn deliver_order(&mut self, m: usize, pick: u64, again: bool) {
        if let Some(sent) = take(&mut self.links[m].orders, pick, again) {
            self.obey(m, sent);
        }
    }

    pub(crate) fn deliver_report(&mut self, m: usize, pick: u64, again: bool) {
        if let Some(said) = take(&mut self.links[m].reports, pick, again) {
            self.hear_report(m, said);
        }
    }

    /// A report arrives. After one of a later agent nothing of an earlier one does.
    fn hear_report(&mut self, m: usize, said: Said) {
        if self.server.is_none() || said.by < self.heard[m] {
            return;
        }
        self.heard[m] = said.by;
        self.note_message(m);
        let node = self.machines[m].node.name.clone();
        self.tell_server(Event::Reported { node, report: said.report });
    }

    pub(crate) fn persist(&mut self) {
        if let Err(what) = self.store.persist(self.bug) {
            self.blame(Invariant::Store, what);
        }
    }

    fn change_device(&mut self, m: usize, device: u64, becomes: u64) {
        let all: Vec<usize> = (0..self.machines[m].real.len()).collect();
        let Some(at) = picked(&all, device) else { return };
        let since = self.machines[m].clock(self.now);
        self.machines[m].real[at] = match becomes % 5 {
            0 => Real::Well,
            1 => Real::Faulty,
            2 => Real::Gone,
            3 => Real::Hung,
            _ => Real::Taken(since),
        };
    }

    fn snatch(&mut self, m: usize, pick: u64, becomes: u64) {
        let Some(agent) = self.machines[m].agent.as_ref() else { return };
        let tasks: Vec<TaskId> = agent.asked.keys().copied().collect();
        let Some(task) = picked(&tasks, pick) else { return };
        let slots = &agent.asked[&task].1.slots;
        if let Some(index) = slots.first().map(|slot| u64::from(slot.index)) {
            self.change_device(m, index, becomes);
        }
    }

    fn jump(&mut self, clock: u64, ms: i64) {
        const HOUR: i64 = 3_600_000;
        let ms = ms.clamp(-HOUR, HOUR);
        let clocks: Vec<usize> = (0..=self.machines.len()).collect();
        match picked(&clocks, clock) {
            Some(0) | None => self.server_skew += ms,
            Some(m) => self.machines[m - 1].skew += ms,
        }
    }

    /// Time passes, and whatever is due meanwhile happens when it is due.
    pub(crate) fn pass(&mut self, ms: u64) {
        self.do_due();
        let until = self.now + ms;
        while let Some(at) = self.next_due().filter(|at| *at <= until) {
            self.now = at;
            self.do_due();
            if self.cluster.leases {
                // A task that outlives its lease does so for a moment.
                self.check_programs();
            }
        }
        self.now = until;
        self.do_due();
    }

    /// When something is due by itself, later than now.
    pub(crate) fn next_due(&self) -> Option<u64> {
        let server = self.server.as_ref();
        let timer = server.filter(|it| it.paused_until.is_none()).and_then(|server| {
            let at = server.control.next_timer()?;
            Some(at.get().saturating_add_signed(self.server_skew.saturating_neg()))
        });
        let resume = server.and_then(|server| server.paused_until);
        let machines = self.machines.iter().filter_map(Machine::next);
        let links = self.links.iter().filter_map(Link::next);
        let beats = self.links.iter().filter_map(Link::next_beat);
        let links = links.chain(beats).chain(self.next_silence());
        let all = timer.into_iter().chain(resume).chain(machines).chain(links);
        all.filter(|at| *at > self.now).min()
    }

    pub(crate) fn do_due(&mut self) {
        for m in 0..self.machines.len() {
            self.machine_due(m);
            self.announce(m);
            self.beat(m);
            self.beats_arrive(m);
            self.lend_due(m);
            for sent in self.links[m].due_orders(self.now) {
                self.obey(m, sent);
            }
            for said in self.links[m].due_reports(self.now) {
                self.hear_report(m, said);
            }
        }
        self.resume();
        self.look_for_silence();
        self.take_inbox();
    }
}

/// One of several, by a number that is taken modulo how many there are.
pub(crate) fn picked<T: Copy>(things: &[T], pick: u64) -> Option<T> {
    let n = u64::try_from(things.len()).expect("a slice fits in memory");
    let at = usize::try_from(pick.checked_rem(n)?).expect("below a length");
    Some(things[at])
}
