//! Means and sums of a minute, from looks at all devices and waiting jobs. Pure.

use std::collections::BTreeMap;

use gpool_history::{Batch, DeviceSeries, JobSample, JobSeries, Minute, Sample, Use};
use gpool_model::Prices;
use gpool_model::device::DeviceSample;
use gpool_protocol::recent::METRICS_MAX;

use super::course::{Figures, SERIES, member};
use super::hosts::HostUse;

/// All devices, waiting and running jobs at one look.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct UsageSnapshot {
    pub devices: Vec<DeviceReading>,
    /// The jobs that wait for capacity, by group.
    pub waiting: Vec<WaitingJobs>,
    /// The guaranteed thousandths of GPUs, by project. Projects that are guaranteed all or nothing
    /// are not among them.
    pub guaranteed: Vec<(String, u64)>,
    /// The jobs that were read or reported metrics.
    pub jobs: Vec<JobReading>,
    pub prices: Prices,
}

/// A job since the look before.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct JobReading {
    pub job: String,
    pub host: HostUse,
    /// Its last metrics: name, rank of the task, value.
    pub metrics: Vec<(String, u32, f64)>,
}

/// Jobs that wait for capacity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WaitingJobs {
    pub project: String,
    pub user: String,
    /// The model that they request, as in requests; empty if it can be any of several.
    pub model: String,
    pub kind: String,
    /// The pool that they request, or an empty string.
    pub pool: String,
    /// Requested thousandths of devices.
    pub milli: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceReading {
    /// Its UUID.
    pub device: String,
    /// Its model, as in requests.
    pub model: String,
    pub node: String,
    pub pool: String,
    pub sample: DeviceSample,
    /// The jobs that hold it, or else the users of other processes on it.
    pub held: Vec<HeldPart>,
}

/// A part of a device and its holder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldPart {
    /// The job; `None` for processes that gpool did not start.
    pub job: Option<String>,
    /// The project, or an empty string.
    pub project: String,
    pub user: String,
    /// The kind of the job, or `unmanaged`.
    pub kind: String,
    /// Thousandths of the device.
    pub milli: u64,
    /// Percentage of the time with running kernels of this holder, if it was measured.
    pub busy_percent: Option<u32>,
    /// Thousandths of the multiprocessors that worked for this holder, if that was measured.
    pub useful_permille: Option<u32>,
    /// Memory of this holder in bytes, if it was measured.
    pub memory: Option<u64>,
}

/// Collects looks until a minute is over.
#[derive(Debug, Default)]
pub struct Minutes {
    now: Option<Collected>,
}

/// The values of a minute.
#[derive(Debug)]
pub struct Collected {
    pub minute: Minute,
    devices: BTreeMap<String, [Mean; DeviceSeries::N]>,
    jobs: BTreeMap<String, [Mean; JobSeries::N]>,
    /// By job and name: the rank of the task, and its last value.
    metrics: BTreeMap<String, BTreeMap<String, (u32, f64)>>,
    /// By group, and whether busy time, useful time and energy were measured.
    uses: BTreeMap<(Group, [bool; 3]), Time>,
    /// Sums over the looks, by project; those of the cluster have no name.
    gpus: BTreeMap<String, Figures>,
    n_looks: u32,
}

/// Project, user, model, kind, node, pool and job.
type Group = [String; 7];

#[derive(Debug, Clone, Copy, Default)]
struct Mean {
    sum: f64,
    n: u32,
}

#[derive(Debug, Clone, Copy, Default)]
struct Time {
    allocated_ms: u64,
    busy_ms: u64,
    useful_ms: u64,
    energy_uj: u64,
    waited_ms: u64,
    guaranteed_ms: u64,
}

impl Mean {
    fn add(&mut self, value: Option<f64>) {
        if let Some(value) = value {
            self.sum += value;
            self.n += 1;
        }
    }

    fn get(self) -> Option<f64> {
        (self.n > 0).then(|| self.sum / f64::from(self.n))
    }
}

impl Minutes {
    /// Adds a look, which stands for the time since the look before. Returns the minute before if
    /// this look begins another one.
    pub fn add(
        &mut self,
        minute: Minute,
        passed_ms: u64,
        look: &UsageSnapshot,
    ) -> Option<Collected> {
        let is_over = self.now.as_ref().is_some_and(|now| now.minute != minute);
        let over = if is_over { self.now.take() } else { None };
        self.now.get_or_insert_with(|| Collected::new(minute)).add(passed_ms, look);
        over
    }
}

impl Collected {
    fn new(minute: Minute) -> Self {
        let (devices, jobs, metrics, uses, gpus) = Default::default();
        Self { minute, devices, jobs, metrics, uses, gpus, n_looks: 0 }
    }

    /// Adds GPUs to the sums of a project and of the cluster.
    fn add_gpus(&mut self, look: &UsageSnapshot) {
        self.n_looks += 1;
        let mut add = |project: &str, figures: Figures| {
            let sums = self.gpus.entry(project.to_owned()).or_default();
            sums.iter_mut().zip(figures).for_each(|(sum, more)| *sum += more);
        };
        let gpus = |milli: u64| float(milli) / 1000.0;
        add("", [0.0, 0.0, 0.0, gpus(1000 * look.devices.len() as u64)]);
        let held = look.devices.iter().flat_map(|device| &device.held);
        for held in held.filter(|held| held.job.is_some()) {
            let part = gpus(held.milli);
            let busy = part * f64::from(held.busy_percent.unwrap_or(0)) / 100.0;
            for project in ["", &held.project] {
                add(project, [part, busy, 0.0, 0.0]);
            }
        }
        for waiting in &look.waiting {
            let figures = [0.0, 0.0, gpus(waiting.milli), 0.0];
            for project in ["", &waiting.project] {
                add(project, figures);
            }
        }
        for (project, milli) in &look.guaranteed {
            add(project, [0.0, 0.0, 0.0, gpus(*milli)]);
        }
    }

    fn add(&mut self, passed_ms: u64, look: &UsageSnapshot) {
        self.add_gpus(look);
        for waiting in &look.waiting {
            let time = self.uses.entry((waiting.group(), [false; 3])).or_default();
            let waited_ms = passed_ms.saturating_mul(waiting.milli) / 1000;
            time.waited_ms = time.waited_ms.saturating_add(waited_ms);
        }
        for (project, milli) in &look.guaranteed {
            let mut group = Group::default();
            group[0].clone_from(project);
            let time = self.uses.entry((group, [false; 3])).or_default();
            let guaranteed_ms = passed_ms.saturating_mul(*milli) / 1000;
            time.guaranteed_ms = time.guaranteed_ms.saturating_add(guaranteed_ms);
        }
        let mut jobs: BTreeMap<&str, (Mean, Option<u64>)> = BTreeMap::new();
        for device in &look.devices {
            let means = self.devices.entry(device.device.clone()).or_default();
            for (mean, value) in means.iter_mut().zip(values(device)) {
                mean.add(value);
            }
            for held in &device.held {
                let power_mw = device.sample.detail.power_mw;
                let measured = [
                    held.busy_percent.is_some(),
                    held.useful_permille.is_some(),
                    power_mw.is_some(),
                ];
                let key = (group(device, held), measured);
                self.uses.entry(key).or_default().add(passed_ms, held, power_mw.unwrap_or(0));
                let Some(job) = &held.job else { continue };
                let (utilization, memory) = jobs.entry(job).or_default();
                utilization.add(held.busy_percent.map(|percent| f64::from(percent) / 100.0));
                *memory = held.memory.map_or(*memory, |more| Some(memory.unwrap_or(0) + more));
            }
        }
        for (job, (utilization, memory)) in jobs {
            let means = self.jobs.entry(job.to_owned()).or_default();
            means[JobSeries::GpuUtilization as usize].add(utilization.get());
            means[JobSeries::GpuMemory as usize].add(memory.map(float));
        }
        look.jobs.iter().for_each(|job| self.add_job(job));
    }

    fn add_job(&mut self, seen: &JobReading) {
        let means = self.jobs.entry(seen.job.clone()).or_default();
        let HostUse { cpu, memory, read, write } = seen.host;
        means[JobSeries::Cpu as usize].add(cpu);
        means[JobSeries::HostMemory as usize].add(memory);
        means[JobSeries::IoRead as usize].add(read);
        means[JobSeries::IoWrite as usize].add(write);
        if seen.metrics.is_empty() {
            return;
        }
        let metrics = self.metrics.entry(seen.job.clone()).or_default();
        for (name, rank, value) in &seen.metrics {
            let known = metrics.get(name);
            // Of several tasks, the one with the lowest rank counts.
            if known.map_or(metrics.len() < METRICS_MAX, |(of, _)| rank <= of) {
                metrics.insert(name.clone(), (*rank, *value));
            }
        }
    }

    /// Calls `write` with the values for the store.
    pub fn with_batch<T>(&self, write: impl FnOnce(&Batch<'_>) -> T) -> T {
        let devices: Vec<_> = self
            .devices
            .iter()
            .map(|(device, means)| Sample { device, values: means.map(Mean::get) })
            .collect();
        let of_project = |(name, sums): (&String, &Figures)| {
            let mut values = [None; DeviceSeries::N];
            for (series, sum) in SERIES.into_iter().zip(sums) {
                values[series as usize] = Some(sum / f64::from(self.n_looks.max(1)));
            }
            (member(name), values)
        };
        let gpus: Vec<_> = self.gpus.iter().map(of_project).collect();
        let devices: Vec<_> = devices
            .into_iter()
            .chain(gpus.iter().map(|(device, values)| Sample { device, values: *values }))
            .collect();
        let mut metrics: BTreeMap<&str, Vec<(&str, f64)>> = BTreeMap::new();
        for (job, values) in &self.metrics {
            let values = values.iter().map(|(name, (_, value))| (name.as_str(), *value));
            metrics.insert(job, values.collect());
        }
        let jobs: Vec<_> = self
            .jobs
            .iter()
            .map(|(job, means)| {
                let metrics = metrics.get(job.as_str()).map(Vec::as_slice).unwrap_or_default();
                JobSample { job, values: means.map(Mean::get), metrics }
            })
            .collect();
        let uses: Vec<_> = self.uses.iter().map(|(group, time)| time.of(group)).collect();
        write(&Batch { devices: &devices, jobs: &jobs, uses: &uses })
    }
}

impl Time {
    fn add(&mut self, passed_ms: u64, held: &HeldPart, power_mw: u64) {
        let allocated = passed_ms.saturating_mul(held.milli) / 1000;
        let part = |of: u64, permille: u64| of.saturating_mul(permille.min(1000)) / 1000;
        let add = |sum: &mut u64, more| *sum = sum.saturating_add(more);
        add(&mut self.allocated_ms, allocated);
        let busy = u64::from(held.busy_percent.unwrap_or(0)) * 10;
        add(&mut self.busy_ms, part(allocated, busy));
        let useful = u64::from(held.useful_permille.unwrap_or(0));
        add(&mut self.useful_ms, part(allocated, useful));
        // A holder of a part of the device uses this part of the energy.
        add(&mut self.energy_uj, allocated.saturating_mul(power_mw));
    }

    fn of<'a>(&self, (group, measured): &'a (Group, [bool; 3])) -> Use<'a> {
        let [project, user, model, kind, node, pool, job] = group;
        let [is_busy, is_useful, has_energy] = *measured;
        Use {
            project,
            user,
            model,
            kind,
            node,
            pool,
            job,
            allocated_ms: self.allocated_ms,
            busy_ms: is_busy.then_some(self.busy_ms),
            useful_ms: is_useful.then_some(self.useful_ms),
            energy_j: has_energy.then_some(self.energy_uj / 1_000_000),
            waited_ms: self.waited_ms,
            guaranteed_ms: self.guaranteed_ms,
        }
    }
}

impl WaitingJobs {
    fn group(&self) -> Group {
        let Self { project, user, model, kind, pool, milli: _ } = self;
        let none = String::new();
        [project, user, model, kind, &none, pool, &none].map(String::clone)
    }
}

fn group(device: &DeviceReading, held: &HeldPart) -> Group {
    let none = String::new();
    let job = held.job.as_ref().unwrap_or(&none);
    let DeviceReading { model, node, pool, .. } = device;
    [&held.project, &held.user, model, &held.kind, node, pool, job].map(String::clone)
}

/// The values in base units, in the order of the series.
fn values(device: &DeviceReading) -> [Option<f64>; DeviceSeries::N] {
    let sample = &device.sample;
    let mut values = [None; DeviceSeries::N];
    let mut set = |series: DeviceSeries, value| values[series as usize] = value;
    let percent = |percent: u32| f64::from(percent) / 100.0;
    let permille = |permille: u32| f64::from(permille) / 1000.0;
    let detail = &sample.detail;
    set(DeviceSeries::Utilization, sample.utilization_percent.map(percent));
    set(DeviceSeries::SmActive, detail.sm_active_permille.map(permille));
    set(DeviceSeries::TensorActive, detail.tensor_active_permille.map(permille));
    set(DeviceSeries::DramActive, detail.dram_active_permille.map(permille));
    set(DeviceSeries::MemoryUsed, sample.memory_used.map(|bytes| float(bytes.get())));
    set(DeviceSeries::Power, detail.power_mw.map(|power| float(power) / 1000.0));
    set(DeviceSeries::Temperature, detail.temperature_c.map(f64::from));
    set(DeviceSeries::MemoryTemperature, detail.memory_temperature_c.map(f64::from));
    set(DeviceSeries::SmClock, detail.sm_clock_mhz.map(|mhz| f64::from(mhz) * 1e6));
    set(DeviceSeries::PcieReceived, detail.pcie_received.map(float));
    set(DeviceSeries::PcieSent, detail.pcie_sent.map(float));
    set(DeviceSeries::Nvlink, detail.nvlink.map(float));
    let jobs = device.held.iter().filter(|held| held.job.is_some());
    let milli: u64 = jobs.map(|held| held.milli).sum();
    set(DeviceSeries::Allocated, Some(float(milli.min(1000)) / 1000.0));
    values
}

#[expect(clippy::cast_precision_loss, reason = "bytes and milliwatts are below 2^53")]
fn float(value: u64) -> f64 {
    value as f64
}
