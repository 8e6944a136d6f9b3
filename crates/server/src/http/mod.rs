//! The HTTP side of the server: identity, limits, and routes. It has no state of the cluster and
//! makes no decisions; the core does.

mod accept;
mod actions;
mod asker;
mod attach;
mod audit;
mod authority;
mod budgets;
mod bulk;
mod changes;
mod classes;
mod cluster;
mod connection;
mod context;
mod contract;
mod cost;
mod device;
mod dump;
mod elements;
mod entrance;
mod events;
mod evictions;
mod extract;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod gpu_use;
mod guard;
mod health;
mod history;
mod job_metrics;
mod jobs;
mod labels;
mod later;
mod life;
mod listing;
mod logs;
mod metrics;
mod mig;
mod movable;
mod network;
mod notify;
mod output;
mod page;
mod pages;
mod policy;
mod pools;
mod process;
mod projects;
mod recovery;
mod reservations;
pub mod routes;
mod script;
mod sessions;
mod simulate;
mod simulated;
mod submit;
mod subscriptions;
mod tenure;
#[cfg(feature = "fuzzing")]
pub mod testing;
mod tokens;
mod usage;
mod usage_history;
mod users;
mod waste;
mod way;
mod why;
mod why_nodes;

use std::ops::Deref;
use std::sync::Arc;

use axum::Router;
use axum::middleware::{from_fn, from_fn_with_state};
use tokio::sync::watch;
use utoipa::OpenApi;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::feed::Feed;
use crate::handle::CoreHandle;

pub use crate::link::{StreamAnswer, TaskStream};
use accept::Patience;
pub use accept::{Others, serve};
pub use asker::{Account, FindAccount};

use crate::pool::{Rates, Source};
use audit::Scribe;
use changes::{Changes, Denials, SlowEnds};
use classes::Classes;
use metrics::Meters;

/// Shared data of all routes. Each layer of the router clones it for each request.
#[derive(Clone)]
pub(crate) struct Api(Arc<ApiParts>);

pub(crate) struct ApiParts {
    handle: CoreHandle,
    feed: Arc<Feed>,
    meters: Meters,
    /// The user that runs the server.
    user: Arc<str>,
    patience: Patience,
    rates: Rates<Source>,
    classes: Classes,
    /// Becomes true when streams must end, because the server stops.
    end: watch::Receiver<bool>,
}

impl Deref for Api {
    type Target = ApiParts;

    fn deref(&self) -> &ApiParts {
        &self.0
    }
}

impl Api {
    fn new(
        handle: CoreHandle,
        user: Arc<str>,
        patience: Patience,
        classes: Classes,
        end: watch::Receiver<bool>,
    ) -> Self {
        let feed = Arc::clone(&handle.shared.feed);
        let rates = Rates::new(handle.limits().requests);
        let meters = Meters::default();
        Self(Arc::new(ApiParts { handle, feed, meters, user, patience, rates, classes, end }))
    }
}

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
    components(schemas(gpool_wire::Problem, gpool_wire::Event, gpool_wire::Message))
)]
struct Document;

/// Returns every route with its documentation. There are no other routes.
fn documented() -> OpenApiRouter<Api> {
    let api = OpenApiRouter::new()
        .routes(routes!(jobs::list, submit::create))
        .routes(routes!(bulk::create))
        .routes(routes!(jobs::get, jobs::edit))
        .routes(routes!(elements::list))
        .routes(routes!(elements::retry))
        .routes(routes!(why::get))
        .routes(routes!(life::get))
        .routes(routes!(script::get))
        .routes(routes!(job_metrics::get))
        .routes(routes!(history::report))
        .routes(routes!(history::totals))
        .routes(routes!(history::forecast))
        .routes(routes!(logs::get))
        .merge(actions::routes())
        .routes(routes!(attach::attach))
        .routes(routes!(attach::exec))
        .routes(routes!(attach::forward))
        .routes(routes!(cluster::gpus))
        .routes(routes!(cluster::allow))
        .routes(routes!(mig::mig))
        .routes(routes!(mig::plan))
        .routes(routes!(pools::pools))
        .routes(routes!(pools::move_nodes))
        .routes(routes!(labels::label))
        .routes(routes!(cluster::nodes))
        .routes(routes!(cluster::node))
        .routes(routes!(reservations::drain_many))
        .routes(routes!(reservations::drain))
        .routes(routes!(reservations::undrain_many))
        .routes(routes!(reservations::undrain))
        .routes(routes!(reservations::list, reservations::create))
        .routes(routes!(reservations::get, reservations::edit, reservations::cancel))
        .routes(routes!(projects::list, projects::create))
        .routes(routes!(projects::apply))
        .routes(routes!(projects::get, projects::edit, projects::delete))
        .routes(routes!(projects::quota))
        .routes(routes!(policy::get, policy::change))
        .routes(routes!(users::get, users::limit))
        .routes(routes!(events::stream))
        .merge(notify::routes())
        .routes(routes!(audit::list))
        .routes(routes!(authority::get))
        .routes(routes!(tokens::me))
        .routes(routes!(device::start))
        .routes(routes!(device::poll))
        .routes(routes!(tokens::list, tokens::create))
        .routes(routes!(tokens::revoke))
        .routes(routes!(tokens::network_users))
        .routes(routes!(tokens::map_user, tokens::forget_user))
        .routes(routes!(sessions::end))
        .routes(routes!(cluster::version))
        .routes(routes!(cluster::status))
        .routes(routes!(recovery::get))
        .routes(routes!(simulate::simulate))
        .routes(routes!(dump::get))
        .merge(use_of_gpus())
        .routes(routes!(pages::login))
        .routes(routes!(cluster::shutdown));
    OpenApiRouter::with_openapi(Document::openapi())
        .nest(gpool_wire::API_PREFIX, api)
        .routes(routes!(health::healthz))
        .routes(routes!(health::readyz))
        .routes(routes!(health::openapi))
        .routes(routes!(metrics::get))
}

/// The routes about GPU time: use, cost, waste.
fn use_of_gpus() -> OpenApiRouter<Api> {
    OpenApiRouter::new()
        .routes(routes!(usage::usage))
        .routes(routes!(usage_history::get))
        .routes(routes!(usage::gpu_history))
        .routes(routes!(cost::list))
        .routes(routes!(budgets::list))
        .routes(routes!(waste::list))
}

/// Returns the API as an OpenAPI document, formatted as in the repository.
#[must_use]
pub fn openapi_json() -> String {
    let (_, mut document) = documented().split_for_parts();
    contract::complete(&mut document);
    let mut text =
        document.to_pretty_json().expect("the document has string keys and no failing serializers");
    text.push('\n');
    text
}

fn router(api: Api, changes: Changes) -> Router {
    let (router, _) = documented().split_for_parts();
    let audit = api.handle.shared.audit.clone();
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
