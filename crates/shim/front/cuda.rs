//! The properties of this library as the front of `libcuda.so.1`, and the driver's functions that
//! several replacements need.

use core::sync::atomic::AtomicU32;

use crate::driver::{SUCCESS, function};
use crate::entries::ix;
use crate::layout::DRIVER_VARIABLE;
use crate::{gate, hooks, page, process};

/// `CUresult` values.
pub const OUT_OF_MEMORY: u32 = 2;
pub const DEVICE_UNAVAILABLE: u32 = 46;
pub const NO_DEVICE: u32 = 100;
const NOT_SUPPORTED: u32 = 801;

pub const FILE: &[u8] = b"libcuda.so.1";
pub const VARIABLE: &str = DRIVER_VARIABLE;

/// Maps the ledger; returns whether there is one.
pub fn prepare() -> bool {
    page::map(true) && process::create()
}

/// The word with the released bit, in a process with a ledger.
pub fn gate() -> Option<&'static AtomicU32> {
    page::grants().map(|grants| &grants.gate)
}

/// Waits before a call that uses a device.
pub fn before_work() {
    gate::wait_while_released();
}

/// The replacement of a symbol.
pub fn replacement(ix: usize) -> Option<usize> {
    hooks::find(ix)
}

/// The target of all symbols without driver.
pub fn without_driver(_ix: usize) -> usize {
    no_device as *const () as usize
}

/// The target of a symbol that the driver does not have.
pub fn without_symbol(_ix: usize) -> usize {
    not_supported as *const () as usize
}

unsafe extern "C" fn no_device() -> u32 {
    NO_DEVICE
}

unsafe extern "C" fn not_supported() -> u32 {
    NOT_SUPPORTED
}

/// The device number of the current context.
#[inline]
pub fn current_device() -> Option<i32> {
    let get: unsafe extern "C" fn(*mut i32) -> u32 = function(ix::cuCtxGetDevice)?;
    let mut device = -1;
    // SAFETY: the driver's function, with its type.
    (unsafe { get(&raw mut device) } == SUCCESS).then_some(device)
}

/// The UUID of a device number, as in the ledger.
pub fn uuid(ordinal: i32) -> Option<[u64; 2]> {
    type GetUuid = unsafe extern "C" fn(*mut [u8; 16], i32) -> u32;
    let get: GetUuid =
        function(ix::cuDeviceGetUuid_v2).or_else(|| function(ix::cuDeviceGetUuid))?;
    let mut uuid = [0; 16];
    // SAFETY: the driver's function, with its type.
    if unsafe { get(&raw mut uuid, ordinal) } != SUCCESS {
        return None;
    }
    Some(page::words(&uuid))
}
