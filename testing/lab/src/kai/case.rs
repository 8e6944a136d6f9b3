//! A scenario as plain data. Names identify things; the order of the lists means nothing.

/// A cluster and its jobs.
#[derive(Debug, Clone, Default)]
pub struct Case {
    /// Now, in milliseconds of the clock of all times here.
    pub now: i64,
    /// The tree of projects.
    pub projects: Vec<Project>,
    pub nodes: Vec<Node>,
    /// Jobs that wait, run or leave.
    pub jobs: Vec<Job>,
    /// Whether some of the rules that decide which jobs run are switched off.
    pub is_partial: bool,
}

/// The quota of a project for one quantity; `None` is unset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quota {
    /// The guarantee; unset, all of it.
    pub guaranteed: Option<i64>,
    /// The limit; unset, there is none.
    pub limit: Option<i64>,
    /// Its weight where more than the guarantees is divided.
    pub weight: i64,
}

/// A project, inner or leaf.
#[derive(Debug, Clone)]
pub struct Project {
    pub name: String,
    /// The project that it belongs to.
    pub parent: Option<String>,
    /// Its priority among its siblings, higher first.
    pub priority: i64,
    /// Its part of the GPUs.
    pub gpu: Quota,
    /// Its part of the CPU cores.
    pub cpu: Quota,
    /// Its part of the memory.
    pub memory: Quota,
}

#[derive(Debug, Clone)]
pub struct Node {
    pub name: String,
    /// Thousandths of its CPU cores.
    pub cpu: i64,
    /// Its memory in bytes.
    pub memory: i64,
    /// How many tasks it holds.
    pub slots: i64,
    /// Its devices, those that are alike together.
    pub devices: Vec<Devices>,
}

/// Devices of a node that are alike.
#[derive(Debug, Clone)]
pub struct Devices {
    /// How many there are.
    pub count: i64,
    /// The memory of each in bytes, if it is known.
    pub memory: Option<i64>,
    /// Whether and how they are cut.
    pub mode: DeviceMode,
}

/// How devices are given out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DeviceMode {
    /// Whole, or in shares.
    Whole,
    /// Whole only: each is a single instance.
    Single,
    /// By instance; not whole, and not in shares.
    Mixed(Vec<Instances>),
}

/// Instances of one profile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Instances {
    /// The profile, such as `1g.10gb`.
    pub profile: String,
    /// How many.
    pub count: i64,
    /// What one of them is charged, in thousandths of a GPU.
    pub charge: i64,
}

/// A job: tasks that make sense together.
#[derive(Debug, Clone)]
pub struct Job {
    pub name: String,
    pub project: String,
    /// Its priority in its project, higher first.
    pub priority: i64,
    /// Whether it may be ended for others.
    pub preemptible: bool,
    /// When it was made; older first.
    pub created: i64,
    /// Its parts and how many tasks of each must run at once.
    pub gang: Group,
    pub tasks: Vec<Task>,
}

/// A part of a job that runs whole or not at all.
#[derive(Debug, Clone, Default)]
pub struct Group {
    pub name: String,
    /// Sets of tasks that are alike in rank.
    pub sets: Vec<TaskSet>,
    /// Parts of this part.
    pub groups: Vec<Self>,
}

/// Tasks with a minimum that must run at once.
#[derive(Debug, Clone, Default)]
pub struct TaskSet {
    /// Its name, the only one in the job.
    pub name: String,
    /// How many must run at once.
    pub min: i64,
}

/// A task: one process on one node.
#[derive(Debug, Clone)]
pub struct Task {
    pub name: String,
    /// The set that it belongs to.
    pub set: String,
    pub state: TaskState,
    /// Where it is or is to be, for one that has a place.
    pub placement: Option<Placement>,
    pub request: Request,
    /// Whether it may run only on some nodes.
    pub names_nodes: bool,
}

/// What a task does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TaskState {
    /// It waits.
    Pending,
    /// It waits and may not start yet.
    Gated,
    /// It was given its place and has not begun.
    Bound,
    /// It runs.
    Running,
    /// It gets its place when victims have left.
    Pipelined,
    /// It is leaving its place.
    Releasing,
    /// It ended well.
    Succeeded,
    /// It ended badly.
    Failed,
}

/// Where a task is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placement {
    pub node: String,
    /// The shared devices that it is on, by names that mean something on this node alone.
    pub shared: Vec<String>,
}

/// What a task asks for.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Request {
    pub gpu: GpuAsk,
    /// Thousandths of a CPU core.
    pub cpu: i64,
    /// Bytes of memory.
    pub memory: i64,
}

/// Which GPUs a task asks for.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum GpuAsk {
    #[default]
    None,
    /// A number of whole devices.
    Whole(i64),
    /// A fraction of each of several devices.
    Share {
        /// The part in thousandths, less than the whole.
        milli: i64,
        /// Of how many devices.
        devices: i64,
    },
    /// Some memory of each of so many.
    Memory {
        /// How much in bytes.
        bytes: i64,
        /// Of how many devices.
        devices: i64,
    },
    /// Instances, by profile.
    Mig(Vec<MigAsk>),
    /// Something with an unknown kind: it is never placed, and where it is no instance is
    /// given out.
    Unbooked,
}

/// Instances of one profile that are asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MigAsk {
    /// The profile, such as `1g.10gb`.
    pub profile: String,
    /// How many.
    pub count: i64,
    /// What one of them is charged, in thousandths of a GPU.
    pub charge: i64,
}
