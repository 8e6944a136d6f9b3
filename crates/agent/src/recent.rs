//! The values of the last hour as they were taken, in bounded memory: those of devices, and the
//! metrics of jobs.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use gpool_model::device::DeviceSample;
use gpool_model::id::{DeviceUuid, JobId, TaskId};
use gpool_model::unit::{Bytes, Timestamp};
use gpool_protocol::recent::{DevicePoint, RECENT, TaskMetric};

/// A series counts like this many points more: its name and its place.
const SERIES_COST: usize = 16;
/// Times have this unit, and a series has one point for each.
const SECOND_MS: u64 = 1000;

/// Series of the last hour by name, each point with `N` values. A value that was not measured is
/// `NaN`.
pub struct Recent<K, const N: usize> {
    series: BTreeMap<K, VecDeque<(u32, [f32; N])>>,
    /// The points of all series, with [`SERIES_COST`] for each.
    n_points: usize,
    n_points_max: usize,
    /// When old series were last removed.
    swept_at: u32,
}

impl<K: Ord + Clone, const N: usize> Recent<K, N> {
    /// No series; they will take about this much memory together.
    pub fn new(memory: Bytes) -> Self {
        let point = u64::try_from(size_of::<(u32, [f32; N])>()).unwrap_or(1);
        let n_points_max = usize::try_from(memory.get() / point).unwrap_or(usize::MAX);
        Self { series: BTreeMap::new(), n_points: 0, n_points_max, swept_at: 0 }
    }

    /// Adds a point, or replaces that of the same second.
    pub fn add(&mut self, key: K, at: Timestamp, values: [f32; N]) {
        let second = second_of(at);
        // Also if the clock was set back.
        if second.abs_diff(self.swept_at) >= 60 {
            self.swept_at = second;
            self.retain(|points| points.retain(|(at, _)| is_recent(*at, second)));
        }
        if self.n_points >= self.n_points_max {
            // The older half of each series, so that this is rare.
            self.retain(|points| drop(points.drain(..points.len().div_ceil(2))));
        }
        let points = self.series.entry(key).or_default();
        self.n_points += if points.is_empty() { SERIES_COST } else { 0 };
        match points.back_mut().filter(|(at, _)| *at == second) {
            Some((_, last)) => *last = values,
            None => {
                points.push_back((second, values));
                self.n_points += 1;
            }
        }
    }

    fn retain(&mut self, mut trim: impl FnMut(&mut VecDeque<(u32, [f32; N])>)) {
        self.series.retain(|_, points| {
            trim(points);
            points.shrink_to_fit();
            !points.is_empty()
        });
        let cost = |points: &VecDeque<_>| points.len() + SERIES_COST;
        self.n_points = self.series.values().map(cost).sum();
    }

    /// The points of a series from a time on.
    pub fn of(&self, key: &K, since: Timestamp) -> Vec<(Timestamp, [f32; N])> {
        self.series.get(key).map(|points| tail(points, since)).unwrap_or_default()
    }

    /// The series with points from a time on.
    pub fn all(
        &self,
        since: Timestamp,
    ) -> impl Iterator<Item = (&K, Vec<(Timestamp, [f32; N])>)> + '_ {
        let from = second_of(since);
        let is_newer =
            move |points: &VecDeque<(u32, _)>| points.back().is_some_and(|it| it.0 >= from);
        let newer = self.series.iter().filter(move |(_, points)| is_newer(points));
        newer.map(move |(key, points)| (key, tail(points, since)))
    }
}

fn tail<const N: usize>(
    points: &VecDeque<(u32, [f32; N])>,
    since: Timestamp,
) -> Vec<(Timestamp, [f32; N])> {
    let from = second_of(since);
    let time = |second: u32| Timestamp::new(u64::from(second) * SECOND_MS);
    let newest_first = points.iter().rev().take_while(|(at, _)| *at >= from);
    let mut found: Vec<_> = newest_first.map(|(at, values)| (time(*at), *values)).collect();
    found.reverse();
    found
}

fn is_recent(at: u32, now: u32) -> bool {
    u64::from(at.abs_diff(now)) * SECOND_MS <= RECENT.get()
}

fn second_of(at: Timestamp) -> u32 {
    u32::try_from(at.get() / SECOND_MS).unwrap_or(u32::MAX)
}

/// The recent values of a node, for its threads and its handle.
#[derive(Clone)]
pub(crate) struct RecentValues {
    devices: Arc<Mutex<Recent<DeviceUuid, 3>>>,
    metrics: Arc<Mutex<Recent<(TaskId, String), 1>>>,
}

impl RecentValues {
    /// No values; those of devices and those of jobs each take this much memory.
    pub(crate) fn new(memory: Bytes) -> Self {
        Self {
            devices: Arc::new(Mutex::new(Recent::new(memory))),
            metrics: Arc::new(Mutex::new(Recent::new(memory))),
        }
    }

    /// Adds the sample of a device.
    pub(crate) fn sampled(&self, device: &DeviceUuid, at: Timestamp, sample: &DeviceSample) {
        let utilization = sample.utilization_percent.map(|it| f64::from(it) / 100.0);
        let power = sample.detail.power_mw.map(|it| float(it) / 1000.0);
        let memory = sample.memory_used.map(|it| float(it.get()));
        let values = [utilization, memory, power].map(|it| it.map_or(f32::NAN, narrow));
        lock(&self.devices).add(device.clone(), at, values);
    }

    /// Adds metrics that a task has just reported.
    pub(crate) fn reported(&self, task: TaskId, at: Timestamp, values: BTreeMap<String, f64>) {
        let mut metrics = lock(&self.metrics);
        for (name, value) in values {
            metrics.add((task, name), at, [narrow(value)]);
        }
    }

    /// The points of a device from a time on.
    pub(crate) fn of_device(&self, device: &DeviceUuid, since: Timestamp) -> Vec<DevicePoint> {
        let points = lock(&self.devices).of(device, since);
        let known = |value: f32| Some(f64::from(value)).filter(|value| value.is_finite());
        let point = |(at, [utilization, memory, power]): (Timestamp, [f32; 3])| DevicePoint {
            at,
            utilization: known(utilization),
            memory_used: known(memory),
            power: known(power),
        };
        points.into_iter().map(point).collect()
    }

    /// The metrics of a job with its elements, or of all jobs, from a time on.
    pub(crate) fn metrics(&self, job: Option<JobId>, since: Timestamp) -> Vec<TaskMetric> {
        let metrics = lock(&self.metrics);
        let all = metrics.all(since);
        let is_wanted = |own: JobId| {
            let is_element = |job: JobId| job == JobId { element: None, ..own };
            job.is_none_or(|job| own == job || is_element(job))
        };
        let wanted = all.filter(|((task, _), _)| is_wanted(task.job));
        let metrics = wanted.map(|((task, name), points)| {
            let points = points.into_iter().map(|(at, [value])| (at, f64::from(value)));
            // JSON has no infinity, which a large value may have become.
            let points = points.filter(|(_, value)| value.is_finite());
            TaskMetric { task: *task, name: name.clone(), points: points.collect() }
        });
        metrics.collect()
    }
}

fn lock<T>(values: &Mutex<T>) -> MutexGuard<'_, T> {
    values.lock().unwrap_or_else(PoisonError::into_inner)
}

#[expect(clippy::cast_precision_loss, reason = "a point of a chart")]
fn float(value: u64) -> f64 {
    value as f64
}

#[expect(clippy::cast_possible_truncation, reason = "a point of a chart")]
fn narrow(value: f64) -> f32 {
    value as f32
}
