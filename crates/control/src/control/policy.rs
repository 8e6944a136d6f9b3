//! Changes of the policy by admins.

use std::sync::Arc;

use gpool_model::budget::{Budgets, Payer};
use gpool_model::policy_text::PolicyError;
use gpool_model::{Caller, Policy, Refusal, Reply};

use crate::control::Control;
use crate::control::nodes::admin;
use crate::project_tree;

impl Control {
    /// Changes settings of a preset, or of the present policy: all of them or none.
    pub(crate) fn set_policy(
        &mut self,
        caller: &Caller,
        preset: Option<&str>,
        set: &[(String, String)],
        dry_run: bool,
    ) -> Result<Reply, Refusal> {
        admin(caller, || "change the policy".to_owned())?;
        if preset.is_none() && set.is_empty() {
            let why = "it changes nothing; give a preset or a setting".to_owned();
            return Err(Refusal::Invalid { field: "policy".to_owned(), why });
        }
        let invalid = |PolicyError { key, why }| Refusal::Invalid { field: key, why };
        let before = self.world.policy();
        let mut policy = match preset {
            None => before.clone(),
            Some(preset) => {
                // The caps of users, the policies of pools, prices and budgets stay.
                let (user_caps, mut pools) = (before.user_caps.clone(), before.pools.clone());
                let (prices, budgets) = (before.prices.clone(), before.budgets.clone());
                let over_budget = before.over_budget;
                let preset = Policy::from_preset(preset).map_err(invalid)?;
                pools.extend(preset.pools.clone());
                Policy { user_caps, pools, prices, budgets, over_budget, ..preset }
            }
        };
        for (key, value) in set {
            policy.set(key, value).map_err(invalid)?;
        }
        self.check_payers(&policy.budgets, &before.budgets)?;
        policy.note_prices(before, self.now);
        policy.overspent = Arc::clone(&before.overspent);
        policy.align_pools();
        if !dry_run && policy != *before {
            self.world.put_policy(policy.clone());
        }
        Ok(Reply::Policy(Box::new(policy)))
    }

    /// Refuses a new budget of a project that does not exist: it would limit nothing.
    fn check_payers(&self, budgets: &Budgets, before: &Budgets) -> Result<(), Refusal> {
        let is_new = |payer: &&Payer| !before.of.contains_key(*payer);
        for payer in budgets.of.keys().filter(is_new) {
            if let Payer::Project(name) = payer
                && !self.world.projects().contains_key(name)
                && self.world.project_row(name).is_none()
            {
                return Err(project_tree::absent(self.world.projects(), name));
            }
        }
        Ok(())
    }
}
