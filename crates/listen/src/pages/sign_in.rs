//! Signing in and out: by a link on a loopback address, by a token over the network, and on both at
//! the identity provider.

use std::sync::Arc;
use std::time::Instant;

use axum::body::Body;
use axum::http::header::{self, HeaderMap, HeaderValue};
use axum::http::{Response, StatusCode};
use gpool_web::SignIn;
use gpool_wire::Scope;

use super::answer::{html, message, see};
use super::query::Query;
use super::{Page, Pages, RequestOrigin, Visit, cookie};
use gpool_api::asker::{Asks, Peer};
use gpool_api::way::{Origin, Way};
use gpool_identity::sign_in::SignIns;
use gpool_identity::web::{NotRedeemed, SessionKey, SignedIn};

/// The cookie on a loopback address, and over the network: with this prefix a browser takes it only
/// over TLS, and no other host can set it.
/// Source: RFC 6265bis, section 4.1.3.
const COOKIES: [&str; 2] = ["gpool", "__Host-gpool"];

impl Pages {
    fn cookie_name(&self) -> &'static str {
        COOKIES[usize::from(self.is_remote)]
    }

    /// The scheme of the pages' addresses.
    pub(super) fn scheme(&self) -> &'static str {
        if self.is_remote { "https" } else { "http" }
    }

    /// The cookie of a session; without a value, it removes the cookie.
    pub(super) fn cookie(&self, value: &str) -> String {
        let name = self.cookie_name();
        let secure = if self.is_remote { "; Secure" } else { "" };
        let ends = if value.is_empty() { "; Max-Age=0" } else { "" };
        format!("{name}={value}; Path=/; HttpOnly; SameSite=Strict{secure}{ends}")
    }

    /// Sign-ins at the identity provider, if there is one.
    pub(super) fn sign_ins(&self) -> Option<Arc<SignIns>> {
        self.entrance.sign_ins()
    }

    /// Sets or removes the cookie of a session, and shows the first page.
    fn with_cookie(&self, value: &str) -> Response<Body> {
        with_cookies(see("/"), &[&self.cookie(value)])
    }

    /// The page for a browser without a session.
    pub(super) fn sign_in_first(&self, status: StatusCode, wrong: &str) -> Response<Body> {
        let sign_ins = self.sign_ins();
        let provider = sign_ins.as_ref().map_or("", |sign_ins| sign_ins.host());
        let by_token = self.is_remote;
        html(status, SignIn { wrong, provider, by_token, ..SignIn::default() }.page())
    }

    /// Shows the first page after a navigation from another site.
    pub(super) fn signed_in_at(&self, url: &str) -> Response<Body> {
        self.goes_on_at("You are signed in", url)
    }

    /// Loads another page after a navigation from another site. Browsers do not send a strict
    /// cookie to the target of a redirect then, so this page loads the next one itself.
    pub(super) fn goes_on_at(&self, title: &str, url: &str) -> Response<Body> {
        let mut response = message(StatusCode::OK, title, "", "");
        if let Ok(refresh) = HeaderValue::from_str(&format!("0; url={url}")) {
            response.headers_mut().insert(header::REFRESH, refresh);
        }
        response
    }

    /// Uses a link up: its address, or the form that `gpool open` opens. The code is all that it
    /// needs, but only in a browser of its user: another user could offer their own session, or
    /// have read the code.
    pub(super) fn sign_in(
        &self,
        place: RequestOrigin<'_>,
        code: &str,
        headers: &HeaderMap,
    ) -> Response<Body> {
        let site = headers.get("sec-fetch-site").and_then(|site| site.to_str().ok());
        let uid = place.uid;
        match self.web.sessions.redeem(place.at(), code, Instant::now()) {
            Ok(secret) if site.is_some_and(|site| site.ends_with("-site")) => {
                let cookie = self.cookie(&secret);
                with_cookies(self.signed_in_at("/"), &[&cookie])
            }
            Ok(secret) => self.with_cookie(&secret),
            Err(NotRedeemed::OtherUser) => {
                tracing::warn!(target: "audit", uid, "a link of another user");
                let text = "The link is for another user than the one that runs this browser.";
                message(StatusCode::FORBIDDEN, "Not your link", text, "gpool open")
            }
            Err(NotRedeemed::Over) => {
                let text = "The link was used already, or is too old. Get another one:";
                message(StatusCode::FORBIDDEN, "This link is over", text, "gpool open")
            }
        }
    }

    /// Begins the session of a token. The caller has checked that the form is the server's own.
    pub(super) async fn sign_in_by_token(&self, place: RequestOrigin<'_>, form: &Query) -> Page {
        let asks = match self.entrance.by_secret(form.get("token").trim(), place.from).await {
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
        Ok(self.with_cookie(&self.web.sessions.begin(place.at(), user, Instant::now())))
    }

    /// Ends the session of a request.
    pub(super) fn sign_out(&self, place: RequestOrigin<'_>, headers: &HeaderMap) -> Response<Body> {
        if let Some(secret) = cookie(headers, self.cookie_name()) {
            self.web.sessions.end(place.label, secret);
        }
        self.with_cookie("")
    }

    /// The signed-in user. The account and the token are looked up again for each page: they may
    /// have lost rights.
    pub(super) async fn visit<'r>(
        &self,
        place: RequestOrigin<'_>,
        headers: &'r HeaderMap,
    ) -> Option<Visit<'r>> {
        self.visit_by(self.cookie_name(), place, headers).await
    }

    /// The user of the session in this cookie.
    pub(super) async fn visit_by<'r>(
        &self,
        name: &str,
        place: RequestOrigin<'_>,
        headers: &'r HeaderMap,
    ) -> Option<Visit<'r>> {
        let secret = cookie(headers, name)?;
        let csrf = self.web.sessions.csrf(place.label, secret);
        let session = SessionKey::new(place.label, secret);
        let asks = match self.web.sessions.user(place.at(), secret, Instant::now())? {
            SignedIn::Token(id) => self.entrance.by_id(&id, place.from).await?,
            SignedIn::User { uid, gid } => {
                let peer = Peer { uid, gid: Some(gid), pid: None };
                let identify = self.identify.clone();
                let found = tokio::task::spawn_blocking(move || identify.find(peer)).await.ok()?;
                Asks(Arc::new(found.by(Way::local(Origin::Dashboard))))
            }
        };
        Some(Visit { asks, session, csrf, headers, query: Query::default() })
    }
}

pub(super) fn with_cookies(mut response: Response<Body>, cookies: &[&str]) -> Response<Body> {
    for value in cookies.iter().filter_map(|cookie| HeaderValue::from_str(cookie).ok()) {
        response.headers_mut().append(header::SET_COOKIE, value);
    }
    response
}
