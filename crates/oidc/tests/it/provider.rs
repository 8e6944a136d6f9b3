//! A provider in memory.

use std::cell::RefCell;
use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use gpool_oidc::{
    Attempt, Callback, Error, Identity, Provider, ProviderRequest, ProviderResponse, Secrets,
    Settings,
};
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _};
use serde_json::{Value, json};

pub const ISSUER: &str = "https://id.example";
pub const NOW: u64 = 1_800_000_000;
pub const REDIRECT: &str = "http://127.0.0.1:7443/callback";

/// A key of the provider.
pub struct Key {
    pair: EcdsaKeyPair,
    pub id: &'static str,
}

impl Key {
    pub fn new(id: &'static str) -> Self {
        let (kind, random) = (&ECDSA_P256_SHA256_FIXED_SIGNING, SystemRandom::new());
        let document = EcdsaKeyPair::generate_pkcs8(kind, &random).unwrap();
        Self { pair: EcdsaKeyPair::from_pkcs8(kind, document.as_ref(), &random).unwrap(), id }
    }

    pub fn public(&self) -> &[u8] {
        self.pair.public_key().as_ref()
    }

    pub fn jwk(&self) -> Value {
        let (x, y) = self.public()[1..].split_at(32);
        let [x, y] = [x, y].map(|it| URL_SAFE_NO_PAD.encode(it));
        json!({"kty": "EC", "crv": "P-256", "kid": self.id, "use": "sig", "x": x, "y": y})
    }

    pub fn sign(&self, header: &Value, claims: &Value) -> String {
        let message = unsigned(header, claims);
        let signature = self.pair.sign(&SystemRandom::new(), message.as_bytes()).unwrap();
        format!("{message}.{}", URL_SAFE_NO_PAD.encode(signature))
    }

    pub fn token(&self, claims: &Value) -> String {
        self.sign(&json!({"alg": "ES256", "kid": self.id}), claims)
    }
}

pub fn unsigned(header: &Value, claims: &Value) -> String {
    let [header, claims] = [header, claims].map(|it| URL_SAFE_NO_PAD.encode(it.to_string()));
    format!("{header}.{claims}")
}

/// Answers by address, and the requests that came.
pub struct Fake {
    answers: RefCell<BTreeMap<String, (u16, String)>>,
    pub requests: RefCell<Vec<ProviderRequest>>,
}

impl Fake {
    pub fn new(key: &Key) -> Self {
        let fake = Self { answers: RefCell::default(), requests: RefCell::default() };
        fake.answers("/.well-known/openid-configuration", 200, &metadata());
        fake.answers("/keys", 200, &json!({"keys": [key.jwk()]}));
        fake
    }

    pub fn answers(&self, path: &str, status: u16, body: &Value) {
        self.says(path, status, &body.to_string());
    }

    pub fn says(&self, path: &str, status: u16, body: &str) {
        self.answers.borrow_mut().insert(format!("{ISSUER}{path}"), (status, body.to_owned()));
    }

    /// Sends a successful answer of the token endpoint.
    pub fn gives(&self, token: &str) {
        self.answers("/token", 200, &json!({"access_token": "access", "id_token": token}));
    }

    pub fn fetch(&self, request: &ProviderRequest) -> Result<ProviderResponse, String> {
        self.requests.borrow_mut().push(request.clone());
        let answers = self.answers.borrow();
        let (status, body) = answers.get(&request.url).ok_or("connection refused")?;
        Ok(ProviderResponse { status: *status, body: body.clone().into_bytes() })
    }

    pub fn provider(&self) -> Provider {
        Provider::discover(settings(), &|request| self.fetch(request)).unwrap()
    }

    /// A sign-in with the claims of [`claims`], changed.
    pub fn signs_in(&self, key: &Key, change: impl FnOnce(&mut Value)) -> Result<Identity, Error> {
        let mut provider = self.provider();
        let attempt = provider.start(REDIRECT, &SECRETS);
        let mut claims = claims(&attempt);
        change(&mut claims);
        self.gives(&key.token(&claims));
        provider.finish(&attempt, &callback(&attempt), &|request| self.fetch(request), NOW)
    }
}

pub const SECRETS: Secrets = Secrets { state: [1; 32], nonce: [2; 32], verifier: [3; 32] };

pub fn settings() -> Settings {
    Settings {
        issuer: ISSUER.to_owned(),
        client_id: "gpool".to_owned(),
        client_secret: None,
        scopes: vec!["profile".to_owned(), "groups".to_owned()],
        name_claim: "preferred_username".to_owned(),
        groups_claim: "groups".to_owned(),
    }
}

pub fn metadata() -> Value {
    json!({
        "issuer": ISSUER,
        "authorization_endpoint": format!("{ISSUER}/authorize"),
        "token_endpoint": format!("{ISSUER}/token"),
        "jwks_uri": format!("{ISSUER}/keys"),
        "userinfo_endpoint": format!("{ISSUER}/userinfo"),
        "device_authorization_endpoint": format!("{ISSUER}/device"),
        "authorization_response_iss_parameter_supported": true,
    })
}

/// A parameter of the address for the browser.
pub fn parameter(attempt: &Attempt, name: &str) -> String {
    let query = attempt.url.split_once('?').unwrap().1;
    let mut pairs = form_urlencoded::parse(query.as_bytes());
    pairs.find(|(key, _)| key == name).unwrap().1.into_owned()
}

pub fn claims(attempt: &Attempt) -> Value {
    json!({
        "iss": ISSUER,
        "aud": "gpool",
        "sub": "248289761001",
        "exp": NOW + 300,
        "iat": NOW,
        "nonce": parameter(attempt, "nonce"),
        "preferred_username": "ana",
        "groups": ["vision", "admins"],
    })
}

pub fn callback(attempt: &Attempt) -> Callback {
    Callback {
        code: Some("code".to_owned()),
        state: Some(attempt.state.clone()),
        iss: Some(ISSUER.to_owned()),
        ..Callback::default()
    }
}
