//! Errors that a device counts: of its memory, and memory rows that were replaced.

use nvml_wrapper::Device;
use nvml_wrapper::enum_wrappers::device::{EccCounter, MemoryError};
use nvml_wrapper::enums::device::SampleValue;
use nvml_wrapper::structs::device::FieldId;
use nvml_wrapper::sys_exports::field_id::{
    NVML_FI_DEV_REMAPPED_COR, NVML_FI_DEV_REMAPPED_FAILURE, NVML_FI_DEV_REMAPPED_PENDING,
    NVML_FI_DEV_REMAPPED_UNC, NVML_FI_DEV_RETIRED_PENDING,
};

use super::supported;
use crate::source::SourceError;

/// Memory rows that were replaced, or wait for it. Devices before Ampere retire pages instead.
pub(super) struct Rows {
    pub(super) corrected: Option<u64>,
    pub(super) uncorrected: Option<u64>,
    /// Whether a row could not be replaced.
    pub(super) is_failed: Option<bool>,
    /// Whether rows or pages are replaced at the next reset.
    pub(super) is_pending: bool,
}

impl Rows {
    pub(super) fn read(device: &Device<'_>) -> Result<Self, SourceError> {
        const FIELDS: [FieldId; 5] = [
            FieldId(NVML_FI_DEV_REMAPPED_COR),
            FieldId(NVML_FI_DEV_REMAPPED_UNC),
            FieldId(NVML_FI_DEV_REMAPPED_FAILURE),
            FieldId(NVML_FI_DEV_REMAPPED_PENDING),
            FieldId(NVML_FI_DEV_RETIRED_PENDING),
        ];
        let read = supported(device.field_values_for(&FIELDS))?.unwrap_or_default();
        let number = |ix: usize| match read.get(ix)?.as_ref().ok()?.value.as_ref().ok()? {
            SampleValue::U32(n) => Some(u64::from(*n)),
            SampleValue::U64(n) => Some(*n),
            SampleValue::I64(n) => u64::try_from(*n).ok(),
            SampleValue::F64(_) => None,
        };
        let is_set = |ix| number(ix).map(|n| n > 0);
        Ok(Self {
            corrected: number(0),
            uncorrected: number(1),
            is_failed: is_set(2),
            is_pending: is_set(3) == Some(true) || is_set(4) == Some(true),
        })
    }
}

/// Corrected memory errors since the driver was loaded.
pub(super) fn corrected(device: &Device<'_>) -> Result<Option<u64>, SourceError> {
    supported(device.total_ecc_errors(MemoryError::Corrected, EccCounter::Volatile))
}

/// Uncorrected memory errors since the driver was loaded.
pub(super) fn uncorrected(device: &Device<'_>) -> Result<Option<u64>, SourceError> {
    supported(device.total_ecc_errors(MemoryError::Uncorrected, EccCounter::Volatile))
}
