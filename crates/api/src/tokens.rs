//! Access tokens, the system users of network users, and the caller.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use gpool_model::escape::is_unprintable;
use gpool_model::refusal::Permitted;
use gpool_model::{Millis, Refusal, Timestamp, parse};
use gpool_wire::{
    Document, List, MapUser, Me, NetworkUser, NewToken, Problem, Scope, Time, Token, TokenCreate,
    catalogue,
};

use super::asker::{Asker, Asks};
use super::extract::{ApiError, JsonBody, Segment};
use crate::api::Api;
use gpool_identity::access::{Binding, CreateError, Subject, TokenRow};
use gpool_server::clock::now;
use gpool_server::fault::{internal, refusal_of};

/// How long a token is valid if the request says nothing.
const USUAL: Millis = Millis::from_hours(90 * 24);
/// The longest time that a user may set.
const LONGEST: Millis = Millis::from_hours(366 * 24);
/// Longest name of a token or network user, in characters.
const NAME_MAX: usize = 80;

pub(super) fn wire_token(row: TokenRow) -> Token {
    Token {
        id: row.id,
        name: row.name,
        user: row.subject.name().to_string(),
        scope: row.scope,
        created_at: Time(row.created_at),
        created_by: row.created_by.to_string(),
        expires_at: row.expires_at.map(Time),
    }
}

/// Returns the caller: their user, and the most that this connection allows.
#[utoipa::path(
    get, path = "/me", operation_id = "me",
    responses((status = 200, description = "The caller", body = Document<Me>))
)]
pub(crate) async fn me(Asks(asker): Asks) -> Json<Document<Me>> {
    let way = &asker.way;
    Json(Document::new(Me {
        user: way.is_mapped.then(|| asker.caller.owner.user.to_string()),
        network_user: way.network_user.as_ref().map(ToString::to_string),
        scope: way.scope,
        admin: asker.caller.admin,
        token: way.token.as_ref().map(ToString::to_string),
    }))
}

/// Lists your valid tokens, the oldest first. Admins see those of all users.
#[utoipa::path(
    get, path = "/tokens", operation_id = "tokens_list",
    responses((status = 200, description = "Tokens, without their secrets", body = List<Token>))
)]
pub(crate) async fn list(State(api): State<Api>, Asks(asker): Asks) -> Json<List<Token>> {
    let mut rows = api.handle.shared.identities.access.tokens(now());
    rows.retain(|row| is_own(&asker, row) || asker.caller.admin);
    Json(List::new(rows.into_iter().map(wire_token).collect()))
}

/// Creates a token. Only this answer contains its secret.
#[utoipa::path(
    post, path = "/tokens", operation_id = "tokens_create", request_body = TokenCreate,
    responses(
        (status = 201, description = "The token with its secret", body = Document<NewToken>),
        (status = 403, description = "Only admins create tokens for others, of scope `admin`, or \
                                      without an end", body = Problem,
         content_type = "application/problem+json"),
        (status = 409, description = "The user has too many tokens", body = Problem,
         content_type = "application/problem+json"),
    )
)]
pub(crate) async fn create(
    State(api): State<Api>,
    Asks(asker): Asks,
    JsonBody(asked): JsonBody<TokenCreate>,
) -> Result<Response, ApiError> {
    let name = checked_name("name", &asked.name)?;
    if asked.scope == Scope::Admin && !asker.caller.admin {
        return Err(not_permitted("create tokens with scope admin"));
    }
    let at = now();
    let expires_at = expiry(&asker, &asked, at)?;
    let by = asker.caller.owner.user.clone();
    let shared = api.handle.shared.clone();
    shared.storage.room.check().map_err(|error| refusal_of(&error))?;
    let made = tokio::task::spawn_blocking(move || {
        let subject = subject(&asker, asked.user.as_deref(), shared.info.find_user)?;
        let row = TokenRow::new((name, subject, asked.scope), (by, at), expires_at);
        shared.identities.access.create(row, at).map_err(|error| match error {
            CreateError::TooMany => Problem::new(catalogue::TOO_MANY_TOKENS, error.to_string())
                .try_this("gpool token list")
                .into(),
            CreateError::NameConflict => internal(error).into(),
            CreateError::Io(error) => not_stored(&error),
        })
    });
    let (row, secret) = made.await.map_err(internal)??;
    let body = Json(Document::new(NewToken { token: wire_token(row), secret }));
    Ok((StatusCode::CREATED, [(axum::http::header::CACHE_CONTROL, "no-store")], body)
        .into_response())
}

/// Revokes a token. Requests with it are refused from now on, and sessions that it began end.
#[utoipa::path(
    delete, path = "/tokens/{token}", operation_id = "tokens_revoke",
    params(("token" = String, Path, description = "ID of the token")),
    responses(
        (status = 200, description = "The token as it was", body = Document<Token>),
        (status = 403, description = "The token is another user's", body = Problem,
         content_type = "application/problem+json"),
        (status = 404, description = "There is no such token", body = Problem,
         content_type = "application/problem+json"),
    )
)]
pub(crate) async fn revoke(
    State(api): State<Api>,
    Asks(asker): Asks,
    Segment(id): Segment,
) -> Result<Json<Document<Token>>, ApiError> {
    let shared = api.handle.shared.clone();
    let Some(row) = shared.identities.access.by_id(&id, now()) else {
        let what = format!("there is no token {id:?}");
        return Err(Problem::new(catalogue::NO_SUCH_TOKEN, what)
            .try_this("gpool token list")
            .into());
    };
    if !is_own(&asker, &row) && !asker.caller.admin {
        return Err(not_permitted("revoke tokens of other users"));
    }
    let revoked = tokio::task::spawn_blocking(move || shared.identities.access.revoke(&id));
    revoked.await.map_err(internal)?.map_err(|error| not_stored(&error))?;
    Ok(Json(Document::new(wire_token(row))))
}

/// Lists the network users with a system user, and those that have signed in, by name.
#[utoipa::path(
    get, path = "/network-users", operation_id = "network_users_list",
    responses((status = 200, description = "Network users", body = List<NetworkUser>))
)]
pub(crate) async fn network_users(State(api): State<Api>) -> Json<List<NetworkUser>> {
    let access = &api.handle.shared.identities.access;
    let (mut rules, bindings) = (access.users(), access.bindings());
    let of_binding = |it: Binding| NetworkUser {
        user: rules.remove(&it.name),
        issuer: Some(it.issuer),
        subject: Some(it.subject),
        since: Some(Time(it.since)),
        name: it.name,
    };
    let mut users: Vec<NetworkUser> = bindings.into_iter().map(of_binding).collect();
    users.extend(rules.into_iter().map(|(name, user)| NetworkUser::new(name, Some(user))));
    users.sort_by(|one, other| one.name.cmp(&other.name));
    Json(List::new(users))
}

/// Sets the system user that runs the jobs of a network user.
#[utoipa::path(
    patch, path = "/network-users/{name}", operation_id = "network_users_map",
    request_body = MapUser,
    params(("name" = String, Path, description = "Name of the network user")),
    responses((status = 200, description = "The network user", body = Document<NetworkUser>))
)]
pub(crate) async fn map_user(
    State(api): State<Api>,
    Segment(name): Segment,
    JsonBody(asked): JsonBody<MapUser>,
) -> Result<Json<Document<NetworkUser>>, ApiError> {
    let name = checked_name("name", &name)?;
    let shared = api.handle.shared.clone();
    if asked.user.is_some() {
        shared.storage.room.check().map_err(|error| refusal_of(&error))?;
    }
    let done = tokio::task::spawn_blocking(move || {
        let user = asked.user.map(|user| system_user(&user, shared.info.find_user)).transpose()?;
        let user = user.map(|(_, user)| user);
        shared.identities.access.map(&name, user.clone()).map_err(|error| not_stored(&error))?;
        Ok::<_, ApiError>(NetworkUser::new(name, user))
    });
    Ok(Json(Document::new(done.await.map_err(internal)??)))
}

/// Forgets a network user: its tokens are refused from now on, its system user is removed, and the
/// next user of the provider that signs in with its name gets it.
#[utoipa::path(
    delete, path = "/network-users/{name}", operation_id = "network_users_forget",
    params(("name" = String, Path, description = "Name of the network user")),
    responses(
        (status = 200, description = "The network user without a system user",
         body = Document<NetworkUser>),
        (status = 404, description = "There is no such network user", body = Problem,
         content_type = "application/problem+json"),
    )
)]
pub(crate) async fn forget_user(
    State(api): State<Api>,
    Segment(name): Segment,
) -> Result<Json<Document<NetworkUser>>, ApiError> {
    let (shared, forgotten) = (api.handle.shared.clone(), name.clone());
    let done = tokio::task::spawn_blocking(move || shared.identities.access.forget(&forgotten));
    if !done.await.map_err(internal)?.map_err(|error| not_stored(&error))? {
        let what = format!("there is no network user {name:?}");
        return Err(Problem::new(catalogue::NO_SUCH_NETWORK_USER, what)
            .try_this("gpool user map")
            .into());
    }
    Ok(Json(Document::new(NetworkUser::new(name, None))))
}

/// Whether a token is the caller's own.
pub(super) fn is_own(asker: &Asker, row: &TokenRow) -> bool {
    match (&row.subject, &asker.way.network_user) {
        (Subject::Network(name), Some(own)) => name == own,
        (Subject::System { uid, .. }, None) => *uid == asker.caller.owner.uid,
        (Subject::Network(_), None) | (Subject::System { .. }, Some(_)) => false,
    }
}

/// The user of a new token. May ask the system's name service.
fn subject(
    asker: &Asker,
    named: Option<&str>,
    find: gpool_server::handle::FindUser,
) -> Result<Subject, ApiError> {
    let own = &asker.caller.owner;
    let subject = match named {
        None => return Ok(Subject::System { uid: own.uid, user: own.user.clone() }),
        Some(name) if name.contains('@') => Subject::Network(checked_name("user", name)?.into()),
        Some(name) => {
            let (uid, user) = system_user(name, find)?;
            Subject::System { uid, user: user.into() }
        }
    };
    match &subject {
        Subject::System { uid, .. } if *uid == own.uid => Ok(subject),
        _ if asker.caller.admin => Ok(subject),
        _ => Err(not_permitted("create tokens for other users")),
    }
}

fn system_user(
    name: &str,
    find: gpool_server::handle::FindUser,
) -> Result<(u32, String), ApiError> {
    find(name).ok_or_else(|| {
        let why = format!("there is no user {name:?}; a network user has an @: ana@lab.org");
        Refusal::Invalid { field: "user".to_owned(), why }.into()
    })
}

fn expiry(
    asker: &Asker,
    request: &TokenCreate,
    at: Timestamp,
) -> Result<Option<Timestamp>, ApiError> {
    let span = match request.expires.as_deref() {
        None => USUAL,
        Some("never") if asker.caller.admin || request.scope == Scope::Metrics => return Ok(None),
        Some("never") => return Err(not_permitted("create tokens that never expire")),
        Some(text) => {
            let bad = |why| Refusal::Invalid { field: "expires".to_owned(), why };
            let span = parse::span(text).map_err(|error| bad(error.to_string()))?;
            if span == Millis::ZERO || span > LONGEST {
                return Err(bad("it must be from 1s to 366d: 90d".to_owned()).into());
            }
            span
        }
    };
    Ok(Some(at.after(span)))
}

fn checked_name(field: &str, text: &str) -> Result<String, ApiError> {
    if text.chars().count() > NAME_MAX || text.chars().any(is_unprintable) {
        let why = format!("it may have {NAME_MAX} characters, no control or invisible characters");
        return Err(Refusal::Invalid { field: field.to_owned(), why }.into());
    }
    Ok(text.to_owned())
}

fn not_permitted(what: &str) -> ApiError {
    Refusal::NotPermitted { what: what.to_owned(), by: Permitted::Admin }.into()
}

fn not_stored(error: &std::io::Error) -> ApiError {
    Refusal::StorageFull { why: error.to_string() }.into()
}
