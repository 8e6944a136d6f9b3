//! Allocations with memory of their own.

use gpool_stub_state::State;

use crate::code::{Code, INVALID_VALUE, OUT_OF_MEMORY, UNKNOWN};
use crate::driver::Session;
use crate::heap;
use crate::memory::{Mapping, Source};

/// Takes memory of a device and maps it; returns its address and its offset in the heap.
pub(crate) fn allocate(
    session: &mut Session,
    state: &State,
    device: usize,
    size: u64,
) -> Result<(u64, u64), Code> {
    if size == 0 {
        return Err(INVALID_VALUE);
    }
    session.take(state, device, size)?;
    let offset = session.memory.heap.add(size).map_err(|_| UNKNOWN)?;
    let address = session.memory.heap.map(offset, size).map_err(|_| OUT_OF_MEMORY)?;
    Ok((address, offset))
}

/// Ends an allocation.
pub(crate) fn free_own(session: &mut Session, pointer: u64) -> Result<(), Code> {
    let mapping = session.memory.mappings.remove(&pointer).ok_or(INVALID_VALUE)?;
    let Source::Own { device, offset, .. } = mapping.source else { return Err(INVALID_VALUE) };
    session.memory.heap.clear(offset, mapping.size);
    // SAFETY: an allocation of this library that the program gives up.
    unsafe { heap::unmap(pointer, mapping.size) };
    session.give_back(device, mapping.size)
}

/// Frees the allocations of a context that ends.
pub(crate) fn free_all(session: &mut Session, ended: u64) -> Result<(), Code> {
    let is_own = |mapping: &Mapping| match mapping.source {
        Source::Own { context, .. } => context == ended,
        Source::Pool(_) | Source::Physical(_) | Source::Foreign => false,
    };
    let mappings = session.memory.mappings.iter().filter(|(_, mapping)| is_own(mapping));
    for pointer in mappings.map(|(pointer, _)| *pointer).collect::<Vec<_>>() {
        free_own(session, pointer)?;
    }
    let arrays = session.memory.arrays.iter().filter(|(_, array)| array.context == ended);
    for (handle, array) in arrays.map(|(key, it)| (*key, *it)).collect::<Vec<_>>() {
        session.memory.arrays.remove(&handle);
        session.give_back(array.device, array.size)?;
    }
    Ok(())
}
