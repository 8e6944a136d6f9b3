//! Sign-in with an OpenID Connect provider. The browser uses the code flow with PKCE, the command
//! line the device flow, which the server does in its place. Both end with an [`Identity`].
//!
//! This crate opens no connection and has no clock and no randomness: callers pass a [`Fetch`], the
//! time, and [`Secrets`]. A [`Fetch`] must limit the size of an answer and the time that it takes,
//! and must not follow redirects.
//!
//! Sources: OpenID Connect Core 1.0, OpenID Connect Discovery 1.0, RFC 6749 (OAuth 2.0), RFC 7636
//! (PKCE), RFC 8628 (device flow), RFC 9207 (issuer in the answer).

mod code;
mod device;
mod error;
mod fetch;
mod identity;
mod metadata;
mod provider;
mod settings;
mod verifier;

pub use code::{Attempt, Callback, Secrets};
pub use device::{DeviceCode, Poll};
pub use error::Error;
pub use fetch::{Fetch, ProviderRequest, ProviderResponse};
pub use identity::Identity;
pub use provider::Provider;
pub use settings::Settings;
