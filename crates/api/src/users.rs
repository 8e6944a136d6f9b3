//! How much one user may have, and has.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use gpool_model::{Command, Refusal};
use gpool_wire::{Document, UserCapsPatch, UserLimits};

use super::asker::Asks;
use super::extract::{ApiError, JsonBody, Segment};
use crate::api::Api;
use gpool_server::view::View;

/// Users that have no caps of their own.
const ALL: &str = "all";

async fn limits(api: &Api, name: String) -> Result<UserLimits, Refusal> {
    let look = move |view: &View<'_>| {
        let caps = &view.world.policy().user_caps;
        let own = name != ALL && caps.of.contains_key(&*name);
        let of = if name == ALL { caps.all } else { caps.of(&name) };
        let user = view.world.users().find(|user| *user.name == *name);
        let (held, n_waiting) =
            user.map_or_else(Default::default, |user| (user.held, user.n_waiting));
        UserLimits::new(&name, own, of, held, n_waiting)
    };
    api.handle.query(look).await
}

/// Returns the usage and the limits of a user; `all` for users without limits of their own.
#[utoipa::path(
    get, path = "/users/{name}", operation_id = "users_get",
    params(("name" = String, Path, description = "The user")),
    responses((status = 200, description = "The usage and the limits", body = Document<UserLimits>))
)]
pub(crate) async fn get(
    State(api): State<Api>,
    Segment(name): Segment,
) -> Result<Json<Document<UserLimits>>, ApiError> {
    Ok(Json(Document::new(limits(&api, name).await?)))
}

/// Changes the limits of a user; running jobs continue.
#[utoipa::path(
    patch, path = "/users/{name}", operation_id = "users_limit", request_body = UserCapsPatch,
    params(("name" = String, Path, description = "The user, or `all`")),
    responses(
        (status = 200, description = "The limits after the change", body = Document<UserLimits>),
        (status = 400, description = "A limit is not valid", body = gpool_wire::Problem,
         content_type = "application/problem+json"),
        (status = 403, description = "Only for admins", body = gpool_wire::Problem,
         content_type = "application/problem+json"),
    )
)]
pub(crate) async fn limit(
    State(api): State<Api>,
    Asks(asker): Asks,
    Segment(name): Segment,
    JsonBody(patch): JsonBody<UserCapsPatch>,
) -> Result<Json<Document<UserLimits>>, ApiError> {
    let user = (name != ALL).then(|| Arc::<str>::from(name.as_str()));
    let of = user.clone();
    let look = move |view: &View<'_>| match &of {
        Some(user) => view.world.policy().user_caps.of(user),
        None => view.world.policy().user_caps.all,
    };
    let caps = patch.applied_to(api.handle.query(look).await?)?;
    let command = Command::SetUserCaps { user, caps };
    api.handle.command(asker.caller.clone(), command).await?;
    Ok(Json(Document::new(limits(&api, name).await?)))
}
