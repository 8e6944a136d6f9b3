//! Simulates hypothetical changes: runs the state machine forward on a copy of the state.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::Response;
use gpool_control::forecast::{self, Fate, ForecastInput, Outlook, WORTHWHILE};
use gpool_control::project_tree;
use gpool_model::job::JobState;
use gpool_model::{
    Caller, JobId, JobSpec, MilliGpu, Millis, NewJob, ProjectName, Refusal, ResourceKind, Timestamp,
};
use gpool_sched::Explainer;
use gpool_wire::{
    Document, JobCreate, SimulateAsk, SimulatedFate, SimulatedJob, SimulatedProject,
    SimulatedShare, Simulation, Time,
};
use gpool_world::{Snapshot, World};

use super::asker::{Asker, Asks};
use super::audit::without_entry;
use super::extract::{ApiError, JsonBody};
use super::submit::checked;
use super::{context, simulated};
use crate::api::Api;
use gpool_insight::otherwise;
use gpool_server::fault::internal;
use gpool_server::handle::Age;

/// Number of changed jobs that an answer names.
const NAMED_MAX: usize = 1000;

/// Simulates changes without making them.
#[utoipa::path(
    post, path = "/simulate", operation_id = "simulate", request_body = SimulateAsk,
    responses(
        (status = 200, description = "The effects", body = Document<Simulation>),
        (status = 400, description = "A change is not valid", body = gpool_wire::Problem,
         content_type = "application/problem+json"),
        (status = 403, description = "Only for admins", body = gpool_wire::Problem,
         content_type = "application/problem+json"),
    )
)]
pub(crate) async fn simulate(
    State(api): State<Api>,
    Asks(asker): Asks,
    JsonBody(ask): JsonBody<SimulateAsk>,
) -> Result<Response, ApiError> {
    let (until, window) = (ask.horizon()?, ask.window()?);
    let (uid, texts) = (asker.caller.owner.uid, ask.supposed.clone());
    let mut made = all(&api, asker, vec![ask.supposed], until).await?;
    let mut made = made.pop().expect("each list of changes has a simulation");
    if let Some(window) = window {
        let handle = api.handle.clone();
        let work = move || simulated::of_past(&handle.open_reader()?, window, &texts);
        made.past = Some(api.handle.run_slow(uid, work).await?);
    }
    Ok(without_entry(Json(Document::new(made))))
}

/// Simulates the present moment with each of these lists of changes, one after the other from the
/// same state.
pub(super) async fn each(
    api: &Api,
    asker: &Arc<Asker>,
    supposed: Vec<Vec<String>>,
) -> Result<Vec<Simulation>, Refusal> {
    all(api, Arc::clone(asker), supposed, None).await
}

async fn all(
    api: &Api,
    asker: Arc<Asker>,
    texts: Vec<Vec<String>>,
    until: Option<Millis>,
) -> Result<Vec<Simulation>, Refusal> {
    let supposed = texts.iter().map(|texts| otherwise::read(texts));
    let supposed = supposed.collect::<Result<Vec<_>, _>>()?;
    let uid = asker.caller.owner.uid;
    let part = api.handle.look(uid, Age::New, |view| {
        let snapshot = Snapshot { world: view.world, now: view.now };
        ForecastInput::of(&snapshot, forecast::JOBS_MAX, None)
    });
    let part = part.await?;
    let work = move || {
        let new_job = |job: &JobCreate| new_jobs(job, &asker);
        let caller = &asker.caller;
        let before = of(&part, caller, &[], until)?;
        let simulate = |(texts, supposed): (Vec<String>, _)| {
            let otherwise = otherwise::resolve(supposed, &part.excerpt.nodes, new_job)?;
            let changes: Vec<_> = otherwise.iter().map(|(_, change)| change.clone()).collect();
            let after = match changes.is_empty() {
                true => None,
                false => Some(of(&part, caller, &changes, until)?),
            };
            Ok::<_, Refusal>(compare(&part, &before, after.as_ref(), &texts, until))
        };
        texts.into_iter().zip(supposed).map(simulate).collect()
    };
    api.handle.run_slow(uid, work).await
}

fn new_jobs(job: &JobCreate, asker: &Asker) -> Result<Vec<NewJob>, Refusal> {
    Ok(context::not_stored(checked(job, asker, None)?))
}

fn of(
    part: &ForecastInput,
    caller: &Caller,
    changes: &[forecast::Otherwise],
    until: Option<Millis>,
) -> Result<Outlook, Refusal> {
    let outlook =
        forecast::outlook(part, caller, changes, until).map_err(|(_, refusal)| refusal)?;
    match outlook.is_broken {
        true => Err(internal(
            "a plan of the simulation violated an invariant; please report it with the file of \
             gpool debug dump",
        )),
        false => Ok(outlook),
    }
}

/// The simulated outcome of a job, and its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Becomes {
    Runs,
    Starts(Timestamp),
    TakenBack(Timestamp),
    Stopped(Timestamp),
    Waits,
    Held,
    Ends(Timestamp),
}

impl Becomes {
    fn of(fate: &Fate, reach: Timestamp) -> Self {
        let held_something = fate.was.is_some_and(|was| {
            matches!(was, JobState::Starting | JobState::Running | JobState::Stopping)
        });
        match (fate.starts, fate.stops, fate.is) {
            (_, Some(at), Some(_)) if held_something => Self::TakenBack(at),
            (_, Some(at), None) if held_something => Self::Stopped(at),
            (Some(at), _, _) => Self::Starts(at),
            (None, _, None) => Self::Ends(fate.ends.unwrap_or(reach)),
            (None, _, Some(JobState::Held)) => Self::Held,
            (None, _, Some(JobState::Pending | JobState::Waiting)) => Self::Waits,
            (None, _, Some(_)) => Self::Runs,
        }
    }

    fn word(self) -> &'static str {
        match self {
            Self::Runs => "runs",
            Self::Starts(_) => "starts",
            Self::TakenBack(_) => "taken_back",
            Self::Stopped(_) => "stopped",
            Self::Waits => "waits",
            Self::Held => "held",
            Self::Ends(_) => "ends",
        }
    }

    fn simulated_fate(self) -> SimulatedFate {
        let at = match self {
            Self::Starts(at) | Self::TakenBack(at) | Self::Stopped(at) | Self::Ends(at) => {
                Some(Time(at))
            }
            Self::Runs | Self::Waits | Self::Held => None,
        };
        SimulatedFate { is: self.word().to_owned(), at }
    }
}

/// Returns how a job's outcome changes; `None` if it does not.
fn change(before: Option<Becomes>, after: Becomes) -> Option<&'static str> {
    match (before, after) {
        (Some(Becomes::Starts(was)), Becomes::Starts(is)) if is.since(was) > WORTHWHILE => {
            Some("later")
        }
        (Some(Becomes::Starts(was)), Becomes::Starts(is)) if was.since(is) > WORTHWHILE => {
            Some("sooner")
        }
        (Some(was), is) if was.word() == is.word() => None,
        (Some(Becomes::TakenBack(_)), Becomes::Runs) => Some("kept"),
        (Some(Becomes::Ends(_)), Becomes::Runs) | (Some(Becomes::Runs), Becomes::Ends(_)) => None,
        (_, is) => Some(is.word()),
    }
}

fn compare(
    part: &ForecastInput,
    before: &Outlook,
    after: Option<&Outlook>,
    supposed: &[String],
    until: Option<Millis>,
) -> Simulation {
    let end = after.unwrap_or(before);
    let snapshot = Snapshot { world: &end.world, now: end.reach };
    let explainer = Explainer::new(snapshot, end.world.policy());
    let mut touched: Vec<(JobId, &'static str, Option<Becomes>, Becomes)> = Vec::new();
    for (id, fate) in end.fates.iter().filter(|(id, _)| is_told(part, **id)) {
        let was = before.fates.get(id).map(|fate| Becomes::of(fate, before.reach));
        let is = Becomes::of(fate, end.reach);
        let what = match after {
            Some(_) => change(was, is),
            None => Some(is.word()).filter(|_| !matches!(is, Becomes::Runs | Becomes::Held)),
        };
        touched.extend(what.map(|what| (*id, what, was, is)));
    }
    let rank = |what: &str| ORDER.iter().position(|word| *word == what);
    touched.sort_by_key(|(id, what, _, _)| (rank(what), *id));
    let n_touched = touched.len() as u64;
    let mut shown = |(id, what, was, is): (JobId, &'static str, Option<Becomes>, Becomes)| {
        let reason = end.world.job(id).filter(|_| is == Becomes::Waits).and_then(|row| {
            let reasons = explainer.briefly(row);
            reasons.first().map(gpool_wire::reason::reason_text)
        });
        let in_end = end.world.job(id).map(|row| &row.spec);
        let spec: &JobSpec = match part.excerpt.jobs.get(&id).map(|row| &row.spec).or(in_end) {
            Some(spec) => spec,
            None => return None,
        };
        Some(SimulatedJob {
            id: id.to_string(),
            name: spec.name.to_string(),
            user: spec.owner.user.to_string(),
            project: spec.project.to_string(),
            gpus: spec.gpus_written.to_string(),
            what: what.to_owned(),
            before: match after {
                Some(_) => was.map(Becomes::simulated_fate),
                None => Some(now(part, id)),
            },
            after: is.simulated_fate(),
            reason,
        })
    };
    let jobs = touched.into_iter().take(NAMED_MAX).filter_map(&mut shown).collect();
    Simulation {
        as_of: Time(part.now),
        until: until.map(|until| Time(part.now.after(until))),
        supposed: supposed.to_vec(),
        jobs,
        n_touched,
        projects: projects(part, before, after),
        n_beyond: part.n_beyond,
        queue: until.map(|until| simulated::of_queue(part, before, after, until)),
        past: None,
    }
}

/// Order of the outcomes in an answer.
const ORDER: [&str; 9] =
    ["taken_back", "stopped", "kept", "starts", "sooner", "later", "waits", "held", "ends"];

/// Lists an array element if it holds devices; otherwise its array.
fn is_told(part: &ForecastInput, id: JobId) -> bool {
    id.element.is_none() || part.excerpt.jobs.contains_key(&id)
}

/// Returns the current outcome of a job.
fn now(part: &ForecastInput, id: JobId) -> SimulatedFate {
    let state = part.excerpt.jobs.get(&id).map(|row| row.job.phase.state());
    let is = match state {
        Some(JobState::Held) => "held",
        Some(JobState::Pending | JobState::Waiting) | None => "waits",
        Some(_) => "runs",
    };
    SimulatedFate { is: is.to_owned(), at: None }
}

/// Returns quota and usage of every project: with supposed changes at the end of both simulations,
/// without them now and at the end.
fn projects(
    part: &ForecastInput,
    before: &Outlook,
    after: Option<&Outlook>,
) -> Vec<SimulatedProject> {
    let (was, is) = match after {
        Some(after) => (shares(&before.world, before.reach), shares(&after.world, after.reach)),
        None => (shares(&part.world(), part.now), shares(&before.world, before.reach)),
    };
    let names: std::collections::BTreeSet<&ProjectName> = was.keys().chain(is.keys()).collect();
    let none = SimulatedShare { guaranteed: Some(0.0), share: None, held: 0.0 };
    let of = |all: &BTreeMap<ProjectName, SimulatedShare>, name: &ProjectName| {
        all.get(name).cloned().unwrap_or_else(|| none.clone())
    };
    let project = |name: &ProjectName| SimulatedProject {
        project: name.to_string(),
        before: of(&was, name),
        after: of(&is, name),
    };
    names.into_iter().map(project).collect()
}

fn shares(world: &World, now: Timestamp) -> BTreeMap<ProjectName, SimulatedShare> {
    let snapshot = Snapshot { world, now };
    let gpus = gpool_wire::node::cores;
    let shares = gpool_sched::project_shares(&snapshot, world.policy());
    if !shares.is_empty() {
        let row = |share: gpool_sched::ProjectShare| {
            let account = share.account;
            let shown = SimulatedShare {
                guaranteed: account.for_good().finite().map(gpus),
                share: account.share.finite().map(gpus),
                held: gpus(account.held),
            };
            (share.project, shown)
        };
        return shares.into_iter().map(row).collect();
    }
    // Projects share no capacity: count the allocations of each.
    let mut held: BTreeMap<ProjectName, MilliGpu> = BTreeMap::new();
    for row in world.holding() {
        let Some(project) = world.projects().get(&row.spec.project) else { continue };
        let charge = row.job.phase.allocations().iter();
        let charge = charge.map(|it| MilliGpu::new(it.resources.get(&ResourceKind::Gpu)));
        let charge = charge.fold(MilliGpu::ZERO, MilliGpu::saturating_add);
        for above in project_tree::upwards(world.projects(), project) {
            let held = held.entry(above.name.clone()).or_insert(MilliGpu::ZERO);
            *held = held.saturating_add(charge);
        }
    }
    let row = |name: &ProjectName| {
        let held = held.get(name).map_or(0, |held| held.get());
        (name.clone(), SimulatedShare { guaranteed: None, share: None, held: gpus(held) })
    };
    world.projects().keys().map(row).collect()
}
