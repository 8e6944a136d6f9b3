//! A job as a request finds it: alive, or in the archive.

use std::sync::Arc;

use gpool_control::forecast::{Length, Pace};
use gpool_model::record::EndedJob;
use gpool_model::{
    Allocation, Job, JobId, JobSpec, Millis, Node, Phase, Reason, Refusal, Slot, Timestamp,
};
use gpool_wire::array::Elements;
use gpool_wire::show::JobFacts;
use gpool_wire::time::seconds;
use gpool_wire::{GroupStatus, Time};
use gpool_world::JobRow;

use super::asker::Asker;
use crate::api::Api;
use gpool_server::elements;
use gpool_server::view::View;

/// A job with its reasons for waiting.
pub(crate) struct FoundJob {
    pub spec: Arc<JobSpec>,
    pub job: Job,
    pub reasons: Vec<Reason>,
    /// How many reasons there are beyond these.
    pub n_more_reasons: u64,
    /// When it will likely start, and when that was worked out.
    pub eta: Option<(gpool_model::Eta, Timestamp)>,
    pub planned_at: Option<Timestamp>,
    /// How long it will likely run from now or from its start.
    pub expected_run: Option<Millis>,
    /// Of a living array: its elements together.
    pub elements: Option<Elements>,
    /// The group that it stands for in a list.
    pub group: Option<GroupStatus>,
    /// The nodes on which it shares devices.
    pub nodes: Vec<Node>,
    /// How long it has at most to save and to end when it is taken back.
    pub save_time_max: Option<Millis>,
}

impl FoundJob {
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
            group: None,
            nodes: Vec::new(),
            save_time_max: None,
        }
    }

    pub fn of_ended(ended: EndedJob) -> Self {
        Self::waiting(&JobRow { spec: ended.spec, job: ended.job }, (Vec::new(), 0))
    }

    /// The same, with the last forecast of its start.
    pub fn with_eta(self, api: &Api) -> Self {
        Self { eta: api.handle.eta_of(&self.job), ..self }
    }

    /// Whether the job, or an element of it, may have run.
    pub fn has_run(&self) -> bool {
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
    pub fn for_caller(self, asker: &Asker, now: Timestamp) -> gpool_wire::Job {
        let private = !asker.may_see(self.spec.owner.uid);
        let Self { elements, reasons, n_more_reasons, eta, nodes, save_time_max, .. } = self;
        let shown =
            JobFacts { elements, reasons, n_more_reasons, private, eta, nodes, save_time_max };
        let mut job = gpool_wire::Job::new(&self.spec, &self.job, now, &shown);
        if let Some(eta) = &mut job.forecast.eta {
            eta.planned_at = self.planned_at.map(Time);
        }
        job.forecast.expected_run_s = self.expected_run.map(seconds);
        job.group = self.group;
        if let Some(group) = job.group.as_mut().filter(|_| private) {
            group.name = gpool_wire::job::PRIVATE.to_owned();
        }
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
pub(crate) fn living(view: &View<'_>, id: JobId) -> Option<FoundJob> {
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
    let found = FoundJob::waiting(row, reasons);
    let (nodes, expected_run) = (shared_nodes(view, row), expected_run(view, row));
    Some(FoundJob { planned_at, elements, nodes, expected_run, save_time_max, ..found })
}

/// A job, or an element of an array, living or ended.
pub(crate) async fn find(api: &Api, id: JobId) -> Result<FoundJob, Refusal> {
    if let Some(found) = api.handle.query(move |view| living(view, id)).await? {
        return Ok(found.with_eta(api));
    }
    // The view is of durable state, so a job that is not live is in the archive.
    let ended = api.handle.archived(id).await?.ok_or(Refusal::NoSuchJob { id })?;
    Ok(FoundJob::of_ended(ended))
}
