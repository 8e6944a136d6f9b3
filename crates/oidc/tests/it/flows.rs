//! Sign-ins that succeed or wait.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use gpool_oidc::{Error, Poll, Provider};
use ring::digest::{SHA256, digest};
use serde_json::json;

use crate::provider::{
    Fake, ISSUER, Key, NOW, REDIRECT, SECRETS, callback, claims, metadata, parameter, settings,
};

fn form(text: Option<&String>) -> Vec<(String, String)> {
    form_urlencoded::parse(text.unwrap().as_bytes()).into_owned().collect()
}

fn value<'a>(form: &'a [(String, String)], name: &str) -> &'a str {
    &form.iter().find(|(key, _)| key == name).unwrap().1
}

#[test]
fn a_browser_signs_in() {
    let key = Key::new("one");
    let fake = Fake::new(&key);
    let mut provider = fake.provider();
    let attempt = provider.start(REDIRECT, &SECRETS);
    assert!(attempt.url.starts_with(&format!("{ISSUER}/authorize?")), "{}", attempt.url);
    assert_eq!(parameter(&attempt, "response_type"), "code");
    assert_eq!(parameter(&attempt, "redirect_uri"), REDIRECT);
    assert_eq!(parameter(&attempt, "scope"), "openid profile groups");
    assert_eq!(parameter(&attempt, "code_challenge_method"), "S256");

    fake.gives(&key.token(&claims(&attempt)));
    let identity =
        provider.finish(&attempt, &callback(&attempt), &|request| fake.fetch(request), NOW);
    let identity = identity.unwrap();
    assert_eq!((identity.name.as_str(), identity.subject.as_str()), ("ana", "248289761001"));
    assert_eq!(identity.groups, ["vision", "admins"]);

    let requests = fake.requests.borrow();
    let sent = form(requests.last().unwrap().form.as_ref());
    assert_eq!(value(&sent, "client_id"), "gpool");
    assert_eq!(value(&sent, "redirect_uri"), REDIRECT);
    let challenge =
        URL_SAFE_NO_PAD.encode(digest(&SHA256, value(&sent, "code_verifier").as_bytes()));
    assert_eq!(challenge, parameter(&attempt, "code_challenge"));
}

#[test]
fn a_provider_that_does_not_know_the_redirect_address_is_noticed_before_the_browser_leaves() {
    let key = Key::new("one");
    let fake = Fake::new(&key);
    let provider = fake.provider();
    let attempt = provider.start(REDIRECT, &SECRETS);
    let check = || provider.check(&attempt, &|request| fake.fetch(request));
    // Only browsers reach it, or it shows its form.
    assert_eq!(check(), Ok(()));
    let path = attempt.url.strip_prefix(ISSUER).unwrap();
    for status in [200, 302, 303, 500] {
        fake.says(path, status, "");
        assert_eq!(check(), Ok(()), "{status}");
    }
    fake.says(path, 400, "redirect_uri did not match");
    let error = check().unwrap_err().to_string();
    assert!(error.contains(REDIRECT) && error.contains("\"gpool\""), "{error}");
}

#[test]
fn a_secret_is_proved_in_the_way_that_the_provider_takes() {
    let key = Key::new("one");
    let fake = Fake::new(&key);
    for (methods, in_form) in [
        (json!(null), false),
        (json!(["client_secret_basic", "client_secret_post"]), false),
        (json!(["client_secret_post"]), true),
    ] {
        let mut described = metadata();
        described["token_endpoint_auth_methods_supported"] = methods;
        fake.answers("/.well-known/openid-configuration", 200, &described);
        let mut settings = settings();
        settings.client_secret = Some("a:b c".to_owned());
        let mut provider = Provider::discover(settings, &|request| fake.fetch(request)).unwrap();
        let attempt = provider.start(REDIRECT, &SECRETS);
        fake.gives(&key.token(&claims(&attempt)));
        provider
            .finish(&attempt, &callback(&attempt), &|request| fake.fetch(request), NOW)
            .unwrap();
        let requests = fake.requests.borrow();
        let sent = requests.last().unwrap();
        let fields = form(sent.form.as_ref());
        let basic = format!("Basic {}", STANDARD.encode("gpool:a%3Ab+c"));
        assert_eq!(sent.authorization, (!in_form).then_some(basic));
        assert_eq!(fields.iter().any(|(name, _)| name == "client_secret"), in_form);
    }
}

#[test]
fn a_replaced_key_is_fetched() {
    let (old, new) = (Key::new("old"), Key::new("new"));
    let fake = Fake::new(&old);
    let mut provider = fake.provider();
    let attempt = provider.start(REDIRECT, &SECRETS);
    fake.gives(&new.token(&claims(&attempt)));
    let fetch = |request: &_| fake.fetch(request);
    let finish =
        |provider: &mut Provider| provider.finish(&attempt, &callback(&attempt), &fetch, NOW);
    let refused = finish(&mut provider).unwrap_err();
    assert!(refused.to_string().contains("no such key"), "{refused}");
    fake.answers("/keys", 200, &json!({"keys": [old.jwk(), new.jwk()]}));
    assert!(provider.take_new_keys());
    assert_eq!(finish(&mut provider).unwrap().name, "ana");
    assert!(provider.take_new_keys() && !provider.take_new_keys());
    // A key that the provider has removed since is gone with the next answer.
    fake.answers("/keys", 200, &json!({"keys": [new.jwk()]}));
    fake.gives(&Key::new("third").token(&claims(&attempt)));
    finish(&mut provider).unwrap_err();
    assert!(provider.take_new_keys());
    fake.gives(&old.token(&claims(&attempt)));
    assert!(finish(&mut provider).unwrap_err().to_string().contains("no such key"));
}

#[test]
fn claims_come_from_the_userinfo_endpoint_too() {
    let key = Key::new("one");
    let fake = Fake::new(&key);
    let bare = |claims: &mut serde_json::Value| {
        let claims = claims.as_object_mut().unwrap();
        claims.remove("groups");
        claims.remove("preferred_username");
    };
    let more = json!({"sub": "248289761001", "preferred_username": "bo", "groups": "vision"});
    fake.answers("/userinfo", 200, &more);
    let identity = fake.signs_in(&key, bare).unwrap();
    assert_eq!((identity.name.as_str(), identity.groups), ("bo", vec!["vision".to_owned()]));
    let sent = fake.requests.borrow().last().unwrap().authorization.clone();
    assert_eq!(sent.as_deref(), Some("Bearer access"));

    fake.answers("/userinfo", 200, &json!({"sub": "another", "preferred_username": "root"}));
    assert!(matches!(fake.signs_in(&key, bare), Err(Error::Token { .. })));
    fake.answers("/userinfo", 200, &json!({"sub": "248289761001"}));
    assert!(matches!(fake.signs_in(&key, bare), Err(Error::NoName { .. })));
}

#[test]
fn a_command_line_signs_in_by_a_code() {
    let key = Key::new("one");
    let fake = Fake::new(&key);
    let mut provider = fake.provider();
    let fetch = |request: &_| fake.fetch(request);
    fake.answers(
        "/device",
        200,
        &json!({"device_code": "d", "user_code": "ABCD-EFGH", "expires_in": 600,
                "verification_uri": format!("{ISSUER}/enter")}),
    );
    let device = provider.start_device(&fetch).unwrap();
    assert_eq!((device.user_code.as_str(), device.interval), ("ABCD-EFGH", 5));

    for (error, expected) in
        [("authorization_pending", Poll::Pending), ("slow_down", Poll::SlowDown)]
    {
        fake.answers("/token", 400, &json!({"error": error}));
        assert_eq!(provider.poll_device(&device, &fetch, NOW).unwrap(), expected);
    }
    for error in ["access_denied", "expired_token"] {
        fake.answers("/token", 400, &json!({"error": error, "error_description": "no"}));
        let refused = provider.poll_device(&device, &fetch, NOW).unwrap_err();
        assert!(matches!(&refused, Error::Refused { error: found, .. } if found == error));
    }
    let mut claims = claims(&provider.start(REDIRECT, &SECRETS));
    claims.as_object_mut().unwrap().remove("nonce");
    fake.gives(&key.token(&claims));
    match provider.poll_device(&device, &fetch, NOW).unwrap() {
        Poll::Done(identity) => assert_eq!(identity.name, "ana"),
        other => panic!("{other:?}"),
    }

    let mut described = metadata();
    described.as_object_mut().unwrap().remove("device_authorization_endpoint");
    fake.answers("/.well-known/openid-configuration", 200, &described);
    assert!(matches!(fake.provider().start_device(&fetch), Err(Error::NoDeviceFlow)));
}
