//! The table of routes against the router, route by route and role by role.

use std::collections::BTreeSet;

use gpool_wire::keys::keys;
use serde_json::Value;

use crate::rig::{ANA, BO, OWNER, Rig, raw, request};
use gpool_api::openapi_json;
use gpool_api::routes::{ROUTES, Role, Route};

#[test]
fn every_route_has_a_row() {
    let document: Value = serde_json::from_str(&openapi_json()).unwrap();
    let served: BTreeSet<(String, String)> = document["paths"]
        .as_object()
        .unwrap()
        .iter()
        .flat_map(|(path, methods)| {
            let methods = methods.as_object().unwrap().keys();
            methods.map(|method| (method.to_uppercase(), path.clone())).collect::<Vec<_>>()
        })
        .collect();
    let rows: BTreeSet<(String, String)> =
        ROUTES.iter().map(|row| (row.method.to_owned(), row.path.to_owned())).collect();
    assert_eq!(served, rows);
    assert_eq!(rows.len(), ROUTES.len(), "a row stands there twice");
}

#[test]
fn operations_have_names_of_their_own() {
    let document: serde_json::Value = serde_json::from_str(&openapi_json()).unwrap();
    let paths = document["paths"].as_object().unwrap();
    let operations = paths.values().flat_map(|path| path.as_object().unwrap().values());
    let names: Vec<&str> =
        operations.map(|operation| operation["operationId"].as_str().unwrap()).collect();
    let different: BTreeSet<&&str> = names.iter().collect();
    assert_eq!(different.len(), names.len());
    assert_eq!(document["openapi"].as_str().map(|version| &version[..3]), Some("3.1"));
}

#[test]
fn the_document_in_the_repository_is_the_one_that_is_served() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/openapi.json");
    if std::env::var_os("GPOOL_BLESS").is_some() {
        std::fs::write(path, openapi_json()).unwrap();
    }
    let kept = std::fs::read_to_string(path).unwrap_or_default();
    assert!(
        kept == openapi_json(),
        "docs/openapi.json differs; GPOOL_BLESS=1 cargo test -p gpool-api --test it writes it"
    );
}

/// Sorted, filtered and selected by the command.
#[test]
fn the_keys_of_lists_are_those_of_the_document() {
    let document: Value = serde_json::from_str(&openapi_json()).unwrap();
    let check = |name: &str, keys: Vec<String>| {
        let properties = document["components"]["schemas"][name]["properties"].as_object();
        let documented: Vec<&String> = properties.unwrap().keys().collect();
        assert_eq!(keys.iter().collect::<Vec<_>>(), documented, "{name}");
    };
    check("AuditEntry", keys::<gpool_wire::AuditEntry>());
    check("Gpu", keys::<gpool_wire::Gpu>());
    check("Job", keys::<gpool_wire::Job>());
    check("MigProfile", keys::<gpool_wire::MigProfile>());
    check("MigStep", keys::<gpool_wire::MigStep>());
    check("NetworkUser", keys::<gpool_wire::NetworkUser>());
    check("Node", keys::<gpool_wire::Node>());
    check("Notification", keys::<gpool_wire::Notification>());
    check("Pool", keys::<gpool_wire::Pool>());
    check("Project", keys::<gpool_wire::Project>());
    check("QuotaRow", keys::<gpool_wire::QuotaRow>());
    check("Reservation", keys::<gpool_wire::Reservation>());
    check("Token", keys::<gpool_wire::Token>());
}

/// The document's example of a body, so that a refusal is about the caller and nothing else.
fn body_of(document: &Value, row: &Route) -> String {
    let operation = &document["paths"][row.path][row.method.to_lowercase()];
    let mut content = operation["requestBody"]["content"].as_object().into_iter().flatten();
    match content.next().map(|(_, content)| &content["example"]) {
        None => String::new(),
        Some(Value::String(lines)) => lines.clone(),
        Some(example) => example.to_string(),
    }
}

#[test]
fn each_role_gets_what_the_table_says() {
    let document: Value = serde_json::from_str(&openapi_json()).unwrap();
    let mut rig = Rig::new();
    rig.network();
    let ana = rig.client(ANA);
    let job = serde_json::from_str(r#"{"command":["sleep"],"gpus":"1"}"#).unwrap();
    assert_eq!(ana.submit(&job, None).unwrap().id, "1");
    rig.until("it runs", || ana.job("1").unwrap().state.as_str() == "running");
    let (stranger, admin) = (rig.socket(BO), rig.socket(OWNER));
    // Of the name of the node, so that one word stands for both.
    let window =
        r#"{"name":"lab1","nobody":true,"nodes":["lab1"],"for":"1h","at_begin":"let_finish"}"#;
    let (status, _, body) = raw(&admin, &request("POST", "/api/v1/reservations", window));
    assert_eq!(status, 200, "{body}");
    let project = r#"{"name":"lab1"}"#;
    let (status, _, body) = raw(&admin, &request("POST", "/api/v1/projects", project));
    assert_eq!(status, 200, "{body}");
    let token = serde_json::from_str(r#"{"scope":"user"}"#).unwrap();
    let token = ana.create_token(&token).unwrap().token.id;
    let path_of = |row: &Route| {
        // The owner of the job is also the user of these routes.
        let path = row.path.replace("/users/{name}/", "/users/ana/");
        let path = path.replace("{id}", "1").replace("{name}", "lab1");
        path.replace("{token}", &token)
    };
    for row in ROUTES.iter() {
        // Its answer has no end, and it needs no identity.
        if row.path.ends_with("/events") {
            continue;
        }
        let request = request(row.method, &path_of(row), &body_of(&document, row));
        let (status, _, body) = raw(&stranger, &request);
        match row.role {
            // This server has no identity provider.
            Role::Everybody if row.path.contains("/login/device") => assert_eq!(status, 404),
            // The request says that its body is JSON.
            Role::Everybody if row.path.ends_with("/files/objects") => assert_eq!(status, 415),
            Role::Everybody => assert!(status < 300, "{row:?} {status} {body}"),
            Role::Owner
            | Role::OwnerAlone
            | Role::ProjectAdmin
            | Role::AdminOfProject
            | Role::Admin => assert_eq!(status, 403, "{row:?} {body}"),
        }
    }
    assert_eq!(ana.job("1").unwrap().state.as_str(), "running", "nothing was done to it");
    let of_admins = [Role::ProjectAdmin, Role::AdminOfProject, Role::Admin];
    for row in ROUTES.iter().filter(|row| of_admins.contains(&row.role)) {
        let body = body_of(&document, row);
        let (status, _, body) = raw(&admin, &request(row.method, &path_of(row), &body));
        match (row.method, row.path) {
            // The node answers.
            ("DELETE", "/api/v1/nodes/{name}") => assert_eq!(status, 409, "{body}"),
            _ => assert!(status < 300, "{row:?} {status} {body}"),
        }
    }
    for row in ROUTES.iter().filter(|row| row.role == Role::OwnerAlone) {
        let body = body_of(&document, row);
        let (status, _, body) = raw(&admin, &request(row.method, &path_of(row), &body));
        assert_eq!(status, 403, "{row:?} {body}");
    }
    // Its owner may do it, as far as its state allows.
    let owner = rig.socket(ANA);
    for row in ROUTES.iter().filter(|row| row.role == Role::Owner) {
        let path = path_of(row);
        let (status, _, body) = raw(&owner, &request(row.method, &path, &body_of(&document, row)));
        // These need a connection, or a job with a script.
        let needs_more = ["attach", "exec", "forward", "script"];
        let needs_more = needs_more.iter().any(|end| path.ends_with(end));
        assert!(needs_more || !matches!(status, 400 | 403), "{row:?} {status} {body}");
    }
}

/// A flag that a route does not know would be taken for granted: `dry_run` most of all.
#[test]
fn no_route_takes_an_unknown_name_in_its_query() {
    let document: Value = serde_json::from_str(&openapi_json()).unwrap();
    let mut rig = Rig::new();
    let (admin, client) = (rig.socket(OWNER), rig.client(OWNER));
    for row in ROUTES.iter() {
        let operation = &document["paths"][row.path][row.method.to_lowercase()];
        let parameters = operation["parameters"].as_array().into_iter().flatten();
        let has_dry_run = parameters.into_iter().any(|it| it["name"] == "dry_run");
        let path = row.path.replace("{id}", "1").replace("{name}", "lab1");
        let body = body_of(&document, row);
        for query in ["dry_run=true", "x=dry_run=true", "dry%5Frun=true", "&=&dry_run=1"] {
            if has_dry_run && query != "x=dry_run=true" {
                continue;
            }
            let request = request(row.method, &format!("{path}?{query}"), &body);
            let (status, _, answer) = raw(&admin, &request);
            assert_eq!(status, 400, "{row:?} {query} {answer}");
            assert!(answer.contains("GP0103") && answer.contains("in the query"), "{answer}");
        }
    }
    assert_eq!(client.audit(&gpool_client::AuditQuery::default()).unwrap().items, []);
}

/// Nor is a flag in a body that no handler reads.
#[test]
fn a_route_that_reads_no_body_refuses_one() {
    let document: Value = serde_json::from_str(&openapi_json()).unwrap();
    let mut rig = Rig::new();
    let (owner, viewer, client) = (rig.socket(OWNER), rig.socket(BO), rig.client(OWNER));
    for row in ROUTES.iter().filter(|row| row.method != "GET") {
        let operation = &document["paths"][row.path][row.method.to_lowercase()];
        assert_eq!(row.has_body, operation["requestBody"].is_object(), "{row:?}");
        if row.has_body {
            continue;
        }
        let path = row.path.replace("{id}", "1").replace("{name}", "lab1");
        let dry_run = r#"{"dry_run": true}"#;
        let whole = request(row.method, &path, dry_run);
        let bare = request(row.method, &path, "");
        let (head, _) = bare.split_once("\r\n\r\n").unwrap();
        let chunked =
            format!("{head}\r\ntransfer-encoding: chunked\r\n\r\n11\r\n{dry_run}\r\n0\r\n\r\n");
        for request in [whole, chunked] {
            let (status, _, answer) = raw(&owner, &request);
            assert_eq!(status, 400, "{row:?} {answer}");
            assert!(answer.contains("GP0101") && answer.contains("leave it out"), "{answer}");
        }
        let (_, _, answer) = raw(&viewer, &request(row.method, &path, " {} "));
        assert!(!answer.contains("leave it out"), "{answer}");
    }
    let own = Some("olga".to_owned());
    let query = gpool_client::AuditQuery { user: own, ..gpool_client::AuditQuery::default() };
    assert_eq!(client.audit(&query).unwrap().items, [], "nothing was changed");
}
