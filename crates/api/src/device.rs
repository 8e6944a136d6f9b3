//! Sign-in with an identity provider for programs without a browser.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Json;
use axum::extract::State;
use axum::http::header::CACHE_CONTROL;
use axum::response::Response;
use gpool_wire::{DeviceAnswer, DeviceSignIn, Document, NewToken, Problem, catalogue};

use super::asker::Asks;
use super::audit::without_entry;
use super::extract::{ApiError, Segment};
use super::tokens::wire_token;
use crate::api::Api;
use gpool_identity::access::CreateError;
use gpool_identity::pool::RequestSource;
use gpool_identity::sign_in::{DeviceState, SignInError, SignIns};
use gpool_server::fault::internal;

/// Begins a sign-in: the user opens an address in any browser, and confirms a code.
#[utoipa::path(
    post, path = "/login/device", operation_id = "login_device",
    responses(
        (status = 200, description = "The code and its address", body = Document<DeviceSignIn>),
        (status = 404, description = "The server has no identity provider", body = Problem,
         content_type = "application/problem+json"),
        (status = 502, description = "The provider did not answer, or refused", body = Problem,
         content_type = "application/problem+json"),
    )
)]
pub(crate) async fn start(State(api): State<Api>, Asks(asker): Asks) -> Result<Response, ApiError> {
    let (sign_ins, source) = (sign_ins(&api)?, asker.source());
    let start = move |sign_ins: &SignIns| sign_ins.start_device(source, Instant::now());
    let started = sign_ins.in_turn(source, start).await.map_err(internal)?;
    let (handle, code) = started.map_err(|error| refused(&sign_ins, &error, source))?;
    Ok(secret(Document::new(DeviceSignIn {
        handle,
        user_code: code.user_code,
        url: code.verification_uri,
        url_with_code: code.verification_uri_complete,
        expires_in_s: code.expires_in,
        interval_s: code.interval,
    })))
}

/// Asks whether the user has confirmed. The answer with the token comes once.
#[utoipa::path(
    post, path = "/login/device/{handle}", operation_id = "login_device_poll",
    params(("handle" = String, Path, description = "Handle of the sign-in")),
    responses(
        (status = 200, description = "The token, or when to ask again",
         body = Document<DeviceAnswer>),
        (status = 404, description = "The sign-in is over, or the server has no identity provider",
         body = Problem, content_type = "application/problem+json"),
        (status = 502, description = "The provider refused", body = Problem,
         content_type = "application/problem+json"),
    )
)]
pub(crate) async fn poll(
    State(api): State<Api>,
    Asks(asker): Asks,
    Segment(handle): Segment,
) -> Result<Response, ApiError> {
    let (sign_ins, from) = (sign_ins(&api)?, asker.way.origin.to_string());
    let source = asker.source();
    let poll = move |sign_ins: &SignIns| sign_ins.poll(&handle, &from, Instant::now());
    let polled = sign_ins.in_turn(source, poll).await.map_err(internal)?;
    let state = polled.map_err(|error| refused(&sign_ins, &error, source))?;
    let seconds = |time: Duration| time.as_secs() + u64::from(time.subsec_nanos() > 0);
    Ok(secret(Document::new(match state {
        DeviceState::Waiting(time) => DeviceAnswer { wait_s: seconds(time), token: None },
        DeviceState::Done(made) => {
            let (row, secret) = *made;
            DeviceAnswer { wait_s: 0, token: Some(NewToken { token: wire_token(row), secret }) }
        }
    })))
}

/// An answer that no cache keeps. The end of the sign-in writes the entry of the audit log.
fn secret<T: serde::Serialize>(body: T) -> Response {
    without_entry(([(CACHE_CONTROL, "no-store")], Json(body)))
}

fn sign_ins(api: &Api) -> Result<Arc<SignIns>, ApiError> {
    api.handle.shared.identities.sign_ins.clone().ok_or_else(|| {
        Problem::new(catalogue::NO_PROVIDER, "this server has no identity provider")
            .try_this("gpool token create   (on the machine of the server)")
            .into()
    })
}

/// The problem of a sign-in that failed.
fn refused(sign_ins: &SignIns, error: &SignInError, source: RequestSource) -> ApiError {
    let code = match error {
        SignInError::Over => catalogue::NO_PROVIDER,
        SignInError::NotStored(CreateError::TooMany) => catalogue::TOO_MANY_TOKENS,
        SignInError::Provider(_)
        | SignInError::BadName(_)
        | SignInError::NameConflict { .. }
        | SignInError::NotStored(_) => catalogue::SIGN_IN_FAILED,
    };
    sign_ins.log(error, source, Instant::now());
    Problem::new(code, error.to_string()).into()
}
