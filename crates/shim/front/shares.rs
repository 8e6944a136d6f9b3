//! The properties of this library as the front of `libnvidia-ml.so.1`, and the replaced calls: the
//! memory of a device, as the job's share.

use core::ffi::c_char;
use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::Relaxed;

use crate::driver::{SUCCESS, function};
use crate::entries::ix;
use crate::layout::NVML_VARIABLE;
use crate::page::{self, total};

type GetMemory = unsafe extern "C" fn(usize, *mut Memory) -> u32;
type GetMemory2 = unsafe extern "C" fn(usize, *mut Memory2) -> u32;
type GetUuid = unsafe extern "C" fn(usize, *mut c_char, u32) -> u32;

/// `nvmlReturn_t` values.
const LIBRARY_NOT_FOUND: u32 = 12;
const FUNCTION_NOT_FOUND: u32 = 13;

pub const FILE: &[u8] = b"libnvidia-ml.so.1";
pub const VARIABLE: &str = NVML_VARIABLE;

/// `nvmlMemory_t`.
#[repr(C)]
struct Memory {
    total: u64,
    free: u64,
    used: u64,
}

/// `nvmlMemory_v2_t`.
#[repr(C)]
struct Memory2 {
    version: u32,
    total: u64,
    reserved: u64,
    free: u64,
    used: u64,
}

/// Maps the ledger; returns whether there is one.
pub fn prepare() -> bool {
    page::map(false)
}

/// No call of NVML waits for released devices.
pub fn gate() -> Option<&'static AtomicU32> {
    None
}

/// No call of NVML uses a device.
pub fn before_work() {}

/// The replacement of a symbol.
pub fn replacement(ix: usize) -> Option<usize> {
    match ix {
        ix::nvmlDeviceGetMemoryInfo => Some(memory as *const () as usize),
        ix::nvmlDeviceGetMemoryInfo_v2 => Some(memory_2 as *const () as usize),
        _ => None,
    }
}

/// The target of all symbols without driver.
pub fn without_driver(ix: usize) -> usize {
    missing(ix, library_not_found as *const () as usize)
}

/// The target of a symbol that the driver does not have.
pub fn without_symbol(ix: usize) -> usize {
    missing(ix, function_not_found as *const () as usize)
}

/// One symbol returns a text instead of a result.
fn missing(ix: usize, target: usize) -> usize {
    if ix == ix::nvmlErrorString { text as *const () as usize } else { target }
}

unsafe extern "C" fn library_not_found() -> u32 {
    LIBRARY_NOT_FOUND
}

unsafe extern "C" fn function_not_found() -> u32 {
    FUNCTION_NOT_FOUND
}

unsafe extern "C" fn text() -> *const c_char {
    c"the driver's NVML library was not found".as_ptr()
}

/// Limit and use of the job on a device; `None` if the device is not in the ledger.
unsafe fn share(device: usize) -> Option<(u64, u64)> {
    let get: GetUuid = function(ix::nvmlDeviceGetUUID)?;
    let mut text = [0_u8; 96];
    if get(device, text.as_mut_ptr().cast(), text.len() as u32) != SUCCESS {
        return None;
    }
    let place = page::find(page::words(&parse(text.strip_prefix(b"GPU-")?)?))?;
    let limit = page::device(place)?.limit.load(Relaxed);
    Some((limit, total(page::usage()?, place)))
}

/// The bytes of a UUID in groups of hexadecimal digits.
fn parse(text: &[u8]) -> Option<[u8; 16]> {
    let mut digits = text.iter().filter(|byte| **byte != b'-');
    let mut digit = || (*digits.next()? as char).to_digit(16);
    let mut uuid = [0; 16];
    for byte in &mut uuid {
        *byte = (digit()? << 4 | digit()?) as u8;
    }
    Some(uuid)
}

unsafe extern "C" fn memory(device: usize, memory: *mut Memory) -> u32 {
    let Some(call) = function::<GetMemory>(ix::nvmlDeviceGetMemoryInfo) else {
        return FUNCTION_NOT_FOUND;
    };
    let result = call(device, memory);
    if result == SUCCESS
        && let (Some((limit, used)), Some(it)) = (share(device), memory.as_mut())
    {
        it.total = it.total.min(limit);
        it.free = it.free.min(limit.saturating_sub(used));
        it.used = used;
    }
    result
}

unsafe extern "C" fn memory_2(device: usize, memory: *mut Memory2) -> u32 {
    let Some(call) = function::<GetMemory2>(ix::nvmlDeviceGetMemoryInfo_v2) else {
        return FUNCTION_NOT_FOUND;
    };
    let result = call(device, memory);
    if result == SUCCESS
        && let (Some((limit, used)), Some(it)) = (share(device), memory.as_mut())
    {
        it.total = it.total.min(limit);
        it.free = it.free.min(limit.saturating_sub(used));
        it.used = used;
        it.reserved = 0;
    }
    result
}
