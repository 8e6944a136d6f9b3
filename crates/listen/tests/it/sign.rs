//! How the receiver of a message knows that it is the server's: a key for each user, made from one
//! that never leaves the state folder, so that no user can sign in the name of another.

use std::os::unix::fs::MetadataExt as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use gpool_listen::testing::{KEY_FILE, Keys};
use ring::hmac;

#[test]
fn keys_last_and_are_their_owners() {
    let dir = tempfile::tempdir().expect("there is room");
    let first = Keys::open(dir.path()).expect("it is made");
    let again = Keys::open(dir.path()).expect("it is there");
    assert_eq!(first.secret(1000), again.secret(1000));
    assert_ne!(first.secret(1000), first.secret(1001));
    let mode = dir.path().join(KEY_FILE).metadata().expect("it is there").mode() & 0o777;
    assert_eq!(mode, 0o600);
    std::fs::write(dir.path().join(KEY_FILE), "short").expect("there is room");
    assert!(Keys::open(dir.path()).is_err());
}

#[test]
fn signatures_are_those_of_standard_webhooks() {
    let dir = tempfile::tempdir().expect("there is room");
    let keys = Keys::open(dir.path()).expect("it is made");
    let secret = keys.secret(7);
    let secret = STANDARD.decode(secret.trim_start_matches("whsec_")).expect("base64");
    let key = hmac::Key::new(hmac::HMAC_SHA256, &secret);
    let expected = hmac::sign(&key, b"msg_1.1700000000.{}");
    let expected = format!("v1,{}", STANDARD.encode(expected.as_ref()));
    assert_eq!(keys.sign(7, "msg_1", "1700000000", b"{}"), expected);
}
