//! What a job used of what it asked for, and sums over jobs that have ended. Speaks only of what
//! was measured.

use gpool_model::Bytes;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::job::Job;
use crate::time::Time;

/// Below this share of what was asked, less would have done.
const USED_LITTLE: f64 = 0.5;
/// Nothing is said of runs that were shorter.
const RAN_LONG_ENOUGH_S: f64 = 60.0;
/// From this share on, the next run may not fit.
const NEARLY_ALL: f64 = 0.9;

/// What became of a job: how long it waited and ran, and what it used of what it asked for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Report {
    /// The job.
    pub job: Job,
    /// Seconds from the submission to the start, or until now.
    pub waited_s: f64,
    /// Seconds for which it ran, or has run; `null` before it has started.
    pub ran_s: Option<f64>,
    /// GPUs allocated to it; of an array the sum over its elements, once for each run.
    pub n_gpus: u32,
    /// Allocated GPUs times hours; of an array the sum over its elements.
    pub gpu_hours: f64,
    /// Seconds of CPU time; `null` before it has ended.
    pub cpu_s: Option<f64>,
    /// CPU cores that it, or an element of it, kept busy on average.
    pub cores_used: Option<f64>,
    /// Of the cores that it asked for, the share that it used.
    pub cpu_share: Option<f64>,
    /// Most bytes of memory of one process at once.
    pub memory_peak: Option<u64>,
    /// Of the memory that it asked for, the share that one process had at the most.
    pub memory_share: Option<f64>,
    /// Of its time limit, the share that it ran.
    pub time_share: Option<f64>,
    /// What could be asked for instead.
    pub hints: Vec<Hint>,
}

/// Something that could be asked for otherwise, with its numbers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Hint {
    /// A stable word; new ones may be added.
    pub code: String,
    /// For people.
    pub text: String,
    /// What to write instead.
    pub flags: Option<String>,
}

/// Sums over jobs that have ended.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize, ToSchema)]
pub struct Totals {
    /// Jobs that were summed up.
    pub n_jobs: u64,
    /// Of those, the ones that succeeded.
    pub n_succeeded: u64,
    /// GPUs times hours.
    pub gpu_hours: f64,
    /// Hours of CPU time.
    pub cpu_hours: f64,
    /// Hours from submission to start, of those that started.
    pub waited_hours: f64,
    /// Of those, the ones that started.
    pub n_started: u64,
    /// Whether there are more than were summed up.
    pub is_partial: bool,
}

impl Report {
    /// The report of a job as it is shown at that moment.
    #[must_use]
    pub fn new(job: Job, now: Time) -> Self {
        let until = job.ended_at.unwrap_or(now);
        let ran_s = job.started_at.map(|started| crate::time::seconds(until.0.since(started.0)));
        // Elements of an array run side by side: their times are added up, as their usage is.
        let (n_gpus, ran) = match &job.array {
            Some(array) => (array.n_gpus, Some(array.ran_s)),
            None => (job.placement.iter().map(|it| it.devices.len() as u64).sum(), ran_s),
        };
        let ran = ran.filter(|ran| *ran > 0.0);
        let cpu_s = job.usage.map(|usage| usage.cpu_user_s + usage.cpu_system_s);
        let cores_used = ran.zip(cpu_s).map(|(ran, cpu)| cpu / ran);
        let memory_peak = job.usage.map(|usage| usage.memory_peak).filter(|peak| *peak > 0);
        let mut this = Self {
            waited_s: job.waited_s,
            ran_s,
            n_gpus: u32::try_from(n_gpus).unwrap_or(u32::MAX),
            gpu_hours: job.gpu_hours,
            cpu_s,
            cores_used,
            cpu_share: share(cores_used, job.cpus),
            memory_peak,
            memory_share: share(memory_peak.map(as_float), job.mem.map(as_float)),
            // The limit is that of each element.
            time_share: share(ran_s.filter(|_| job.array.is_none()), job.time_limit),
            hints: Vec::new(),
            job,
        };
        if this.job.state.is_end() && ran.is_some_and(|ran| ran >= RAN_LONG_ENOUGH_S) {
            this.hints = this.find_hints();
        }
        this
    }

    fn find_hints(&self) -> Vec<Hint> {
        let hint = |code: &str, text: String, flags: Option<String>| Hint {
            code: code.to_owned(),
            text,
            flags,
        };
        let mut hints = Vec::new();
        if let (Some(used), Some(asked), Some(part)) =
            (self.cores_used, self.job.cpus, self.cpu_share)
            && part < USED_LITTLE
            && asked > 1.0
        {
            let enough = used.ceil().max(1.0);
            let text = format!("{used:.1} of {asked} CPUs were busy on average");
            hints.push(hint("cpus_idle", text, Some(format!("--cpus {enough}"))));
        }
        if let (Some(peak), Some(asked), Some(part)) =
            (self.memory_peak, self.job.mem, self.memory_share)
        {
            let amounts = format!("{} of {}", Bytes::new(peak), Bytes::new(asked));
            if part < USED_LITTLE {
                // A quarter more than was seen, in whole GiB: the next run may differ a little.
                let gib = (peak + peak / 4).div_ceil(1 << 30).max(1);
                let text = format!("at most {amounts} of memory were used by one process");
                if gib << 30 < asked {
                    hints.push(hint("memory_unused", text, Some(format!("--mem {gib}G"))));
                }
            } else if part > NEARLY_ALL {
                let text = format!("{amounts} of memory were used: the next run may not fit");
                hints.push(hint("memory_short", text, None));
            }
        }
        hints.extend(self.time_hint());
        hints
    }

    fn time_hint(&self) -> Option<Hint> {
        let (ran, limit, part) = (self.ran_s?, self.job.time_limit?, self.time_share?);
        let (code, text, flags) = match self.job.cause.as_deref() {
            Some("time_limit") => {
                let text = format!("its limit of {} ended it", words(limit));
                ("time_short", text, Some(format!("--time {}", words(limit * 2.0))))
            }
            _ if part < USED_LITTLE => {
                let enough = ran + ran / 4.0;
                let text =
                    format!("it ran {} of {}: short jobs find gaps", words(ran), words(limit));
                ("time_unused", text, Some(format!("--time {}", words(enough))))
            }
            _ => return None,
        };
        Some(Hint { code: code.to_owned(), text, flags })
    }
}

fn share(used: Option<f64>, asked: Option<f64>) -> Option<f64> {
    let asked = asked.filter(|asked| *asked > 0.0)?;
    used.map(|used| used / asked)
}

#[expect(clippy::cast_precision_loss, reason = "exact enough for shares of memory")]
fn as_float(bytes: u64) -> f64 {
    bytes as f64
}

/// Seconds as a length of time that a flag takes, in whole minutes.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped before")]
fn words(seconds: f64) -> String {
    let minutes = (seconds / 60.0).ceil().clamp(1.0, 1e9) as u64;
    match (minutes / 60, minutes % 60) {
        (0, minutes) => format!("{minutes}m"),
        (hours, 0) => format!("{hours}h"),
        (hours, minutes) => format!("{hours}h{minutes}m"),
    }
}
