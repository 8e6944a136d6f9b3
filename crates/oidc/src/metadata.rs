//! The description of a provider.
//!
//! Source: OpenID Connect Discovery 1.0, section 3; RFC 8414.

use serde::Deserialize;

use crate::Error;
use crate::fetch::{self, Fetch, ProviderRequest};

#[derive(Debug, Clone, Deserialize)]
pub struct Metadata {
    pub issuer: String,
    pub authorization_endpoint: String,
    pub token_endpoint: String,
    pub jwks_uri: String,
    pub userinfo_endpoint: Option<String>,
    pub device_authorization_endpoint: Option<String>,
    /// `client_secret_basic` where it is absent.
    pub token_endpoint_auth_methods_supported: Option<Vec<String>>,
    #[serde(default)]
    pub authorization_response_iss_parameter_supported: bool,
}

impl Metadata {
    /// Asks the issuer for its description.
    pub fn discover(issuer: &str, fetch: &Fetch<'_>) -> Result<Self, Error> {
        let at = format!("{}/.well-known/openid-configuration", issuer.trim_end_matches('/'));
        check(&at)?;
        let metadata: Self = fetch::json(fetch, &ProviderRequest::get(&at))?;
        if metadata.issuer.trim_end_matches('/') != issuer.trim_end_matches('/') {
            let (expected, found) = (issuer.to_owned(), metadata.issuer);
            return Err(Error::OtherIssuer { expected, found });
        }
        let optional = [&metadata.userinfo_endpoint, &metadata.device_authorization_endpoint];
        let always =
            [&metadata.authorization_endpoint, &metadata.token_endpoint, &metadata.jwks_uri];
        always.into_iter().chain(optional.into_iter().flatten()).try_for_each(|url| check(url))?;
        Ok(metadata)
    }

    /// Whether a secret belongs into the form instead of the header.
    pub fn secret_in_form(&self) -> bool {
        let methods = self.token_endpoint_auth_methods_supported.as_deref().unwrap_or_default();
        let has = |name: &str| methods.iter().any(|method| method == name);
        has("client_secret_post") && !has("client_secret_basic")
    }
}

/// Codes and tokens go to these addresses.
fn check(url: &str) -> Result<(), Error> {
    match is_secure(url) {
        true => Ok(()),
        false => Err(Error::Insecure { url: url.to_owned() }),
    }
}

fn is_secure(url: &str) -> bool {
    let Some(rest) = url.strip_prefix("http://") else { return url.starts_with("https://") };
    let authority = rest.split(['/', '?', '#', '\\']).next().unwrap_or_default();
    // A user part could hide the real host.
    let host = match authority.strip_prefix('[') {
        Some(v6) => v6.split(']').next(),
        None => authority.split(':').next(),
    };
    !authority.contains('@') && matches!(host, Some("127.0.0.1" | "localhost" | "::1"))
}
