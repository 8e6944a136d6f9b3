//! Checks whether the reasons of a plan's waits are true. A reason was true when the scheduler
//! considered the job, at some point between the state before the plan and the state after it.

mod room;

use gpool_model::plan::Fit;
use gpool_model::policy::UserCap;
use gpool_model::{
    Device, Node, NodeName, Plan, PlannedStart, Policy, ProjectName, Reason, ReservationName, Wait,
};
use gpool_world::{JobRow, Snapshot};

use crate::arrays::Running;
use crate::course::{is_reserved_for, stretch};
use crate::job::pending;
use crate::plan_state::PlanState;
use crate::planned::comes_after;
use crate::projects::{self, Projects};
use crate::shape::shape_of;
use crate::tally::{Tally, devices_on_node};
use crate::users::{self, Users};
use crate::violation::Violation;

use room::{Moment, between};

/// Checks the reason of each wait.
pub(crate) fn check(
    snapshot: &Snapshot<'_>,
    policy: &Policy,
    plan: &Plan,
    before: &PlanState<'_>,
    after: &PlanState<'_>,
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
                    let n_tasks = u64::from(wait.shape.n_tasks());
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
            Reason::OfPart { part, reason } => is_true_of_part(&moment, wait, part, reason),
            reason => moment.is_true(reason),
        };
        if !of_array && (wait.array.is_some() || !is_true) {
            let (shape, reason) = (Box::new((*wait.shape).clone()), wait.reason.clone());
            found.push(Violation::ReasonUntrue { shape, reason });
        }
    }
}

/// Whether the reason of one part is right. The free capacity depends on where the parts
/// before it go, so numbers are compared for the part that is placed first: the first of those that
/// need most of one node.
fn is_true_of_part(moment: &Moment<'_>, wait: &Wait, part: &str, reason: &Reason) -> bool {
    let parts = &wait.shape.parts;
    let need = |fit: &Fit| {
        let n_tasks = u64::from(fit.gang.tasks_per_node);
        let cpus = fit.cpus.get().saturating_mul(n_tasks);
        (devices_on_node(fit), fit.gpus.share().is_none(), cpus, fit.memory.get())
    };
    let most = parts.iter().map(|it| need(&it.fit)).max();
    let first = parts.iter().find(|it| Some(need(&it.fit)) == most);
    let is_room = !matches!(
        reason,
        Reason::WouldDelay { .. }
            | Reason::ReservedForOther { .. }
            | Reason::MaintenanceSoon { .. }
            | Reason::NotReserved { .. }
            | Reason::QuotaProject { .. }
    );
    match first.filter(|first| *first.name == *part && is_room) {
        Some(first) => Moment { fit: &first.fit, ..*moment }.is_true(reason),
        None => parts.iter().any(|it| *it.name == *part),
    }
}

/// The claim of a reason that a user has reached a cap.
struct UserQuota<'a> {
    project: Option<&'a ProjectName>,
    what: UserCap,
    used: u64,
    most: u64,
}

impl UserQuota<'_> {
    /// Returns a job of the user if the claim is true.
    fn owner<'a>(
        &self,
        snapshot: &Snapshot<'a>,
        policy: &Policy,
        wait: &Wait,
        (before, after): (&Users, &Users),
    ) -> Option<&'a JobRow> {
        let (world, uid) = (snapshot.world, wait.shape.uid?);
        let (project, what) = (self.project, self.what);
        let gpus = wait.shape.gpus_together().get();
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

/// Counts the devices that match a shape's request and are reserved for it now.
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
    before.nodes.get(node).is_some_and(|node| node.has_place(&wait.shape.fit))
}

/// Whether work of a shape would still run at an earlier job's planned start, on a node that fits
/// the two only one after the other.
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

/// Whether a reservation, or a maintenance window, excludes work of a shape while it would run.
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
            && !it.beneficiary.admits(&wait.shape)
            && window.is_some_and(|it| when.until.is_none_or(|until| it.from < until))
    })
}
