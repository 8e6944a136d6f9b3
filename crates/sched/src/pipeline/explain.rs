//! Stage explain: all reasons of a waiting job, the decisive one first, computed on request.

mod reserved;
mod rivals;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};

use gpool_model::job::{Holder, StopCause};
use gpool_model::plan::Fit;
use gpool_model::{
    Allocation, AllocationState, Device, JobId, Node, NodeName, Phase, Policy, Reason, Shape,
    TakenBack,
};
use gpool_world::order::level_of_waiting;
use gpool_world::{JobRow, NodeRow, Snapshot, Unusable, fits_of, unusable};

use super::array_cursor::ArrayCursor;
use super::find_placement::would_place;
use super::{Workspace, plan};
use crate::caps::user_quota;
use crate::fit_reason;
pub use reserved::KeptBy;
pub use rivals::Rivals;

/// The reasons of waiting jobs by their shape, as a cycle gives them.
pub type ReasonsByShape = BTreeMap<Arc<Shape>, Reason>;

/// Explains the waiting jobs of one snapshot. Reasons that jobs have in common are computed once,
/// when a job first needs them.
pub struct Explainer<'a> {
    snapshot: Snapshot<'a>,
    policy: &'a Policy,
    by_shape: OnceLock<ReasonsByShape>,
    /// In place of `by_shape`, where several explain one snapshot.
    shared: Option<&'a OnceLock<ReasonsByShape>>,
    is_brief: bool,
}

impl<'a> Explainer<'a> {
    /// The most nodes or devices that are named one by one.
    const DEVICES_MAX: usize = 16;
    /// With more shapes than this, brief explanations don't run a cycle.
    const SHAPES_MAX: usize = 256;

    /// Returns an explainer of one snapshot.
    #[must_use]
    pub fn new(snapshot: Snapshot<'a>, policy: &'a Policy) -> Self {
        Self { snapshot, policy, by_shape: OnceLock::new(), shared: None, is_brief: false }
    }

    /// Shares common reasons with other explainers of the same snapshot.
    #[must_use]
    pub fn sharing(mut self, reasons: &'a OnceLock<ReasonsByShape>) -> Self {
        self.shared = Some(reasons);
        self
    }

    /// Takes little time however many shapes wait: among many, a job is explained by the capacity
    /// for it alone, without the jobs before it.
    #[must_use]
    pub fn in_brief(mut self) -> Self {
        self.is_brief = self.snapshot.world.shapes().nth(Self::SHAPES_MAX).is_some();
        self
    }

    fn by_shape(&self) -> &ReasonsByShape {
        self.shared.unwrap_or(&self.by_shape).get_or_init(|| {
            let plan = plan(&self.snapshot, self.policy, &mut Workspace::default());
            // The own limit of an array is no reason of other jobs.
            let waits = plan.waits.into_iter().filter(|wait| wait.array.is_none());
            waits.map(|wait| (wait.shape, wait.reason)).collect()
        })
    }

    /// Returns the first decisive reasons of a job, for one line of a list. Empty for jobs that do
    /// not wait.
    pub fn briefly(&self, row: &JobRow) -> Vec<Reason> {
        self.decisive(row, Reason::LISTED_MAX).0
    }

    /// Returns the first decisive reasons of a job, and the number of further ones: a job may wait
    /// for many others.
    #[must_use]
    pub fn decisive(&self, row: &JobRow, most: usize) -> (Vec<Reason>, u64) {
        let reasons = match &row.job.phase {
            Phase::Held { since, missing: Some(lack), .. } => {
                vec![Reason::NodeLacks { lack: lack.clone(), held_since: Some(*since) }]
            }
            &Phase::Paused { since, .. } if row.job.phase.is_pausing() => {
                vec![Reason::Pausing { since }]
            }
            &Phase::Held { by, since, .. } | &Phase::Paused { held: Some(by), since, .. } => {
                vec![match by {
                    Holder::User => Reason::HeldByUser { since },
                    Holder::Idle => Reason::Released { since },
                    Holder::Scheduler => Reason::SetAside { since },
                    Holder::Budget => self.snapshot.world.over_budget(row, since),
                    Holder::Admin => {
                        Reason::HeldByAdmin { since, hold: row.job.course.admin_hold.clone() }
                    }
                }]
            }
            Phase::Waiting { .. } => {
                let waits = self.snapshot.world.waits(&row.spec, &row.job, self.snapshot.now);
                return Reason::first_of(waits, most);
            }
            Phase::Pending { .. } => {
                let lacking = row.job.course.lacking_nodes.iter().cloned();
                let lacking = lacking.map(|lack| Reason::NodeLacks { lack, held_since: None });
                let reasons = self.own_limit_or_no_place(row).into_iter().chain(lacking);
                return Reason::first_of(reasons, most);
            }
            phase @ Phase::Paused { .. } if phase.is_parked() => self.own_limit_or_no_place(row),
            Phase::Starting { allocations, .. } | Phase::Paused { allocations, .. } => {
                self.leaving(allocations).into_iter().collect()
            }
            Phase::Underway { .. }
            | Phase::Running { .. }
            | Phase::Stopping { .. }
            | Phase::Ended(_) => Vec::new(),
        };
        (reasons, 0)
    }

    /// The jobs that have to leave before a job has the devices that it claims.
    fn leaving(&self, allocations: &[Allocation]) -> Option<Reason> {
        let claims = allocations.iter().filter_map(|it| match &it.state {
            AllocationState::Claimed { after } => Some(after),
            _ => None,
        });
        let jobs: BTreeSet<JobId> = claims.flatten().map(|task| task.job).collect();
        let rows = jobs.iter().filter_map(|id| self.snapshot.world.job(*id));
        let held: Vec<&Allocation> = rows.flat_map(|row| row.job.phase.allocations()).collect();
        let ends = held.iter().filter_map(|it| match it.state {
            AllocationState::Releasing { deadline } => Some(deadline),
            _ => None,
        });
        let until = ends.max();
        let devices = held
            .iter()
            .flat_map(|it| it.held_slots().iter().map(|slot| (it.node.clone(), slot.index)));
        let devices: BTreeSet<(NodeName, u32)> = devices.collect();
        let devices = devices.into_iter().take(Self::DEVICES_MAX).collect();
        let (job, n_jobs) = (*jobs.first()?, jobs.len() as u64);
        let spec = self.snapshot.world.job(job).map(|row| &row.spec);
        let of = spec.map(|spec| (Arc::clone(&spec.owner.user), spec.project.clone()));
        Some(Reason::PreemptionGrace { of, devices, job, n_jobs, until })
    }

    /// Returns all reasons of a job: the decisive ones, nodes with the devices that do not answer,
    /// requested devices that are not usable, and the jobs before it.
    pub fn fully(&self, row: &JobRow) -> Vec<Reason> {
        let (mut reasons, _) = self.decisive(row, Reason::SHOWN_MAX);
        if row.job.phase.is_parked() {
            reasons.extend(self.ahead(row));
        }
        if matches!(row.job.phase, Phase::Pending { .. }) {
            let no_room = if reasons.iter().any(is_quota) { self.no_room(row) } else { None };
            let more = no_room.into_iter().chain(self.unreachable_nodes(row));
            let more = more.chain(self.left_out(row)).chain(self.reserved_for_others(row));
            for reason in more.chain(self.unusable_devices(row)) {
                // Every device of a drained node gives the same reason.
                if !reasons.contains(&reason) {
                    reasons.push(reason);
                }
            }
            reasons.extend(self.ahead(row));
        }
        reasons.extend(self.had(row));
        reasons
    }

    /// Jobs of its project that have had more GPU-time and make room for it, or have had less and
    /// run before it, where the policy's order asks for that.
    fn had(&self, row: &JobRow) -> Vec<Reason> {
        let Snapshot { world, now } = self.snapshot;
        let policy = world.policy_of(row);
        if !policy.asks_attained() {
            return Vec::new();
        }
        let own = row.job.net_gpu_time(now);
        let had = |other: &JobRow, until| {
            let (job, theirs) = (other.job.id, other.job.net_gpu_time(now));
            Reason::GpuTimeHad { job, theirs, own, until }
        };
        let makes_room = |other: &&JobRow| match &other.job.phase {
            Phase::Stopping { cause: StopCause::TakenBack { why, beneficiary, .. }, .. } => {
                *why == TakenBack::Rotate && *beneficiary == row.job.id
            }
            _ => false,
        };
        let Some((shape_ix, is_escalated)) = self.queued(row) else {
            let is_claimant = world.claimants().any(|id| id == row.job.id);
            let holding = world.holding().filter(|_| is_claimant);
            return holding.filter(makes_room).take(1).map(|other| had(other, None)).collect();
        };
        let own_level = level_of_waiting(&world.shape(shape_ix).shape, is_escalated);
        let level = |other: &JobRow| policy.level(other.job.net_gpu_time(now));
        let domain = |row: &JobRow| self.policy.domain(row.spec.pool.as_ref()).cloned();
        let is_of_one = |other: &&JobRow| {
            (!policy.shares() || other.spec.project == row.spec.project)
                && domain(other) == domain(row)
        };
        let others = world.project_rows().iter().flat_map(|project| &project.evictable);
        let others: Vec<&JobRow> =
            others.filter_map(|id| world.job(*id)).filter(is_of_one).collect();
        let rested = |other: &JobRow| {
            let mut moments = policy.rotation_moments(&other.job);
            // The first moment is the end of its minimum run time.
            moments.next().filter(|at| *at > now)
        };
        let later = others.iter().filter(|other| level(other) > own_level);
        let later = later.filter_map(|other| Some((rested(other)?, other)));
        let first = later.min_by_key(|(at, other)| (*at, other.job.id));
        let before = others.iter().filter(|other| level(other) < own_level);
        let before = before.min_by_key(|other| (other.job.net_gpu_time(now), other.job.id));
        let first = first.map(|(at, other)| had(other, Some(at)));
        first.into_iter().chain(before.map(|other| had(other, None))).collect()
    }

    fn own_limit_or_no_place(&self, row: &JobRow) -> Vec<Reason> {
        let own_limit = ArrayCursor::default().full(self.snapshot.world, row.job.id);
        own_limit.or_else(|| self.no_place(row)).into_iter().collect()
    }

    fn no_place(&self, row: &JobRow) -> Option<Reason> {
        let (spec, world) = (&row.spec, self.snapshot.world);
        let (shape_ix, _) = self.queued(row)?;
        let shape = &self.snapshot.world.shape(shape_ix).shape;
        let quota = user_quota(world, &spec.owner, shape);
        if quota.is_some() {
            return quota;
        }
        match self.is_brief {
            true => self.no_room(row),
            false => self.by_shape().get(shape).cloned(),
        }
    }

    /// Why the job has no place now, apart from quotas.
    fn no_room(&self, row: &JobRow) -> Option<Reason> {
        let (shape_ix, _) = self.queued(row)?;
        let shape = &self.snapshot.world.shape(shape_ix).shape;
        would_place(&self.snapshot, self.policy, shape).err()
    }

    /// The nodes that its pool or its choice of nodes excludes.
    fn left_out(&self, row: &JobRow) -> Option<Reason> {
        let nodes = || self.snapshot.world.nodes_by_name().map(|(_, row)| &row.node);
        fits_of(row).iter().find_map(|fit| fit_reason::left_out(nodes(), fit))
    }

    fn unreachable_nodes(&self, row: &JobRow) -> Vec<Reason> {
        let fits = fits_of(row);
        let nodes = self.snapshot.world.nodes_by_name().map(|(_, row)| &row.node);
        let may_run = |node: &Node, fit: &Fit| {
            let n_devices = fit_reason::most_that(node, &fit.gpus, |_| true);
            fit.may_be_on(node) && n_devices >= fit.n_devices_on_node()
        };
        let away = nodes.filter(|node| !node.is_reachable());
        away.filter(|node| fits.iter().any(|fit| may_run(node, fit)))
            .map(|node| Reason::AgentUnreachable {
                node: node.name.clone(),
                since: node.silent_since(),
            })
            .take(Self::DEVICES_MAX)
            .collect()
    }

    fn unusable_devices(&self, row: &JobRow) -> Vec<Reason> {
        let fits = fits_of(row);
        let nodes = self.snapshot.world.nodes_by_name().map(|(_, node)| node);
        let mut reasons = Vec::new();
        for node in nodes {
            let devices = node.node.devices.iter().enumerate();
            let requested = devices.filter(|(_, device)| may_use(&fits, &node.node, device));
            reasons.extend(requested.filter_map(|(ix, _)| unusable_reason(node, ix)));
        }
        reasons.truncate(Self::DEVICES_MAX);
        reasons
    }
}

/// Whether a part of a job asks for a device of this kind, on this node.
fn may_use(fits: &[Fit], node: &Node, device: &Device) -> bool {
    fits.iter()
        .any(|fit| !fit.gpus.is_none() && fit.may_be_on(node) && fit.gpus.rank_of(device).is_some())
}

fn is_quota(reason: &Reason) -> bool {
    if let Reason::OfPart { reason, .. } = reason {
        return is_quota(reason);
    }
    matches!(
        reason,
        Reason::QuotaProject { .. }
            | Reason::QuotaUser { .. }
            | Reason::QuotaUserInProject { .. }
            | Reason::UserSlots { .. }
    )
}

fn unusable_reason(row: &NodeRow, device_ix: usize) -> Option<Reason> {
    let device = &row.node.devices[device_ix];
    let (node, index, uuid) = (row.node.name.clone(), device.index, device.uuid.clone());
    let unusable = unusable(row, device_ix)?;
    Some(match unusable {
        Unusable::Unhealthy(_) | Unusable::Divided | Unusable::Guest(_) => {
            Reason::GpuUnhealthy { node, index, device: uuid, why: unusable.fault() }
        }
        Unusable::Unmanaged(process) => Reason::UnmanagedProcess {
            node,
            index,
            device: uuid,
            pid: process.pid,
            user: process.user.clone(),
            name: process.name.clone(),
        },
        Unusable::NotAllowed => Reason::GpuNotAllowed { node, index, device: uuid },
        Unusable::Drained(drain) => Reason::NodeDrained {
            node,
            index: row.node.drain.is_none().then_some(index),
            by: drain.by,
            reason: drain.reason.clone(),
        },
    })
}
