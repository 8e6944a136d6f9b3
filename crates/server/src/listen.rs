//! Opens the listeners beside the Unix socket, now or when the machine lets it.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use tokio::net::TcpListener;

use crate::handle::CoreHandle;
use crate::listeners::{Opening, Which};
use gpool_identity::tls::{BadCertificate, NetworkConfig, Tls};
use gpool_identity::web::{Loopback, Web, WebAddress};

/// Pause between two attempts.
const PAUSE: Duration = Duration::from_secs(1);

/// The listeners beside the Unix socket.
#[derive(Default)]
pub struct Others {
    /// The dashboard on a loopback address.
    pub web: Option<Opening<(Arc<Web>, Loopback)>>,
    pub network: Option<Opening<(TcpListener, Arc<Tls>)>>,
}

/// Opens the dashboard. `None` if the settings have none, or if the usual address does not work.
///
/// # Errors
/// The address of the settings can never work.
pub async fn dashboard(
    handle: &CoreHandle,
    at: WebAddress,
) -> anyhow::Result<Option<Opening<(Arc<Web>, Loopback)>>> {
    let shared = handle.shared.clone();
    let take = move |listener: Loopback| {
        let web = Arc::new(Web::new(listener.local_addr()?, shared.identities.sessions.clone()));
        assert!(shared.identities.web.set(web.clone()).is_ok(), "the dashboard is opened once");
        anyhow::Ok((web, listener))
    };
    match at {
        WebAddress::None => Ok(None),
        WebAddress::Usual => Ok(match Loopback::usual().await {
            Some(listener) => Some(Box::pin(std::future::ready(take(listener)?))),
            None => None,
        }),
        WebAddress::At(at) => {
            let what = move || format!("can't listen on {at} for the dashboard");
            let take = Arc::new(take);
            let attempt = move || -> Opening<_> {
                let take = take.clone();
                Box::pin(async move { take(Loopback::bind(at).await.with_context(what)?) })
            };
            open(handle, Which::Dashboard, attempt).await.map(Some)
        }
    }
}

/// Opens the listener on the network.
///
/// # Errors
/// The settings can never work.
pub async fn network(
    handle: &CoreHandle,
    config: &NetworkConfig,
    state_dir: &Path,
) -> anyhow::Result<Opening<(TcpListener, Arc<Tls>)>> {
    let (shared, config) = (handle.shared.clone(), config.clone());
    let state_dir = state_dir.to_owned();
    let attempt = move || -> Opening<_> {
        let (shared, config, state_dir) = (shared.clone(), config.clone(), state_dir.clone());
        Box::pin(async move {
            let tls = Arc::new(Tls::open(&config, &state_dir)?);
            let listener = TcpListener::bind(config.listen).await;
            let listener =
                listener.with_context(|| format!("can't listen on {}", config.listen))?;
            let at = listener.local_addr().context("the listener has no address")?;
            tracing::info!(%at, fingerprint = tls.served(at.ip())?.fingerprint(), "on the network");
            assert!(
                shared.identities.network.set((tls.clone(), at)).is_ok(),
                "the network is opened once"
            );
            Ok((listener, tls))
        })
    };
    open(handle, Which::Network, attempt).await
}

/// Opens a listener now, or tries again until it opens.
async fn open<T: Send + 'static>(
    handle: &CoreHandle,
    which: Which,
    attempt: impl Fn() -> Opening<anyhow::Result<T>> + Send + 'static,
) -> anyhow::Result<Opening<T>> {
    let listeners = handle.shared.listeners.clone();
    let fault = match attempt().await {
        Ok(opened) => {
            listeners.note(which, None);
            return Ok(Box::pin(std::future::ready(opened)));
        }
        Err(error) if !may_pass(&error) => return Err(error),
        Err(error) => format!("{error:#}"),
    };
    listeners.note(which, Some(fault));
    Ok(Box::pin(async move {
        loop {
            tokio::time::sleep(PAUSE).await;
            let opened = attempt().await;
            listeners.note(which, opened.as_ref().err().map(|error| format!("{error:#}")));
            if let Ok(opened) = opened {
                return opened;
            }
        }
    }))
}

/// Whether the machine is the reason, and not the settings: the port is taken, the address does not
/// exist yet, or a certificate can't be used.
fn may_pass(error: &anyhow::Error) -> bool {
    use io::ErrorKind::{AddrInUse, AddrNotAvailable};
    let kind = error.downcast_ref::<io::Error>().map(io::Error::kind);
    matches!(kind, Some(AddrInUse | AddrNotAvailable)) || error.is::<BadCertificate>()
}
