//! The page of a job, and its output as a file.

use std::sync::Arc;

use axum::body::Body;
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_TYPE, HeaderValue};
use axum::http::{Request, Response, StatusCode};
use gpool_model::JobId;
use gpool_model::job::JobState;
use gpool_web::{JobPage, csv, job_page_orders};
use gpool_wire::job_metrics::JobMetrics;
use gpool_wire::usage::{GpuHistory, GpuHistoryParams};
use gpool_wire::{Document, Gpu, Job, JobEvent, List, Problem, Report, Time, Why, catalogue};

use super::answer::html;
use super::contents::now;
use super::query::query_string;
use super::{Page, Pages, Visit};

/// Lines of output on the page of a job, and their bytes.
const LINES: u32 = 200;
const TEXT_MAX: usize = 64 << 10;
/// Points of the charts, and of the file.
const POINTS: u32 = 120;
const POINTS_MAX: u32 = 2000;
/// Elements of an array on a page.
const ELEMENTS: u32 = 100;
/// The names of the output's streams.
const STREAMS: [&str; 3] = ["both", "stdout", "stderr"];

/// The ID in a path. Nothing else may become a part of the API's path.
fn job_id(text: &str) -> Result<JobId, Box<Problem>> {
    let no_job = |_| Box::new(Problem::new(catalogue::NO_SUCH_JOB, "there is no such job"));
    text.parse().map_err(no_job)
}

fn stream(visit: &Visit<'_>) -> Result<&'static str, Box<Problem>> {
    visit.query.choice("stream", &STREAMS, STREAMS[0])
}

impl Pages {
    pub(super) async fn job(&self, visit: &Visit<'_>, id: &str) -> Page {
        let path = format!("/api/v1/jobs/{}", job_id(id)?);
        let asks = &visit.asks;
        let report: Arc<Document<Report>> = self.ask(asks, &format!("{path}/report")).await?;
        let job = &report.body.job;
        let events: Arc<List<JobEvent>> = self.ask(asks, &format!("{path}/events")).await?;
        let (stream, elements) = (stream(visit)?, self.elements(visit, job, &path).await?);
        let target = format!("{path}/logs?stream={stream}&tail={LINES}");
        let output = match elements.is_some() {
            true => Ok(Vec::new()),
            false => self.end_of(&visit.asks, &target, TEXT_MAX).await,
        };
        let output = output.map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        let gpus: Arc<List<Gpu>> = self.ask(asks, "/api/v1/gpus").await?;
        let history = self.of_gpus(visit, job, POINTS).await?;
        let over_time: Arc<Document<JobMetrics>> =
            match job.run.started_at.filter(|_| job.array.is_none()) {
                Some(_) => self.ask(asks, &format!("{path}/metrics")).await?,
                None => Arc::new(Document::new(JobMetrics::default())),
            };
        let waits = matches!(
            job.state,
            JobState::Held | JobState::Waiting | JobState::Pending | JobState::Paused
        );
        let why: Option<Arc<Document<Why>>> = match waits {
            true => Some(self.ask_why(asks, &format!("{path}/why")).await?),
            false => None,
        };
        let page = JobPage {
            frame: visit.frame("/jobs"),
            report: &report.body,
            why: why.as_ref().map(|why| &why.body),
            events: &events.items,
            output: output.as_deref().map_err(|problem| problem.detail.as_str()),
            stream,
            gpus: &gpus.items,
            history: &history.body,
            over_time: &over_time.body,
            elements: elements.as_ref().map(|(list, next)| (&list.items[..], *next)),
            address: &visit.query.address(&format!("/jobs/{id}")),
            order: visit.query.order(&job_page_orders())?,
            now: now(),
        };
        Ok(html(StatusCode::OK, page.page()))
    }

    /// The use of a job's devices from its start to its end.
    async fn of_gpus(
        &self,
        visit: &Visit<'_>,
        job: &Job,
        n_points: u32,
    ) -> Result<Arc<Document<GpuHistory>>, Box<Problem>> {
        let Some(params) = GpuHistoryParams::of_job(job, n_points) else {
            let none = GpuHistory { start: Time::default(), step_s: 60, gpus: Vec::new() };
            return Ok(Arc::new(Document::new(none)));
        };
        let series = params.series.unwrap_or_default();
        let asked = [("job", &*job.id), ("series", &*series), ("points", &*n_points.to_string())];
        self.ask(&visit.asks, &format!("/api/v1/gpus/history?{}", query_string(&asked))).await
    }

    /// The use of a job's devices as a file.
    pub(super) async fn gpus_csv(&self, visit: &Visit<'_>, id: &str) -> Page {
        let path = format!("/api/v1/jobs/{}", job_id(id)?);
        let job: Arc<Document<Job>> = self.ask(&visit.asks, &path).await?;
        let history = self.of_gpus(visit, &job.body, POINTS_MAX).await?;
        let response = Response::new(Body::from(csv(&history.body)));
        Ok(as_file(response, "text/csv; charset=utf-8", &format!("job-{id}-gpus.csv")))
    }

    /// A page of an array's elements, and the index of the next page.
    async fn elements(
        &self,
        visit: &Visit<'_>,
        job: &Job,
        path: &str,
    ) -> Result<Option<(Arc<List<Job>>, Option<u32>)>, Box<Problem>> {
        if job.array.is_none() {
            return Ok(None);
        }
        // The API refuses an invalid index.
        let from = Some(visit.query.get("from")).filter(|it| !it.is_empty()).unwrap_or("0");
        let limit = ELEMENTS.to_string();
        let target =
            format!("{path}/elements?{}", query_string(&[("from", from), ("limit", &limit)]));
        let list: Arc<List<Job>> = self.ask(&visit.asks, &target).await?;
        let last = list.items.last().and_then(|job| job.element.as_ref());
        let is_full = list.items.len() >= ELEMENTS as usize;
        let next = last.filter(|_| is_full).map(|element| element.index + 1);
        Ok(Some((list, next)))
    }

    /// The output of a job as a file.
    pub(super) async fn output(&self, visit: &Visit<'_>, id: &str) -> Page {
        let (id, stream) = (job_id(id)?, stream(visit)?);
        let target = format!("/api/v1/jobs/{id}/logs?stream={stream}");
        let request = Request::get(target).body(Body::empty());
        let mut response = self.call(&visit.asks, request).await?;
        if response.status().is_success() {
            let name = format!("job-{id}-{stream}.txt");
            response = as_file(response, "text/plain; charset=utf-8", &name);
        }
        Ok(response)
    }
}

/// An answer that browsers store as a file.
fn as_file(mut response: Response<Body>, kind: &'static str, name: &str) -> Response<Body> {
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    if let Ok(name) = HeaderValue::from_str(&format!("attachment; filename=\"{name}\"")) {
        headers.insert(CONTENT_DISPOSITION, name);
    }
    response
}
