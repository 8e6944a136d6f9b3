//! Routes for verbs on jobs: one route per verb for a job in the path, and one for a list of jobs,
//! which changes all of them or none. Both come from the rows of [`VERBS`].

use axum::Json;
use axum::extract::{FromRequest as _, Request, State};
use axum::routing::post;
use gpool_model::{Command, JobId, JobVerb, Refusal, Reply};
use gpool_wire::verb::One;
use gpool_wire::{JobChanged, List, Problem, VERBS, VerbRow};
use utoipa::openapi::path::{
    HttpMethod, OperationBuilder, Parameter, ParameterBuilder, ParameterIn, Paths,
};
use utoipa::openapi::request_body::RequestBodyBuilder;
use utoipa::openapi::{ContentBuilder, Ref, Required, Response, ResponseBuilder};
use utoipa::{PartialSchema as _, ToSchema};
use utoipa_axum::router::OpenApiRouter;

use super::Api;
use super::asker::{Asker, Asks};
use super::changes::Portion;
use super::extract::{ApiError, JsonBytes, Segment, job_id, pairs};
use super::submit::unexpected;
use crate::view::View;

type Changed = Result<Json<List<JobChanged>>, ApiError>;

/// Name of the answer's schema.
const CHANGED: &str = "List_JobChanged";

/// Adds the answer's schema, and the schemas that it refers to.
#[derive(ToSchema)]
#[expect(dead_code, reason = "it is a schema")]
struct Answer {
    changed: List<JobChanged>,
}

/// Returns the routes of every verb, with their documentation.
pub(crate) fn routes() -> OpenApiRouter<Api> {
    let mut router = OpenApiRouter::new();
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
        let mut schemas = Vec::new();
        row.schemas(&mut schemas);
        let body = schemas[0].0.clone();
        Answer::schemas(&mut schemas);
        schemas.push((JobChanged::name().into_owned(), JobChanged::schema()));
        let of_one = paths(&format!("/jobs/{{id}}/{name}"), document_one(row, &body));
        let of_many = paths(&format!("/jobs/{name}"), document_many(row, &body));
        router = router.routes((schemas, of_one, post(one)));
        router = router.routes((Vec::new(), of_many, post(many)));
    }
    router
}

fn paths(path: &str, operation: OperationBuilder) -> Paths {
    let mut paths = Paths::new();
    paths.add_path_operation(path, vec![HttpMethod::Post], operation);
    paths
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

fn document_one(row: &VerbRow, body: &str) -> OperationBuilder {
    let id = ParameterBuilder::new()
        .name("id")
        .parameter_in(ParameterIn::Path)
        .required(Required::True)
        .description(Some("The job"));
    let mut parameters: Vec<Parameter> = vec![id.build()];
    let operation = document(row, "");
    let operation = match row.params.as_ref().map(|params| &params.one) {
        None => operation,
        Some(One::Query { params, .. }) => {
            parameters.extend(params());
            operation
        }
        Some(One::Body) => with_body(operation, body),
    };
    operation.parameters(Some(parameters))
}

fn document_many(row: &VerbRow, body: &str) -> OperationBuilder {
    with_body(document(row, "_many"), body).description(Some("Many at once, all or none."))
}

/// Documents the answers of one route; `contract` adds the answers of all routes.
fn document(row: &VerbRow, end: &str) -> OperationBuilder {
    let states = row.verb.rules().states.unwrap_or_default();
    let states: Vec<&str> = states.iter().map(|state| state.as_str()).collect();
    let conflict = match states.is_empty() {
        true => "A job has ended".to_owned(),
        false => format!("The state of a job is not one of {}", states.join(", ")),
    };
    OperationBuilder::new()
        .operation_id(Some(format!("jobs_{}{end}", row.verb.name())))
        .summary(Some(row.summary))
        .response(
            "200",
            answer("The states of the jobs after the change", "application/json", CHANGED),
        )
        .response("409", answer(&conflict, "application/problem+json", &Problem::name()))
}

fn answer(what: &str, kind: &str, schema: &str) -> Response {
    let content = ContentBuilder::new().schema(Some(Ref::from_schema_name(schema))).build();
    ResponseBuilder::new().description(what).content(kind, content).build()
}

fn with_body(operation: OperationBuilder, schema: &str) -> OperationBuilder {
    let content = ContentBuilder::new().schema(Some(Ref::from_schema_name(schema))).build();
    let body = RequestBodyBuilder::new().content("application/json", content);
    operation.request_body(Some(body.required(Some(Required::True)).build()))
}
