//! Forms: verbs on jobs, and submitting a job.

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Bytes, HttpBody};
use axum::http::StatusCode;
use axum::http::header::{self, HeaderMap};
use gpool_model::{JobId, JobVerb};
use gpool_web::{Confirm, Submit, SubmitForm};
use gpool_wire::array::Retried;
use gpool_wire::{Document, Forecast, Job, List, Problem, Project, Selection, catalogue};
use http_body_util::{BodyExt, Limited};

use super::answer::{html, message, no_page, see};
use super::contents::now;
use super::query::Query;
use super::{Page, Pages, RequestOrigin, Visit};

/// Most bytes of a form.
const FORM_MAX: usize = 256 << 10;
/// How long a browser may take to send it.
const FORM: Duration = Duration::from_secs(10);

impl Pages {
    /// Answers a form. Another site can make a browser send one, so it must have the token of the
    /// session, and come from a page of this server.
    pub(super) async fn post<B>(
        &self,
        path: &str,
        place: RequestOrigin<'_>,
        headers: &HeaderMap,
        body: B,
    ) -> Page
    where
        B: HttpBody<Data = Bytes> + Send,
        B::Error: std::error::Error + Send + Sync + 'static,
    {
        let visit = self.visit(place, headers).await;
        if visit.is_none() && path != "/login" {
            return Ok(self.sign_in_first(StatusCode::UNAUTHORIZED, ""));
        }
        let body = tokio::time::timeout(FORM, Limited::new(Box::pin(body), FORM_MAX).collect());
        let Ok(Ok(body)) = body.await else {
            let text = "The form is too large, or did not come in time.";
            return Ok(message(StatusCode::PAYLOAD_TOO_LARGE, "Not accepted", text, ""));
        };
        let form = Query::of(&String::from_utf8_lossy(&body.to_bytes()));
        let is_own = is_own(headers, self.scheme());
        // Without a session there is no token of one yet. The form that `gpool open` opens is a
        // file, and has the code of a link.
        if path == "/login" && !self.is_remote {
            return Ok(self.sign_in(place, form.get("code"), headers));
        }
        if path == "/login" && is_own {
            return self.sign_in_by_token(place, &form).await;
        }
        let Some(visit) = visit.filter(|visit| is_own && form.get("csrf") == visit.csrf) else {
            let text = "The form is not from a page of this session. Load the page again.";
            return Ok(message(StatusCode::FORBIDDEN, "Not accepted", text, ""));
        };
        let visit = Visit { query: form, ..visit };
        match path {
            "/act" => self.act(&visit).await,
            "/retry" => self.retry(&visit).await,
            "/submit" => self.submit(&visit).await,
            "/logout" => Ok(self.sign_out(place, headers)),
            _ => Ok(no_page()),
        }
    }

    /// Carries a verb out, after a question if it ends attempts.
    async fn act(&self, visit: &Visit<'_>) -> Page {
        let (verb, jobs) = (visit.query.get("verb"), visit.query.all("job"));
        let known = JobVerb::named(verb).filter(|verb| is_on_pages(*verb));
        let is_id = |job: &String| job.parse::<JobId>().is_ok();
        let Some(known) = known.filter(|_| jobs.iter().all(is_id)) else {
            let problem = Problem::new(catalogue::NO_SUCH_ROUTE, "pages have no such action");
            return Err(Box::new(problem));
        };
        if jobs.is_empty() {
            let text = "Select jobs in the first column, then choose an action.";
            return Ok(message(StatusCode::BAD_REQUEST, "No job is selected", text, ""));
        }
        let ends = matches!(known, JobVerb::Cancel | JobVerb::Requeue { .. });
        if ends && visit.query.get("sure") != "yes" {
            let page = Confirm { frame: visit.frame("/act"), verb, jobs: &jobs };
            return Ok(html(StatusCode::OK, page.page()));
        }
        let back = match &jobs[..] {
            [job] => format!("/jobs/{job}"),
            _ => "/queue".to_owned(),
        };
        self.send(&visit.asks, &format!("/api/v1/jobs/{verb}"), &Selection { jobs }).await?;
        Ok(see(&back))
    }

    /// Runs an ended job again, and shows the new one.
    async fn retry(&self, visit: &Visit<'_>) -> Page {
        let Ok(id) = visit.query.get("job").parse::<JobId>() else {
            let problem = Problem::new(catalogue::NO_SUCH_JOB, "there is no such job");
            return Err(Box::new(problem));
        };
        let target = format!("/api/v1/jobs/{id}/retry");
        let body = self.send_bare(&visit.asks, &target).await?;
        let again: Option<Document<Retried>> = serde_json::from_slice(&body).ok();
        Ok(see(&again.map_or_else(|| "/queue".to_owned(), |it| format!("/jobs/{}", it.body.id))))
    }

    /// The empty form.
    pub(super) async fn form(&self, visit: &Visit<'_>) -> Page {
        self.filled(visit, StatusCode::OK, &SubmitForm::default(), None, &[]).await
    }

    async fn submit(&self, visit: &Visit<'_>) -> Page {
        let field = |name: &str| visit.query.get(name).to_owned();
        let asked = SubmitForm {
            command: field("command"),
            gpus: field("gpus"),
            time: field("time"),
            name: field("name"),
            project: field("project"),
            cwd: field("cwd"),
            variables: field("variables"),
            preemptible: visit.query.get("preemptible") == "yes",
            hold: visit.query.get("hold") == "yes",
        };
        if asked.command.trim().is_empty() {
            let refused = ["The job needs a command.".to_owned()];
            return self.filled(visit, StatusCode::BAD_REQUEST, &asked, None, &refused).await;
        }
        if let Err(line) = asked.environment() {
            let refused = [format!("The variable {line:?} is not NAME=VALUE.")];
            return self.filled(visit, StatusCode::BAD_REQUEST, &asked, None, &refused).await;
        }
        let is_preview = visit.query.get("do") == "preview";
        let target = format!("/api/v1/jobs?dry_run={is_preview}");
        let body = match self.send(&visit.asks, &target, &asked.job()).await {
            Ok(body) => body,
            Err(problem) => {
                let lines = lines(&problem);
                let status = StatusCode::from_u16(problem.status);
                let status = status.unwrap_or(StatusCode::BAD_REQUEST);
                return self.filled(visit, status, &asked, None, &lines).await;
            }
        };
        if is_preview {
            let forecast: Option<Document<Forecast>> = serde_json::from_slice(&body).ok();
            let forecast = forecast.map(|it| it.body);
            return self.filled(visit, StatusCode::OK, &asked, forecast.as_ref(), &[]).await;
        }
        let job: Option<Document<Job>> = serde_json::from_slice(&body).ok();
        Ok(see(&job.map_or_else(|| "/queue".to_owned(), |job| format!("/jobs/{}", job.body.id))))
    }

    async fn filled(
        &self,
        visit: &Visit<'_>,
        status: StatusCode,
        form: &SubmitForm,
        forecast: Option<&Forecast>,
        refused: &[String],
    ) -> Page {
        let projects: Arc<List<Project>> = self.ask(&visit.asks, "/api/v1/projects").await?;
        let leaves = projects.items.iter().filter(|it| it.children.is_empty());
        let projects: Vec<String> = leaves.map(|project| project.name.clone()).collect();
        let (frame, projects) = (visit.frame("/submit"), &projects[..]);
        let page = Submit { frame, form, projects, forecast, refused, now: now() };
        Ok(html(status, page.page()))
    }
}

/// A refusal of the API in lines.
pub(super) fn lines(problem: &Problem) -> Vec<String> {
    let more = problem.why.iter().chain(&problem.tries).cloned();
    std::iter::once(problem.detail.clone()).chain(more).collect()
}

/// Whether pages have a button for a verb.
fn is_on_pages(verb: JobVerb) -> bool {
    match verb {
        JobVerb::Cancel
        | JobVerb::Hold
        | JobVerb::Release { .. }
        | JobVerb::Pause
        | JobVerb::Resume
        | JobVerb::Requeue { .. } => true,
        JobVerb::Signal { .. } | JobVerb::Extend { .. } => false,
    }
}

/// Whether a form comes from a page of this server, as far as the browser says. One of the headers
/// must be there.
/// Source: Fetch Metadata Request Headers, W3C; RFC 6454 for `Origin`.
fn is_own(headers: &HeaderMap, scheme: &str) -> bool {
    let text = |name| headers.get(name).and_then(|value: &header::HeaderValue| value.to_str().ok());
    let host = text(header::HOST).unwrap_or_default();
    let origin = text(header::ORIGIN).map(|origin| origin == format!("{scheme}://{host}"));
    let site = text(header::HeaderName::from_static("sec-fetch-site"));
    let site = site.map(|site| site == "same-origin");
    let said: Vec<bool> = origin.into_iter().chain(site).collect();
    !said.is_empty() && said.into_iter().all(|is_own| is_own)
}
