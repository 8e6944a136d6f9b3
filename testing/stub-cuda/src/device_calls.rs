//! Symbols about the library and its devices.

use std::ffi::{c_char, c_int};

use crate::checkpoint;
use crate::code::{Code, INVALID_VALUE, SUCCESS, UNKNOWN, give};
use crate::driver::{ask, faults, start};
use crate::uuid::uuid_bytes;

#[unsafe(no_mangle)]
extern "C" fn cuInit(_flags: u32) -> Code {
    match start() {
        Ok(None) => SUCCESS,
        Ok(Some(socket)) => checkpoint::serve(&socket).map_or(UNKNOWN, |()| SUCCESS),
        Err(code) => code,
    }
}

#[unsafe(no_mangle)]
extern "C" fn cuDriverGetVersion(version: Option<&mut c_int>) -> Code {
    let found = faults("cuDriverGetVersion");
    let given = found.and_then(|state| give(version, state.cuda.version.unwrap_or(13_000)));
    given.err().unwrap_or(SUCCESS)
}

#[unsafe(no_mangle)]
extern "C" fn cuDeviceGetCount(count: Option<&mut c_int>) -> Code {
    ask("cuDeviceGetCount", |session, _| {
        give(count, c_int::try_from(session.n_devices()).map_err(|_| UNKNOWN)?)
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuDeviceGet(device: Option<&mut c_int>, ordinal: c_int) -> Code {
    ask("cuDeviceGet", |session, _| {
        session.device(ordinal)?;
        give(device, ordinal)
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDeviceGetName(buffer: *mut c_char, length: c_int, device: c_int) -> Code {
    ask("cuDeviceGetName", |session, state| {
        let name = &state.devices[session.device(device)?].name;
        // SAFETY: the caller guarantees the buffer and its length.
        unsafe { give_text(buffer, length, name) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDeviceGetPCIBusId(
    buffer: *mut c_char,
    length: c_int,
    device: c_int,
) -> Code {
    ask("cuDeviceGetPCIBusId", |session, state| {
        // Like the real one: the bus of the device at the start, also after a move.
        let bus = &state.devices[session.device(device)?].bus;
        // SAFETY: the caller guarantees the buffer and its length.
        unsafe { give_text(buffer, length, bus) }
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuDeviceGetUuid_v2(uuid: Option<&mut [u8; 16]>, device: c_int) -> Code {
    ask("cuDeviceGetUuid_v2", |session, state| {
        let ix = session.place[session.device(device)?];
        give(uuid, uuid_bytes(&state.devices[ix].uuid))
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuDeviceGetUuid(uuid: Option<&mut [u8; 16]>, device: c_int) -> Code {
    cuDeviceGetUuid_v2(uuid, device)
}

#[unsafe(no_mangle)]
extern "C" fn cuDeviceGetAttribute(
    value: Option<&mut c_int>,
    _attribute: u32,
    device: c_int,
) -> Code {
    ask("cuDeviceGetAttribute", |session, _| {
        session.device(device)?;
        give(value, 1)
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuDeviceTotalMem_v2(bytes: Option<&mut usize>, device: c_int) -> Code {
    ask("cuDeviceTotalMem_v2", |session, state| {
        let (_, total) = session.free(state, session.device(device)?)?;
        give(bytes, usize::try_from(total).map_err(|_| UNKNOWN)?)
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuGetErrorName(code: Code, text: Option<&mut *const c_char>) -> Code {
    let name = if code == SUCCESS { c"CUDA_SUCCESS" } else { c"CUDA_ERROR_OF_STUB" };
    give(text, name.as_ptr()).err().unwrap_or(SUCCESS)
}

#[unsafe(no_mangle)]
extern "C" fn cuGetErrorString(code: Code, text: Option<&mut *const c_char>) -> Code {
    let name = if code == SUCCESS { c"no error" } else { c"error of the stub" };
    give(text, name.as_ptr()).err().unwrap_or(SUCCESS)
}

/// # Safety
/// `buffer` is null or has room for `length` characters.
unsafe fn give_text(buffer: *mut c_char, length: c_int, text: &str) -> Result<(), Code> {
    let length = usize::try_from(length).map_err(|_| INVALID_VALUE)?;
    if buffer.is_null() || length == 0 {
        return Err(INVALID_VALUE);
    }
    // SAFETY: not null, and the caller promises the length.
    let room = unsafe { std::slice::from_raw_parts_mut(buffer, length) };
    let bytes = text.bytes().take(length - 1).chain(std::iter::once(0));
    for (to, from) in room.iter_mut().zip(bytes) {
        *to = c_char::from_ne_bytes([from]);
    }
    Ok(())
}
