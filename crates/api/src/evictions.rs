//! Charges evictions to the owner of the beneficiary.

use tokio::sync::broadcast::error::RecvError;
use tokio::sync::watch;

use super::changes::Changes;
use gpool_server::evictions::Charge;
use gpool_server::handle::CoreHandle;

/// Charges until the server ends.
pub async fn charge(handle: CoreHandle, changes: Changes, mut end: watch::Receiver<bool>) {
    let mut charges = handle.shared.evictions.charges();
    loop {
        let charge = tokio::select! {
            charge = charges.recv() => charge,
            _ = end.wait_for(|end| *end) => return,
        };
        match charge {
            Ok(Charge { uid, n_runs }) => changes.charge_runs(uid, n_runs),
            // Those that were missed are not counted.
            Err(RecvError::Lagged(_)) => {}
            Err(RecvError::Closed) => return,
        }
    }
}
