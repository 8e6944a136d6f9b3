//! Why a job waits, when it will likely start, and what would let it start sooner.

use axum::Json;
use axum::extract::State;
use gpool_control::forecast::{
    self, Calibrator, Estimate, ForecastInput, LengthSource, Requester, Tried,
};
use gpool_control::project_tree;
use gpool_model::node::Remap;
use gpool_model::{Holder, JobId, NodeName, PauseCause, Phase, Reason, SlotPart, Timestamp};
use gpool_sched::Explainer;
use gpool_wire::{Ahead, Alternative, Document, Eta, Frees, Place, Time, Why, alternative};
use gpool_world::{JobRow, Snapshot};
use serde::Deserialize;
use utoipa::IntoParams;

use super::asker::Asks;
use super::extract::{ApiError, Params, Segment, job_id};
use super::found::{self, FoundJob};
use super::{life, why_nodes};
use crate::api::Api;
use gpool_server::elements;
use gpool_server::handle::Age;
use gpool_server::lost;
use gpool_server::view::View;

/// Maximum number of earlier jobs in the queue for simulating alternatives; a longer queue would
/// take too long.
const AHEAD_MAX: usize = 200;
/// Number of starts that one estimate simulates.
const STARTS_MAX: usize = 2 * AHEAD_MAX;
/// Number of earlier jobs in the queue that the answer names.
const AHEAD_NAMED: usize = 3;

#[derive(Debug, Clone, Copy, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct WhyParams {
    /// If true (default), simulates each alternative.
    #[serde(default = "yes")]
    pub alternatives: bool,
}

fn yes() -> bool {
    true
}

/// Explains why a job waits: all reasons, the decisive ones first; the usable devices of each node,
/// with the jobs that hold them and until when; the expected start; and changes that would let the
/// job start sooner. For a job that does not wait, lists its events.
#[utoipa::path(
    get, path = "/jobs/{id}/why", operation_id = "jobs_why",
    params(("id" = String, Path, description = "The job"), WhyParams),
    responses(
        (status = 200, description = "The reasons; empty if the job does not wait",
         body = Document<Why>),
        (status = 404, description = "There is no such job", body = gpool_wire::Problem,
         content_type = "application/problem+json"),
    )
)]
pub(crate) async fn get(
    State(api): State<Api>,
    Asks(asker): Asks,
    Segment(id): Segment,
    Params(WhyParams { alternatives }): Params<WhyParams>,
) -> Result<Json<Document<Why>>, ApiError> {
    let id = job_id(&id)?;
    let now = gpool_server::clock::now();
    let caller = asker.caller.clone();
    let uid = asker.caller.owner.uid;
    let learnt = api.handle.calibrator();
    // Runs outside the core: a job can have very many jobs before it.
    let look = move |view: &View<'_>| {
        let mut explained = explained(view, id)?;
        let part = explained.part.take();
        let (id, project) = (explained.found.job.id, &explained.found.spec.project);
        let leads = project_tree::is_admin_of(view.world.projects(), &caller, project);
        let whose = Requester { uid, admin: caller.admin, leads };
        Some((explained, part.map(|part| try_all(part, id, whose, alternatives, &learnt))))
    };
    let Some((explained, tried)) = api.handle.look(uid, Age::New, look).await? else {
        let found = found::find(&api, id).await?;
        let is_seen = asker.may_see(found.spec.owner.uid);
        let life = life::of(&api, uid, &found, is_seen).await?;
        let why = Why { life, ..Why::of(found.for_caller(&asker, now), Time(now)) };
        return Ok(Json(Document::new(why)));
    };
    let Explained { mut found, reasons, lost, nodes, place, .. } = explained;
    let is_seen = asker.may_see(found.spec.owner.uid);
    let shown = |it: gpool_wire::Reason| if is_seen { it } else { it.for_stranger() };
    let reasons = reasons.into_iter().map(shown).collect();
    let n_more_reasons = found.n_more_reasons;
    let waits = waits(&found.job.phase);
    let id = found.job.id;
    found.eta = api.handle.eta_of(&found.job);
    let why = Why::of(empty_of(&found, &asker, now), Time(now));
    let mut why = Why { reasons, n_more_reasons, lost, nodes, place, ..why };
    if !waits {
        why.life = life::of(&api, uid, &found, is_seen).await?;
    }
    if let Some(tried) = tried {
        fill(&mut why, &found, id, tried);
    }
    if let Some(eta) = &mut why.eta {
        eta.planned_at = found.planned_at.map(Time);
    }
    // The same forecast in both places.
    why.job.forecast.eta.clone_from(&why.eta);
    Ok(Json(Document::new(why)))
}

fn empty_of(found: &FoundJob, asker: &super::asker::Asker, now: Timestamp) -> gpool_wire::Job {
    let (spec, job, reasons) = (found.spec.clone(), found.job.clone(), found.reasons.clone());
    let (elements, nodes) = (found.elements.clone(), found.nodes.clone());
    FoundJob { spec, job, reasons, elements, nodes, group: None, save_time_max: None, ..*found }
        .for_caller(asker, now)
}

fn waits(phase: &Phase) -> bool {
    matches!(
        phase,
        Phase::Held { .. } | Phase::Waiting { .. } | Phase::Pending { .. } | Phase::Paused { .. }
    )
}

struct Explained {
    found: FoundJob,
    reasons: Vec<gpool_wire::Reason>,
    lost: Option<String>,
    nodes: Vec<gpool_wire::WhyNode>,
    place: Option<Place>,
    /// Excerpt of the state to simulate, for a waiting job.
    part: Option<ForecastInput>,
}

fn explained(view: &View<'_>, id: JobId) -> Option<Explained> {
    let row = view.world.row_for(id)?;
    // An element that never started is part of its array's row.
    let array = row;
    let own = (array.job.id != id).then(|| elements::alone(array, id));
    let row = own.as_ref().unwrap_or(array);
    let explainer = view.explainer();
    let (decisive, n_more_reasons) = explainer.decisive(row, Reason::SHOWN_MAX);
    let all = explainer.fully(row);
    let blocking = |reason: &Reason| match reason {
        // No other reason applies: earlier jobs use the capacity.
        Reason::AheadInOrder { .. } => decisive.is_empty(),
        other => decisive.contains(other),
    };
    let makes_instances = view.world.policy().all().any(|policy| policy.mig_auto);
    let shown = |reason| {
        let shown = gpool_wire::Reason::of_job(&row.job, reason, blocking(reason));
        match reason {
            Reason::GpuModelMissing { asked, .. }
                if asked.is_of_instances() && !makes_instances =>
            {
                shown.with_next_step(
                    "an admin creates them with gpool mig create, or lets the server do that by \
                     demand: gpool pool set POOL --mig-auto",
                )
            }
            Reason::PausedOn { node, .. } => match stays(view, row, node) {
                Some(why) => {
                    shown.with_next_step(&format!("it can't resume on another GPU: {why}"))
                }
                None => shown.with_next_step(
                    "it also resumes on other GPUs of that node and model once they have room",
                ),
            },
            Reason::PausedOnMissing { node, .. } => {
                let stays = stays(view, row, node).map(|why| format!("stays there ({why}); "));
                shown.with_next_step(&format!(
                    "{}gpool requeue {id} restarts it from the beginning on other GPUs",
                    stays.unwrap_or_default()
                ))
            }
            _ => shown,
        }
    };
    let reasons: Vec<gpool_wire::Reason> = all.iter().map(shown).collect();
    let waits = waits(&row.job.phase);
    let nodes = if waits { why_nodes::of(view, &explainer, row) } else { Vec::new() };
    let place = place(view, &explainer, row);
    let snapshot = Snapshot { world: view.world, now: view.now };
    let part = waits.then(|| ForecastInput::of(&snapshot, AHEAD_MAX, Some(array.job.id)));
    let elements = elements::together(view.world, row, view.now);
    let planned_at = view.planned_at(id);
    let found = FoundJob::waiting(row, (decisive, n_more_reasons));
    let shared = found::shared_nodes(view, row);
    let found = FoundJob { planned_at, elements, nodes: shared, ..found };
    // More GPUs would not help a job that its quota keeps waiting.
    let is_of_quota = reasons.iter().any(|it| it.blocking && it.code == "quota_project");
    let waits_for_gpus =
        row.job.phase.waits_for_room_since().is_some() && row.spec.has_gpus() && !is_of_quota;
    let lost = match waits_for_gpus {
        true => lost::of_project(view.world, &row.spec.project),
        false => lost::silent_nodes(view.world, &row.job, view.now),
    };
    Some(Explained { found, reasons, lost, nodes, place, part })
}

/// Why a paused job can't resume on another GPU of a node, if one is free.
fn stays(view: &View<'_>, row: &JobRow, node: &NodeName) -> Option<String> {
    let Phase::Paused { allocations, why, .. } = &row.job.phase else { return None };
    let remap = &view.world.node(node)?.node.facts.remap;
    let mut slots = allocations.iter().flat_map(|it| &it.slots);
    match (why, remap) {
        (PauseCause::NotMoved { why }, _) => Some(why.to_string()),
        _ if row.spec.yields().is_some() => {
            Some("jobs with --yields wait for the GPUs that they freed".to_owned())
        }
        (_, Remap::No { why }) => Some(why.to_string()),
        _ if slots.any(|slot| matches!(slot.part, SlotPart::Instance { .. })) => {
            Some("jobs with MIG instances can't".to_owned())
        }
        _ => None,
    }
}

/// Returns the position of a job among those that wait for the same capacity.
fn place(view: &View<'_>, explainer: &Explainer<'_>, row: &JobRow) -> Option<Place> {
    let rivals = explainer.rivals(row, AHEAD_NAMED)?;
    let ahead = rivals.last.iter().filter_map(|id| Some((id, view.world.row_for(*id)?)));
    let ahead = ahead.map(|(id, row)| Ahead {
        job: id.to_string(),
        user: row.spec.owner.user.to_string(),
        gpus: row.spec.gpus_written.to_string(),
        priority: row.job.priority,
    });
    let ahead = ahead.collect();
    Some(Place { n_ahead: rivals.n_ahead, n_pending: rivals.n_waiting, ahead })
}

struct TriedAll {
    part: ForecastInput,
    estimate: Estimate,
    alternatives: Vec<Tried>,
}

/// Runs the simulations.
fn try_all(
    part: ForecastInput,
    id: JobId,
    requester: Requester,
    alternatives: bool,
    calibrator: &Calibrator,
) -> TriedAll {
    let estimate = forecast::estimate(&part, id, STARTS_MAX, calibrator);
    let alternatives = match alternatives {
        true => forecast::alternatives(&part, id, requester, &estimate, STARTS_MAX, calibrator),
        false => Vec::new(),
    };
    TriedAll { part, estimate, alternatives }
}

fn fill(why: &mut Why, found: &FoundJob, id: JobId, tried: TriedAll) {
    let TriedAll { part, estimate, alternatives } = tried;
    let as_of = part.now;
    why.eta = match estimate.eta {
        // Only a user or an admin can let it start.
        _ if matches!(found.job.phase, Phase::Held { .. }) => None,
        Some(eta) => Some(Eta::new(eta, as_of)),
        None if estimate.is_out_of_reach => found.eta.map(|(eta, as_of)| Eta::new(eta, as_of)),
        None => None,
    };
    why.eta_missing = match (&why.eta, estimate.is_out_of_reach) {
        (Some(_), _) => None,
        (None, true) => Some(format!(
            "more than {AHEAD_MAX} jobs are before it, and the last forecast does not cover it"
        )),
        (None, false) => Some(missing(found, estimate.without_deadline)),
    };
    why.frees = estimate.freed_by.iter().filter_map(|freed| frees(&part, freed)).collect();
    let of_job = |tried: &Tried| Alternative {
        change: tried.what.code().to_owned(),
        flags: alternative::flags(&tried.what, id),
        text: alternative::words(&tried.what),
        eta: tried.eta.or_else(|| middle(tried, &part)).map(|eta| Eta::new(eta, as_of)),
        gain_s: tried.gain.map(gpool_wire::time::seconds),
        helps: tried.helps,
    };
    why.alternatives = alternatives.iter().map(of_job).collect();
}

/// Returns why a job has no forecast start.
fn missing(found: &FoundJob, without_deadline: Option<gpool_model::Eta>) -> String {
    let id = found.job.id;
    match (&found.job.phase, found.spec.life.deadline, without_deadline) {
        _ if found.job.holder() == Some(Holder::Admin) => {
            "only an admin can let it start".to_owned()
        }
        _ if found.job.holder() == Some(Holder::Budget) => {
            "it starts next month, or after an admin raises the budget or releases it".to_owned()
        }
        (Phase::Held { .. }, ..) => format!("it starts after gpool release {id}"),
        (Phase::Paused { held: Some(_), .. }, ..) => {
            format!("it continues after gpool resume {id}")
        }
        (_, Some(deadline), Some(eta)) => {
            let limit = found.spec.time_limit;
            let last =
                limit.map(|limit| Timestamp::new(deadline.get().saturating_sub(limit.get())));
            let last = last.map(|at| format!(", so it must start by {}", Time(at).short()));
            let earliest = match eta.p10 {
                Some(at) => format!("the earliest start is {}", Time(at).short()),
                None => "it would start after that".to_owned(),
            };
            let (deadline, last) = (Time(deadline).short(), last.unwrap_or_default());
            format!("it must end by {deadline}{last}; {earliest}")
        }
        _ => "no known event lets it start".to_owned(),
    }
}

/// Returns the median alone, where no interval was computed.
fn middle(tried: &Tried, part: &ForecastInput) -> Option<gpool_model::Eta> {
    let at = tried.middle?;
    let basis = gpool_model::Basis::Mixed;
    let horizon = part.now.after(forecast::HORIZON);
    Some(gpool_model::Eta { p10: Some(at), p50: Some(at), p90: Some(at), basis, horizon })
}

fn frees(part: &ForecastInput, freed: &forecast::FreedBy) -> Option<Frees> {
    let row = part.excerpt.jobs.get(&freed.job)?;
    let because = match part.lengths.get(&freed.job)?.source {
        LengthSource::Limit => "time limit".to_owned(),
        LengthSource::LikeRuns { n_runs: 1 } => "run time of the last such job".to_owned(),
        LengthSource::LikeRuns { n_runs } => format!("run time of the last {n_runs} such jobs"),
        LengthSource::Elapsed => "a guess: no time limit and no earlier run".to_owned(),
        LengthSource::Stopping => "it is stopping".to_owned(),
    };
    let [p10, p90] = freed.ends.map(|end| end.map(Time));
    let (job, user) = (freed.job.to_string(), row.spec.owner.user.to_string());
    Some(Frees { job, user, n_gpus: freed.n_devices, p10, p90, because })
}
