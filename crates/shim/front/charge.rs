//! Charges to the ledger. A charge comes before the allocation, so the job never has more than is
//! granted; a failed allocation gives it back.

use core::sync::atomic::Ordering::SeqCst;

use crate::hooks::pool;
use crate::layout::{Device, Slot, UsageFile};
use crate::page::total;
use crate::process::{process, slot};
use crate::{ask, cuda, kernel, page};

/// Answers of the agent for one allocation: another process may take the granted memory.
const ROUNDS: u32 = 8;
/// How long the failed charge of another process can be in the way.
const PATIENCE_MS: u64 = 1;

/// The place of a device number in the ledger; `None` if it is not in it.
#[inline]
pub fn device(ordinal: i32) -> Option<usize> {
    let number = usize::try_from(ordinal).ok()?;
    match process()?.cached(number) {
        Some(place) => place,
        None => find(ordinal, number),
    }
}

/// The same for a process without context, which no restore has moved: its device numbers can be
/// other devices since it asked for them.
#[cold]
pub fn device_anew(ordinal: i32) -> Option<usize> {
    find(ordinal, usize::try_from(ordinal).ok()?)
}

#[cold]
fn find(ordinal: i32, number: usize) -> Option<usize> {
    let place = page::find(cuda::uuid(ordinal)?);
    process()?.cache(number, place);
    place
}

/// The place of the current context's device in the ledger.
#[inline]
pub fn current_device() -> Option<usize> {
    cuda::current_device().and_then(device)
}

/// Charges bytes within the grant.
#[inline]
fn charge_within(
    usage: &UsageFile,
    slot: &Slot,
    limits: &Device,
    device: usize,
    bytes: u64,
) -> bool {
    let Some(used) = slot.used.get(device) else { return false };
    let granted = limits.granted.load(SeqCst);
    // A charge that fails anyway must not be in the way of others.
    if total(usage, device).saturating_add(bytes) > granted {
        return false;
    }
    used.fetch_add(bytes, SeqCst);
    if total(usage, device) <= granted {
        return true;
    }
    used.fetch_sub(bytes, SeqCst);
    false
}

/// Charges bytes; asks the agent if they are above the grant. Returns whether they are charged.
#[inline]
pub fn charge(device: usize, bytes: u64) -> bool {
    let (Some(slot), Some(usage), Some(limits)) = (slot(), page::usage(), page::device(device))
    else {
        return false;
    };
    charge_within(usage, slot, limits, device, bytes)
        || charge_more(usage, slot, limits, device, bytes)
}

#[cold]
fn charge_more(usage: &UsageFile, slot: &Slot, limits: &Device, device: usize, bytes: u64) -> bool {
    if bytes > limits.limit.load(SeqCst) {
        return false;
    }
    for _ in 0..ROUNDS {
        pool::refresh_all(device);
        if charge_within(usage, slot, limits, device, bytes) {
            return true;
        }
        kernel::sleep(PATIENCE_MS);
        if charge_within(usage, slot, limits, device, bytes) {
            return true;
        }
        let is_owed = total(usage, device).saturating_add(bytes) <= limits.request.load(SeqCst);
        if !ask::for_memory(device, bytes, is_owed) {
            return false;
        }
        if charge_within(usage, slot, limits, device, bytes) {
            return true;
        }
    }
    false
}

/// Gives a charge back.
#[inline]
pub fn refund(device: usize, bytes: u64) {
    let Some(used) = slot().and_then(|slot| slot.used.get(device)) else { return };
    let before = used.fetch_sub(bytes, SeqCst);
    if before < bytes {
        // Another program wrote to the slot. A wrapped number would refuse all allocations.
        used.fetch_add(bytes - before, SeqCst);
    }
}

/// Replaces a charge by the true size, which is known after the allocation.
pub fn correct(device: usize, charged: u64, bytes: u64) {
    if bytes > charged {
        if let Some(used) = slot().and_then(|slot| slot.used.get(device)) {
            used.fetch_add(bytes - charged, SeqCst);
        }
    } else {
        refund(device, charged - bytes);
    }
}
