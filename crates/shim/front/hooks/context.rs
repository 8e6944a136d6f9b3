//! Contexts, synchronisations and queries. The agent knows the size of a context from the driver.

use core::sync::atomic::Ordering::{Relaxed, SeqCst};

use crate::charge::{charge, device, device_anew, refund};
use crate::cuda::{DEVICE_UNAVAILABLE, OUT_OF_MEMORY, uuid};
use crate::driver::{SUCCESS, function};
use crate::entries::ix;
use crate::hooks::{array, memory};
use crate::process::{process, slot};
use crate::{gate, page};

type Retain = unsafe extern "C" fn(*mut u64, i32) -> u32;
type Create = unsafe extern "C" fn(*mut u64, u32, i32) -> u32;
type Create3 = unsafe extern "C" fn(*mut u64, usize, i32, u32, i32) -> u32;
type Create4 = unsafe extern "C" fn(*mut u64, usize, u32, i32) -> u32;
type Destroy = unsafe extern "C" fn(u64) -> u32;
type Release = unsafe extern "C" fn(i32) -> u32;
type Synchronize = unsafe extern "C" fn() -> u32;
type WithOne = unsafe extern "C" fn(usize) -> u32;

/// A bit of a process's contexts: it has one on a device without limit.
const UNLIMITED: u32 = 1 << 31;

/// Charges the first context of the process on a device. The charge stays until the process ends:
/// the driver keeps most of a context's memory.
fn charged(ordinal: i32, call: impl FnOnce() -> u32) -> u32 {
    // Also without a limit on the device, the agent must know the processes that use the gate.
    slot();
    let Some(process) = process() else { return call() };
    let contexts = process.contexts.load(SeqCst);
    let is_first = contexts & !UNLIMITED == 0;
    let Some(device) = (if is_first { device_anew(ordinal) } else { device(ordinal) }) else {
        if contexts & UNLIMITED == 0 && uuid(ordinal).is_some_and(page::is_left) {
            return DEVICE_UNAVAILABLE;
        }
        let result = call();
        if result == SUCCESS {
            process.contexts.fetch_or(UNLIMITED, SeqCst);
        }
        return result;
    };
    let bytes = page::device(device).map_or(0, |limits| limits.context.load(Relaxed));
    let bit = 1 << device;
    if process.contexts.fetch_or(bit, SeqCst) & bit != 0 {
        return call();
    }
    if bytes > 0 && !charge(device, bytes) {
        process.contexts.fetch_and(!bit, SeqCst);
        return OUT_OF_MEMORY;
    }
    let result = call();
    if result != SUCCESS {
        process.contexts.fetch_and(!bit, SeqCst);
        refund(device, bytes);
    }
    result
}

pub unsafe extern "C" fn retain(context: *mut u64, ordinal: i32) -> u32 {
    let Some(call) = function::<Retain>(ix::cuDevicePrimaryCtxRetain) else {
        return OUT_OF_MEMORY;
    };
    charged(ordinal, || call(context, ordinal))
}

pub unsafe extern "C" fn create(context: *mut u64, flags: u32, ordinal: i32) -> u32 {
    let Some(call) = function::<Create>(ix::cuCtxCreate_v2) else { return OUT_OF_MEMORY };
    charged(ordinal, || call(context, flags, ordinal))
}

pub unsafe extern "C" fn create_3(
    context: *mut u64,
    affinity: usize,
    n_affinity: i32,
    flags: u32,
    ordinal: i32,
) -> u32 {
    let Some(call) = function::<Create3>(ix::cuCtxCreate_v3) else { return OUT_OF_MEMORY };
    charged(ordinal, || call(context, affinity, n_affinity, flags, ordinal))
}

pub unsafe extern "C" fn create_4(
    context: *mut u64,
    parameters: usize,
    flags: u32,
    ordinal: i32,
) -> u32 {
    let Some(call) = function::<Create4>(ix::cuCtxCreate_v4) else { return OUT_OF_MEMORY };
    charged(ordinal, || call(context, parameters, flags, ordinal))
}

/// Ends a context, and with it the allocations in it.
pub unsafe extern "C" fn destroy<const IX: usize>(context: u64) -> u32 {
    let Some(call) = function::<Destroy>(IX) else { return SUCCESS };
    let result = call(context);
    memory::sweep();
    result
}

/// Ends one use of a primary context. The last one ends its allocations.
pub unsafe extern "C" fn release<const IX: usize>(ordinal: i32) -> u32 {
    let Some(call) = function::<Release>(IX) else { return SUCCESS };
    let result = call(ordinal);
    memory::sweep();
    result
}

/// Ends the primary context of a device with all that is in it.
pub unsafe extern "C" fn reset<const IX: usize>(ordinal: i32) -> u32 {
    let Some(call) = function::<Release>(IX) else { return SUCCESS };
    let result = call(ordinal);
    memory::sweep();
    if let Some(device) = device(ordinal).filter(|_| result == SUCCESS) {
        array::forget(device);
    }
    result
}

pub unsafe extern "C" fn synchronize() -> u32 {
    let Some(call) = function::<Synchronize>(ix::cuCtxSynchronize) else { return SUCCESS };
    gate::synchronize(|| call())
}

/// A query of a stream or an event.
pub unsafe extern "C" fn query<const IX: usize>(which: usize) -> u32 {
    let Some(call) = function::<WithOne>(IX) else { return SUCCESS };
    gate::query(|| call(which))
}

/// A synchronisation of one stream or one context.
pub unsafe extern "C" fn synchronize_one<const IX: usize>(which: usize) -> u32 {
    let Some(call) = function::<WithOne>(IX) else { return SUCCESS };
    gate::synchronize(|| call(which))
}
