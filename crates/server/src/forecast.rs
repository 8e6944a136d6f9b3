//! Keeps the forecast: when jobs will likely start. It is made beside the core, which only hands
//! out an excerpt of its state; after changes, one at a time, and so seldom that making it takes
//! little of the machine. Whoever asks gets the last one. If making it fails, nothing else does.
//!
//! What is learnt from how forecasts held is kept in a file of the state folder. It is no part of
//! the cluster's state: without it, learning begins anew.

use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use gpool_control::forecast::{self, Bucket, Forecast, Learnt, Part};
use gpool_model::effect::Change;
use gpool_model::job::JobState;
use gpool_model::{Eta, JobId, Notice, Phase, Timestamp};
use gpool_wire::{Calibration, ForecastState, Time};
use gpool_world::Snapshot;
use tokio::sync::Notify;
use tokio::sync::broadcast::error::{RecvError, TryRecvError};
use tokio::time::{Instant as Moment, sleep_until};

use crate::handle::{CoreHandle, View};

/// After a change, so long until a forecast is made: more may come.
const SETTLE: Duration = Duration::from_millis(200);
/// Between two forecasts, at the least.
const PAUSE: Duration = Duration::from_secs(1);
/// Between two forecasts, as often as the last one took.
const PAUSE_PER_COST: u32 = 10;
/// Without any change, how old a forecast becomes while jobs wait: those that run may not have
/// ended when they were expected to.
const STALE: Duration = Duration::from_secs(60);
/// How often what was learnt is written down.
const SAVE: Duration = Duration::from_secs(30);
/// Where it is kept, in the state folder.
const FILE: &str = "forecast.json";

/// The last forecast, and what was learnt.
pub(crate) struct Forecaster {
    path: PathBuf,
    kept: Mutex<Kept>,
    commanded: Notify,
}

#[derive(Default)]
struct Kept {
    last: Arc<Forecast>,
    version: u64,
    took: Duration,
    n_failed: u64,
    learnt: Arc<Learnt>,
    is_saved: bool,
}

impl Forecaster {
    /// Nothing was forecast yet; what was learnt before is read from the state folder.
    pub fn new(state_dir: &Path) -> Self {
        let path = state_dir.join(FILE);
        let learnt = std::fs::read(&path).ok().and_then(|bytes| read(&bytes));
        let learnt = Arc::new(learnt.unwrap_or_default());
        let kept = Mutex::new(Kept { learnt, is_saved: true, ..Kept::default() });
        Self { path, kept, commanded: Notify::new() }
    }

    /// Makes a new forecast due. Some commands publish nothing and change starts nevertheless: an
    /// edit, the resumption of a job whose GPUs are not free.
    pub fn commanded(&self) {
        self.commanded.notify_one();
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        // Each change of it is whole, whatever a panic elsewhere.
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What was learnt so far.
    pub fn learnt(&self) -> Arc<Learnt> {
        Arc::clone(&self.kept().learnt)
    }

    /// The last forecast.
    pub fn last(&self) -> Arc<Forecast> {
        Arc::clone(&self.kept().last)
    }

    /// What can be said of it.
    pub fn state(&self) -> ForecastState {
        let kept = self.kept();
        let is_made = kept.version > 0;
        let count = |n: usize| u64::try_from(n).unwrap_or(u64::MAX);
        ForecastState {
            version: kept.version,
            as_of: is_made.then_some(Time(kept.last.as_of)),
            horizon: is_made.then_some(Time(kept.last.horizon)),
            n_jobs: count(kept.last.etas.len()),
            n_beyond: kept.last.n_beyond,
            took_s: kept.took.as_secs_f64(),
            n_failed: kept.n_failed,
            n_told: count(kept.learnt.told.len()),
            calibration: calibration(&kept.learnt.buckets),
        }
    }

    fn started(&self, notice: &Notice) {
        if let Change::JobState { job, state: JobState::Starting, .. } = notice.change {
            let mut kept = self.kept();
            // Of an array the first start was told.
            for id in [job, JobId { element: None, ..job }] {
                if kept.learnt.told.contains_key(&id) {
                    Arc::make_mut(&mut kept.learnt).started(id, notice.time);
                    kept.is_saved = false;
                }
            }
        }
    }

    /// Takes over what was made.
    fn made(&self, part: &Part, forecast: Forecast, took: Duration) {
        let mut kept = self.kept();
        let learnt = Arc::make_mut(&mut kept.learnt);
        let before = learnt.told.len();
        let waits = |id: JobId| {
            part.excerpt.jobs.get(&id).map_or(part.n_beyond > 0, |row| {
                matches!(row.job.phase, Phase::Waiting { .. })
                    || row.job.phase.waits_for_room_since().is_some()
            })
        };
        learnt.keep_told(waits);
        for (id, eta) in &forecast.etas {
            if let (Some(row), Some(lead)) = (part.excerpt.jobs.get(id), forecast.leads.get(id)) {
                learnt.tell((*id, row.job.version), (eta, *lead), forecast.as_of);
            }
        }
        let is_other = learnt.told.len() != before;
        kept.is_saved &= !is_other;
        kept.last = Arc::new(forecast);
        kept.version += 1;
        kept.took = took;
    }

    fn nothing_waits(&self, now: Timestamp) {
        let mut kept = self.kept();
        if !kept.learnt.told.is_empty() {
            Arc::make_mut(&mut kept.learnt).keep_told(|_| false);
            kept.is_saved = false;
        }
        kept.last = Arc::new(Forecast {
            as_of: now,
            horizon: now.after(forecast::HORIZON),
            ..Forecast::default()
        });
        kept.version += 1;
        kept.took = Duration::ZERO;
    }

    fn failed(&self, why: &str) {
        tracing::error!(why, "no forecast was made; the last one stays");
        self.kept().n_failed += 1;
    }

    /// Writes down what was learnt, if anything was.
    pub fn save(&self) {
        let learnt = {
            let mut kept = self.kept();
            if std::mem::replace(&mut kept.is_saved, true) {
                return;
            }
            Arc::clone(&kept.learnt)
        };
        if let Err(error) = write(&self.path, &learnt) {
            tracing::warn!(%error, path = %self.path.display(), "can't keep what was learnt");
        }
    }
}

fn read(bytes: &[u8]) -> Option<Learnt> {
    serde_json::from_slice(bytes).ok().filter(Learnt::is_known)
}

fn write(path: &Path, learnt: &Learnt) -> std::io::Result<()> {
    let new = path.with_extension("json.new");
    let mut options = std::fs::File::options();
    let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(&new)?;
    file.write_all(&serde_json::to_vec(learnt)?)?;
    std::fs::rename(new, path)
}

#[expect(clippy::cast_precision_loss, reason = "figures for people")]
fn calibration(buckets: &[Bucket]) -> Vec<Calibration> {
    let next = buckets.iter().skip(1).map(|bucket| Some(bucket.lead_from));
    let seconds = |span: gpool_model::Millis| span.get() as f64 / 1000.0;
    let of_bucket = |(bucket, below): (&Bucket, Option<gpool_model::Millis>)| Calibration {
        lead_from_s: seconds(bucket.lead_from),
        lead_below_s: below.map(seconds),
        n: bucket.n,
        n_by_p90: bucket.n_by_p90,
        n_before_p10: bucket.n_before_p10,
        n_by_p50: bucket.n_by_p50,
        bias_s: bucket.late_ms as f64 / 1000.0 / bucket.n.max(1) as f64,
        factor: bucket.factor as f64 / Learnt::ONE as f64,
        factor_p50: bucket.factor_p50 as f64 / Learnt::ONE as f64,
    };
    buckets.iter().zip(next.chain([None])).map(of_bucket).collect()
}

/// Makes forecasts until it is dropped.
pub(crate) async fn keep(handle: CoreHandle) {
    let forecaster = Arc::clone(&handle.shared.forecaster);
    let mut notices = handle.notices();
    let mut is_due = true;
    let mut next = Moment::now() + SETTLE;
    let mut save_at = Moment::now() + SAVE;
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
                next = Moment::now() + PAUSE.max(began.elapsed() * PAUSE_PER_COST);
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

/// Makes one forecast. `hear` takes in what was published until the excerpt was taken. `None` if
/// the server is stopping.
async fn make(handle: &CoreHandle, mut hear: impl FnMut()) -> Option<()> {
    let forecaster = Arc::clone(&handle.shared.forecaster);
    let taken = handle.query(|view| (part_of_waiting(view), view.now)).await.ok()?;
    hear();
    let (Some(part), _) = taken else {
        forecaster.nothing_waits(taken.1);
        return Some(());
    };
    let learnt = forecaster.learnt();
    let began = Instant::now();
    let work = move || {
        let made = forecast::forecast(&part, forecast::JOBS_MAX, &learnt);
        (part, made)
    };
    match tokio::task::spawn_blocking(work).await {
        Ok((_, made)) if made.is_broken => forecaster.failed("a plan broke an invariant"),
        Ok((part, made)) => forecaster.made(&part, made, began.elapsed()),
        Err(error) if error.is_panic() => forecaster.failed("it panicked"),
        // The runtime is shutting down.
        Err(_) => return None,
    }
    Some(())
}

fn part_of_waiting(view: &View<'_>) -> Option<Part> {
    let n_by_state = view.world.n_by_state();
    let waiting = [JobState::Waiting, JobState::Pending, JobState::Paused];
    let waits = waiting.iter().any(|it| n_by_state.contains_key(it));
    let snapshot = Snapshot { world: view.world, now: view.now };
    waits.then(|| Part::of(&snapshot, forecast::JOBS_MAX, None))
}

impl CoreHandle {
    /// When a job will likely start, by the last forecast, and when that was made.
    pub(crate) fn eta_of(&self, job: &gpool_model::Job) -> Option<(Eta, Timestamp)> {
        let last = self.shared.forecaster.last();
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

    /// What was learnt from how forecasts held.
    pub(crate) fn learnt(&self) -> Arc<Learnt> {
        self.shared.forecaster.learnt()
    }
}
