//! Compares the cost of this month with the budgets: tells the state machine which are used up, and
//! which subscriptions have news.

use std::collections::BTreeSet;
use std::time::Duration;

use gpool_model::budget::{BudgetStep, MonthSpending, OverBudget, Overspent, Payer};
use gpool_model::subscription::Subscription;
use gpool_model::{Command, Money, NotifyOn};
use gpool_world::World;

use super::{Act, Controller, Look, Needs, Next, Outcome};

#[derive(Debug, Clone, Copy, Default)]
pub struct BudgetController;

impl Controller for BudgetController {
    fn needs(world: &World) -> Needs {
        let policy = world.policy();
        let has_readers = !policy.budgets.is_none() && readers(world).next().is_some();
        if policy.over_budget == OverBudget::Hold || has_readers {
            return Needs::Costs;
        }
        // Jobs are released then, even if the history can't be read.
        if policy.overspent.is_empty() { Needs::Nothing } else { Needs::State }
    }

    fn round(&mut self, look: &Look<'_>) -> Vec<Act> {
        let policy = look.world.policy();
        let is_over = |it: &&MonthSpending| {
            policy.over_budget == OverBudget::Hold && it.step() == Some(BudgetStep::All)
        };
        let over = look.costs.iter().filter(is_over).map(|it| Overspent {
            payer: it.payer.clone(),
            spent: it.spent,
            budget: it.budget,
            currency: it.currency.clone(),
        });
        let over: Vec<Overspent> = over.collect();
        // The cost grows all the time; only the budgets matter.
        let budgets = |all: &[Overspent]| -> BTreeSet<(Payer, Money)> {
            all.iter().map(|it| (it.payer.clone(), it.budget)).collect()
        };
        let has_changed = budgets(&over) != budgets(&policy.overspent);
        let is_news = |row: &&MonthSpending| {
            readers(look.world).any(|it| it.payer == row.payer && it.after(row).is_some())
        };
        let news: Vec<MonthSpending> = look.costs.iter().filter(is_news).cloned().collect();
        let holds = has_changed.then_some(Command::SetOverspent { all: over });
        let news = (!news.is_empty()).then_some(Command::ReportSpending { all: news });
        holds.into_iter().chain(news).map(|it| Act::Command(Box::new(it))).collect()
    }

    fn note(&mut self, _: &Act, _: &Outcome, _: Duration) -> Next {
        // The state shows the effect to the next round.
        Next::Act
    }
}

/// The subscriptions to news of budgets.
fn readers(world: &World) -> impl Iterator<Item = &Subscription> {
    world.subscriptions().values().filter(|it| it.wants(NotifyOn::Budget))
}
