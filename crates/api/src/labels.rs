//! Labels of nodes.

use axum::Json;
use axum::extract::State;
use gpool_model::Command;
use gpool_wire::{LabelNodes, List, Node};

use super::asker::Asks;
use super::cluster::nodes;
use super::extract::{ApiError, JsonBody};
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
