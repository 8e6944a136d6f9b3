//! Which processes use a device at the moment.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use nvml_wrapper::error::NvmlError;

use super::card::Card;
use super::supported;
use crate::source::{RawProcess, SourceError};

impl Card {
    /// Notes which of the processes ran kernels or moved memory since the last call. The driver has
    /// samples only of processes that did; where it has none at all, nothing is noted.
    ///
    /// # Errors
    /// If the device is gone.
    pub(super) fn note_busy(
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
            let mut own = samples.iter().filter(|it| it.pid == *pid && it.timestamp > last);
            process.is_busy = Some(own.any(|sample| sample.sm_util > 0 || sample.mem_util > 0));
        }
        Ok(())
    }
}
