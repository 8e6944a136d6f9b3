//! Jobs: one by ID, lists, and edits.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::http::header::ETAG;
use axum::response::{IntoResponse, Response};
use gpool_control::forecast::{Length, Pace};
use gpool_model::record::EndedJob;
use gpool_model::{
    Allocation, Command, Job, JobId, JobRequest, JobSpec, Millis, Node, Phase, Reason, Refusal,
    Slot, Timestamp,
};
use gpool_wire::array::Elements;
use gpool_wire::cost::Cost;
use gpool_wire::live_usage::LiveUsage;
use gpool_wire::show::Shown;
use gpool_wire::time::seconds;
use gpool_wire::{Document, Hint, JobPatch, LogFiles, Time};

use gpool_world::JobRow;

use super::asker::{Asker, Asks};
use super::changes::Portion;
use super::context::Files;
use super::extract::{ApiError, JsonBody, Params, Segment, header, job_id};
use super::listing::{self, ListParams};
use super::{Api, logs};
use crate::fault::internal;
use crate::output::kept_until;
use crate::view::View;
use crate::{elements, environments};

/// A job with its reasons for waiting.
pub(crate) struct Found {
    pub spec: Arc<JobSpec>,
    pub job: Job,
    pub reasons: Vec<Reason>,
    /// How many reasons there are beyond these.
    pub n_more_reasons: u64,
    /// When it will likely start, and when that was worked out.
    pub eta: Option<(gpool_model::Eta, Timestamp)>,
    /// Its planned start.
    pub planned_at: Option<Timestamp>,
    /// How long it will likely run from now or from its start.
    pub expected_run: Option<Millis>,
    /// Of a living array: its elements together.
    pub elements: Option<Elements>,
    /// The nodes on which it shares devices.
    pub nodes: Vec<Node>,
    /// How long it has at most to save and to end when it is taken back.
    pub save_time_max: Option<Millis>,
}

impl Found {
    /// A job or element of an array, with its reasons to wait and the number of further reasons.
    pub fn waiting(row: &JobRow, (reasons, n_more_reasons): (Vec<Reason>, u64)) -> Self {
        let (spec, job) = (Arc::clone(&row.spec), row.job.clone());
        Self {
            spec,
            job,
            reasons,
            n_more_reasons,
            eta: None,
            planned_at: None,
            expected_run: None,
            elements: None,
            nodes: Vec::new(),
            save_time_max: None,
        }
    }

    /// A job that has ended.
    pub fn of_ended(ended: EndedJob) -> Self {
        Self::waiting(&JobRow { spec: ended.spec, job: ended.job }, (Vec::new(), 0))
    }

    /// The same, with the last forecast of its start.
    pub fn with_eta(self, api: &Api) -> Self {
        Self { eta: api.handle.eta_of(&self.job), ..self }
    }

    /// Whether the job, or an element of it, may have run.
    fn has_run(&self) -> bool {
        let waits = matches!(
            self.job.phase,
            Phase::Waiting { .. }
                | Phase::Held { .. }
                | Phase::Pending { .. }
                | Phase::Starting { .. }
        );
        !waits || !self.job.course.past.is_empty() || self.job.array.is_some()
    }

    /// Returns the parts that the caller may see.
    pub fn shown(self, asker: &Asker, now: Timestamp) -> gpool_wire::Job {
        let private = !asker.may_see(self.spec.owner.uid);
        let Self { elements, reasons, n_more_reasons, eta, nodes, save_time_max, .. } = self;
        let shown = Shown { elements, reasons, n_more_reasons, private, eta, nodes, save_time_max };
        let mut job = gpool_wire::Job::new(&self.spec, &self.job, now, &shown);
        if let Some(eta) = &mut job.eta {
            eta.planned_at = self.planned_at.map(Time);
        }
        job.expected_run_s = self.expected_run.map(seconds);
        job
    }
}

/// How long a job will likely run by the runs of jobs like it, as forecasts assume.
pub(crate) fn expected_run(view: &View<'_>, row: &JobRow) -> Option<Millis> {
    let like = view.world.prediction(&row.spec)?;
    Some(Length::of(row, Some(like), view.now).at(Pace::Middle))
}

/// The nodes on which a job shares devices, so that it may use others than it booked, or is idle or
/// stalled.
pub(crate) fn shared_nodes(view: &View<'_>, row: &JobRow) -> Vec<Node> {
    let shares = |slot: &Slot| !slot.part.is_alone();
    let told_of = |it: &Allocation| {
        let node = &view.world.node(&it.node)?.node;
        let tells = it.slots.iter().any(shares)
            || node.idle_since(it.task).is_some()
            || node.stalled(it.task).is_some();
        tells.then(|| node.clone())
    };
    row.job.phase.allocations().iter().filter_map(told_of).collect()
}

/// A job, or an element of an array, that has not ended.
pub(crate) fn living(view: &View<'_>, id: JobId) -> Option<Found> {
    let row = view.world.row_for(id)?;
    let explainer = view.explainer();
    let own = (row.job.id != id).then(|| elements::alone(row, id));
    let reasons = match &own {
        Some(own) if matches!(own.job.phase, Phase::Waiting { .. }) => own,
        _ => row,
    };
    let reasons = explainer.decisive(reasons, Reason::LISTED_MAX);
    let elements = elements::together(view.world, row, view.now).filter(|_| own.is_none());
    let row = own.as_ref().unwrap_or(row);
    let planned_at = view.planned_at(id);
    let save_time_max = Some(view.world.save_time_max(&row.spec.project));
    let found = Found::waiting(row, reasons);
    let (nodes, expected_run) = (shared_nodes(view, row), expected_run(view, row));
    Some(Found { planned_at, elements, nodes, expected_run, save_time_max, ..found })
}

/// A job, or an element of an array, living or ended.
pub(crate) async fn find(api: &Api, id: JobId) -> Result<Found, Refusal> {
    if let Some(found) = api.handle.query(move |view| living(view, id)).await? {
        return Ok(found.with_eta(api));
    }
    // The view is of durable state, so a job that is not live is in the archive.
    let ended = api.handle.archived(id).await?.ok_or(Refusal::NoSuchJob { id })?;
    Ok(Found::of_ended(ended))
}

/// One job as the answer to a request, with its version as the tag.
pub(crate) async fn answer(api: &Api, asker: &Asker, id: JobId) -> Result<Response, ApiError> {
    let found = find(api, id).await?;
    answer_of(api, asker, found, Vec::new()).await
}

/// The same of a job that was found, with suggestions for the next request.
pub(crate) async fn answer_of(
    api: &Api,
    asker: &Asker,
    found: Found,
    hints: Vec<Hint>,
) -> Result<Response, ApiError> {
    let tag = format!("\"{}\"", found.job.version);
    let spec = found.spec.clone();
    let kept_until = kept_until(&found.job.phase, api.handle.shared.keep_output);
    let retry = retry_until(api, &found).await?;
    // Nothing else has these, and to look takes longer than the whole submission of a job.
    let course = match found.has_run() {
        true => Course::of(api, asker, &found).await?,
        false => Course::default(),
    };
    let mut job = found.shown(asker, crate::clock::now());
    (job.metrics, job.logs) = (course.metrics, course.logs);
    (job.live, job.cost) = (course.live, course.cost);
    job.hints = hints;
    job.output_kept_until = kept_until.map(gpool_wire::Time);
    (job.can_retry, job.retry_until) = retry;
    if job.element.is_some() && !job.private {
        let values = spec.array.as_ref().and_then(|array| array.values.as_ref());
        super::elements::add_values(api, values, std::slice::from_mut(&mut job)).await?;
    }
    Ok(([(ETAG, tag)], Json(Document::new(job))).into_response())
}

/// What a job has had and left since it first ran.
#[derive(Default)]
struct Course {
    metrics: BTreeMap<String, f64>,
    logs: Option<LogFiles>,
    live: Option<LiveUsage>,
    cost: Vec<Cost>,
}

impl Course {
    async fn of(api: &Api, asker: &Asker, found: &Found) -> Result<Self, Refusal> {
        let uid = asker.caller.owner.uid;
        let logs = match asker.may_see(found.spec.owner.uid) {
            true => logs::paths(api, found).await.filter(|it| *it != LogFiles::default()),
            false => None,
        };
        let cost = super::cost::of_job(api, uid, found).await?;
        let live = live_usage(api, uid, found).await?;
        let metrics = super::job_metrics::last(api, asker, found).await?;
        Ok(Self { metrics, logs, live, cost })
    }
}

/// What a running job has used so far.
pub(super) async fn live_usage(
    api: &Api,
    uid: u32,
    found: &Found,
) -> Result<Option<LiveUsage>, Refusal> {
    let Phase::Running { allocations, .. } = &found.job.phase else { return Ok(None) };
    let (handle, allocations) = (api.handle.clone(), allocations.clone());
    let look = move || Ok(LiveUsage::of_tasks(&handle.live_usage(&allocations)));
    api.handle.beside(uid, look).await
}

/// Whether a job that has ended can be run again, and until when at least.
async fn retry_until(
    api: &Api,
    found: &Found,
) -> Result<(Option<bool>, Option<gpool_wire::Time>), Refusal> {
    let keep = api.handle.shared.keep_environment;
    let Some(until) = environments::kept_until(&found.job.phase, keep) else {
        return Ok((None, None));
    };
    let (handle, spec) = (api.handle.clone(), found.spec.clone());
    let look = move || environments::are_there(&handle, &spec);
    let can_retry = tokio::task::spawn_blocking(look).await.map_err(internal)?;
    Ok((Some(can_retry), can_retry.then_some(gpool_wire::Time(until))))
}

/// Lists jobs: first those that have not ended, by id, then ended ones, newest first.
#[utoipa::path(
    get, path = "/jobs", operation_id = "jobs_list", params(ListParams),
    responses(
        (status = 200, description = "A page of jobs of at most 8 MiB; it may have fewer jobs than \
                                      the limit",
         body = gpool_wire::List<gpool_wire::Job>),
        (status = 400, description = "A parameter is not valid", body = gpool_wire::Problem,
         content_type = "application/problem+json"),
    )
)]
pub(crate) async fn list(
    State(api): State<Api>,
    Asks(asker): Asks,
    Params(params): Params<ListParams>,
) -> Result<Response, ApiError> {
    listing::page(&api, &asker, params).await
}

/// Returns a job.
#[utoipa::path(
    get, path = "/jobs/{id}", operation_id = "jobs_get",
    params(("id" = String, Path, description = "The job")),
    responses(
        (status = 200, description = "The job", body = Document<gpool_wire::Job>,
         headers(("ETag" = String, description = "The version, for If-Match"))),
        (status = 404, description = "There is no such job", body = gpool_wire::Problem,
         content_type = "application/problem+json"),
    )
)]
pub(crate) async fn get(
    State(api): State<Api>,
    Asks(asker): Asks,
    Segment(id): Segment,
) -> Result<Response, ApiError> {
    answer(&api, &asker, job_id(&id)?).await
}

/// Edits a job that has not ended; with `If-Match`, only if the job has that version.
#[utoipa::path(
    patch, path = "/jobs/{id}", operation_id = "jobs_edit", request_body = JobPatch,
    params(
        ("id" = String, Path, description = "The job"),
        ("If-Match" = Option<String>, Header, description = "The version that the job must have"),
    ),
    responses(
        (status = 200, description = "The job after the change", body = Document<gpool_wire::Job>),
        (status = 403, description = "The job belongs to another user", body = gpool_wire::Problem,
         content_type = "application/problem+json"),
        (status = 409, description = "The job has ended", body = gpool_wire::Problem,
         content_type = "application/problem+json"),
        (status = 412, description = "Another request changed it first", body = gpool_wire::Problem,
         content_type = "application/problem+json"),
    )
)]
pub(crate) async fn edit(
    State(api): State<Api>,
    Asks(asker): Asks,
    Segment(id): Segment,
    headers: HeaderMap,
    portion: Portion,
    JsonBody(patch): JsonBody<JobPatch>,
) -> Result<Response, ApiError> {
    let job = job_id(&id)?;
    let mut version = header(&headers, "if-match").map(version_of).transpose()?.flatten();
    let mut checked = patch.check()?;
    let (script, environment) = (checked.script.take(), std::mem::take(&mut checked.environment));
    let context = match environment.is_empty() {
        true => None,
        false => {
            let found = find(&api, job).await?;
            // Of two changes at the same time, the second would undo the first.
            version = version.or(Some(found.job.version.0));
            Some(found.spec.context.clone())
        }
    };
    let mut files = Files::new(api.handle.clone(), asker.caller.owner.uid);
    let of_files = portion.clone();
    let store = move || -> Result<_, Refusal> {
        let script = script.map(|script| files.put(&script.bytes)).transpose()?;
        let context = context.map(|old| files.put_changed(&old, &environment)).transpose()?;
        of_files.correct(0, files.take_sizes());
        Ok((files, script, context))
    };
    let (files, script, context) = tokio::task::spawn_blocking(store).await.map_err(internal)??;
    let patch = checked.into_patch(script, context);
    api.handle.check_notify(&asker.caller, &patch.to.standing.notify)?;
    if patch.to.life.retry.is_some() {
        // All of them may come from now on.
        let spec = find(&api, job).await?.spec;
        let again = JobRequest { life: patch.to.life.clone(), ..spec.request.clone() };
        portion.take_runs(again.n_runs())?;
    }
    let command = Command::Edit { job, version, patch, ends: Vec::new() };
    files.command(asker.caller.clone(), command).await?;
    answer(&api, &asker, job).await
}

/// The version in a tag; `None` for `*`, which any will do.
pub(crate) fn version_of(tag: &str) -> Result<Option<u64>, Refusal> {
    if tag.trim() == "*" {
        return Ok(None);
    }
    let digits = tag.trim().trim_matches('"');
    digits.parse().map(Some).map_err(|_| Refusal::Invalid {
        field: "If-Match".to_owned(),
        why: "it is not a version; send the ETag of the last read: \"3\"".to_owned(),
    })
}
