//! A cluster that tasks come to and leave, one after the other, placed by published rules. No job
//! runs: only the free parts of nodes are counted.
//!
//! Source: Weng et al., "Beware of Fragmentation: Scheduling GPU-Sharing Workloads with
//! Fragmentation Gradient Descent", USENIX ATC 2023, for the fragments and for [`Rule::Fgd`].

mod evacuate;
mod fgd;

use std::collections::{BTreeMap, BTreeSet};

use gpool_sched::fragmentation::{
    FreePart, Mix, Parts, Reserve, Rollout, RolloutRule, TaskDemand, splitmix,
};

pub use fgd::fragment;
use fgd::score;

/// The rule that chooses a node for a task among the nodes where it fits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    /// Any node.
    Random,
    /// The node with the least free capacity, then its fullest device.
    BestFit,
    /// The node whose fragment grows least.
    Fgd {
        /// As in [`RolloutRule`]; zero in the paper.
        margin: u64,
    },
    /// The node with the least idle capacity once it has been filled; nodes that tasks of several
    /// devices will need come last.
    Rollout(RolloutRule),
}

/// Number of a node, in the order of names.
pub type NodeNo = usize;

/// The place of a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placed {
    pub ask: TaskDemand,
    pub node: NodeNo,
    /// Its devices, by position on the node.
    pub devices: Vec<usize>,
}

/// A task that moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Move {
    pub task: u64,
    /// The node that it left.
    pub from: NodeNo,
    pub to: NodeNo,
}

/// A way to place a task on a node.
#[derive(Debug, Clone, Copy)]
struct Choice {
    /// The highest score wins.
    score: i64,
    /// The position of the first device that the task takes, in ascending order of their free
    /// parts.
    at: usize,
    /// Tasks of several devices that the node can no longer take, as bits.
    lost: u64,
}

/// A cluster, with the scores of all free parts that its nodes have had.
#[derive(Debug, Clone)]
pub struct Packer {
    rule: Rule,
    mix: Mix,
    rollout: Rollout,
    reserve: Reserve,
    chance: u64,
    nodes: Vec<Node>,
    /// Free thousandths of devices.
    idle: u64,
    parts: Parts,
    /// By number of the free part, the nodes.
    nodes_with: Vec<BTreeSet<NodeNo>>,
    /// Numbers of the free parts of present nodes, and by number its position in that list.
    live: Vec<usize>,
    live_at: Vec<usize>,
    asks: BTreeMap<TaskDemand, usize>,
    /// By number of the demand and of the free part: empty if it does not fit.
    choices: Vec<Vec<Option<Box<[Choice]>>>>,
    tasks: BTreeMap<u64, Placed>,
}

#[derive(Debug, Clone)]
struct Node {
    /// Number of its free part.
    left: usize,
    /// Free thousandths of each device, by position.
    free: Vec<u32>,
    tasks: BTreeSet<u64>,
}

impl Packer {
    /// Returns an empty cluster of these nodes, in the order of names. Only [`Rule::Random`] uses
    /// `seed`.
    #[must_use]
    pub fn new(nodes: &[FreePart], mix: &Mix, rule: Rule, seed: u64) -> Self {
        let of_rollout = match rule {
            Rule::Rollout(rule) => rule,
            Rule::Fgd { margin } => RolloutRule { margin, ..RolloutRule::default() },
            Rule::Random | Rule::BestFit => RolloutRule { margin: 0, ..RolloutRule::default() },
        };
        let mut capacity = Vec::<u64>::new();
        for node in nodes {
            let model = node.model as usize;
            capacity.resize(capacity.len().max(model + 1), 0);
            capacity[model] += node.gpus();
        }
        let mut packer = Self {
            rule,
            mix: mix.clone(),
            rollout: Rollout::new(&of_rollout, mix, &capacity),
            reserve: Reserve::new(mix, of_rollout.margin),
            chance: seed,
            nodes: Vec::with_capacity(nodes.len()),
            idle: 0,
            parts: Parts::default(),
            nodes_with: Vec::new(),
            live: Vec::new(),
            live_at: Vec::new(),
            asks: BTreeMap::new(),
            choices: Vec::new(),
            tasks: BTreeMap::new(),
        };
        for (no, node) in nodes.iter().enumerate() {
            let left = packer.number(node.clone());
            let free = node.free.clone();
            packer.nodes.push(Node { left, free, tasks: BTreeSet::new() });
            packer.idle += node.gpus();
            packer.reserve.change(0, packer.parts.hosts(left));
            packer.list(left, no);
        }
        packer
    }

    /// Returns the free thousandths of devices.
    #[must_use]
    pub fn idle(&self) -> u64 {
        self.idle
    }

    /// Returns the expected idle thousandths of devices that the next task can't use.
    #[must_use]
    pub fn fragment(&self) -> u64 {
        let of = |number: &usize| {
            fragment(self.parts.get(*number), &self.mix) * self.nodes_with[*number].len() as u64
        };
        self.live.iter().map(of).sum::<u64>() / 1_000_000
    }

    /// Returns the place of a task.
    #[must_use]
    pub fn task(&self, task: u64) -> Option<&Placed> {
        self.tasks.get(&task)
    }

    /// Places a task; `None` if it fits nowhere.
    pub fn place(&mut self, task: u64, ask: &TaskDemand) -> Option<NodeNo> {
        let (node, at) = self.choose(ask)?;
        self.put(task, ask, node, at);
        Some(node)
    }

    pub fn remove(&mut self, task: u64) -> Option<Placed> {
        let placed = self.tasks.remove(&task)?;
        let node = &mut self.nodes[placed.node];
        node.tasks.remove(&task);
        placed.devices.iter().for_each(|device| node.free[*device] += placed.ask.part);
        let mut left = self.parts.get(node.left).clone();
        left.cpus += placed.ask.cpus;
        left.memory += placed.ask.memory;
        left.free.clone_from(&node.free);
        left.free.sort_unstable();
        self.idle += placed.ask.gpus();
        self.change(placed.node, left);
        Some(placed)
    }

    fn left(&self, node: NodeNo) -> &FreePart {
        self.parts.get(self.nodes[node].left)
    }

    /// Puts a task back on the devices that it had.
    fn put_back(&mut self, task: u64, placed: Placed) {
        let node = &mut self.nodes[placed.node];
        placed.devices.iter().for_each(|device| node.free[*device] -= placed.ask.part);
        let mut left = self.parts.get(node.left).clone();
        left.cpus -= placed.ask.cpus;
        left.memory -= placed.ask.memory;
        left.free.clone_from(&node.free);
        left.free.sort_unstable();
        node.tasks.insert(task);
        self.idle -= placed.ask.gpus();
        self.change(placed.node, left);
        self.tasks.insert(task, placed);
    }

    /// Puts a task on a node, on its devices from a position on, in ascending order of their free
    /// parts.
    fn put(&mut self, task: u64, ask: &TaskDemand, node_no: NodeNo, at: usize) {
        let node = &mut self.nodes[node_no];
        let left = self.parts.get(node.left);
        let devices: Vec<usize> = match ask.n_gpus {
            0 => Vec::new(),
            n_gpus => {
                let wanted = left.free[at];
                let alike = (0..node.free.len()).filter(|ix| node.free[*ix] == wanted);
                alike.take(n_gpus as usize).collect()
            }
        };
        let after = left.after(ask, at);
        devices.iter().for_each(|device| node.free[*device] -= ask.part);
        node.tasks.insert(task);
        self.idle -= ask.gpus();
        self.change(node_no, after);
        self.tasks.insert(task, Placed { ask: *ask, node: node_no, devices });
    }

    /// The best node for a task, and the position of its first device.
    fn choose(&mut self, ask: &TaskDemand) -> Option<(NodeNo, usize)> {
        let ask_no = self.ask_no(ask);
        let scarce = self.reserve.scarce(self.idle);
        let scale = i64::try_from(self.rollout.n_sequences()).unwrap_or(i64::MAX);
        let mut n_ways = 0;
        let mut best: Option<(i64, NodeNo, usize)> = None;
        for live_ix in 0..self.live.len() {
            let number = self.live[live_ix];
            if self.choices[ask_no].len() <= number {
                self.choices[ask_no].resize(self.parts.len(), None);
            }
            if self.choices[ask_no][number].is_none() {
                self.choices[ask_no][number] = Some(self.ways(ask, number));
            }
            let Some(ways) = &self.choices[ask_no][number] else { continue };
            let nodes = &self.nodes_with[number];
            let Some(first) = nodes.first() else { continue };
            if self.rule == Rule::Random {
                if let Some(way) = ways.first() {
                    // Each node as likely as any other.
                    for node in nodes {
                        n_ways += 1;
                        if splitmix(&mut self.chance).is_multiple_of(n_ways) {
                            best = Some((0, *node, way.at));
                        }
                    }
                }
                continue;
            }
            for way in ways {
                let lost = self.reserve.penalty(way.lost & scarce);
                let penalty = i64::try_from(lost).unwrap_or(i64::MAX).saturating_mul(scale);
                let score = way.score.saturating_sub(penalty);
                if best
                    .is_none_or(|(most, node, _)| score > most || (score == most && *first < node))
                {
                    best = Some((score, *first, way.at));
                }
            }
        }
        best.map(|(_, node, at)| (node, at))
    }

    /// The ways to place a task on a node with that free part.
    fn ways(&mut self, ask: &TaskDemand, number: usize) -> Box<[Choice]> {
        let left = self.parts.get(number).clone();
        if !left.fits(ask) {
            return Box::default();
        }
        let mut ways = Vec::<Choice>::new();
        for at in left.choices(ask) {
            let after = left.after(ask, at);
            let score = self.score(&left, &after, ask);
            let lost = self.parts.hosts(number) & !self.reserve.hosts(&after);
            // The best of the ways that lose the same.
            match ways.iter_mut().find(|it| it.lost == lost) {
                Some(it) if it.score >= score => {}
                Some(it) => *it = Choice { score, at, lost },
                None => ways.push(Choice { score, at, lost }),
            }
        }
        ways.into()
    }

    fn score(&mut self, left: &FreePart, after: &FreePart, ask: &TaskDemand) -> i64 {
        let signed = |amount: u64| i64::try_from(amount).unwrap_or(i64::MAX);
        match self.rule {
            Rule::Random => 0,
            // The free capacity, as parts of 128 cores and of 8 devices.
            Rule::BestFit => -signed(left.cpus + 16 * left.gpus()),
            Rule::Fgd { .. } => {
                let [before, after] = [left, after].map(|it| signed(fragment(it, &self.mix)));
                score(after - before)
            }
            Rule::Rollout(_) => self.rollout.gain(left, after, ask),
        }
    }

    fn ask_no(&mut self, ask: &TaskDemand) -> usize {
        let next = self.asks.len();
        let no = *self.asks.entry(*ask).or_insert(next);
        if no == next {
            self.choices.push(Vec::new());
        }
        no
    }

    fn number(&mut self, mut left: FreePart) -> usize {
        left.free.sort_unstable();
        let number = self.parts.number(left, &self.reserve);
        self.nodes_with.resize_with(self.parts.len(), BTreeSet::new);
        self.live_at.resize(self.parts.len(), usize::MAX);
        number
    }

    fn change(&mut self, node: NodeNo, left: FreePart) {
        let (before, after) = (self.nodes[node].left, self.number(left));
        self.nodes[node].left = after;
        self.reserve.change(self.parts.hosts(before), self.parts.hosts(after));
        self.nodes_with[before].remove(&node);
        if self.nodes_with[before].is_empty() {
            let at = std::mem::replace(&mut self.live_at[before], usize::MAX);
            self.live.swap_remove(at);
            if let Some(moved) = self.live.get(at) {
                self.live_at[*moved] = at;
            }
        }
        self.list(after, node);
    }

    fn list(&mut self, number: usize, node: NodeNo) {
        if self.nodes_with[number].is_empty() {
            self.live_at[number] = self.live.len();
            self.live.push(number);
        }
        self.nodes_with[number].insert(node);
    }
}
