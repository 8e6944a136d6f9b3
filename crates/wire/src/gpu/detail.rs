//! Values of a device beyond utilization, memory, temperature and power.

use std::collections::BTreeMap;

use gpool_model::device::{DeviceDetail, DeviceErrors};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Clocks, energy, and activity of the units of a device. A value that the device or driver does
/// not report is absent, never 0. NVIDIA devices report the activity from Hopper on.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct GpuDetail {
    /// Part of the streaming multiprocessors with work, 0 to 1, over the last seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sm_active: Option<f64>,
    /// Part of the time with working tensor cores, 0 to 1, over the last seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tensor_active: Option<f64>,
    /// Part of the memory bandwidth in use, 0 to 1, over the last seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dram_active: Option<f64>,
    /// Temperature of the memory in degrees Celsius.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_temperature_c: Option<u32>,
    /// Clock of the streaming multiprocessors in MHz.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sm_clock_mhz: Option<u32>,
    /// Energy in joules since the driver was loaded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub energy_j: Option<f64>,
    /// Seconds with clocks lowered by the power limit, since the driver was loaded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub power_capped_s: Option<f64>,
    /// Seconds with clocks lowered by the temperature, since the driver was loaded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thermal_capped_s: Option<f64>,
    /// Bytes per second that the device received over PCIe.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pcie_received: Option<u64>,
    /// Bytes per second that the device sent over PCIe.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pcie_sent: Option<u64>,
    /// Bytes per second over NVLink in both directions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nvlink: Option<u64>,
    /// Its errors.
    #[serde(skip_serializing_if = "GpuErrors::is_empty")]
    pub errors: GpuErrors,
}

/// Errors of a device. A figure that the device or driver does not count is absent, never 0.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct GpuErrors {
    /// Memory errors that ECC corrected, since the driver was loaded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ecc_corrected: Option<u64>,
    /// Memory errors that ECC could not correct, since the driver was loaded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ecc_uncorrected: Option<u64>,
    /// Memory rows replaced because of corrected errors, in the life of the device.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rows_corrected: Option<u64>,
    /// Memory rows replaced because of uncorrected errors, in the life of the device.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rows_uncorrected: Option<u64>,
    /// Whether a memory row could not be replaced, since no spare row is left.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remap_failed: Option<bool>,
    /// Xids, the driver's error reports, since the agent started: how many of each number. 13, 31,
    /// 43, 45, 68 and 109 are errors of programs.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub xids: BTreeMap<String, u64>,
}

impl GpuErrors {
    /// Whether nothing is known.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The errors that are not 0, for people.
    #[must_use]
    pub fn in_words(&self) -> Vec<String> {
        let count = |n: Option<u64>, one: &str| match n? {
            0 => None,
            1 => Some(format!("1 {one}")),
            n => Some(format!("{n} {one}s")),
        };
        let failed = (self.remap_failed == Some(true)).then(|| "no spare memory row".to_owned());
        let xid = |(number, n): (&String, &u64)| match n {
            1 => format!("Xid {number}"),
            n => format!("Xid {number} ({n} times)"),
        };
        let memory = [
            count(self.ecc_uncorrected, "uncorrected memory error"),
            count(self.ecc_corrected, "corrected memory error"),
            count(total(self.rows_corrected, self.rows_uncorrected), "replaced memory row"),
            failed,
        ];
        memory.into_iter().flatten().chain(self.xids.iter().map(xid)).collect()
    }
}

/// The sum of the numbers that are known.
fn total(one: Option<u64>, other: Option<u64>) -> Option<u64> {
    match (one, other) {
        (None, None) => None,
        (one, other) => Some(one.unwrap_or(0).saturating_add(other.unwrap_or(0))),
    }
}

impl From<DeviceErrors> for GpuErrors {
    fn from(errors: DeviceErrors) -> Self {
        Self {
            ecc_corrected: errors.ecc_corrected,
            ecc_uncorrected: errors.ecc_uncorrected,
            rows_corrected: errors.rows_corrected,
            rows_uncorrected: errors.rows_uncorrected,
            remap_failed: errors.is_remap_failed,
            xids: errors.xids.into_iter().map(|(xid, n)| (xid.to_string(), n)).collect(),
        }
    }
}

impl From<DeviceDetail> for GpuDetail {
    fn from(detail: DeviceDetail) -> Self {
        let ratio = |permille: Option<u32>| permille.map(|it| f64::from(it) / 1000.0);
        Self {
            sm_active: ratio(detail.sm_active_permille),
            tensor_active: ratio(detail.tensor_active_permille),
            dram_active: ratio(detail.dram_active_permille),
            memory_temperature_c: detail.memory_temperature_c,
            sm_clock_mhz: detail.sm_clock_mhz,
            energy_j: detail.energy_mj.map(thousandths),
            power_capped_s: detail.power_capped_ms.map(thousandths),
            thermal_capped_s: detail.thermal_capped_ms.map(thousandths),
            pcie_received: detail.pcie_received,
            pcie_sent: detail.pcie_sent,
            nvlink: detail.nvlink,
            errors: detail.errors.into(),
        }
    }
}

/// Converts thousandths of a unit to the unit.
#[expect(clippy::cast_precision_loss, reason = "exact below 2^53, which no figure here reaches")]
pub(super) fn thousandths(parts: u64) -> f64 {
    parts as f64 / 1000.0
}
