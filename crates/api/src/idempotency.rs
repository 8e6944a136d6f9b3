//! Idempotency keys of requests.

use axum::http::HeaderMap;
use gpool_model::Refusal;
use gpool_model::command::RequestKey;
use gpool_model::record::IdempotencyRecord;
use gpool_wire::IDEMPOTENCY_KEY;

use super::asker::Asker;
use super::extract::header;
use gpool_server::handle::CoreHandle;

/// Maximum length of an idempotency key in bytes.
const KEY_MAX: usize = 255;

/// Returns the idempotency key of a request, if it has one.
pub(crate) fn key_name(headers: &HeaderMap) -> Result<Option<&str>, Refusal> {
    if !headers.contains_key(IDEMPOTENCY_KEY) {
        return Ok(None);
    }
    let key =
        header(headers, IDEMPOTENCY_KEY).filter(|key| !key.is_empty() && key.len() <= KEY_MAX);
    let why = || format!("it is 1 to {KEY_MAX} printable ASCII characters, new for each request");
    let refusal = || Refusal::Invalid { field: "Idempotency-Key".to_owned(), why: why() };
    key.map(Some).ok_or_else(refusal)
}

/// Whether the caller has sent a request with this key before: it is answered, and changes nothing.
pub(crate) async fn is_repeated(
    handle: &CoreHandle,
    asker: &Asker,
    key: Option<&str>,
) -> Result<bool, Refusal> {
    let Some(key) = key else { return Ok(false) };
    let key = IdempotencyRecord::key_of(asker.caller.owner.uid, key);
    handle.query(move |view| view.world.request(&key).is_some()).await
}

/// Returns a key with the digest of its request.
pub(crate) fn key(name: &str, digest: blake3::Hash) -> RequestKey {
    RequestKey { name: name.to_owned(), digest: digest.to_hex().to_string() }
}
