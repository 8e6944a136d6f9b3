//! Symbols about arrays.

use gpool_stub_state::State;

use crate::code::{Code, INVALID_HANDLE, INVALID_VALUE, OUT_OF_MEMORY, give};
use crate::context::{current_context, current_device};
use crate::driver::{Session, call};
use crate::memory::Array;

/// `CUDA_ARRAY_DESCRIPTOR`.
#[repr(C)]
struct Descriptor {
    width: usize,
    height: usize,
    format: u32,
    n_channels: u32,
}

/// `CUDA_ARRAY3D_DESCRIPTOR`.
#[repr(C)]
struct Descriptor3 {
    width: usize,
    height: usize,
    depth: usize,
    format: u32,
    n_channels: u32,
    flags: u32,
}

/// Bytes of an element's channel.
fn channel_bytes(format: u32) -> usize {
    match format {
        0x01 | 0x08 => 1,
        0x02 | 0x09 | 0x10 => 2,
        _ => 4,
    }
}

/// Bytes of an array; dimensions of 0 do not count.
fn bytes(sides: [usize; 3], format: u32, n_channels: u32) -> Result<u64, Code> {
    let element = channel_bytes(format) * n_channels as usize;
    let size = sides.iter().try_fold(element, |size, side| size.checked_mul((*side).max(1)));
    size.map(|size| size as u64).ok_or(OUT_OF_MEMORY)
}

fn create(
    session: &mut Session,
    state: &State,
    array: Option<&mut u64>,
    size: u64,
) -> Result<(), Code> {
    let device = current_device(session)?;
    session.take(state, device, size)?;
    let handle = session.memory.handle();
    session.memory.arrays.insert(handle, Array { device, size, context: current_context() });
    give(array, handle)
}

fn destroy(symbol: &str, array: u64) -> Code {
    call(symbol, |session, _| {
        let it = session.memory.arrays.remove(&array).ok_or(INVALID_HANDLE)?;
        session.give_back(it.device, it.size)
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuArrayCreate_v2(array: Option<&mut u64>, descriptor: Option<&Descriptor>) -> Code {
    call("cuArrayCreate_v2", |session, state| {
        let it = descriptor.ok_or(INVALID_VALUE)?;
        let size = bytes([it.width, it.height, 1], it.format, it.n_channels)?;
        create(session, state, array, size)
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuArray3DCreate_v2(
    array: Option<&mut u64>,
    descriptor: Option<&Descriptor3>,
) -> Code {
    call("cuArray3DCreate_v2", |session, state| {
        let it = descriptor.ok_or(INVALID_VALUE)?;
        let size = bytes([it.width, it.height, it.depth], it.format, it.n_channels)?;
        create(session, state, array, size)
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuMipmappedArrayCreate(
    array: Option<&mut u64>,
    descriptor: Option<&Descriptor3>,
    n_levels: u32,
) -> Code {
    call("cuMipmappedArrayCreate", |session, state| {
        let it = descriptor.ok_or(INVALID_VALUE)?;
        let mut size = 0;
        for level in 0..n_levels.min(32) {
            let sides = [it.width >> level, it.height >> level, it.depth >> level];
            size += bytes(sides, it.format, it.n_channels)?;
        }
        create(session, state, array, size)
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuArrayDestroy(array: u64) -> Code {
    destroy("cuArrayDestroy", array)
}

#[unsafe(no_mangle)]
extern "C" fn cuMipmappedArrayDestroy(array: u64) -> Code {
    destroy("cuMipmappedArrayDestroy", array)
}
