//! Changes of nodes: their labels, and their removal.

use axum::Json;
use axum::extract::State;
use gpool_model::{Command, NodeName};
use gpool_wire::{LabelNodes, List, Node};
use serde::Deserialize;
use utoipa::IntoParams;

use super::asker::Asks;
use super::cluster::nodes;
use super::extract::{ApiError, JsonBody, Params, Segment};
use crate::api::Api;

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

/// Removes a node that does not answer. It is refused while jobs may run there, unless its machine
/// is off for good.
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
    let command = Command::RemoveNode { node: NodeName::new(name), is_off: params.off };
    api.handle.command(asker.caller.clone(), command).await?;
    nodes(State(api), Asks(asker)).await
}
