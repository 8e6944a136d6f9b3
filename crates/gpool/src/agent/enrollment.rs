//! The enrollment of this machine as a node of a server: the node's name, the certificate and its
//! key, in a file of the agent's state folder.

use std::fs::File;
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use gpool_client::remote::fingerprint;
use gpool_client::{Address, Client, Error, Identity, Remote, Trust};
use gpool_model::{Millis, NodeName, Timestamp};
use gpool_wire::join::{CertificateRequest, FINGERPRINT_MARK, IssuedCertificate};
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, KeyPair as _};
use serde::{Deserialize, Serialize};

/// The file in the state folder.
pub const FILE: &str = "enrollment.json";

/// Why a machine could not join.
#[derive(Debug, thiserror::Error)]
pub enum NotJoined {
    #[error("{0}")]
    Address(String),
    /// The server that answers is not the one that made the token.
    #[error("{server} is not the server of this token: its fingerprint is {fingerprint}")]
    OtherServer { server: String, fingerprint: String },
    #[error("{0}")]
    Refused(#[from] Error),
    #[error("{path} can't be used: {error}")]
    File { path: String, error: io::Error },
    #[error("the certificate of this machine has expired")]
    Expired,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Enrollment {
    /// Address of the server: `https://lab1:7443`.
    pub server: String,
    /// The certificate of its authority in Base64; without it the system's are trusted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    authority: Option<String>,
    pub node: NodeName,
    /// In Base64.
    certificate: String,
    /// In Base64, PKCS #8.
    key: String,
    /// When the certificate is renewed.
    pub renew_at: Timestamp,
    expires_at: Timestamp,
}

/// A key before its certificate is there.
struct NewKey {
    pkcs8: Vec<u8>,
    public: Vec<u8>,
}

impl NewKey {
    fn generate() -> Self {
        let rng = SystemRandom::new();
        // Both fail only if the kernel has no random numbers, early in the boot.
        let document = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, &rng)
            .expect("the kernel has random numbers");
        let pkcs8 = document.as_ref().to_vec();
        let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, &pkcs8, &rng)
            .expect("a new key can be read");
        Self { public: pair.public_key().as_ref().to_vec(), pkcs8 }
    }

    fn request(&self, token: Option<String>) -> CertificateRequest {
        CertificateRequest { token, public_key: BASE64_STANDARD.encode(&self.public) }
    }
}

impl Enrollment {
    /// Reads the file of a state folder; `None` if the machine has not joined.
    ///
    /// # Errors
    /// It can't be read.
    pub fn read(state_dir: &Path) -> Result<Option<Self>, NotJoined> {
        let path = state_dir.join(FILE);
        let failed = |error| NotJoined::File { path: path.display().to_string(), error };
        match std::fs::read(&path) {
            Ok(bytes) => serde_json::from_slice(&bytes).map(Some).map_err(|it| failed(it.into())),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(failed(error)),
        }
    }

    /// Joins the cluster of a server with a token, and stores the membership.
    ///
    /// # Errors
    /// The server can't be reached, is not the one of the token, or refuses it.
    pub fn join(
        server: &str,
        token: &str,
        state_dir: &Path,
        now: Timestamp,
    ) -> Result<Self, NotJoined> {
        let address = Address::read(server).map_err(NotJoined::Address)?;
        let (secret, expected) = match token.split_once(FINGERPRINT_MARK) {
            Some((secret, fingerprint)) => (secret, Some(fingerprint)),
            None => (token, None),
        };
        let trust = match expected {
            None => Trust::System,
            Some(expected) => pinned(&address, expected)?,
        };
        let authority = match &trust {
            Trust::Authority(certificate) => Some(certificate.clone()),
            Trust::System => None,
        };
        let key = NewKey::generate();
        let client = Client::remote(Remote::new(address.clone(), String::new(), trust));
        let issued = client.agent_certificate(&key.request(Some(secret.to_owned())))?;
        let enrollment = Self {
            server: address.to_string(),
            authority,
            node: NodeName::new(&issued.node),
            certificate: String::new(),
            key: String::new(),
            renew_at: now,
            expires_at: now,
        };
        enrollment.with(issued, &key, now).write(state_dir)
    }

    /// Replaces the certificate by a new one, for a new key.
    ///
    /// # Errors
    /// The server can't be reached, or the machine is no node of it any more.
    pub fn renew(&self, state_dir: &Path, now: Timestamp) -> Result<Self, NotJoined> {
        let key = NewKey::generate();
        let issued = self.client(now)?.agent_certificate(&key.request(None))?;
        self.clone().with(issued, &key, now).write(state_dir)
    }

    /// The enrollment with a new certificate. It is renewed after two thirds of its time.
    fn with(self, issued: IssuedCertificate, key: &NewKey, now: Timestamp) -> Self {
        let valid = Millis::from_secs(issued.valid_s);
        Self {
            renew_at: now.after(Millis::new(valid.get() / 3 * 2)),
            expires_at: now.after(valid),
            certificate: issued.certificate,
            key: BASE64_STANDARD.encode(&key.pkcs8),
            ..self
        }
    }

    /// A client that proves itself as the agent.
    ///
    /// # Errors
    /// The certificate has expired, or the stored values are damaged.
    pub fn client(&self, now: Timestamp) -> Result<Client, NotJoined> {
        if now >= self.expires_at {
            return Err(NotJoined::Expired);
        }
        let address = Address::read(&self.server).map_err(NotJoined::Address)?;
        let trust = self.authority.clone().map_or(Trust::System, Trust::Authority);
        let decode = |text: &String| {
            BASE64_STANDARD.decode(text).map_err(|error| NotJoined::File {
                path: FILE.to_owned(),
                error: io::Error::other(error),
            })
        };
        let (certificate, key) = (decode(&self.certificate)?, decode(&self.key)?);
        let identity = Some(Identity { certificate, key }.into());
        let remote = Remote { identity, ..Remote::new(address, String::new(), trust) };
        // The link tries again, with its own pauses.
        Ok(Client::remote(remote).with_retries(std::time::Duration::ZERO))
    }

    fn write(self, state_dir: &Path) -> Result<Self, NotJoined> {
        let path = state_dir.join(FILE);
        let write = || -> io::Result<()> {
            let new = path.with_extension("json.new");
            let mut options = File::options();
            let mut file =
                options.write(true).create(true).truncate(true).mode(0o600).open(&new)?;
            file.write_all(&serde_json::to_vec(&self)?)?;
            file.sync_all()?;
            std::fs::rename(&new, &path)?;
            File::open(state_dir)?.sync_all()
        };
        write().map_err(|error| NotJoined::File { path: path.display().to_string(), error })?;
        Ok(self)
    }
}

/// Trusts the authority of the server at an address, if it has this fingerprint.
fn pinned(address: &Address, expected: &str) -> Result<Trust, NotJoined> {
    let unreachable = |error: io::Error| {
        NotJoined::Refused(Error::NoRemote { server: address.to_string(), why: error.to_string() })
    };
    let chain = address.certificates().map_err(unreachable)?;
    let last = chain.last().map(Vec::as_slice).unwrap_or_default();
    let fingerprint = fingerprint(last);
    match fingerprint == expected {
        true => Ok(Trust::pinned(last)),
        false => Err(NotJoined::OtherServer { server: address.to_string(), fingerprint }),
    }
}
