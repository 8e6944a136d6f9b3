//! The server's own certificate authority: made once, in a file of the state folder. Its key never
//! leaves the file.

use std::fs::File;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, anyhow};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, date_time_ymd,
};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};

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
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        params.not_before = date_time_ymd(1970, 1, 1) + now.saturating_sub(EARLIER);
        params.not_after = date_time_ymd(1970, 1, 1) + now + valid;
        let key = KeyPair::generate().context("can't make a key")?;
        let issued = params.signed_by(&key, &self.issuer).context("can't sign a certificate")?;
        let key = PrivatePkcs8KeyDer::from(key.serialize_der());
        Ok((vec![issued.into(), self.certificate.clone()], key.into()))
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
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    params.not_before = date_time_ymd(1970, 1, 1) + now.saturating_sub(EARLIER);
    params.not_after = date_time_ymd(1970, 1, 1) + now + VALID;
    let text = format!("{}{}", key.serialize_pem(), params.self_signed(&key)?.pem());
    let new = path.with_extension("pem.new");
    let mut options = File::options();
    let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(&new)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    std::fs::rename(&new, path)?;
    Ok(text)
}
