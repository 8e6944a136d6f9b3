//! The parameters of one seed: a cluster, its faults with their frequencies, and its load. Each
//! seed leaves some faults out and makes others frequent: many runs with a few frequent faults find
//! more than runs with a little of each (swarm testing, Groce et al., ISSTA 2012).

use std::fmt;

use gpool_model::kind::OnIdle;
use gpool_model::node::Remap;
use gpool_model::resource::{ResourceKind, Resources};
use gpool_model::{
    Bytes, Device, DeviceUuid, MilliCpu, Node, NodeName, PlannedStarts, Policy, PoolName,
    ShareBetween,
};

use crate::bug::Bug;
use crate::happening::{Kind, Role};
use crate::rng::Rng;

/// Models of devices; a job asks for one of them by its position plus one.
pub(crate) const MODELS: [(&str, &str, u32); 2] =
    [("NVIDIA A100-SXM4-40GB", "a100", 40), ("NVIDIA H100 80GB HBM3", "h100", 80)];

/// The machines, and what never changes of the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cluster {
    pub nodes: Vec<NodeShape>,
    /// How many inputs the server takes into one step.
    pub batch: u64,
    /// Whether the agents have leases, as those on other machines than the server.
    pub leases: bool,
}

/// One machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NodeShape {
    /// How many devices.
    pub devices: u64,
    /// The model of the first device; the others alternate if `mixed`.
    pub model: u64,
    /// Whether there are several models.
    pub mixed: bool,
    /// Cores.
    pub cpus: u64,
    /// Most tasks at once.
    pub tasks: u64,
    /// Whether it can move running tasks between devices.
    pub moves: bool,
    /// Whether it lends the memory of shared devices.
    pub lends: bool,
    /// Whether it can pause tasks, by orders and for their loans.
    pub pauses: bool,
    /// Whether paused tasks can resume on other devices.
    pub remaps: bool,
    /// How much faster its boot clock runs than true time, in thousandths.
    pub fast: u64,
    /// How much slower.
    pub slow: u64,
    /// Whether its agent is not there from the beginning.
    pub joins_late: bool,
}

/// The parameters drawn from a seed before the run begins.
#[derive(Debug, Clone)]
pub struct Swarm {
    pub seed: u64,
    /// The machines.
    pub cluster: Cluster,
    /// How often each kind of happening is drawn, by its place in [`Kind::ALL`].
    pub weights: Vec<u64>,
    /// How many happenings are drawn.
    pub steps: u64,
    /// How many users there are; the first is an admin.
    pub users: u64,
    /// The most GPUs of one job.
    pub gpus_most: u64,
    /// How many of a hundred submissions are of shares with limits.
    pub shares: u64,
    /// How many of a hundred submissions are of jobs that may be paused.
    pub pauses: u64,
    /// The most jobs of one submission.
    pub jobs_most: u64,
    /// How many of a hundred submissions are of arrays.
    pub arrays: u64,
    /// How many of a hundred submissions are of jobs of several tasks.
    pub gangs: u64,
    /// How many projects are made before anything else happens; with none there are no pools
    /// either, and nothing is lent.
    pub projects: u64,
    /// How many of a hundred jobs may be taken back.
    pub preemptible: u64,
    /// The most jobs that live at once before users wait.
    pub live_most: u64,
    /// In how many of a hundred cases not the oldest message is picked.
    pub disorder: u64,
    /// How long the longest pause is, in milliseconds.
    pub pass_most: u64,
}

impl Swarm {
    /// From this seed on, jobs share devices, and nodes move tasks or lend memory. Earlier seeds do
    /// none of that.
    pub const SHARING: u64 = 1 << 32;

    /// From this seed on, shares also change their size, tasks are paused and resume on other
    /// devices, and nodes that lend move tasks too. Earlier seeds do none of that.
    pub const ELASTIC: u64 = 1 << 33;

    /// From this seed on, programs also leave their devices unused, and the server releases these.
    pub const IDLE: u64 = 1 << 34;

    /// From this seed on, the nodes are other machines: their agents have leases, their clocks run
    /// fast or slow, and the network is divided. Jobs share no devices then.
    pub const LEASED: u64 = 1 << 35;

    /// The first seed that can find a bug.
    #[must_use]
    pub fn first_seed(bug: Bug) -> u64 {
        match bug {
            bug if bug.is_of_leases() => Self::LEASED,
            bug if bug.is_of_idle() => Self::IDLE,
            bug if bug.is_elastic() => Self::ELASTIC,
            bug if bug.is_of_shares() => Self::SHARING,
            _ => 0,
        }
    }

    /// What a seed is about.
    #[must_use]
    pub fn of(seed: u64, steps: Option<u64>) -> Self {
        let mut draws = Draws::new(seed);
        let shares = if draws.is_sharing { draws.shares.one_of(&[50, 80]) } else { 0 };
        let pauses = draws.pauses.as_mut().map_or(0, |rng| rng.one_of(&[50, 90]));
        let n_nodes = draws.rng.one_of(&[1, 1, 1, 2, 2, 3, 4]);
        let nodes = (0..n_nodes).map(|_| {
            let shape = NodeShape::drawn(&mut draws.rng, &mut draws.shares, shares > 0);
            let shape = draws.leases.as_mut().map_or(shape, |rng| shape.with_clock(rng));
            draws.pauses.as_mut().map_or(shape, |rng| shape.with_pauses(rng))
        });
        let nodes = nodes.collect();
        let batch = draws.rng.one_of(&[1, 1, 1, 2, 5]);
        let cluster = Cluster { nodes, batch, leases: draws.leases.is_some() };
        // Of few wishes each comes more often beside what else must meet.
        let wishes_in_hundred = draws.rng.one_of(&[10, 30, 75, 75]);
        let faults_in_hundred = draws.rng.one_of(&[0, 15, 40, 40, 70, 100]);
        let projects = draws.projects.one_of(&[0, 2, 3, 5, 8]);
        let preemptible = draws.projects.one_of(&[50, 90]);
        let weights = Kind::ALL.iter().map(|kind| {
            let Some(rng) = draws.of(*kind) else { return 0 };
            let wishes_in_hundred =
                if kind.is_of_projects() && projects == 0 { 0 } else { wishes_in_hundred };
            weight(*kind, [wishes_in_hundred, faults_in_hundred], rng, shares > 0)
        });
        let weights: Vec<u64> = weights.collect();
        let Draws { mut rng, pauses: mut of_pauses, .. } = draws;
        let drawn = rng.one_of(&[60, 200, 400, 800]);
        let pass_most = [100, 5_000, 60_000, 3_600_000];
        // Pauses for loans take a while, so time passes in small steps.
        let (drawn, pass_most) = match &mut of_pauses {
            Some(rng) => (drawn.max(rng.one_of(&[200, 800])), [5_000, 5_000, 20_000, 60_000]),
            // Leases last half a minute.
            None if cluster.leases => (drawn.max(200), [20_000, 20_000, 60_000, 60_000]),
            None => (drawn, pass_most),
        };
        Self {
            seed,
            cluster,
            weights,
            steps: steps.unwrap_or(drawn),
            users: rng.between(1, 4),
            // Without demand for GPUs there is nothing to lend.
            gpus_most: rng.one_of(&[0, 1, 2, 4, 8]).max(projects.min(1)),
            shares,
            pauses,
            jobs_most: rng.one_of(&[1, 1, 2, 6]).max(if shares > 0 { 4 } else { 0 }),
            arrays: rng.one_of(&[0, 0, 15, 40]),
            // By itself, so that what else is drawn of a seed stays as it is.
            gangs: Rng::new(seed ^ 0x6761_6e67).one_of(&[0, 0, 0, 30]),
            projects,
            preemptible,
            // Tasks move when those of a long queue follow each other.
            live_most: rng.one_of(&[3, 10, 10, 30]).max(if shares > 0 { 20 } else { 0 }),
            disorder: rng.one_of(&[0, 5, 30, 80]),
            pass_most: rng.one_of(&pass_most),
        }
    }
}

/// The random numbers of a seed. Each part has its own, so that what else is drawn of a seed stays
/// as it is when a part is added.
struct Draws {
    rng: Rng,
    shares: Rng,
    projects: Rng,
    /// `None` if no task is paused.
    pauses: Option<Rng>,
    /// `None` if no agent has a lease.
    leases: Option<Rng>,
    is_sharing: bool,
    has_idle: bool,
}

impl Draws {
    fn new(seed: u64) -> Self {
        let own = |of: u64| Rng::new(seed ^ of);
        let is_elastic = (Swarm::ELASTIC..Swarm::LEASED).contains(&seed);
        Self {
            rng: own(0),
            shares: own(0x7368_6172),
            projects: own(0x7072_6f6a),
            pauses: is_elastic.then(|| own(0x656c_6173)),
            leases: (seed >= Swarm::LEASED).then(|| own(0x6c65_6173)),
            is_sharing: (Swarm::SHARING..Swarm::LEASED).contains(&seed),
            has_idle: seed >= Swarm::IDLE,
        }
    }

    /// Those for the frequency of a kind; `None` if it does not happen.
    fn of(&mut self, kind: Kind) -> Option<&mut Rng> {
        match kind {
            Kind::Idle if !self.has_idle => None,
            kind if kind.is_of_leases() => self.leases.as_mut(),
            kind if kind.is_elastic() => self.pauses.as_mut(),
            kind if kind.is_of_projects() => Some(&mut self.projects),
            kind if kind.is_of_shares() => Some(&mut self.shares),
            _ => Some(&mut self.rng),
        }
    }
}

/// How often a kind is drawn, given the share of wishes and faults in a hundred that
/// are drawn at all.
fn weight(kind: Kind, [wishes, faults]: [u64; 2], rng: &mut Rng, is_shared: bool) -> u64 {
    let is_on = match kind.role() {
        Role::Work => true,
        Role::Wish => rng.percent(if kind.is_elastic() { 85 } else { wishes }),
        Role::Fault => rng.percent(faults),
    };
    let scale = match kind.role() {
        Role::Work => rng.one_of(&[1, 2, 4, 8, 16]),
        Role::Wish | Role::Fault => rng.one_of(&[1, 2, 4, 4, 8, 16, 32]),
    };
    if !is_on || (kind.is_of_shares() && !is_shared) {
        return 0;
    }
    let weight = kind.weight() * scale;
    match kind.role() {
        // Tasks move only where many run for a while.
        Role::Wish | Role::Fault if is_shared && !kind.is_of_shares() && !kind.is_elastic() => {
            weight.div_ceil(8)
        }
        _ => weight,
    }
}

impl fmt::Display for Swarm {
    /// In one line: the cluster, the load, and each kind that happens more or less often.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seed, cluster, steps, users, gpus_most, jobs_most, live_most, projects, .. } =
            self;
        let devices: Vec<String> =
            cluster.nodes.iter().map(|node| node.devices.to_string()).collect();
        write!(
            f,
            "seed {seed}: {steps} steps, nodes of {} devices, batch {}, {users} users, jobs of \
             {gpus_most} GPUs, {jobs_most} at once, {live_most} live, {projects} projects, \
             disorder {}%, pauses to {} ms;",
            devices.join("+"),
            cluster.batch,
            self.disorder,
            self.pass_most
        )?;
        for (kind, weight) in Kind::ALL.iter().zip(&self.weights) {
            let is_usual = kind.role() == Role::Work;
            if *weight > 0 && !is_usual {
                write!(f, " {}×{weight}", kind.word())?;
            }
        }
        Ok(())
    }
}

impl NodeShape {
    fn drawn(rng: &mut Rng, of_shares: &mut Rng, is_shared: bool) -> Self {
        let shape = Self {
            devices: rng.one_of(&[0, 1, 1, 2, 2, 3, 4, 8]),
            model: rng.below(2),
            mixed: rng.percent(20),
            cpus: rng.one_of(&[2, 8, 64]),
            tasks: rng.one_of(&[1, 3, 64, 64]),
            moves: false,
            lends: false,
            pauses: false,
            remaps: false,
            fast: 0,
            slow: 0,
            joins_late: false,
        };
        if !is_shared {
            return shape;
        }
        let sharing = Self { mixed: false, cpus: 64, tasks: 64, ..shape };
        match of_shares.below(10) {
            // Tasks move only where several meet on several devices.
            0..=5 => Self { devices: shape.devices.clamp(2, 4), moves: true, ..sharing },
            6..=8 => Self { devices: shape.devices.clamp(1, 2), lends: true, ..sharing },
            _ => shape,
        }
    }

    /// The same on another machine than the server, with a boot clock of its own.
    fn with_clock(self, rng: &mut Rng) -> Self {
        Self {
            devices: self.devices.max(1),
            fast: rng.one_of(&[0, 0, 50]),
            slow: rng.one_of(&[0, 50]),
            joins_late: rng.percent(15),
            ..self
        }
    }

    /// The same, or one that pauses tasks.
    fn with_pauses(self, rng: &mut Rng) -> Self {
        let lends = Self { mixed: false, lends: true, moves: false, ..self };
        let many = self.devices.clamp(2, 4);
        match rng.below(10) {
            0..=4 => Self {
                devices: self.devices.clamp(1, 2),
                pauses: true,
                remaps: rng.percent(50),
                ..lends
            },
            5..=6 => Self { devices: many, moves: true, pauses: true, ..lends },
            7..=8 => Self { devices: many, pauses: true, remaps: true, lends: false, ..lends },
            _ => self,
        }
    }

    /// The node as its agent finds it.
    pub(crate) fn node(&self, position: usize) -> Node {
        let name = NodeName::new(format!("n{position}"));
        let devices = (0..u32::try_from(self.devices).expect("few")).map(|index| {
            let other = usize::from(self.mixed && index % 2 == 1);
            let model = usize::try_from(self.model).expect("few") + other;
            let (model, _, gib) = MODELS[model % MODELS.len()];
            Device {
                pci_bus: if self.pauses { format!("0000:0{index}:00.0") } else { String::new() },
                ..Device::new(
                    index,
                    DeviceUuid::new(format!("GPU-{position}-{index}")),
                    model.to_owned(),
                    Bytes::from_gib(gib),
                )
            }
        });
        let small = |n: u64| u32::try_from(n).expect("few");
        let mut capacity = Resources::none()
            .with_cpus(MilliCpu::from_cores(small(self.cpus)))
            .with_memory(Bytes::from_gib(256))
            .with_tasks(small(self.tasks));
        if self.moves || self.pauses {
            // A node moves tasks by the same means as it pauses them.
            capacity.set(ResourceKind::PauseMemory, Bytes::from_gib(256).get());
        }
        let mut node = Node::new(name, PoolName::usual(), capacity, devices.collect());
        node.facts.remap = if self.remaps { Remap::Yes } else { Remap::default() };
        node
    }
}

/// The policy that every run begins with, or what a planted bug makes of it.
pub(crate) fn policy(bug: Option<Bug>) -> Policy {
    let usual = Policy { user_priority_max: PRIORITY_MAX, idle: OnIdle::Release, ..Policy::fair() };
    match bug {
        Some(Bug::StartsUnplanned) => Policy { planned_starts: PlannedStarts::AtMost(0), ..usual },
        Some(Bug::SharesIgnored) => Policy { share_between: ShareBetween::Nobody, ..usual },
        _ => usual,
    }
}

/// The highest priority that users may ask for.
pub(crate) const PRIORITY_MAX: i32 = 10;

/// Returns the policy as it should be, without the change of a planted bug.
pub(crate) fn right(policy: &Policy) -> Policy {
    let Policy { planned_starts, share_between, .. } =
        Policy::from_preset(&policy.preset).unwrap_or_else(|_| Policy::fair());
    Policy { planned_starts, share_between, ..policy.clone() }
}
