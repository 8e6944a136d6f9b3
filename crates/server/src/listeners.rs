//! The listeners beside the Unix socket. Whether they open depends on the machine: another process
//! has the port, an interface is not up yet, a certificate can't be read. The server starts without
//! them, reports it, and opens them when it can. Jobs need none of them.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::Context as _;
use tokio::net::TcpListener;

use crate::handle::CoreHandle;
use crate::tls::{NetworkConfig, Tls};
use crate::web::{Web, WebAddress};

/// Pause between two attempts.
const PAUSE: Duration = Duration::from_secs(1);

/// A listener that opens now or later.
pub type Opening<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// A listener.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Which {
    /// That of the dashboard on the loopback address.
    Dashboard,
    /// That of the network.
    Network,
}

impl Which {
    /// The name in metrics and logs.
    pub fn name(self) -> &'static str {
        match self {
            Self::Dashboard => "dashboard",
            Self::Network => "network",
        }
    }
}

/// The listeners of the settings, each with the reason why it is not open.
#[derive(Debug, Default)]
pub struct Listeners {
    faults: Mutex<BTreeMap<Which, Option<String>>>,
}

impl Listeners {
    fn faults(&self) -> MutexGuard<'_, BTreeMap<Which, Option<String>>> {
        self.faults.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Why a listener is not open that should be.
    pub fn fault(&self, which: Which) -> Option<String> {
        self.faults().get(&which).cloned().flatten()
    }

    /// All of them, each with whether it is open.
    pub fn all(&self) -> Vec<(Which, bool)> {
        self.faults().iter().map(|(which, fault)| (*which, fault.is_none())).collect()
    }

    fn note(&self, which: Which, fault: Option<String>) {
        let listener = which.name();
        let before = self.faults().insert(which, fault.clone()).flatten();
        match (before, fault) {
            (Some(_), None) => tracing::info!(listener, "it is open now"),
            (before, Some(fault)) if before.as_ref() != Some(&fault) => {
                tracing::error!(listener, fault, "not open; the server tries again every second");
            }
            _ => {}
        }
    }
}

/// Opens the dashboard. `None` if the settings have none, or if the usual address does not work.
///
/// # Errors
/// The address of the settings can never work.
pub async fn dashboard(
    handle: &CoreHandle,
    at: WebAddress,
) -> anyhow::Result<Option<Opening<(Arc<Web>, TcpListener)>>> {
    let shared = handle.shared.clone();
    let take = move |listener: TcpListener| {
        let web = Arc::new(Web::new(listener.local_addr()?, shared.sessions.clone()));
        assert!(shared.web.set(web.clone()).is_ok(), "the dashboard is opened once");
        anyhow::Ok((web, listener))
    };
    match at {
        WebAddress::None => Ok(None),
        WebAddress::Usual => Ok(match Web::usual().await {
            Some(listener) => Some(Box::pin(std::future::ready(take(listener)?))),
            None => None,
        }),
        WebAddress::At(at) => {
            let what = move || format!("can't listen on {at} for the dashboard");
            let take = Arc::new(take);
            let attempt = move || -> Opening<_> {
                let take = take.clone();
                Box::pin(async move { take(TcpListener::bind(at).await.with_context(what)?) })
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
            assert!(shared.network.set((tls.clone(), at)).is_ok(), "the network is opened once");
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

/// The files of a certificate exist and can't be used.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct BadCertificate(pub String);
