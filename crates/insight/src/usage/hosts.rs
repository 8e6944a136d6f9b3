//! Use of hosts by running jobs: rates from two readings of their control groups. Pure.

use std::collections::BTreeMap;

use gpool_model::{Attempt, JobId, NodeName, TaskId};
use gpool_wire::live_usage::LiveUsage;

/// A look reads this many jobs at least, and otherwise a part of them: reading takes system calls.
const JOBS_MIN: usize = 500;
/// Every job is read once in this many looks, which is a minute.
const LOOKS: usize = 12;

/// A running job with its tasks and their nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Running {
    pub job: JobId,
    pub attempt: Attempt,
    pub tasks: Vec<(TaskId, NodeName)>,
}

/// Means since the reading before; a value that is not counted is absent.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct HostUse {
    /// CPU cores in use.
    pub cpu: Option<f64>,
    /// Memory in bytes.
    pub memory: Option<f64>,
    /// Bytes read in a second.
    pub read: Option<f64>,
    /// Bytes written in a second.
    pub write: Option<f64>,
}

/// The last reading of each job.
#[derive(Debug, Default)]
pub struct Readings {
    last: BTreeMap<JobId, (Attempt, f64, LiveUsage)>,
    /// The job that was read last.
    after: Option<JobId>,
}

impl Readings {
    /// The jobs to read now, each about once a minute at least. `running` has all of them, in the
    /// order of their IDs; the readings of others are forgotten.
    pub fn turn(&mut self, running: &[Running]) -> Vec<Running> {
        let has = |job: &JobId| running.binary_search_by_key(job, |it| it.job).is_ok();
        self.last.retain(|job, _| has(job));
        let n = running.len().div_ceil(LOOKS).max(JOBS_MIN).min(running.len());
        let first = running.partition_point(|it| Some(it.job) <= self.after);
        let (before, rest) = running.split_at(first);
        let turn: Vec<Running> = rest.iter().chain(before).take(n).cloned().collect();
        self.after = turn.last().map(|it| it.job);
        turn
    }

    /// Takes a reading at a time in seconds. The first of an attempt says nothing.
    pub fn read(&mut self, of: &Running, at_s: f64, now: LiveUsage) -> Option<HostUse> {
        let (attempt, before_s, before) = self.last.insert(of.job, (of.attempt, at_s, now))?;
        let passed = at_s - before_s;
        if attempt != of.attempt || passed <= 0.0 {
            return None;
        }
        // Less than before: the control group of a task is gone.
        let rate = |before: Option<f64>, now: Option<f64>| {
            Some((now? - before?) / passed).filter(|rate| *rate >= 0.0)
        };
        let bytes = |bytes: Option<u64>| bytes.map(float);
        Some(HostUse {
            cpu: rate(before.cpu_s, now.cpu_s),
            memory: bytes(now.memory),
            read: rate(bytes(before.read_bytes), bytes(now.read_bytes)),
            write: rate(bytes(before.written_bytes), bytes(now.written_bytes)),
        })
    }
}

#[expect(clippy::cast_precision_loss, reason = "bytes are below 2^53")]
fn float(value: u64) -> f64 {
    value as f64
}
