//! Symbols about plain allocations.

use std::sync::atomic::{AtomicU64, Ordering};

use gpool_stub_state::State;

use crate::allocate::{allocate, free_own};
use crate::code::{Code, INVALID_VALUE, OUT_OF_MEMORY, SUCCESS, UNKNOWN, give};
use crate::context::{current_context, current_device};
use crate::driver::{BARE, Session, ask, call};
use crate::memory::{Mapping, Source};
use crate::pool_calls;

/// The next address while nothing is counted.
static BARE_ADDRESS: AtomicU64 = AtomicU64::new(0x7000_0000_0000);

fn allocate_here(session: &mut Session, state: &State, size: usize) -> Result<u64, Code> {
    let (device, size) = (current_device(session)?, size as u64);
    let (address, offset) = allocate(session, state, device, size)?;
    let source = Source::Own { device, offset, context: current_context() };
    session.memory.mappings.insert(address, Mapping { size, source });
    Ok(address)
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuMemAlloc_v2(pointer: Option<&mut u64>, size: usize) -> Code {
    if BARE.load(Ordering::Relaxed) {
        let address = BARE_ADDRESS.fetch_add(size as u64, Ordering::Relaxed);
        return give(pointer, address).err().unwrap_or(SUCCESS);
    }
    call("cuMemAlloc_v2", |session, state| give(pointer, allocate_here(session, state, size)?))
}

#[unsafe(no_mangle)]
extern "C" fn cuMemAllocPitch_v2(
    pointer: Option<&mut u64>,
    pitch: Option<&mut usize>,
    width: usize,
    height: usize,
    _element: u32,
) -> Code {
    call("cuMemAllocPitch_v2", |session, state| {
        let row = width.next_multiple_of(512);
        let size = row.checked_mul(height).ok_or(OUT_OF_MEMORY)?;
        give(pitch, row)?;
        give(pointer, allocate_here(session, state, size)?)
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuMemAllocManaged(pointer: Option<&mut u64>, size: usize, _flags: u32) -> Code {
    call("cuMemAllocManaged", |session, state| {
        session.uses_managed_memory = true;
        give(pointer, allocate_here(session, state, size)?)
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuMemFree_v2(pointer: u64) -> Code {
    if BARE.load(Ordering::Relaxed) {
        return SUCCESS;
    }
    call("cuMemFree_v2", |session, _| {
        let mapping = session.memory.mappings.get(&pointer).copied().ok_or(INVALID_VALUE)?;
        match mapping.source {
            Source::Own { .. } => free_own(session, pointer),
            Source::Pool(pool) => pool_calls::free(session, pointer, pool),
            Source::Physical(_) | Source::Foreign => Err(INVALID_VALUE),
        }
    })
}

/// `CU_POINTER_ATTRIBUTE_MEMORY_TYPE` and the like: any answer says that the address is known.
#[unsafe(no_mangle)]
extern "C" fn cuPointerGetAttribute(value: Option<&mut u32>, _kind: u32, pointer: u64) -> Code {
    const DEVICE: u32 = 2;
    ask("cuPointerGetAttribute", |session, _| {
        let is_known = session.memory.contains(pointer, 1);
        if is_known { give(value, DEVICE) } else { Err(INVALID_VALUE) }
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuMemGetInfo_v2(free: Option<&mut usize>, total: Option<&mut usize>) -> Code {
    call("cuMemGetInfo_v2", |session, state| {
        let (left, all) = session.free(state, current_device(session)?)?;
        give(free, usize::try_from(left).map_err(|_| UNKNOWN)?)?;
        give(total, usize::try_from(all).map_err(|_| UNKNOWN)?)
    })
}
