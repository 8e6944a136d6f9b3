//! The code flow with PKCE, for browsers.
//!
//! Source: OpenID Connect Core 1.0, section 3.1; RFC 7636; RFC 9207.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::digest::{SHA256, digest};

use crate::fetch::{self, Fetch, ProviderRequest};
use crate::provider::Tokens;
use crate::{Error, Identity, Provider};

/// Random bytes of one sign-in, each set used once.
pub struct Secrets {
    /// Ties the answer to the browser.
    pub state: [u8; 32],
    /// Ties the ID token to the sign-in.
    pub nonce: [u8; 32],
    /// Ties the code to this program.
    pub verifier: [u8; 32],
}

/// A sign-in that has begun: it stays on the server until the browser is back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attempt {
    /// The address for the browser.
    pub url: String,
    /// The state that the answer must repeat.
    pub state: String,
    nonce: String,
    verifier: String,
    redirect: String,
}

/// The parameters of the address at which the browser comes back.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Deserialize)]
pub struct Callback {
    /// The code, after a successful sign-in.
    pub code: Option<String>,
    pub state: Option<String>,
    /// The issuer.
    pub iss: Option<String>,
    /// Why the provider refused.
    pub error: Option<String>,
    pub error_description: Option<String>,
}

impl Provider {
    /// Begins a sign-in that comes back to `redirect`.
    #[must_use]
    pub fn start(&self, redirect: &str, secrets: &Secrets) -> Attempt {
        let [state, nonce, verifier] = [&secrets.state, &secrets.nonce, &secrets.verifier]
            .map(|it| URL_SAFE_NO_PAD.encode(it));
        let challenge = URL_SAFE_NO_PAD.encode(digest(&SHA256, verifier.as_bytes()));
        let mut query = form_urlencoded::Serializer::new(String::new());
        query.extend_pairs([
            ("response_type", "code"),
            ("client_id", &self.settings.client_id),
            ("redirect_uri", redirect),
            ("scope", &self.scope()),
            ("state", &state),
            ("nonce", &nonce),
            ("code_challenge", &challenge),
            ("code_challenge_method", "S256"),
        ]);
        let endpoint = &self.metadata.authorization_endpoint;
        let separator = if endpoint.contains('?') { '&' } else { '?' };
        let url = format!("{endpoint}{separator}{}", query.finish());
        Attempt { url, state, nonce, verifier, redirect: redirect.to_owned() }
    }

    /// Asks the provider whether it would begin a sign-in. It answers an address to come back to
    /// that it does not know with a page of its own, and the browser would never come back.
    /// Source: RFC 6749, section 4.1.2.1.
    ///
    /// # Errors
    /// The provider refuses the attempt. An address that only browsers reach is no error.
    pub fn check(&self, attempt: &Attempt, fetch: &Fetch<'_>) -> Result<(), Error> {
        match fetch(&ProviderRequest::get(&attempt.url)) {
            Ok(answer) if matches!(answer.status, 400 | 401) => Err(Error::NotRegistered {
                redirect: attempt.redirect.clone(),
                client_id: self.settings.client_id.clone(),
            }),
            Ok(_) | Err(_) => Ok(()),
        }
    }

    /// Ends a sign-in. `now` is in seconds since 1970.
    ///
    /// # Errors
    /// The provider refused, the answer belongs to another attempt, or the token is not valid.
    pub fn finish(
        &mut self,
        attempt: &Attempt,
        callback: &Callback,
        fetch: &Fetch<'_>,
        now: u64,
    ) -> Result<Identity, Error> {
        if callback.state.as_ref() != Some(&attempt.state) {
            return Err(Error::OtherAttempt);
        }
        let must_name = self.metadata.authorization_response_iss_parameter_supported;
        match &callback.iss {
            Some(issuer) if *issuer != self.metadata.issuer => return Err(Error::OtherAttempt),
            None if must_name => return Err(Error::OtherAttempt),
            _ => {}
        }
        if let Some(error) = &callback.error {
            let description = callback.error_description.clone();
            return Err(Error::Refused { error: error.clone(), description });
        }
        let code = callback.code.as_deref().ok_or(Error::OtherAttempt)?;
        let fields = [
            ("grant_type", "authorization_code"),
            ("code", code),
            ("redirect_uri", &attempt.redirect),
            ("code_verifier", &attempt.verifier),
        ];
        let request = ProviderRequest::post(&self.metadata.token_endpoint, self.client(), &fields);
        let tokens: Tokens = fetch::json(fetch, &request)?;
        self.identity(&tokens, Some(&attempt.nonce), fetch, now)
    }
}
