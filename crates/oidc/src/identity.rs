//! ID tokens, and the user that a valid one names.

use jsonwebtoken::jwk::{Jwk, JwkSet, PublicKeyUse};
use jsonwebtoken::{Algorithm, DecodingKey, Validation, decode, decode_header};
use serde_json::{Map, Value};

use crate::Error;
use crate::settings::Settings;

/// A clock may differ by this many seconds from the provider's.
const LEEWAY_S: f64 = 60.0;
/// The algorithms of signatures with a public key. A token without a signature, or with one by a
/// shared secret, is not valid.
const ALGORITHMS: [Algorithm; 9] = [
    Algorithm::RS256,
    Algorithm::RS384,
    Algorithm::RS512,
    Algorithm::PS256,
    Algorithm::PS384,
    Algorithm::PS512,
    Algorithm::ES256,
    Algorithm::ES384,
    Algorithm::EdDSA,
];

/// A signed-in user, as the provider describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// The address of the provider.
    pub issuer: String,
    /// The ID of the user at this provider, which never changes.
    pub subject: String,
    /// The name, from the claim of the settings.
    pub name: String,
    /// The groups, from the claim of the settings; empty without such a claim.
    pub groups: Vec<String>,
}

impl Identity {
    pub(crate) fn new(
        claims: &Map<String, Value>,
        issuer: &str,
        settings: &Settings,
    ) -> Result<Self, Error> {
        let name = claims.get(&settings.name_claim).and_then(Value::as_str);
        let Some(name) = name.filter(|name| !name.is_empty()) else {
            return Err(Error::NoName { claim: settings.name_claim.clone() });
        };
        let groups = match claims.get(&settings.groups_claim) {
            Some(Value::String(group)) => vec![group.clone()],
            Some(Value::Array(groups)) => {
                groups.iter().filter_map(|group| group.as_str().map(str::to_owned)).collect()
            }
            _ => Vec::new(),
        };
        Ok(Self {
            issuer: issuer.to_owned(),
            subject: subject(claims)?.to_owned(),
            name: name.to_owned(),
            groups,
        })
    }
}

/// What a token must say.
#[derive(Debug, Clone, Copy)]
pub struct Expected<'a> {
    pub issuer: &'a str,
    pub client_id: &'a str,
    /// In the code flow, the nonce of the attempt.
    pub nonce: Option<&'a str>,
    /// In seconds since 1970.
    pub now: u64,
}

/// Whether there is a key for the token.
pub fn has_key(token: &str, keys: &JwkSet) -> Result<bool, Error> {
    Ok(candidates(token, keys)?.next().is_some())
}

/// The keys that could have signed the token: the one that it names, else each one for signatures.
fn candidates<'k>(token: &str, keys: &'k JwkSet) -> Result<impl Iterator<Item = &'k Jwk>, Error> {
    let header = decode_header(token).map_err(invalid)?;
    let is_for_signatures =
        |key: &&Jwk| !matches!(key.common.public_key_use, Some(PublicKeyUse::Encryption));
    let is_named = move |key: &&Jwk| header.kid.is_none() || key.common.key_id == header.kid;
    Ok(keys.keys.iter().filter(is_for_signatures).filter(is_named))
}

/// The claims of a valid token.
///
/// Source: OpenID Connect Core 1.0, section 3.1.3.7.
pub fn checked(
    token: &str,
    keys: &JwkSet,
    expected: Expected<'_>,
) -> Result<Map<String, Value>, Error> {
    let claims = signed(token, keys, expected)?;
    let wrong = |why: &str| Err(Error::Token { why: why.to_owned() });
    // RFC 7519, section 2: a number of seconds, which may have decimals.
    let time = |name: &str| match claims.get(name) {
        None => Ok(None),
        Some(value) => match value.as_f64() {
            Some(seconds) => Ok(Some(seconds)),
            None => Err(Error::Token { why: format!("its {name} is no number") }),
        },
    };
    let text = |name: &str| claims.get(name).and_then(Value::as_str);
    let Expected { issuer, client_id, nonce, now } = expected;
    let now = now as f64;
    let (expires, issued, begins) = (time("exp")?, time("iat")?, time("nbf")?);
    if expires.is_none_or(|at| at + LEEWAY_S <= now) {
        return wrong("it has expired: compare the clocks of both machines");
    }
    if [issued, begins].into_iter().flatten().any(|at| at > now + LEEWAY_S) {
        return wrong("it is not valid yet: compare the clocks of both machines");
    }
    // A list would be accepted for one of its elements.
    if text("iss") != Some(issuer) {
        return wrong("it was made by another provider");
    }
    if text("azp").is_some_and(|party| party != client_id) {
        return wrong("it was made for another program");
    }
    if nonce.is_some() && text("nonce") != nonce {
        return wrong("it belongs to another sign-in");
    }
    subject(&claims)?;
    Ok(claims)
}

/// The claims of a token with a valid signature, issuer and audience.
fn signed(token: &str, keys: &JwkSet, expected: Expected<'_>) -> Result<Map<String, Value>, Error> {
    let header = decode_header(token).map_err(invalid)?;
    if !ALGORITHMS.contains(&header.alg) {
        return Err(Error::Token { why: format!("{:?} signatures are not accepted", header.alg) });
    }
    // RFC 7515, section 4.1.11: none of these extensions is known here.
    if header.crit.is_some() {
        return Err(Error::Token { why: "it needs an extension of signatures".to_owned() });
    }
    let mut validation = Validation::new(header.alg);
    validation.set_issuer(&[expected.issuer]);
    validation.set_audience(&[expected.client_id]);
    validation.set_required_spec_claims(&["exp", "iss", "aud", "sub"]);
    // The caller's clock decides, not the system's.
    validation.validate_exp = false;
    let mut last = Error::Token { why: "the provider has no such key".to_owned() };
    for key in candidates(token, keys)? {
        let key = DecodingKey::from_jwk(key).map_err(invalid)?;
        match decode::<Map<String, Value>>(token, &key, &validation) {
            Ok(data) => return Ok(data.claims),
            Err(error) => last = invalid(error),
        }
    }
    Err(last)
}

/// Adds the claims of the userinfo endpoint.
///
/// Source: OpenID Connect Core 1.0, section 5.3.2: both must name the same user.
pub fn complete(claims: &mut Map<String, Value>, more: Map<String, Value>) -> Result<(), Error> {
    if subject(&more)? != subject(claims)? {
        return Err(Error::Token { why: "it names another user than the provider".to_owned() });
    }
    for (name, value) in more {
        claims.entry(name).or_insert(value);
    }
    Ok(())
}

fn subject(claims: &Map<String, Value>) -> Result<&str, Error> {
    let subject = claims.get("sub").and_then(Value::as_str).filter(|it| !it.is_empty());
    subject.ok_or_else(|| Error::Token { why: "it names no user".to_owned() })
}

#[allow(clippy::needless_pass_by_value)] // The shape that `map_err` calls.
fn invalid(error: jsonwebtoken::errors::Error) -> Error {
    Error::Token { why: error.to_string() }
}
