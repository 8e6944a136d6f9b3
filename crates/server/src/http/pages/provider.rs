//! Signing in at the identity provider: to it and back.
//!
//! On a loopback address the provider knows one address to come back to, `http://127.0.0.1:7478/`.
//! No session begins there, because its cookie would go to each server of that host: the browser
//! goes on to a link with a host name of its own, like those of `gpool open`.
//! Source: RFC 8252, section 7.3.

use std::time::Instant;

use axum::http::StatusCode;
use axum::http::header::{self, HeaderMap};
use gpool_oidc::Callback;
use gpool_wire::Problem;

use super::answer::{no_page, see};
use super::query::Query;
use super::sign_in::with_cookies;
use super::{Page, Pages, Place, cookie};
use crate::fault::internal;
use crate::web::SignedIn;

/// The cookie of a sign-in that has begun, on a loopback address and over the network. It comes
/// along when the provider sends the browser back, so it can't be strict.
const ATTEMPTS: [&str; 2] = ["gpool-attempt", "__Host-gpool-attempt"];

impl Pages {
    fn attempt_name(&self) -> &'static str {
        ATTEMPTS[usize::from(self.is_remote)]
    }

    /// The cookie of an attempt; without a value, it removes the cookie.
    fn attempt(&self, value: &str) -> String {
        let secure = if self.is_remote { "; Secure" } else { "" };
        let lasts = if value.is_empty() { 0 } else { 600 };
        let name = self.attempt_name();
        format!("{name}={value}; Path=/; HttpOnly; SameSite=Lax; Max-Age={lasts}{secure}")
    }

    /// Sends the browser to the provider.
    pub(super) async fn begin_at_provider(&self, headers: &HeaderMap) -> Page {
        let host = headers.get(header::HOST).and_then(|host| host.to_str().ok());
        let (Some(sign_ins), Some(host)) = (self.sign_ins(), host) else { return Ok(no_page()) };
        let (asked, is_new) = (format!("{}://{host}/", self.scheme()), !self.is_remote);
        let own = if self.is_remote { asked.clone() } else { self.web.url() };
        if asked != own {
            return Ok(see(&format!("{own}login/provider")));
        }
        let redirect = format!("{own}login/callback");
        let work = move || sign_ins.start(&redirect, is_new, Instant::now());
        let started = tokio::task::spawn_blocking(work).await.map_err(fault)?;
        Ok(match started {
            Ok((url, state)) => with_cookies(see(&url), &[&self.attempt(&state)]),
            Err(error) => self.sign_in_first(StatusCode::BAD_GATEWAY, &error.to_string()),
        })
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
        let begun = cookie(headers, self.attempt_name());
        if callback.state.is_none() || begun != callback.state.as_deref() {
            let wrong = "This sign-in was not begun in this browser: start again.";
            return Ok(self.sign_in_first(StatusCode::FORBIDDEN, wrong));
        }
        let from = place.from.to_string();
        let work = move || sign_ins.finish(&callback, &from, Instant::now());
        let finished = tokio::task::spawn_blocking(work).await.map_err(fault)?;
        let (row, _) = match finished {
            Ok(made) => made,
            Err(error) => {
                tracing::warn!(target: "audit", %error, "a sign-in failed");
                return Ok(self.sign_in_first(StatusCode::FORBIDDEN, &error.to_string()));
            }
        };
        let (user, over) = (SignedIn::Token(row.id.into()), self.attempt(""));
        if !self.is_remote {
            let (link, _) = self.web.invite(user, Instant::now());
            return Ok(with_cookies(self.signed_in_at(&link), &[&over]));
        }
        let secret = self.web.sessions.begin(place.label, user, Instant::now());
        Ok(with_cookies(self.signed_in_at("/"), &[&over, &self.cookie(&secret)]))
    }
}

fn fault(error: tokio::task::JoinError) -> Box<Problem> {
    Box::new(Problem::from(&internal(error)))
}
