//! The operations of verbs on jobs: one for a job in the path, and one for a list of jobs.

use gpool_wire::verb::One;
use gpool_wire::{JobChanged, List, Problem, VERBS, VerbRow, documented};
use utoipa::openapi::path::{
    HttpMethod, OperationBuilder, Parameter, ParameterBuilder, ParameterIn,
};
use utoipa::openapi::request_body::RequestBodyBuilder;
use utoipa::openapi::{
    Components, ContentBuilder, OpenApi, Ref, Required, Response, ResponseBuilder,
};
use utoipa::{PartialSchema as _, ToSchema};

/// Name of the answer's schema.
const CHANGED: &str = "List_JobChanged";

/// Adds the answer's schema, and the schemas that it refers to.
#[derive(ToSchema)]
#[expect(dead_code, reason = "it is a schema")]
struct VerbAnswer {
    changed: List<JobChanged>,
}

/// Adds the operations of every verb, with the schemas of their bodies.
pub(super) fn add(document: &mut OpenApi) {
    let mut schemas = vec![(JobChanged::name().into_owned(), JobChanged::schema())];
    VerbAnswer::schemas(&mut schemas);
    for row in VERBS {
        let name = row.verb.name();
        let mut of_body = Vec::new();
        documented::add_body(row.verb, &mut of_body);
        let body = of_body[0].0.clone();
        schemas.append(&mut of_body);
        let mut add = |path: &str, operation| {
            document.paths.add_path_operation(path, vec![HttpMethod::Post], operation);
        };
        add(&format!("/jobs/{{id}}/{name}"), document_one(row, &body));
        add(&format!("/jobs/{name}"), document_many(row, &body));
    }
    document.components.get_or_insert_with(Components::new).schemas.extend(schemas);
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
        Some(One::Query { .. }) => {
            parameters.extend(documented::query_of(row.verb));
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
