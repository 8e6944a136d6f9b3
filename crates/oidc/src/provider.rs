//! A provider with its keys.

use jsonwebtoken::jwk::JwkSet;
use serde::Deserialize;

use crate::fetch::{self, Client, Fetch, ProviderRequest};
use crate::identity::{self, Expected, Identity};
use crate::metadata::Metadata;
use crate::settings::Settings;
use crate::{Error, verifier};

/// A provider with its description and keys.
#[derive(Clone)]
pub struct Provider {
    pub(crate) settings: Settings,
    pub(crate) metadata: Metadata,
    keys: JwkSet,
    /// Whether a token had a new key, so that the keys were fetched again.
    has_new_keys: bool,
}

/// A successful answer of the token endpoint.
#[derive(Debug, Deserialize)]
pub(crate) struct Tokens {
    access_token: String,
    id_token: Option<String>,
}

impl Provider {
    /// Asks the provider for its description and keys.
    ///
    /// # Errors
    /// It does not answer, its answer is not valid, or an address is not secure.
    pub fn discover(settings: Settings, fetch: &Fetch<'_>) -> Result<Self, Error> {
        verifier::install();
        let metadata = Metadata::discover(&settings.issuer, fetch)?;
        let keys = fetch::json(fetch, &ProviderRequest::get(&metadata.jwks_uri))?;
        Ok(Self { settings, metadata, keys, has_new_keys: false })
    }

    /// Whether the keys were fetched again since it was asked last. Then an older copy may still
    /// accept a key that the provider has removed.
    pub fn take_new_keys(&mut self) -> bool {
        std::mem::take(&mut self.has_new_keys)
    }

    pub(crate) fn client(&self) -> Client<'_> {
        Client {
            id: &self.settings.client_id,
            secret: self.settings.client_secret.as_deref(),
            secret_in_form: self.metadata.secret_in_form(),
        }
    }

    pub(crate) fn scope(&self) -> String {
        let mut scope = "openid".to_owned();
        for other in &self.settings.scopes {
            scope.push(' ');
            scope.push_str(other);
        }
        scope
    }

    /// The user of valid tokens. `now` is in seconds since 1970.
    pub(crate) fn identity(
        &mut self,
        tokens: &Tokens,
        nonce: Option<&str>,
        fetch: &Fetch<'_>,
        now: u64,
    ) -> Result<Identity, Error> {
        let no_token = || Error::Token { why: "the provider sent none".to_owned() };
        let token = tokens.id_token.as_deref().ok_or_else(no_token)?;
        if !identity::has_key(token, &self.keys)? {
            // Providers replace their keys from time to time.
            self.keys = fetch::json(fetch, &ProviderRequest::get(&self.metadata.jwks_uri))?;
            self.has_new_keys = true;
        }
        let expected = Expected {
            issuer: &self.metadata.issuer,
            client_id: &self.settings.client_id,
            nonce,
            now,
        };
        let mut claims = identity::checked(token, &self.keys, expected)?;
        let is_complete = claims.contains_key(&self.settings.name_claim)
            && claims.contains_key(&self.settings.groups_claim);
        if let (false, Some(url)) = (is_complete, &self.metadata.userinfo_endpoint) {
            let request = ProviderRequest::get(url).with_token(&tokens.access_token);
            identity::complete(&mut claims, fetch::json(fetch, &request)?)?;
        }
        Identity::new(&claims, &self.metadata.issuer, &self.settings)
    }
}
