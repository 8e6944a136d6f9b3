//! Recent values for charts.

use std::collections::{BTreeMap, VecDeque};

use gpool_model::Millis;
use gpool_wire::usage::GpuHistory;
use gpool_wire::{Gpu, Job, Time};

use crate::kinds::ratio;

/// Most values of one series: more than a wide screen has columns.
pub const MOST: usize = 512;

/// Parts of a whole, 0 to 1, the newest last; `None` where nothing was measured.
pub type Series = Vec<Option<f64>>;

/// The recent use of GPUs, or of the machine's cores and memory.
#[derive(Debug, Clone, Default)]
pub struct History {
    of: BTreeMap<String, VecDeque<UseSample>>,
}

#[derive(Debug, Clone, Copy, Default)]
struct UseSample {
    compute: Option<f64>,
    memory: Option<f64>,
}

impl History {
    /// The name of the machine's cores and memory among the names of GPUs, which are UUIDs.
    pub const MACHINE: &str = "";

    /// Adds a reading of all GPUs. It forgets GPUs that are gone.
    pub fn add(&mut self, gpus: &[Gpu]) {
        self.of.retain(|name, _| name == Self::MACHINE || gpus.iter().any(|gpu| gpu.uuid == *name));
        for gpu in gpus {
            let memory = gpu.memory_used.map(|used| ratio(used, gpu.memory_total));
            self.add_one(&gpu.uuid, gpu.utilization, memory);
        }
    }

    /// Adds the values of the time before the first reading, at the distance of readings.
    pub fn begin(&mut self, past: &GpuHistory, gpus: &[&Gpu], every: Millis, now: Time) {
        let step_ms = past.step_s.max(1).saturating_mul(1000);
        for points in &past.gpus {
            let Some(gpu) = gpus.iter().find(|gpu| gpu.uuid == points.uuid) else { continue };
            let series = self.of.entry(points.uuid.clone()).or_default();
            for back in series.len()..MOST {
                let back = every.get().saturating_mul(u64::try_from(back).unwrap_or(u64::MAX));
                let at = now.0.get().saturating_sub(back);
                let Some(passed) = at.checked_sub(past.start.0.get()) else { break };
                let ix = usize::try_from(passed / step_ms).unwrap_or(usize::MAX);
                let value = |of: &[Option<f64>]| of.get(ix).copied().flatten();
                let memory = value(&points.memory_used).map(|used| used / whole(gpu.memory_total));
                series.push_front(UseSample { compute: value(&points.utilization), memory });
            }
        }
    }

    pub fn add_one(&mut self, name: &str, compute: Option<f64>, memory: Option<f64>) {
        let series = self.of.entry(name.to_owned()).or_default();
        if series.len() == MOST {
            series.pop_front();
        }
        series.push_back(UseSample { compute, memory });
    }

    /// Compute and memory of one GPU.
    #[must_use]
    pub fn of(&self, name: &str) -> (Series, Series) {
        let used = self.of.get(name).into_iter().flatten();
        used.map(|used| (used.compute, used.memory)).unzip()
    }

    /// Compute and memory of all GPUs of a job since it started, as averages. Earlier values are
    /// those of other jobs.
    #[must_use]
    pub fn of_job(&self, job: &Job, gpus: &[&Gpu], every: Millis, now: Time) -> (Series, Series) {
        let ran = job.run.started_at.map_or(Millis::ZERO, |at| now.0.since(at.0));
        let n = usize::try_from(ran.get() / every.get().max(1)).unwrap_or(usize::MAX);
        let own = |mut series: Series| series.split_off(series.len().saturating_sub(n));
        let has = |gpu: &&&Gpu| {
            let is_on =
                |on: &gpool_wire::PlacedOn| on.node == gpu.node && on.devices.contains(&gpu.index);
            job.placement.iter().any(is_on)
        };
        let each: Vec<(Series, Series)> =
            gpus.iter().filter(has).map(|gpu| self.of(&gpu.uuid)).collect();
        let (compute, memory): (Vec<Series>, Vec<Series>) = each.into_iter().unzip();
        (own(averages(&compute)), own(averages(&memory)))
    }
}

#[expect(clippy::cast_precision_loss, reason = "bytes of a chart")]
fn whole(bytes: u64) -> f64 {
    bytes.max(1) as f64
}

/// The average at each time; the newest values are at the same time.
#[expect(clippy::cast_precision_loss, reason = "a number of GPUs")]
fn averages(of: &[Series]) -> Series {
    let n = of.iter().map(Vec::len).max().unwrap_or(0);
    let at = |back: usize| {
        let values = of.iter().filter_map(|it| *it.get(it.len().checked_sub(back)?)?);
        let (sum, n) = values.fold((0.0, 0_usize), |(sum, n), value| (sum + value, n + 1));
        (n > 0).then(|| sum / n as f64)
    };
    (1..=n).rev().map(at).collect()
}
