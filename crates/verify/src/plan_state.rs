//! Allocations of each job and node at one moment of a plan.

use std::collections::BTreeSet;

use gpool_model::{Policy, Shape};
use gpool_world::{JobRow, Snapshot};

use crate::projects::Projects;
use crate::shape::shape_of;
use crate::tally::Tally;
use crate::users::Users;

/// Allocations of each job and node at one moment of a plan.
pub(crate) struct PlanState<'a> {
    pub tally: Tally<'a>,
    pub users: Users,
    pub projects: Projects,
    /// The shapes that wait for their project's quota in the plan; the check of reasons decides
    /// whether that is true.
    pub quota_waits: BTreeSet<&'a Shape>,
}

impl PlanState<'_> {
    /// Whether a cap of its user or a quota of its project keeps a job waiting, however much is
    /// free.
    pub fn keeps(&self, snapshot: &Snapshot<'_>, policy: &Policy, row: &JobRow) -> bool {
        self.users.is_capped(snapshot.world, policy, row)
            || self.projects.exceeded(snapshot.world, row).is_some()
            || self.quota_waits.contains(&shape_of(snapshot.world, row))
    }
}
