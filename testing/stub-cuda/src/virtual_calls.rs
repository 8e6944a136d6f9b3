//! Symbols about virtual memory: physical allocations, reserved addresses and mappings. Memory of
//! a released handle stays while it is mapped.

use crate::code::{Code, INVALID_HANDLE, INVALID_VALUE, UNKNOWN, give};
use crate::driver::{Session, call};
use crate::heap;
use crate::memory::{Mapping, Physical, Source};

/// `CU_MEM_LOCATION_TYPE_DEVICE`.
const ON_DEVICE: u32 = 1;
/// Sizes are multiples of this on real devices.
const GRANULARITY: usize = 2 << 20;

/// The beginning of `CUmemAllocationProp`.
#[repr(C)]
pub(crate) struct Properties {
    allocation_type: u32,
    handle_types: u32,
    location_type: u32,
    location: i32,
}

/// Frees a physical allocation that has neither references nor mappings.
fn free_if_unused(session: &mut Session, handle: u64) -> Result<(), Code> {
    let it = session.memory.physical.get(&handle).copied().ok_or(INVALID_HANDLE)?;
    if it.n_references > 0 || it.n_mappings > 0 {
        return Ok(());
    }
    session.memory.physical.remove(&handle);
    session.memory.heap.clear(it.offset, it.size);
    it.device.map_or(Ok(()), |device| session.give_back(device, it.size))
}

#[unsafe(no_mangle)]
extern "C" fn cuMemGetAllocationGranularity(
    granularity: Option<&mut usize>,
    _properties: usize,
    _option: u32,
) -> Code {
    call("cuMemGetAllocationGranularity", |_, _| give(granularity, GRANULARITY))
}

#[unsafe(no_mangle)]
extern "C" fn cuMemCreate(
    handle: Option<&mut u64>,
    size: usize,
    properties: Option<&Properties>,
    _flags: u64,
) -> Code {
    call("cuMemCreate", |session, state| {
        let properties = properties.ok_or(INVALID_VALUE)?;
        if size == 0 || !size.is_multiple_of(GRANULARITY) {
            return Err(INVALID_VALUE);
        }
        let size = size as u64;
        let on_device = properties.location_type == ON_DEVICE;
        let device = on_device.then(|| session.device(properties.location)).transpose()?;
        if let Some(device) = device {
            session.take(state, device, size)?;
        }
        let offset = session.memory.heap.add(size).map_err(|_| UNKNOWN)?;
        let number = session.memory.handle();
        let it = Physical { device, size, offset, n_references: 1, n_mappings: 0 };
        session.memory.physical.insert(number, it);
        give(handle, number)
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuMemRelease(handle: u64) -> Code {
    call("cuMemRelease", |session, _| {
        let it = session.memory.physical.get_mut(&handle).ok_or(INVALID_HANDLE)?;
        it.n_references = it.n_references.checked_sub(1).ok_or(INVALID_HANDLE)?;
        free_if_unused(session, handle)
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuMemRetainAllocationHandle(handle: Option<&mut u64>, address: u64) -> Code {
    call("cuMemRetainAllocationHandle", |session, _| {
        let below = session.memory.mappings.range(..=address).next_back();
        let Some((_, Mapping { source: Source::Physical(number), .. })) = below else {
            return Err(INVALID_VALUE);
        };
        let number = *number;
        let it = session.memory.physical.get_mut(&number).ok_or(INVALID_HANDLE)?;
        it.n_references += 1;
        give(handle, number)
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuMemAddressReserve(
    pointer: Option<&mut u64>,
    size: usize,
    _alignment: usize,
    _address: u64,
    _flags: u64,
) -> Code {
    call("cuMemAddressReserve", |session, _| {
        let address = heap::reserve(size as u64).map_err(|_| UNKNOWN)?;
        session.memory.reserved.insert(address, size as u64);
        give(pointer, address)
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuMemAddressFree(pointer: u64, size: usize) -> Code {
    call("cuMemAddressFree", |session, _| {
        let reserved = session.memory.reserved.remove(&pointer).ok_or(INVALID_VALUE)?;
        if reserved != size as u64 {
            return Err(INVALID_VALUE);
        }
        // SAFETY: a reservation of this library that the program gives up.
        unsafe { heap::unmap(pointer, reserved) };
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuMemMap(pointer: u64, size: usize, offset: usize, handle: u64, _flags: u64) -> Code {
    call("cuMemMap", |session, _| {
        let (size, offset) = (size as u64, offset as u64);
        let memory = &mut session.memory;
        let below = memory.reserved.range(..=pointer).next_back();
        let is_reserved = below.is_some_and(|(start, room)| pointer + size <= start + room);
        let it = memory.physical.get_mut(&handle).ok_or(INVALID_HANDLE)?;
        if !is_reserved || offset + size > it.size {
            return Err(INVALID_VALUE);
        }
        // SAFETY: within a reservation of this library.
        let mapped = unsafe { memory.heap.map_over(pointer, it.offset + offset, size) };
        mapped.map_err(|_| UNKNOWN)?;
        it.n_mappings += 1;
        memory.mappings.insert(pointer, Mapping { size, source: Source::Physical(handle) });
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuMemUnmap(pointer: u64, size: usize) -> Code {
    call("cuMemUnmap", |session, _| {
        let end = pointer + size as u64;
        let within = session.memory.mappings.range(pointer..end);
        let within: Vec<(u64, Mapping)> = within.map(|(at, it)| (*at, *it)).collect();
        if within.is_empty() {
            return Err(INVALID_VALUE);
        }
        for (at, mapping) in within {
            session.memory.mappings.remove(&at);
            // SAFETY: within a reservation of this library.
            unsafe { heap::reserve_over(at, mapping.size) }.map_err(|_| UNKNOWN)?;
            if let Source::Physical(handle) = mapping.source {
                let it = session.memory.physical.get_mut(&handle).ok_or(INVALID_HANDLE)?;
                it.n_mappings -= 1;
                free_if_unused(session, handle)?;
            }
        }
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuMemSetAccess(_pointer: u64, _size: usize, _access: usize, _count: usize) -> Code {
    call("cuMemSetAccess", |_, _| Ok(()))
}
