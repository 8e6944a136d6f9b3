//! Values of a device beyond utilization, memory, temperature and power.

use gpool_model::device::DeviceDetail;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Clocks, energy, and activity of the units of a device. A value that the device or driver does
/// not report is absent, never 0. NVIDIA devices report the activity from Hopper on.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize, ToSchema)]
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
        }
    }
}

/// Converts thousandths of a unit to the unit.
#[expect(clippy::cast_precision_loss, reason = "exact below 2^53, which no figure here reaches")]
pub(super) fn thousandths(parts: u64) -> f64 {
    parts as f64 / 1000.0
}
