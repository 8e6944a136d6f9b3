//! Symbols about the library and the machine.

use std::ffi::{CStr, c_char, c_int};

use crate::call::{
    Code, Handle, INVALID_ARGUMENT, NOT_FOUND, SUCCESS, call, device_call, give, give_text, handle,
};

#[unsafe(no_mangle)]
extern "C" fn nvmlInit_v2() -> Code {
    call("nvmlInit_v2", |_| Ok(()))
}

#[unsafe(no_mangle)]
extern "C" fn nvmlInitWithFlags(_flags: u32) -> Code {
    call("nvmlInitWithFlags", |_| Ok(()))
}

#[unsafe(no_mangle)]
extern "C" fn nvmlShutdown() -> Code {
    SUCCESS
}

#[unsafe(no_mangle)]
extern "C" fn nvmlErrorString(_code: Code) -> *const c_char {
    c"stub error".as_ptr()
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlSystemGetDriverVersion(buffer: *mut c_char, length: u32) -> Code {
    // SAFETY: the caller guarantees the buffer and its length.
    call("nvmlSystemGetDriverVersion", |state| unsafe { give_text(buffer, length, &state.driver) })
}

#[unsafe(no_mangle)]
extern "C" fn nvmlSystemGetCudaDriverVersion_v2(version: Option<&mut c_int>) -> Code {
    call("nvmlSystemGetCudaDriverVersion_v2", |_| give(version, Some(13_000)))
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetCount_v2(count: Option<&mut u32>) -> Code {
    call("nvmlDeviceGetCount_v2", |state| give(count, u32::try_from(state.devices.len()).ok()))
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetHandleByIndex_v2(index: u32, device: Option<&mut Handle>) -> Code {
    let wanted = handle(index as usize, None);
    device_call("nvmlDeviceGetHandleByIndex_v2", wanted, |_, _| give(device, Some(wanted)))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetHandleByUUID(
    uuid: *const c_char,
    device: Option<&mut Handle>,
) -> Code {
    call("nvmlDeviceGetHandleByUUID", |state| {
        if uuid.is_null() {
            return Err(INVALID_ARGUMENT);
        }
        // SAFETY: not null, and the caller passes a C string.
        let uuid = unsafe { CStr::from_ptr(uuid) };
        let is_it = |own: &str| own.as_bytes() == uuid.to_bytes();
        let found = state.devices.iter().enumerate().find_map(|(ix, device)| {
            let part = || device.instances.iter().position(|part| is_it(&part.uuid));
            if is_it(&device.uuid) { Some((ix, None)) } else { Some((ix, Some(part()?))) }
        });
        let (ix, part) = found.ok_or(NOT_FOUND)?;
        give(device, Some(handle(ix, part)))
    })
}
