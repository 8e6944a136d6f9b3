//! The device flow, for the command line: the user confirms a code in any browser.
//!
//! Source: RFC 8628.

use serde::Deserialize;

use crate::fetch::{self, Fetch, ProviderRequest, Refusal};
use crate::provider::Tokens;
use crate::{Error, Identity, Provider};

/// A sign-in that waits for the user. The device code itself stays on the server.
#[derive(Clone, PartialEq, Eq, Deserialize)]
pub struct DeviceCode {
    device_code: String,
    /// The code that the user enters.
    pub user_code: String,
    /// The address that the user opens.
    #[serde(alias = "verification_url")]
    pub verification_uri: String,
    /// The same with the code in it.
    #[serde(alias = "verification_url_complete")]
    pub verification_uri_complete: Option<String>,
    /// Seconds until the code expires.
    pub expires_in: u64,
    /// Seconds between two questions.
    #[serde(default = "interval")]
    pub interval: u64,
}

fn interval() -> u64 {
    5
}

/// The state of a sign-in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Poll {
    /// The user has not confirmed yet.
    Pending,
    /// The same, and the next question must come five seconds later than planned.
    SlowDown,
    Done(Identity),
}

impl Provider {
    /// Begins a sign-in.
    ///
    /// # Errors
    /// The provider has no device flow, does not answer, or refuses.
    pub fn start_device(&self, fetch: &Fetch<'_>) -> Result<DeviceCode, Error> {
        let url = self.metadata.device_authorization_endpoint.as_ref();
        let url = url.ok_or(Error::NoDeviceFlow)?;
        let request = ProviderRequest::post(url, self.client(), &[("scope", &self.scope())]);
        fetch::json(fetch, &request)
    }

    /// Asks whether the user has confirmed. `now` is in seconds since 1970.
    ///
    /// # Errors
    /// The user refused, the code has expired, or the token is not valid.
    pub fn poll_device(
        &mut self,
        device: &DeviceCode,
        fetch: &Fetch<'_>,
        now: u64,
    ) -> Result<Poll, Error> {
        let fields = [
            ("grant_type", "urn:ietf:params:oauth:grant-type:device_code"),
            ("device_code", &device.device_code),
        ];
        let request = ProviderRequest::post(&self.metadata.token_endpoint, self.client(), &fields);
        let answer = fetch::answer(fetch, &request)?;
        if answer.status == 200 {
            let tokens: Tokens = fetch::parsed(&request, &answer.body)?;
            return self.identity(&tokens, None, fetch, now).map(Poll::Done);
        }
        let refusal: Refusal = fetch::parsed(&request, &answer.body)?;
        match refusal.error.as_str() {
            "authorization_pending" => Ok(Poll::Pending),
            "slow_down" => Ok(Poll::SlowDown),
            _ => Err(refusal.into()),
        }
    }
}
