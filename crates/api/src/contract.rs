//! The API document as the server serves it: a file of the repository, which a test compares with
//! the code. A debug build panics for an answer that the document does not contain.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use axum::http::StatusCode;
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::routes::Route;

pub const OPENAPI: &str = include_str!("../../../docs/openapi.json");

/// What the server itself reads of the document.
#[derive(Deserialize)]
struct Contract<'a> {
    /// Operations by path and by method in lower case.
    #[serde(borrow)]
    paths: BTreeMap<&'a str, BTreeMap<&'a str, Operation<'a>>>,
}

#[derive(Deserialize)]
struct Operation<'a> {
    #[serde(borrow, default)]
    parameters: Vec<Parameter<'a>>,
    /// By status.
    #[serde(borrow)]
    responses: BTreeMap<&'a str, IgnoredAny>,
}

#[derive(Deserialize)]
struct Parameter<'a> {
    name: &'a str,
    r#in: &'a str,
}

/// What the document says about one route.
struct Documented {
    statuses: BTreeSet<&'static str>,
    /// The names in a query.
    parameters: BTreeSet<&'static str>,
}

/// By path and method.
static DOCUMENTED: LazyLock<BTreeMap<(&str, String), Documented>> = LazyLock::new(|| {
    let contract: Contract<'_> = serde_json::from_str(OPENAPI).expect("a test writes the document");
    let mut routes = BTreeMap::new();
    for (path, operations) in contract.paths {
        for (method, operation) in operations {
            let of_query = operation.parameters.iter().filter(|it| it.r#in == "query");
            let parameters = of_query.map(|it| it.name).collect();
            let statuses = operation.responses.into_keys().collect();
            routes.insert((path, method.to_uppercase()), Documented { statuses, parameters });
        }
    }
    routes
});

fn of_route(route: &Route) -> Option<&'static Documented> {
    DOCUMENTED.get(&(route.path, route.method.to_owned()))
}

/// Whether the document contains this answer for a route.
pub(crate) fn documents(route: &Route, status: StatusCode) -> bool {
    of_route(route).is_some_and(|known| known.statuses.contains(status.as_str()))
}

/// The names that the query of a route may have.
pub fn parameters(route: &Route) -> impl Iterator<Item = &'static str> {
    of_route(route).into_iter().flat_map(|known| &known.parameters).copied()
}
