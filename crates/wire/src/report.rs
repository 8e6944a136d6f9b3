//! The resource usage of a job compared with its request, and totals over ended jobs. Reports
//! measured values only.

use gpool_model::prediction::with_reserve;
use gpool_model::{Bytes, GpuRequest};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::hint::Hint;
use crate::job::Job;
use crate::node_use::NodeUse;
use crate::time::Time;

/// Below this fraction of the request, a hint suggests a smaller request.
const USED_LITTLE: f64 = 0.5;
/// Minimum run time for hints, in seconds.
const RAN_LONG_ENOUGH_S: f64 = 60.0;
/// Below this utilization, a hint says that the GPUs were idle.
const IDLE: f64 = 0.1;
/// From this fraction on, a hint warns that the next run may not fit.
const NEARLY_ALL: f64 = 0.9;

/// The report of a job: waiting time, run time, and usage compared with the request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Report {
    /// The job.
    pub job: Job,
    /// Time from submission to start, or until now, in seconds.
    pub waited_s: f64,
    /// Run time so far in seconds. `null` before the start.
    pub ran_s: Option<f64>,
    /// Allocated GPUs; for an array, the sum over all runs of its elements.
    pub n_gpus: u32,
    /// Allocated GPUs times hours; for an array, the sum over its elements.
    pub gpu_hours: f64,
    /// CPU time in seconds. `null` before the end.
    pub cpu_s: Option<f64>,
    /// Average number of busy CPU cores of the job, or of one element of an array.
    pub cores_used: Option<f64>,
    /// Used fraction of the requested cores.
    pub cpu_share: Option<f64>,
    /// Peak memory of the largest process, in bytes.
    pub memory_peak: Option<u64>,
    /// Peak memory of the largest process as a fraction of the requested memory.
    pub memory_share: Option<f64>,
    /// Peak memory of all processes of a task, with cached files, in bytes. `null` if not counted.
    #[serde(default)]
    pub memory_peak_together: Option<u64>,
    /// Bytes read from block devices. `null` if not counted.
    #[serde(default)]
    pub read_bytes: Option<u64>,
    /// Bytes written to block devices. `null` if not counted.
    #[serde(default)]
    pub written_bytes: Option<u64>,
    /// Peak memory on one GPU, in bytes. `null` if not measured.
    pub gpu_memory_peak: Option<u64>,
    /// Peak memory on one GPU as a fraction of the memory that the job could have used there.
    pub gpu_memory_share: Option<f64>,
    /// Average fraction of the time with running kernels, 0 to 1, over the GPUs of the job; for a
    /// share of a GPU, only its own kernels. `null` if not measured.
    pub gpu_utilization: Option<f64>,
    /// The use of the GPUs on each node, where it was recorded. Empty for an array.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<NodeUse>,
    /// Run time as a fraction of the time limit.
    pub time_share: Option<f64>,
    /// Suggestions for the next request.
    pub hints: Vec<Hint>,
}

/// Totals over ended jobs.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize, ToSchema)]
pub struct Totals {
    /// Number of jobs in the totals.
    pub n_jobs: u64,
    /// Number of successful jobs.
    pub n_succeeded: u64,
    /// GPUs times hours.
    pub gpu_hours: f64,
    /// CPU time in hours.
    pub cpu_hours: f64,
    /// Total waiting time of the started jobs, from submission to start, in hours.
    pub waited_hours: f64,
    /// Number of started jobs.
    pub n_started: u64,
    /// Whether more jobs match than the totals include.
    pub is_partial: bool,
}

impl Report {
    /// Returns the report of a job at one time.
    #[must_use]
    pub fn new(job: Job, now: Time) -> Self {
        let until = job.run.ended_at.unwrap_or(now);
        let ran_s =
            job.run.started_at.map(|started| crate::time::seconds(until.0.since(started.0)));
        // Elements of an array run in parallel, so this adds up their run times, as for their
        // usage.
        let (n_gpus, ran) = match &job.array {
            Some(array) => (array.n_gpus, Some(array.ran_s)),
            None => (job.placement.iter().map(|it| it.devices.len() as u64).sum(), ran_s),
        };
        let ran = ran.filter(|ran| *ran > 0.0);
        let cpu_s = job.usage.total.map(|usage| usage.cpu_user_s + usage.cpu_system_s);
        let cores_used = ran.zip(cpu_s).map(|(ran, cpu)| cpu / ran);
        let memory_peak = job.usage.total.map(|usage| usage.memory_peak).filter(|peak| *peak > 0);
        let gpu_memory_peak = job.usage.total.and_then(|usage| usage.gpu_memory_peak);
        let gpu_memory_limit = job.usage.total.and_then(|usage| usage.gpu_memory_limit);
        let mut this = Self {
            waited_s: job.wait.waited_s,
            ran_s,
            n_gpus: u32::try_from(n_gpus).unwrap_or(u32::MAX),
            gpu_hours: job.usage.gpu_hours,
            cpu_s,
            cores_used,
            cpu_share: share(cores_used, job.request.cpu_cores()),
            memory_peak,
            memory_share: share(memory_peak.map(as_float), job.request.mem_bytes().map(as_float)),
            memory_peak_together: job.usage.total.and_then(|usage| usage.memory_peak_together),
            read_bytes: job.usage.total.and_then(|usage| usage.read_bytes),
            written_bytes: job.usage.total.and_then(|usage| usage.written_bytes),
            gpu_memory_peak,
            gpu_memory_share: share(gpu_memory_peak.map(as_float), gpu_memory_limit.map(as_float)),
            gpu_utilization: job.usage.total.and_then(|usage| usage.gpu_utilization),
            nodes: Vec::new(),
            // The limit applies to each element.
            time_share: share(ran_s.filter(|_| job.array.is_none()), job.request.time_seconds()),
            hints: Vec::new(),
            job,
        };
        if this.job.state.is_end() && ran.is_some_and(|ran| ran >= RAN_LONG_ENOUGH_S) {
            this.hints = this.find_hints();
        }
        this
    }

    /// Adds the use of the GPUs on each node, with a hint if only some were idle.
    #[must_use]
    pub fn with_nodes(mut self, nodes: Vec<NodeUse>) -> Self {
        self.nodes = nodes;
        let is_long = self.ran_s.is_some_and(|ran| ran >= RAN_LONG_ENOUGH_S);
        if self.job.state.is_end() && is_long {
            self.hints.extend(self.idle_part());
        }
        self
    }

    fn idle_part(&self) -> Option<Hint> {
        let used = self.nodes.iter().flat_map(|node| {
            node.gpus.iter().map(|gpu| (format!("{}:{}", node.node, gpu.index), gpu.utilization))
        });
        let used: Vec<(String, f64)> = used.filter_map(|(gpu, busy)| Some((gpu, busy?))).collect();
        let idle = used.iter().filter(|(_, busy)| *busy < IDLE);
        let idle: Vec<&str> = idle.map(|(gpu, _)| gpu.as_str()).collect();
        let is_some = !idle.is_empty() && idle.len() < used.len();
        // If the mean is that low, another hint covers all.
        let is_some = is_some && self.gpu_utilization.is_none_or(|busy| busy >= IDLE);
        let (code, flags) = ("gpus_idle_in_part".to_owned(), None);
        let text = format!("{} of {} GPUs were idle: {}", idle.len(), used.len(), idle.join(" "));
        is_some.then_some(Hint { code, text, flags })
    }

    fn find_hints(&self) -> Vec<Hint> {
        let hint = |code: &str, text: String, flags: Option<String>| Hint {
            code: code.to_owned(),
            text,
            flags,
        };
        let mut hints = Vec::new();
        if let (Some(used), Some(asked), Some(part)) =
            (self.cores_used, self.job.request.cpu_cores(), self.cpu_share)
            && part < USED_LITTLE
            && asked > 1.0
        {
            let enough = used.ceil().max(1.0);
            let text = format!("on average, {used:.1} of {asked} CPUs were busy");
            hints.push(hint("cpus_idle", text, Some(format!("--cpus {enough}"))));
        }
        if let (Some(peak), Some(asked), Some(part)) =
            (self.memory_peak, self.job.request.mem_bytes(), self.memory_share)
        {
            let amounts = format!("{} of {}", Bytes::new(peak), Bytes::new(asked));
            if part < USED_LITTLE {
                // All processes together may have needed more than the largest one.
                let gib = with_reserve(Bytes::new(self.memory_peak_together.unwrap_or(peak)));
                let text = format!("one process used at most {amounts} of memory");
                if gib << 30 < asked {
                    hints.push(hint("memory_unused", text, Some(format!("--mem {gib}G"))));
                }
            } else if part > NEARLY_ALL {
                let text = format!("it used {amounts} of memory: the next run may need more");
                hints.push(hint("memory_short", text, None));
            }
        }
        hints.extend(self.gpu_hint());
        hints.extend(self.time_hint());
        hints
    }

    fn gpu_hint(&self) -> Option<Hint> {
        let hint = |code: &str, text: String, flags: Option<String>| {
            Some(Hint { code: code.to_owned(), text, flags })
        };
        if let Some(busy) = self.gpu_utilization.filter(|busy| *busy < IDLE) {
            let text = format!("its GPUs were busy {:.0} % of the time", busy * 100.0);
            return hint("gpus_idle", text, None);
        }
        let (peak, part) = (self.gpu_memory_peak?, self.gpu_memory_share?);
        let limit = self.job.usage.total.and_then(|usage| usage.gpu_memory_limit)?;
        let amounts = format!("{} of {} of GPU memory", Bytes::new(peak), Bytes::new(limit));
        // The job may need all the compute of its GPU.
        let is_light = self.gpu_utilization.is_none_or(|busy| busy < USED_LITTLE);
        if part < USED_LITTLE && is_light {
            let gib = with_reserve(Bytes::new(peak));
            let text = format!("it used at most {amounts}");
            return hint("gpu_memory_unused", text, Some(format!("--gpu-memory {gib}G")));
        }
        let is_share = GpuRequest::parse(self.job.request.gpus_text())
            .is_ok_and(|gpus| gpus.share().is_some());
        if part > NEARLY_ALL && is_share {
            let text = format!("it used {amounts}: the next run may need more");
            return hint("gpu_memory_short", text, None);
        }
        None
    }

    fn time_hint(&self) -> Option<Hint> {
        let (ran, limit, part) = (self.ran_s?, self.job.request.time_seconds()?, self.time_share?);
        let (code, text, flags) = match self.job.run.cause.as_deref() {
            Some("time_limit") => {
                let text = format!("it reached its time limit of {}", words(limit));
                ("time_short", text, Some(format!("--time {}", words(limit * 2.0))))
            }
            _ if part < USED_LITTLE => {
                let enough = ran + ran / 4.0;
                let text = format!(
                    "it ran {} of its limit of {}: a shorter limit lets it start in gaps",
                    words(ran),
                    words(limit)
                );
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

/// Formats seconds as a flag's value, in whole minutes.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped before")]
fn words(seconds: f64) -> String {
    let minutes = (seconds / 60.0).ceil().clamp(1.0, 1e9) as u64;
    match (minutes / 60, minutes % 60) {
        (0, minutes) => format!("{minutes}m"),
        (hours, 0) => format!("{hours}h"),
        (hours, minutes) => format!("{hours}h{minutes}m"),
    }
}
