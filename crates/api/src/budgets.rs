//! Budgets of the present month.

use axum::Json;
use axum::extract::State;
use gpool_model::budget::{BudgetStep, MonthSpending, Payer};
use gpool_wire::budget::BudgetRow;
use gpool_wire::digest::units;
use gpool_wire::{List, Time};

use super::asker::Asks;
use super::extract::ApiError;
use crate::api::Api;
use gpool_server::budgets::spending;

/// Returns the budgets of projects and users with the cost of this month.
#[utoipa::path(
    get, path = "/budgets", operation_id = "budgets_list",
    responses(
        (status = 200, description = "Projects, then users, by name", body = List<BudgetRow>),
    )
)]
pub(crate) async fn list(
    State(api): State<Api>,
    Asks(asker): Asks,
) -> Result<Json<List<BudgetRow>>, ApiError> {
    let look = |view: &gpool_server::View<'_>| {
        (view.world.policy().clone(), view.world.projects().clone())
    };
    let (policy, projects) = api.handle.query(look).await?;
    let handle = api.handle.clone();
    let read = move || {
        let rows = spending(&handle.shared.insight.usage, &policy, &projects)?;
        let holds = |payer: &Payer| policy.overspent.iter().any(|it| it.payer == *payer);
        let row = |it: MonthSpending| {
            let state = match it.step() {
                _ if holds(&it.payer) => "holds",
                Some(BudgetStep::All) => "over",
                Some(BudgetStep::Most) => "warn",
                None => "ok",
            };
            BudgetRow {
                kind: it.payer.kind().to_owned(),
                name: it.payer.name().to_owned(),
                since: Time(it.month),
                currency: it.currency.to_string(),
                budget: units(it.budget),
                spent: units(it.spent),
                state: state.to_owned(),
            }
        };
        Ok(rows.into_iter().map(row).collect())
    };
    let rows = api.handle.run_slow(asker.caller.owner.uid, read).await?;
    Ok(Json(List::new(rows)))
}
