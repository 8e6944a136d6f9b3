//! Answers to a browser.

use axum::body::Body;
use axum::http::header::{self, HeaderName, HeaderValue};
use axum::http::{Response, StatusCode};
use gpool_web::{CSP, Frame, MessagePage, asset};

pub(super) fn html(status: StatusCode, page: String) -> Response<Body> {
    let mut response = Response::new(Body::from(page));
    *response.status_mut() = status;
    let kind = HeaderValue::from_static("text/html; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}

/// Sends the browser to another page.
pub(super) fn see(path: &str) -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::SEE_OTHER;
    if let Ok(path) = HeaderValue::from_str(path) {
        response.headers_mut().insert(header::LOCATION, path);
    }
    response
}

pub(super) fn message(
    status: StatusCode,
    title: &str,
    text: &str,
    command: &str,
) -> Response<Body> {
    let page = MessagePage { title, text, command, ..MessagePage::default() };
    with_headers(html(status, page.page()), false)
}

pub(super) fn no_page() -> Response<Body> {
    no_page_in(Frame::default())
}

/// The same with the navigation of a signed-in user.
pub(super) fn no_page_in(frame: Frame<'_>) -> Response<Body> {
    let (title, text) = ("There is no such page", "The address is wrong, or the page was removed.");
    let page = MessagePage { frame, title, text, ..MessagePage::default() };
    with_headers(html(StatusCode::NOT_FOUND, page.page()), false)
}

pub(super) fn file(name: &str) -> Response<Body> {
    let Some(asset) = asset(name) else {
        return message(StatusCode::NOT_FOUND, "There is no such file", "", "");
    };
    let mut response = Response::new(Body::from(asset.text));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(asset.kind));
    response
}

/// Adds the headers that protect the pages in a browser.
pub(super) fn with_headers(mut response: Response<Body>, is_asset: bool) -> Response<Body> {
    let caching = if is_asset { "max-age=300" } else { "no-store" };
    let headers = [
        (header::CONTENT_SECURITY_POLICY, CSP),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::X_FRAME_OPTIONS, "DENY"),
        // Without a referrer at all, the origin of forms would be null.
        (header::REFERRER_POLICY, "same-origin"),
        (header::CACHE_CONTROL, caching),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    ];
    for (name, value) in headers {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}
