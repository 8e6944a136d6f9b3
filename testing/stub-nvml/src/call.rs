//! The common part of all exported symbols: reads the state, hangs or fails if the state says so,
//! and finds the device. Handles are numbers, never addresses.

use std::ffi::c_char;
use std::path::Path;
use std::time::Duration;

use gpool_stub_state::{Device, Instance, Live, Process, State, state_file};

/// `nvmlReturn_t`.
pub(crate) type Code = u32;
pub(crate) const SUCCESS: Code = 0;
pub(crate) const INVALID_ARGUMENT: Code = 2;
pub(crate) const NOT_SUPPORTED: Code = 3;
pub(crate) const NOT_FOUND: Code = 6;
pub(crate) const INSUFFICIENT_SIZE: Code = 7;
pub(crate) const IN_USE: Code = 19;
pub(crate) const INSUFFICIENT_RESOURCES: Code = 23;
const DRIVER_NOT_LOADED: Code = 9;
pub(crate) const TIMEOUT: Code = 10;
pub(crate) const GPU_IS_LOST: Code = 15;
pub(crate) const OPERATING_SYSTEM: Code = 17;
pub(crate) const UNKNOWN: Code = 999;

/// `nvmlDevice_t` as a number: the device's index + 1, and the instance's index + 1 above bit 16.
pub(crate) type Handle = usize;

pub(crate) fn handle(device: usize, instance: Option<usize>) -> Handle {
    (device + 1) | instance.map_or(0, |ix| (ix + 1) << 16)
}

/// The index of a handle's device.
pub(crate) fn device_ix(handle: Handle) -> Option<usize> {
    (handle & 0xffff).checked_sub(1)
}

/// Answers a call about the system.
pub(crate) fn call(symbol: &str, answer: impl FnOnce(&State) -> Result<(), Code>) -> Code {
    let state = match returning(|state| state.hang.contains(symbol)) {
        Ok(state) => state,
        Err(code) => return code,
    };
    match state.errors.get(symbol) {
        Some(code) => *code,
        None => answer(&state).err().unwrap_or(SUCCESS),
    }
}

/// Answers a call about a device.
pub(crate) fn device_call(
    symbol: &str,
    handle: Handle,
    answer: impl FnOnce(&State, &Device) -> Result<(), Code>,
) -> Code {
    let Some(ix) = device_ix(handle) else { return INVALID_ARGUMENT };
    let hangs = |state: &State| {
        state.hang.contains(symbol)
            || state.devices.get(ix).is_some_and(|device| device.hang.contains(symbol))
    };
    let state = match returning(hangs) {
        Ok(state) => state,
        Err(code) => return code,
    };
    let Some(device) = state.devices.get(ix) else { return INVALID_ARGUMENT };
    if device.lost {
        return GPU_IS_LOST;
    }
    match device.errors.get(symbol).or_else(|| state.errors.get(symbol)) {
        Some(code) => *code,
        None => answer(&state, device).err().unwrap_or(SUCCESS),
    }
}

/// The processes that use the CUDA stub, and hold memory of a device.
pub(crate) fn cuda_processes(handle: Handle) -> Result<Vec<Process>, Code> {
    let file = state_file().map_err(|_| UNKNOWN)?;
    let ix = device_ix(handle).ok_or(INVALID_ARGUMENT)?;
    let records = Live::beside(&file).records().map_err(|_| UNKNOWN)?;
    let on_device = records.into_iter().filter_map(|record| {
        let memory = record.used.get(ix).copied().filter(|used| *used > 0)?;
        Some(Process { pid: record.pid, memory: Some(memory) })
    });
    Ok(on_device.collect())
}

/// The hard limit of this process's cgroup on a device, and the memory that counts against it.
pub(crate) fn own_limit(handle: Handle) -> Result<Option<(u64, u64)>, Code> {
    let file = state_file().map_err(|_| UNKNOWN)?;
    let ix = device_ix(handle).ok_or(INVALID_ARGUMENT)?;
    Live::beside(&file).own_limit(ix).map_err(|_| UNKNOWN)
}

/// The MIG instance of a handle; `None` for a whole device.
pub(crate) fn instance(device: &Device, handle: Handle) -> Option<&Instance> {
    (handle >> 16).checked_sub(1).and_then(|ix| device.instances.get(ix))
}

/// Writes a value through the caller's pointer.
pub(crate) fn give<T>(out: Option<&mut T>, value: Option<T>) -> Result<(), Code> {
    *out.ok_or(INVALID_ARGUMENT)? = value.ok_or(NOT_SUPPORTED)?;
    Ok(())
}

/// Writes a C string into the caller's buffer.
///
/// # Safety
/// `buffer` is null or has room for `length` characters.
pub(crate) unsafe fn give_text(buffer: *mut c_char, length: u32, text: &str) -> Result<(), Code> {
    if buffer.is_null() {
        return Err(INVALID_ARGUMENT);
    }
    if text.len() >= length as usize {
        return Err(INSUFFICIENT_SIZE);
    }
    // SAFETY: the caller promises `length` characters; the text with its NUL is no longer.
    let room = unsafe { std::slice::from_raw_parts_mut(buffer, text.len() + 1) };
    fill(room, text);
    Ok(())
}

/// Writes a C string into an array; text that is too long is cut.
pub(crate) fn fill(room: &mut [c_char], text: &str) {
    let last = room.len() - 1;
    for (to, from) in room[..last].iter_mut().zip(text.bytes().chain(std::iter::repeat(0))) {
        *to = c_char::from_ne_bytes([from]);
    }
    room[last] = 0;
}

/// Reads the state; blocks while it makes the call hang.
fn returning(hangs: impl Fn(&State) -> bool) -> Result<State, Code> {
    loop {
        let state = state_file().map_err(|_| UNKNOWN).and_then(|file| read(&file))?;
        if !hangs(&state) {
            return Ok(state);
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn read(file: &Path) -> Result<State, Code> {
    State::read(file).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => DRIVER_NOT_LOADED,
        _ => UNKNOWN,
    })
}
