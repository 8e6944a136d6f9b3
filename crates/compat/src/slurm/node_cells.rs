//! Slurm's fields of nodes, each as a function, and the groups of nodes that `sinfo` shows.

use std::collections::BTreeMap;

use gpool_cli::render::clock::Clock;
use gpool_wire::{Gpu, Node};

use super::arrays::ranges;
use super::cells::{DEFAULT_POOL, uid_of};
use super::hostlist;
use super::tres::gres_type;

/// A node with its devices.
#[derive(Clone, Copy)]
pub struct One<'n> {
    pub node: &'n Node,
    /// The devices of all nodes.
    pub gpus: &'n [Gpu],
    pub clock: &'n Clock,
}

/// A field of a node, without escapes; `None` is no value.
pub type Cell = fn(&One<'_>) -> Option<String>;

/// A column of a group of nodes.
pub enum GroupColumn {
    /// Equal in each node of the group; nodes that differ are in different groups.
    Each(Cell),
    /// A sum or a range over the nodes of the group.
    Sum(fn(&[One<'_>]) -> String),
}

impl GroupColumn {
    #[must_use]
    pub fn text(&self, group: &[One<'_>]) -> Option<String> {
        match self {
            Self::Each(cell) => group.first().and_then(cell),
            Self::Sum(of) => Some(of(group)),
        }
    }
}

/// A field that gpool does not have.
pub fn nothing(_: &One<'_>) -> Option<String> {
    None
}

pub fn available(_: &One<'_>) -> Option<String> {
    Some("up".to_owned())
}

pub fn features(one: &One<'_>) -> Option<String> {
    (!one.node.labels.is_empty()).then(|| one.node.labels.join(","))
}

/// The GPUs by model: `gpu:h100_80g:4`.
pub fn gres(one: &One<'_>) -> Option<String> {
    gres_of(one, |_| true, |_, indexes| indexes.len().to_string())
}

/// The GPUs in use by model, with their indexes: `gpu:h100_80g:1(IDX:2)`.
pub fn gres_used(one: &One<'_>) -> Option<String> {
    gres_of(
        one,
        |gpu| gpu.job.is_some(),
        |_, indexes| {
            let all =
                if indexes.is_empty() { "N/A".to_owned() } else { ranges(indexes.iter().copied()) };
            format!("{}(IDX:{all})", indexes.len())
        },
    )
}

/// The GPUs that `counts_as` accepts, by model.
fn gres_of(
    one: &One<'_>,
    counts_as: impl Fn(&Gpu) -> bool,
    amount: impl Fn(&str, &[u32]) -> String,
) -> Option<String> {
    let mut by_model: BTreeMap<String, Vec<u32>> = BTreeMap::new();
    for gpu in one.gpus.iter().filter(|gpu| gpu.node == one.node.name) {
        let of_model = by_model.entry(gres_type(&gpu.model_short)).or_default();
        of_model.extend(counts_as(gpu).then_some(gpu.index));
    }
    by_model.values_mut().for_each(|indexes| indexes.sort_unstable());
    let texts = by_model.iter().map(|(model, at)| format!("gpu:{model}:{}", amount(model, at)));
    let text = texts.collect::<Vec<_>>().join(",");
    (!text.is_empty()).then_some(text)
}

/// The number of GPUs, or of those in use.
#[must_use]
pub fn n_gpus(one: &One<'_>, only_used: bool) -> usize {
    let here = one.gpus.iter().filter(|gpu| gpu.node == one.node.name);
    here.filter(|gpu| !only_used || gpu.job.is_some()).count()
}

pub fn name(one: &One<'_>) -> Option<String> {
    Some(one.node.name.clone())
}

pub fn partition(one: &One<'_>) -> Option<String> {
    Some(one.node.pool.clone())
}

/// The pool, with a star for the default one.
pub fn partition_marked(one: &One<'_>) -> Option<String> {
    let mark = if one.node.pool == DEFAULT_POOL { "*" } else { "" };
    Some(format!("{}{mark}", one.node.pool))
}

pub fn reason(one: &One<'_>) -> Option<String> {
    match &one.node.drain {
        Some(drain) => Some(drain.reason.clone()),
        None if !one.node.connected => Some("Not responding".to_owned()),
        None => (one.node.n_gpus_closed > 0).then(|| "gpu_not_allowed".to_owned()),
    }
}

pub fn reason_since(one: &One<'_>) -> Option<String> {
    one.node.drain.as_ref().map(|drain| one.clock.plain(drain.since))
}

pub fn reason_user(one: &One<'_>) -> Option<String> {
    one.node.drain.as_ref().map(|drain| drain.who.clone())
}

pub fn reason_user_long(one: &One<'_>) -> Option<String> {
    one.node.drain.as_ref().map(|drain| format!("{}({})", drain.who, uid_of(&drain.who)))
}

/// The active reservations.
pub fn reservation(one: &One<'_>) -> Option<String> {
    let active = one.node.reservations.iter().filter(|it| it.active);
    let names: Vec<&str> = active.map(|it| it.name.as_str()).collect();
    (!names.is_empty()).then(|| names.join(","))
}

pub fn sockets_cores_threads(one: &One<'_>) -> Option<String> {
    Some(format!("1:{}:1", one.node.cpus))
}

pub fn state_short(one: &One<'_>) -> Option<String> {
    Some(state(one.node).short.to_owned())
}

pub fn state_long(one: &One<'_>) -> Option<String> {
    Some(state(one.node).long.to_owned())
}

pub fn state_complete(one: &One<'_>) -> Option<String> {
    Some(state(one.node).parts.join("+").to_ascii_lowercase())
}

pub fn used_memory(one: &One<'_>) -> Option<String> {
    Some((one.node.memory_used >> 20).to_string())
}

pub fn version(one: &One<'_>) -> Option<String> {
    Some(one.node.version.clone())
}

pub fn cluster(_: &One<'_>) -> Option<String> {
    None
}

pub fn cpus(group: &[One<'_>]) -> String {
    least(group.iter().map(|one| whole(one.node.cpus)))
}

pub fn memory(group: &[One<'_>]) -> String {
    least(group.iter().map(|one| one.node.memory >> 20))
}

/// The smallest amount, with a plus if others are larger.
fn least(amounts: impl Iterator<Item = u64> + Clone) -> String {
    let (least, most) = (amounts.clone().min().unwrap_or(0), amounts.max().unwrap_or(0));
    format!("{least}{}", if least < most { "+" } else { "" })
}

pub fn free_memory(group: &[One<'_>]) -> String {
    let free = group.iter().map(|one| free_mebibytes(one.node));
    let (least, most) = (free.clone().min().unwrap_or(0), free.max().unwrap_or(0));
    if least < most { format!("{least}-{most}") } else { least.to_string() }
}

/// Memory that no job has reserved, in MiB.
#[must_use]
pub fn free_mebibytes(node: &Node) -> u64 {
    node.memory.saturating_sub(node.memory_used) >> 20
}

/// Cores: allocated, idle, other and all.
pub fn cpus_by_state(group: &[One<'_>]) -> String {
    let sum = |of: fn(&Node) -> u64| group.iter().map(|one| of(one.node)).sum::<u64>();
    let [used, idle, other, all] = [
        sum(|node| whole(node.cpus_used)),
        sum(|node| if is_usable(node) { idle_cpus(node) } else { 0 }),
        sum(|node| if is_usable(node) { 0 } else { idle_cpus(node) }),
        sum(|node| whole(node.cpus)),
    ];
    format!("{used}/{idle}/{other}/{all}")
}

#[must_use]
pub fn idle_cpus(node: &Node) -> u64 {
    whole(node.cpus).saturating_sub(whole(node.cpus_used))
}

/// Whether jobs can start on the node.
#[must_use]
pub fn is_usable(node: &Node) -> bool {
    node.connected && node.drain.is_none()
}

pub fn n_nodes(group: &[One<'_>]) -> String {
    group.len().to_string()
}

/// Nodes: allocated, idle and other.
#[must_use]
pub fn counts(group: &[One<'_>]) -> [usize; 3] {
    let n = |of: fn(&Node) -> bool| group.iter().filter(|one| of(one.node)).count();
    [
        n(|node| is_usable(node) && is_used(node)),
        n(|node| is_usable(node) && !is_used(node)),
        n(|node| !is_usable(node)),
    ]
}

pub fn n_used_idle(group: &[One<'_>]) -> String {
    let [used, idle, _] = counts(group);
    format!("{used}/{idle}")
}

pub fn n_by_state(group: &[One<'_>]) -> String {
    let [used, idle, other] = counts(group);
    format!("{used}/{idle}/{other}/{}", group.len())
}

pub fn names(group: &[One<'_>]) -> String {
    let mut names: Vec<String> = group.iter().map(|one| one.node.name.clone()).collect();
    hostlist::sort(&mut names);
    hostlist::compressed(&names)
}

/// Whole cores, rounded up.
#[must_use]
pub fn whole(cores: f64) -> u64 {
    gpool_cli::render::clock::span(cores).get().div_ceil(1000)
}

fn is_used(node: &Node) -> bool {
    n_busy(node) > 0 || node.tasks_used > 0
}

/// GPUs in use. New jobs get no closed ones.
fn n_busy(node: &Node) -> u32 {
    node.n_gpus.saturating_sub(node.n_gpus_free).saturating_sub(node.n_gpus_closed)
}

pub struct NodeState {
    pub short: &'static str,
    pub long: &'static str,
    /// The base state and its flags.
    pub parts: &'static [&'static str],
    /// The place in the order of `sinfo`.
    pub rank: u32,
}

#[must_use]
pub fn state(node: &Node) -> NodeState {
    let of = |short, long, parts, rank| NodeState { short, long, parts, rank };
    match () {
        () if !node.connected => of("down*", "down*", &["DOWN", "NOT_RESPONDING"], 5),
        () if node.drain.is_some() && node.tasks_used > 0 => {
            of("drng", "draining", &["MIXED", "DRAIN"], 0)
        }
        () if node.drain.is_some() => of("drain", "drained", &["IDLE", "DRAIN"], 1),
        () if node.n_gpus > 0 && node.n_gpus_closed == node.n_gpus => {
            of("drain", "drained", &["IDLE", "DRAIN"], 1)
        }
        () if n_busy(node) > 0 && node.n_gpus_free == 0 => {
            of("alloc", "allocated", &["ALLOCATED"], 3)
        }
        () if is_used(node) => of("mix", "mixed", &["MIXED"], 2),
        () => of("idle", "idle", &["IDLE"], 4),
    }
}

/// The resources of a node.
#[must_use]
pub fn configured(one: &One<'_>) -> String {
    let node = one.node;
    tres(whole(node.cpus), node.memory, n_gpus(one, false), true)
}

/// The reserved resources of a node; empty if it is idle.
#[must_use]
pub fn allocated(one: &One<'_>) -> String {
    let node = one.node;
    tres(whole(node.cpus_used), node.memory_used, n_gpus(one, true), false)
}

fn tres(cpus: u64, memory: u64, n_gpus: usize, with_billing: bool) -> String {
    let mut parts = Vec::new();
    parts.extend((cpus > 0).then(|| format!("cpu={cpus}")));
    parts.extend((memory > 0).then(|| format!("mem={}M", memory >> 20)));
    parts.extend(with_billing.then(|| format!("billing={cpus}")));
    parts.extend((n_gpus > 0).then(|| format!("gres/gpu={n_gpus}")));
    parts.join(",")
}
