//! Symbols about stream-ordered allocations and their pools. Streams run at once here.

use gpool_stub_state::State;

use crate::allocate::allocate as allocate_memory;
use crate::code::{Code, INVALID_HANDLE, INVALID_VALUE, NOT_SUPPORTED, give};
use crate::context::current_device;
use crate::driver::{Session, ask, call};
use crate::heap;
use crate::memory::{Mapping, Pool, Source};

/// `CU_MEMPOOL_ATTR_RELEASE_THRESHOLD` and its neighbours.
const RELEASE_THRESHOLD: u32 = 4;
const RESERVED_CURRENT: u32 = 5;
const USED_CURRENT: u32 = 7;

/// The location of a `CUmemPoolProps`.
#[repr(C)]
pub(crate) struct PoolProperties {
    allocation_type: u32,
    handle_types: u32,
    pub(crate) location_type: u32,
    pub(crate) location: i32,
    rest: [u64; 9],
}

/// The default pool of a device. Its handle has the device's index.
fn default_pool(session: &mut Session, device: usize) -> u64 {
    let handle = 0x100 + device as u64;
    session.memory.pools.entry(handle).or_insert_with(|| Pool { device, ..Pool::default() });
    handle
}

fn allocate(session: &mut Session, state: &State, pool: u64, size: u64) -> Result<u64, Code> {
    let it = session.memory.pools.get_mut(&pool).ok_or(INVALID_HANDLE)?;
    let device = it.device;
    let unused = it.unused.iter().position(|(_, room)| *room >= size);
    let (address, size) = match unused.map(|ix| it.unused.swap_remove(ix)) {
        Some(part) => part,
        None => {
            let (address, _) = allocate_memory(session, state, device, size)?;
            session.memory.pools.entry(pool).or_default().reserved += size;
            (address, size)
        }
    };
    session.memory.pools.entry(pool).or_default().used += size;
    session.memory.mappings.insert(address, Mapping { size, source: Source::Pool(pool) });
    Ok(address)
}

pub(crate) fn free(session: &mut Session, pointer: u64, pool: u64) -> Result<(), Code> {
    let mapping = session.memory.mappings.remove(&pointer).ok_or(INVALID_VALUE)?;
    let it = session.memory.pools.get_mut(&pool).ok_or(INVALID_HANDLE)?;
    it.used -= mapping.size;
    it.unused.push((pointer, mapping.size));
    Ok(())
}

/// Gives unused parts of a pool back while it holds more than `keep` bytes.
fn trim(session: &mut Session, pool: u64, keep: u64) -> Result<(), Code> {
    loop {
        let it = session.memory.pools.get_mut(&pool).ok_or(INVALID_HANDLE)?;
        if it.reserved <= keep {
            return Ok(());
        }
        let Some((address, size)) = it.unused.pop() else { return Ok(()) };
        it.reserved -= size;
        let device = it.device;
        // SAFETY: a part of the pool that no allocation uses.
        unsafe { heap::unmap(address, size) };
        session.give_back(device, size)?;
    }
}

/// Trims all pools to their thresholds, as a synchronisation does.
pub(crate) fn trim_all(session: &mut Session) -> Result<(), Code> {
    let pools = session.memory.pools.iter().map(|(handle, pool)| (*handle, pool.threshold));
    for (pool, threshold) in pools.collect::<Vec<_>>() {
        trim(session, pool, threshold)?;
    }
    Ok(())
}

#[unsafe(no_mangle)]
extern "C" fn cuMemAllocAsync(pointer: Option<&mut u64>, size: usize, _stream: usize) -> Code {
    call("cuMemAllocAsync", |session, state| {
        let device = current_device(session)?;
        let pool = default_pool(session, device);
        give(pointer, allocate(session, state, pool, size as u64)?)
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuMemAllocAsync_ptsz(pointer: Option<&mut u64>, size: usize, stream: usize) -> Code {
    cuMemAllocAsync(pointer, size, stream)
}

#[unsafe(no_mangle)]
extern "C" fn cuMemAllocFromPoolAsync(
    pointer: Option<&mut u64>,
    size: usize,
    pool: u64,
    _stream: usize,
) -> Code {
    call("cuMemAllocFromPoolAsync", |session, state| {
        give(pointer, allocate(session, state, pool, size as u64)?)
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuMemAllocFromPoolAsync_ptsz(
    pointer: Option<&mut u64>,
    size: usize,
    pool: u64,
    stream: usize,
) -> Code {
    cuMemAllocFromPoolAsync(pointer, size, pool, stream)
}

#[unsafe(no_mangle)]
extern "C" fn cuMemFreeAsync(pointer: u64, _stream: usize) -> Code {
    call("cuMemFreeAsync", |session, _| {
        let mapping = session.memory.mappings.get(&pointer).ok_or(INVALID_VALUE)?;
        match mapping.source {
            Source::Pool(pool) => free(session, pointer, pool),
            Source::Own { .. } | Source::Physical(_) | Source::Foreign => Err(INVALID_VALUE),
        }
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuMemFreeAsync_ptsz(pointer: u64, stream: usize) -> Code {
    cuMemFreeAsync(pointer, stream)
}

#[unsafe(no_mangle)]
extern "C" fn cuDeviceGetDefaultMemPool(pool: Option<&mut u64>, device: i32) -> Code {
    ask("cuDeviceGetDefaultMemPool", |session, _| {
        let device = session.device(device)?;
        give(pool, default_pool(session, device))
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuDeviceGetMemPool(pool: Option<&mut u64>, device: i32) -> Code {
    cuDeviceGetDefaultMemPool(pool, device)
}

#[unsafe(no_mangle)]
extern "C" fn cuMemPoolCreate(pool: Option<&mut u64>, properties: Option<&PoolProperties>) -> Code {
    call("cuMemPoolCreate", |session, _| {
        let device = session.device(properties.ok_or(INVALID_VALUE)?.location)?;
        let handle = session.memory.handle();
        session.memory.pools.insert(handle, Pool { device, ..Pool::default() });
        give(pool, handle)
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuMemPoolDestroy(pool: u64) -> Code {
    call("cuMemPoolDestroy", |session, _| {
        trim(session, pool, 0)?;
        session.memory.pools.remove(&pool);
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuMemPoolTrimTo(pool: u64, keep: usize) -> Code {
    call("cuMemPoolTrimTo", |session, _| trim(session, pool, keep as u64))
}

#[unsafe(no_mangle)]
extern "C" fn cuMemPoolGetAttribute(pool: u64, attribute: u32, value: Option<&mut u64>) -> Code {
    ask("cuMemPoolGetAttribute", |session, _| {
        let it = session.memory.pools.get(&pool).ok_or(INVALID_HANDLE)?;
        match attribute {
            RELEASE_THRESHOLD => give(value, it.threshold),
            RESERVED_CURRENT => give(value, it.reserved),
            USED_CURRENT => give(value, it.used),
            _ => Err(NOT_SUPPORTED),
        }
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuMemPoolSetAttribute(pool: u64, attribute: u32, value: Option<&u64>) -> Code {
    call("cuMemPoolSetAttribute", |session, _| {
        let it = session.memory.pools.get_mut(&pool).ok_or(INVALID_HANDLE)?;
        if attribute == RELEASE_THRESHOLD {
            it.threshold = *value.ok_or(INVALID_VALUE)?;
        }
        Ok(())
    })
}
