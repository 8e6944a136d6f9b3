//! Jobs by the GPU time that they hold and do not use.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use gpool_model::{Outcome, Phase, Refusal, Timestamp};
use gpool_store::{ArchiveFilter, Reader};
use gpool_wire::waste::{IdleParts, WasteParams, WasteRow};
use gpool_wire::{List, Time};

use super::asker::{Asker, Asks};
use super::extract::{ApiError, Params};
use super::found::FoundJob;
use super::usage::{WEEK, before};
use super::{found, listing, simulate};
use crate::api::Api;
use gpool_insight::usage::idle::{self, JobOutcome};
use gpool_insight::usage::wasted::{self, Wasted, largest};
use gpool_journal::codec;
use gpool_server::clock::now;
use gpool_server::fault::internal;
use gpool_server::handle::Age;
use gpool_server::view::View;

/// Rows without a limit.
const ROWS: u32 = 20;
/// The end of this many running jobs is simulated.
const SIMULATED_MAX: usize = 5;
/// Ended jobs that are read at once, and the bytes of their records.
const PAGE: u32 = 1_000;
const PAGE_BYTES: usize = 4 << 20;
/// Ended jobs that are read, newest first.
const READ_MAX: usize = 200_000;

/// Returns jobs by the GPU time that they held without running kernels, most first. Jobs
/// without measured utilization are absent.
#[utoipa::path(
    get, path = "/waste", operation_id = "waste_list", params(WasteParams),
    responses(
        (status = 200, description = "Most idle GPU time first", body = List<WasteRow>),
        (status = 400, description = "A parameter is not valid", body = gpool_wire::Problem,
         content_type = "application/problem+json"),
        (status = 403, description = "Only admins can simulate", body = gpool_wire::Problem,
         content_type = "application/problem+json"),
    )
)]
pub(crate) async fn list(
    State(api): State<Api>,
    Asks(asker): Asks,
    Params(params): Params<WasteParams>,
) -> Result<Json<List<WasteRow>>, ApiError> {
    let is_simulated = params.sooner.unwrap_or(false);
    if is_simulated && !asker.caller.admin {
        let what = "simulate changes".to_owned();
        let by = gpool_model::refusal::Permitted::Admin;
        return Err(Refusal::NotPermitted { what, by }.into());
    }
    let n_rows = listing::limit(Some(params.limit.unwrap_or(ROWS)))?;
    let since = params.since.map_or_else(|| before(now(), WEEK), |time| time.0);
    let uid = asker.caller.owner.uid;
    let running =
        |view: &View<'_>| wasted::running(view.world.jobs().values().map(|row| &**row), view.now);
    let running = api.handle.look(uid, Age::New, running).await?;
    let handle = api.handle.clone();
    let read = move || {
        let mut all = wasted::measured(&handle.shared.insight.usage, running)?;
        all.extend(ended(&handle.open_reader()?, since, n_rows)?);
        largest(&mut all, n_rows);
        Ok::<_, Refusal>(all)
    };
    let wasted = api.handle.run_slow(uid, read).await?;
    let mut rows = Vec::with_capacity(wasted.len());
    for it in wasted {
        match found::find(&api, it.job).await {
            Ok(found) => {
                let now = now();
                let parts = idle_parts(&api, uid, &found, now).await?;
                let job = found.for_caller(&asker, now);
                let mut row = WasteRow::new(job, it.utilization, Time(now));
                let hours = |part: f64| part * row.idle_gpu_hours;
                row.idle_parts = parts.map(|it| IdleParts {
                    start: hours(it.start),
                    between: hours(it.between),
                    tail: hours(it.tail),
                    dead: hours(it.dead),
                });
                rows.push(row);
            }
            // It may have left the archive in between.
            Err(Refusal::NoSuchJob { .. }) => {}
            Err(refusal) => return Err(refusal.into()),
        }
    }
    if is_simulated {
        add_sooner(&api, &asker, &mut rows).await?;
    }
    Ok(Json(List::new(rows)))
}

/// When a job did not use its GPUs.
async fn idle_parts(
    api: &Api,
    uid: u32,
    found: &FoundJob,
    now: Timestamp,
) -> Result<Option<idle::IdleParts>, Refusal> {
    let (range, ended) = match &found.job.phase {
        Phase::Ended(end) => {
            let ended = match end.outcome {
                Outcome::Succeeded | Outcome::Failed => JobOutcome::ByItself,
                Outcome::Cancelled | Outcome::TimedOut | Outcome::Lost => JobOutcome::ByOthers,
            };
            (end.started_at.map(|at| (at, end.ended_at)), ended)
        }
        _ => (found.job.started_at().map(|at| (at, now)), JobOutcome::Runs),
    };
    let Some(range) = range.filter(|_| found.job.array.is_none()) else { return Ok(None) };
    let (handle, id) = (api.handle.clone(), found.job.id.to_string());
    let read = move || handle.shared.insight.usage.idle_of_job(&id, range, ended);
    api.handle.run_slow(uid, read).await
}

/// The ended jobs with the most idle GPU time.
fn ended(reader: &Reader, since: Timestamp, n_rows: usize) -> Result<Vec<Wasted>, Refusal> {
    let mut filter = ArchiveFilter {
        since: Some(since),
        limit: PAGE,
        bytes_max: Some(PAGE_BYTES),
        ..ArchiveFilter::default()
    };
    let (mut all, mut n_read) = (Vec::new(), 0);
    loop {
        let rows = reader.archive(&filter).map_err(internal)?;
        let Some(last) = rows.last().filter(|_| n_read < READ_MAX) else { return Ok(all) };
        filter.before = Some(last.job);
        n_read += rows.len();
        for row in &rows {
            all.extend(Wasted::of_ended(&codec::decode_ended(row).map_err(internal)?));
        }
        largest(&mut all, n_rows);
    }
}

/// Adds the jobs that would start now if each of the first running jobs ended.
async fn add_sooner(api: &Api, asker: &Arc<Asker>, rows: &mut [WasteRow]) -> Result<(), Refusal> {
    let running = rows.iter_mut().filter(|row| row.job.run.ended_at.is_none()).take(SIMULATED_MAX);
    let mut running: BTreeMap<String, &mut WasteRow> =
        running.map(|row| (row.job.id.clone(), row)).collect();
    let supposed = running.keys().map(|job| vec![format!("cancel {job}")]).collect();
    let simulations = simulate::each(api, asker, supposed).await?;
    for (row, simulation) in running.values_mut().zip(simulations) {
        let starts = simulation.jobs.iter().filter(|it| it.what == "starts");
        row.sooner = Some(starts.map(|it| it.id.clone()).collect());
    }
    Ok(())
}
