//! Signing in at the identity provider: to it and back.

use std::time::Instant;

use axum::body::Body;
use axum::http::header::{self, HeaderMap, HeaderValue};
use axum::http::{Response, StatusCode};
use gpool_oidc::Callback;
use gpool_wire::Problem;

use super::answer::{no_page, see};
use super::query::Query;
use super::{Page, Pages, Place, cookie};
use crate::fault::internal;
use crate::web::SignedIn;

/// The cookie of a sign-in that has begun. It comes along when the provider sends the browser back,
/// so it can't be strict.
const ATTEMPT: &str = "__Host-gpool-attempt";

impl Pages {
    /// Sends the browser to the provider.
    pub(super) async fn begin_at_provider(&self, headers: &HeaderMap) -> Page {
        let host = headers.get(header::HOST).and_then(|host| host.to_str().ok());
        let (Some(sign_ins), Some(host)) = (self.sign_ins(), host) else { return Ok(no_page()) };
        let redirect = format!("https://{host}/login/callback");
        let work = move || sign_ins.start(&redirect, Instant::now());
        let started = tokio::task::spawn_blocking(work).await.map_err(fault)?;
        let (url, state) = match started {
            Ok(started) => started,
            Err(error) => {
                return Ok(self.sign_in_first(StatusCode::BAD_GATEWAY, &error.to_string()));
            }
        };
        let cookie =
            format!("{ATTEMPT}={state}; Path=/; HttpOnly; Secure; SameSite=Lax; Max-Age=600");
        Ok(with_cookies(see(&url), &[&cookie]))
    }

    /// Begins a session when the provider has sent the browser back.
    pub(super) async fn end_at_provider(
        &self,
        place: Place<'_>,
        headers: &HeaderMap,
        query: &Query,
    ) -> Page {
        let Some(sign_ins) = self.sign_ins() else { return Ok(no_page()) };
        let value = |name| Some(query.get(name).to_owned()).filter(|value| !value.is_empty());
        let callback = Callback {
            code: value("code"),
            state: value("state"),
            iss: value("iss"),
            error: value("error"),
            error_description: value("error_description"),
        };
        // Another site could send this browser the answer of its own sign-in.
        if callback.state.is_none() || cookie(headers, ATTEMPT) != callback.state.as_deref() {
            let wrong = "This sign-in was not begun in this browser: start again.";
            return Ok(self.sign_in_first(StatusCode::FORBIDDEN, wrong));
        }
        let from = place.from.map(|from| from.to_string()).unwrap_or_default();
        let work = move || sign_ins.finish(&callback, &from, Instant::now());
        let finished = tokio::task::spawn_blocking(work).await.map_err(fault)?;
        let (row, _) = match finished {
            Ok(made) => made,
            Err(error) => {
                tracing::warn!(target: "audit", %error, "a sign-in failed");
                return Ok(self.sign_in_first(StatusCode::FORBIDDEN, &error.to_string()));
            }
        };
        let user = SignedIn::Token(row.id.into());
        let secret = self.web.sessions.begin(place.label, user, Instant::now());
        let over = format!("{ATTEMPT}=; Path=/; HttpOnly; Secure; SameSite=Lax; Max-Age=0");
        // The browser came from another site, so it would not send a strict cookie after a
        // redirect. The page loads the next one itself.
        let mut response = super::answer::message(StatusCode::OK, "You are signed in", "", "");
        response.headers_mut().insert(header::REFRESH, HeaderValue::from_static("0; url=/"));
        Ok(with_cookies(response, &[&over, &self.cookie(&secret)]))
    }
}

fn with_cookies(mut response: Response<Body>, cookies: &[&str]) -> Response<Body> {
    for value in cookies.iter().filter_map(|cookie| HeaderValue::from_str(cookie).ok()) {
        response.headers_mut().append(header::SET_COOKIE, value);
    }
    response
}

fn fault(error: tokio::task::JoinError) -> Box<Problem> {
    Box::new(Problem::from(&internal(error)))
}
