//! Checks what reasons say about nodes and devices: what is not free, or does not exist at all.

use gpool_model::plan::Fit;
use gpool_model::{Bytes, Device, Drain, GpuAmount, JobId, Node, NodeName, Reason, ResourceKind};
use gpool_world::World;

use crate::course::{kinds, most_on};
use crate::job::{has_value, values};
use crate::tally::{
    NodeTally, Tally, capacity, devices_on_node, drain_of, has_at, is_at, is_of, on_node,
};

/// The two states between which the scheduler considered a job.
pub(super) struct Moment<'a> {
    pub world: &'a World,
    pub fit: &'a Fit,
    pub before: &'a Tally<'a>,
    pub after: &'a Tally<'a>,
}

impl Moment<'_> {
    /// Whether the reason is right about what is not free or does not exist.
    pub fn is_true(&self, reason: &Reason) -> bool {
        match reason {
            Reason::GpusNotFree { need, free, of_instances } => {
                self.lacks_gpus(*need, *free, *of_instances)
            }
            Reason::GpusNotFreeTogether { need, free, node, of_instances } => {
                self.lacks_gpus_together(*need, *free, node, *of_instances)
            }
            Reason::NodesNotFree { need, free, able, within } => {
                !self.fit.gang.anywhere && self.lacks_in(within.as_deref(), (*need, *free, *able))
            }
            Reason::TasksNotFree { need, free, able, within } => {
                self.fit.gang.anywhere && self.lacks_in(within.as_deref(), (*need, *free, *able))
            }
            Reason::PausedOn { node, indexes, free } => self.is_paused_on(node, indexes, *free),
            Reason::PausedOnMissing { node, .. } => {
                let row = self.world.node(node);
                row.and_then(|row| self.fit.out_of_service(&row.node)).as_ref() == Some(reason)
            }
            Reason::GpuShareNotFree { need, share, free, node, largest } => {
                self.fit.gpus.share() == Some(*share)
                    && self.lacks_share(*need, *free, node, *largest)
            }
            Reason::ShareNotAllowed { need, free, node, job, .. } => {
                self.has_strangers(*need, *free, node, *job)
            }
            Reason::GpuModelMissing { asked: gpus, most } => {
                let all = self.usable().map(|node| node.most_of_a_kind(gpus, |_| true));
                *gpus == self.fit.gpus
                    && *most < self.n_devices_on_node()
                    && all.max() == Some(*most)
            }
            Reason::GpuMemoryTooSmall { need, largest } => {
                let devices = self.usable().flat_map(|node| &node.node.devices);
                self.fit.gpus.memory_needed() == Some(*need)
                    && largest < need
                    && devices.map(|device| device.memory).max().unwrap_or_default() == *largest
            }
            Reason::CpuOrMemShort { kind, need, free, node } => {
                self.lacks_rest(kind, *need, *free, node)
            }
            Reason::SlotsKeptForGpus { node, need, free, most, slots } => {
                self.slots_of_plain_tasks(node) == Some((*most, *slots))
                    && *need == on_node(self.fit).get(&ResourceKind::PlainTasks)
                    && self.has_less(&ResourceKind::PlainTasks, *need, *free, node)
            }
            Reason::NodeOccupied { node, exclusive } => {
                *exclusive == self.fit.is_exclusive()
                    && self.at(node, |_, after| after.is_occupied(None, *exclusive, false))
            }
            Reason::AgentUnreachable { node, .. } => self.is_unreachable(node),
            Reason::NoEngine | Reason::NodeLacks { .. } => self.lacks_something(reason),
            Reason::OnlyInPool { pool, n_nodes } => {
                let mut nodes = self.before.nodes.values();
                let nobody = !nodes.any(|node| is_of(node.node, Some(pool), None));
                self.fit.pool.as_ref() == Some(pool) && *n_nodes == 0 && nobody
            }
            Reason::OnlyOnNodes { nodes, n_nodes, n_left_out, .. } => {
                self.fit.nodes.as_ref() == Some(nodes)
                    && *n_nodes == 0
                    && self.leaves_out_all(*n_left_out)
            }
            Reason::NodeDrained { node, index, by, reason } => {
                let is_so = |drain: &Drain| drain.by == *by && drain.reason == *reason;
                self.is_drained(node, *index, is_so)
            }
            // Reasons of single jobs and secondary reasons do not belong to a shape.
            _ => false,
        }
    }

    /// Whether nodes lack something besides capacity that the work needs.
    fn lacks_something(&self, reason: &Reason) -> bool {
        let mut nodes = self.before.nodes.values();
        match reason {
            Reason::NoEngine => {
                self.fit.in_container && nodes.all(|node| node.node.facts.engine.is_none())
            }
            Reason::NodeLacks { lack, held_since: None } => {
                self.fit.lacking_nodes.contains(lack) && !nodes.any(|node| self.may_use(node))
            }
            _ => false,
        }
    }

    /// How many devices the work asks of one node.
    fn n_devices_on_node(&self) -> u32 {
        u32::try_from(devices_on_node(self.fit)).unwrap_or(u32::MAX)
    }

    /// Whether the work asks for instances.
    fn asks_instances(&self) -> bool {
        matches!(self.fit.gpus.amount, GpuAmount::Instances { .. })
    }

    /// Whether a node is connected and the work may use it.
    fn may_use(&self, node: &NodeTally<'_>) -> bool {
        node.node.is_reachable() && self.is_here(node)
    }

    /// The nodes that the work may use, before the plan.
    fn usable(&self) -> impl Iterator<Item = &NodeTally<'_>> {
        self.before.nodes.values().filter(|node| self.may_use(node))
    }

    /// Whether all nodes together have fewer free devices than the work asks of one node.
    fn lacks_gpus(&self, need: u32, free: u32, of_instances: bool) -> bool {
        let total = |tally: &Tally<'_>| -> u32 {
            let nodes = tally.nodes.values().filter(|node| self.may_use(node));
            nodes.map(|node| node.n_free(self.fit)).sum()
        };
        need == self.n_devices_on_node()
            && of_instances == self.asks_instances()
            && free < need
            && between(free, total(self.after), total(self.before))
    }

    /// Whether a node has fewer free devices of one model than the work asks for.
    fn lacks_gpus_together(
        &self,
        need: u32,
        free: u32,
        node: &NodeName,
        of_instances: bool,
    ) -> bool {
        let most = |node: &NodeTally<'_>| {
            node.most_of_a_kind(&self.fit.gpus, |device| node.is_free(device))
        };
        need == self.n_devices_on_node()
            && of_instances == self.asks_instances()
            && free < need
            && self.at(node, |before, after| between(free, most(after), most(before)))
    }

    /// The same for a job that waits for nodes with this value of its topology's label, if it needs
    /// one value on all of them. Then no other value has enough either.
    fn lacks_in(&self, value: Option<&str>, (need, free, able): (u32, u32, u32)) -> bool {
        match (values(self.world, self.fit), value) {
            (None, None) => self.lacks_places(need, free, able, &|_| true),
            (Some(values), Some(value)) => {
                let is_in = |value| move |node: &Node| has_value(node, self.fit, Some(value));
                let has = |node: &NodeTally<'_>, device: &Device| node.has(device, self.fit);
                let n_free = |value| self.most_nodes(self.after, has, true, &is_in(value));
                self.lacks_places(need, free, able, &is_in(value))
                    && values.into_iter().all(|value| n_free(value) < need)
            }
            _ => false,
        }
    }

    /// Whether a job of several nodes, or tasks, finds fewer places than it needs.
    fn lacks_places(
        &self,
        need: u32,
        free: u32,
        able: u32,
        is_within: &dyn Fn(&Node) -> bool,
    ) -> bool {
        let with_room = |tally: &Tally<'_>| {
            let has = |node: &NodeTally<'_>, device: &Device| node.has(device, self.fit);
            self.most_nodes(tally, has, true, is_within)
        };
        let is_undrained =
            |node: &NodeTally<'_>, device: &Device| node.node.drain_of(&device.uuid).is_none();
        need == self.fit.gang.nodes
            && need > 1
            && free < need
            && able == self.most_nodes(self.before, is_undrained, false, is_within)
            && between(free, with_room(self.after), with_room(self.before))
    }

    /// Whether a paused job waits for the devices with these indexes of its node.
    fn is_paused_on(&self, node: &NodeName, indexes: &[u32], free: u32) -> bool {
        let own = |node: &NodeTally<'_>| -> Vec<u32> {
            let devices = node.node.devices.iter();
            let own = devices.filter(|device| has_at(node.node, device, self.fit));
            own.map(|device| device.index).collect()
        };
        let n_free = |node: &NodeTally<'_>| -> u32 {
            let devices = node.node.devices.iter();
            let free = devices
                .filter(|device| has_at(node.node, device, self.fit) && node.has(device, self.fit));
            u32::try_from(free.count()).unwrap_or(u32::MAX)
        };
        !self.fit.at.is_empty()
            && (free as usize) < indexes.len()
            && self.at(node, |before, after| {
                own(before) == *indexes && between(free, n_free(after), n_free(before))
            })
    }

    /// Whether too few devices of a node fit a share, and `largest` is the largest free amount.
    fn lacks_share(&self, need: u32, free: u32, node: &NodeName, largest: Bytes) -> bool {
        let gpus = &self.fit.gpus;
        let with_room =
            |node: &NodeTally<'_>| node.most_of_a_kind(gpus, |device| node.has(device, self.fit));
        let room = |tally: &Tally<'_>| {
            let nodes = tally.nodes.values().filter(|node| self.may_use(node));
            let rooms = nodes.flat_map(|node| {
                let devices = node.node.devices.iter();
                let of_kind = devices.filter(|device| gpus.rank_of(device).is_some());
                of_kind.map(|device| node.room(device))
            });
            rooms.max().unwrap_or_default()
        };
        need == self.n_devices_on_node()
            && free < need
            && between(largest, room(self.after), room(self.before))
            && self.at(node, |before, after| between(free, with_room(after), with_room(before)))
    }

    /// Whether a node has room for shares, but a job there keeps too many of its devices from them.
    fn has_strangers(&self, need: u32, free: u32, node: &NodeName, job: JobId) -> bool {
        let gpus = &self.fit.gpus;
        let with = |node: &NodeTally<'_>| node.most_of_a_kind(gpus, |it| node.has(it, self.fit));
        let is_kept = |node: &NodeTally<'_>| {
            let sharer = self.fit.sharer.as_deref();
            !node.may_share(sharer, job)
                && need <= node.most_of_a_kind(gpus, |device| node.has_room(device, gpus))
        };
        need == self.n_devices_on_node()
            && free < need
            && self.at(node, |before, after| {
                between(free, with(after), with(before)) && (is_kept(before) || is_kept(after))
            })
    }

    /// Whether a node has less CPU, memory or task slots free than the work asks of it.
    fn lacks_rest(&self, kind: &ResourceKind, need: u64, free: u64, node: &NodeName) -> bool {
        let row = self.before.nodes.get(node).map(|tally| tally.node);
        // A paused job resumes with all its tasks on the node.
        let times = row.filter(|_| !self.fit.at.is_empty()).map(|it| most_on(it, self.fit));
        let needed = match kind {
            ResourceKind::Cpu | ResourceKind::Memory | ResourceKind::Tasks => {
                on_node(self.fit).get(kind).saturating_mul(times.unwrap_or(1))
            }
            ResourceKind::Gpu
            | ResourceKind::GpuModel(_)
            | ResourceKind::GpuPool(_)
            | ResourceKind::GpuMemory
            | ResourceKind::PlainTasks
            | ResourceKind::UserTasks
            | ResourceKind::Node
            | ResourceKind::MigProfile(_)
            | ResourceKind::PauseMemory => return false,
        };
        need == needed && self.has_less(kind, need, free, node)
    }

    /// Whether less of a kind is free on a node than is needed.
    fn has_less(&self, kind: &ResourceKind, need: u64, free: u64, node: &NodeName) -> bool {
        free < need
            && self.at(node, |before, after| between(free, after.free(kind), before.free(kind)))
    }

    /// How many slots of a node tasks without GPUs may use, and how many slots exist.
    fn slots_of_plain_tasks(&self, node: &NodeName) -> Option<(u64, u64)> {
        let node = self.before.nodes.get(node)?.node;
        let of = |kind| capacity(node, &kind);
        Some((of(ResourceKind::PlainTasks), of(ResourceKind::Tasks)))
    }

    /// Whether no node that the work may use is connected, or an unconnected node has the devices.
    fn is_unreachable(&self, node: &NodeName) -> bool {
        let nobody_answers = self.usable().next().is_none();
        let has_kind = self.before.nodes.get(node).is_some_and(|node| {
            let most = node.most_of_a_kind(&self.fit.gpus, |_| true);
            !node.node.is_reachable() && self.is_here(node) && self.n_devices_on_node() <= most
        });
        nobody_answers || has_kind
    }

    /// Whether the node filter excludes all nodes of the pool, and `n_left_out` is their number.
    fn leaves_out_all(&self, n_left_out: u32) -> bool {
        let pool = self.fit.pool.as_ref();
        let of_pool = self.before.nodes.values().filter(|it| is_of(it.node, pool, None));
        usize::try_from(n_left_out) == Ok(of_pool.count())
            && !self.before.nodes.values().any(|node| self.is_here(node))
    }

    /// Whether a node or a device of it is drained, and too few others could run the work.
    fn is_drained(
        &self,
        node: &NodeName,
        index: Option<u32>,
        is_so: impl Fn(&Drain) -> bool,
    ) -> bool {
        let undrained =
            |node: &NodeTally<'_>, device: &Device| node.node.drain_of(&device.uuid).is_none();
        let is_drained = |node: &NodeTally<'_>| {
            let drain = match index {
                None => node.node.drain.as_ref(),
                Some(index) => {
                    let mut devices = node.node.devices.iter();
                    let device = devices.find(|device| device.index == index);
                    device.and_then(|it| drain_of(node.node, it))
                }
            };
            drain.is_some_and(&is_so)
                && self.may_use(node)
                && self.n_devices_on_node() <= node.most_of_a_kind(&self.fit.gpus, |_| true)
        };
        let n_able = |value| {
            let is_in = |node: &Node| has_value(node, self.fit, value);
            self.most_nodes(self.before, undrained, false, &is_in)
        };
        let most = match values(self.world, self.fit) {
            None => Some(n_able(None)),
            Some(values) => values.into_iter().map(|value| n_able(Some(value))).max(),
        };
        most.unwrap_or(0) < self.fit.gang.nodes
            && self.before.nodes.get(node).is_some_and(is_drained)
    }

    /// How many times `n_devices` of a node suffice, up to the number of times that the work may be
    /// there.
    fn times_in(&self, node: &Node, n_devices: u64) -> u64 {
        let most = most_on(node, self.fit);
        n_devices.checked_div(devices_on_node(self.fit)).unwrap_or(most).min(most)
    }

    /// How many times the nodes that take work have enough devices of one model that pass, and the
    /// host resources beside them, either free or in total.
    fn most_nodes(
        &self,
        tally: &Tally<'_>,
        passes: impl Fn(&NodeTally<'_>, &Device) -> bool,
        is_free: bool,
        is_within: &dyn Fn(&Node) -> bool,
    ) -> u32 {
        let gpus = &self.fit.gpus;
        let with_rest = |node: &NodeTally<'_>| {
            let needed = on_node(self.fit);
            let times = needed.iter().filter_map(|(kind, amount)| match is_free {
                true => node.free(kind).checked_div(amount),
                false => capacity(node.node, kind).checked_div(amount),
            });
            match is_free && node.is_occupied(None, self.fit.is_exclusive(), false) {
                true => 0,
                false => times.min().unwrap_or(u64::MAX),
            }
        };
        let counts = kinds(self.world, self.fit).into_iter().map(|(rank, model)| {
            let with_devices = |node: &NodeTally<'_>| {
                let of_rank = |device: &&Device| {
                    gpus.rank_of(device) == Some(rank)
                        && model.is_none_or(|model| device.model == model)
                };
                let devices = node.node.devices.iter().filter(of_rank);
                let devices = devices.filter(|device| passes(node, device));
                self.times_in(node.node, devices.count() as u64)
            };
            let nodes = tally.nodes.values();
            let takes = |node: &&NodeTally<'_>| {
                node.node.is_reachable()
                    && node.node.drain.is_none()
                    && self.is_here(node)
                    && is_within(node.node)
            };
            let open = nodes.filter(takes);
            let times = open.map(|node| with_devices(node).min(with_rest(node)));
            times.fold(0, u64::saturating_add)
        });
        u32::try_from(counts.max().unwrap_or(0)).unwrap_or(u32::MAX)
    }

    /// Whether a node is one that the work may use.
    fn is_here(&self, tally: &NodeTally<'_>) -> bool {
        is_of(tally.node, self.fit.pool.as_ref(), self.fit.nodes.as_deref())
            && is_at(tally.node, self.fit)
    }

    /// Whether a condition holds for a connected node before and after the plan.
    fn at(&self, name: &NodeName, holds: impl Fn(&NodeTally<'_>, &NodeTally<'_>) -> bool) -> bool {
        match (self.before.nodes.get(name), self.after.nodes.get(name)) {
            (Some(before), Some(after)) => {
                before.node.is_reachable() && self.is_here(before) && holds(before, after)
            }
            _ => false,
        }
    }
}

/// Whether a value lies between two others or is one of them.
pub(super) fn between<T: Copy + Ord>(value: T, least: T, most: T) -> bool {
    least <= value && value <= most
}
