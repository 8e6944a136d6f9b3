//! TLS for the listener on the network: certificates of the server's own authority, or those of the
//! site, which are read again after a change.

mod authority;

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context as _, anyhow, bail};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD_NO_PAD;
use gpool_model::NodeName;
use ring::digest;
use rustls::client::verify_server_name;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::ParsedCertificate;
use rustls::server::danger::ClientCertVerifier;

pub use self::authority::{Authority, FILE as AUTHORITY_FILE};

/// How long a certificate of the own authority is used. It is valid for half as long again.
const RENEWED: Duration = Duration::from_secs(60 * 24 * 3600);
/// How often the files of the site are looked at.
const LOOK: Duration = Duration::from_secs(30);
/// The most addresses of this machine with a certificate each.
const ADDRESSES_MAX: usize = 64;

/// How the server listens on the network.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NetworkConfig {
    pub listen: SocketAddr,
    /// More names and addresses in certificates of the own authority.
    pub names: Vec<String>,
    /// The domain below which each notebook has a name: `notebooks.example.org`.
    pub notebooks: Option<String>,
    /// The site's certificate chain and its key, in place of the own authority.
    pub site: Option<SiteFiles>,
}

/// Files in PEM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SiteFiles {
    /// The chain, the server's certificate first.
    pub chain: PathBuf,
    pub key: PathBuf,
}

/// The files of a certificate exist and can't be used.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct BadCertificate(String);

/// The certificates of a listener.
pub struct Tls {
    source: CertificateSource,
    /// Issues the certificates of agents, also where the site has its own certificates.
    authority: Arc<Authority>,
    agents: Arc<dyn ClientCertVerifier>,
    /// The domain below which each notebook has a name.
    notebooks: Option<String>,
    /// Certificates in use, by the address of this machine; a site's files serve all addresses.
    in_use: Mutex<HashMap<Option<IpAddr>, InUse>>,
}

enum CertificateSource {
    /// For these names and addresses.
    Own(Vec<String>),
    Site(SiteFiles),
}

struct InUse {
    served: Served,
    looked_at: Instant,
    /// When the site's files were last changed.
    changed_at: Option<SystemTime>,
}

/// A new certificate of an agent.
pub struct AgentCertificate {
    pub certificate: CertificateDer<'static>,
    pub fingerprint: String,
    /// How long it is valid.
    pub valid: Duration,
}

/// What a connection is served with.
#[derive(Clone)]
pub struct Served {
    pub config: Arc<rustls::ServerConfig>,
    /// The chain, the server's certificate first.
    pub chain: Arc<[CertificateDer<'static>]>,
}

impl Tls {
    /// Opens or makes the authority, or reads the site's files.
    pub fn open(config: &NetworkConfig, state_dir: &Path) -> anyhow::Result<Self> {
        let source = match &config.site {
            Some(files) => CertificateSource::Site(files.clone()),
            None => {
                let mut names = vec!["localhost".to_owned()];
                let host = rustix::system::uname().nodename().to_string_lossy().to_lowercase();
                names.extend(Some(host).filter(|host| !host.is_empty()));
                names.extend(config.names.iter().cloned());
                names.extend(config.notebooks.iter().map(|domain| format!("*.{domain}")));
                CertificateSource::Own(names)
            }
        };
        let authority = Arc::new(Authority::open(state_dir)?);
        let agents = authority.verifier()?;
        let notebooks = config.notebooks.clone();
        let tls = Self { source, authority, agents, notebooks, in_use: Mutex::default() };
        // A fault in a file or name is reported at the start.
        tls.served(config.listen.ip())?;
        Ok(tls)
    }

    /// The domain below which each notebook has a name, if there is one.
    pub fn notebooks(&self) -> Option<&str> {
        self.notebooks.as_deref()
    }

    /// The label of a notebook in a host, which may have a port.
    pub fn notebook_label<'h>(&self, host: &'h str) -> Option<&'h str> {
        let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
        name.strip_suffix(self.notebooks()?)?.strip_suffix('.')
    }

    /// The own authority, if certificates are from it.
    pub fn authority(&self) -> Option<&Authority> {
        match &self.source {
            CertificateSource::Own(_) => Some(&self.authority),
            CertificateSource::Site(_) => None,
        }
    }

    /// The certificate for connections to an address of this machine.
    ///
    /// # Errors
    /// There is none yet, and it can't be made or read.
    pub fn served(&self, at: IpAddr) -> anyhow::Result<Served> {
        match &self.source {
            CertificateSource::Own(names) => self.own(names, at.to_canonical()),
            CertificateSource::Site(files) => self.site(files),
        }
    }

    /// The names and addresses in certificates of the own authority, beside those of this machine.
    pub fn names(&self) -> &[String] {
        match &self.source {
            CertificateSource::Own(names) => names,
            CertificateSource::Site(_) => &[],
        }
    }

    /// Issues a certificate for the public key of an agent; returns it in PEM, with its fingerprint
    /// and how long it is valid.
    ///
    /// # Errors
    /// As for [`Authority::issue_for_agent`].
    pub fn issue_for_agent(
        &self,
        node: &NodeName,
        public_key: &[u8],
    ) -> anyhow::Result<AgentCertificate> {
        let valid = RENEWED + RENEWED / 2;
        let certificate = self.authority.issue_for_agent(node, public_key, valid)?;
        let fingerprint = fingerprint(&certificate);
        Ok(AgentCertificate { certificate, fingerprint, valid })
    }

    fn in_use(&self) -> MutexGuard<'_, HashMap<Option<IpAddr>, InUse>> {
        self.in_use.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn own(&self, names: &[String], at: IpAddr) -> anyhow::Result<Served> {
        let mut in_use = self.in_use();
        let found = in_use.get(&Some(at)).filter(|it| it.looked_at.elapsed() < RENEWED);
        if let Some(found) = found {
            return Ok(found.served.clone());
        }
        let mut names = names.to_vec();
        if !at.is_unspecified() {
            names.push(at.to_string());
        }
        let (chain, key) = self.authority.issue(&names, RENEWED + RENEWED / 2)?;
        let served = Served::new(chain, key, &self.agents)?;
        if in_use.len() >= ADDRESSES_MAX {
            in_use.clear();
        }
        let made = InUse { served: served.clone(), looked_at: Instant::now(), changed_at: None };
        in_use.insert(Some(at), made);
        Ok(served)
    }

    fn site(&self, files: &SiteFiles) -> anyhow::Result<Served> {
        let mut in_use = self.in_use();
        if let Some(found) = in_use.get_mut(&None) {
            if found.looked_at.elapsed() < LOOK {
                return Ok(found.served.clone());
            }
            found.looked_at = Instant::now();
            if found.changed_at == files.changed_at() {
                return Ok(found.served.clone());
            }
        }
        let changed_at = files.changed_at();
        let read = files.read().and_then(|(chain, key)| Served::new(chain, key, &self.agents));
        match (read, in_use.get(&None)) {
            (Ok(served), _) => {
                let looked_at = Instant::now();
                in_use.insert(None, InUse { served: served.clone(), looked_at, changed_at });
                Ok(served)
            }
            // The files may be half written.
            (Err(error), Some(before)) => {
                tracing::warn!(error = format!("{error:#}"), "the last certificate stays in use");
                Ok(before.served.clone())
            }
            (Err(error), None) => Err(match files.are_there() {
                true => BadCertificate(format!("{error:#}")).into(),
                false => error,
            }),
        }
    }
}

impl SiteFiles {
    fn changed_at(&self) -> Option<SystemTime> {
        let of = |path: &Path| path.metadata().and_then(|about| about.modified()).ok();
        of(&self.chain).max(of(&self.key))
    }

    /// Whether both exist; without one, the settings are wrong.
    fn are_there(&self) -> bool {
        self.chain.exists() && self.key.exists()
    }

    fn read(&self) -> anyhow::Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>)> {
        let (chain, key) = (self.chain.display(), self.key.display());
        let certificates = CertificateDer::pem_file_iter(&self.chain)
            .and_then(Iterator::collect::<Result<Vec<_>, _>>)
            .map_err(|error| anyhow!("can't read certificates from {chain}: {error}"))?;
        if certificates.is_empty() {
            return Err(anyhow!("{chain} has no certificate in PEM"));
        }
        let about = std::fs::metadata(&self.key).with_context(|| format!("can't read {key}"))?;
        if about.mode() & 0o007 != 0 {
            bail!("every user of this machine can read {key}: chmod 600 {key}");
        }
        let private = PrivateKeyDer::from_pem_file(&self.key)
            .map_err(|error| anyhow!("can't read a private key from {key}: {error}"))?;
        Ok((certificates, private))
    }
}

impl Served {
    fn new(
        chain: Vec<CertificateDer<'static>>,
        key: PrivateKeyDer<'static>,
        agents: &Arc<dyn ClientCertVerifier>,
    ) -> anyhow::Result<Self> {
        let kept = chain.clone().into();
        let mut config = rustls::ServerConfig::builder_with_provider(default_provider().into())
            .with_safe_default_protocol_versions()
            .context("the TLS library has no protocol versions")?
            .with_client_cert_verifier(Arc::clone(agents))
            .with_single_cert(chain, key)
            .context("the certificate and its key can't be used")?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self { config: Arc::new(config), chain: kept })
    }

    /// Whether the certificate is for the host of a request, which may have a port. Another host
    /// may be a name of a foreign site that DNS points at this machine.
    pub fn is_for(&self, host: &str) -> bool {
        let Ok(authority) = host.parse::<axum::http::uri::Authority>() else { return false };
        let port = host.strip_prefix(authority.host());
        // A user before the host would be part of the addresses that answers name.
        if port.is_none_or(|port| !port.is_empty() && authority.port_u16().is_none()) {
            return false;
        }
        let host = authority.host().trim_start_matches('[').trim_end_matches(']');
        let parsed = self.chain.first().map(ParsedCertificate::try_from);
        match (parsed, ServerName::try_from(host)) {
            (Some(Ok(parsed)), Ok(name)) => verify_server_name(&parsed, &name).is_ok(),
            _ => false,
        }
    }

    /// The fingerprint that clients pin: of the last certificate in the chain.
    pub fn fingerprint(&self) -> String {
        self.chain.last().map_or_else(String::new, |last| fingerprint(last))
    }
}

/// A certificate's fingerprint, as `ssh-keygen -l` writes those of keys.
pub fn fingerprint(certificate: &[u8]) -> String {
    let hash = digest::digest(&digest::SHA256, certificate);
    format!("SHA256:{}", BASE64_STANDARD_NO_PAD.encode(hash))
}
