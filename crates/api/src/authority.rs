//! How clients on the network recognize the server.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use gpool_wire::{Authority, Document, Problem, catalogue};

use super::extract::ApiError;
use crate::api::Api;
use gpool_identity::tls::Tls;
use gpool_server::fault::internal;

/// Returns the fingerprint of the server's certificate authority, and its certificate.
#[utoipa::path(
    get, path = "/authority", operation_id = "authority",
    responses(
        (status = 200, description = "The authority", body = Document<Authority>),
        (status = 404, description = "The server does not listen on the network", body = Problem,
         content_type = "application/problem+json"),
    )
)]
pub(crate) async fn get(State(api): State<Api>) -> Result<Json<Document<Authority>>, ApiError> {
    let (tls, at) = network(&api)?;
    // It may read the files of the site.
    let body = tokio::task::spawn_blocking(move || {
        let served = tls.served(at.ip())?;
        let certificate = tls.authority().map(|authority| authority.pem().to_owned());
        let fingerprint = served.fingerprint();
        anyhow::Ok(Authority { listen: at.to_string(), fingerprint, certificate })
    });
    let body = body.await.map_err(internal)?.map_err(|error| internal(format!("{error:#}")))?;
    Ok(Json(Document::new(body)))
}

/// The certificates of the listener on the network, and its address.
pub(crate) fn network(api: &Api) -> Result<(Arc<Tls>, SocketAddr), Problem> {
    api.handle.shared.identities.network.get().cloned().ok_or_else(|| {
        let what = "this server does not listen on the network";
        let problem = Problem::new(catalogue::NO_SUCH_ROUTE, what);
        problem.try_this("gpool up --listen 0.0.0.0:7443")
    })
}
