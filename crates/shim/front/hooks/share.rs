//! Memory that processes share. It is not charged again, and it makes a pause impossible with most
//! drivers, so the slot says that there is some.

use core::sync::atomic::Ordering::SeqCst;

use crate::cuda::OUT_OF_MEMORY;
use crate::driver::function;
use crate::entries::ix;
use crate::layout::FLAG_SHARED_MEMORY;
use crate::process::slot;

type IpcGet = unsafe extern "C" fn(usize, u64) -> u32;
type IpcOpen = unsafe extern "C" fn(usize, IpcHandle, u32) -> u32;
type Export = unsafe extern "C" fn(usize, u64, u32, u64) -> u32;
type Import = unsafe extern "C" fn(usize, usize, u32) -> u32;
type ImportPool = unsafe extern "C" fn(usize, usize, u32, u64) -> u32;

/// `CUipcMemHandle`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct IpcHandle([u64; 8]);

/// Sets a flag of this process. It stays: the memory can be used until the process ends.
pub fn flag(bits: u32) {
    if let Some(slot) = slot() {
        slot.flags.fetch_or(bits, SeqCst);
    }
}

pub unsafe extern "C" fn ipc_get(handle: usize, address: u64) -> u32 {
    let Some(call) = function::<IpcGet>(ix::cuIpcGetMemHandle) else { return OUT_OF_MEMORY };
    flag(FLAG_SHARED_MEMORY);
    call(handle, address)
}

pub unsafe extern "C" fn ipc_open<const IX: usize>(
    address: usize,
    handle: IpcHandle,
    flags: u32,
) -> u32 {
    let Some(call) = function::<IpcOpen>(IX) else { return OUT_OF_MEMORY };
    flag(FLAG_SHARED_MEMORY);
    call(address, handle, flags)
}

pub unsafe extern "C" fn export(shareable: usize, handle: u64, kind: u32, flags: u64) -> u32 {
    let Some(call) = function::<Export>(ix::cuMemExportToShareableHandle) else {
        return OUT_OF_MEMORY;
    };
    flag(FLAG_SHARED_MEMORY);
    call(shareable, handle, kind, flags)
}

pub unsafe extern "C" fn import(handle: usize, shareable: usize, kind: u32) -> u32 {
    let Some(call) = function::<Import>(ix::cuMemImportFromShareableHandle) else {
        return OUT_OF_MEMORY;
    };
    flag(FLAG_SHARED_MEMORY);
    call(handle, shareable, kind)
}

pub unsafe extern "C" fn export_pool(shareable: usize, pool: u64, kind: u32, flags: u64) -> u32 {
    let Some(call) = function::<Export>(ix::cuMemPoolExportToShareableHandle) else {
        return OUT_OF_MEMORY;
    };
    flag(FLAG_SHARED_MEMORY);
    call(shareable, pool, kind, flags)
}

pub unsafe extern "C" fn import_pool(pool: usize, shareable: usize, kind: u32, flags: u64) -> u32 {
    let Some(call) = function::<ImportPool>(ix::cuMemPoolImportFromShareableHandle) else {
        return OUT_OF_MEMORY;
    };
    flag(FLAG_SHARED_MEMORY);
    call(pool, shareable, kind, flags)
}
