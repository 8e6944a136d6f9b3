//! Notifications about projects and users, and their digests.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use gpool_control::project_tree::check_payer;
use gpool_model::budget::Payer;
use gpool_model::{Command, ProjectName, Refusal};
use gpool_wire::{Digest, Document, Subscription, SubscriptionPatch};

use super::asker::{Asker, Asks};
use super::extract::{ApiError, JsonBody, Segment};
use crate::api::Api;
use gpool_server::clock::now;
use gpool_server::view::View;

/// Returns the addresses that get messages about a project.
#[utoipa::path(
    get, path = "/projects/{name}/subscription", operation_id = "projects_subscription",
    params(("name" = String, Path, description = "The project")),
    responses(
        (status = 200, description = "Events and addresses", body = Document<Subscription>),
        (status = 403, description = "Only for admins of the project or of the server",
         body = gpool_wire::Problem, content_type = "application/problem+json"),
        (status = 404, description = "There is no such project", body = gpool_wire::Problem,
         content_type = "application/problem+json"),
    )
)]
pub(crate) async fn of_project(
    State(api): State<Api>,
    Asks(asker): Asks,
    Segment(name): Segment,
) -> Answer<Subscription> {
    get(&api, &asker, Payer::Project(ProjectName::new(name))).await
}

/// Sets the addresses that get messages about a project.
#[utoipa::path(
    patch, path = "/projects/{name}/subscription", operation_id = "projects_subscribe",
    request_body = SubscriptionPatch,
    params(("name" = String, Path, description = "The project")),
    responses(
        (status = 200, description = "Events and addresses after the change",
         body = Document<Subscription>),
        (status = 400, description = "An address is not valid", body = gpool_wire::Problem,
         content_type = "application/problem+json"),
        (status = 403, description = "Only for admins of the project or of the server",
         body = gpool_wire::Problem, content_type = "application/problem+json"),
        (status = 404, description = "There is no such project", body = gpool_wire::Problem,
         content_type = "application/problem+json"),
    )
)]
pub(crate) async fn set_of_project(
    State(api): State<Api>,
    Asks(asker): Asks,
    Segment(name): Segment,
    JsonBody(patch): JsonBody<SubscriptionPatch>,
) -> Answer<Subscription> {
    set(&api, &asker, Payer::Project(ProjectName::new(name)), &patch).await
}

/// Returns the addresses that get messages about a user.
#[utoipa::path(
    get, path = "/users/{name}/subscription", operation_id = "users_subscription",
    params(("name" = String, Path, description = "The user")),
    responses(
        (status = 200, description = "Events and addresses", body = Document<Subscription>),
        (status = 403, description = "Only for the user and admins", body = gpool_wire::Problem,
         content_type = "application/problem+json"),
    )
)]
pub(crate) async fn of_user(
    State(api): State<Api>,
    Asks(asker): Asks,
    Segment(name): Segment,
) -> Answer<Subscription> {
    get(&api, &asker, Payer::User(Arc::from(name))).await
}

/// Sets the addresses that get messages about a user.
#[utoipa::path(
    patch, path = "/users/{name}/subscription", operation_id = "users_subscribe",
    request_body = SubscriptionPatch,
    params(("name" = String, Path, description = "The user")),
    responses(
        (status = 200, description = "Events and addresses after the change",
         body = Document<Subscription>),
        (status = 400, description = "An address is not valid", body = gpool_wire::Problem,
         content_type = "application/problem+json"),
        (status = 403, description = "Only for the user and admins", body = gpool_wire::Problem,
         content_type = "application/problem+json"),
    )
)]
pub(crate) async fn set_of_user(
    State(api): State<Api>,
    Asks(asker): Asks,
    Segment(name): Segment,
    JsonBody(patch): JsonBody<SubscriptionPatch>,
) -> Answer<Subscription> {
    set(&api, &asker, Payer::User(Arc::from(name)), &patch).await
}

/// Returns the digest of the last seven days of a project, with the projects below it.
#[utoipa::path(
    get, path = "/projects/{name}/digest", operation_id = "projects_digest",
    params(("name" = String, Path, description = "The project")),
    responses(
        (status = 200, description = "The digest", body = Document<Digest>),
        (status = 403, description = "Only for admins of the project or of the server",
         body = gpool_wire::Problem, content_type = "application/problem+json"),
        (status = 404, description = "There is no such project", body = gpool_wire::Problem,
         content_type = "application/problem+json"),
    )
)]
pub(crate) async fn digest_of_project(
    State(api): State<Api>,
    Asks(asker): Asks,
    Segment(name): Segment,
) -> Answer<Digest> {
    digest(&api, &asker, Payer::Project(ProjectName::new(name))).await
}

/// Returns the digest of the last seven days of a user.
#[utoipa::path(
    get, path = "/users/{name}/digest", operation_id = "users_digest",
    params(("name" = String, Path, description = "The user")),
    responses(
        (status = 200, description = "The digest", body = Document<Digest>),
        (status = 403, description = "Only for the user and admins", body = gpool_wire::Problem,
         content_type = "application/problem+json"),
    )
)]
pub(crate) async fn digest_of_user(
    State(api): State<Api>,
    Asks(asker): Asks,
    Segment(name): Segment,
) -> Answer<Digest> {
    digest(&api, &asker, Payer::User(Arc::from(name))).await
}

type Answer<T> = Result<Json<Document<T>>, ApiError>;

async fn get(api: &Api, asker: &Asker, payer: Payer) -> Answer<Subscription> {
    let caller = asker.caller.clone();
    let look = move |view: &View<'_>| {
        let what = format!("read the notifications of {payer}");
        check_payer(view.world.projects(), &caller, &payer, what)?;
        Ok::<_, Refusal>(Subscription::new(&payer, view.world.subscriptions().get(&payer)))
    };
    Ok(Json(Document::new(api.handle.query(look).await??)))
}

async fn set(
    api: &Api,
    asker: &Asker,
    payer: Payer,
    patch: &SubscriptionPatch,
) -> Answer<Subscription> {
    let rules = patch.check()?;
    api.handle.check_notify(&asker.caller, &rules)?;
    let command = Command::Subscribe { payer: payer.clone(), rules };
    api.handle.command(asker.caller.clone(), command).await?;
    // A budget that is nearly used up is reported now.
    gpool_server::subscriptions::look(&api.handle).await?;
    get(api, asker, payer).await
}

async fn digest(api: &Api, asker: &Asker, payer: Payer) -> Answer<Digest> {
    let (caller, of) = (asker.caller.clone(), payer.clone());
    let look = move |view: &View<'_>| {
        let what = format!("read the digest of {of}");
        check_payer(view.world.projects(), &caller, &of, what)
    };
    api.handle.query(look).await??;
    let digest = gpool_server::digest::of(&api.handle, payer, now()).await?;
    Ok(Json(Document::new(Digest::from(&digest))))
}
