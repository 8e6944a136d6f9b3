//! Charges evictions to the owner of the beneficiary: each victim runs again later, and stores the
//! files of one more run.

use gpool_model::Phase;
use gpool_model::effect::Change;
use gpool_model::job::{JobState, StopCause};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::watch;

use super::changes::Changes;
use crate::handle::CoreHandle;
use crate::view::View;

/// Counts until the server ends.
pub(crate) async fn charge(handle: CoreHandle, changes: Changes, mut end: watch::Receiver<bool>) {
    let mut notices = handle.notices();
    loop {
        let notice = tokio::select! {
            notice = notices.recv() => notice,
            _ = end.wait_for(|end| *end) => return,
        };
        let job = match notice {
            Ok(notice) => match notice.change {
                Change::JobState { job, state: JobState::Stopping, .. } => job,
                _ => continue,
            },
            // Those that were missed are not counted.
            Err(RecvError::Lagged(_)) => continue,
            Err(RecvError::Closed) => return,
        };
        let look = move |view: &View<'_>| {
            let phase = &view.world.job(job)?.job.phase;
            let Phase::Stopping { cause: StopCause::TakenBack { beneficiary, .. }, .. } = phase
            else {
                return None;
            };
            let owner = &view.world.row_for(*beneficiary)?.spec.owner;
            Some((owner.uid, phase.allocations().len() as u64))
        };
        let Ok(found) = handle.query(look).await else { return };
        if let Some((uid, n_runs)) = found {
            changes.charge_runs(uid, n_runs);
        }
    }
}
