//! Changes of nodes: how machines are added, the labels of nodes, and their removal.

use std::net::SocketAddr;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CACHE_CONTROL;
use axum::response::{IntoResponse as _, Response};
use gpool_identity::tls::Tls;
use gpool_model::{Command, Millis, NodeName, Refusal, Silence, parse};
use gpool_server::clock::now;
use gpool_server::fault::{internal, refusal_of};
use gpool_server::input::CoreMessage;
use gpool_wire::join::{AddNode, FINGERPRINT_MARK, NodeInvitation};
use gpool_wire::{Document, LabelNodes, List, Node, Time};
use serde::Deserialize;
use utoipa::IntoParams;

use super::asker::Asks;
use super::authority::network;
use super::cluster::nodes;
use super::extract::{ApiError, JsonBody, Params, Segment};
use crate::api::Api;

/// How long a join token is valid if the request says nothing.
const TOKEN_USUAL: Millis = Millis::from_hours(24);
/// The longest time that an admin may set.
const TOKEN_LONGEST: Millis = Millis::from_hours(30 * 24);

/// Creates a join token for a node on another machine, in place of an earlier token of the node. If
/// the node has joined, its agent is refused once another machine uses the token.
#[utoipa::path(
    post, path = "/nodes", operation_id = "nodes_add", request_body = AddNode,
    responses(
        (status = 201, description = "What the new machine needs", body = Document<NodeInvitation>),
        (status = 403, description = "Only for admins", body = gpool_wire::Problem,
         content_type = "application/problem+json"),
        (status = 404, description = "The server does not listen on the network",
         body = gpool_wire::Problem, content_type = "application/problem+json"),
    )
)]
pub(crate) async fn add(
    State(api): State<Api>,
    JsonBody(body): JsonBody<AddNode>,
) -> Result<Response, ApiError> {
    let node = NodeName::new(&body.name);
    let bad = |field: &str, why: String| Refusal::Invalid { field: field.to_owned(), why };
    if !node.is_file_name() {
        let why = "it has letters, digits, dots, dashes and underscores, and begins with a letter";
        return Err(bad("name", why.to_owned()).into());
    }
    if api.handle.info().nodes.contains(&node) {
        return Err(bad("name", format!("{node} is a node of the server's own machine")).into());
    }
    let valid = match body.expires.as_deref().map(parse::span) {
        None => TOKEN_USUAL,
        Some(Ok(span)) if span > Millis::ZERO && span <= TOKEN_LONGEST => span,
        Some(Ok(_)) => return Err(bad("expires", "it must be from 1s to 30d: 1h".into()).into()),
        Some(Err(error)) => return Err(bad("expires", error.to_string()).into()),
    };
    let (tls, at) = network(&api)?;
    let shared = api.handle.shared.clone();
    shared.storage.room.check().map_err(|error| refusal_of(&error))?;
    let expires_at = now().after(valid);
    // It writes a file, and may read those of the site.
    let make = move || -> anyhow::Result<NodeInvitation> {
        let secret = shared.identities.nodes.invite(&node, now(), expires_at)?;
        // The site's certificates are trusted as those of other servers.
        let token = match tls.authority() {
            Some(_) => {
                format!("{secret}{FINGERPRINT_MARK}{}", tls.served(at.ip())?.fingerprint())
            }
            None => secret,
        };
        let server = address(&tls, at);
        let command = format!("gpool agent --join {server} {token}");
        let (name, expires_at) = (node.to_string(), Time(expires_at));
        Ok(NodeInvitation { name, server, token, expires_at, command })
    };
    let made = tokio::task::spawn_blocking(make).await.map_err(internal)?;
    let made = made.map_err(|error| internal(format!("{error:#}")))?;
    let answer = (StatusCode::CREATED, [(CACHE_CONTROL, "no-store")], Json(Document::new(made)));
    Ok(answer.into_response())
}

/// The address at which another machine finds the server.
fn address(tls: &Tls, at: SocketAddr) -> String {
    if !at.ip().is_unspecified() {
        return format!("https://{at}");
    }
    // A name of the settings, else that of this machine.
    let host = rustix::system::uname().nodename().to_string_lossy().to_lowercase();
    let name = tls.names().last().unwrap_or(&host);
    let name = if name.contains(':') { &format!("[{name}]") } else { name };
    format!("https://{name}:{}", at.port())
}

/// Changes labels of nodes. Running jobs stay; jobs that need a removed label keep waiting.
#[utoipa::path(
    post, path = "/nodes/label", operation_id = "nodes_label", request_body = LabelNodes,
    responses(
        (status = 200, description = "All nodes after the change", body = List<Node>),
        (status = 403, description = "Only for admins", body = gpool_wire::Problem,
         content_type = "application/problem+json"),
        (status = 404, description = "There is no such node", body = gpool_wire::Problem,
         content_type = "application/problem+json"),
    )
)]
pub(crate) async fn label(
    State(api): State<Api>,
    Asks(asker): Asks,
    JsonBody(asked): JsonBody<LabelNodes>,
) -> Result<Json<List<Node>>, ApiError> {
    let (nodes_asked, change) = asked.check()?;
    let command = Command::LabelNodes { nodes: nodes_asked, change };
    api.handle.command(asker.caller.clone(), command).await?;
    nodes(State(api), Asks(asker)).await
}

#[derive(Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(crate) struct RemoveParams {
    /// The machine is off for good: end the jobs on it as on a lost node.
    #[serde(default)]
    off: bool,
}

/// Removes a node. It is refused while jobs may run there, unless its machine is off for good, and
/// while its agent answers, unless the node is drained.
#[utoipa::path(
    delete, path = "/nodes/{name}", operation_id = "nodes_remove",
    params(("name" = String, Path, description = "The name"), RemoveParams),
    responses(
        (status = 200, description = "The other nodes", body = List<Node>),
        (status = 403, description = "Only for admins", body = gpool_wire::Problem,
         content_type = "application/problem+json"),
        (status = 404, description = "There is no such node", body = gpool_wire::Problem,
         content_type = "application/problem+json"),
        (status = 409, description = "The node answers, or is in use", body = gpool_wire::Problem,
         content_type = "application/problem+json"),
    )
)]
pub(crate) async fn remove(
    State(api): State<Api>,
    Asks(asker): Asks,
    Segment(name): Segment,
    Params(params): Params<RemoveParams>,
) -> Result<Json<List<Node>>, ApiError> {
    let (node, shared) = (NodeName::new(name), &api.handle.shared);
    let is_remote = shared.identities.nodes.knows(&node);
    if is_remote && is_unused(&api, &node).await? {
        // It answers no more, so it can be removed. If the server ends in between, the node is
        // silent from then on, and can be removed later.
        dismiss(&api, &node).await?;
        let silence = Silence { since: now(), is_lost: true };
        drop(shared.inputs.send(CoreMessage::Silence(node.clone(), Some(silence))));
    }
    let command = Command::RemoveNode { node: node.clone(), is_off: params.off };
    match api.handle.command(asker.caller.clone(), command).await {
        // It has not joined yet.
        Err(Refusal::NoSuchNode { .. }) if is_remote => {}
        done => drop(done?),
    }
    if is_remote {
        dismiss(&api, &node).await?;
    }
    nodes(State(api), Asks(asker)).await
}

/// Whether a node is drained, and nothing else than the drain needs it.
async fn is_unused(api: &Api, node: &NodeName) -> Result<bool, ApiError> {
    let name = node.clone();
    let look = move |view: &gpool_server::View<'_>| {
        let mut reservations = view.world.reservations().values();
        let is_drained = |row: &gpool_world::NodeRow| row.node.drain.is_some();
        view.world.node(&name).is_some_and(|row| is_drained(row) && row.here.is_empty())
            && !reservations.any(|it| it.what.touches(&name))
    };
    Ok(api.handle.query(look).await?)
}

/// Refuses the agent of a node from now on.
async fn dismiss(api: &Api, node: &NodeName) -> Result<(), ApiError> {
    let (shared, name) = (api.handle.shared.clone(), node.clone());
    let removed = tokio::task::spawn_blocking(move || shared.identities.nodes.remove(&name));
    let removed = removed.await.map_err(internal)?;
    removed.map_err(|error| Refusal::StorageFull { why: error.to_string() })?;
    api.handle.shared.agents.remove(node);
    Ok(())
}
