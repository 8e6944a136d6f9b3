//! Whether what a plan gives as the reason of a wait is so. A reason holds at the moment when its
//! job was considered, between the state before the plan and the one after it.

use gpool_model::plan::Fit;
use gpool_model::policy::UserCap;
use gpool_model::{NodeName, Plan, Reason, ResourceKind};
use gpool_world::Snapshot;

use crate::arrays::Running;
use crate::tally::{NodeTally, Tally};
use crate::users::{self, Users};
use crate::violation::Violation;

/// Checks the reason of each wait.
pub(crate) fn check(
    snapshot: &Snapshot<'_>,
    plan: &Plan,
    (before, users_before): (&Tally<'_>, &Users),
    (after, users_after): (&Tally<'_>, &Users),
    found: &mut Vec<Violation>,
) {
    debug_assert_eq!(before.nodes.len(), snapshot.world.nodes().len());
    let running = Running::of(snapshot.world, plan);
    for wait in &plan.waits {
        let of_array = wait.array.is_some() && running.is_true(snapshot.world, wait);
        let moment = Moment { fit: &wait.shape.fit, before, after };
        let is_true = match &wait.reason {
            Reason::QuotaUser { what, used, most } => {
                let (uid, gpus) = (wait.shape.uid, wait.shape.fit.gpus.size().get());
                let more = if *what == UserCap::RunningJobs { 1 } else { gpus };
                let held = |users: &Users| users.held(uid, *what);
                let user = snapshot.world.jobs().values().find(|row| row.spec.owner.uid == uid);
                let caps = &snapshot.world.policy();
                user.is_some_and(|row| {
                    users::most(caps, &row.spec.owner.user, *what) == Some(*most)
                }) && used.saturating_add(more) > *most
                    && between(*used, held(users_before), held(users_after))
            }
            reason => moment.is_true(reason),
        };
        if !of_array && (wait.array.is_some() || !is_true) {
            let (shape, reason) = (Box::new(wait.shape.clone()), wait.reason.clone());
            found.push(Violation::ReasonUntrue { shape, reason });
        }
    }
}

/// The states between which a job was considered.
struct Moment<'a> {
    fit: &'a Fit,
    before: &'a Tally<'a>,
    after: &'a Tally<'a>,
}

impl Moment<'_> {
    fn is_true(&self, reason: &Reason) -> bool {
        let asked = self.fit.gpus.n_devices();
        let mut connected = self.before.nodes.values().filter(|node| node.node.connected);
        match reason {
            Reason::GpusNotFree { need, free } => {
                let total = |tally: &Tally<'_>| -> u32 {
                    let nodes = tally.nodes.values().filter(|node| node.node.connected);
                    nodes.map(|node| node.n_free(&self.fit.gpus)).sum()
                };
                *need == asked
                    && free < need
                    && between(*free, total(self.after), total(self.before))
            }
            Reason::GpusNotFreeTogether { need, free, node } => {
                let most = |node: &NodeTally<'_>| {
                    node.most_of_a_kind(&self.fit.gpus, |device| node.is_free(device))
                };
                *need == asked
                    && free < need
                    && self.at(node, |before, after| between(*free, most(after), most(before)))
            }
            Reason::GpuShareNotFree { need, share, free, node, largest } => {
                let gpus = &self.fit.gpus;
                let with_room = |node: &NodeTally<'_>| {
                    node.most_of_a_kind(gpus, |device| node.has(device, gpus))
                };
                let room = |tally: &Tally<'_>| {
                    let nodes = tally.nodes.values().filter(|node| node.node.connected);
                    let rooms = nodes.flat_map(|node| {
                        let devices = node.node.devices.iter();
                        let of_kind = devices.filter(|device| gpus.rank_of(device).is_some());
                        of_kind.map(|device| node.room(device))
                    });
                    rooms.max().unwrap_or_default()
                };
                *need == asked
                    && free < need
                    && gpus.share() == Some(*share)
                    && between(*largest, room(self.after), room(self.before))
                    && self.at(node, |before, after| {
                        between(*free, with_room(after), with_room(before))
                    })
            }
            Reason::GpuModelMissing { asked: gpus, most } => {
                let most_there = connected.map(|node| node.most_of_a_kind(gpus, |_| true)).max();
                *gpus == self.fit.gpus && *most < asked && most_there == Some(*most)
            }
            Reason::GpuMemoryTooSmall { need, largest } => {
                let devices = connected.flat_map(|node| &node.node.devices);
                self.fit.gpus.memory_needed() == Some(*need)
                    && largest < need
                    && devices.map(|device| device.memory).max().unwrap_or_default() == *largest
            }
            Reason::CpuOrMemShort { kind, need, free, node } => {
                let needed = match kind {
                    ResourceKind::Cpu => self.fit.cpus.get(),
                    ResourceKind::Memory => self.fit.memory.get(),
                    ResourceKind::Tasks => 1,
                    ResourceKind::Gpu
                    | ResourceKind::GpuModel(_)
                    | ResourceKind::GpuMemory
                    | ResourceKind::MigProfile(_)
                    | ResourceKind::PauseMemory => return false,
                };
                *need == needed
                    && free < need
                    && self.at(node, |before, after| {
                        between(*free, after.free(kind), before.free(kind))
                    })
            }
            Reason::AgentUnreachable { node } => {
                let nobody_answers = connected.next().is_none();
                let has_kind = self.before.nodes.get(node).is_some_and(|node| {
                    !node.node.connected && asked <= node.most_of_a_kind(&self.fit.gpus, |_| true)
                });
                nobody_answers || has_kind
            }
            Reason::NodeDrained { node, index, by, reason } => {
                let nobody_else = connected.all(|node| !self.has_undrained(node));
                let is_so = self.before.nodes.get(node).is_some_and(|node| {
                    let drain = match index {
                        None => node.node.drain.as_ref(),
                        Some(index) => {
                            let mut devices = node.node.devices.iter();
                            let device = devices.find(|device| device.index == *index);
                            device.and_then(|it| node.node.device_drains.get(&it.uuid))
                        }
                    };
                    drain.is_some_and(|drain| drain.by == *by && drain.reason == *reason)
                        && node.node.connected
                        && asked <= node.most_of_a_kind(&self.fit.gpus, |_| true)
                });
                nobody_else && is_so
            }
            // What is said of single jobs, or beside the decisive reason, is no reason of a shape.
            Reason::AheadInOrder { .. }
            | Reason::WouldDelay { .. }
            | Reason::GroupParallelLimit { .. }
            | Reason::WaitsForJob { .. }
            | Reason::WaitsForOneOf { .. }
            | Reason::DependencyFailed { .. }
            | Reason::BeginTime { .. }
            | Reason::BackoffAfterFailure { .. }
            | Reason::QuotaUser { .. }
            | Reason::HeldByUser { .. }
            | Reason::HeldByAdmin { .. }
            | Reason::PathOrImageMissing { .. }
            | Reason::UnmanagedProcess { .. }
            | Reason::GpuUnhealthy { .. }
            | Reason::GpuNotAllowed { .. }
            | Reason::ReservedForOther { .. }
            | Reason::MaintenanceSoon { .. } => false,
        }
    }

    /// Whether a node has as many devices of one kind that nobody drains, whoever holds them.
    fn has_undrained(&self, tally: &NodeTally<'_>) -> bool {
        let node = tally.node;
        let most = tally.most_of_a_kind(&self.fit.gpus, |device| {
            !node.device_drains.contains_key(&device.uuid)
        });
        node.drain.is_none() && self.fit.gpus.n_devices() <= most
    }

    /// Whether something holds of a connected node before and after the plan.
    fn at(&self, name: &NodeName, holds: impl Fn(&NodeTally<'_>, &NodeTally<'_>) -> bool) -> bool {
        match (self.before.nodes.get(name), self.after.nodes.get(name)) {
            (Some(before), Some(after)) => before.node.connected && holds(before, after),
            _ => false,
        }
    }
}

fn between<T: Copy + Ord>(value: T, least: T, most: T) -> bool {
    least <= value && value <= most
}
