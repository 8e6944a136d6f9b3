//! Plain allocations, and the sizes that the job sees.

use core::sync::atomic::Ordering::{Relaxed, SeqCst};

use super::share;
use crate::charge::{charge, correct, current_device, device, refund};
use crate::cuda::OUT_OF_MEMORY;
use crate::driver::{SUCCESS, function};
use crate::entries::ix;
use crate::layout::FLAG_MANAGED_MEMORY;
use crate::page::{self, total};
use crate::process::process;
use crate::table::Entry;

type Allocate = unsafe extern "C" fn(*mut u64, usize) -> u32;
type AllocateRows = unsafe extern "C" fn(*mut u64, *mut usize, usize, usize, u32) -> u32;
type AllocateManaged = unsafe extern "C" fn(*mut u64, usize, u32) -> u32;
type Free = unsafe extern "C" fn(u64) -> u32;
type FreeAsync = unsafe extern "C" fn(u64, usize) -> u32;
type GetAttribute = unsafe extern "C" fn(*mut u64, u32, u64) -> u32;
type Info = unsafe extern "C" fn(*mut usize, *mut usize) -> u32;
type Size = unsafe extern "C" fn(*mut usize, i32) -> u32;

/// `CU_POINTER_ATTRIBUTE_MEMORY_TYPE`.
const MEMORY_TYPE: u32 = 2;
/// The alignment of rows that devices have at least; the true one is known after the allocation.
const ROW: u64 = 512;

/// Charges, allocates, and remembers the address.
#[inline]
unsafe fn charged(pointer: *mut u64, bytes: u64, call: impl FnOnce() -> u32) -> u32 {
    let Some(device) = current_device().filter(|_| !pointer.is_null()) else { return call() };
    if !charge(device, bytes) {
        return OUT_OF_MEMORY;
    }
    let result = call();
    if result == SUCCESS {
        remember(*pointer, bytes, device);
    } else {
        refund(device, bytes);
    }
    result
}

fn remember(address: u64, bytes: u64, device: usize) {
    if let Some(process) = process() {
        let entry = Entry { key: address, a: bytes, b: device as u64 };
        process.with_tables(|tables| tables.pointers.insert(entry));
    }
}

pub unsafe extern "C" fn allocate(pointer: *mut u64, bytes: usize) -> u32 {
    let Some(call) = function::<Allocate>(ix::cuMemAlloc_v2) else { return OUT_OF_MEMORY };
    charged(pointer, bytes as u64, || call(pointer, bytes))
}

pub unsafe extern "C" fn allocate_managed(pointer: *mut u64, bytes: usize, flags: u32) -> u32 {
    let Some(call) = function::<AllocateManaged>(ix::cuMemAllocManaged) else {
        return OUT_OF_MEMORY;
    };
    share::flag(FLAG_MANAGED_MEMORY);
    charged(pointer, bytes as u64, || call(pointer, bytes, flags))
}

pub unsafe extern "C" fn allocate_rows(
    pointer: *mut u64,
    pitch: *mut usize,
    width: usize,
    height: usize,
    element: u32,
) -> u32 {
    let Some(call) = function::<AllocateRows>(ix::cuMemAllocPitch_v2) else {
        return OUT_OF_MEMORY;
    };
    let row = (width as u64).checked_next_multiple_of(ROW).unwrap_or(u64::MAX);
    let bytes = row.saturating_mul(height as u64);
    let result = charged(pointer, bytes, || call(pointer, pitch, width, height, element));
    if result == SUCCESS && !pitch.is_null() {
        let true_bytes = (*pitch as u64).saturating_mul(height as u64);
        let found = process().and_then(|process| {
            process.with_tables(|tables| {
                let entry = tables.pointers.get(*pointer)?;
                entry.a = true_bytes;
                Some(entry.b as usize)
            })
        });
        if let Some(device) = found {
            correct(device, bytes, true_bytes);
        }
    }
    result
}

/// Frees, and gives the charge back. The address is forgotten first: once it is free, another
/// thread may get it.
#[inline]
fn freed(address: u64, call: impl FnOnce() -> u32) -> u32 {
    let Some(process) = process() else { return call() };
    let Some(entry) = process.with_tables(|tables| tables.pointers.remove(address)) else {
        return call();
    };
    let result = call();
    if result == SUCCESS {
        refund(entry.b as usize, entry.a);
    } else {
        process.with_tables(|tables| tables.pointers.insert(entry));
    }
    result
}

pub unsafe extern "C" fn free(address: u64) -> u32 {
    let Some(call) = function::<Free>(ix::cuMemFree_v2) else { return SUCCESS };
    freed(address, || call(address))
}

pub unsafe extern "C" fn free_async<const IX: usize>(address: u64, stream: usize) -> u32 {
    let Some(call) = function::<FreeAsync>(IX) else { return SUCCESS };
    freed(address, || call(address, stream))
}

/// Gives the charges of allocations back that ended with their context.
#[cold]
pub fn sweep() {
    let get: Option<GetAttribute> = function(ix::cuPointerGetAttribute);
    let (Some(process), Some(get)) = (process(), get) else { return };
    let mut place = 0;
    while let Some((found, entry)) = process.with_tables(|tables| tables.pointers.next(place)) {
        let mut kind = 0;
        // SAFETY: the driver's function, with its type. It accepts any address.
        let lives = unsafe { get(&raw mut kind, MEMORY_TYPE, entry.key) } == SUCCESS;
        let gone =
            !lives && process.with_tables(|tables| tables.pointers.remove(entry.key)).is_some();
        if gone {
            refund(entry.b as usize, entry.a);
        }
        place = if gone { found } else { found.wrapping_add(1) };
    }
}

/// Free and all memory of the job's share. More use than the limit is no error: nothing is free.
pub unsafe extern "C" fn info(free: *mut usize, all: *mut usize) -> u32 {
    let Some(call) = function::<Info>(ix::cuMemGetInfo_v2) else { return OUT_OF_MEMORY };
    let result = call(free, all);
    let (Some(device), Some(usage)) = (current_device(), page::usage()) else { return result };
    let Some(limits) = page::device(device).filter(|_| result == SUCCESS) else { return result };
    let limit = limits.limit.load(Relaxed);
    if !free.is_null() {
        let left = limit.saturating_sub(total(usage, device));
        *free = left.min(*free as u64) as usize;
    }
    if !all.is_null() {
        *all = limit.min(*all as u64) as usize;
    }
    result
}

/// The size of the job's share of a device.
pub unsafe extern "C" fn size(bytes: *mut usize, ordinal: i32) -> u32 {
    let Some(call) = function::<Size>(ix::cuDeviceTotalMem_v2) else { return OUT_OF_MEMORY };
    let result = call(bytes, ordinal);
    if let Some(limits) = device(ordinal).and_then(page::device)
        && result == SUCCESS
        && !bytes.is_null()
    {
        *bytes = limits.limit.load(SeqCst).min(*bytes as u64) as usize;
    }
    result
}
