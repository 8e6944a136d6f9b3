//! Physical allocations. A released handle keeps its memory while it is mapped, so the charge ends
//! with the last of both.

use crate::charge::{charge, refund};
use crate::cuda::OUT_OF_MEMORY;
use crate::driver::{SUCCESS, function};
use crate::entries::ix;
use crate::hooks::pool::Location;
use crate::process::process;
use crate::table::{Entry, Table};

type Create = unsafe extern "C" fn(*mut u64, usize, *const Properties, u64) -> u32;
type Release = unsafe extern "C" fn(u64) -> u32;
type Retain = unsafe extern "C" fn(*mut u64, u64) -> u32;
type Map = unsafe extern "C" fn(u64, usize, usize, u64, u64) -> u32;
type Unmap = unsafe extern "C" fn(u64, usize) -> u32;

/// The beginning of `CUmemAllocationProp`.
#[repr(C)]
pub struct Properties {
    kind: u32,
    handle_types: u32,
    location: Location,
}

/// The second word of an entry of handles.
#[derive(Clone, Copy)]
struct Handle {
    device: u16,
    n_references: u16,
    n_mappings: u32,
}

impl Handle {
    fn of(entry: &Entry) -> Self {
        let n_mappings = (entry.b >> 32) as u32;
        Self { device: entry.b as u16, n_references: (entry.b >> 16) as u16, n_mappings }
    }

    fn word(self) -> u64 {
        u64::from(self.device)
            | u64::from(self.n_references) << 16
            | u64::from(self.n_mappings) << 32
    }
}

/// Changes a known handle. Removes it, and returns size and device, if it has neither references
/// nor mappings any more.
fn change(handles: &mut Table, key: u64, edit: impl FnOnce(&mut Handle)) -> Option<(u64, usize)> {
    let entry = handles.get(key)?;
    let mut handle = Handle::of(entry);
    edit(&mut handle);
    entry.b = handle.word();
    if handle.n_references > 0 || handle.n_mappings > 0 {
        return None;
    }
    handles.remove(key).map(|entry| (entry.a, usize::from(handle.device)))
}

pub unsafe extern "C" fn create(
    handle: *mut u64,
    bytes: usize,
    properties: *const Properties,
    flags: u64,
) -> u32 {
    let Some(call) = function::<Create>(ix::cuMemCreate) else { return OUT_OF_MEMORY };
    let call = || call(handle, bytes, properties, flags);
    // The location says the device, never the current context. Memory of the host is not counted.
    let location = properties.as_ref().filter(|_| !handle.is_null()).map(|it| it.location);
    let Some(device) = location.and_then(Location::device) else { return call() };
    if !charge(device, bytes as u64) {
        return OUT_OF_MEMORY;
    }
    let result = call();
    if result != SUCCESS {
        refund(device, bytes as u64);
    } else if let Some(process) = process() {
        let word = Handle { device: device as u16, n_references: 1, n_mappings: 0 }.word();
        let entry = Entry { key: *handle, a: bytes as u64, b: word };
        process.with_tables(|tables| tables.handles.insert(entry));
    }
    result
}

pub unsafe extern "C" fn release(handle: u64) -> u32 {
    let Some(call) = function::<Release>(ix::cuMemRelease) else { return SUCCESS };
    let Some(process) = process() else { return call(handle) };
    // Forgotten first: once the handle is free, another thread may get it.
    let before = process.with_tables(|tables| {
        let before = tables.handles.get(handle).map(|entry| *entry)?;
        let freed = change(&mut tables.handles, handle, |it| {
            it.n_references = it.n_references.saturating_sub(1);
        });
        Some((before, freed))
    });
    let result = call(handle);
    match before {
        Some((entry, _)) if result != SUCCESS => {
            process.with_tables(|tables| tables.handles.insert(entry));
        }
        Some((_, Some((bytes, device)))) => refund(device, bytes),
        _ => {}
    }
    result
}

pub unsafe extern "C" fn retain(handle: *mut u64, address: u64) -> u32 {
    let Some(call) = function::<Retain>(ix::cuMemRetainAllocationHandle) else {
        return OUT_OF_MEMORY;
    };
    let result = call(handle, address);
    if result == SUCCESS
        && !handle.is_null()
        && let Some(process) = process()
    {
        process.with_tables(|tables| {
            change(&mut tables.handles, *handle, |it| {
                it.n_references = it.n_references.saturating_add(1);
            })
        });
    }
    result
}

pub unsafe extern "C" fn map(
    address: u64,
    bytes: usize,
    offset: usize,
    handle: u64,
    flags: u64,
) -> u32 {
    let Some(call) = function::<Map>(ix::cuMemMap) else { return OUT_OF_MEMORY };
    let result = call(address, bytes, offset, handle, flags);
    if result == SUCCESS
        && let Some(process) = process()
    {
        process.with_tables(|tables| {
            if tables.handles.get(handle).is_some() {
                tables.mappings.insert(Entry { key: address, a: bytes as u64, b: handle });
                change(&mut tables.handles, handle, |it| {
                    it.n_mappings = it.n_mappings.saturating_add(1);
                });
            }
        });
    }
    result
}

/// A range may have several mappings, one behind the other.
pub unsafe extern "C" fn unmap(address: u64, bytes: usize) -> u32 {
    let Some(call) = function::<Unmap>(ix::cuMemUnmap) else { return SUCCESS };
    let result = call(address, bytes);
    let Some(process) = process().filter(|_| result == SUCCESS) else { return result };
    let end = address.saturating_add(bytes as u64);
    let mut at = address;
    while at < end {
        let found = process.with_tables(|tables| {
            let mapping = tables.mappings.remove(at)?;
            let freed = change(&mut tables.handles, mapping.b, |it| {
                it.n_mappings = it.n_mappings.saturating_sub(1);
            });
            Some((mapping.a, freed))
        });
        let Some((size, freed)) = found else { break };
        if let Some((bytes, device)) = freed {
            refund(device, bytes);
        }
        at = at.saturating_add(size.max(1));
    }
    result
}
