//! Keeps the forecast: the likely start of each job. It is computed beside the core, from an
//! excerpt of the state, after changes, one forecast at a time and with pauses between them that
//! bound its CPU time. Requests get the last forecast. A failed forecast affects nothing else.
//!
//! The corrections learnt from earlier forecasts are in a file of the state folder. It is not part
//! of the cluster's state: without the file, learning begins anew.

mod late;

use std::sync::Arc;
use std::time::{Duration, Instant};

use gpool_control::forecast::{self, Calibrator, ForecastInput};
use gpool_model::job::JobState;
use gpool_model::{Eta, Phase, Refusal, Timestamp};
use gpool_world::Snapshot;
use tokio::sync::broadcast::error::{RecvError, TryRecvError};
use tokio::time::{Instant as Moment, sleep_until};

use crate::handle::CoreHandle;
use crate::view::View;

/// Delay between a change and the next forecast, because more changes may follow.
const SETTLE: Duration = Duration::from_millis(200);
/// Between two forecasts, at the least.
const PAUSE: Duration = Duration::from_secs(1);
/// Between two forecasts, as often as the last one took.
const PAUSE_PER_COST: u32 = 10;
/// Without any change, how old a forecast becomes while jobs wait: those that run may not have
/// ended when they were expected to.
const STALE: Duration = Duration::from_secs(60);
/// How often the learnt corrections are written to their file.
const SAVE: Duration = Duration::from_secs(30);
/// Makes forecasts until it is dropped.
pub async fn keep(handle: CoreHandle) {
    let forecaster = Arc::clone(&handle.shared.insight.forecaster);
    let mut notices = handle.notices();
    let mut is_due = true;
    let mut next = Moment::now() + SETTLE;
    let mut save_at = Moment::now() + SAVE;
    let mut late_at = None;
    loop {
        tokio::select! {
            notice = notices.recv() => match notice {
                Ok(notice) => {
                    forecaster.started(&notice);
                    if !std::mem::replace(&mut is_due, true) {
                        next = next.max(Moment::now() + SETTLE);
                    }
                }
                Err(RecvError::Lagged(_)) => is_due = true,
                Err(RecvError::Closed) => return,
            },
            () = forecaster.commanded.notified() => {
                if !std::mem::replace(&mut is_due, true) {
                    next = next.max(Moment::now() + SETTLE);
                }
            }
            () = sleep_until(next), if is_due => {
                is_due = false;
                let began = Instant::now();
                let heard = || loop {
                    match notices.try_recv() {
                        Ok(notice) => forecaster.started(&notice),
                        Err(TryRecvError::Lagged(_)) => {}
                        Err(TryRecvError::Empty | TryRecvError::Closed) => return,
                    }
                };
                if make(&handle, heard).await.is_none() {
                    return;
                }
                match late::report(&handle).await {
                    Ok(next_late) => late_at = next_late,
                    Err(Refusal::ShuttingDown) => return,
                    Err(refusal) => tracing::warn!(?refusal, "can't report late jobs"),
                }
                next = Moment::now() + PAUSE.max(began.elapsed() * PAUSE_PER_COST);
            }
            // A message about a late job has a new forecast.
            () = sleep_until(late_at.unwrap_or(next)), if !is_due && late_at.is_some() => {
                (is_due, late_at) = (true, None);
            }
            () = sleep_until(next + STALE), if !is_due => {
                is_due = !forecaster.last().etas.is_empty();
                next = Moment::now();
            }
            () = sleep_until(save_at) => {
                save_at = Moment::now() + SAVE;
                let forecaster = Arc::clone(&forecaster);
                drop(tokio::task::spawn_blocking(move || forecaster.save()).await);
            }
        }
    }
}

/// Makes one forecast. `hear` handles the notices published before the excerpt was taken. Returns
/// `None` if the server is stopping.
async fn make(handle: &CoreHandle, mut hear: impl FnMut()) -> Option<()> {
    let forecaster = Arc::clone(&handle.shared.insight.forecaster);
    let taken = handle.query(|view| (part_of_waiting(view), view.now)).await.ok()?;
    hear();
    let (Some(part), _) = taken else {
        forecaster.nothing_waits(taken.1);
        return Some(());
    };
    let learnt = forecaster.calibrator();
    let began = Instant::now();
    let work = move || {
        let made = forecast::forecast(&part, forecast::JOBS_MAX, &learnt);
        (part, made)
    };
    match tokio::task::spawn_blocking(work).await {
        Ok((_, made)) if made.is_broken => forecaster.failed("a plan broke an invariant"),
        Ok((part, made)) => forecaster.accept(&part, made, began.elapsed()),
        Err(error) if error.is_panic() => forecaster.failed("it panicked"),
        // The runtime is shutting down.
        Err(_) => return None,
    }
    Some(())
}

fn part_of_waiting(view: &View<'_>) -> Option<ForecastInput> {
    let n_by_state = view.world.n_by_state();
    let waiting = [JobState::Waiting, JobState::Pending, JobState::Paused];
    let waits = waiting.iter().any(|it| n_by_state.contains_key(it));
    let snapshot = Snapshot { world: view.world, now: view.now };
    waits.then(|| ForecastInput::of(&snapshot, forecast::JOBS_MAX, None))
}

impl CoreHandle {
    /// When a job will likely start, by the last forecast, and when that was made.
    pub fn eta_of(&self, job: &gpool_model::Job) -> Option<(Eta, Timestamp)> {
        let last = self.shared.insight.forecaster.last();
        let eta = match &job.phase {
            Phase::Pending { .. } => last.eta_of(job.id),
            phase @ Phase::Paused { .. } if phase.waits_for_room_since().is_some() => {
                last.etas.get(&job.id).copied()
            }
            // Not followed is not the same as beyond: it may wait for what is held.
            Phase::Waiting { .. } => last.etas.get(&job.id).copied(),
            _ => None,
        };
        Some((eta?, last.as_of))
    }

    /// Returns the corrections learnt from earlier forecasts.
    pub fn calibrator(&self) -> Arc<Calibrator> {
        self.shared.insight.forecaster.calibrator()
    }
}
