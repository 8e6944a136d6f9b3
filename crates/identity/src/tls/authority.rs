//! The server's own certificate authority: made once, in a file of the state folder. Its key never
//! leaves the file.

use std::fs::File;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, anyhow, bail};
use gpool_model::NodeName;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, PKCS_ECDSA_P256_SHA256, PublicKeyData, SerialNumber, SignatureAlgorithm,
    date_time_ymd,
};
use rustls::RootCertStore;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;

use crate::access::random;

/// The file in the state folder: key and certificate.
pub const FILE: &str = "authority.pem";
/// How long the authority is valid: clients pin it, so it is not renewed.
const VALID: Duration = Duration::from_secs(20 * 365 * 24 * 3600);
/// Certificates begin earlier, for clients with slow clocks.
const EARLIER: Duration = Duration::from_secs(24 * 3600);

pub struct Authority {
    certificate: CertificateDer<'static>,
    pem: String,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    /// Opens the authority of a state folder; makes it if there is none.
    pub fn open(state_dir: &Path) -> anyhow::Result<Self> {
        let path = state_dir.join(FILE);
        let shown = path.display();
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                make(&path).with_context(|| format!("can't create {shown}"))?
            }
            Err(error) => return Err(error).with_context(|| format!("can't read {shown}")),
        };
        Self::read(&text).with_context(|| {
            format!("{shown} is damaged: remove it, and have each client sign in again")
        })
    }

    fn read(text: &str) -> anyhow::Result<Self> {
        let key = KeyPair::from_pem(text).context("it has no key")?;
        let certificate = CertificateDer::from_pem_slice(text.as_bytes())
            .map_err(|error| anyhow!("it has no certificate: {error}"))?;
        let begin = text.find("-----BEGIN CERTIFICATE").context("it has no certificate")?;
        let (pem, params) = (text[begin..].to_owned(), params(&key)?);
        Ok(Self { certificate, pem, issuer: Issuer::new(params, key) })
    }

    pub fn pem(&self) -> &str {
        &self.pem
    }

    /// Issues a certificate for names and addresses; returns it with its authority, and its key.
    ///
    /// # Errors
    /// A name is not valid in certificates.
    pub fn issue(
        &self,
        names: &[String],
        valid: Duration,
    ) -> anyhow::Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>)> {
        let mut params = CertificateParams::new(names)
            .with_context(|| format!("tls_names: one of {} is not valid", names.join(", ")))?;
        params.distinguished_name.push(DnType::CommonName, "gpool-server");
        params.use_authority_key_identifier_extension = true;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        begin(&mut params, valid);
        let key = KeyPair::generate().context("can't make a key")?;
        let issued = params.signed_by(&key, &self.issuer).context("can't sign a certificate")?;
        let key = PrivatePkcs8KeyDer::from(key.serialize_der());
        Ok((vec![issued.into(), self.certificate.clone()], key.into()))
    }

    /// Issues the certificate of an agent on another machine, for its public key: the point of an
    /// ECDSA key on the curve P-256, uncompressed. It is not valid for a server.
    ///
    /// # Errors
    /// The key is none.
    pub fn issue_for_agent(
        &self,
        node: &NodeName,
        public_key: &[u8],
        valid: Duration,
    ) -> anyhow::Result<CertificateDer<'static>> {
        if public_key.len() != AgentKey::LENGTH || public_key[0] != AgentKey::UNCOMPRESSED {
            bail!("the key is not a point of the curve P-256");
        }
        let mut params = CertificateParams::new(Vec::new())?;
        params.distinguished_name.push(DnType::OrganizationalUnitName, "gpool-agent");
        params.distinguished_name.push(DnType::CommonName, node.as_str());
        params.use_authority_key_identifier_extension = true;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        params.serial_number = Some(SerialNumber::from_slice(&random::<16>()));
        begin(&mut params, valid);
        let key = AgentKey(public_key.to_vec());
        let issued = params.signed_by(&key, &self.issuer).context("can't sign a certificate")?;
        Ok(issued.into())
    }

    /// Returns a verifier of the certificates of agents. A client needs none.
    ///
    /// # Errors
    /// The certificate of the authority can't be used.
    pub fn verifier(&self) -> anyhow::Result<Arc<dyn ClientCertVerifier>> {
        let mut roots = RootCertStore::empty();
        roots.add(self.certificate.clone()).context("the authority can't be used")?;
        let provider = Arc::new(default_provider());
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
        verifier.allow_unauthenticated().build().context("the authority can't be used")
    }
}

/// Makes a certificate valid from now on.
fn begin(params: &mut CertificateParams, valid: Duration) {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    params.not_before = date_time_ymd(1970, 1, 1) + now.saturating_sub(EARLIER);
    params.not_after = date_time_ymd(1970, 1, 1) + now + valid;
}

/// The public key of an agent; the private key stays on its machine.
struct AgentKey(Vec<u8>);

impl AgentKey {
    /// Bytes of an uncompressed point, with the byte that marks one (SEC 1, 2.3.3).
    const LENGTH: usize = 65;
    const UNCOMPRESSED: u8 = 4;
}

impl PublicKeyData for AgentKey {
    fn der_bytes(&self) -> &[u8] {
        &self.0
    }

    fn algorithm(&self) -> &'static SignatureAlgorithm {
        &PKCS_ECDSA_P256_SHA256
    }
}

/// The fields of an authority, which follow from its key.
fn params(key: &KeyPair) -> anyhow::Result<CertificateParams> {
    let mut params = CertificateParams::new(Vec::new())?;
    let name = blake3::hash(key.public_key_raw()).to_hex();
    params.distinguished_name.push(DnType::CommonName, format!("gpool-authority-{}", &name[..8]));
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
    Ok(params)
}

/// Makes an authority whose file is whole or not there.
fn make(path: &Path) -> anyhow::Result<String> {
    let key = KeyPair::generate()?;
    let mut params = params(&key)?;
    begin(&mut params, VALID);
    let text = format!("{}{}", key.serialize_pem(), params.self_signed(&key)?.pem());
    let new = path.with_extension("pem.new");
    let mut options = File::options();
    let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(&new)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    std::fs::rename(&new, path)?;
    Ok(text)
}
