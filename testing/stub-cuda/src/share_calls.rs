//! Symbols about memory that processes share. It is refused or flagged at a checkpoint; the bytes
//! themselves are not shared here.

use crate::code::{Code, INVALID_VALUE, UNKNOWN, give};
use crate::driver::call;
use crate::heap;
use crate::memory::{Mapping, Physical, Source};

/// `CUipcMemHandle`: address and size.
#[repr(C)]
struct IpcHandle {
    address: u64,
    size: u64,
    rest: [u64; 6],
}

#[unsafe(no_mangle)]
extern "C" fn cuIpcGetMemHandle(handle: Option<&mut IpcHandle>, pointer: u64) -> Code {
    call("cuIpcGetMemHandle", |session, _| {
        let mapping = session.memory.mappings.get(&pointer).ok_or(INVALID_VALUE)?;
        let size = mapping.size;
        session.shares_memory = true;
        give(handle, IpcHandle { address: pointer, size, rest: [0; 6] })
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuIpcOpenMemHandle_v2(
    pointer: Option<&mut u64>,
    handle: IpcHandle,
    _flags: u32,
) -> Code {
    call("cuIpcOpenMemHandle_v2", |session, _| {
        let address = heap::reserve(handle.size).map_err(|_| UNKNOWN)?;
        session.shares_memory = true;
        let mapping = Mapping { size: handle.size, source: Source::Foreign };
        session.memory.mappings.insert(address, mapping);
        give(pointer, address)
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuIpcCloseMemHandle(pointer: u64) -> Code {
    call("cuIpcCloseMemHandle", |session, _| {
        session.memory.mappings.remove(&pointer).map(|_| ()).ok_or(INVALID_VALUE)
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuMemExportToShareableHandle(
    shareable: Option<&mut u64>,
    handle: u64,
    _kind: u32,
    _flags: u64,
) -> Code {
    call("cuMemExportToShareableHandle", |session, _| {
        let it = session.memory.physical.get(&handle).ok_or(INVALID_VALUE)?;
        let size = it.size;
        session.shares_memory = true;
        give(shareable, size)
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuMemImportFromShareableHandle(
    handle: Option<&mut u64>,
    shareable: u64,
    _kind: u32,
) -> Code {
    call("cuMemImportFromShareableHandle", |session, _| {
        session.shares_memory = true;
        let offset = session.memory.heap.add(shareable).map_err(|_| UNKNOWN)?;
        let number = session.memory.handle();
        let it = Physical { device: None, size: shareable, offset, n_references: 1, n_mappings: 0 };
        session.memory.physical.insert(number, it);
        give(handle, number)
    })
}
