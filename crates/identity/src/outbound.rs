//! HTTP requests of the server itself: to identity providers, and to addresses of users.

use std::sync::Arc;
use std::time::Duration;

use ureq::config::Config;
use ureq::tls::{RootCerts, TlsConfig};

/// The settings of an HTTP client with this time limit for a request.
#[must_use]
pub fn config(patience: Duration) -> Config {
    let tls = TlsConfig::builder()
        .root_certs(RootCerts::PlatformVerifier)
        .unversioned_rustls_crypto_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .build();
    Config::builder()
        .tls_config(tls)
        .timeout_global(Some(patience))
        // A redirect could lead to an internal address; the user has to name the new one.
        .max_redirects(0)
        .max_redirects_will_error(false)
        .http_status_as_error(false)
        .max_idle_connections(0)
        .max_response_header_size(16 * 1024)
        // A proxy variable in the server's environment is not meant for users' messages.
        .proxy(None)
        .user_agent(concat!("gpool/", env!("CARGO_PKG_VERSION")))
        .build()
}
