//! The flags and settings of `gpool up` for access over the network.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Command;

use clap::Args;
use gpool_cli::errors;
use gpool_cli::failure::{Failure, Result};
use gpool_server::{NetworkConfig, SiteFiles};

use crate::config::Config;

/// How the server listens on the network.
#[derive(Debug, Clone, Default, Args)]
pub struct NetworkFlags {
    /// Address for access over the network with HTTPS, e.g. 0.0.0.0:7443 (default: none)
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<SocketAddr>,
    /// Certificate chain of the site in PEM (default: certificates of gpool's own authority)
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_certificate: Option<PathBuf>,
    /// Private key of the certificate in PEM
    #[arg(long, value_name = "FILE", requires = "tls_certificate")]
    tls_key: Option<PathBuf>,
    /// Set only in gpool.toml.
    #[arg(skip)]
    names: Vec<String>,
    /// Set only in gpool.toml.
    #[arg(skip)]
    notebooks: Option<String>,
}

impl NetworkFlags {
    /// Fills values without a flag from the settings.
    #[must_use]
    pub fn or(self, config: &Config) -> Self {
        let has_files = self.tls_certificate.is_some();
        let set = |path: &Option<PathBuf>| path.clone().filter(|_| !has_files);
        Self {
            listen: self.listen.or(config.listen),
            tls_certificate: self.tls_certificate.or(set(&config.tls_certificate)),
            tls_key: self.tls_key.or(set(&config.tls_key)),
            names: config.tls_names.clone(),
            notebooks: config.notebook_domain.clone(),
        }
    }

    /// The configuration of the server; `None` if it does not listen on the network.
    ///
    /// # Errors
    /// The settings have a certificate without a key, or a key alone.
    pub fn config(&self) -> Result<Option<NetworkConfig>> {
        let site = match (&self.tls_certificate, &self.tls_key) {
            (None, None) => None,
            (Some(chain), Some(key)) => Some(SiteFiles { chain: chain.clone(), key: key.clone() }),
            _ => {
                let what = "tls_certificate and tls_key are only valid together";
                return Err(Failure::new(errors::BAD_CONFIG, what).tip("gpool help settings"));
            }
        };
        let (names, notebooks) = (self.names.clone(), self.notebooks.clone());
        Ok(self.listen.map(|listen| NetworkConfig { listen, names, notebooks, site }))
    }

    /// Passes the flags to the server in the background, which reads the settings itself.
    pub fn pass(&self, command: &mut Command) {
        if let Some(listen) = self.listen {
            command.arg(format!("--listen={listen}"));
        }
        let files = [("--tls-certificate", &self.tls_certificate), ("--tls-key", &self.tls_key)];
        for (flag, path) in files {
            if let Some(path) = path {
                // The working folder of the child is the same.
                command.arg(flag).arg(path);
            }
        }
    }
}
