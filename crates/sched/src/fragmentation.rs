//! The score of a node for a job: how much of the node would stay idle once it has been filled with
//! expected tasks. The expected tasks have the demands of the present jobs.
//!
//! Nodes with the same free part share one [`Left`] and one score, however many nodes there are.
//! The scores follow from the world alone; keeping them from cycle to cycle only saves time.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use gpool_fragmentation::{Ask, Left, Mix, Reserve, Rollout, RolloutRule, WHOLE};
use gpool_model::plan::Fit;
use gpool_model::{Bytes, GpuRequest, Millis, ResourceKind, Shape, Share, StartBasis, Timestamp};
use gpool_world::{GpuClass, NodeIx, Snapshot, World};

use crate::capacity::{Capacity, NodeCapacity, n_devices_on_node};

/// The most different free parts that are compared for one job: more are hardly better.
const NODES_MAX: usize = 512;
/// After this many looks at nodes in one cycle, jobs go where the fewest devices are free.
const LOOKS_MAX: usize = 100_000;
/// The most free parts that are kept, and the most scores of each: tens of megabytes.
const KNOWN_MAX: usize = 16_384;
const KNOWN_OF_EACH_MAX: usize = 32;
/// Classes of GPUs have one bit each.
const CLASSES_MAX: usize = 64;

/// The expected tasks, and the scores of nodes.
#[derive(Debug, Clone, Default)]
pub(crate) struct Fragmentation {
    classes: Vec<Class>,
    /// The revision of the jobs that the expected tasks come from.
    n_changes_of_asks: Option<u64>,
    rollout: Rollout,
    reserve: Reserve,
    /// By [`NodeIx`]: the revision of the node, and the number of its free part then.
    on_nodes: Vec<Option<(u64, Option<usize>)>>,
    /// Free parts of nodes, by number.
    lefts: Vec<Left>,
    numbers: BTreeMap<Left, usize>,
    /// By number of the free part: tasks of several devices that fit there, as bits.
    hosts: Vec<u64>,
    /// Scores by demand, then by number of the free part.
    worths: BTreeMap<Ask, Vec<Option<Worth>>>,
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

/// The score of a free part for a demand.
#[derive(Debug, Clone, Copy)]
struct Worth {
    /// How much less stays idle.
    gain: i64,
    /// Tasks of several devices that no longer fit afterwards, as bits.
    lost: u64,
    /// Free thousandths of the device that a share goes to.
    of_device: u32,
}

/// The comparison of nodes for one job.
pub(crate) struct Look<'a> {
    fragmentation: &'a mut Fragmentation,
    snapshot: Snapshot<'a>,
    /// The job's latest end, if it has a time limit.
    ends_at: Option<Timestamp>,
    ask: Ask,
    worths: Vec<Option<Worth>>,
    scarce: u64,
    /// By number of the free part: whether a node with it was compared.
    is_compared: Vec<bool>,
    n_compared: usize,
}

impl Fragmentation {
    /// Begins a cycle.
    pub fn begin(&mut self) {
        self.scarce = None;
        self.n_looks = 0;
        let n_known = self.rollout.n_known().max(self.worths.len() * self.lefts.len());
        if self.lefts.len() > KNOWN_MAX || n_known > KNOWN_MAX * KNOWN_OF_EACH_MAX {
            self.forget_nodes();
        }
    }

    /// Begins the comparison of nodes for a job; `None` if all nodes have the same score.
    pub fn look<'a>(
        &'a mut self,
        snapshot: &Snapshot<'a>,
        capacity: &Capacity<'_>,
        shape: &Shape,
    ) -> Option<Look<'a>> {
        let fit = &shape.fit;
        if self.n_looks >= LOOKS_MAX || fit.gang.nodes > 1 || !fit.at.is_empty() {
            return None;
        }
        self.learn(snapshot.world);
        if self.rollout.is_blank() {
            return None;
        }
        let scarce = self.scarce.unwrap_or_else(|| self.count(capacity));
        self.scarce = Some(scarce);
        let ask = self.ask(fit);
        let worths = self.worths.remove(&ask).unwrap_or_default();
        Some(Look {
            fragmentation: self,
            snapshot: *snapshot,
            ends_at: shape.takes.map(|length| snapshot.now.after(length)),
            ask,
            worths,
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
            self.forget_nodes();
            self.classes = classes(world);
        }
        self.n_changes_of_asks = Some(world.n_changes_of_asks());
        let capacity = self.classes.iter().map(|it| it.n_gpus * u64::from(WHOLE));
        let capacity: Vec<u64> = capacity.collect();
        let mix = Mix::of_counts(world.asks().map(|(fit, n)| (self.ask(fit), n)), &capacity);
        let rule = RolloutRule::of_present_jobs();
        let before = std::mem::take(&mut self.rollout);
        self.rollout = Rollout::new(&rule, &mix, &capacity).knowing_of(before);
        self.reserve = Reserve::new(&mix, rule.margin);
        self.hosts = self.lefts.iter().map(|left| self.reserve.hosts(left)).collect();
        self.worths.clear();
        self.scarce = None;
    }

    fn forget_nodes(&mut self) {
        self.on_nodes.clear();
        self.lefts.clear();
        self.numbers.clear();
        self.hosts.clear();
        self.worths.clear();
        self.rollout.forget();
    }

    /// The demand of all tasks of a job on one node together.
    fn ask(&self, fit: &Fit) -> Ask {
        let serves = |(_, it): &(usize, &Class)| it.class.serves(fit);
        let serving = || self.classes.iter().enumerate().filter(serves);
        let memory = serving().next().map_or(Bytes::ZERO, |(_, it)| it.memory);
        Ask {
            cpus: fit.cpus.get().saturating_mul(u64::from(fit.gang.tasks_per_node)),
            memory: 0,
            n_gpus: u32::try_from(n_devices_on_node(fit)).unwrap_or(u32::MAX),
            part: part(&fit.gpus, memory),
            models: serving().fold(0, |bits, (ix, _)| bits | 1 << ix),
        }
    }

    /// The tasks of several devices that so few nodes can take that none of these should be lost.
    fn count(&mut self, capacity: &Capacity<'_>) -> u64 {
        self.reserve.clear();
        let mut idle = 0;
        for node_pos in capacity.with_free(0) {
            if let Some(number) = self.number_of(&capacity.nodes[node_pos]) {
                idle += self.lefts[number].gpus();
                self.reserve.change(0, self.hosts[number]);
            }
        }
        self.reserve.scarce(idle)
    }

    /// The number of a node's free part; `None` if its GPUs are not all of one class.
    fn number_of(&mut self, node: &NodeCapacity<'_>) -> Option<usize> {
        let NodeIx(ix) = node.ix;
        if node.is_booked {
            return self.left(node).map(|left| self.number(left));
        }
        if self.on_nodes.len() <= ix {
            self.on_nodes.resize(ix + 1, None);
        }
        let n_changes = node.row.n_changes;
        if let Some((_, number)) = self.on_nodes[ix].filter(|(known, _)| *known == n_changes) {
            return number;
        }
        let number = self.left(node).map(|left| self.number(left));
        self.on_nodes[ix] = Some((n_changes, number));
        number
    }

    fn left(&self, node: &NodeCapacity<'_>) -> Option<Left> {
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
        Some(Left { model, cpus: node.free.get(&ResourceKind::Cpu), memory: 0, free }.rounded())
    }

    fn number(&mut self, left: Left) -> usize {
        if let Some(number) = self.numbers.get(&left) {
            return *number;
        }
        let number = self.lefts.len();
        self.hosts.push(self.reserve.hosts(&left));
        self.lefts.push(left.clone());
        self.numbers.insert(left, number);
        number
    }

    fn worth(&mut self, number: usize, ask: &Ask) -> Worth {
        let left = &self.lefts[number];
        // The free part was rounded down, so the task may fit nevertheless.
        let most = Left { cpus: left.cpus.max(ask.cpus), ..left.clone() };
        if !most.fits_but_memory(ask) {
            return Worth { gain: i64::MIN, lost: 0, of_device: 0 };
        }
        let worth = |at: usize| {
            let after = most.after(ask, at).rounded();
            let gain = self.rollout.gain(left, &after, ask);
            let lost = self.hosts[number] & !self.reserve.hosts(&after);
            Worth { gain, lost, of_device: most.free.get(at).copied().unwrap_or(0) }
        };
        let key = |it: &Worth| (Reverse(self.reserve.penalty(it.lost)), it.gain);
        // The first of equal devices is the fullest.
        let best = most
            .choices(ask)
            .map(worth)
            .reduce(|best, it| if key(&it) > key(&best) { it } else { best });
        best.unwrap_or(Worth { gain: i64::MIN, lost: 0, of_device: 0 })
    }
}

impl Look<'_> {
    /// Returns the score of a node; `None` if another node with the same free part was compared.
    pub fn at(&mut self, node: &NodeCapacity<'_>) -> Option<i64> {
        self.fragmentation.n_looks += 1;
        // A node with several classes of GPUs is like no other.
        let Some(number) = self.fragmentation.number_of(node) else { return Some(0) };
        if self.is_compared.get(number).copied().unwrap_or(false) {
            return None;
        }
        if self.worths.len() <= number {
            self.worths.resize(self.fragmentation.lefts.len(), None);
        }
        let known = self.worths[number];
        let worth = known.unwrap_or_else(|| self.fragmentation.worth(number, &self.ask));
        self.worths[number] = Some(worth);
        Some(self.balance(worth))
    }

    /// The gain, less the cost of tasks that fit on few nodes and no longer fit on this one.
    fn balance(&self, worth: Worth) -> i64 {
        let penalty = self.fragmentation.reserve.penalty(worth.lost & self.scarce);
        let penalty = penalty.saturating_mul(self.fragmentation.rollout.n_sequences());
        worth.gain.saturating_sub(i64::try_from(penalty).unwrap_or(i64::MAX))
    }

    /// Returns the score of a node, if it or a node with the same free part was compared.
    pub fn known(&mut self, node: &NodeCapacity<'_>) -> Option<i64> {
        let Some(number) = self.fragmentation.number_of(node) else { return Some(0) };
        let is_compared = self.is_compared.get(number).copied().unwrap_or(false);
        let worth = self.worths.get(number).copied().flatten().filter(|_| is_compared);
        worth.map(|worth| self.balance(worth))
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
    pub fn compared(&mut self, node: &NodeCapacity<'_>) {
        self.n_compared += 1;
        if let Some(number) = self.fragmentation.number_of(node) {
            self.is_compared.resize(self.is_compared.len().max(number + 1), false);
            self.is_compared[number] = true;
        }
    }

    /// Returns the free thousandths of the device that a share should go to on a node.
    pub fn device_for_share(&mut self, node: &NodeCapacity<'_>) -> Option<u32> {
        // Several shares go where they fit best.
        let is_one = self.ask.is_share() && self.ask.n_gpus == 1;
        let number = self.fragmentation.number_of(node).filter(|_| is_one)?;
        self.worths.get(number).copied().flatten().map(|worth| worth.of_device)
    }

    /// Whether enough nodes were compared.
    pub fn is_enough(&self) -> bool {
        self.n_compared >= NODES_MAX
    }

    /// Keeps the scores.
    pub fn end(self) {
        self.fragmentation.worths.insert(self.ask, self.worths);
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
