//! Requests to the provider.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::Error;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProviderRequest {
    pub url: String,
    /// The value of the header `Authorization`.
    pub authorization: Option<String>,
    /// The body of a `POST`, of the type `application/x-www-form-urlencoded`; without it, a `GET`.
    pub form: Option<String>,
}

/// An answer with any status.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProviderResponse {
    pub status: u16,
    pub body: Vec<u8>,
}

/// Sends a request. An error is the reason why there is no answer.
pub type Fetch<'a> = dyn Fn(&ProviderRequest) -> Result<ProviderResponse, String> + 'a;

/// The error of RFC 6749, section 5.2.
#[derive(Debug, Deserialize)]
pub(crate) struct Refusal {
    pub error: String,
    pub error_description: Option<String>,
}

impl From<Refusal> for Error {
    fn from(refusal: Refusal) -> Self {
        Self::Refused { error: refusal.error, description: refusal.error_description }
    }
}

impl ProviderRequest {
    pub(crate) fn get(url: &str) -> Self {
        Self { url: url.to_owned(), authorization: None, form: None }
    }

    pub(crate) fn with_token(mut self, token: &str) -> Self {
        self.authorization = Some(format!("Bearer {token}"));
        self
    }

    /// A `POST` of a client. A client with a secret proves it as RFC 6749, section 2.3.1 has it: in
    /// the header, or in the form where the provider takes only that.
    pub(crate) fn post(url: &str, client: Client<'_>, fields: &[(&str, &str)]) -> Self {
        let mut form = form_urlencoded::Serializer::new(String::new());
        form.extend_pairs(fields);
        let authorization = match client.secret {
            Some(secret) if !client.secret_in_form => {
                let pair = format!("{}:{}", encoded(client.id), encoded(secret));
                Some(format!("Basic {}", STANDARD.encode(pair)))
            }
            secret => {
                form.append_pair("client_id", client.id);
                form.extend_pairs(secret.map(|secret| ("client_secret", secret)));
                None
            }
        };
        Self { url: url.to_owned(), authorization, form: Some(form.finish()) }
    }
}

/// A client as the provider knows it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Client<'a> {
    pub id: &'a str,
    pub secret: Option<&'a str>,
    pub secret_in_form: bool,
}

fn encoded(text: &str) -> String {
    form_urlencoded::byte_serialize(text.as_bytes()).collect()
}

pub(crate) fn answer(
    fetch: &Fetch<'_>,
    request: &ProviderRequest,
) -> Result<ProviderResponse, Error> {
    fetch(request).map_err(|why| Error::Unreachable { url: request.url.clone(), why })
}

/// The JSON of a successful answer, or the refusal.
pub(crate) fn json<T: DeserializeOwned>(
    fetch: &Fetch<'_>,
    request: &ProviderRequest,
) -> Result<T, Error> {
    let answer = answer(fetch, request)?;
    if answer.status == 200 {
        return parsed(request, &answer.body);
    }
    match serde_json::from_slice::<Refusal>(&answer.body) {
        Ok(refusal) => Err(refusal.into()),
        Err(_) => Err(unexpected(request, format!("status {}", answer.status))),
    }
}

pub(crate) fn parsed<T: DeserializeOwned>(
    request: &ProviderRequest,
    body: &[u8],
) -> Result<T, Error> {
    serde_json::from_slice(body).map_err(|error| unexpected(request, error.to_string()))
}

fn unexpected(request: &ProviderRequest, why: String) -> Error {
    Error::Answer { url: request.url.clone(), why }
}
