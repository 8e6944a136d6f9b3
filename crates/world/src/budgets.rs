//! Budgets that are used up, and the jobs that they hold.

use gpool_model::budget::{Overspent, Payer};
use gpool_model::{JobSpec, ProjectName, Reason, Timestamp};

use crate::row::JobRow;
use crate::world::World;

impl World {
    /// Whether jobs of a user in a project are charged to a budget that is used up.
    #[must_use]
    pub fn is_over_budget(&self, project: &ProjectName, user: &str) -> bool {
        self.budget_over(project, user).is_some()
    }

    /// Returns the first used-up budget that a job is charged to.
    #[must_use]
    pub fn overspent(&self, spec: &JobSpec) -> Option<&Overspent> {
        self.budget_over(&spec.project, &spec.owner.user)
    }

    /// The first used-up budget: of the user, the project, or a project above.
    fn budget_over(&self, project: &ProjectName, user: &str) -> Option<&Overspent> {
        let pays = |payer: &Payer| match payer {
            Payer::User(name) => **name == *user,
            Payer::Project(name) => {
                let above = |it: &&ProjectName| self.projects.get(*it)?.parent.as_ref();
                let above = std::iter::successors(Some(project), above);
                above.take(self.projects.len() + 1).any(|it| it == name)
            }
        };
        self.policy.overspent.iter().find(|it| pays(&it.payer))
    }

    /// Returns why a job is held for its budget.
    #[must_use]
    pub fn over_budget(&self, row: &JobRow, since: Timestamp) -> Reason {
        Reason::OverBudget { since, by: self.overspent(&row.spec).cloned().map(Box::new) }
    }
}
