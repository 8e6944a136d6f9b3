//! The sessions of browsers.

use std::time::Instant;

use axum::Json;
use axum::extract::State;
use axum::response::Response;
use gpool_model::Refusal;
use gpool_model::refusal::Permitted;
use gpool_wire::{Document, EndedSessions, Login, Problem, catalogue};
use serde::Deserialize;
use utoipa::IntoParams;

use super::asker::Asks;
use super::audit::entered;
use super::extract::{ApiError, Params};
use super::tokens::is_own;
use crate::api::Api;
use gpool_identity::web::SignedIn;
use gpool_server::clock::now;
use gpool_server::listeners::Which;

/// The sessions to end.
#[derive(Debug, Clone, Copy, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub(crate) struct SessionsQuery {
    /// If true, those of all users. Only for admins.
    all: bool,
}

/// Ends your sessions in browsers and unused links, or those of all users. Pages that are open get
/// no more news.
#[utoipa::path(
    delete, path = "/sessions", operation_id = "sessions_end", params(SessionsQuery),
    responses((status = 200, description = "They are over", body = Document<EndedSessions>))
)]
pub(crate) async fn end(
    State(api): State<Api>,
    Asks(asker): Asks,
    Params(query): Params<SessionsQuery>,
) -> Result<Response, ApiError> {
    if query.all && !asker.caller.admin {
        let (what, by) = ("end the sessions of all users".to_owned(), Permitted::Admin);
        return Err(Refusal::NotPermitted { what, by }.into());
    }
    let shared = &api.handle.shared;
    let of = (!query.all).then_some(asker.caller.owner.uid);
    let mut n_sessions = shared.identities.sessions.end_all(of);
    let tokens = shared.identities.access.tokens(now()).into_iter();
    let own = tokens.filter(|row| !query.all && is_own(&asker, row));
    n_sessions += own.map(|row| shared.identities.sessions.end_of_token(&row.id)).sum::<usize>();
    Ok(entered(Json(Document::new(EndedSessions { n_sessions })), n_sessions == 0))
}

/// Makes a link that signs the caller in to the dashboard, once and within a minute.
#[utoipa::path(
    post, path = "/logins", operation_id = "logins_create",
    responses(
        (status = 200, description = "The link", body = Document<Login>),
        (status = 404, description = "This server has no dashboard", body = Problem,
         content_type = "application/problem+json"),
    )
)]
pub(crate) async fn login(
    State(api): State<Api>,
    Asks(asker): Asks,
) -> Result<Json<Document<Login>>, ApiError> {
    let Some(web) = api.handle.shared.identities.web.get() else {
        let problem = Problem::new(catalogue::NO_SUCH_ROUTE, "this server has no dashboard");
        let fault = api.handle.shared.listeners.fault(Which::Dashboard);
        return Err(match fault {
            Some(why) => problem.because(why),
            None => problem.try_this("set web = \"127.0.0.1:7478\" in gpool.toml"),
        }
        .into());
    };
    let owner = &asker.caller.owner;
    let user = SignedIn::User { uid: owner.uid, gid: owner.gid };
    let (url, lasts) = web.invite(user, Instant::now());
    Ok(Json(Document::new(Login { url, expires_in_s: lasts.as_secs() })))
}
