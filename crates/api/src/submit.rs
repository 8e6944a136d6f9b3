//! The route that submits one job.

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use gpool_control::forecast::{self, ForecastInput, Length};
use gpool_model::{Command, JobId, Likeness, NewJob, Reason, Refusal, Reply};
use gpool_wire::{CheckedJob, Delayed, Document, Eta, Forecast, Hint, JobCreate, json};
use gpool_world::Snapshot;
use serde::Deserialize;
use utoipa::IntoParams;

use super::asker::{Asker, Asks};
use super::audit::{KnownChange, with_change, without_entry};
use super::changes::Portion;
use super::context::{self, Contents, Files};
use super::extract::{ApiError, JsonBytes, Params, unexpected};
use super::idempotency::{key, key_name};
use super::way::Origin;
use super::{found, jobs};
use crate::api::Api;
use gpool_server::fault::internal;
use gpool_server::handle::{Age, CoreHandle};
use gpool_server::view::View;

/// Number of pending jobs that are checked for a delay by a new one.
const IMAGINED_MAX: usize = 500;
/// The search path of a login.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Query parameter for a dry run.
#[derive(Debug, Clone, Copy, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct DryRun {
    /// If true, returns the forecast without submitting the job.
    #[serde(default)]
    pub dry_run: bool,
}

/// Submits a job. The job is durable when the answer arrives. With `Idempotency-Key`, the server
/// answers a repeated request with 200 and does not repeat it, for a day.
#[utoipa::path(
    post, path = "/jobs", operation_id = "jobs_create", request_body = JobCreate,
    params(
        DryRun,
        ("Idempotency-Key" = Option<String>, Header, description = "A unique name of this request"),
    ),
    responses(
        (status = 201, description = "The job", body = Document<gpool_wire::Job>),
        (status = 200, description = "With dry_run: the forecast; for a repeated \
         request: the job", body = crate::document::shapes::ForecastOrJob),
        (status = 400, description = "A field is not valid", body = gpool_wire::Problem,
         content_type = "application/problem+json"),
        (status = 403, description = "Not permitted", body = gpool_wire::Problem,
         content_type = "application/problem+json"),
        (status = 409, description = "The key was used for another request",
         body = gpool_wire::Problem, content_type = "application/problem+json"),
        (status = 422, description = "No node could ever run it", body = gpool_wire::Problem,
         content_type = "application/problem+json"),
        (status = 429, description = "The user has too many jobs, or too much stored for them",
         body = gpool_wire::Problem, content_type = "application/problem+json"),
        (status = 507, description = "The server can't store more", body = gpool_wire::Problem,
         content_type = "application/problem+json"),
    )
)]
pub(crate) async fn create(
    State(api): State<Api>,
    Asks(asker): Asks,
    Params(DryRun { dry_run }): Params<DryRun>,
    headers: HeaderMap,
    portion: Portion,
    JsonBytes(body): JsonBytes,
) -> Result<Response, ApiError> {
    let key = key_name(&headers)?.map(|name| key(name, blake3::hash(&body)));
    let job: JobCreate = json::read(&body)?;
    let mut checked = checked(&job, &asker, Some(&api.handle))?;
    portion.take_runs(checked.n_runs())?;
    if dry_run {
        return forecast(&api, &asker, checked).await;
    }
    let mut files = Files::new(api.handle.clone(), asker.caller.owner.uid);
    let contents = Contents::of(&mut checked, asker.limits(), &files)?;
    let are_known = contents.are_known(&files);
    let store = move || {
        let jobs = contents.store(&mut files, checked);
        portion.correct(body.len() as u64, files.take_sizes());
        jobs.map(|jobs| (files, jobs))
    };
    let (files, jobs) = match are_known {
        true => store()?,
        false => tokio::task::spawn_blocking(store).await.map_err(internal)??,
    };
    let command =
        Command::Submit { jobs, key, ends: Vec::new(), array_ends: Vec::new(), dry_run: false };
    let look = |view: &View<'_>, reply: &Reply| {
        let id = submitted(reply)?;
        Some((found::living(view, id)?, hint(view, id)))
    };
    let (reply, seen) =
        files.command_and_look(asker.caller.clone(), command, look).await.map_err(of_one)?;
    match (submitted(&reply), reply) {
        (Some(id), Reply::Submitted { repeated, .. }) => {
            let (found, hint) = match seen.flatten() {
                Some((found, hint)) => (found.with_eta(&api), hint),
                // A repeated request, and the job has ended.
                None => (found::find(&api, id).await?, None),
            };
            let change = KnownChange::job(id, found.job.phase.state());
            let mut answer = jobs::answer_of(&api, &asker, found, Vec::from_iter(hint)).await?;
            *answer.status_mut() = if repeated { StatusCode::OK } else { StatusCode::CREATED };
            Ok(if repeated { without_entry(answer) } else { with_change(answer, change) })
        }
        (_, other) => Err(unexpected(&other)),
    }
}

/// The job of an answered submission.
fn submitted(reply: &Reply) -> Option<JobId> {
    match reply {
        // The setup job comes first.
        Reply::Submitted { first, n_jobs, .. } => Some(JobId::single(first.0 + n_jobs - 1)),
        _ => None,
    }
}

/// A suggestion from earlier runs of jobs like this one.
fn hint(view: &View<'_>, id: JobId) -> Option<Hint> {
    let spec = &view.world.job(id)?.spec;
    let enough = view.world.enough_memory(spec)?;
    Some(Hint::of_earlier_runs(&spec.name, &enough))
}

async fn forecast(api: &Api, asker: &Asker, checked: CheckedJob) -> Result<Response, ApiError> {
    let mut jobs = context::not_stored(checked);
    let command = Command::Submit {
        jobs: jobs.clone(),
        key: None,
        ends: Vec::new(),
        array_ends: Vec::new(),
        dry_run: true,
    };
    match api.handle.command(asker.caller.clone(), command).await.map_err(of_one)? {
        Reply::WouldSubmit { forecasts } => match forecasts.last() {
            Some(forecast) => {
                // The begin time that follows from the starts of archived jobs.
                let begin = forecast.reasons.iter().find_map(|reason| match reason {
                    Reason::BeginTime { at } => Some(*at),
                    _ => None,
                });
                if let Some(job) = jobs.last_mut() {
                    job.life.begin = job.life.begin.max(begin);
                }
                let mut forecast = Forecast::from(forecast);
                imagine(api, asker, jobs, &mut forecast).await?;
                Ok(without_entry(Json(Document::new(forecast))))
            }
            None => Err(internal("one job has no forecast").into()),
        },
        other => Err(unexpected(&other)),
    }
}

/// Simulates the queue with and without the jobs.
async fn imagine(
    api: &Api,
    asker: &Asker,
    mut jobs: Vec<NewJob>,
    into: &mut Forecast,
) -> Result<(), Refusal> {
    let (uid, asked) = (asker.caller.owner.uid, jobs.clone());
    let taken = api.handle.look(uid, Age::New, move |view| {
        let snapshot = Snapshot { world: view.world, now: view.now };
        let part = ForecastInput::of(&snapshot, IMAGINED_MAX, None);
        let length = |job: &NewJob| {
            let like = Likeness::named(uid, job.project.clone(), &job.name);
            Length::whole(job.time_limit, job.grace, view.world.prediction_like(&like))
        };
        let lengths: Vec<Length> = asked.iter().map(length).collect();
        let is_known = |id: &JobId| !view.world.is_live(*id) || part.is_live(*id);
        let mut awaited = asked.iter().flat_map(|job| &job.after).map(|after| after.job);
        awaited.all(|id| is_known(&id)).then_some((part, lengths))
    });
    // The excerpt does not contain the dependencies.
    let Some((part, lengths)) = taken.await? else { return Ok(()) };
    // Ended dependencies were already checked.
    for job in &mut jobs {
        job.after.retain(|after| part.is_live(after.job));
    }
    let (caller, learnt) = (asker.caller.clone(), api.handle.calibrator());
    let work = move || {
        let made = forecast::imagine(&part, &caller, &jobs, &lengths, IMAGINED_MAX, &learnt);
        Ok((part, made))
    };
    let (part, made) = api.handle.run_slow(uid, work).await?;
    into.eta = made.eta.map(|eta| Eta::new(eta, part.now));
    let delayed = |delay: &forecast::Delay| {
        let row = part.excerpt.jobs.get(&delay.job)?;
        Some(Delayed {
            job: delay.job.to_string(),
            user: row.spec.owner.user.to_string(),
            by_s: gpool_wire::time::seconds(delay.by),
        })
    };
    into.delays = made.delays.iter().filter_map(delayed).collect();
    Ok(())
}

/// Returns the refusal itself; it does not matter if it is for the job or its setup job.
fn of_one(refusal: Refusal) -> Refusal {
    match refusal {
        Refusal::OfJob { refusal, .. } => *refusal,
        other => other,
    }
}

/// Returns a job as requested; without notification rules of its own it gets the default ones.
pub(crate) fn checked(
    job: &JobCreate,
    asker: &Asker,
    handle: Option<&CoreHandle>,
) -> Result<CheckedJob, Refusal> {
    let mut checked = job.check(&asker.home)?;
    if asker.way.origin != Origin::Socket {
        add_account(&mut checked, asker);
    }
    let Some(handle) = handle else { return Ok(checked) };
    let (secrets, uid) = (&handle.shared.identities.secrets, asker.caller.owner.uid);
    if let Some(name) = checked.secret_names().find(|name| !secrets.has(uid, name)) {
        return Err(Refusal::NoSuchSecret { name: name.to_owned() });
    }

    if let Some(upload) = &job.upload {
        handle.files().check_upload(asker.caller.owner.uid, upload)?;
    }
    if job.notify.is_empty() {
        return Ok(checked.told_to(handle.usual_notify()));
    }
    handle.check_notify(&asker.caller, checked.notify())?;
    Ok(checked)
}

/// Adds the variables of a login to a job of another machine or of a form.
fn add_account(checked: &mut CheckedJob, asker: &Asker) {
    let user = &*asker.caller.owner.user;
    let usual = [("HOME", &*asker.home), ("USER", user), ("LOGNAME", user), ("PATH", PATH)];
    for (name, value) in usual {
        checked.environment.entry(name.into()).or_insert_with(|| value.into());
    }
}
