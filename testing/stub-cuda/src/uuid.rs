//! The UUIDs of devices as bytes.

/// The bytes of `GPU-8-4-4-4-12`. Short names of tests are used as they are.
pub(crate) fn uuid_bytes(uuid: &str) -> [u8; 16] {
    let text = uuid.strip_prefix("GPU-").unwrap_or(uuid);
    let digits: Vec<u8> = text.bytes().filter(|byte| *byte != b'-').collect();
    let hex = |pair: &[u8]| {
        let pair = std::str::from_utf8(pair).ok()?;
        u8::from_str_radix(pair, 16).ok()
    };
    let parsed: Option<Vec<u8>> = digits.chunks(2).map(hex).collect();
    if let Some(Ok(bytes)) = parsed.filter(|_| digits.len() == 32).map(<[u8; 16]>::try_from) {
        return bytes;
    }
    let mut bytes = [0; 16];
    for (to, from) in bytes.iter_mut().zip(text.bytes()) {
        *to = from;
    }
    bytes
}
