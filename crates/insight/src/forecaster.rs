//! The last forecast, and the learnt calibration, which a file of the state folder keeps.

use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use gpool_control::forecast;
use gpool_control::forecast::{Bucket, Calibrator, Forecast, ForecastInput};
use gpool_model::effect::Change;
use gpool_model::job::JobState;
use gpool_model::{JobId, Notice, Phase, Timestamp};
use gpool_wire::{Calibration, ForecastState, Time};
use tokio::sync::Notify;

/// Where it is kept, in the state folder.
const FILE: &str = "forecast.json";

/// The last forecast, and the learnt calibration.
pub struct Forecaster {
    path: PathBuf,
    cache: Mutex<ForecastCache>,
    pub commanded: Notify,
}

#[derive(Default)]
struct ForecastCache {
    last: Arc<Forecast>,
    version: u64,
    took: Duration,
    n_failed: u64,
    calibrator: Arc<Calibrator>,
    is_saved: bool,
}

impl Forecaster {
    /// No forecast yet; reads the calibration from the state folder.
    pub fn new(state_dir: &Path) -> Self {
        let path = state_dir.join(FILE);
        let learnt = std::fs::read(&path).ok().and_then(|bytes| read(&bytes));
        let calibrator = Arc::new(learnt.unwrap_or_default());
        let cache =
            Mutex::new(ForecastCache { calibrator, is_saved: true, ..ForecastCache::default() });
        Self { path, cache, commanded: Notify::new() }
    }

    /// Makes a new forecast due. Some commands publish nothing and change starts nevertheless: an
    /// edit, the resumption of a job whose GPUs are not free.
    pub fn commanded(&self) {
        self.commanded.notify_one();
    }

    fn cache(&self) -> MutexGuard<'_, ForecastCache> {
        // Each change of it is whole, whatever a panic elsewhere.
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn calibrator(&self) -> Arc<Calibrator> {
        Arc::clone(&self.cache().calibrator)
    }

    pub fn last(&self) -> Arc<Forecast> {
        Arc::clone(&self.cache().last)
    }

    /// Returns the forecast's state for a response.
    pub fn state(&self) -> ForecastState {
        let kept = self.cache();
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
            n_told: count(kept.calibrator.first_forecasts.len()),
            calibration: calibration(&kept.calibrator.buckets),
        }
    }

    pub fn started(&self, notice: &Notice) {
        if let Change::JobState { job, state: JobState::Starting, .. } = notice.change {
            let mut kept = self.cache();
            // The forecast of an array names its first start.
            for id in [job, JobId { element: None, ..job }] {
                if kept.calibrator.first_forecasts.contains_key(&id) {
                    Arc::make_mut(&mut kept.calibrator).started(id, notice.time);
                    kept.is_saved = false;
                }
            }
        }
    }

    pub fn accept(&self, part: &ForecastInput, forecast: Forecast, took: Duration) {
        let mut kept = self.cache();
        let learnt = Arc::make_mut(&mut kept.calibrator);
        let before = learnt.first_forecasts.len();
        let waits = |id: JobId| {
            part.excerpt.jobs.get(&id).map_or(part.n_beyond > 0, |row| {
                matches!(row.job.phase, Phase::Waiting { .. })
                    || row.job.phase.waits_for_room_since().is_some()
            })
        };
        learnt.retain_forecasts(waits);
        for (id, eta) in &forecast.etas {
            if let (Some(row), Some(lead)) = (part.excerpt.jobs.get(id), forecast.leads.get(id)) {
                learnt.record_forecast((*id, row.job.version), (eta, *lead), forecast.as_of);
            }
        }
        let is_other = learnt.first_forecasts.len() != before;
        kept.is_saved &= !is_other;
        kept.last = Arc::new(forecast);
        kept.version += 1;
        kept.took = took;
    }

    pub fn nothing_waits(&self, now: Timestamp) {
        let mut kept = self.cache();
        if !kept.calibrator.first_forecasts.is_empty() {
            Arc::make_mut(&mut kept.calibrator).retain_forecasts(|_| false);
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

    pub fn failed(&self, why: &str) {
        tracing::error!(why, "forecast failed; the previous one stays");
        self.cache().n_failed += 1;
    }

    /// Writes the calibration to disk, if it changed.
    pub fn save(&self) {
        let learnt = {
            let mut kept = self.cache();
            if std::mem::replace(&mut kept.is_saved, true) {
                return;
            }
            Arc::clone(&kept.calibrator)
        };
        if let Err(error) = write(&self.path, &learnt) {
            tracing::warn!(%error, path = %self.path.display(), "can't store the calibration of \
                                                                 forecasts");
        }
    }
}

fn read(bytes: &[u8]) -> Option<Calibrator> {
    serde_json::from_slice(bytes).ok().filter(Calibrator::is_known)
}

fn write(path: &Path, learnt: &Calibrator) -> std::io::Result<()> {
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
        factor: bucket.factor as f64 / Calibrator::ONE as f64,
        factor_p50: bucket.factor_p50 as f64 / Calibrator::ONE as f64,
    };
    buckets.iter().zip(next.chain([None])).map(of_bucket).collect()
}
