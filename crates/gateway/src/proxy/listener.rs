//! Connections of clients, with or without TLS.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;

use super::request::{Peer, Proxy};
use crate::service::TlsFiles;

/// How long a client may take for TLS or for the head of a request.
const HEAD: Duration = Duration::from_secs(30);
/// The pause after a connection could not be accepted, as without free file descriptors.
const PAUSE: Duration = Duration::from_millis(50);

/// Reads a certificate and its key.
///
/// # Errors
/// A file can't be read, or they do not match.
pub fn acceptor(files: &TlsFiles) -> io::Result<TlsAcceptor> {
    let bad = |path: &std::path::Path, why: String| {
        io::Error::other(format!("can't use {}: {why}", path.display()))
    };
    let read = |path| std::fs::read(path).map_err(|why| bad(path, why.to_string()));
    let chain = CertificateDer::pem_slice_iter(&read(&files.chain)?)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|why| bad(&files.chain, why.to_string()))?;
    let key = PrivateKeyDer::from_pem_slice(&read(&files.key)?)
        .map_err(|why| bad(&files.key, why.to_string()))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .map_err(|why| bad(&files.chain, why.to_string()))?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}

/// Accepts connections until `stop` changes. Each connection then ends after its request.
pub async fn run(
    listener: TcpListener,
    tls: Option<TlsAcceptor>,
    proxy: Arc<Proxy>,
    mut stop: watch::Receiver<bool>,
) {
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = stop.changed() => return,
        };
        let Ok((stream, peer)) = accepted else {
            tokio::time::sleep(PAUSE).await;
            continue;
        };
        let _ = stream.set_nodelay(true);
        let (proxy, stop) = (proxy.clone(), stop.clone());
        let peer = Peer { address: address(peer), is_tls: tls.is_some() };
        let Some(tls) = tls.clone() else {
            tokio::spawn(serve(stream, proxy, peer, stop));
            continue;
        };
        tokio::spawn(async move {
            if let Ok(Ok(stream)) = tokio::time::timeout(HEAD, tls.accept(stream)).await {
                serve(stream, proxy, peer, stop).await;
            }
        });
    }
}

fn address(peer: SocketAddr) -> IpAddr {
    peer.ip().to_canonical()
}

async fn serve<S>(stream: S, proxy: Arc<Proxy>, peer: Peer, mut stop: watch::Receiver<bool>)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let service = service_fn(|request| {
        let proxy = proxy.clone();
        async move { Ok::<_, std::convert::Infallible>(proxy.answer(request, peer).await) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD)
        .serve_connection(TokioIo::new(stream), service)
        .with_upgrades();
    tokio::pin!(connection);
    let is_stopped = tokio::select! {
        _ = connection.as_mut() => false,
        _ = stop.changed() => true,
    };
    if is_stopped {
        connection.as_mut().graceful_shutdown();
        let _ = connection.await;
    }
}
