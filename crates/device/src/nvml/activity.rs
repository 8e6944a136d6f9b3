//! How much each process uses a device.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use nvml_wrapper::error::NvmlError;

use super::card::Card;
use super::supported;
use crate::source::{ProcessActivity, RawProcess, SourceError};

impl Card {
    /// Notes how much each of the processes used the device since the last call. The driver has
    /// samples only of processes that used it; where it has none at all, nothing is noted.
    ///
    /// # Errors
    /// If the device is gone.
    pub(super) fn note_activity(
        &self,
        processes: &mut BTreeMap<u32, RawProcess>,
    ) -> Result<(), SourceError> {
        // The whole buffer of the driver would be read each time without the last time.
        let last = self.sampled_until.load(Ordering::Relaxed);
        let samples = match self.device.process_utilization_stats(last) {
            Err(NvmlError::NotFound) => Vec::new(),
            other => match supported(other)? {
                Some(samples) => samples,
                None => return Ok(()),
            },
        };
        let newest = samples.iter().map(|sample| sample.timestamp).fold(last, u64::max);
        self.sampled_until.store(newest, Ordering::Relaxed);
        for (pid, process) in processes {
            let own = || samples.iter().filter(|it| it.pid == *pid && it.timestamp > last);
            process.activity = Some(ProcessActivity {
                compute_percent: mean(own().map(|sample| sample.sm_util)),
                traffic_percent: mean(own().map(|sample| sample.mem_util)),
            });
        }
        Ok(())
    }
}

/// The mean, rounded up, so that a little use is not none; 0 of nothing.
fn mean(values: impl Iterator<Item = u32>) -> u32 {
    let (sum, n) = values.fold((0_u32, 0_u32), |(sum, n), it| (sum.saturating_add(it), n + 1));
    sum.div_ceil(n.max(1))
}
