//! The routes, and the layers that every request passes.

use std::sync::Arc;

use axum::Router;
use axum::middleware::{from_fn, from_fn_with_state};
use axum::routing::{delete, get, patch, post, put};

use crate::api::Api;
use crate::audit::Scribe;
use crate::changes::{Changes, Denials, SlowEnds};
use crate::{
    actions, attach, audit, authority, budgets, bulk, changes, cluster, cost, device, dump,
    elements, events, extract, files, guard, health, history, job_metrics, jobs, life, logs,
    metrics, mig, node_changes, notify, policy, pools, projects, recovery, reservations, script,
    secrets, sessions, simulate, submit, subscriptions, tokens, usage, usage_history, users, waste,
    why,
};

/// Every route. The table in [`routes`] has a row for each, and the document an operation.
fn every_route() -> Router<Api> {
    let api = actions::add_routes(of_jobs()).merge(of_cluster()).merge(of_people());
    Router::new()
        .nest(gpool_wire::API_PREFIX, api)
        .route("/healthz", get(health::healthz))
        .route("/readyz", get(health::readyz))
        .route("/openapi.json", get(health::openapi))
        .route("/metrics", get(metrics::get))
}

/// The routes about jobs, without the verbs.
fn of_jobs() -> Router<Api> {
    Router::new()
        .route("/jobs", get(jobs::list).post(submit::create))
        .route("/jobs/bulk", post(bulk::create))
        .route("/jobs/{id}", get(jobs::get).patch(jobs::edit))
        .route("/jobs/{id}/elements", get(elements::list))
        .route("/jobs/{id}/elements/metrics", get(job_metrics::elements))
        .route("/jobs/{id}/retry", post(elements::retry))
        .route("/jobs/{id}/why", get(why::get))
        .route("/jobs/{id}/events", get(life::get))
        .route("/jobs/{id}/script", get(script::get))
        .route("/jobs/{id}/metrics", get(job_metrics::get))
        .route("/jobs/{id}/report", get(history::report))
        .route("/jobs/{id}/logs", get(logs::get))
        .route("/jobs/{id}/results", get(files::results))
        .route("/jobs/{id}/results/object", get(files::object))
        .route("/files/missing", post(files::missing))
        .route("/files/objects", post(files::store))
        .route("/jobs/{id}/attach", post(attach::attach))
        .route("/jobs/{id}/exec", post(attach::exec))
        .route("/jobs/{id}/forward", post(attach::forward))
        .route("/jobs/{id}/link", post(attach::link))
}

/// The routes about the server, nodes, GPUs, policies and events.
fn of_cluster() -> Router<Api> {
    Router::new()
        .route("/history/totals", get(history::totals))
        .route("/forecast", get(history::forecast))
        .route("/gpus", get(cluster::gpus))
        .route("/gpus/allow", post(cluster::allow))
        .route("/mig", post(mig::mig))
        .route("/mig/plan", get(mig::plan))
        .route("/pools", get(pools::pools))
        .route("/pools/move", post(pools::move_nodes))
        .route("/nodes/label", post(node_changes::label))
        .route("/nodes", get(cluster::nodes).post(node_changes::add))
        .route("/nodes/{name}", get(cluster::node).delete(node_changes::remove))
        .route("/nodes/drain", post(reservations::drain_many))
        .route("/nodes/{name}/drain", post(reservations::drain))
        .route("/nodes/undrain", post(reservations::undrain_many))
        .route("/nodes/{name}/undrain", post(reservations::undrain))
        .route("/reservations", get(reservations::list).post(reservations::create))
        .route(
            "/reservations/{name}",
            get(reservations::get).patch(reservations::edit).delete(reservations::cancel),
        )
        .route("/policies", get(policy::get).patch(policy::change))
        .route("/events", get(events::stream))
        .route("/version", get(cluster::version))
        .route("/status", get(cluster::status))
        .route("/recovery", get(recovery::get))
        .route("/simulate", post(simulate::simulate))
        .route("/dump", get(dump::get))
        .route("/gpus/history", get(usage::gpu_history))
        .route("/shutdown", post(cluster::shutdown))
}

/// The routes about projects, users, their use of GPUs, and identity.
fn of_people() -> Router<Api> {
    Router::new()
        .route("/projects", get(projects::list).post(projects::create))
        .route("/projects/apply", post(projects::apply))
        .route(
            "/projects/{name}",
            get(projects::get).patch(projects::edit).delete(projects::delete),
        )
        .route("/quota", get(projects::quota))
        .route("/users/{name}", get(users::get).patch(users::limit))
        .route("/notifications", get(notify::list))
        .route("/notifications/secret", get(notify::secret))
        .route(
            "/projects/{name}/subscription",
            get(subscriptions::of_project).patch(subscriptions::set_of_project),
        )
        .route(
            "/users/{name}/subscription",
            get(subscriptions::of_user).patch(subscriptions::set_of_user),
        )
        .route("/projects/{name}/digest", get(subscriptions::digest_of_project))
        .route("/users/{name}/digest", get(subscriptions::digest_of_user))
        .route("/audit", get(audit::list))
        .route("/authority", get(authority::get))
        .route("/me", get(tokens::me))
        .route("/login/device", post(device::start))
        .route("/login/device/{handle}", post(device::poll))
        .route("/tokens", get(tokens::list).post(tokens::create))
        .route("/tokens/{token}", delete(tokens::revoke))
        .route("/network-users", get(tokens::network_users))
        .route("/network-users/{name}", patch(tokens::map_user).delete(tokens::forget_user))
        .route("/secrets", get(secrets::list))
        .route("/secrets/{name}", put(secrets::set).delete(secrets::remove))
        .route("/sessions", delete(sessions::end))
        .route("/usage", get(usage::usage))
        .route("/usage/history", get(usage_history::get))
        .route("/cost", get(cost::list))
        .route("/budgets", get(budgets::list))
        .route("/waste", get(waste::list))
        .route("/logins", post(sessions::login))
}

pub fn router(api: Api, changes: Changes) -> Router {
    let router = every_route();
    let audit = api.handle.shared.identities.audit.clone();
    let inner = router.clone().with_state(api.clone());
    let scribe = Arc::new(Scribe {
        handle: api.handle.clone(),
        writer: audit::Writer::new(audit.clone()),
        audit,
        api: inner,
        changes,
        denials: Denials::default(),
        when_full: changes::few(),
        ends_when_full: SlowEnds::default(),
    });
    router
        .route_layer(from_fn_with_state(scribe.clone(), audit::record))
        .route_layer(from_fn(guard::permit))
        .route_layer(from_fn_with_state(scribe, audit::record_refusal))
        .fallback(extract::no_such_route)
        .method_not_allowed_fallback(extract::no_such_method)
        .layer(from_fn_with_state(api.clone(), guard::admit))
        .layer(from_fn_with_state(api.clone(), metrics::measure))
        .with_state(api)
}
