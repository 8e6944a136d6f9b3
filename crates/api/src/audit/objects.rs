//! The objects of an audit entry, by the names that users see: `nodes/lab1`, `nodes/lab1:0`,
//! `jobs/12.3`, `reservations/r1`.

use gpool_wire::{API_PREFIX, LabelNodes};
use serde_json::{Value, json};

use super::KnownChange;

impl KnownChange {
    /// A secret of a user, with the bytes of its value, or none if it was removed.
    pub(crate) fn secret(name: &str, user: &str, bytes: Option<u64>) -> Self {
        let after = json!({ "user": user, "bytes": bytes });
        Self { objects: vec![format!("secrets/{name}")], after }
    }
}

/// Most objects of one entry.
pub(super) const OBJECTS_MAX: usize = 1000;

/// A change: its route, the values in its path, and both bodies.
pub(super) struct AuditedChange<'a> {
    /// The route's path, such as `/api/v1/jobs/{id}/cancel`.
    pub pattern: &'a str,
    /// The object that the path names.
    pub in_path: Option<&'a str>,
    /// The request; only for changes of the cluster.
    pub request: Option<&'a Value>,
    /// The answer; null if it is too large.
    pub answer: &'a Value,
}

impl AuditedChange<'_> {
    /// Returns the changed objects; the collection if neither path nor bodies name them.
    pub fn objects(&self) -> Vec<String> {
        let mut named = self.in_bodies();
        named.truncate(OBJECTS_MAX);
        if !named.is_empty() {
            return named;
        }
        let collection = || collection_of(self.pattern).map(str::to_owned);
        self.in_path.map(str::to_owned).or_else(collection).into_iter().collect()
    }

    fn in_bodies(&self) -> Vec<String> {
        let Self { pattern, request, answer, .. } = *self;
        let request = request.unwrap_or(&Value::Null);
        let Some(collection) = collection_of(pattern) else { return Vec::new() };
        match pattern.strip_prefix(API_PREFIX).unwrap_or(pattern) {
            "/nodes/drain" | "/nodes/undrain" | "/nodes/{name}/drain" | "/nodes/{name}/undrain" => {
                named("nodes", texts(&answer["targets"]))
            }
            "/nodes/label" => {
                let asked = serde_json::from_value::<LabelNodes>(request.clone()).ok();
                let nodes = asked.and_then(|asked| asked.check().ok()).map(|(nodes, _)| nodes);
                nodes.iter().flatten().map(|node| format!("nodes/{node}")).collect()
            }
            "/pools/move" => {
                let pool = named("pools", request["pool"].as_str());
                pool.into_iter().chain(named("nodes", texts(&request["nodes"]))).collect()
            }
            "/gpus/allow" => {
                let first = || answer["items"][0]["node"].as_str();
                named("nodes", request["node"].as_str().or_else(first))
            }
            "/mig" => named("nodes", answer["profiles"][0]["node"].as_str()),
            "/projects" | "/projects/apply" => {
                let changes = answer["changes"].as_array().into_iter().flatten();
                named("projects", changes.filter_map(|it| it["project"].as_str()))
            }
            "/reservations" => named(collection, answer["reservation"]["name"].as_str()),
            // The path may have the user's number.
            "/users/{name}" => named(collection, answer["user"].as_str()),
            path if path.contains('{') => Vec::new(),
            _ => match (&answer["items"], answer["first"].as_str()) {
                (Value::Array(items), _) if collection == "jobs" => {
                    named(collection, items.iter().filter_map(name_of))
                }
                (_, Some(first)) => named(collection, [first]),
                _ => named(collection, name_of(answer)),
            },
        }
    }
}

/// The object that a path names: `jobs/12` of `/api/v1/jobs/{id}/cancel`. `value` returns the value
/// of a name in braces.
pub(super) fn in_path(pattern: &str, value: impl Fn(&str) -> Option<String>) -> Option<String> {
    let pattern = pattern.strip_prefix(API_PREFIX)?.trim_start_matches('/');
    let Some((collection, rest)) = pattern.split_once('/') else {
        return Some(pattern.to_owned());
    };
    let name = rest.strip_prefix('{')?.split('}').next()?;
    Some(format!("{collection}/{}", value(name)?))
}

/// The collection of a route: `jobs` of `/api/v1/jobs/{id}/cancel`.
pub(super) fn collection_of(pattern: &str) -> Option<&str> {
    pattern.strip_prefix(API_PREFIX)?.split('/').nth(1)
}

fn named<'a>(collection: &str, names: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    names.into_iter().map(|name| format!("{collection}/{name}")).collect()
}

fn texts(list: &Value) -> impl Iterator<Item = &str> {
    list.as_array().into_iter().flatten().filter_map(Value::as_str)
}

fn name_of(object: &Value) -> Option<&str> {
    object["id"].as_str().or_else(|| object["name"].as_str())
}
