//! Whether what a plan gives as the reason of a wait is so. A reason holds at the moment when its
//! job was considered, between the state before the plan and the one after it.

use gpool_model::plan::Fit;
use gpool_model::policy::UserCap;
use gpool_model::{
    Device, GpuAmount, Node, NodeName, Plan, PlannedStart, Policy, ProjectName, Reason,
    ReservationName, ResourceKind, Wait,
};
use gpool_world::{JobRow, Snapshot, World};

use crate::State;
use crate::arrays::Running;
use crate::conserve::shape_of;
use crate::course::{devices_on_node, is_reserved_for, kinds, most_on, on_node, stretch};
use crate::order::pending;
use crate::planned::comes_after;
use crate::projects::{self, Projects};
use crate::tally::{NodeTally, Tally, capacity, drain_of, has_at, is_at, is_of};
use crate::users::{self, Users};
use crate::violation::Violation;

/// Checks the reason of each wait.
pub(crate) fn check(
    snapshot: &Snapshot<'_>,
    policy: &Policy,
    plan: &Plan,
    before: &State<'_>,
    after: &State<'_>,
    found: &mut Vec<Violation>,
) {
    let (users_before, users_after) = (&before.users, &after.users);
    let (projects_before, projects_after) = (&before.projects, &after.projects);
    let (before, after) = (&before.tally, &after.tally);
    debug_assert_eq!(before.nodes.len(), snapshot.world.nodes().len());
    let running = Running::of(snapshot.world, plan);
    for wait in &plan.waits {
        let of_array = wait.array.is_some() && running.is_true(snapshot.world, wait);
        let moment = Moment { world: snapshot.world, fit: &wait.shape.fit, before, after };
        let is_true = match &wait.reason {
            Reason::WouldDelay { job, planned_at } => {
                let mut planned = plan.planned.iter();
                let planned = planned.find(|it| it.job == *job && it.at == *planned_at);
                planned.is_some_and(|it| is_in_the_way(snapshot, policy, wait, it, before))
            }
            Reason::ReservedForOther { reservation, node, .. } => {
                is_kept(snapshot, wait, reservation, false) && has_room(before, node, wait)
            }
            Reason::MaintenanceSoon { reservation, node, .. } => {
                is_kept(snapshot, wait, reservation, true) && has_room(before, node, wait)
            }
            Reason::QuotaUser { what, used, most } => {
                let quota = UserQuota { project: None, what: *what, used: *used, most: *most };
                let users = (users_before, users_after);
                quota.owner(snapshot, policy, wait, users).is_some()
            }
            Reason::QuotaUserInProject { user, project, what, used, most } => {
                let (what, used, most) = (*what, *used, *most);
                let quota = UserQuota { project: Some(project), what, used, most };
                let owner = quota.owner(snapshot, policy, wait, (users_before, users_after));
                owner.is_some_and(|it| it.spec.owner.user == *user)
            }
            Reason::UserSlots { used, most, slots } => {
                let world = snapshot.world;
                wait.shape.uid.is_some_and(|uid| {
                    let n_tasks = u64::from(wait.shape.fit.gang.n_tasks());
                    users::slots_most(world) == Some((*most, *slots))
                        && used.saturating_add(n_tasks) > *most
                        && between(*used, users_before.slots(uid), users_after.slots(uid))
                })
            }
            Reason::NotReserved { reserved } => {
                policy.reserved_only && *reserved == n_reserved(snapshot, wait)
            }
            Reason::QuotaProject { project, kind, bound, held, asked, most } => {
                let now = |projects: &Projects| projects.held(project, kind, *bound);
                let world = snapshot.world;
                projects_before.bound(world, project, kind, *bound) == Some(*most)
                    && projects::upwards(world, &wait.shape.project).contains(project)
                    && held.saturating_add(*asked) > *most
                    && between(*held, now(projects_before), now(projects_after))
            }
            reason => moment.is_true(reason),
        };
        if !of_array && (wait.array.is_some() || !is_true) {
            let (shape, reason) = (Box::new((*wait.shape).clone()), wait.reason.clone());
            found.push(Violation::ReasonUntrue { shape, reason });
        }
    }
}

/// What is said of a user who has as much as he may.
struct UserQuota<'a> {
    project: Option<&'a ProjectName>,
    what: UserCap,
    used: u64,
    most: u64,
}

impl UserQuota<'_> {
    /// A job of the user who waits for it, if it is so.
    fn owner<'a>(
        &self,
        snapshot: &Snapshot<'a>,
        policy: &Policy,
        wait: &Wait,
        (before, after): (&Users, &Users),
    ) -> Option<&'a JobRow> {
        let (world, uid) = (snapshot.world, wait.shape.uid?);
        let (project, what) = (self.project, self.what);
        let gpus = wait.shape.fit.gpus_together().get();
        let more = if what == UserCap::RunningJobs { 1 } else { gpus };
        let row = world.job_rows().find(|row| row.spec.owner.uid == uid)?;
        let most = users::most(world, policy, &row.spec.owner.user, project, what);
        let above = projects::upwards(world, &wait.shape.project);
        let is_so = project.is_none_or(|it| above.contains(it))
            && most == Some(self.most)
            && self.used.saturating_add(more) > self.most
            && between(self.used, before.held(uid, project, what), after.held(uid, project, what));
        is_so.then_some(row)
    }
}

/// How many devices such as work of a shape asks for are reserved for it now.
fn n_reserved(snapshot: &Snapshot<'_>, wait: &Wait) -> u64 {
    let nodes = snapshot.world.nodes_by_name();
    let devices = nodes.flat_map(|(_, row)| row.node.devices.iter().map(|it| (&row.node, it)));
    let asked = devices.filter(|(_, device)| wait.shape.fit.gpus.rank_of(device).is_some());
    let is_own = |(node, device): &(&Node, &Device)| {
        is_reserved_for(snapshot, node, device, &wait.shape, snapshot.now)
    };
    asked.filter(is_own).count() as u64
}

fn has_room(before: &Tally<'_>, node: &NodeName, wait: &Wait) -> bool {
    before.nodes.get(node).is_some_and(|node| node.has_room(&wait.shape.fit))
}

/// Whether work of a shape would still be there when a job that comes before it is to start, on a
/// node that has room for both only one after the other.
fn is_in_the_way(
    snapshot: &Snapshot<'_>,
    policy: &Policy,
    wait: &Wait,
    planned: &PlannedStart,
    before: &Tally<'_>,
) -> bool {
    let world = snapshot.world;
    let of_shape = pending(snapshot).filter(|row| shape_of(world, row) == *wait.shape);
    let comes_later = |row| comes_after(snapshot, policy, row, planned.job);
    let when = stretch(&wait.shape, snapshot.now);
    when.holds(planned.at)
        && of_shape.into_iter().any(comes_later)
        && planned.placements.iter().any(|it| has_room(before, &it.node, wait))
}

/// Whether a reservation, or a maintenance window, keeps work of a shape out while it would run.
fn is_kept(
    snapshot: &Snapshot<'_>,
    wait: &Wait,
    name: &ReservationName,
    maintenance: bool,
) -> bool {
    let when = stretch(&wait.shape, snapshot.now);
    snapshot.world.reservations().get(name).is_some_and(|it| {
        let window = it.occurrence(snapshot.now);
        it.is_maintenance() == maintenance
            && !it.whom.admits(&wait.shape)
            && window.is_some_and(|it| when.until.is_none_or(|until| it.from < until))
    })
}

/// The states between which a job was considered.
struct Moment<'a> {
    world: &'a World,
    fit: &'a Fit,
    before: &'a Tally<'a>,
    after: &'a Tally<'a>,
}

impl Moment<'_> {
    fn is_true(&self, reason: &Reason) -> bool {
        let asked = u32::try_from(devices_on_node(self.fit)).unwrap_or(u32::MAX);
        let are_instances = matches!(self.fit.gpus.amount, GpuAmount::Instances { .. });
        let may_use = |node: &&NodeTally<'_>| node.node.connected && self.is_here(node);
        let mut connected = self.before.nodes.values().filter(may_use);
        match reason {
            Reason::GpusNotFree { need, free, of_instances } => {
                let total = |tally: &Tally<'_>| -> u32 {
                    let nodes = tally.nodes.values().filter(may_use);
                    nodes.map(|node| node.n_free(&self.fit.gpus)).sum()
                };
                *need == asked
                    && *of_instances == are_instances
                    && free < need
                    && between(*free, total(self.after), total(self.before))
            }
            Reason::GpusNotFreeTogether { need, free, node, of_instances } => {
                let most = |node: &NodeTally<'_>| {
                    node.most_of_a_kind(&self.fit.gpus, |device| node.is_free(device))
                };
                *need == asked
                    && *of_instances == are_instances
                    && free < need
                    && self.at(node, |before, after| between(*free, most(after), most(before)))
            }
            Reason::NodesNotFree { need, free, able }
            | Reason::TasksNotFree { need, free, able } => {
                let with_room = |tally: &Tally<'_>| {
                    self.most_nodes(tally, |node, device| node.has(device, &self.fit.gpus), true)
                };
                let could = self.most_nodes(
                    self.before,
                    |node, device| node.node.drain_of(&device.uuid).is_none(),
                    false,
                );
                let of_tasks = matches!(reason, Reason::TasksNotFree { .. });
                *need == self.fit.gang.nodes
                    && of_tasks == self.fit.gang.anywhere
                    && *need > 1
                    && free < need
                    && *able == could
                    && between(*free, with_room(self.after), with_room(self.before))
            }
            Reason::PausedOn { node, indexes, free } => {
                let own = |node: &NodeTally<'_>| -> Vec<u32> {
                    let devices = node.node.devices.iter();
                    let own = devices.filter(|device| has_at(node.node, device, self.fit));
                    own.map(|device| device.index).collect()
                };
                let n_free = |node: &NodeTally<'_>| -> u32 {
                    let devices = node.node.devices.iter();
                    let free = devices.filter(|device| {
                        has_at(node.node, device, self.fit) && node.has(device, &self.fit.gpus)
                    });
                    u32::try_from(free.count()).unwrap_or(u32::MAX)
                };
                !self.fit.at.is_empty()
                    && (*free as usize) < indexes.len()
                    && self.at(node, |before, after| {
                        own(before) == *indexes && between(*free, n_free(after), n_free(before))
                    })
            }
            Reason::GpuShareNotFree { need, share, free, node, largest } => {
                let gpus = &self.fit.gpus;
                let with_room = |node: &NodeTally<'_>| {
                    node.most_of_a_kind(gpus, |device| node.has(device, gpus))
                };
                let room = |tally: &Tally<'_>| {
                    let nodes = tally.nodes.values().filter(may_use);
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
                let row = self.before.nodes.get(node).map(|tally| tally.node);
                // A paused job goes on with all that it has there.
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
                *need == needed
                    && free < need
                    && self.at(node, |before, after| {
                        between(*free, after.free(kind), before.free(kind))
                    })
            }
            Reason::SlotsKeptForGpus { node, need, free, most, slots } => {
                let kind = ResourceKind::PlainTasks;
                let row = self.before.nodes.get(node).map(|tally| tally.node);
                let there = row.map(|it| (capacity(it, &kind), capacity(it, &ResourceKind::Tasks)));
                there == Some((*most, *slots))
                    && *need == on_node(self.fit).get(&kind)
                    && free < need
                    && self.at(node, |before, after| {
                        between(*free, after.free(&kind), before.free(&kind))
                    })
            }
            Reason::NodeOccupied { node, exclusive } => {
                *exclusive == self.fit.is_exclusive()
                    && self.at(node, |_, after| after.is_occupied(None, *exclusive, false))
            }
            Reason::AgentUnreachable { node } => {
                let nobody_answers = connected.next().is_none();
                let has_kind = self.before.nodes.get(node).is_some_and(|node| {
                    let most = node.most_of_a_kind(&self.fit.gpus, |_| true);
                    !node.node.connected && self.is_here(node) && asked <= most
                });
                nobody_answers || has_kind
            }
            Reason::OnlyInPool { pool, n_nodes } => {
                let mut nodes = self.before.nodes.values();
                let nobody = !nodes.any(|node| is_of(node.node, Some(pool), None));
                self.fit.pool.as_ref() == Some(pool) && *n_nodes == 0 && nobody
            }
            Reason::OnlyOnNodes { nodes, n_nodes, n_left_out, .. } => {
                let pool = self.fit.pool.as_ref();
                let of_pool = self.before.nodes.values().filter(|it| is_of(it.node, pool, None));
                let nobody = !self.before.nodes.values().any(|node| self.is_here(node));
                self.fit.nodes.as_ref() == Some(nodes)
                    && *n_nodes == 0
                    && usize::try_from(*n_left_out) == Ok(of_pool.count())
                    && nobody
            }
            Reason::NodeDrained { node, index, by, reason } => {
                let undrained = |node: &NodeTally<'_>, device: &Device| {
                    node.node.drain_of(&device.uuid).is_none()
                };
                let n_others = self.most_nodes(self.before, undrained, false);
                let nobody_else = n_others < self.fit.gang.nodes;
                let is_so = self.before.nodes.get(node).is_some_and(|node| {
                    let drain = match index {
                        None => node.node.drain.as_ref(),
                        Some(index) => {
                            let mut devices = node.node.devices.iter();
                            let device = devices.find(|device| device.index == *index);
                            device.and_then(|it| drain_of(node.node, it))
                        }
                    };
                    drain.is_some_and(|drain| drain.by == *by && drain.reason == *reason)
                        && may_use(&node)
                        && asked <= node.most_of_a_kind(&self.fit.gpus, |_| true)
                });
                nobody_else && is_so
            }
            // What is said of single jobs, or beside the decisive reason, is no reason of a shape.
            _ => false,
        }
    }

    /// How many times so many devices of a node are enough, at most as often as it may be there.
    fn times_in(&self, node: &Node, n_devices: u64) -> u64 {
        let most = most_on(node, self.fit);
        n_devices.checked_div(devices_on_node(self.fit)).unwrap_or(most).min(most)
    }

    /// How many times nodes that take work have as many devices that pass, of one model of the
    /// request, and the room beside them: what is free, or all there is.
    fn most_nodes(
        &self,
        tally: &Tally<'_>,
        passes: impl Fn(&NodeTally<'_>, &Device) -> bool,
        is_free: bool,
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
                node.node.connected && node.node.drain.is_none() && self.is_here(node)
            };
            let open = nodes.filter(takes);
            let times = open.map(|node| with_devices(node).min(with_rest(node)));
            times.fold(0, u64::saturating_add)
        });
        u32::try_from(counts.max().unwrap_or(0)).unwrap_or(u32::MAX)
    }

    /// Whether a node is one of those that it may use.
    fn is_here(&self, tally: &NodeTally<'_>) -> bool {
        is_of(tally.node, self.fit.pool.as_ref(), self.fit.nodes.as_deref())
            && is_at(tally.node, self.fit)
    }

    /// Whether something holds of a connected node before and after the plan.
    fn at(&self, name: &NodeName, holds: impl Fn(&NodeTally<'_>, &NodeTally<'_>) -> bool) -> bool {
        match (self.before.nodes.get(name), self.after.nodes.get(name)) {
            (Some(before), Some(after)) => {
                before.node.connected && self.is_here(before) && holds(before, after)
            }
            _ => false,
        }
    }
}

fn between<T: Copy + Ord>(value: T, least: T, most: T) -> bool {
    least <= value && value <= most
}
