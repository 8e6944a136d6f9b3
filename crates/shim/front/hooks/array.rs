//! Arrays, as large as their descriptors say.

use crate::charge::{charge, current_device, refund};
use crate::cuda::OUT_OF_MEMORY;
use crate::driver::{SUCCESS, function};
use crate::entries::ix;
use crate::process::process;
use crate::table::Entry;

type Create = unsafe extern "C" fn(*mut u64, *const Flat) -> u32;
type Create3 = unsafe extern "C" fn(*mut u64, *const Solid) -> u32;
type CreateLevels = unsafe extern "C" fn(*mut u64, *const Solid, u32) -> u32;
type Destroy = unsafe extern "C" fn(u64) -> u32;

/// `CUDA_ARRAY_DESCRIPTOR`.
#[repr(C)]
pub struct Flat {
    width: usize,
    height: usize,
    format: u32,
    n_channels: u32,
}

/// `CUDA_ARRAY3D_DESCRIPTOR`.
#[repr(C)]
pub struct Solid {
    width: usize,
    height: usize,
    depth: usize,
    format: u32,
    n_channels: u32,
    flags: u32,
}

/// `CUDA_ARRAY3D_SPARSE`: the memory comes from handles that are mapped later.
const SPARSE: u32 = 0x40;

/// Bytes of an array; a side of 0 does not count.
fn bytes(sides: [usize; 3], format: u32, n_channels: u32) -> u64 {
    // Formats that are packed, compressed or planar have at most 4 bytes for each element.
    let channel = match format {
        0x01 | 0x08 | 0xc0..=0xc2 => 1,
        0x02 | 0x09 | 0x10 | 0xc3..=0xc5 => 2,
        _ => 4,
    };
    let element = u64::from(n_channels.max(1)).saturating_mul(channel);
    sides.iter().fold(element, |size, side| size.saturating_mul(*side.max(&1) as u64))
}

unsafe fn charged(array: *mut u64, bytes: u64, call: impl FnOnce() -> u32) -> u32 {
    let known = current_device().filter(|_| !array.is_null() && bytes > 0);
    let Some(device) = known else { return call() };
    if !charge(device, bytes) {
        return OUT_OF_MEMORY;
    }
    let result = call();
    if result != SUCCESS {
        refund(device, bytes);
    } else if let Some(process) = process() {
        let entry = Entry { key: *array, a: bytes, b: device as u64 };
        process.with_tables(|tables| tables.arrays.insert(entry));
    }
    result
}

pub unsafe extern "C" fn create(array: *mut u64, descriptor: *const Flat) -> u32 {
    let Some(call) = function::<Create>(ix::cuArrayCreate_v2) else { return OUT_OF_MEMORY };
    let bytes = descriptor
        .as_ref()
        .map_or(0, |it| bytes([it.width, it.height, 1], it.format, it.n_channels));
    charged(array, bytes, || call(array, descriptor))
}

/// Bytes of one level of an array.
fn level(it: &Solid, level: u32) -> u64 {
    if it.flags & SPARSE != 0 {
        return 0;
    }
    let sides = [it.width, it.height, it.depth].map(|side| side.checked_shr(level).unwrap_or(0));
    bytes(sides, it.format, it.n_channels)
}

pub unsafe extern "C" fn create_3d(array: *mut u64, descriptor: *const Solid) -> u32 {
    let Some(call) = function::<Create3>(ix::cuArray3DCreate_v2) else { return OUT_OF_MEMORY };
    let bytes = descriptor.as_ref().map_or(0, |it| level(it, 0));
    charged(array, bytes, || call(array, descriptor))
}

pub unsafe extern "C" fn create_levels(
    array: *mut u64,
    descriptor: *const Solid,
    n_levels: u32,
) -> u32 {
    let Some(call) = function::<CreateLevels>(ix::cuMipmappedArrayCreate) else {
        return OUT_OF_MEMORY;
    };
    let levels = 0..n_levels.min(64);
    let bytes = descriptor
        .as_ref()
        .map_or(0, |it| levels.fold(0, |sum: u64, ix| sum.saturating_add(level(it, ix))));
    charged(array, bytes, || call(array, descriptor, n_levels))
}

/// Gives the charges of all arrays on a device back, after a reset.
pub fn forget(device: usize) {
    let Some(process) = process() else { return };
    let mut place = 0;
    while let Some((found, entry)) = process.with_tables(|tables| tables.arrays.next(place)) {
        let gone = entry.b == device as u64
            && process.with_tables(|tables| tables.arrays.remove(entry.key)).is_some();
        if gone {
            refund(device, entry.a);
        }
        place = if gone { found } else { found.wrapping_add(1) };
    }
}

pub unsafe extern "C" fn destroy<const IX: usize>(array: u64) -> u32 {
    let Some(call) = function::<Destroy>(IX) else { return SUCCESS };
    let Some(process) = process() else { return call(array) };
    let Some(entry) = process.with_tables(|tables| tables.arrays.remove(array)) else {
        return call(array);
    };
    let result = call(array);
    if result == SUCCESS {
        refund(entry.b as usize, entry.a);
    } else {
        process.with_tables(|tables| tables.arrays.insert(entry));
    }
    result
}
