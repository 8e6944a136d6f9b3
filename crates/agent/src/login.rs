//! The login for the registry of an image, from a secret: `USER:PASSWORD`, or the content of an
//! `auth.json`.
//!
//! Source: containers-auth.json(5).

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use gpool_model::launch::Lack;
use gpool_shepherd::container::TaskEngine;
use serde_json::{Value, json};

/// The registry of images without one in their names, as engines name it in their files.
const USUAL_REGISTRY: [&str; 2] = ["docker.io", "https://index.docker.io/v1/"];

/// A login for a registry.
pub(crate) struct Login {
    /// The name of the secret.
    name: String,
    value: Vec<u8>,
}

impl Login {
    pub(crate) fn new(name: &str, value: &[u8]) -> Self {
        let value = value.trim_ascii().to_vec();
        Self { name: name.to_owned(), value }
    }

    /// Why a pull of this engine can't use it, if that is so.
    pub(crate) fn fault(&self, engine: &TaskEngine) -> Option<Lack> {
        if !engine.limits_by_flags() {
            let kind = engine.kind.as_str();
            let why = format!("--image-login works with podman and docker, and it has {kind}");
            return Some(Lack::Engine(why));
        }
        (!self.is_file() && !self.value.contains(&b':')).then(|| {
            Lack::Secret(format!(
                "the secret {} for its registry is neither USER:PASSWORD nor an auth.json",
                self.name
            ))
        })
    }

    fn is_file(&self) -> bool {
        let value: Option<Value> = serde_json::from_slice(&self.value).ok();
        value.is_some_and(|value| value["auths"].is_object())
    }

    /// The content of the file that engines read.
    pub(crate) fn file(&self, image: &str) -> Vec<u8> {
        if self.is_file() {
            return self.value.clone();
        }
        let login = json!({ "auth": BASE64_STANDARD.encode(&self.value) });
        let auths: serde_json::Map<String, Value> =
            registries(image).into_iter().map(|it| (it.to_owned(), login.clone())).collect();
        json!({ "auths": auths }).to_string().into_bytes()
    }
}

/// The registry of an image, by the names that it may have in a file of logins.
fn registries(image: &str) -> Vec<&str> {
    let image = image.strip_prefix("docker://").unwrap_or(image);
    let is_host = |part: &&str| part.contains(['.', ':']) || *part == "localhost";
    match image.split_once('/').map(|(first, _)| first).filter(is_host) {
        Some(host) if host != USUAL_REGISTRY[0] => vec![host],
        _ => USUAL_REGISTRY.to_vec(),
    }
}
