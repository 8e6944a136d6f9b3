//! Faults that a device reports: events since the agent started, memory errors, and memory rows
//! that wait for a replacement. Faults of programs do not count.

use std::collections::BTreeMap;

use gpool_model::device::DeviceHealth;
use gpool_model::xid;
use nvml_wrapper::bitmasks::event::EventTypes;
use nvml_wrapper::enums::event::XidError;
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::{Device, EventSet, Nvml};

use super::errors::{Rows, uncorrected};
use super::supported;
use crate::source::SourceError;

/// `nvmlEventTypeFatalPoisonError` and `nvmlEventTypeGpuUnavailableError`, which the wrapper does
/// not define and old drivers do not know.
const NEWER_EVENTS: u64 = 0x2000 | 0x4000;

/// The most events that one call reads; the next call reads the rest.
const EVENTS_AT_ONCE: u32 = 32;

pub(super) struct Faults {
    /// Absent if the device or driver has no events.
    events: Option<EventSet<'static>>,
    /// The first event that makes the device unhealthy. It stays, since only a reset clears it, and
    /// a reset requires that the agent lets go of the device.
    condemned: Option<String>,
    /// Xids so far, by number.
    pub(super) xids: BTreeMap<u64, u64>,
}

impl Faults {
    /// Without events, as for a MIG instance: its parent's are read instead.
    pub(super) fn unheard() -> Self {
        Self { events: None, condemned: None, xids: BTreeMap::new() }
    }

    /// Registers for the device's events.
    pub(super) fn watch(
        nvml: &'static Nvml,
        device: &Device<'static>,
    ) -> Result<Self, SourceError> {
        let old = EventTypes::CRITICAL_XID_ERROR | EventTypes::DOUBLE_BIT_ECC_ERROR;
        let all = EventTypes::from_bits_retain(old.bits() | NEWER_EVENTS);
        let xid = EventTypes::CRITICAL_XID_ERROR;
        let mut events = None;
        for kinds in [all, old, xid] {
            let Some(set) = supported(nvml.create_event_set())? else { break };
            let registered = device.register_events(kinds, set).map_err(|error| error.error);
            events = supported(registered)?;
            if events.is_some() {
                break;
            }
        }
        Ok(Self { events, ..Self::unheard() })
    }

    pub(super) fn read(&mut self, device: &Device<'static>) -> Result<DeviceHealth, SourceError> {
        // Every device answers this call, so it shows first whether the device is gone.
        supported(device.memory_info())?;
        self.take_events()?;
        let why = match &self.condemned {
            Some(why) => Some(why.clone()),
            None => counter_fault(device)?,
        };
        Ok(match why {
            Some(why) => DeviceHealth::Unhealthy { why },
            None => DeviceHealth::Healthy,
        })
    }

    fn take_events(&mut self) -> Result<(), SourceError> {
        let Some(events) = &self.events else { return Ok(()) };
        for _ in 0..EVENTS_AT_ONCE {
            match events.wait(0) {
                Ok(event) => {
                    let fault = judge(event.event_type, event.event_data.as_ref());
                    self.condemned = self.condemned.take().or(fault);
                    if let Some(XidError::Value(number)) = event.event_data {
                        *self.xids.entry(number).or_default() += 1;
                    }
                }
                Err(NvmlError::GpuLost) => return Err(SourceError::Lost),
                // No event, or a driver that can't wait for events: no fault is known.
                Err(_) => break,
            }
        }
        Ok(())
    }
}

/// Why an event makes its device unhealthy, if it does.
pub fn judge(kind: EventTypes, xid: Option<&XidError>) -> Option<String> {
    match xid {
        Some(XidError::Value(number)) if xid::OF_PROGRAMS.contains(number) => None,
        Some(XidError::Value(number)) => Some(format!("Xid {number}")),
        Some(XidError::Unknown) => Some("an Xid without a number".into()),
        None if kind.contains(EventTypes::DOUBLE_BIT_ECC_ERROR) => {
            Some("an uncorrected memory error".into())
        }
        // The wrapper drops kinds that it does not define, and only two of those were requested.
        None if kind.is_empty() => {
            Some("the driver reports that its memory is unavailable or poisoned".into())
        }
        None => None,
    }
}

/// Why the device's counters make it unhealthy, if they do.
fn counter_fault(device: &Device<'_>) -> Result<Option<String>, SourceError> {
    if let Some(errors @ 1..) = uncorrected(device)? {
        return Ok(Some(format!("{errors} uncorrected memory errors since the driver was loaded")));
    }
    let rows = Rows::read(device)?;
    Ok(match (rows.is_failed, rows.is_pending) {
        (Some(true), _) => {
            Some("a faulty memory row could not be replaced; the GPU has no spare row left".into())
        }
        (_, true) => Some("faulty memory waits for a reset of the GPU to be replaced".into()),
        (_, false) => None,
    })
}
