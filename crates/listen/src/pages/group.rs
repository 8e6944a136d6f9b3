//! The page of a group of jobs: its jobs, and the trials of a sweep.

use std::sync::Arc;

use axum::http::StatusCode;
use gpool_model::GroupPlace;
use gpool_sweep::trials::{Study, Trial, has_trials};
use gpool_web::{GroupPage, group_orders};
use gpool_wire::job_metrics::{ElementMetrics, JobMetrics};
use gpool_wire::{Document, Job, List, Problem, catalogue};

use super::answer::html;
use super::contents::now;
use super::query::query_string;
use super::{Page, Pages, Visit};

/// Most jobs on the page, and most elements of an array.
const JOBS_MAX: &str = "500";
const ELEMENTS_MAX: u32 = 2000;
/// Trials with a curve, and the points of each.
const CURVES: usize = 8;
const POINTS: u32 = 100;

impl Pages {
    pub(super) async fn group(&self, visit: &Visit<'_>, name: &str) -> Page {
        let no_group = || Problem::new(catalogue::NO_SUCH_JOB, "there is no such group");
        // Nothing else may become a part of the API's path.
        let place = GroupPlace::parse(name).ok().filter(|place| place.role.is_none());
        let Some(GroupPlace { name, .. }) = place else { return Err(Box::new(no_group())) };
        let order = visit.query.order(&group_orders())?;
        let query = query_string(&[("group", &*name), ("state", "all"), ("limit", JOBS_MAX)]);
        let jobs: Arc<List<Job>> = self.ask(&visit.asks, &format!("/api/v1/jobs?{query}")).await?;
        if jobs.items.is_empty() {
            return Err(Box::new(no_group()));
        }
        let mut study = Study::default();
        for job in &jobs.items {
            match has_trials(job) {
                true => self.add_array(visit, job, &mut study).await?,
                false => study.add_job(job.clone()),
            }
        }
        let mut curves: Vec<(&Trial, Arc<Document<JobMetrics>>)> = Vec::new();
        let ranked = study.ranked().into_iter().filter(|trial| trial.value.is_some());
        for trial in ranked.take(CURVES) {
            let path = format!("/api/v1/jobs/{}/metrics?points={POINTS}", trial.job);
            curves.push((trial, self.ask(&visit.asks, &path).await?));
        }
        let curves: Vec<_> = curves.iter().map(|(trial, found)| (*trial, &found.body)).collect();
        let page = GroupPage {
            frame: visit.frame("/queue"),
            name: &name,
            jobs: &jobs.items,
            is_part: jobs.next_cursor.is_some(),
            study: &study,
            curves: &curves,
            address: &format!("/groups/{name}"),
            order,
            now: now(),
        };
        Ok(html(StatusCode::OK, page.page()))
    }

    /// Adds the trials of an array.
    async fn add_array(
        &self,
        visit: &Visit<'_>,
        job: &Job,
        study: &mut Study,
    ) -> Result<(), Box<Problem>> {
        let (asks, path) = (&visit.asks, format!("/api/v1/jobs/{}/elements", job.id));
        let elements: Arc<List<Job>> =
            self.ask(asks, &format!("{path}?limit={ELEMENTS_MAX}")).await?;
        // The ends of elements have their values.
        let metrics: Arc<List<ElementMetrics>> = match job.state.is_end() {
            true => Arc::new(List::new(Vec::new())),
            false => self.ask(asks, &format!("{path}/metrics")).await?,
        };
        study.add_array(job, &elements.items, &metrics.items);
        Ok(())
    }
}
