//! What is likely to come, and how much of a node would stay idle by then: so that a job goes where
//! it leaves most that is of use. What comes is taken to ask what those ask who are there.
//!
//! All of it follows from the world as it is; what is kept from cycle to cycle only saves time.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use gpool_model::plan::Fit;
use gpool_model::{Bytes, GpuRequest, Millis, Shape, Share, StartBasis, Timestamp};
use gpool_world::{GpuClass, NodeIx, Snapshot, World};

use crate::capacity::{Capacity, NodeCapacity, n_devices_on_node};
use crate::packing::{Ask, Left, Mix, Reserve, Rollout, RolloutRule, WHOLE};

/// So many different nodes are compared for one job: of more, the next are hardly better.
const NODES_MAX: usize = 512;
/// After so many looks at nodes in one cycle, jobs go where fewest devices are free.
const LOOKS_MAX: usize = 100_000;
/// So many different nodes are known at most, and so much of each: tens of megabytes.
const KNOWN_MAX: usize = 16_384;
const KNOWN_OF_EACH_MAX: usize = 32;
/// Classes of GPUs are told apart by one bit each.
const CLASSES_MAX: usize = 64;

/// What comes, and what is known of nodes.
#[derive(Debug, Clone, Default)]
pub(crate) struct Fragmentation {
    classes: Vec<Class>,
    /// Which jobs it was made of.
    n_changes_of_asks: Option<u64>,
    rollout: Rollout,
    reserve: Reserve,
    /// By [`NodeIx`].
    on_nodes: Vec<OnNode>,
    /// What may be left of a node, by number.
    lefts: Vec<Left>,
    numbers: BTreeMap<Left, usize>,
    /// By number of what is left: tasks of several devices for which that is enough, as bits.
    hosts: Vec<u64>,
    /// By number of what is left, of those that were asked for.
    worths: BTreeMap<Ask, Vec<Option<Worth>>>,
    /// Tasks of several devices that can go to few nodes, as this cycle began.
    scarce: Option<u64>,
    n_looks: usize,
}

/// GPUs that are told apart.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Class {
    class: GpuClass,
    n_gpus: u64,
    /// Of each of them.
    memory: Bytes,
}

/// What is left of a node.
#[derive(Debug, Clone, Copy)]
struct OnNode {
    /// When it had changed so many times.
    n_changes: u64,
    /// `None` if its GPUs are not all of one class.
    number: Option<u32>,
}

impl OnNode {
    const UNKNOWN: Self = Self { n_changes: u64::MAX, number: None };
}

/// What it is worth that a task goes where so much is left.
#[derive(Debug, Clone, Copy)]
struct Worth {
    /// How much less stays idle; the more, the better.
    gain: i64,
    /// Tasks of several devices for which it is not enough any more, as bits.
    lost: u64,
    /// Thousandths that are left of the device that it has its share of.
    of_device: u32,
}

/// A look for the best node for one job.
pub(crate) struct Look<'a> {
    fragmentation: &'a mut Fragmentation,
    snapshot: Snapshot<'a>,
    /// When the job will have ended, if it has a time limit.
    ends_at: Option<Timestamp>,
    ask: Ask,
    worths: Vec<Option<Worth>>,
    scarce: u64,
    /// By number of what is left: nodes of which that is were compared.
    is_compared: Vec<bool>,
    n_compared: usize,
}

impl Fragmentation {
    /// Another cycle begins.
    pub fn begin(&mut self) {
        self.scarce = None;
        self.n_looks = 0;
        let n_known = self.rollout.n_known().max(self.worths.len() * self.lefts.len());
        if self.lefts.len() > KNOWN_MAX || n_known > KNOWN_MAX * KNOWN_OF_EACH_MAX {
            self.forget_nodes();
        }
    }

    /// A look for a job that starts on one node; `None` where any will do.
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

    /// Takes what comes from those who are there, if they ask anything else than before.
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
        let rule = RolloutRule::of_who_is_there();
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

    /// What all tasks of a job ask of one node together.
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

    /// Which tasks of several devices can go to so few nodes that none should be lost.
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

    /// The number of what is left of a node; `None` if its GPUs are not all of one class.
    fn number_of(&mut self, node: &NodeCapacity<'_>) -> Option<usize> {
        let NodeIx(ix) = node.ix;
        if node.is_booked() {
            return self.left(node).map(|left| self.number(left));
        }
        if self.on_nodes.len() <= ix {
            self.on_nodes.resize(ix + 1, OnNode::UNKNOWN);
        }
        let n_changes = node.row.n_changes;
        if self.on_nodes[ix].n_changes != n_changes {
            let number = self.left(node).map(|left| self.number(left));
            let number = number.and_then(|number| u32::try_from(number).ok());
            self.on_nodes[ix] = OnNode { n_changes, number };
        }
        self.on_nodes[ix].number.map(|number| number as usize)
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
        Some(Left { model, cpus: node.free.cpus(), memory: 0, free }.rounded())
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
        // What is left was rounded down: there may be room for it yet.
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
        // Of devices that are as good the first, on which least is left.
        let ways = most.choices(ask).map(worth);
        let best = ways.reduce(|best, it| if key(&it) > key(&best) { it } else { best });
        best.unwrap_or(Worth { gain: i64::MIN, lost: 0, of_device: 0 })
    }
}

impl Look<'_> {
    /// What a node is worth; `None` if another was compared of which as much is left.
    pub fn at(&mut self, node: &NodeCapacity<'_>) -> Option<i64> {
        self.fragmentation.n_looks += 1;
        // What differs in itself differs from all others.
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

    /// What it gains less what it costs that tasks are lost for which few nodes are left.
    fn balance(&self, worth: Worth) -> i64 {
        let penalty = self.fragmentation.reserve.penalty(worth.lost & self.scarce);
        let penalty = penalty.saturating_mul(self.fragmentation.rollout.n_sequences());
        worth.gain.saturating_sub(i64::try_from(penalty).unwrap_or(i64::MAX))
    }

    /// What a node is worth, if by this look one was compared of which as much is left.
    pub fn known(&mut self, node: &NodeCapacity<'_>) -> Option<i64> {
        let Some(number) = self.fragmentation.number_of(node) else { return Some(0) };
        let is_compared = self.is_compared.get(number).copied().unwrap_or(false);
        let worth = self.worths.get(number).copied().flatten().filter(|_| is_compared);
        worth.map(|worth| self.balance(worth))
    }

    /// Whether it matters who ends when on a node.
    pub fn has_end(&self) -> bool {
        self.ends_at.is_some()
    }

    /// For how much longer a node has work if the job goes there, by the time limits of those who
    /// are there.
    ///
    /// Source: that long work goes beside long work, so that whole machines come free, is Barbalho
    /// et al., "Virtual Machine Allocation with Lifetime Predictions", MLSys 2023.
    pub fn lengthens(&mut self, node: &NodeCapacity<'_>) -> Millis {
        self.fragmentation.n_looks += 1;
        let Some(ends_at) = self.ends_at else { return Millis::ZERO };
        let Snapshot { world, now } = self.snapshot;
        let mut last = now;
        for row in node.row.here.iter().filter_map(|task| world.job(task.job)) {
            match world.expected_end(row, now).filter(|end| end.basis == StartBasis::Limit) {
                Some(end) => last = last.max(end.at),
                // It stays for ever, for all that is known.
                None => return Millis::ZERO,
            }
        }
        // What jobs take is rounded up.
        ends_at.since(last.after(Shape::STEP))
    }

    /// A node has room, or is worth no more than one that has.
    pub fn compared(&mut self, node: &NodeCapacity<'_>) {
        self.n_compared += 1;
        if let Some(number) = self.fragmentation.number_of(node) {
            self.is_compared.resize(self.is_compared.len().max(number + 1), false);
            self.is_compared[number] = true;
        }
    }

    /// Of which device of a node a task has its share: one of which so many thousandths are left.
    pub fn device_for_share(&mut self, node: &NodeCapacity<'_>) -> Option<u32> {
        // Several go where they fit best.
        let is_one = self.ask.is_share() && self.ask.n_gpus == 1;
        let number = self.fragmentation.number_of(node).filter(|_| is_one)?;
        self.worths.get(number).copied().flatten().map(|worth| worth.of_device)
    }

    /// Whether enough nodes were compared.
    pub fn is_enough(&self) -> bool {
        self.n_compared >= NODES_MAX
    }

    /// Keeps what was worked out.
    pub fn end(self) {
        self.fragmentation.worths.insert(self.ask, self.worths);
    }
}

/// All classes, with the memory of the first GPU of each.
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

/// Thousandths of each device that are asked for, where a device has that much memory.
fn part(gpus: &GpuRequest, memory: Bytes) -> u32 {
    let part = match gpus.share() {
        None => u64::from(WHOLE),
        Some(Share::Part(milli)) => milli.get(),
        Some(Share::Memory(asked)) => {
            let thousandths = u128::from(asked.get()) * u128::from(WHOLE);
            let part = thousandths.div_ceil(u128::from(memory.get().max(1)));
            u64::try_from(part).unwrap_or(u64::MAX)
        }
    };
    u32::try_from(part).unwrap_or(WHOLE).min(WHOLE)
}
