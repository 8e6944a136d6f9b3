//! Messages that are still to be sent or were given up, and the key that signs them.

use axum::Json;
use axum::extract::State;
use axum::http::header::CACHE_CONTROL;
use axum::response::{IntoResponse, Response};
use gpool_model::notify::Delivery;
use gpool_wire::{Document, List, Notification, NotifySecret};

use super::asker::Asks;
use super::extract::ApiError;
use crate::api::Api;

/// Lists messages about your jobs, and from subscriptions that you set, that wait to be sent or
/// failed recently, the oldest first. Admins see the messages of all users.
#[utoipa::path(
    get, path = "/notifications", operation_id = "notifications_list",
    responses((status = 200, description = "Messages", body = List<Notification>))
)]
pub(crate) async fn list(
    State(api): State<Api>,
    Asks(asker): Asks,
) -> Result<Json<List<Notification>>, ApiError> {
    let all = |view: &gpool_server::View<'_>| -> Vec<Delivery> {
        view.world.outbox().all().cloned().collect()
    };
    let mut found = api.handle.query(all).await?;
    found.retain(|delivery| asker.may_see(delivery.uid()));
    found.sort_by(|one, other| (one.news.at(), &one.id).cmp(&(other.news.at(), &other.id)));
    Ok(Json(List::new(found.iter().map(Notification::from).collect())))
}

/// Returns the key with which a receiver of your messages verifies that this server sent them.
#[utoipa::path(
    get, path = "/notifications/secret", operation_id = "notifications_secret",
    responses((status = 200, description = "The key", body = Document<NotifySecret>))
)]
pub(crate) async fn secret(State(api): State<Api>, Asks(asker): Asks) -> Response {
    let secret = api.handle.notify_secret(asker.caller.owner.uid);
    let body = Json(Document::new(NotifySecret { secret }));
    ([(CACHE_CONTROL, "no-store")], body).into_response()
}
