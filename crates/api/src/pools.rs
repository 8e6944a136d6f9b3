//! Pools: which nodes are together.

use axum::Json;
use axum::extract::State;
use gpool_model::{Command, NodeName, Refusal};
use gpool_wire::{List, MoveNodes, Pool, check};

use super::asker::Asks;
use super::cluster::all_nodes;
use super::extract::{ApiError, JsonBody};
use crate::api::Api;

/// More nodes than this are not moved at once.
const NODES_MAX: usize = 4096;

/// Lists all pools with their nodes.
#[utoipa::path(
    get, path = "/pools", operation_id = "pools_list",
    responses((status = 200, description = "By name", body = List<Pool>))
)]
pub(crate) async fn pools(
    State(api): State<Api>,
    Asks(asker): Asks,
) -> Result<Json<List<Pool>>, ApiError> {
    Ok(Json(List::new(Pool::of(&all_nodes(&api, asker.caller.owner.uid).await?))))
}

/// Moves nodes into a pool. Running jobs stay; jobs that wait for the old pool keep waiting.
#[utoipa::path(
    post, path = "/pools/move", operation_id = "pools_move", request_body = MoveNodes,
    responses(
        (status = 200, description = "All pools after the change", body = List<Pool>),
        (status = 403, description = "Only for admins", body = gpool_wire::Problem,
         content_type = "application/problem+json"),
        (status = 404, description = "There is no such node", body = gpool_wire::Problem,
         content_type = "application/problem+json"),
    )
)]
pub(crate) async fn move_nodes(
    State(api): State<Api>,
    Asks(asker): Asks,
    JsonBody(asked): JsonBody<MoveNodes>,
) -> Result<Json<List<Pool>>, ApiError> {
    let pool = check::pool(&asked.pool)?;
    let n_nodes = asked.nodes.len();
    if n_nodes == 0 || n_nodes > NODES_MAX {
        let why = format!("it has {n_nodes} nodes; give from 1 to {NODES_MAX}");
        return Err(Refusal::Invalid { field: "nodes".to_owned(), why }.into());
    }
    let nodes = asked.nodes.iter().map(NodeName::new).collect();
    let command = Command::MoveNodes { nodes, pool };
    api.handle.command(asker.caller.clone(), command).await?;
    pools(State(api), Asks(asker)).await
}
