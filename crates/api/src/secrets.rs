//! Secrets of users. A value comes in by one request, and no answer, log or audit entry has it.

use axum::Json;
use axum::extract::State;
use axum::response::Response;
use gpool_identity::secrets::{ListedSecret, SecretHead, SetError};
use gpool_model::Refusal;
use gpool_model::refusal::Permitted;
use gpool_server::clock::now;
use gpool_server::fault::{internal, refusal_of};
use gpool_wire::secret::{SECRET_BYTES_MAX, SecretValue, name};
use gpool_wire::{Document, List, Problem, Secret, Time, catalogue, json};
use serde::Deserialize;
use utoipa::IntoParams;

use crate::api::Api;
use crate::asker::{Asker, Asks};
use crate::audit::{KnownChange, with_change};
use crate::extract::{ApiError, JsonBytes, Params, Segment};

/// Whether to list the secrets of all users.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub(crate) struct SecretsQuery {
    /// If true, lists the secrets of all users. Only admins may.
    all: bool,
}

/// The user of a secret.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub(crate) struct OwnerQuery {
    /// User that the secret belongs to. Only admins name another one than themselves.
    user: Option<String>,
}

/// Lists your secrets by name, without their values.
#[utoipa::path(
    get, path = "/secrets", operation_id = "secrets_list", params(SecretsQuery),
    responses((status = 200, description = "Secrets, without their values", body = List<Secret>))
)]
pub(crate) async fn list(
    State(api): State<Api>,
    Asks(asker): Asks,
    Params(SecretsQuery { all }): Params<SecretsQuery>,
) -> Result<Json<List<Secret>>, ApiError> {
    if all && !asker.caller.admin {
        return Err(not_permitted("list the secrets of all users"));
    }
    let (shared, own) = (api.handle.shared.clone(), asker.caller.owner.uid);
    let listed = tokio::task::spawn_blocking(move || {
        let listed = shared.identities.secrets.list((!all).then_some(own));
        let find = shared.info.find_user;
        listed.map(|all| all.into_iter().map(|it| secret_row(it, find)).collect())
    });
    Ok(Json(List::new(listed.await.map_err(internal)?.map_err(internal)?)))
}

/// Sets a secret of yours: a new one, or the value of an existing one. No answer contains values.
#[utoipa::path(
    put, path = "/secrets/{name}", operation_id = "secrets_set", request_body = SecretValue,
    params(("name" = String, Path, description = "Name of the secret")),
    responses(
        (status = 200, description = "The secret, without its value", body = Document<Secret>),
        (status = 409, description = "The user has too many secrets", body = Problem,
         content_type = "application/problem+json"),
    )
)]
pub(crate) async fn set(
    State(api): State<Api>,
    Asks(asker): Asks,
    Segment(text): Segment,
    JsonBytes(body): JsonBytes,
) -> Result<Response, ApiError> {
    let name = name("name", &text)?;
    let value = json::read::<SecretValue>(&body).map_err(without_value)?.bytes()?;
    if value.len() > SECRET_BYTES_MAX {
        let (what, most) = ("the value".to_owned(), format!("{SECRET_BYTES_MAX} bytes (64 KiB)"));
        return Err(Refusal::TooLarge { what, most }.into());
    }
    let shared = api.handle.shared.clone();
    shared.storage.room.check().map_err(|error| refusal_of(&error))?;
    let owner = &asker.caller.owner;
    let (user, bytes) = (owner.user.to_string(), value.len() as u64);
    let head = SecretHead { name, uid: owner.uid, user, set_at: now(), bytes };
    let secret = wire_secret(head.clone());
    let change = KnownChange::secret(&head.name, &head.user, Some(bytes));
    let stored = tokio::task::spawn_blocking(move || shared.identities.secrets.set(&head, &value));
    stored.await.map_err(internal)?.map_err(|error| match error {
        SetError::TooMany => Problem::new(catalogue::TOO_MANY_SECRETS, error.to_string())
            .try_this("gpool secret remove NAME")
            .into(),
        SetError::Io { .. } => ApiError::from(Refusal::StorageFull { why: error.to_string() }),
    })?;
    Ok(with_change(Json(Document::new(secret)), change))
}

/// Removes a secret. Jobs that name it and start later are held.
#[utoipa::path(
    delete, path = "/secrets/{name}", operation_id = "secrets_remove",
    params(("name" = String, Path, description = "Name of the secret"), OwnerQuery),
    responses(
        (status = 200, description = "The secret as it was", body = Document<Secret>),
        (status = 404, description = "There is no such secret", body = Problem,
         content_type = "application/problem+json"),
    )
)]
pub(crate) async fn remove(
    State(api): State<Api>,
    Asks(asker): Asks,
    Segment(text): Segment,
    Params(OwnerQuery { user }): Params<OwnerQuery>,
) -> Result<Response, ApiError> {
    let name = name("name", &text)?;
    let shared = api.handle.shared.clone();
    let done = tokio::task::spawn_blocking(move || {
        let find = shared.info.find_user;
        let uid = owner(&asker, user.as_deref(), find)?;
        let secrets = &shared.identities.secrets;
        let listed = secrets.list(Some(uid)).map_err(internal)?;
        let found = listed.into_iter().find(|it| it.name == name);
        let found = found.ok_or_else(|| Refusal::NoSuchSecret { name: name.clone() })?;
        let secret = secret_row(found, find);
        if !secrets.remove(uid, &name).map_err(internal)? {
            return Err(Refusal::NoSuchSecret { name }.into());
        }
        Ok::<_, ApiError>(secret)
    });
    let secret = done.await.map_err(internal)??;
    let change = KnownChange::secret(&secret.name, &secret.user, None);
    Ok(with_change(Json(Document::new(secret)), change))
}

/// The owner of the secret. May ask the system's name service.
fn owner(
    asker: &Asker,
    named: Option<&str>,
    find: gpool_server::handle::FindUser,
) -> Result<u32, ApiError> {
    let own = asker.caller.owner.uid;
    let Some(name) = named else { return Ok(own) };
    let unknown = || {
        let why = format!("there is no user {name:?}");
        Refusal::Invalid { field: "user".to_owned(), why }
    };
    let (uid, _) = find(name).ok_or_else(unknown)?;
    match uid == own || asker.caller.admin {
        true => Ok(uid),
        false => Err(not_permitted("remove secrets of other users")),
    }
}

fn secret_row(listed: ListedSecret, find: gpool_server::handle::FindUser) -> Secret {
    let ListedSecret { name, uid, head } = listed;
    match head {
        Ok(head) => wire_secret(head),
        Err(error) => {
            let user = find(&uid.to_string()).map_or_else(|| uid.to_string(), |(_, user)| user);
            Secret { name, user, set_at: None, bytes: None, fault: Some(error.to_string()) }
        }
    }
}

fn wire_secret(head: SecretHead) -> Secret {
    let SecretHead { name, user, set_at, bytes, .. } = head;
    Secret { name, user, set_at: Some(Time(set_at)), bytes: Some(bytes), fault: None }
}

/// A problem of a body without the parts of it that a parser quotes.
fn without_value(problem: Problem) -> Problem {
    let names_field = catalogue::UNKNOWN_FIELD.to_string();
    match catalogue::find(&problem.code) {
        Some(entry) if problem.code != names_field => {
            Problem::new(entry.code, "the body has no value: it is not of the form")
                .try_this(r#"{"value": "..."}"#)
        }
        _ => problem,
    }
}

fn not_permitted(what: &str) -> ApiError {
    Refusal::NotPermitted { what: what.to_owned(), by: Permitted::Admin }.into()
}
