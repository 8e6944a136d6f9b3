//! The score of a node for a job: how much of the node would stay idle once it has been filled with
//! expected tasks. The expected tasks have the demands of the present jobs.
//!
//! Nodes with the same free part share one [`FreePart`] and one score, however many nodes there
//! are. The scores follow from the world alone; keeping them from cycle to cycle only saves time.

use std::collections::BTreeMap;

use gpool_model::plan::Fit;
use gpool_model::{Bytes, GpuRequest, Millis, ResourceKind, Shape, Share, StartBasis, Timestamp};
use gpool_world::{GpuClass, NodeIx, Snapshot, World};

use crate::capacity::{Capacity, NodeCapacity, n_devices_on_node};
use crate::fragmentation::{FreePart, Mix, RolloutRule, Scores, TaskDemand, WHOLE};

/// The most different free parts that are compared for one job: more are hardly better.
const NODES_MAX: usize = 512;
/// After this many looks at nodes in one cycle, jobs go where the fewest devices are free.
const LOOKS_MAX: usize = 100_000;
/// Classes of GPUs have one bit each.
const CLASSES_MAX: usize = 64;

/// The expected tasks, and the scores of nodes.
#[derive(Debug, Clone, Default)]
pub(crate) struct Fragmentation {
    classes: Vec<Class>,
    /// The revision of the jobs that the expected tasks come from.
    n_changes_of_asks: Option<u64>,
    scores: Scores,
    /// By [`NodeIx`]: the revision of the node, and the number of its free part then.
    on_nodes: Vec<Option<(u64, Option<usize>)>>,
    /// Tasks of several devices that few nodes can take at the beginning of this cycle, as bits.
    scarce: Option<u64>,
    n_looks: usize,
}

/// GPUs of one model in one pool.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Class {
    class: GpuClass,
    n_gpus: u64,
    /// Memory of each GPU.
    memory: Bytes,
}

/// The comparison of nodes for one job.
pub(crate) struct NodeComparison<'a> {
    fragmentation: &'a mut Fragmentation,
    snapshot: Snapshot<'a>,
    /// The job's latest end, if it has a time limit.
    ends_at: Option<Timestamp>,
    ask: TaskDemand,
    ask_no: usize,
    scarce: u64,
    /// By number of the free part: whether a node with it was compared.
    is_compared: Vec<bool>,
    n_compared: usize,
}

impl Fragmentation {
    pub fn begin(&mut self) {
        self.scarce = None;
        self.n_looks = 0;
        if self.scores.is_full() {
            self.forget();
        }
    }

    /// Whether nodes differ for a job: it takes one node, and any.
    pub fn has_scores_for(fit: &Fit) -> bool {
        fit.gang.nodes == 1 && fit.at.is_empty()
    }

    /// Begins the comparison of nodes for a job; `None` if all nodes have the same score.
    pub fn look<'a>(
        &'a mut self,
        snapshot: &Snapshot<'a>,
        capacity: &Capacity<'_>,
        shape: &Shape,
    ) -> Option<NodeComparison<'a>> {
        let fit = &shape.fit;
        if self.n_looks >= LOOKS_MAX || !Self::has_scores_for(fit) {
            return None;
        }
        self.learn(snapshot.world);
        if self.scores.is_blank() {
            return None;
        }
        let scarce = self.scarce.unwrap_or_else(|| self.count(capacity));
        self.scarce = Some(scarce);
        let ask = self.ask(fit);
        Some(NodeComparison {
            ask_no: self.scores.ask_no(ask),
            fragmentation: self,
            snapshot: *snapshot,
            ends_at: shape.takes.map(|length| snapshot.now.after(length)),
            ask,
            scarce,
            is_compared: Vec::new(),
            n_compared: 0,
        })
    }

    /// Takes the expected tasks from the present jobs, if their demands have changed.
    fn learn(&mut self, world: &World) {
        let is_same = {
            let known = self.classes.iter().map(|it| (&it.class, it.n_gpus));
            known.eq(world.n_gpus_by_class().take(CLASSES_MAX))
        };
        if is_same && self.n_changes_of_asks == Some(world.n_changes_of_asks()) {
            return;
        }
        if !is_same {
            self.forget();
            self.classes = classes(world);
        }
        self.n_changes_of_asks = Some(world.n_changes_of_asks());
        let capacity = self.classes.iter().map(|it| it.n_gpus * u64::from(WHOLE));
        let capacity: Vec<u64> = capacity.collect();
        let mix = Mix::of_counts(world.asks().map(|(fit, n)| (self.ask(fit), n)), &capacity);
        self.scores.expect(&RolloutRule::of_present_jobs(), &mix, &capacity);
        self.scarce = None;
    }

    fn forget(&mut self) {
        self.on_nodes.clear();
        self.scores.forget();
    }

    /// The demand of all tasks of a job on one node together.
    fn ask(&self, fit: &Fit) -> TaskDemand {
        let serves = |(_, it): &(usize, &Class)| it.class.serves(fit);
        let serving = || self.classes.iter().enumerate().filter(serves);
        let memory = serving().next().map_or(Bytes::ZERO, |(_, it)| it.memory);
        TaskDemand {
            cpus: fit.cpus.get().saturating_mul(u64::from(fit.gang.tasks_per_node)),
            memory: 0,
            n_gpus: u32::try_from(n_devices_on_node(fit)).unwrap_or(u32::MAX),
            part: part(&fit.gpus, memory),
            models: serving().fold(0, |bits, (ix, _)| bits | 1 << ix),
        }
    }

    /// The tasks of several devices that so few nodes can take that none of these should be lost.
    fn count(&mut self, capacity: &Capacity<'_>) -> u64 {
        let nodes = capacity.with_free(0);
        let nodes: Vec<usize> =
            nodes.filter_map(|node_pos| self.number_of(&capacity.nodes[node_pos])).collect();
        self.scores.scarce(&nodes)
    }

    /// The number of a node's free part; `None` if its GPUs are not all of one class.
    fn number_of(&mut self, node: &NodeCapacity<'_>) -> Option<usize> {
        let (NodeIx(ix), n_changes) = (node.ix, node.row.n_changes);
        if self.on_nodes.len() <= ix {
            self.on_nodes.resize(ix + 1, None);
        }
        let known = self.on_nodes[ix].filter(|(known, _)| *known == n_changes && !node.is_booked);
        if let Some((_, number)) = known {
            return number;
        }
        let number = self.free_part(node).map(|left| self.scores.number(left));
        if !node.is_booked {
            self.on_nodes[ix] = Some((n_changes, number));
        }
        number
    }

    fn free_part(&self, node: &NodeCapacity<'_>) -> Option<FreePart> {
        let (pool, devices) = (&node.row.node.pool, &node.row.node.devices);
        let model = match devices.split_first() {
            None => 0,
            Some((first, rest)) => {
                let is_alike = rest.iter().all(|it| it.model == first.model);
                let is_of = |it: &Class| it.class.model == first.model && it.class.pool == *pool;
                self.classes.iter().position(is_of).filter(|_| is_alike)?
            }
        };
        let mut free: Vec<u32> = (0..devices.len()).map(|ix| node.thousandths(ix)).collect();
        free.sort_unstable();
        let model = u32::try_from(model).unwrap_or(u32::MAX);
        Some(FreePart { model, cpus: node.free.get(&ResourceKind::Cpu), memory: 0, free }.rounded())
    }
}

impl NodeComparison<'_> {
    /// Returns the score of a node; `None` if another node with the same free part was compared.
    pub fn at(&mut self, node: &NodeCapacity<'_>) -> Option<i64> {
        self.fragmentation.n_looks += 1;
        // A node with several classes of GPUs is like no other.
        let Some(number) = self.fragmentation.number_of(node) else { return Some(0) };
        if self.is_compared.get(number).copied().unwrap_or(false) {
            return None;
        }
        Some(self.score(number))
    }

    fn score(&mut self, number: usize) -> i64 {
        let scores = &mut self.fragmentation.scores;
        let worth = scores.worth(&self.ask, self.ask_no, number);
        scores.balance(worth, self.scarce)
    }

    /// Returns the score of a node, if it or a node with the same free part was compared.
    pub fn cached_score(&mut self, node: &NodeCapacity<'_>) -> Option<i64> {
        let Some(number) = self.fragmentation.number_of(node) else { return Some(0) };
        let is_compared = self.is_compared.get(number).copied().unwrap_or(false);
        is_compared.then(|| self.score(number))
    }

    /// Returns by how much the job delays the last end on a node, by the time limits of the jobs
    /// there; not at all without a time limit of its own.
    ///
    /// Source: placing long jobs next to long jobs, so that whole machines become free, is Barbalho
    /// et al., "Virtual Machine Allocation with Lifetime Predictions", MLSys 2023.
    pub fn lengthens(&mut self, node: &NodeCapacity<'_>) -> Millis {
        let Some(ends_at) = self.ends_at else { return Millis::ZERO };
        self.fragmentation.n_looks += 1;
        let Snapshot { world, now } = self.snapshot;
        let mut last = now;
        for row in node.row.here.iter().filter_map(|task| world.job(task.job)) {
            match world.expected_end(row, now).filter(|end| end.basis == StartBasis::Limit) {
                Some(end) => last = last.max(end.at),
                // Without a time limit it may stay forever.
                None => return Millis::ZERO,
            }
        }
        // Lengths of jobs are rounded up.
        ends_at.since(last.after(Shape::STEP))
    }

    /// Notes that a node was compared: the job fits there, or its score is no better than the best.
    /// Returns whether enough nodes were compared.
    pub fn compared(&mut self, node: &NodeCapacity<'_>) -> bool {
        self.n_compared += 1;
        if let Some(number) = self.fragmentation.number_of(node) {
            self.is_compared.resize(self.is_compared.len().max(number + 1), false);
            self.is_compared[number] = true;
        }
        self.n_compared >= NODES_MAX
    }

    /// Returns the free thousandths of the device that a share should go to on a node.
    pub fn device_for_share(&mut self, node: &NodeCapacity<'_>) -> Option<u32> {
        // Several shares go where they fit best.
        let is_one = self.ask.is_share() && self.ask.n_gpus == 1;
        let number = self.fragmentation.number_of(node).filter(|_| is_one)?;
        Some(self.fragmentation.scores.worth(&self.ask, self.ask_no, number).of_device)
    }
}

/// All classes of GPUs, with the memory of the first GPU of each.
fn classes(world: &World) -> Vec<Class> {
    let mut memory = BTreeMap::new();
    for (_, row) in world.nodes_by_name() {
        for device in &row.node.devices {
            memory.entry((&row.node.pool, &device.model)).or_insert(device.memory);
        }
    }
    let class = |(class, n_gpus): (&GpuClass, u64)| Class {
        class: class.clone(),
        n_gpus,
        memory: memory.get(&(&class.pool, &class.model)).copied().unwrap_or_default(),
    };
    world.n_gpus_by_class().take(CLASSES_MAX).map(class).collect()
}

/// The demand in thousandths of a device with that much memory.
fn part(gpus: &GpuRequest, memory: Bytes) -> u32 {
    let part = match gpus.share() {
        None => u64::from(WHOLE),
        Some(Share::Part { request, .. }) => request.get(),
        Some(Share::Memory { request, .. }) => {
            let thousandths = u128::from(request.get()) * u128::from(WHOLE);
            let part = thousandths.div_ceil(u128::from(memory.get().max(1)));
            u64::try_from(part).unwrap_or(u64::MAX)
        }
    };
    u32::try_from(part).unwrap_or(WHOLE).min(WHOLE)
}
