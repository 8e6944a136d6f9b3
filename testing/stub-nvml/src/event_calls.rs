//! Symbols about events. The sets are kept here; the events come from the state file.

use std::sync::{Mutex, MutexGuard, PoisonError};

use nvml_wrapper_sys::bindings::{nvmlDevice_t, nvmlEventData_t};

use crate::call::{
    Code, GPU_IS_LOST, Handle, INVALID_ARGUMENT, NOT_SUPPORTED, TIMEOUT, call, device_call,
    device_ix, give, handle,
};

/// A device in a set: the wanted kinds of events, and the number of delivered ones.
struct Watch {
    device: usize,
    kinds: u64,
    n_delivered: usize,
}

/// By handle - 1. Freeing a set empties it.
static SETS: Mutex<Vec<Vec<Watch>>> = Mutex::new(Vec::new());

fn sets() -> MutexGuard<'static, Vec<Vec<Watch>>> {
    SETS.lock().unwrap_or_else(PoisonError::into_inner)
}

#[unsafe(no_mangle)]
extern "C" fn nvmlEventSetCreate(set: Option<&mut Handle>) -> Code {
    call("nvmlEventSetCreate", |_| {
        let mut sets = sets();
        sets.push(Vec::new());
        give(set, Some(sets.len()))
    })
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceRegisterEvents(device: Handle, kinds: u64, set: Handle) -> Code {
    device_call("nvmlDeviceRegisterEvents", device, |_, it| {
        let known = it.event_kinds.unwrap_or(u64::MAX);
        if it.events.is_none() || kinds & !known != 0 {
            return Err(NOT_SUPPORTED);
        }
        let device = device_ix(device).ok_or(INVALID_ARGUMENT)?;
        let mut sets = sets();
        let set = set.checked_sub(1).and_then(|ix| sets.get_mut(ix)).ok_or(INVALID_ARGUMENT)?;
        set.push(Watch { device, kinds, n_delivered: 0 });
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn nvmlEventSetWait_v2(
    set: Handle,
    data: Option<&mut nvmlEventData_t>,
    _timeout_ms: u32,
) -> Code {
    call("nvmlEventSetWait_v2", |state| {
        let data = data.ok_or(INVALID_ARGUMENT)?;
        let mut sets = sets();
        let set = set.checked_sub(1).and_then(|ix| sets.get_mut(ix)).ok_or(INVALID_ARGUMENT)?;
        for watch in set {
            let Some(device) = state.devices.get(watch.device) else { continue };
            if device.lost {
                return Err(GPU_IS_LOST);
            }
            let events = device.events.as_deref().unwrap_or_default();
            while let Some(event) = events.get(watch.n_delivered) {
                watch.n_delivered += 1;
                if event.kind & watch.kinds != 0 {
                    let device = handle(watch.device, None);
                    data.device = std::ptr::without_provenance_mut::<()>(device) as nvmlDevice_t;
                    data.eventType = event.kind;
                    data.eventData = event.data;
                    return Ok(());
                }
            }
        }
        Err(TIMEOUT)
    })
}

#[unsafe(no_mangle)]
extern "C" fn nvmlEventSetFree(set: Handle) -> Code {
    call("nvmlEventSetFree", |_| {
        let mut sets = sets();
        let set = set.checked_sub(1).and_then(|ix| sets.get_mut(ix)).ok_or(INVALID_ARGUMENT)?;
        set.clear();
        Ok(())
    })
}
