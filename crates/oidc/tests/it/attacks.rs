//! Answers that must not sign a user in.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use gpool_oidc::{Callback, Error, Provider};
use proptest::prelude::*;
use ring::hmac;
use serde_json::{Value, json};

use crate::provider::{
    Fake, ISSUER, Key, NOW, REDIRECT, SECRETS, callback, claims, metadata, settings, unsigned,
};

#[test]
fn an_answer_of_another_sign_in_is_refused() {
    let key = Key::new("one");
    let fake = Fake::new(&key);
    let mut provider = fake.provider();
    let attempt = provider.start(REDIRECT, &SECRETS);
    fake.gives(&key.token(&claims(&attempt)));
    let good = callback(&attempt);
    let other = |text: &str| Some(text.to_owned());
    let bad = [
        Callback { state: None, ..good.clone() },
        Callback { state: other("forged"), ..good.clone() },
        Callback { iss: None, ..good.clone() },
        Callback { iss: other("https://evil.example"), ..good.clone() },
        Callback { code: None, ..good.clone() },
    ];
    for callback in bad {
        let refused = provider.finish(&attempt, &callback, &|it| fake.fetch(it), NOW).unwrap_err();
        assert_eq!(refused, Error::OtherAttempt, "{callback:?}");
    }
    let refused = Callback { error: other("access_denied"), ..good };
    let refused = provider.finish(&attempt, &refused, &|it| fake.fetch(it), NOW).unwrap_err();
    assert!(matches!(refused, Error::Refused { .. }));
}

#[test]
fn a_token_for_something_else_is_refused() {
    let key = Key::new("one");
    let fake = Fake::new(&key);
    let changes: [(&str, Value); 15] = [
        ("aud", json!("another")),
        ("aud", json!(["another", "third"])),
        ("iss", json!("https://evil.example")),
        ("azp", json!("another")),
        ("nonce", json!("replayed")),
        ("nonce", Value::Null),
        ("exp", json!(NOW - 61)),
        ("exp", Value::Null),
        ("iss", json!([ISSUER])),
        ("nbf", json!(NOW + 61)),
        ("nbf", json!(NOW as f64 + 61.5)),
        ("nbf", json!("tomorrow")),
        ("iat", json!((NOW + 61).to_string())),
        ("iat", json!(NOW + 61)),
        ("sub", json!("")),
    ];
    for (claim, value) in changes {
        let signed = fake.signs_in(&key, |claims| claims[claim] = value.clone());
        assert!(matches!(signed, Err(Error::Token { .. })), "{claim} {value}: {signed:?}");
    }
    assert!(fake.signs_in(&key, |claims| claims["exp"] = json!(NOW - 59)).is_ok());
    assert!(fake.signs_in(&key, |claims| claims["exp"] = json!(NOW as f64 - 59.5)).is_ok());
    assert!(fake.signs_in(&key, |claims| claims["aud"] = json!(["gpool", "other"])).is_ok());
}

#[test]
fn a_token_without_a_good_signature_is_refused() {
    let key = Key::new("one");
    let fake = Fake::new(&key);
    let mut provider = fake.provider();
    let attempt = provider.start(REDIRECT, &SECRETS);
    let claims = claims(&attempt);
    let by_secret = |secret: &[u8]| {
        let message = unsigned(&json!({"alg": "HS256", "kid": "one"}), &claims);
        let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, secret), message.as_bytes());
        format!("{message}.{}", URL_SAFE_NO_PAD.encode(tag))
    };
    let good = key.token(&claims);
    let mut forged = claims.clone();
    forged["preferred_username"] = json!("root");
    let signature = good.rsplit('.').next().unwrap();
    let tokens = [
        format!("{}.", unsigned(&json!({"alg": "none"}), &claims)),
        by_secret(b"gpool"),
        by_secret(key.public()),
        Key::new("one").token(&claims),
        format!("{}.{signature}", unsigned(&json!({"alg": "ES256", "kid": "one"}), &forged)),
        key.sign(&json!({"alg": "RS256", "kid": "one"}), &claims),
        key.sign(&json!({"alg": "ES384", "kid": "one"}), &claims),
        key.sign(&json!({"alg": "ES256", "kid": "one", "crit": ["b64"], "b64": false}), &claims),
        "not a token".to_owned(),
        String::new(),
    ];
    for token in tokens {
        fake.gives(&token);
        let done = provider.finish(&attempt, &callback(&attempt), &|it| fake.fetch(it), NOW);
        assert!(matches!(done, Err(Error::Token { .. })), "{token}: {done:?}");
    }
    // A key for encryption signs nothing.
    let mut jwk = key.jwk();
    jwk["use"] = json!("enc");
    fake.answers("/keys", 200, &json!({"keys": [jwk]}));
    assert!(matches!(fake.signs_in(&key, |_| ()), Err(Error::Token { .. })));
}

#[test]
fn a_provider_must_be_the_one_of_the_settings_and_secure() {
    let key = Key::new("one");
    let fake = Fake::new(&key);
    let discover = |issuer: &str| {
        let mut settings = settings();
        issuer.clone_into(&mut settings.issuer);
        Provider::discover(settings, &|request| fake.fetch(request)).map(drop)
    };
    for issuer in ["http://id.example", "http://127.0.0.1@id.example", "http://localhost.example"] {
        assert!(matches!(discover(issuer), Err(Error::Insecure { .. })), "{issuer}");
    }
    for issuer in ["http://127.0.0.1:9", "http://localhost", "http://[::1]:9/a"] {
        assert!(matches!(discover(issuer), Err(Error::Unreachable { .. })), "{issuer}");
    }
    let described = |key: &str, value: &str| {
        let mut described = metadata();
        described[key] = json!(value);
        fake.answers("/.well-known/openid-configuration", 200, &described);
        discover(crate::provider::ISSUER)
    };
    let other = described("issuer", "https://evil.example");
    assert!(matches!(other, Err(Error::OtherIssuer { .. })));
    let insecure = described("token_endpoint", "http://id.example/token");
    assert!(matches!(insecure, Err(Error::Insecure { .. })));
    fake.says("/.well-known/openid-configuration", 200, "<html>");
    assert!(matches!(discover(crate::provider::ISSUER), Err(Error::Answer { .. })));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn a_damaged_token_is_refused(at in 0_usize..400, byte in any::<u8>()) {
        let key = Key::new("one");
        let fake = Fake::new(&key);
        let mut provider = fake.provider();
        let attempt = provider.start(REDIRECT, &SECRETS);
        let good = key.token(&claims(&attempt));
        let mut bytes = good.clone().into_bytes();
        let at = at % bytes.len();
        bytes[at] = byte % 128;
        let token = String::from_utf8(bytes).unwrap();
        fake.gives(&token);
        let done = provider.finish(&attempt, &callback(&attempt), &|it| fake.fetch(it), NOW);
        // The last character has bits that no decoder reads.
        prop_assert!(token == good || done.is_err() || at == good.len() - 1, "{}", token);
    }
}
