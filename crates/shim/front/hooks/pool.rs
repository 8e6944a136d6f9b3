//! Stream-ordered allocations. Freed memory stays with its pool, so the pool's whole memory is
//! charged, not its allocations.

use crate::charge::{charge, correct, device, refund};
use crate::cuda::{self, OUT_OF_MEMORY};
use crate::driver::{SUCCESS, function};
use crate::entries::ix;
use crate::process::process;
use crate::table::Entry;

type Allocate = unsafe extern "C" fn(*mut u64, usize, usize) -> u32;
type AllocateFrom = unsafe extern "C" fn(*mut u64, usize, u64, usize) -> u32;
type Create = unsafe extern "C" fn(*mut u64, *const Properties) -> u32;
type Destroy = unsafe extern "C" fn(u64) -> u32;
type Trim = unsafe extern "C" fn(u64, usize) -> u32;
type GetAttribute = unsafe extern "C" fn(u64, u32, *mut u64) -> u32;
type SetAttribute = unsafe extern "C" fn(u64, u32, *mut u64) -> u32;
type GetPool = unsafe extern "C" fn(*mut u64, i32) -> u32;

/// `CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT` and `…_USED_MEM_CURRENT`.
const RESERVED: u32 = 5;
const USED: u32 = 7;
/// Pools grow in steps of at least this.
const STEP: u64 = 2 << 20;
/// The most pools with a look at their true size before the agent is asked.
const REFRESHED: usize = 64;
/// Set in the key of a device's graph memory, which no pool handle has.
pub const GRAPH: u64 = 1 << 63;

/// The beginning of `CUmemPoolProps`.
#[repr(C)]
pub struct Properties {
    kind: u32,
    handle_types: u32,
    location: Location,
}

/// `CUmemLocation`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Location {
    kind: u32,
    id: i32,
}

impl Location {
    /// The device's place in the ledger; `None` for memory of the host.
    pub fn device(self) -> Option<usize> {
        const DEVICE: u32 = 1;
        const PART_OF_DEVICE: u32 = 6;
        match self.kind {
            DEVICE => device(self.id),
            PART_OF_DEVICE => device(self.id & 0xff),
            _ => None,
        }
    }
}

fn attribute(pool: u64, attribute: u32) -> Option<u64> {
    let call = function::<GetAttribute>(ix::cuMemPoolGetAttribute)?;
    let mut value = 0;
    // SAFETY: the driver's function, with its type.
    (unsafe { call(pool, attribute, &raw mut value) } == SUCCESS).then_some(value)
}

/// Sets the charge of a pool to its true size. `charged` was charged in advance.
fn settle(pool: u64, device: usize, charged: u64) {
    let Some(process) = process() else { return };
    let reserved = attribute(pool, RESERVED);
    let before = process.with_tables(|tables| match tables.pools.get(pool) {
        Some(entry) => {
            let before = entry.a;
            entry.a = reserved.unwrap_or(before.saturating_add(charged));
            before
        }
        None => {
            let a = reserved.unwrap_or(charged);
            tables.pools.insert(Entry { key: pool, a, b: device as u64 });
            0
        }
    });
    let now = reserved.unwrap_or(before.saturating_add(charged));
    correct(device, before.saturating_add(charged), now);
}

/// Sets the charges of all pools on a device to their true sizes: a synchronisation may have
/// returned memory to the driver.
#[cold]
pub fn refresh_all(device: usize) {
    let Some(process) = process() else { return };
    let mut pools = [0; REFRESHED];
    let mut places = pools.iter_mut();
    process.with_tables(|tables| {
        tables.pools.for_each(|entry| {
            let is_wanted = entry.b == device as u64 && entry.key & GRAPH == 0;
            if is_wanted && let Some(place) = places.next() {
                *place = entry.key;
            }
        });
    });
    for pool in pools.into_iter().filter(|pool| *pool != 0) {
        settle(pool, device, 0);
    }
}

/// Allocates from a pool that the ledger knows.
fn allocate_charged(pool: u64, device: usize, bytes: u64, call: impl FnOnce() -> u32) -> u32 {
    let step = bytes.checked_next_multiple_of(STEP).unwrap_or(u64::MAX);
    // A pool with unused memory may not grow at all.
    let reserved = attribute(pool, RESERVED).unwrap_or(0);
    let unused = reserved.saturating_sub(attribute(pool, USED).unwrap_or(reserved));
    let charged = if unused >= step { 0 } else { step };
    if charged > 0 && !charge(device, charged) {
        return OUT_OF_MEMORY;
    }
    let result = call();
    settle(pool, device, charged);
    if result != SUCCESS && attribute(pool, RESERVED).is_none() {
        refund(device, charged);
    }
    result
}

pub unsafe extern "C" fn allocate<const IX: usize>(
    pointer: *mut u64,
    bytes: usize,
    stream: usize,
) -> u32 {
    let Some(call) = function::<Allocate>(IX) else { return OUT_OF_MEMORY };
    let call = || call(pointer, bytes, stream);
    match current_pool() {
        Some((pool, device)) => allocate_charged(pool, device, bytes as u64, call),
        None => call(),
    }
}

/// The current pool of the current device, and the device's place in the ledger.
fn current_pool() -> Option<(u64, usize)> {
    let ordinal = cuda::current_device()?;
    let place = device(ordinal)?;
    let call = function::<GetPool>(ix::cuDeviceGetMemPool)?;
    let mut pool = 0;
    // SAFETY: the driver's function, with its type.
    (unsafe { call(&raw mut pool, ordinal) } == SUCCESS).then_some((pool, place))
}

pub unsafe extern "C" fn allocate_from<const IX: usize>(
    pointer: *mut u64,
    bytes: usize,
    pool: u64,
    stream: usize,
) -> u32 {
    let Some(call) = function::<AllocateFrom>(IX) else { return OUT_OF_MEMORY };
    let call = || call(pointer, bytes, pool, stream);
    // A pool that the process did not create here is the default one of a device.
    let known = process().and_then(|process| {
        process.with_tables(|tables| tables.pools.get(pool).map(|entry| entry.b as usize))
    });
    match known.or_else(crate::charge::current_device) {
        Some(device) => allocate_charged(pool, device, bytes as u64, call),
        None => call(),
    }
}

pub unsafe extern "C" fn create(pool: *mut u64, properties: *const Properties) -> u32 {
    let Some(call) = function::<Create>(ix::cuMemPoolCreate) else { return OUT_OF_MEMORY };
    let result = call(pool, properties);
    if result != SUCCESS || pool.is_null() || properties.is_null() {
        return result;
    }
    if let (Some(device), Some(process)) = ((*properties).location.device(), process()) {
        let entry = Entry { key: *pool, a: 0, b: device as u64 };
        process.with_tables(|tables| tables.pools.insert(entry));
    }
    result
}

pub unsafe extern "C" fn destroy(pool: u64) -> u32 {
    let Some(call) = function::<Destroy>(ix::cuMemPoolDestroy) else { return SUCCESS };
    let result = call(pool);
    if result == SUCCESS
        && let Some(process) = process()
        && let Some(entry) = process.with_tables(|tables| tables.pools.remove(pool))
    {
        refund(entry.b as usize, entry.a);
    }
    result
}

/// Settles a pool after a call that may have changed its size.
fn settled(pool: u64, result: u32) -> u32 {
    let known = process().and_then(|process| {
        process.with_tables(|tables| tables.pools.get(pool).map(|entry| entry.b as usize))
    });
    if let Some(device) = known {
        settle(pool, device, 0);
    }
    result
}

pub unsafe extern "C" fn trim(pool: u64, keep: usize) -> u32 {
    let Some(call) = function::<Trim>(ix::cuMemPoolTrimTo) else { return SUCCESS };
    settled(pool, call(pool, keep))
}

pub unsafe extern "C" fn set_attribute(pool: u64, attribute: u32, value: *mut u64) -> u32 {
    let Some(call) = function::<SetAttribute>(ix::cuMemPoolSetAttribute) else { return SUCCESS };
    settled(pool, call(pool, attribute, value))
}
