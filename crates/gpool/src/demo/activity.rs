//! The utilization of simulated GPUs, which otherwise is zero: jobs of the demo seem to use theirs.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use gpool_device::SimControl;
use gpool_model::job::JobState;
use gpool_wire::Job;

use super::load::IDLE;

/// How often the utilization changes.
const EVERY: Duration = Duration::from_secs(2);

/// Sets the utilization of the simulated GPUs of one node.
pub struct Activity {
    control: SimControl,
    start: Instant,
    last: Option<Instant>,
    /// In percent, by the index of the device, as last set.
    set: BTreeMap<u32, u32>,
}

impl Activity {
    /// For `n_devices` GPUs with this control file.
    pub fn new(file: &Path, n_devices: u32) -> Self {
        let devices = 0..usize::try_from(n_devices).unwrap_or(0);
        let control = SimControl::new(file, devices);
        Self { control, start: Instant::now(), last: None, set: BTreeMap::new() }
    }

    /// Sets the utilization as if these jobs, of which some run, used their GPUs.
    pub fn follow(&mut self, jobs: &[Job]) {
        let now = Instant::now();
        if self.last.is_some_and(|last| now.duration_since(last) < EVERY) {
            return;
        }
        self.last = Some(now);
        let step = self.start.elapsed().as_secs() / EVERY.as_secs();
        let mut wanted: BTreeMap<u32, u32> = self.set.keys().map(|ix| (*ix, 0)).collect();
        for job in jobs.iter().filter(|job| job.state == JobState::Running) {
            let devices = job.placement.iter().flat_map(|placed| &placed.devices);
            wanted.extend(devices.map(|ix| (*ix, percent(job, *ix, step))));
        }
        for (ix, percent) in &wanted {
            // A failed edit leaves the old figure: the jobs do not depend on it.
            if self.set.get(ix) != Some(percent)
                && let Ok(device) = usize::try_from(*ix)
            {
                drop(self.control.utilize(device, *percent));
            }
        }
        self.set = wanted;
    }
}

/// A level for each job, with a little change over time.
fn percent(job: &Job, device: u32, step: u64) -> u32 {
    if job.name == IDLE {
        return 0;
    }
    let seed = job.id.bytes().fold(0_u64, |sum, byte| sum * 31 + u64::from(byte));
    let wave = (step * 7 + u64::from(device) * 5) % 13;
    u32::try_from(40 + seed % 48 + wave).unwrap_or(100)
}
