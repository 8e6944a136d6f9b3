//! A job over time: its use of GPUs and hosts, and the metrics that it reports.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;
use gpool_history::{Chart, JobSeries};
use gpool_model::{JobId, Phase, Refusal, Timestamp};
use gpool_protocol::recent::TaskMetric;
use gpool_wire::job_metrics::{
    ElementMetrics, JobMetric, JobMetrics, JobMetricsParams, six_digits,
};
use gpool_wire::{Document, List, Time};

use super::asker::{Asker, Asks};
use super::extract::{ApiError, Params, Segment, job_id};
use super::found::{self, FoundJob};
use super::usage::n_points;
use crate::api::Api;
use gpool_insight::usage::grid::{Grid, time_of};
use gpool_server::clock::now;
use gpool_server::handle::CoreHandle;

/// Returns the use of a job's GPUs and hosts over time, and the metrics that it reports in lines
/// of JSON.
#[utoipa::path(
    get, path = "/jobs/{id}/metrics", operation_id = "jobs_metrics",
    params(("id" = String, Path, description = "The job"), JobMetricsParams),
    responses(
        (status = 200, description = "Means by time", body = Document<JobMetrics>),
        (status = 400, description = "A parameter is not valid", body = gpool_wire::Problem,
         content_type = "application/problem+json"),
        (status = 404, description = "There is no such job", body = gpool_wire::Problem,
         content_type = "application/problem+json"),
    )
)]
pub(crate) async fn get(
    State(api): State<Api>,
    Asks(asker): Asks,
    Segment(id): Segment,
    Params(params): Params<JobMetricsParams>,
) -> Result<Json<Document<JobMetrics>>, ApiError> {
    let found = found::find(&api, job_id(&id)?).await?;
    let (first, last) = range(&found);
    let since = params.since.map_or(first, |time| time.0);
    let until = params.until.map_or(last, |time| time.0);
    let grid = Grid::fitting(since, until, n_points(params.points), now());
    let (handle, job) = (api.handle.clone(), found.job.id);
    let recent = match asker.may_see(found.spec.owner.uid) {
        true => Some(handle.metrics(Some(job), Timestamp::ZERO).await),
        false => None,
    };
    let read = move || {
        let charts = handle.shared.insight.usage.job(&job.to_string(), grid.span, grid.step)?;
        let metrics = recent
            .map(|recent| metrics(&handle, job, recent, charts.as_ref().map(|[_, it]| it), &grid));
        let series = |wanted: JobSeries| {
            let line = charts.as_ref().and_then(|[it, _]| it.lines.get(wanted as usize));
            grid.means(line.map(|line| line.points.as_slice()).unwrap_or_default(), &[])
        };
        Ok(JobMetrics {
            start: Time(grid.start),
            step_s: grid.step_s,
            gpu_utilization: series(JobSeries::GpuUtilization),
            gpu_memory: series(JobSeries::GpuMemory),
            cpu: series(JobSeries::Cpu),
            memory: series(JobSeries::HostMemory),
            read: series(JobSeries::IoRead),
            written: series(JobSeries::IoWrite),
            metrics: metrics.unwrap_or_default(),
        })
    };
    Ok(Json(Document::new(api.handle.run_slow(asker.caller.owner.uid, read).await?)))
}

/// Returns the last values of the metrics that the elements of an array report, at most about
/// 100,000 values.
#[utoipa::path(
    get, path = "/jobs/{id}/elements/metrics", operation_id = "jobs_elements_metrics",
    params(("id" = String, Path, description = "The array")),
    responses(
        (status = 200, description = "The elements with metrics; empty if the job is not an array",
         body = gpool_wire::List<ElementMetrics>),
        (status = 404, description = "There is no such job", body = gpool_wire::Problem,
         content_type = "application/problem+json"),
    )
)]
pub(crate) async fn elements(
    State(api): State<Api>,
    Asks(asker): Asks,
    Segment(id): Segment,
) -> Result<Json<List<ElementMetrics>>, ApiError> {
    let found = found::find(&api, job_id(&id)?).await?;
    let (handle, array) = (api.handle.clone(), found.job.id);
    if found.job.array.is_none() || !asker.may_see(found.spec.owner.uid) {
        return Ok(Json(List::new(Vec::new())));
    }
    let recent = handle.metrics(Some(array), Timestamp::ZERO).await;
    let read = move || {
        let stored = handle.shared.insight.usage.last_metrics_of_elements(&array.to_string());
        let mut all: BTreeMap<(String, String), (Timestamp, f64)> =
            stored.into_iter().map(|(key, (at, value))| (key, (time_of(at), value))).collect();
        let mut by_element = BTreeMap::<JobId, Vec<TaskMetric>>::new();
        for metric in recent {
            by_element.entry(metric.task.job).or_default().push(metric);
        }
        for (element, metrics) in by_element {
            for (name, metric) in lowest(metrics) {
                let Some(&(at, value)) = metric.points.last() else { continue };
                let key = (element.to_string(), name);
                if all.get(&key).is_none_or(|(before, _)| *before <= at) {
                    all.insert(key, (at, value));
                }
            }
        }
        let mut found = BTreeMap::<String, BTreeMap<String, f64>>::new();
        for ((element, name), (_, value)) in all {
            found.entry(element).or_default().insert(name, six_digits(value));
        }
        let items = found.into_iter().map(|(id, metrics)| ElementMetrics { id, metrics });
        Ok(List::new(items.collect()))
    };
    Ok(Json(api.handle.run_slow(asker.caller.owner.uid, read).await?))
}

/// When a job started and ended, as far as it has.
fn range(found: &FoundJob) -> (Timestamp, Timestamp) {
    let first = |started_at: Option<Timestamp>| started_at.unwrap_or(found.spec.submitted_at);
    match &found.job.phase {
        Phase::Ended(end) => (first(end.started_at), end.ended_at),
        _ => (first(found.job.started_at()), now()),
    }
}

fn metrics(
    handle: &CoreHandle,
    job: JobId,
    recent: Vec<TaskMetric>,
    chart: Option<&Chart>,
    grid: &Grid,
) -> Vec<JobMetric> {
    let in_range = recent.iter().cloned().filter_map(|mut metric| {
        metric.points.retain(|(at, _)| *at >= grid.start);
        (!metric.points.is_empty()).then_some(metric)
    });
    let of_chart = lowest(in_range);
    let mut found: BTreeMap<String, JobMetric> = BTreeMap::new();
    for (name, last) in last_of(handle, job, recent) {
        let line = chart.and_then(|chart| chart.lines.iter().find(|line| line.name == name));
        let minutes = line.map(|line| line.points.as_slice()).unwrap_or_default();
        let samples = of_chart.get(&name).map(|it| it.points.as_slice()).unwrap_or_default();
        let means = grid.means(minutes, samples).into_iter();
        let points = means.map(|point| point.map(six_digits)).collect();
        found.insert(name.clone(), JobMetric { name, last: Some(last), points });
    }
    found.into_values().collect()
}

/// The last values of the metrics of a job, if the asker may see them.
pub(super) async fn last(
    api: &Api,
    asker: &Asker,
    found: &FoundJob,
) -> Result<BTreeMap<String, f64>, Refusal> {
    if !asker.may_see(found.spec.owner.uid) || found.job.array.is_some() {
        return Ok(BTreeMap::new());
    }
    let (handle, job) = (api.handle.clone(), found.job.id);
    let recent = handle.metrics(Some(job), Timestamp::ZERO).await;
    api.handle.run_slow(asker.caller.owner.uid, move || Ok(last_of(&handle, job, recent))).await
}

/// The last value of each metric: the newest of the history and of the agents.
fn last_of(handle: &CoreHandle, job: JobId, recent: Vec<TaskMetric>) -> BTreeMap<String, f64> {
    let kept = handle.shared.insight.usage.last_metrics(&job.to_string());
    let mut all: BTreeMap<String, (Timestamp, f64)> =
        kept.into_iter().map(|(name, (at, value))| (name, (time_of(at), value))).collect();
    for (name, metric) in lowest(recent) {
        let Some(&(at, value)) = metric.points.last() else { continue };
        if all.get(&name).is_none_or(|(before, _)| *before <= at) {
            all.insert(name, (at, value));
        }
    }
    all.into_iter().map(|(name, (_, value))| (name, six_digits(value))).collect()
}

/// Of several tasks that report a metric, the one with the lowest rank counts, and of several
/// attempts the last one.
fn lowest(metrics: impl IntoIterator<Item = TaskMetric>) -> BTreeMap<String, TaskMetric> {
    let mut found = BTreeMap::<String, TaskMetric>::new();
    let order = |it: &TaskMetric| (std::cmp::Reverse(it.task.attempt), it.task.rank);
    for metric in metrics {
        if found.get(&metric.name).is_none_or(|known| order(&metric) < order(known)) {
            found.insert(metric.name.clone(), metric);
        }
    }
    found
}
