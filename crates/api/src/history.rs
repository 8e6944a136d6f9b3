//! Totals of ended jobs, the use of one job against its request, and the accuracy of forecasts.

use axum::Json;
use axum::extract::State;
use gpool_model::record::EndedJob;
use gpool_model::{Millis, Outcome, Phase, Refusal, Timestamp};
use gpool_store::{ArchiveFilter, Reader};
use gpool_wire::{Document, ForecastState, Job, NodeUse, Report, Time, Totals};

use super::asker::Asks;
use super::extract::{ApiError, Params, Segment, job_id};
use super::listing::{self, ListParams};
use super::{found, jobs};
use crate::api::Api;
use gpool_insight::usage::tenure::Tenure;
use gpool_insight::usage::{UsageHistory, nodes};
use gpool_journal::codec;
use gpool_server::fault::internal;

/// Jobs that are summed up, at the most.
const SUMMED_MAX: u64 = 200_000;
/// Ended jobs that are read at once.
const PAGE: u32 = 1_000;
/// Bytes of their records.
const PAGE_BYTES: usize = 4 << 20;

/// Returns sums over ended jobs: the newest 200,000 that match the parameters, which are those of
/// the list of jobs.
#[utoipa::path(
    get, path = "/history/totals", operation_id = "history_totals", params(ListParams),
    responses(
        (status = 200, description = "The sums", body = Document<Totals>),
        (status = 400, description = "A parameter is not valid", body = gpool_wire::Problem,
         content_type = "application/problem+json"),
    )
)]
pub(crate) async fn totals(
    State(api): State<Api>,
    Asks(asker): Asks,
    Params(params): Params<ListParams>,
) -> Result<Json<Document<Totals>>, ApiError> {
    let Some(filter) = listing::archive_filter(&api, &asker, &params).await? else {
        return Ok(Json(Document::new(Totals::default())));
    };
    let handle = api.handle.clone();
    let read = move || sum(&handle.open_reader()?, filter);
    let totals = api.handle.run_slow(asker.caller.owner.uid, read).await?;
    Ok(Json(Document::new(totals)))
}

fn sum(reader: &Reader, mut filter: ArchiveFilter) -> Result<Totals, Refusal> {
    let mut sums = Sums::default();
    filter.limit = PAGE;
    filter.bytes_max = Some(PAGE_BYTES);
    loop {
        let rows = reader.archive(&filter).map_err(internal)?;
        let Some(last) = rows.last() else { return Ok(sums.totals(false)) };
        if sums.n_jobs >= SUMMED_MAX {
            return Ok(sums.totals(true));
        }
        filter.before = Some(last.job);
        for row in &rows {
            sums.add(&codec::decode_ended(row).map_err(internal)?);
        }
    }
}

#[derive(Default)]
struct Sums {
    n_jobs: u64,
    n_succeeded: u64,
    n_started: u64,
    gpu: u128,
    cpu: u128,
    waited: u128,
}

impl Sums {
    fn add(&mut self, ended: &EndedJob) {
        let Phase::Ended(end) = &ended.job.phase else { return };
        self.n_jobs += 1;
        self.n_succeeded += u64::from(end.outcome == Outcome::Succeeded);
        let Some(started_at) = end.started_at else { return };
        self.n_started += 1;
        let totals = ended.job.array.as_ref().map_or_else(|| (&**end).into(), |it| it.totals);
        let millis = |span: Millis| u128::from(span.get());
        self.gpu += u128::from(totals.gpu_time.get()) / 1000;
        self.cpu += millis(end.usage.cpu_user) + millis(end.usage.cpu_system);
        self.waited += millis(started_at.since(ended.spec.submitted_at));
    }

    fn totals(&self, is_partial: bool) -> Totals {
        Totals {
            n_jobs: self.n_jobs,
            n_succeeded: self.n_succeeded,
            gpu_hours: hours(self.gpu),
            cpu_hours: hours(self.cpu),
            waited_hours: hours(self.waited),
            n_started: self.n_started,
            is_partial,
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "a figure for people")]
fn hours(millis: u128) -> f64 {
    millis as f64 / 3_600_000.0
}

/// Returns the waiting time and run time of a job, and its usage against its request.
#[utoipa::path(
    get, path = "/jobs/{id}/report", operation_id = "jobs_report",
    params(("id" = String, Path, description = "The job")),
    responses(
        (status = 200, description = "The report", body = Document<Report>),
        (status = 404, description = "There is no such job", body = gpool_wire::Problem,
         content_type = "application/problem+json"),
    )
)]
pub(crate) async fn report(
    State(api): State<Api>,
    Asks(asker): Asks,
    Segment(id): Segment,
) -> Result<Json<Document<Report>>, ApiError> {
    let now = gpool_server::clock::now();
    let found = found::find(&api, job_id(&id)?).await?;
    let cost = super::cost::of_job(&api, asker.caller.owner.uid, &found).await?;
    let live = jobs::live_usage(&api, asker.caller.owner.uid, &found).await?;
    let metrics = super::job_metrics::last(&api, &asker, &found).await?;
    let tenure = super::tenure::of(&api, asker.caller.owner.uid, &found, now).await?;
    let mut job = found.for_caller(&asker, now);
    (job.usage.cost, job.usage.live, job.usage.metrics) = (cost, live, metrics);
    let handle = api.handle.clone();
    let read = move || {
        let nodes = nodes_of(&handle.shared.insight.usage, &job, &tenure, now)?;
        Ok::<_, Refusal>(Report::new(job, Time(now)).with_nodes(nodes))
    };
    let report = api.handle.run_slow(asker.caller.owner.uid, read).await?;
    Ok(Json(Document::new(report)))
}

/// The use of a job's GPUs on each node; empty for an array: its elements have theirs.
fn nodes_of(
    store: &UsageHistory,
    job: &Job,
    tenure: &Tenure,
    now: Timestamp,
) -> Result<Vec<NodeUse>, Refusal> {
    if job.array.is_some() || job.run.started_at.is_none() {
        return Ok(Vec::new());
    }
    let range = (job.submitted_at.0, job.run.ended_at.map_or(now, |at| at.0));
    let mut nodes = nodes::of_job(store, &job.id, range)?;
    nodes::add_devices(store, &mut nodes, job, tenure)?;
    Ok(nodes)
}

/// Returns the last forecast of job starts, and the accuracy of earlier ones.
#[utoipa::path(
    get, path = "/forecast", operation_id = "forecast_get",
    responses((status = 200, description = "The forecast", body = Document<ForecastState>))
)]
pub(crate) async fn forecast(State(api): State<Api>) -> Json<Document<ForecastState>> {
    Json(Document::new(api.handle.shared.insight.forecaster.state()))
}
