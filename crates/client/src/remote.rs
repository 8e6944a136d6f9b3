//! A server on the network: its address, its token, and the certificates that prove it.

use std::fmt;
use std::io::{self, Read as _, Write as _};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::{BASE64_STANDARD, BASE64_STANDARD_NO_PAD};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WantsClientCert, WebPkiServerVerifier};
use rustls::crypto::ring::default_provider;
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer, ServerName, UnixTime};
use rustls::version::TLS13;
use rustls::{
    ClientConfig, ClientConnection, ConfigBuilder, DEFAULT_VERSIONS, DigitallySignedStruct,
    RootCertStore, SignatureScheme, SupportedProtocolVersion, WantsVerifier,
};

use crate::error::Error;
use crate::silence::{Cause, Silence, silence_of};

/// The port of an address without one.
pub const PORT: u16 = 7443;
/// Longest time for a connection and for the handshake.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long a server that has accepted a connection may be silent before it is known.
const SILENCE: Duration = Duration::from_secs(3);

/// A server on the network.
#[derive(Clone, PartialEq, Eq)]
pub struct Remote {
    /// The address.
    pub address: Address,
    /// The secret of the token.
    pub token: String,
    /// What proves the server.
    pub trust: Trust,
    /// What proves this program, if it is an agent.
    pub identity: Option<Arc<Identity>>,
}

/// The certificate of an agent and its key, both in DER.
#[derive(Clone, PartialEq, Eq)]
pub struct Identity {
    /// The certificate.
    pub certificate: Vec<u8>,
    /// The key, in PKCS #8.
    pub key: Vec<u8>,
}

impl fmt::Debug for Remote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Without the token.
        f.debug_tuple("Remote").field(&self.address).finish()
    }
}

/// What proves a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trust {
    /// The certificates of the system.
    System,
    /// A certificate from this authority, in base64.
    Authority(String),
}

impl Trust {
    /// Trusts a certificate, which is pinned.
    #[must_use]
    pub fn pinned(certificate: &[u8]) -> Self {
        Self::Authority(BASE64_STANDARD.encode(certificate))
    }

    /// Trusts the first certificate of a file in PEM.
    ///
    /// # Errors
    /// It has none.
    pub fn read(pem: &[u8]) -> Result<Self, String> {
        let certificate = CertificateDer::from_pem_slice(pem);
        certificate.map(|it| Self::pinned(&it)).map_err(|error| error.to_string())
    }
}

/// A host with a port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address {
    host: String,
    port: u16,
}

impl Address {
    /// Reads `https://lab1:7443`, `lab1:7443` or `lab1`.
    ///
    /// # Errors
    /// It has another form.
    pub fn read(text: &str) -> Result<Self, String> {
        let bad = || format!("{text:?} is not the address of a server: https://lab1:{PORT}");
        let rest = text.strip_prefix("https://").unwrap_or(text);
        let rest = rest.strip_suffix('/').unwrap_or(rest);
        let authority: ureq::http::uri::Authority = rest.parse().map_err(|_| bad())?;
        let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_owned();
        if ServerName::try_from(host.as_str()).is_err() || authority.as_str().contains('@') {
            return Err(bad());
        }
        Ok(Self { host, port: authority.port_u16().unwrap_or(PORT) })
    }

    /// The host without the port.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The port.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The host and port, as in a request.
    #[must_use]
    pub fn authority(&self) -> String {
        match self.host.contains(':') {
            true => format!("[{}]:{}", self.host, self.port),
            false => format!("{}:{}", self.host, self.port),
        }
    }

    fn connect(&self) -> io::Result<TcpStream> {
        let mut last = io::Error::new(io::ErrorKind::NotFound, "the host has no address");
        for address in (self.host.as_str(), self.port).to_socket_addrs()? {
            match TcpStream::connect_timeout(&address, PATIENCE) {
                Ok(stream) => return Ok(stream),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    fn handshake(&self, config: ClientConfig) -> io::Result<(ClientConnection, TcpStream)> {
        let name = ServerName::try_from(self.host.clone()).map_err(io::Error::other)?;
        let mut tls = ClientConnection::new(Arc::new(config), name).map_err(io::Error::other)?;
        let mut stream = self.connect()?;
        stream.set_nodelay(true)?;
        stream.set_write_timeout(Some(PATIENCE))?;
        stream.set_read_timeout(Some(SILENCE))?;
        while tls.is_handshaking() {
            tls.complete_io(&mut stream).map_err(silent)?;
        }
        Ok((tls, stream))
    }

    /// Returns the certificates that the server at the address shows, without trusting them.
    ///
    /// # Errors
    /// The system's error.
    pub fn certificates(&self) -> io::Result<Vec<Vec<u8>>> {
        let seen =
            Arc::new(RecordingVerifier { provider: default_provider(), chain: Mutex::default() });
        let config =
            builder(DEFAULT_VERSIONS)?.dangerous().with_custom_certificate_verifier(seen.clone());
        self.handshake(config.with_no_client_auth())?;
        let chain = seen.chain.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(chain.iter().map(|it| it.to_vec()).collect())
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "https://{}", self.authority())
    }
}

impl Remote {
    /// A server at an address.
    #[must_use]
    pub fn new(address: Address, token: String, trust: Trust) -> Self {
        Self { address, token, trust, identity: None }
    }

    /// Connects, and checks the server's certificate.
    pub(crate) fn connect(&self) -> io::Result<(ClientConnection, TcpStream)> {
        let config = match &self.identity {
            None => self.trust.config(DEFAULT_VERSIONS)?.with_no_client_auth(),
            Some(identity) => {
                // The certificate of a client is not readable on the way then.
                let config = self.trust.config(&[&TLS13])?;
                let chain = vec![CertificateDer::from(identity.certificate.clone())];
                let key = PrivatePkcs8KeyDer::from(identity.key.clone());
                config.with_client_auth_cert(chain, key.into()).map_err(io::Error::other)?
            }
        };
        self.address.handshake(config)
    }

    /// Checks that the server proves itself and answers, without sending the token.
    ///
    /// # Errors
    /// The certificate is not trusted, or the system's error.
    pub fn check(&self) -> io::Result<()> {
        let (mut tls, mut stream) = self.connect()?;
        let mut tls = rustls::Stream::new(&mut tls, &mut stream);
        let host = self.address.authority();
        let request = format!("GET /healthz HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n");
        tls.write_all(request.as_bytes()).map_err(silent)?;
        match tls.read(&mut [0]).map_err(silent)? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            _ => Ok(()),
        }
    }

    /// The error if no connection can be made.
    #[must_use]
    pub fn unreachable(&self, error: &io::Error) -> Error {
        if let Some(silence) = silence_of(error) {
            return Error::Silent { silence, maybe_done: false };
        }
        let server = self.address.to_string();
        let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
        match inner {
            // The second: the system has no certificates at all.
            Some(why @ (rustls::Error::InvalidCertificate(_) | rustls::Error::General(_))) => {
                Error::NotTrusted { server, why: why.to_string() }
            }
            _ => Error::NoRemote { server, why: error.to_string() },
        }
    }
}

/// A time limit that has passed, as the silence of the server.
fn silent(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
            io::Error::other(Silence { pid: None, cause: Cause::Remote })
        }
        _ => error,
    }
}

fn builder(
    versions: &[&'static SupportedProtocolVersion],
) -> io::Result<ConfigBuilder<ClientConfig, WantsVerifier>> {
    ClientConfig::builder_with_provider(default_provider().into())
        .with_protocol_versions(versions)
        .map_err(io::Error::other)
}

impl Trust {
    fn config(
        &self,
        versions: &[&'static SupportedProtocolVersion],
    ) -> io::Result<ConfigBuilder<ClientConfig, WantsClientCert>> {
        let provider = Arc::new(default_provider());
        Ok(match self {
            Self::System => {
                let verifier = rustls_platform_verifier::Verifier::new(provider);
                let verifier = verifier.map_err(io::Error::other)?;
                builder(versions)?.dangerous().with_custom_certificate_verifier(Arc::new(verifier))
            }
            Self::Authority(text) => {
                let certificate = BASE64_STANDARD.decode(text).map_err(io::Error::other)?;
                let mut roots = RootCertStore::empty();
                roots.add(certificate.into()).map_err(io::Error::other)?;
                let verifier =
                    WebPkiServerVerifier::builder_with_provider(roots.into(), provider).build();
                let verifier = verifier.map_err(io::Error::other)?;
                builder(versions)?.dangerous().with_custom_certificate_verifier(verifier)
            }
        })
    }
}

/// A certificate's fingerprint, as `gpool ca show` prints it.
#[must_use]
pub fn fingerprint(certificate: &[u8]) -> String {
    let hash = ring::digest::digest(&ring::digest::SHA256, certificate);
    format!("SHA256:{}", BASE64_STANDARD_NO_PAD.encode(hash))
}

/// Takes note of the certificates that a server shows. The connection carries no secret.
#[derive(Debug)]
struct RecordingVerifier {
    provider: CryptoProvider,
    chain: Mutex<Vec<CertificateDer<'static>>>,
}

impl ServerCertVerifier for RecordingVerifier {
    fn verify_server_cert(
        &self,
        leaf: &CertificateDer<'_>,
        rest: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let chain = std::iter::once(leaf).chain(rest);
        let mut seen = self.chain.lock().unwrap_or_else(PoisonError::into_inner);
        *seen = chain.map(|it| it.clone().into_owned()).collect();
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let known = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signed, known)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let known = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signed, known)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
