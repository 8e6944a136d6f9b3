//! The format of files of scenarios: JSON, as a public collection has it.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Number;

/// A file of scenarios.
#[derive(Debug, Clone, Deserialize)]
pub struct File {
    pub scenarios: Vec<Scenario>,
}

/// A cluster and its jobs. The file also has expected results, which are not read.
#[derive(Debug, Clone, Deserialize)]
pub struct Scenario {
    /// The name.
    pub id: String,
    /// A description.
    #[serde(default)]
    pub name: String,
    #[serde(default)]
    pub nodes: Vec<Node>,
    /// The projects.
    #[serde(default)]
    pub queues: Vec<Queue>,
    #[serde(default)]
    pub jobs: Vec<Job>,
    /// Settings other than the defaults.
    #[serde(default)]
    pub config: Option<Config>,
}

#[derive(Debug, Clone, Deserialize)]
pub struct Node {
    pub name: String,
    /// Whole devices.
    #[serde(default)]
    pub gpus: i64,
    /// The memory of each device.
    #[serde(default = "unspecified_memory")]
    pub gpu_memory_mb: i64,
    /// Nothing is known of the memory of its devices.
    #[serde(default)]
    pub gpu_memory_unknown: bool,
    /// Cores.
    #[serde(default = "node_cpus")]
    pub cpus: Number,
    #[serde(default = "node_memory")]
    pub memory_bytes: Number,
    /// How many tasks it holds.
    #[serde(default = "node_pods")]
    pub max_pods: i64,
    /// Whether and how its devices are cut.
    #[serde(default)]
    pub mig_strategy: Option<String>,
    /// Instances that there are, by name of the resource.
    #[serde(default)]
    pub mig_instances: BTreeMap<String, i64>,
}

/// A project.
#[derive(Debug, Clone, Deserialize)]
pub struct Queue {
    pub name: String,
    /// The project above it.
    #[serde(default)]
    pub parent: Option<String>,
    /// Its priority among its siblings.
    #[serde(default = "queue_priority")]
    pub priority: i64,
    /// Guaranteed GPUs.
    #[serde(default)]
    pub deserved_gpus: Option<Number>,
    #[serde(default)]
    pub limit_gpus: Option<Number>,
    /// Its weight beyond the guarantees.
    #[serde(default)]
    pub over_quota_weight: Option<Number>,
    /// Where it stands by age.
    #[serde(default)]
    pub order: i64,
    /// Guaranteed cores.
    #[serde(default)]
    pub deserved_cpus_milli: Option<Number>,
    /// Guaranteed memory.
    #[serde(default)]
    pub deserved_memory_mb: Option<Number>,
    /// Its limit of cores.
    #[serde(default)]
    pub limit_cpus_milli: Option<Number>,
    #[serde(default)]
    pub limit_memory_mb: Option<Number>,
    /// It has nothing of anything.
    #[serde(default)]
    pub no_resources: bool,
}

#[derive(Debug, Clone, Deserialize)]
pub struct Job {
    pub name: String,
    /// Its project.
    pub queue: String,
    #[serde(default)]
    pub priority: i64,
    /// Whether it may be ended for others.
    #[serde(default)]
    pub preemptible: bool,
    #[serde(default)]
    pub age_minutes: Option<Number>,
    /// GPUs of each task.
    #[serde(default)]
    pub gpus: Option<Number>,
    /// On how many devices a part is taken.
    #[serde(default)]
    pub fraction_devices: Option<i64>,
    /// GPU memory of each task, instead.
    #[serde(default)]
    pub gpu_memory_mb: Option<Number>,
    /// Cores of each task.
    #[serde(default)]
    pub cpus: Option<Number>,
    /// Memory of each task.
    #[serde(default)]
    pub memory_bytes: Option<Number>,
    /// It asks for nothing.
    #[serde(default)]
    pub best_effort: bool,
    /// How many tasks must run at once.
    #[serde(default)]
    pub min_available: Option<i64>,
    /// Its parts.
    #[serde(default)]
    pub sub_groups: Option<Group>,
    /// A task of it that leaves does not come back.
    #[serde(default)]
    pub delete_when_releasing: bool,
    #[serde(default)]
    pub tasks: Vec<Task>,
}

/// A part of a job.
#[derive(Debug, Clone, Deserialize)]
pub struct Group {
    #[serde(default)]
    pub name: String,
    /// Sets of tasks.
    #[serde(default)]
    pub pod_sets: Vec<PodSet>,
    /// Parts of this part.
    #[serde(default)]
    pub groups: Vec<Self>,
}

/// A set of tasks.
#[derive(Debug, Clone, Deserialize)]
pub struct PodSet {
    pub name: String,
    /// How many must run at once.
    #[serde(default)]
    pub min: i64,
}

#[derive(Debug, Clone, Deserialize)]
pub struct Task {
    pub name: String,
    pub state: String,
    /// Where it is.
    #[serde(default)]
    pub node: Option<String>,
    /// The devices that it shares.
    #[serde(default)]
    pub gpu_groups: Vec<String>,
    /// The set that it belongs to.
    #[serde(default)]
    pub pod_set: Option<String>,
    /// GPUs, instead of what its job says.
    #[serde(default)]
    pub gpus: Option<Number>,
    /// Where it may go.
    #[serde(default)]
    pub allowed_nodes: Option<Vec<String>>,
    /// Instances, by name of the resource.
    #[serde(default)]
    pub mig: BTreeMap<String, i64>,
    /// It holds an instance that was made in the old way.
    #[serde(default)]
    pub legacy_mig: bool,
}

/// The plugins that are on; all others are off.
#[derive(Debug, Clone, Deserialize)]
pub struct Config {
    #[serde(default)]
    pub plugins: Option<Vec<Plugin>>,
}

/// Something that is on.
#[derive(Debug, Clone, Deserialize)]
pub struct Plugin {
    pub name: String,
    /// How.
    #[serde(default)]
    pub args: BTreeMap<String, serde_json::Value>,
}

fn unspecified_memory() -> i64 {
    100
}

fn node_cpus() -> Number {
    Number::from(20_000)
}

fn node_memory() -> Number {
    Number::from(20_000_000_000_i64)
}

fn node_pods() -> i64 {
    500
}

fn queue_priority() -> i64 {
    100
}
