//! Why a sign-in failed.

/// Why a sign-in failed: the user is not signed in.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error("can't reach the identity provider at {url}: {why}")]
    Unreachable { url: String, why: String },
    /// The answer is not what the standard requires.
    #[error("{url} did not answer as an identity provider: {why}")]
    Answer { url: String, why: String },
    #[error(
        "the provider calls itself {found:?}, not {expected:?}: set this issuer if it is right"
    )]
    OtherIssuer { expected: String, found: String },
    /// An address could be read by others on the way.
    #[error(
        "{url} is not https: only a provider on this machine's loopback address may do without"
    )]
    Insecure { url: String },
    /// The provider has no device flow.
    #[error(
        "the identity provider offers no device sign-in: sign in with a browser, or use a token"
    )]
    NoDeviceFlow,
    /// The provider or the user said no.
    #[error("the identity provider refused: {error}{}", described(.description.as_deref()))]
    Refused {
        /// The code of the error, as in RFC 6749.
        error: String,
        description: Option<String>,
    },
    /// The provider does not know the address to come back to.
    #[error(
        "the identity provider refuses to send browsers back to {redirect}: register this redirect \
         address there for client {client_id:?}"
    )]
    NotRegistered { redirect: String, client_id: String },
    /// The answer belongs to no sign-in of this browser.
    #[error("this answer belongs to another sign-in: start again")]
    OtherAttempt,
    /// The ID token is not valid.
    #[error("the provider's ID token is not valid: {why}")]
    Token { why: String },
    /// A claim that the settings need is missing.
    #[error("the provider sent no claim {claim:?} with a name of the user: choose another claim")]
    NoName { claim: String },
}

fn described(description: Option<&str>) -> String {
    description.map(|text| format!(" ({text})")).unwrap_or_default()
}
