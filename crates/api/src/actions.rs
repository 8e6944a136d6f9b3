//! Routes for verbs on jobs: one route per verb for a job in the path, and one for a list of jobs,
//! which changes all of them or none. Both come from the rows of [`VERBS`].

use axum::extract::{FromRequest as _, Request, State};
use axum::routing::post;
use axum::{Json, Router};
use gpool_model::{Command, JobId, JobVerb, Refusal, Reply};
use gpool_wire::verb::One;
use gpool_wire::{JobChanged, List, VERBS, VerbRow};

use super::asker::{Asker, Asks};
use super::changes::Portion;
use super::extract::{ApiError, JsonBytes, Segment, job_id, pairs, unexpected};
use crate::api::Api;
use gpool_server::view::View;

type Changed = Result<Json<List<JobChanged>>, ApiError>;

/// Adds the routes of every verb.
pub(crate) fn add_routes(mut router: Router<Api>) -> Router<Api> {
    for row in VERBS {
        let name = row.verb.name();
        let one = move |State(api): State<Api>,
                        Asks(asker): Asks,
                        Segment(id): Segment,
                        portion: Portion,
                        request: Request| async move {
            let verb = verb_of_one(row, &api, request).await?;
            carry_out(&api, &asker, &portion, vec![job_id(&id)?], verb).await
        };
        let many = move |State(api): State<Api>,
                         Asks(asker): Asks,
                         portion: Portion,
                         JsonBytes(body): JsonBytes| async move {
            let (jobs, verb) = row.read(&body)?;
            carry_out(&api, &asker, &portion, selected(&jobs)?, verb).await
        };
        router = router
            .route(&format!("/jobs/{{id}}/{name}"), post(one))
            .route(&format!("/jobs/{name}"), post(many));
    }
    router
}

/// Reads the verb of a request with the job in its path.
async fn verb_of_one(row: &VerbRow, api: &Api, request: Request) -> Result<JobVerb, ApiError> {
    match row.params.as_ref().map(|params| &params.one) {
        None => Ok(row.verb),
        Some(One::Query { read, .. }) => Ok(read(pairs(request.uri())?)?),
        Some(One::Body) => {
            let JsonBytes(body) = JsonBytes::from_request(request, api).await?;
            let (jobs, verb) = row.read(&body)?;
            if !jobs.is_empty() {
                let why = "the path already names the job; leave the list out".to_owned();
                return Err(Refusal::Invalid { field: "jobs".to_owned(), why }.into());
            }
            Ok(verb)
        }
    }
}

async fn carry_out(
    api: &Api,
    asker: &Asker,
    portion: &Portion,
    jobs: Vec<JobId>,
    verb: JobVerb,
) -> Changed {
    if matches!(verb, JobVerb::Requeue { .. }) {
        portion.take_runs(n_tasks(api, jobs.clone()).await?)?;
    }
    match api.handle.command(asker.caller.clone(), Command::OnJobs { jobs, verb }).await? {
        Reply::Jobs(jobs) => {
            let changed = jobs.into_iter();
            let changed = changed.map(|(id, state)| JobChanged { id: id.to_string(), state });
            Ok(Json(List::new(changed.collect())))
        }
        other => Err(unexpected(&other)),
    }
}

/// The number of tasks of jobs, and of elements of arrays, that hold something: each runs again.
async fn n_tasks(api: &Api, jobs: Vec<JobId>) -> Result<u64, Refusal> {
    let count = move |view: &View<'_>| {
        let rows = jobs.iter().flat_map(|id| {
            let is_whole = id.element.is_none();
            let elements = is_whole.then(|| view.world.elements_holding(id.number));
            view.world.job(*id).into_iter().chain(elements.into_iter().flatten())
        });
        rows.map(|row| row.job.phase.allocations().len() as u64).sum()
    };
    api.handle.query(count).await
}

pub(crate) fn selected(ids: &[String]) -> Result<Vec<JobId>, ApiError> {
    if ids.is_empty() {
        let why = "it has no job; write {\"jobs\": [\"17\"]}".to_owned();
        return Err(Refusal::Invalid { field: "jobs".to_owned(), why }.into());
    }
    ids.iter().map(|id| job_id(id)).collect()
}
