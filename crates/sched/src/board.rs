//! What is free while a plan is made: flat counters taken from the world and booked on as
//! decisions fall. A full node costs next to nothing: its devices are not looked at.

use std::collections::{BTreeMap, BTreeSet};

use gpool_model::plan::Fit;
use gpool_model::{Bytes, Decision, Device, GpuRequest, JobId, NodeName, Share};
use gpool_node::seating::Seat;
use gpool_world::{FreedOn, NodeIx, NodeRow, World};

use crate::packing::WHOLE;
use crate::place::Found;
use crate::room::Room;
use crate::usable::unusable;

/// All nodes in the order of their names.
pub(crate) struct Board<'a> {
    pub nodes: Vec<NodeBoard<'a>>,
    /// Positions of the nodes that take work by how many devices are free there, ascending.
    by_free: Vec<Vec<usize>>,
    /// One device of each kind that is free somewhere: all of a kind answer a request alike.
    kinds: Vec<&'a Device>,
    /// Positions by [`NodeIx`].
    by_ix: Vec<usize>,
}

/// One node.
pub(crate) struct NodeBoard<'a> {
    pub ix: NodeIx,
    pub row: &'a NodeRow,
    /// Beside devices.
    pub free: Room,
    /// Of how many devices may be given out whole, now.
    pub n_free: usize,
    /// By device position: may be given out whole, now. Empty where none was at first.
    is_free: Vec<bool>,
    /// By device position, of which kind; empty where none was free at first.
    kinds: Vec<usize>,
    /// What was booked of devices while the plan is made, by device position: by how many, and how
    /// much of its memory.
    booked: BTreeMap<usize, (usize, Bytes)>,
    /// How many devices have shares on them; none that a share could join if 0.
    n_shared: usize,
    /// Whether anything was booked while the plan is made.
    is_booked: bool,
}

/// How well each kind of device answers a request.
pub(crate) struct Answers {
    rank_by_kind: Vec<Option<usize>>,
    pub n_ranks: usize,
}

impl<'a> Board<'a> {
    pub fn new(world: &'a World) -> Self {
        let mut board = Self {
            nodes: Vec::with_capacity(world.nodes().len()),
            by_free: vec![Vec::new()],
            kinds: Vec::new(),
            by_ix: vec![0; world.nodes().len()],
        };
        for (board_ix, (ix, row)) in world.nodes_by_name().enumerate() {
            let node = board.node(ix, row);
            if row.node.takes_work() {
                board.list(node.n_free).push(board_ix);
            }
            board.by_ix[ix.0] = board_ix;
            board.nodes.push(node);
        }
        board
    }

    /// Where a node stands.
    pub fn position(&self, world: &World, node: &NodeName) -> Option<usize> {
        world.node_ix(node).map(|NodeIx(ix)| self.by_ix[ix])
    }

    /// Where an end frees something, by position, and how many devices.
    pub fn freed(&self, FreedOn { node: NodeIx(ix), n_devices }: FreedOn) -> (usize, usize) {
        (self.by_ix[ix], n_devices)
    }

    fn node(&mut self, ix: NodeIx, row: &'a NodeRow) -> NodeBoard<'a> {
        let mut node = NodeBoard {
            ix,
            row,
            free: Room::of(row),
            n_free: 0,
            is_free: Vec::new(),
            kinds: Vec::new(),
            booked: BTreeMap::new(),
            n_shared: row.n_shared,
            is_booked: false,
        };
        if row.n_whole > 0 {
            let is_free = |at| row.is_whole(at) && unusable(row, at).is_none();
            node.is_free = (0..row.node.devices.len()).map(is_free).collect();
            node.n_free = node.is_free.iter().filter(|free| **free).count();
            node.kinds = row.node.devices.iter().map(|device| self.kind_of(device)).collect();
        }
        node
    }

    fn kind_of(&mut self, device: &'a Device) -> usize {
        let alike = |it: &&Device| {
            (&it.model, it.memory, it.instance.is_some())
                == (&device.model, device.memory, device.instance.is_some())
        };
        self.kinds.iter().position(alike).unwrap_or_else(|| {
            self.kinds.push(device);
            self.kinds.len() - 1
        })
    }

    fn list(&mut self, n_free: usize) -> &mut Vec<usize> {
        if self.by_free.len() <= n_free {
            self.by_free.resize(n_free + 1, Vec::new());
        }
        &mut self.by_free[n_free]
    }

    /// Positions of nodes that take work with so many free devices or more: fewer free ones first,
    /// then by name.
    pub fn with_free(&self, n_least: usize) -> impl Iterator<Item = usize> {
        self.by_free.iter().skip(n_least).flatten().copied()
    }

    /// How many devices are free on the node that takes work and has most.
    pub fn most_free(&self) -> usize {
        self.by_free.iter().rposition(|nodes| !nodes.is_empty()).unwrap_or(0)
    }

    /// How well each kind that is free somewhere answers a request.
    pub fn answers(&self, gpus: &GpuRequest) -> Answers {
        let rank_by_kind = self.kinds.iter().map(|device| gpus.rank_of(device)).collect();
        Answers { rank_by_kind, n_ranks: gpus.models.len().max(1) }
    }

    /// Which of these decisions, by position, take back what holds a device of a place.
    pub fn frees(&self, decisions: &[Decision], found: &[Found]) -> Vec<u32> {
        let holders = found.iter().flat_map(|found| {
            let devices = &self.nodes[found.board_ix].row.devices;
            found.devices.iter().flat_map(|ix| &devices[*ix].holders).map(|task| task.job)
        });
        let holders: BTreeSet<JobId> = holders.collect();
        let frees = (0u32..).zip(decisions).filter_map(|(at, decision)| match decision {
            Decision::Evict { job, .. } if holders.contains(job) => Some(at),
            _ => None,
        });
        frees.collect()
    }

    pub fn book(&mut self, found: &Found, fit: &Fit) {
        let node = &mut self.nodes[found.board_ix];
        let before = node.n_free;
        for device_ix in &found.devices {
            node.book(*device_ix, fit.gpus.share());
        }
        let n_taken = before - node.n_free;
        node.free = node.free.less(found.room(fit));
        node.is_booked = true;
        if n_taken > 0 {
            let board_ix = found.board_ix;
            let at = |list: &[usize]| list.partition_point(|ix| *ix < board_ix);
            let (from, to) = (at(&self.by_free[before]), at(self.list(before - n_taken)));
            self.by_free[before].remove(from);
            self.by_free[before - n_taken].insert(to, board_ix);
        }
    }
}

impl NodeBoard<'_> {
    pub fn name(&self) -> &NodeName {
        &self.row.node.name
    }

    /// Whether work of that fit may start here at all, whatever is free.
    pub fn takes(&self, fit: &Fit) -> bool {
        self.row.node.takes_work() && fit.may_be_on(&self.row.node)
    }

    /// Adds to devices that are kept, ascending, those that work of a fit may not have since it is
    /// on others.
    pub fn close_others(&self, fit: &Fit, kept: &mut Vec<usize>) {
        if fit.at.is_empty() {
            return;
        }
        let node = &self.row.node;
        let devices = node.devices.iter().enumerate();
        let others = devices.filter(|(_, device)| !fit.may_have(node, &device.uuid));
        kept.extend(others.map(|(ix, _)| ix));
        kept.sort_unstable();
        kept.dedup();
    }

    /// Whether a device may be given out whole, now.
    pub fn is_free(&self, device_ix: usize) -> bool {
        self.is_free.get(device_ix).copied().unwrap_or(false)
    }

    /// Whether a job has a device, or a part of it.
    pub fn is_busy(&self, device_ix: usize) -> bool {
        !self.row.devices[device_ix].holders.is_empty() || self.booked.contains_key(&device_ix)
    }

    /// How many devices have shares on them.
    pub fn n_shared(&self) -> usize {
        self.n_shared
    }

    /// Whether a share could go anywhere here.
    pub fn takes_shares(&self) -> bool {
        self.n_free + self.n_shared > 0
    }

    /// How much of a device's memory a share may have, now.
    pub fn room(&self, device_ix: usize) -> Bytes {
        if unusable(self.row, device_ix).is_some() {
            return Bytes::ZERO;
        }
        let (_, booked) = self.booked.get(&device_ix).copied().unwrap_or_default();
        self.row.free_memory(device_ix).saturating_sub(booked)
    }

    /// The same in thousandths of it, for whoever can make do with a part.
    pub fn thousandths(&self, device_ix: usize) -> u32 {
        let memory = u128::from(self.row.node.devices[device_ix].memory.get().max(1));
        let part = u128::from(self.room(device_ix).get()) * u128::from(WHOLE) / memory;
        u32::try_from(part).unwrap_or(WHOLE)
    }

    /// Whether anything was booked here while the plan is made.
    pub fn is_booked(&self) -> bool {
        self.is_booked
    }

    /// How many hold or claim a device, or a part of it.
    pub fn n_holders(&self, device_ix: usize) -> usize {
        let (n_booked, _) = self.booked.get(&device_ix).copied().unwrap_or_default();
        self.row.devices[device_ix].holders.len() + n_booked
    }

    /// How much of a device's memory is not taken, by whomever; below zero where more is taken
    /// than there is.
    pub fn memory_left(&self, device_ix: usize) -> i128 {
        let left = self.row.devices[device_ix].memory;
        let (_, booked) = self.booked.get(&device_ix).copied().unwrap_or_default();
        i128::from(left.now.min(left.later)) - i128::from(booked.get())
    }

    /// How many devices have room for what a request asks of each, of one rank or of any; without
    /// those that are kept.
    pub fn n_with_room(
        &self,
        gpus: &GpuRequest,
        share: Share,
        rank: Option<usize>,
        kept: &[usize],
    ) -> usize {
        let devices = self.row.node.devices.iter().enumerate();
        let has_room = |(device_ix, device): &(usize, &Device)| {
            gpus.rank_of(device).is_some_and(|it| rank.is_none_or(|rank| rank == it))
                && share.memory_of(device.memory) <= self.room(*device_ix)
                && kept.binary_search(device_ix).is_err()
        };
        devices.filter(has_room).count()
    }

    fn book(&mut self, device_ix: usize, share: Option<Share>) {
        let memory = self.row.node.devices[device_ix].memory;
        let (n_holders, booked) = self.booked.entry(device_ix).or_default();
        let part = share.map_or(memory, |share| share.memory_of(memory));
        *n_holders += 1;
        *booked = booked.saturating_add(part);
        if self.is_free(device_ix) {
            self.is_free[device_ix] = false;
            self.n_free -= 1;
            self.n_shared += usize::from(share.is_some());
        }
    }

    /// The devices to choose from for a start at once, without those that are kept.
    pub fn seats(&self, kept: &[usize]) -> Vec<Seat<'_>> {
        let devices = self.row.node.devices.iter().enumerate();
        let seat = |(ix, device)| {
            let is_kept = kept.binary_search(&ix).is_ok();
            let room = if is_kept { Bytes::ZERO } else { self.room(ix) };
            let (is_free, is_busy) = (self.is_free(ix) && !is_kept, self.is_busy(ix));
            Seat { device, is_free, is_busy, room }
        };
        devices.map(seat).collect()
    }

    /// How many free devices answer with that rank and are not kept.
    pub fn n_free_beside(&self, answers: &Answers, rank: usize, kept: &[usize]) -> usize {
        let is_of = |ix: &usize| {
            let kind = self.kinds.get(*ix).copied();
            self.is_free(*ix) && kind.and_then(|kind| answers.rank_by_kind[kind]) == Some(rank)
        };
        let n_kept = kept.iter().copied().filter(is_of).count();
        self.n_free_of(answers, Some(rank)).saturating_sub(n_kept)
    }

    /// How many free devices answer with that rank, or with any.
    pub fn n_free_of(&self, answers: &Answers, rank: Option<usize>) -> usize {
        let devices = self.kinds.iter().zip(&self.is_free);
        let answer = |kind: &usize| answers.rank_by_kind[*kind];
        let counts = |kind| answer(kind).is_some_and(|it| rank.is_none_or(|rank| rank == it));
        devices.filter(|(kind, free)| **free && counts(kind)).count()
    }
}
