//! Values of a device that are read every few seconds: temperature, power, clocks, and from Hopper
//! on the activity of its units (GPM, the driver's performance counters).

use std::sync::PoisonError;

use gpool_model::device::{DeviceDetail, DeviceErrors};
use nvml_wrapper::Device;
use nvml_wrapper::enum_wrappers::device::{Clock, PerformancePolicy, TemperatureSensor};
use nvml_wrapper::enums::device::SampleValue;
use nvml_wrapper::enums::gpm::GpmMetricId;
use nvml_wrapper::gpm::gpm_metrics_get;
use nvml_wrapper::structs::device::FieldId;
use nvml_wrapper::sys_exports::field_id::NVML_FI_DEV_MEMORY_TEMP;

use super::card::{Card, Counters};
use super::errors::{Rows, corrected, uncorrected};
use super::supported;
use crate::source::SourceError;

/// The counters in the order of [`Card::note_counters`]: percentages, then MiB per second.
const COUNTERS: [GpmMetricId; 7] = [
    GpmMetricId::SmUtil,
    GpmMetricId::AnyTensorUtil,
    GpmMetricId::DramBwUtil,
    GpmMetricId::PcieRxPerSec,
    GpmMetricId::PcieTxPerSec,
    GpmMetricId::NvlinkTotalRxPerSec,
    GpmMetricId::NvlinkTotalTxPerSec,
];

impl Card {
    pub(super) fn detail(&self) -> Result<DeviceDetail, SourceError> {
        let device = &self.device;
        let capped = |policy| -> Result<Option<u64>, SourceError> {
            // The driver counts nanoseconds.
            Ok(supported(device.violation_status(policy))?.map(|it| it.violation_time / 1_000_000))
        };
        let mut detail = DeviceDetail {
            temperature_c: supported(device.temperature(TemperatureSensor::Gpu))?,
            memory_temperature_c: memory_temperature(device)?,
            power_mw: supported(device.power_usage())?.map(u64::from),
            energy_mj: supported(device.total_energy_consumption())?,
            sm_clock_mhz: supported(device.clock_info(Clock::SM))?,
            power_capped_ms: capped(PerformancePolicy::Power)?,
            thermal_capped_ms: capped(PerformancePolicy::Thermal)?,
            errors: self.errors()?,
            ..DeviceDetail::default()
        };
        self.note_counters(&mut detail)?;
        Ok(detail)
    }

    /// The errors of the device; nothing for a MIG instance, which has those of its device.
    fn errors(&self) -> Result<DeviceErrors, SourceError> {
        if self.parent().is_some() {
            return Ok(DeviceErrors::default());
        }
        let rows = Rows::read(&self.device)?;
        Ok(DeviceErrors {
            ecc_corrected: corrected(&self.device)?,
            ecc_uncorrected: uncorrected(&self.device)?,
            rows_corrected: rows.corrected,
            rows_uncorrected: rows.uncorrected,
            is_remap_failed: rows.is_failed,
            xids: self.faults().xids.clone(),
        })
    }

    /// Notes the activity since the last reading. The first reading shows none.
    fn note_counters(&self, detail: &mut DeviceDetail) -> Result<(), SourceError> {
        let mut last = self.counters.lock().unwrap_or_else(PoisonError::into_inner);
        if matches!(*last, Counters::Absent) {
            return Ok(());
        }
        if matches!(*last, Counters::Unread) && supported(self.device.gpm_support())? != Some(true)
        {
            *last = Counters::Absent;
            return Ok(());
        }
        let Some(now) = supported(self.device.gpm_sample())? else { return Ok(()) };
        if let Counters::Read(before) = &*last
            && let Some(values) = supported(gpm_metrics_get(self.nvml, before, &now, &COUNTERS))?
        {
            let values = values.into_iter().map(|value| Some(value.ok()?.value));
            let values: Vec<Option<f64>> = values.collect();
            let [sm, tensor, dram, received, sent, nv_received, nv_sent] = values[..] else {
                return Ok(());
            };
            detail.sm_active_permille = sm.and_then(permille);
            detail.tensor_active_permille = tensor.and_then(permille);
            detail.dram_active_permille = dram.and_then(permille);
            detail.pcie_received = received.and_then(bytes);
            detail.pcie_sent = sent.and_then(bytes);
            let nvlink = nv_received.zip(nv_sent).map(|(received, sent)| received + sent);
            detail.nvlink = nvlink.and_then(bytes);
        }
        *last = Counters::Read(now);
        Ok(())
    }
}

fn memory_temperature(device: &Device<'static>) -> Result<Option<u32>, SourceError> {
    let values = supported(device.field_values_for(&[FieldId(NVML_FI_DEV_MEMORY_TEMP)]))?;
    let value = values.into_iter().flatten().next().and_then(Result::ok);
    Ok(match value.and_then(|value| value.value.ok()) {
        Some(SampleValue::U32(degrees)) => Some(degrees),
        _ => None,
    })
}

fn permille(percent: f64) -> Option<u32> {
    whole(percent.min(100.0) * 10.0).and_then(|it| u32::try_from(it).ok())
}

fn bytes(mib: f64) -> Option<u64> {
    whole(mib * 1_048_576.0)
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the value is checked first, and a cast of a float saturates"
)]
fn whole(value: f64) -> Option<u64> {
    (value.is_finite() && value >= 0.0).then(|| value.round() as u64)
}
