//! Compares the cost of this month with the budgets, and tells the state machine which are used up.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use gpool_control::project_tree;
use gpool_history::{Dimension, Report, Span};
use gpool_model::budget::{OverBudget, Overspent, Payer};
use gpool_model::{Command, Money, Policy, Project, ProjectName, Refusal};
use gpool_wire::Time;
use tokio::time::MissedTickBehavior;

use crate::clock::now;
use crate::handle::{CoreHandle, server_itself};
use crate::usage::cost::{self, Priced};
use crate::usage::{UsageHistory, minute_of};

/// Pause between two comparisons: the history has one more minute then.
const PAUSE: Duration = Duration::from_secs(60);

type Projects = BTreeMap<ProjectName, Project>;

/// A budget and the cost of this month.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spending {
    /// Its project or user.
    pub payer: Payer,
    /// The budget.
    pub budget: Money,
    /// The cost of this month.
    pub spent: Money,
}

impl Spending {
    /// Whether the budget is used up.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.spent >= self.budget
    }
}

/// Compares every minute, until the server stops.
pub(crate) async fn keep(handle: CoreHandle) {
    let mut timer = tokio::time::interval(PAUSE);
    timer.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        timer.tick().await;
        match compare(&handle).await {
            Ok(()) => {}
            Err(Refusal::ShuttingDown) => return,
            Err(refusal) => tracing::warn!(?refusal, "can't compare costs with budgets"),
        }
    }
}

/// Compares the cost of this month with the budgets, and reports the budgets that are used up.
///
/// # Errors
/// The history cannot be read, or the server is stopping.
pub(crate) async fn compare(handle: &CoreHandle) -> Result<(), Refusal> {
    let look = |view: &crate::View<'_>| {
        let policy = view.world.policy();
        let is_asked = policy.over_budget == OverBudget::Hold || !policy.overspent.is_empty();
        is_asked.then(|| (policy.clone(), view.world.projects().clone()))
    };
    let Some((policy, projects)) = handle.query(look).await? else { return Ok(()) };
    let admin = server_itself(handle);
    let known = Arc::clone(&policy.overspent);
    let shared = Arc::clone(&handle.shared);
    let read = move || match policy.over_budget {
        OverBudget::Warn => Ok(Vec::new()),
        OverBudget::Hold => {
            let rows = spending(&shared.usage, &policy, &projects)?;
            let over = rows.into_iter().filter(Spending::is_over).map(|it| Overspent {
                payer: it.payer,
                spent: it.spent,
                budget: it.budget,
                currency: Arc::from(policy.prices.currency.as_str()),
            });
            Ok(over.collect::<Vec<_>>())
        }
    };
    let all = handle.beside(admin.owner.uid, read).await?;
    // The cost grows all the time; only the budgets matter.
    let budgets = |all: &[Overspent]| -> BTreeSet<(Payer, Money)> {
        all.iter().map(|it| (it.payer.clone(), it.budget)).collect()
    };
    if budgets(&all) != budgets(&known) {
        for it in &all {
            let Overspent { payer, spent, budget, .. } = it;
            tracing::warn!(%payer, %spent, %budget, "a budget is used up");
        }
        handle.command(admin, Command::SetOverspent { all }).await?;
    }
    Ok(())
}

/// Every budget with the cost of this month, in the present currency.
///
/// # Errors
/// The history cannot be read.
pub fn spending(
    store: &UsageHistory,
    policy: &Policy,
    projects: &Projects,
) -> Result<Vec<Spending>, Refusal> {
    let (start, now) = (Time(now()).month_start(), now());
    let span = Span { from: minute_of(start.0), to: minute_of(now).after(1) };
    let mut spent = BTreeMap::<Payer, f64>::new();
    for by in [Dimension::Project, Dimension::User] {
        let report = Report { span, step: None, by: &[by], only: &[], n_groups: usize::MAX };
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
    let row = |payer: Payer| {
        let budget = policy.budgets.budget_of(&payer)?;
        let spent = money(spent.get(&payer).copied().unwrap_or(0.0));
        Some(Spending { payer, budget, spent })
    };
    Ok(payers.into_iter().filter_map(row).collect())
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a cast saturates")]
fn money(millionths: f64) -> Money {
    Money::from_millionths(millionths.round() as u64)
}
