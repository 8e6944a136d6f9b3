//! Answers that many routes share: for the checks and limits of all requests, of requests with a
//! body, and of requests with changes; and examples of bodies.

use axum::http::StatusCode;
use gpool_wire::{API_PREFIX, Problem, VERBS, schema};
use serde_json::{Value, json};
use utoipa::Number;
use utoipa::openapi::path::{Operation, ParameterIn};
use utoipa::openapi::schema::{AdditionalProperties, ArrayItems};
use utoipa::openapi::{
    Components, ContentBuilder, HeaderBuilder, KnownFormat, OpenApi, PathItem, Ref, RefOr,
    Response, ResponseBuilder, Schema, SchemaFormat,
};
use utoipa::{PartialSchema, ToSchema};

use crate::routes::{Least, ROUTES, Role, Route};

/// An answer of several routes.
struct Common {
    status: u16,
    /// Name among the document's components.
    name: &'static str,
    what: &'static str,
    is_of: fn(RouteRequest) -> bool,
}

/// A route, and whether its requests have a body.
#[derive(Clone, Copy)]
struct RouteRequest {
    route: &'static Route,
    has_body: bool,
}

impl RouteRequest {
    /// Whether the request acts, or simulates an action.
    fn acts(self) -> bool {
        self.route.method != "GET" && self.route.path != "/api/v1/shutdown"
    }

    /// Whether the request stores something.
    fn changes(self) -> bool {
        let last = self.route.path.rsplit('/').next();
        self.acts() && !matches!(last, Some("simulate" | "attach" | "exec" | "forward" | "link"))
    }

    fn names_jobs(self) -> bool {
        self.route.path.contains("{id}") || self.route.role == Role::Owner
    }

    /// Whether the request admits a job: a new, changed, or retried one.
    fn admits(self) -> bool {
        matches!(
            (self.route.method, self.route.path),
            ("POST", "/api/v1/jobs" | "/api/v1/jobs/bulk" | "/api/v1/jobs/{id}/retry")
                | ("PATCH", "/api/v1/jobs/{id}")
        )
    }

    fn asks_the_core(self) -> bool {
        !matches!(self.route.path, "/healthz" | "/openapi.json")
    }
}

const COMMON: &[Common] = &[
    Common {
        status: 400,
        name: "Invalid",
        what: "The body is not JSON, a field is unknown, or a value is not valid.",
        is_of: |_| true,
    },
    Common {
        status: 401,
        name: "NotSignedIn",
        what: "Over the network, the request has no valid token.",
        is_of: |request| request.route.least != Least::Anyone,
    },
    Common {
        status: 403,
        name: "NotPermitted",
        what: "The caller has no permission, or, over the network, their token does not allow it.",
        is_of: |request| request.route.least != Least::Anyone,
    },
    Common {
        status: 404,
        name: "NotFound",
        what: "Something that the request names does not exist.",
        is_of: |request| request.names_jobs() || request.acts(),
    },
    Common {
        status: 408,
        name: "TooSlow",
        what: "The rest of the request did not come in time. Nothing was done.",
        is_of: |request| request.has_body,
    },
    Common {
        status: 409,
        name: "Conflict",
        what: "The state of what the request names, or an earlier request, does not allow this.",
        is_of: RouteRequest::acts,
    },
    Common {
        status: 413,
        name: "TooLarge",
        what: "The body, or something in it, is larger than the limit.",
        is_of: |request| request.has_body,
    },
    Common {
        status: 415,
        name: "UnsupportedType",
        what: "The body has another Content-Type, or a Content-Encoding.",
        is_of: |_| true,
    },
    Common {
        status: 422,
        name: "Impossible",
        what: "No node could ever run the job, or no quota could ever allow it.",
        is_of: RouteRequest::admits,
    },
    Common {
        status: 429,
        name: "TooMany",
        what: "The caller has too many connections, jobs or requests a second.",
        is_of: |_| true,
    },
    Common {
        status: 431,
        name: "HeadersTooLarge",
        what: "The target and the headers have more than 16 KiB.",
        is_of: |_| true,
    },
    Common {
        status: 500,
        name: "Failed",
        what: "The server had an internal error.",
        is_of: |_| true,
    },
    Common {
        status: 503,
        name: "Unavailable",
        what: "The server is starting or stopping.",
        is_of: RouteRequest::asks_the_core,
    },
    Common {
        status: 507,
        name: "StorageFull",
        what: "The disk of the server's state folder is full. Nothing was changed.",
        is_of: RouteRequest::changes,
    },
];

/// Example bodies by method and path. `VERBS` contains those of verbs on jobs.
const EXAMPLES: &[(&str, &str, &str)] = &[
    ("POST", "/jobs", r#"{"command": ["python", "train.py"], "name": "train", "time": "8h"}"#),
    ("PATCH", "/jobs/{id}", r#"{"priority": -10, "note": "after the deadline"}"#),
    ("POST", "/jobs/{id}/attach", r#"{"window": {"rows": 24, "columns": 80}}"#),
    ("POST", "/jobs/{id}/exec", r#"{"command": ["nvidia-smi"]}"#),
    ("POST", "/jobs/{id}/forward", r#"{"port": 8888}"#),
    ("POST", "/jobs/{id}/link", r#"{"port": 8888}"#),
    ("POST", "/gpus/allow", r#"{"devices": ["0-1"]}"#),
    ("POST", "/mig", r#"{"create": {"gpu": "lab1:0", "profile": "1g.10gb"}}"#),
    ("POST", "/nodes", r#"{"name": "lab2", "expires": "1h"}"#),
    ("POST", "/nodes/drain", r#"{"targets": ["lab1:1"], "reason": "a fan"}"#),
    ("POST", "/nodes/label", r#"{"nodes": ["lab1"], "labels": ["rack=3", "ssd"]}"#),
    ("POST", "/nodes/undrain", r#"{"targets": ["lab1:1"]}"#),
    ("POST", "/nodes/{name}/drain", r#"{"targets": ["1"], "reason": "a fan"}"#),
    ("POST", "/nodes/{name}/undrain", r#"{"targets": ["1"]}"#),
    ("PATCH", "/policies", r#"{"device_strategy": "pack"}"#),
    ("POST", "/pools/move", r#"{"nodes": ["lab1"], "pool": "batch"}"#),
    ("POST", "/projects", r#"{"name": "vision", "gpus": 1, "members": ["ana", "@lab"]}"#),
    ("POST", "/projects/apply", r#"{"projects": {"nlp": {"gpus": 1, "limit": 6}}}"#),
    ("PATCH", "/projects/{name}", r#"{"gpus": 2}"#),
    (
        "POST",
        "/reservations",
        r#"{"nobody": true, "nodes": ["lab1"], "for": "4h", "at_begin": "let_finish"}"#,
    ),
    ("PATCH", "/reservations/{name}", r#"{"reason": "new memory"}"#),
    ("POST", "/shutdown", r#"{"now": false}"#),
    ("POST", "/simulate", r#"{"if": ["drain lab1"], "for": "2h"}"#),
    ("POST", "/tokens", r#"{"name": "laptop", "scope": "user", "expires": "90d"}"#),
    ("PUT", "/secrets/{name}", r#"{"value": "hf_example"}"#),
    ("PATCH", "/network-users/{name}", r#"{"user": "ana"}"#),
    ("PATCH", "/users/{name}", r#"{"gpus": 2, "running_jobs": null}"#),
    (
        "PATCH",
        "/projects/{name}/subscription",
        r#"{"notify": ["budget,digest@mailto:pi@example.org"]}"#,
    ),
    ("POST", "/files/missing", r#"{"objects": []}"#),
    ("PATCH", "/users/{name}/subscription", r#"{"notify": ["digest@https://example.org/hook"]}"#),
];

/// Lines of a bulk submission.
const LINES: &str = "{\"defaults\": {\"time\": \"1h\"}}\n{\"command\": [\"true\"]}\n";

fn example(route: &Route) -> Option<Value> {
    let path = route.path.strip_prefix(API_PREFIX)?;
    if path == "/jobs/bulk" {
        return Some(LINES.into());
    }
    let found = EXAMPLES.iter().find(|(method, of, _)| (*method, *of) == (route.method, path));
    let read = |text| serde_json::from_str(text).expect("the examples are JSON");
    found.map(|(.., text)| read(text)).or_else(|| {
        let verb = VERBS.iter().find(|row| path.ends_with(&format!("/{}", row.verb.name())))?;
        let mut body: Value = verb.params.as_ref().map_or(json!({}), |it| read(it.example));
        if !path.contains("{id}") {
            body["jobs"] = json!(["1"]);
        }
        Some(body)
    })
}

/// Adds the shared answers to a document.
pub(crate) fn complete(document: &mut OpenApi) {
    let components = document.components.get_or_insert_with(Components::new);
    for common in COMMON {
        components.responses.insert(common.name.to_owned(), RefOr::T(common.response()));
    }
    components.schemas.values_mut().for_each(bound);
    for (path, item) in &mut document.paths.paths {
        for (method, operation) in operations(item) {
            let row = ROUTES.iter().find(|row| row.path == *path && row.method == method);
            if let Some(route) = row {
                complete_operation(operation, route);
            }
        }
    }
}

fn operations(item: &mut PathItem) -> impl Iterator<Item = (&'static str, &mut Operation)> {
    let all = [
        ("GET", &mut item.get),
        ("POST", &mut item.post),
        ("PUT", &mut item.put),
        ("PATCH", &mut item.patch),
        ("DELETE", &mut item.delete),
    ];
    all.into_iter().filter_map(|(method, operation)| Some((method, operation.as_mut()?)))
}

fn complete_operation(operation: &mut Operation, route: &'static Route) {
    // Otherwise the names of modules.
    operation.tags = None;
    let request = RouteRequest { route, has_body: operation.request_body.is_some() };
    for common in COMMON.iter().filter(|common| (common.is_of)(request)) {
        let responses = &mut operation.responses.responses;
        let of_all = || RefOr::Ref(Ref::from_response_name(common.name));
        responses.entry(common.status.to_string()).or_insert_with(of_all);
    }
    if let Some(RefOr::T(body)) = &mut operation.request_body {
        for content in body.content.values_mut() {
            if let RefOr::T(content) = content {
                content.example = example(route);
            }
        }
    }
    for parameter in operation.parameters.iter_mut().flatten() {
        let RefOr::T(parameter) = parameter else { continue };
        if parameter.parameter_in == ParameterIn::Path && parameter.name == "id" {
            parameter.schema = Some(RefOr::T(schema::job_id().into()));
        }
        parameter.schema.iter_mut().for_each(bound);
    }
}

impl Common {
    fn response(&self) -> Response {
        let problem = Ref::from_schema_name(Problem::name());
        let content = ContentBuilder::new().schema(Some(problem)).build();
        let response = ResponseBuilder::new()
            .description(self.what)
            .content("application/problem+json", content);
        let response = match StatusCode::from_u16(self.status) {
            Ok(StatusCode::TOO_MANY_REQUESTS) => {
                let seconds = HeaderBuilder::new().schema(Some(u32::schema()));
                response.header(
                    "Retry-After",
                    seconds.description(Some("Seconds until the next attempt")).build(),
                )
            }
            _ => response,
        };
        response.build()
    }
}

/// Adds the bounds of whole numbers: the format alone means nothing to most readers.
fn bound(schema: &mut RefOr<Schema>) {
    let RefOr::T(schema) = schema else { return };
    match schema {
        Schema::Object(object) => {
            if let Some(most) = object.format.as_ref().and_then(most) {
                object.format = None;
                object.maximum.get_or_insert(most);
            }
            object.properties.values_mut().for_each(bound);
            if let Some(AdditionalProperties::RefOr(more)) =
                object.additional_properties.as_deref_mut()
            {
                bound(more);
            }
        }
        Schema::Array(array) => {
            if let ArrayItems::RefOrSchema(items) = &mut array.items {
                bound(items);
            }
        }
        Schema::OneOf(several) => several.items.iter_mut().for_each(bound),
        Schema::AllOf(several) => several.items.iter_mut().for_each(bound),
        Schema::AnyOf(several) => several.items.iter_mut().for_each(bound),
        _ => {}
    }
}

/// Returns the maximum of a format without negative numbers.
fn most(format: &SchemaFormat) -> Option<Number> {
    let SchemaFormat::KnownFormat(format) = format else { return None };
    Some(match format {
        KnownFormat::UInt8 => u8::MAX.into(),
        KnownFormat::UInt16 => u16::MAX.into(),
        KnownFormat::UInt32 => u32::MAX.into(),
        KnownFormat::UInt64 => usize::MAX.into(),
        _ => return None,
    })
}
