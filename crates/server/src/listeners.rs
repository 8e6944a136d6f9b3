//! The listeners beside the Unix socket. Whether they open depends on the machine: another process
//! has the port, an interface is not up yet, a certificate can't be read. The server starts without
//! them, reports it, and opens them when it can. Jobs need none of them.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A listener that opens now or later.
pub type Opening<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// A listener.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Which {
    /// That of the dashboard on the loopback address.
    Dashboard,
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

    /// Records why a listener is not open; `None` if it is.
    pub fn note(&self, which: Which, fault: Option<String>) {
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
