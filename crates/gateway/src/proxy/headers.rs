//! The headers that a proxy changes.

use std::net::IpAddr;

use hyper::header::{
    CONNECTION, HOST, HeaderMap, HeaderName, HeaderValue, TE, TRAILER, TRANSFER_ENCODING, UPGRADE,
};

const KEEP_ALIVE: HeaderName = HeaderName::from_static("keep-alive");
const PROXY_CONNECTION: HeaderName = HeaderName::from_static("proxy-connection");
const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
const FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");

/// The protocol that a message asks for, such as `websocket`.
#[must_use]
pub fn upgrade(headers: &HeaderMap) -> Option<HeaderValue> {
    let connection = headers.get_all(CONNECTION).iter().filter_map(|it| it.to_str().ok());
    let mut words = connection.flat_map(|it| it.split(','));
    let is_asked = words.any(|word| word.trim().eq_ignore_ascii_case("upgrade"));
    headers.get(UPGRADE).filter(|_| is_asked).cloned()
}

/// Removes the headers that belong to one connection only.
///
/// Source: RFC 9110, section 7.6.1.
pub fn remove_hop_by_hop(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = headers
        .get_all(CONNECTION)
        .iter()
        .filter_map(|it| it.to_str().ok())
        .flat_map(|it| it.split(','))
        .filter_map(|word| word.trim().parse().ok())
        .collect();
    for name in named {
        headers.remove(name);
    }
    let known = [CONNECTION, KEEP_ALIVE, PROXY_CONNECTION, TE, TRAILER, TRANSFER_ENCODING, UPGRADE];
    for name in known {
        headers.remove(name);
    }
}

/// Tells the replica which client asked, and how.
pub fn add_forwarded(headers: &mut HeaderMap, client: IpAddr, is_tls: bool) {
    let client = match headers.get(&FORWARDED_FOR).and_then(|it| it.to_str().ok()) {
        Some(before) => format!("{before}, {client}"),
        None => client.to_string(),
    };
    if let Ok(client) = HeaderValue::from_str(&client) {
        headers.insert(FORWARDED_FOR, client);
    }
    let scheme = HeaderValue::from_static(if is_tls { "https" } else { "http" });
    headers.insert(FORWARDED_PROTO, scheme);
    if let Some(host) = headers.get(HOST).cloned() {
        headers.insert(FORWARDED_HOST, host);
    }
}

/// Asks the replica to switch to another protocol.
pub fn set_upgrade(headers: &mut HeaderMap, protocol: HeaderValue) {
    headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
    headers.insert(UPGRADE, protocol);
}
