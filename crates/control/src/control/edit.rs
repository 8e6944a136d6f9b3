//! Edits of live jobs. A job that has not started is checked again as if it were submitted.

use std::collections::BTreeSet;
use std::sync::Arc;

use gpool_model::array::ArrayEnds;
use gpool_model::job::{DependencyKind, JobState, Unmet};
use gpool_model::life::OnUnmet;
use gpool_model::request::edit::{Edit, Until};
use gpool_model::{
    Caller, Dependency, Job, JobId, JobPatch, JobSpec, Phase, Refusal, Reply, Timestamp, Version,
};
use gpool_world::JobRow;

use crate::admission::{self, Admission};
use crate::control::Control;
use crate::control::extend::check_exits;
use crate::control::known_ends::KnownEnds;
use crate::control::outbox::as_named_by;

impl Control {
    /// Longest note, in bytes.
    const NOTE_MAX: usize = 4096;

    pub(crate) fn edit(
        &mut self,
        caller: &Caller,
        id: JobId,
        version: Option<u64>,
        patch: &JobPatch,
        ends: KnownEnds<'_>,
    ) -> Result<Reply, Refusal> {
        self.check_live(caller, &[id], "edit", true)?;
        let row = self.world.row_for(id).expect("checked above");
        if let Some(expected) = version
            && Version(expected) != row.job.version
        {
            return Err(Refusal::VersionConflict { id, expected, found: row.job.version.0 });
        }
        let standing = &patch.to.standing;
        if patch.changes("priority") {
            // Every user may lower a priority that an admin raised.
            if standing.priority > row.job.priority {
                admission::priority(&self.world, caller, &row.spec.project, standing.priority)?;
            }
            self.check_states(&[id], "change the priority of", |state| state <= JobState::Pending)?;
        }
        if standing.note.as_ref().is_some_and(|note| note.len() > Self::NOTE_MAX) {
            let most = format!("{} bytes", Self::NOTE_MAX);
            return Err(Refusal::TooLarge { what: "the note".to_owned(), most });
        }
        if patch.changes("project") {
            self.check_may_start(caller, id, "move")?;
        }
        self.check_array_patch(id, patch)?;
        if patch.edits().any(|edit| edit.is_owners) {
            self.check_owner(caller, id, "change the program of")?;
        }
        let spec = match patch.changes_request() {
            true => Some(self.edit_spec(caller, id, patch, ends)?),
            false => None,
        };
        self.set_apart(&[id]);
        self.edit_elements(id, patch);
        let mut job = self.job(id);
        if patch.changes("priority") {
            job.priority = standing.priority;
        }
        if patch.changes("note") {
            job.note = standing.note.clone().filter(|note| !note.is_empty());
        }
        if patch.changes("notify") {
            job.notify = as_named_by(caller, standing.notify.clone());
        }
        job.version = job.version.next();
        if let Some((spec, waits)) = spec {
            if let Some(waits) = waits {
                (job.course.one_met, job.course.unmet) = (waits.one_met, waits.unmet);
                job.course.begin = waits.begin;
            }
            self.reconsider(&mut job, &spec);
            let is_resized = self.resize(&mut job, &spec);
            self.world.put_spec(&Arc::new(spec));
            if is_resized {
                self.put_job(job.clone());
                self.order_terms(&job);
                return Ok(self.states(&[id]));
            }
        }
        self.put_job(job);
        self.stop_after_failures(id.number);
        Ok(self.states(&[id]))
    }

    /// Returns the job's changed request. If the patch changes its dependencies, it also returns
    /// what follows from those that have ended already.
    fn edit_spec(
        &self,
        caller: &Caller,
        id: JobId,
        patch: &JobPatch,
        ends: KnownEnds<'_>,
    ) -> Result<(JobSpec, Option<Waits>), Refusal> {
        let row = self.world.row_for(id).expect("checked before");
        if id.element.is_some() {
            let why =
                format!("all elements of an array have the same request: gpool edit {}", id.number);
            return Err(Refusal::Invalid { field: "patch".to_owned(), why });
        }
        check_shape(row, patch)?;
        let can_resize = matches!(row.job.phase, Phase::Running { .. })
            && row.spec.array.is_none()
            && row.spec.gpus.share().is_some();
        let is_over = |edit: &Edit| match edit.until {
            Until::Start => true,
            Until::EndIfSize => !can_resize,
            Until::End => false,
        };
        if patch.edits().any(|edit| is_over(edit) && !edit.is_standing) {
            let action = match patch.changes("time") {
                true => "change the time limit with edit (gpool extend can) of",
                false => "change the request of",
            };
            self.check_states(&[id], action, |state| state <= JobState::Pending)?;
            let live = self.waiting_rows(id.number, |state| state > JobState::Pending);
            if let Some(live) = live.first() {
                let state = self.job(*live).phase.state();
                return Err(Refusal::WrongState { id: *live, state, action: action.to_owned() });
            }
        }
        let changes_waits =
            ["after", "after_one", "on_unmet"].into_iter().any(|key| patch.changes(key));
        let mut spec = patch.applied_to(&row.spec);
        if patch.changes("gpus") {
            spec.gpus = self.world.sized(&spec.gpus, spec.pool.as_ref());
        }
        if row.job.phase.state() > JobState::Pending {
            self.check_size(row, &spec)?;
            return Ok((spec, None));
        }
        let mover = Some(caller).filter(|_| spec.project != row.spec.project);
        Admission::new(&self.world).admit_spec(mover, &spec)?;
        check_exits(&spec.life)?;
        if spec.life.deadline != row.spec.life.deadline
            || spec.time_limit != row.spec.time_limit
            || spec.life.begin != row.spec.life.begin
        {
            self.check_deadline(&spec)?;
        }
        if !changes_waits {
            return Ok((spec, None));
        }
        let of_elements =
            |after: &[Dependency]| after.iter().any(|it| it.kind == DependencyKind::Each);
        if of_elements(&row.spec.after) || of_elements(&spec.after) {
            let why = "dependencies between elements can't change; submit the array again";
            return Err(Refusal::Invalid { field: "after".to_owned(), why: why.to_owned() });
        }
        let waits = self.check_waits(caller, &spec.after, &spec.life, ends)?;
        self.check_cycle(&spec)?;
        Ok((spec, Some(waits)))
    }

    /// Puts an edited job that has not started into the phase where it belongs.
    fn reconsider(&self, job: &mut Job, spec: &JobSpec) {
        // The nodes may meet its needs now.
        job.course.lacking_nodes.clear();
        let is_ready = !self.world.is_waiting(spec, job, self.now);
        let since = self.now;
        match job.phase {
            Phase::Waiting { .. } if is_ready => job.phase = Phase::Pending { since },
            Phase::Pending { since: before } if !is_ready => {
                job.waited = job.waited.saturating_add(self.now.since(before));
                job.phase = Phase::Waiting { since };
            }
            _ => {}
        }
    }

    /// Checks that no job waits for itself, directly or through others.
    fn check_cycle(&self, spec: &JobSpec) -> Result<(), Refusal> {
        // The path to the present job, each step with the jobs left to visit.
        let mut path: Vec<(JobId, Vec<JobId>)> = vec![(spec.id, jobs_of(spec))];
        let mut seen = BTreeSet::new();
        while let Some((_, next)) = path.last_mut() {
            let Some(job) = next.pop() else {
                path.pop();
                continue;
            };
            if (JobId { element: None, ..job }) == spec.id {
                let jobs = path.iter().map(|(job, _)| *job).collect();
                return Err(Refusal::DependencyCycle { jobs });
            }
            if seen.insert(job)
                && let Some(row) = self.world.row_for(job)
            {
                path.push((job, jobs_of(&row.spec)));
            }
        }
        Ok(())
    }
}

/// What the dependencies of a job that have started or ended mean for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Waits {
    pub one_met: bool,
    pub unmet: Option<Unmet>,
    /// Its earliest start.
    pub begin: Option<Timestamp>,
}

impl Control {
    /// Checks that every dependency exists, belongs to the caller, and can still end as asked,
    /// unless the job is kept in that case.
    pub(crate) fn check_waits(
        &self,
        caller: &Caller,
        after: &[Dependency],
        life: &gpool_model::Life,
        ends: KnownEnds<'_>,
    ) -> Result<Waits, Refusal> {
        let begin = ends.begin_after(&self.world, after);
        let mut waits = Waits { begin, ..Waits::default() };
        let is_kept = life.on_unmet == OnUnmet::Keep;
        for dependency in after {
            if let Some(unmet) = self.ended_otherwise(caller, dependency, ends)?.1 {
                waits.unmet.get_or_insert(unmet);
            }
        }
        let mut n_open = 0;
        let mut last_unmet = None;
        for dependency in &life.after_one {
            match self.ended_otherwise(caller, dependency, ends)? {
                (false, _) => n_open += 1,
                (true, None) => waits.one_met = true,
                (true, unmet) => last_unmet = unmet,
            }
        }
        if n_open == 0 && !waits.one_met {
            waits.unmet = waits.unmet.or(last_unmet);
        }
        match waits.unmet {
            Some(Unmet { job, state }) if !is_kept => {
                Err(Refusal::DependencyNeverMet { job, state })
            }
            _ => Ok(waits),
        }
    }

    /// Returns whether a dependency has ended, and its end if that is not the required one.
    fn ended_otherwise(
        &self,
        caller: &Caller,
        dependency: &Dependency,
        ends: KnownEnds<'_>,
    ) -> Result<(bool, Option<Unmet>), Refusal> {
        let job = dependency.job;
        if self.world.is_live(job) {
            self.check_owner(caller, job, "wait for")?;
            return Ok((false, None));
        }
        let known = ends.of(job).map(|ended| ended.outcome);
        let outcome = self.world.recent_end(job).or(known);
        let outcome = outcome.ok_or(Refusal::NoSuchJob { id: job })?;
        if dependency.kind == DependencyKind::Each {
            let elements = self.ended_elements(job, ends);
            let all = |it: &&ArrayEnds| it.unmet(dependency.kind).len() == it.indexes.len();
            // Elements that can't start end at once: none would be left to keep.
            return match elements.filter(all) {
                Some(_) => Err(Refusal::DependencyNeverMet { job, state: outcome.state() }),
                None => Ok((true, None)),
            };
        }
        let is_met = dependency.kind.is_met_by(outcome);
        Ok((true, (!is_met).then(|| Unmet { job, state: outcome.state() })))
    }
}

fn jobs_of(spec: &JobSpec) -> Vec<JobId> {
    spec.dependencies().map(|dependency| dependency.job).collect()
}

/// Refuses other GPUs, cores or memory for a job with parts.
fn check_shape(row: &JobRow, patch: &JobPatch) -> Result<(), Refusal> {
    let field = ["gpus", "cpus", "mem"].into_iter().find(|key| patch.changes(key));
    let Some(field) = field.filter(|_| row.spec.has_parts()) else { return Ok(()) };
    let why = format!(
        "job {} has parts, and their shapes can't change; cancel it, and submit it with other parts",
        row.job.id
    );
    Err(Refusal::Invalid { field: field.to_owned(), why })
}
