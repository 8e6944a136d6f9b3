//! Signing in at the identity provider: to it and back.
//!
//! On a loopback address the provider knows one address to come back to, `http://127.0.0.1:7478/`.
//! No session begins there, because its cookie would go to each server of that host. The browser
//! begins at a host name of its own, like those of `gpool open`, goes on there when it comes back,
//! and the kernel says that it is still a browser of the same user: each user of the machine can
//! set cookies for all of these names.
//! Source: RFC 8252, section 7.3.

use std::time::Instant;

use axum::http::StatusCode;
use axum::http::header::{self, HeaderMap};
use gpool_oidc::Callback;
use gpool_wire::{Problem, catalogue};

use super::answer::{no_page, see};
use super::query::Query;
use super::sign_in::with_cookies;
use super::{Page, Pages, RequestOrigin, cookie};
use gpool_identity::pool::RequestSource;
use gpool_identity::sign_in::{Browser, SignIns};
use gpool_identity::web::SignedIn;
use gpool_server::fault::internal;

/// The cookie of a sign-in that has begun, on a loopback address and over the network.
const ATTEMPTS: [&str; 2] = ["gpool-attempt", "__Host-gpool-attempt"];

/// The title of a page that comes back from the provider.
const COMES_BACK: &str = "Signing in";
/// Marks a page that has loaded itself, so that it does so once.
const AGAIN: &str = "again";

impl Pages {
    /// The browser of a request: only it may end the sign-in that it began.
    fn browser(&self, place: RequestOrigin<'_>) -> Result<Browser, Box<Problem>> {
        if self.is_remote {
            let browser = Browser::remote(place.from);
            self.entrance.may_sign_in(browser.source())?;
            return Ok(browser);
        }
        let Some(uid) = place.uid else {
            let what = "the system does not say which user runs this browser";
            return Err(Box::new(Problem::new(catalogue::SIGN_IN_FAILED, what)));
        };
        let browser = Browser::local(place.label, uid);
        self.entrance.may_sign_in(browser.source())?;
        Ok(browser)
    }

    fn attempt_name(&self) -> &'static str {
        ATTEMPTS[usize::from(self.is_remote)]
    }

    /// The cookie of an attempt; without a value, it removes the cookie.
    fn attempt(&self, value: &str) -> String {
        let secure = if self.is_remote { "; Secure" } else { "" };
        let lasts = if value.is_empty() { 0 } else { 600 };
        let name = self.attempt_name();
        format!("{name}={value}; Path=/; HttpOnly; SameSite=Strict; Max-Age={lasts}{secure}")
    }

    /// Sends the browser to the provider.
    pub(super) async fn begin_at_provider(
        &self,
        place: RequestOrigin<'_>,
        headers: &HeaderMap,
    ) -> Page {
        let host = headers.get(header::HOST).and_then(|host| host.to_str().ok());
        let (Some(sign_ins), Some(host)) = (self.sign_ins(), host) else { return Ok(no_page()) };
        let browser = self.browser(place)?;
        if let RequestSource::User(uid) = browser.source()
            && !self.web.sessions.is_label_of(place.label, uid)
        {
            // A page of another user can send this browser to a name that this user knows.
            let own = self.web.url_of(&self.web.sessions.label(uid));
            return Ok(see(&format!("{own}login/provider")));
        }
        let own = if self.is_remote { format!("https://{host}/") } else { self.web.url() };
        let (redirect, is_new) = (format!("{own}login/callback"), !self.is_remote);
        let source = browser.source();
        let work =
            move |sign_ins: &SignIns| sign_ins.start(&redirect, is_new, browser, Instant::now());
        Ok(match sign_ins.in_turn(source, work).await.map_err(fault)? {
            Ok((url, state)) => with_cookies(see(&url), &[&self.attempt(&state)]),
            Err(error) => {
                sign_ins.log(&error, source, Instant::now());
                self.sign_in_first(StatusCode::BAD_GATEWAY, &error.to_string())
            }
        })
    }

    /// Begins a session when the provider has sent the browser back.
    pub(super) async fn end_at_provider(
        &self,
        place: RequestOrigin<'_>,
        headers: &HeaderMap,
        text: &str,
    ) -> Page {
        let Some(sign_ins) = self.sign_ins() else { return Ok(no_page()) };
        let query = Query::of(text);
        let value = |name| Some(query.get(name).to_owned()).filter(|value| !value.is_empty());
        let callback = Callback {
            code: value("code"),
            state: value("state"),
            iss: value("iss"),
            error: value("error"),
            error_description: value("error_description"),
        };
        let wrong = "This sign-in was not begun in this browser: start again.";
        let not_begun = || Ok(self.sign_in_first(StatusCode::FORBIDDEN, wrong));
        let Some(state) = callback.state.as_deref() else { return not_begun() };
        if !self.is_remote && place.label.is_empty() {
            let Some(label) = sign_ins.label(state, Instant::now()) else { return not_begun() };
            let url = format!("{}login/callback?{text}", self.web.url_of(&label));
            return Ok(self.goes_on_at(COMES_BACK, &url));
        }
        // Another site could send this browser the answer of its own sign-in.
        let begun = cookie(headers, self.attempt_name());
        if begun.is_none() && query.get(AGAIN).is_empty() {
            // The cookie is strict.
            let url = format!("/login/callback?{text}&{AGAIN}=1");
            return Ok(self.goes_on_at(COMES_BACK, &url));
        }
        if begun != Some(state) {
            return not_begun();
        }
        let (from, browser) = (place.from.to_string(), self.browser(place)?);
        let source = browser.source();
        let work =
            move |sign_ins: &SignIns| sign_ins.finish(&callback, &browser, &from, Instant::now());
        let (row, _) = match sign_ins.in_turn(source, work).await.map_err(fault)? {
            Ok(made) => made,
            Err(error) => {
                sign_ins.log(&error, source, Instant::now());
                return Ok(self.sign_in_first(StatusCode::FORBIDDEN, &error.to_string()));
            }
        };
        let (user, over) = (SignedIn::Token(row.id.into()), self.attempt(""));
        let secret = self.web.sessions.begin(place.at(), user, Instant::now());
        Ok(with_cookies(self.signed_in_at("/"), &[&over, &self.cookie(&secret)]))
    }
}

fn fault(error: tokio::task::JoinError) -> Box<Problem> {
    Box::new(Problem::from(&internal(error)))
}
