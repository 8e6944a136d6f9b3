//! The API document, generated from the comments on routes and types. Only the test that compares
//! it with the file in the repository compiles this.

mod common;
pub(super) mod shapes;
mod verbs;

use gpool_wire::API_PREFIX;
use utoipa::OpenApi;

use super::{
    attach, audit, authority, budgets, bulk, cluster, cost, device, dump, elements, events, files,
    health, history, job_metrics, jobs, life, logs, metrics, mig, node_changes, notify, policy,
    pools, projects, recovery, reservations, script, secrets, sessions, simulate, submit,
    subscriptions, tokens, usage, usage_history, users, waste, why,
};

#[derive(OpenApi)]
#[openapi(
    info(
        title = "gpool",
        description = "Schedules jobs on GPUs. The API is served on a Unix socket, whose \
                       peer credentials identify the caller, and over HTTPS, where a token in \
                       `Authorization: Bearer` does. Errors are RFC 9457 problems \
                       with a stable code.",
        license(name = "MIT OR Apache-2.0", identifier = "MIT OR Apache-2.0")
    ),
    components(schemas(gpool_wire::Problem, gpool_wire::Event, gpool_wire::Message)),
    paths(health::healthz, health::readyz, health::openapi, metrics::get)
)]
struct Whole;

#[derive(OpenApi)]
#[openapi(paths(
    jobs::list,
    submit::create,
    bulk::create,
    jobs::get,
    jobs::edit,
    elements::list,
    elements::retry,
    why::get,
    life::get,
    script::get,
    job_metrics::get,
    job_metrics::elements,
    history::report,
    history::totals,
    history::forecast,
    logs::get,
    files::missing,
    files::store,
    files::results,
    files::object,
    attach::attach,
    attach::exec,
    attach::forward,
    attach::link,
    cluster::gpus,
    cluster::allow,
    mig::mig,
    mig::plan,
    pools::pools,
    pools::move_nodes,
    node_changes::add,
    node_changes::label,
    node_changes::remove,
    cluster::nodes,
    cluster::node,
    reservations::drain_many,
    reservations::drain,
    reservations::undrain_many,
    reservations::undrain,
    reservations::list,
    reservations::create,
    reservations::get,
    reservations::edit,
    reservations::cancel,
    projects::list,
    projects::create,
    projects::apply,
    projects::get,
    projects::edit,
    projects::delete,
    projects::quota,
    policy::get,
    policy::change,
    users::get,
    users::limit,
    events::stream,
    notify::list,
    notify::secret,
    subscriptions::of_project,
    subscriptions::set_of_project,
    subscriptions::of_user,
    subscriptions::set_of_user,
    subscriptions::digest_of_project,
    subscriptions::digest_of_user,
    audit::list,
    authority::get,
    tokens::me,
    device::start,
    device::poll,
    tokens::list,
    tokens::create,
    tokens::revoke,
    tokens::network_users,
    tokens::map_user,
    tokens::forget_user,
    secrets::list,
    secrets::set,
    secrets::remove,
    sessions::end,
    cluster::version,
    cluster::status,
    recovery::get,
    simulate::simulate,
    dump::get,
    usage::usage,
    usage_history::get,
    usage::gpu_history,
    cost::list,
    budgets::list,
    waste::list,
    sessions::login,
    cluster::shutdown,
))]
struct Versioned;

/// Returns the API as an OpenAPI document, formatted as in the repository.
#[must_use]
pub fn openapi_json() -> String {
    let mut versioned = Versioned::openapi();
    verbs::add(&mut versioned);
    let mut document = Whole::openapi().nest(API_PREFIX, versioned);
    common::complete(&mut document);
    let mut text =
        document.to_pretty_json().expect("the document has string keys and no failing serializers");
    text.push('\n');
    text
}
