//! GPUs of the cluster and of projects over time.

use std::iter::zip;

use axum::Json;
use axum::extract::State;
use gpool_model::Millis;
use gpool_wire::usage::{UsageHistory, UsageHistoryParams, UsagePoints};
use gpool_wire::{Document, Time};

use super::asker::Asks;
use super::extract::{ApiError, Params};
use super::usage::{before, n_points};
use crate::api::Api;
use gpool_insight::usage::course::{SERIES, member};
use gpool_insight::usage::grid::Grid;
use gpool_server::clock::now;

/// The range without a start.
const DAY: Millis = Millis::from_hours(24);

/// Returns the GPUs of the cluster and of each project over time: allocated, busy, waited for and
/// guaranteed.
#[utoipa::path(
    get, path = "/usage/history", operation_id = "usage_history", params(UsageHistoryParams),
    responses(
        (status = 200, description = "Means by time", body = Document<UsageHistory>),
        (status = 400, description = "A parameter is not valid", body = gpool_wire::Problem,
         content_type = "application/problem+json"),
    )
)]
pub(crate) async fn get(
    State(api): State<Api>,
    Asks(asker): Asks,
    Params(params): Params<UsageHistoryParams>,
) -> Result<Json<Document<UsageHistory>>, ApiError> {
    let until = params.until.map_or_else(now, |time| time.0);
    let since = params.since.map_or_else(|| before(until, DAY), |time| time.0);
    let grid = Grid::of_minutes(since, until.min(now()), n_points(params.points));
    let names = api.handle.query(|view| {
        let projects = view.world.projects().keys();
        projects.map(ToString::to_string).collect::<Vec<_>>()
    });
    let names = names.await?;
    let handle = api.handle.clone();
    let read = move || {
        let members: Vec<String> =
            std::iter::once("").chain(names.iter().map(String::as_str)).map(member).collect();
        let members: Vec<&str> = members.iter().map(String::as_str).collect();
        let chart = handle.shared.insight.usage.devices(&members, &SERIES, grid.span, grid.step)?;
        let lines = chart.map(|it| it.lines).unwrap_or_default();
        let points = |ix: usize, project: Option<&String>| {
            let line = |at: usize| {
                let line = lines.get(ix * SERIES.len() + at);
                grid.means(line.map(|it| it.points.as_slice()).unwrap_or_default(), &[])
            };
            let [allocated, busy, waiting, guaranteed] = [0, 1, 2, 3].map(line);
            UsagePoints { project: project.cloned(), allocated, busy, waiting, guaranteed }
        };
        let cluster = points(0, None);
        let projects = names.iter().enumerate().map(|(ix, name)| points(ix + 1, Some(name)));
        let projects: Vec<_> = projects.map(|it| without_gaps(it, &cluster)).collect();
        Ok(UsageHistory { start: Time(grid.start), step_s: grid.step_s, cluster, projects })
    };
    Ok(Json(Document::new(api.handle.run_slow(asker.caller.owner.uid, read).await?)))
}

/// A project without GPUs is not recorded: it has zero wherever the cluster has a value.
#[must_use]
pub fn without_gaps(mut project: UsagePoints, cluster: &UsagePoints) -> UsagePoints {
    let UsagePoints { allocated, busy, waiting, guaranteed, .. } = &mut project;
    // Zero is recorded beside the other figures: the project has no guarantee, or all GPUs.
    guaranteed.iter_mut().for_each(|it| *it = it.filter(|gpus| *gpus > 0.0));
    for values in [allocated, busy, waiting] {
        for (value, known) in zip(values, &cluster.allocated) {
            *value = value.or(known.map(|_| 0.0));
        }
    }
    project
}
