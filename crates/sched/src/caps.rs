//! Limits for each user while a plan is made: the starts of the plan count at once.

use std::collections::BTreeMap;
use std::sync::Arc;

use gpool_model::policy::{Caps, UserHoldings};
use gpool_model::{MilliGpu, Owner, Policy, Project, ProjectName, Reason, Shape};
use gpool_world::World;

/// The usage of users, with the present plan. Users without caps cost nothing.
#[derive(Debug, Clone, Default)]
pub(crate) struct Users {
    by_uid: BTreeMap<u32, (Caps, UserHoldings)>,
    /// The same in projects that limit it, with all projects below them.
    in_projects: BTreeMap<(ProjectName, u32), UserHoldings>,
    /// Task slots of users; and the most that one may have, of all slots.
    slots: BTreeMap<u32, u64>,
    slots_most: Option<Option<(u64, u64)>>,
}

impl Users {
    fn get(&mut self, world: &World, uid: u32) -> &mut (Caps, UserHoldings) {
        self.by_uid.entry(uid).or_insert_with(|| (world.caps_of(uid), world.held_by(uid)))
    }

    fn in_project(&mut self, world: &World, project: &Project, uid: u32) -> &mut UserHoldings {
        let held = || world.held_in(uid, &project.name);
        self.in_projects.entry((project.name.clone(), uid)).or_insert_with(held)
    }

    fn slots_most(&mut self, world: &World) -> Option<(u64, u64)> {
        *self.slots_most.get_or_insert_with(|| world.user_slots())
    }

    fn slots_of(&mut self, world: &World, uid: u32) -> &mut u64 {
        self.slots.entry(uid).or_insert_with(|| world.slots_of(uid))
    }

    /// Returns why a job of that shape may not start, if its user has reached a limit. Usage only
    /// grows in a plan, so the answer holds to its end.
    pub fn quota(&mut self, world: &World, policy: &Policy, shape: &Shape) -> Option<Reason> {
        let uid = shape.uid?;
        let name = || world.user(uid).map_or_else(|| Arc::from(""), |it| Arc::clone(&it.name));
        self.quota_of(world, policy, (uid, &name), shape)
    }

    /// The same for a job of a user: of the cluster, or of a project or one above it.
    fn quota_of(
        &mut self,
        world: &World,
        policy: &Policy,
        (uid, name): (u32, &dyn Fn() -> Arc<str>),
        shape: &Shape,
    ) -> Option<Reason> {
        let more = shape.gpus_together();
        if let Some((most, slots)) = self.slots_most(world) {
            let (used, more) = (*self.slots_of(world, uid), new_slots(shape));
            if more > 0 && used.saturating_add(more) > most {
                return Some(Reason::UserSlots { used, most, slots });
            }
        }
        if !policy.user_caps.is_none() {
            let (caps, held) = *self.get(world, uid);
            if let Some((what, used, most)) = caps.exceeded(held, more) {
                return Some(Reason::QuotaUser { what, used, most });
            }
        }
        world.capping(&shape.project).find_map(|project| {
            let held = *self.in_project(world, project, uid);
            let (what, used, most) = project.user_caps.exceeded(held, more)?;
            let (user, project) = (name(), project.name.clone());
            Some(Reason::QuotaUserInProject { user, project, what, used, most })
        })
    }

    /// Counts a job of that shape that starts.
    pub fn started(&mut self, world: &World, policy: &Policy, shape: &Shape) {
        let Some(uid) = shape.uid else { return };
        let more = shape.gpus_together();
        if self.slots_most(world).is_some() {
            *self.slots_of(world, uid) += new_slots(shape);
        }
        if !policy.user_caps.is_none() {
            add(&mut self.get(world, uid).1, more);
        }
        for project in world.capping(&shape.project) {
            add(self.in_project(world, project, uid), more);
        }
    }
}

/// Returns why a user may have no more jobs of that shape now, if a limit is reached: of the
/// cluster, or of a project or one above it.
#[must_use]
pub fn user_quota(world: &World, owner: &Owner, shape: &Shape) -> Option<Reason> {
    let caps = world.policy().user_caps.of(&owner.user);
    let by_uid = BTreeMap::from([(owner.uid, (caps, world.held_by(owner.uid)))]);
    let name = || Arc::clone(&owner.user);
    let mut users = Users { by_uid, ..Users::default() };
    users.quota_of(world, world.policy(), (owner.uid, &name), shape)
}

/// Task slots that a job takes and does not have yet.
fn new_slots(shape: &Shape) -> u64 {
    if shape.fit.at.is_empty() { u64::from(shape.n_tasks()) } else { 0 }
}

fn add(held: &mut UserHoldings, more: MilliGpu) {
    held.jobs += 1;
    held.gpus = held.gpus.saturating_add(more);
}
