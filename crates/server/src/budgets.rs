//! The cost of this month beside the budgets, from the history.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use gpool_control::project_tree;
use gpool_history::{Dimension, ReportQuery, Span};
use gpool_model::budget::{MonthSpending, Payer};
use gpool_model::{Money, Policy, Project, ProjectName, Refusal};
use gpool_wire::Time;

use crate::clock::now;
use gpool_insight::usage::cost::{self, Priced};
use gpool_insight::usage::{UsageHistory, minute_of};

pub type Projects = BTreeMap<ProjectName, Project>;

/// Every budget with the cost of this month, in the present currency.
pub fn spending(
    store: &UsageHistory,
    policy: &Policy,
    projects: &Projects,
) -> Result<Vec<MonthSpending>, Refusal> {
    let now = now();
    let start = Time(now).month_start();
    let span = Span { from: minute_of(start.0), to: minute_of(now).after(1) };
    let mut spent = BTreeMap::<Payer, f64>::new();
    for by in [Dimension::Project, Dimension::User] {
        let report = ReportQuery { span, step: None, by: &[by], only: &[], n_groups: usize::MAX };
        for Priced { row, currency, sum } in cost::report(store, policy, &report)? {
            let Some(name) = row.names.and_then(|names| names.into_iter().next()) else { continue };
            // No budget can stop processes that gpool did not start.
            if currency != policy.prices.currency || row.is_outside {
                continue;
            }
            let mut add = |payer: Payer| *spent.entry(payer).or_default() += sum.all();
            if by == Dimension::User {
                add(Payer::User(Arc::from(name)));
            } else if let Some(project) = projects.get(&ProjectName::new(name)) {
                project_tree::upwards(projects, project)
                    .for_each(|it| add(Payer::Project(it.name.clone())));
            }
        }
    }
    let mut payers: BTreeSet<Payer> = policy.budgets.of.keys().cloned().collect();
    payers.extend(spent.keys().cloned());
    let currency: Arc<str> = Arc::from(policy.prices.currency.as_str());
    let row = |payer: Payer| {
        let budget = policy.budgets.budget_of(&payer)?;
        let spent = money(spent.get(&payer).copied().unwrap_or(0.0));
        let currency = Arc::clone(&currency);
        Some(MonthSpending { payer, month: start.0, spent, budget, currency })
    };
    Ok(payers.into_iter().filter_map(row).collect())
}

/// An amount of millionths of a currency.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a cast saturates")]
pub fn money(millionths: f64) -> Money {
    Money::from_millionths(millionths.round() as u64)
}
