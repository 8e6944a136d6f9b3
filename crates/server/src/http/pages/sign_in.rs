//! Signing in and out: by a link on a loopback address, by a token over the network.

use std::sync::Arc;
use std::time::Instant;

use axum::body::Body;
use axum::http::header::{self, HeaderMap, HeaderValue};
use axum::http::{Response, StatusCode};
use gpool_web::SignIn;
use gpool_wire::Scope;

use super::super::asker::{Asks, Peer};
use super::super::way::{Origin, Way};
use super::answer::{html, message, see};
use super::query::Query;
use super::{Page, Pages, Place, Visit, cookie};
use crate::sign_in::SignIns;
use crate::web::SignedIn;

/// The cookie on a loopback address, and over the network: with this prefix a browser takes it only
/// over TLS, and no other host can set it.
/// Source: RFC 6265bis, section 4.1.3.
const COOKIES: [&str; 2] = ["gpool", "__Host-gpool"];

impl Pages {
    fn cookie_name(&self) -> &'static str {
        COOKIES[usize::from(self.entrance.is_some())]
    }

    /// The scheme of the pages' addresses.
    pub(super) fn scheme(&self) -> &'static str {
        if self.entrance.is_some() { "https" } else { "http" }
    }

    /// The cookie of a session; without a value, it removes the cookie.
    pub(super) fn cookie(&self, value: &str) -> String {
        let (name, is_remote) = (self.cookie_name(), self.entrance.is_some());
        let secure = if is_remote { "; Secure" } else { "" };
        let ends = if value.is_empty() { "; Max-Age=0" } else { "" };
        format!("{name}={value}; Path=/; HttpOnly; SameSite=Strict{secure}{ends}")
    }

    /// Sign-ins at the identity provider, if there is one.
    pub(super) fn sign_ins(&self) -> Option<Arc<SignIns>> {
        self.entrance.as_ref()?.sign_ins()
    }

    /// Sets or removes the cookie of a session, and shows the first page.
    fn with_cookie(&self, value: &str) -> Response<Body> {
        let mut response = see("/");
        if let Ok(cookie) = HeaderValue::from_str(&self.cookie(value)) {
            response.headers_mut().insert(header::SET_COOKIE, cookie);
        }
        response
    }

    /// The page for a browser without a session.
    pub(super) fn sign_in_first(&self, status: StatusCode, wrong: &str) -> Response<Body> {
        if self.entrance.is_some() {
            let sign_ins = self.sign_ins();
            let provider = sign_ins.as_ref().map_or("", |sign_ins| sign_ins.host());
            return html(status, SignIn { wrong, provider, ..SignIn::default() }.page());
        }
        let text = "Run this on the machine of the server, and open the link that it prints:";
        message(status, "Sign in", text, "gpool open")
    }

    /// Uses a link up.
    pub(super) fn sign_in(&self, label: &str, code: &str) -> Response<Body> {
        match self.web.sessions.redeem(label, code, Instant::now()) {
            Some(secret) => self.with_cookie(&secret),
            None => {
                let text = "The link was used already, or is older than a minute. Get another one:";
                message(StatusCode::FORBIDDEN, "This link is over", text, "gpool open")
            }
        }
    }

    /// Begins the session of a token. The caller has checked that the form is the server's own.
    pub(super) async fn sign_in_by_token(&self, place: Place<'_>, form: &Query) -> Page {
        let (Some(entrance), Some(from)) = (&self.entrance, place.from) else {
            return Ok(super::no_page());
        };
        let asks = match entrance.by_secret(form.get("token").trim(), from).await {
            Ok(asks) => asks,
            Err(problem) => {
                let status = StatusCode::from_u16(problem.status);
                let status = status.unwrap_or(StatusCode::UNAUTHORIZED);
                return Ok(self.sign_in_first(status, &problem.detail));
            }
        };
        let way = &asks.0.way;
        let Some(token) = way.token.clone().filter(|_| way.scope >= Scope::Viewer) else {
            let wrong = "This token is only for metrics.";
            return Ok(self.sign_in_first(StatusCode::FORBIDDEN, wrong));
        };
        let user = SignedIn::Token(token);
        Ok(self.with_cookie(&self.web.sessions.begin(place.label, user, Instant::now())))
    }

    /// Ends the session of a request.
    pub(super) fn sign_out(&self, place: Place<'_>, headers: &HeaderMap) -> Response<Body> {
        if let Some(secret) = cookie(headers, self.cookie_name()) {
            self.web.sessions.end(place.label, secret);
        }
        self.with_cookie("")
    }

    /// The signed-in user. The account and the token are looked up again for each page: they may
    /// have lost rights.
    pub(super) async fn visit<'r>(
        &self,
        place: Place<'_>,
        headers: &'r HeaderMap,
    ) -> Option<Visit<'r>> {
        let secret = cookie(headers, self.cookie_name())?;
        let csrf = self.web.sessions.csrf(place.label, secret);
        let asks = match self.web.sessions.user(place.label, secret, Instant::now())? {
            SignedIn::Token(id) => self.entrance.as_ref()?.by_id(&id, place.from?).await?,
            SignedIn::User { uid, gid } => {
                let peer = Peer { uid, gid: Some(gid), pid: None };
                let identify = self.identify.clone();
                let found = tokio::task::spawn_blocking(move || identify(peer)).await.ok()?;
                Asks(Arc::new(found.by(Way::local(Origin::Dashboard))))
            }
        };
        Some(Visit { asks, csrf, headers, query: Query::default() })
    }
}
