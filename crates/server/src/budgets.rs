//! Compares the cost of this month with the budgets, and tells the state machine which are used up,
//! and which subscriptions have news.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use gpool_control::project_tree;
use gpool_history::{Dimension, ReportQuery, Span};
use gpool_model::budget::{BudgetStep, MonthSpending, OverBudget, Overspent, Payer};
use gpool_model::subscription::Subscription;
use gpool_model::{Command, Money, NotifyOn, Policy, Project, ProjectName, Refusal};
use gpool_wire::Time;

use crate::clock::now;
use crate::handle::{CoreHandle, server_itself};
use gpool_insight::usage::cost::{self, Priced};
use gpool_insight::usage::{UsageHistory, minute_of};

pub type Projects = BTreeMap<ProjectName, Project>;

/// Compares the cost of this month with the budgets, and reports the budgets that are used up, and
/// the news for subscriptions.
///
/// # Errors
/// The history cannot be read, or the server is stopping.
pub async fn compare(handle: &CoreHandle) -> Result<(), Refusal> {
    let look = |view: &crate::View<'_>| {
        let policy = view.world.policy();
        let wants = view.world.subscriptions().values().filter(|it| it.wants(NotifyOn::Budget));
        let subscriptions: Vec<Subscription> = wants.cloned().collect();
        let is_asked = policy.over_budget == OverBudget::Hold
            || !policy.overspent.is_empty()
            || !(subscriptions.is_empty() || policy.budgets.is_none());
        is_asked.then(|| (policy.clone(), view.world.projects().clone(), subscriptions))
    };
    let Some((policy, projects, subscriptions)) = handle.query(look).await? else {
        return Ok(());
    };
    let admin = server_itself(handle);
    let known = Arc::clone(&policy.overspent);
    let over_budget = policy.over_budget;
    // A history that can't be read holds no jobs for ever.
    let is_needed = over_budget == OverBudget::Hold || !subscriptions.is_empty();
    let shared = Arc::clone(&handle.shared);
    let read = move || match is_needed {
        true => spending(&shared.insight.usage, &policy, &projects),
        false => Ok(Vec::new()),
    };
    let rows = handle.run_slow(admin.owner.uid, read).await?;
    let is_over =
        |it: &&MonthSpending| over_budget == OverBudget::Hold && it.step() == Some(BudgetStep::All);
    let over = rows.iter().filter(is_over).map(|it| Overspent {
        payer: it.payer.clone(),
        spent: it.spent,
        budget: it.budget,
        currency: Arc::clone(&it.currency),
    });
    let over: Vec<Overspent> = over.collect();
    // The cost grows all the time; only the budgets matter.
    let budgets = |all: &[Overspent]| -> BTreeSet<(Payer, Money)> {
        all.iter().map(|it| (it.payer.clone(), it.budget)).collect()
    };
    if budgets(&over) != budgets(&known) {
        for it in &over {
            let Overspent { payer, spent, budget, .. } = it;
            tracing::warn!(%payer, %spent, %budget, "a budget is used up");
        }
        handle.command(admin.clone(), Command::SetOverspent { all: over }).await?;
    }
    let is_news = |row: &MonthSpending| {
        subscriptions.iter().any(|it| it.payer == row.payer && it.after(row).is_some())
    };
    let news: Vec<MonthSpending> = rows.into_iter().filter(is_news).collect();
    if !news.is_empty() {
        handle.command(admin, Command::ReportSpending { all: news }).await?;
    }
    Ok(())
}

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
