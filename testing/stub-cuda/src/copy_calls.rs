//! Symbols that move content between host and device.

use crate::code::{Code, INVALID_VALUE};
use crate::driver::call;

/// Copies after a check that the device's side is device memory.
///
/// # Safety
/// The host's side has `size` bytes.
unsafe fn copy(symbol: &str, device: u64, to: *mut u8, from: *const u8, size: usize) -> Code {
    call(symbol, |session, _| {
        if !session.memory.contains(device, size as u64) {
            return Err(INVALID_VALUE);
        }
        // SAFETY: one side was checked, the caller promises the other, and mappings of this
        // library do not overlap the program's memory.
        unsafe { std::ptr::copy(from, to, size) };
        Ok(())
    })
}

fn pointer(address: u64) -> *mut u8 {
    std::ptr::with_exposed_provenance_mut(usize::try_from(address).unwrap_or_default())
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemcpyHtoD_v2(to: u64, from: *const u8, size: usize) -> Code {
    // SAFETY: the caller promises the host's side.
    unsafe { copy("cuMemcpyHtoD_v2", to, pointer(to), from, size) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemcpyDtoH_v2(to: *mut u8, from: u64, size: usize) -> Code {
    // SAFETY: the caller promises the host's side.
    unsafe { copy("cuMemcpyDtoH_v2", from, to, pointer(from), size) }
}

#[unsafe(no_mangle)]
extern "C" fn cuMemsetD8_v2(to: u64, value: u8, count: usize) -> Code {
    call("cuMemsetD8_v2", |session, _| {
        if !session.memory.contains(to, count as u64) {
            return Err(INVALID_VALUE);
        }
        // SAFETY: the range was checked.
        unsafe { pointer(to).write_bytes(value, count) };
        Ok(())
    })
}
