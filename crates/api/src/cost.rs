//! The cost of GPU time and energy.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;
use gpool_history::{Dimension, ReportQuery, Span};
use gpool_model::{GpuTime, JobId, Millis, Phase, Policy, Refusal, Timestamp};
use gpool_wire::List;
use gpool_wire::cost::{Cost, CostRow};
use gpool_wire::time::gpu_hours;
use gpool_wire::usage::UsageParams;

use super::asker::Asks;
use super::extract::{ApiError, Params};
use super::found::FoundJob;
use super::usage::{UsageQuery, hours, row};
use crate::api::Api;
use gpool_insight::usage::cost::{self, Priced};
use gpool_insight::usage::{UsageHistory, minute_of};
use gpool_server::clock::now;

/// Returns GPU time with its cost, by project, user, model, kind, node, pool or job.
#[utoipa::path(
    get, path = "/cost", operation_id = "cost_list", params(UsageParams),
    responses(
        (status = 200, description = "By time, then highest cost first", body = List<CostRow>),
        (status = 400, description = "A parameter is not valid", body = gpool_wire::Problem,
         content_type = "application/problem+json"),
    )
)]
pub(crate) async fn list(
    State(api): State<Api>,
    Asks(asker): Asks,
    Params(params): Params<UsageParams>,
) -> Result<Json<List<CostRow>>, ApiError> {
    let ask = UsageQuery::read(&params)?;
    let policy = api.handle.query(|view| view.world.policy().clone()).await?;
    let handle = api.handle.clone();
    let read = move || {
        let only = ask.only();
        let rows = cost::report(&handle.shared.insight.usage, &policy, &ask.report(&only))?;
        Ok(rows.into_iter().map(|it| cost_row(&ask.by, it)).collect())
    };
    let rows = api.handle.run_slow(asker.caller.owner.uid, read).await?;
    Ok(Json(List::new(rows)))
}

fn cost_row(by: &[Dimension], priced: Priced) -> CostRow {
    let cost = cost_of(&priced);
    CostRow { usage: row(by, priced.row), cost }
}

fn cost_of(Priced { row, currency, sum }: &Priced) -> Cost {
    let is_measured = row.totals.busy_of_ms > 0;
    Cost {
        currency: currency.clone(),
        cost: units(sum.all()),
        idle_cost: is_measured.then(|| units(sum.idle)),
        energy_cost: sum.energy.map(units),
        waited_cost: units(sum.waited),
        unpriced_gpu_hours: hours(sum.unpriced_ms),
    }
}

/// Units of the currency, to millionths.
fn units(millionths: f64) -> f64 {
    millionths.round() / 1e6
}

/// The cost of a job or array over all attempts, by currency; empty if no prices were set, or it
/// never started.
pub(super) async fn of_job(api: &Api, uid: u32, found: &FoundJob) -> Result<Vec<Cost>, Refusal> {
    let policy = api.handle.query(|view| view.world.policy().clone()).await?;
    let has_prices = !policy.prices.is_none() || !policy.past_prices.is_empty();
    if !has_prices || !found.spec.has_gpus() {
        return Ok(Vec::new());
    }
    let (started_at, ended_at) = match &found.job.phase {
        Phase::Ended(end) => (end.started_at, Some(end.ended_at)),
        _ => (found.job.started_at(), None),
    };
    let since = found.spec.submitted_at;
    let asked = GpuTime::of(
        found.spec.gpus_together(),
        started_at.map_or(Millis::ZERO, |started| started.since(since)),
    );
    let (id, is_array) = (found.job.id, found.job.array.is_some());
    let until = ended_at.unwrap_or_else(now);
    let handle = api.handle.clone();
    let read = move || {
        let sums = sums(&handle.shared.insight.usage, &policy, (id, is_array), (since, until))?;
        let cost = |it: &Priced| {
            // The GPUs that it got have the price of those that it waited for.
            let waited = it.sum.allocated / hours(it.row.totals.allocated_ms) * gpu_hours(asked);
            let waited_cost = if waited.is_finite() { units(waited) } else { 0.0 };
            Cost { waited_cost, ..cost_of(it) }
        };
        Ok(sums.values().map(cost).collect())
    };
    api.handle.run_slow(uid, read).await
}

/// The cost of a job or array by currency.
fn sums(
    store: &UsageHistory,
    policy: &Policy,
    (id, is_array): (JobId, bool),
    (since, until): (Timestamp, Timestamp),
) -> Result<BTreeMap<String, Priced>, Refusal> {
    let id = id.to_string();
    // The elements of an array have IDs of their own.
    let only = [(Dimension::Job, id.as_str())];
    let report = ReportQuery {
        span: Span { from: minute_of(since), to: minute_of(until).after(1) },
        step: None,
        by: &[Dimension::Job],
        only: if is_array { &[] } else { &only },
        n_groups: usize::MAX,
    };
    let start = format!("{id}.");
    let is_part = |name: &String| *name == id || is_array && name.starts_with(&start);
    let mut rows = cost::report(store, policy, &report)?;
    rows.retain(|it| it.row.names.iter().flatten().any(is_part));
    let mut sums = BTreeMap::<String, Priced>::new();
    for it in rows {
        match sums.get_mut(&it.currency) {
            Some(sum) => sum.add(&it),
            None => drop(sums.insert(it.currency.clone(), it)),
        }
    }
    Ok(sums)
}
