//! `cuGetProcAddress`, the way by which the CUDA runtime finds all other symbols.

use std::ffi::{CStr, CString, c_char, c_int, c_void};

use crate::code::{Code, INVALID_VALUE, NOT_FOUND, SUCCESS, give};
use crate::driver::faults;
use crate::memory_calls::cuMemAlloc_v2;

/// `CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM`.
const PER_THREAD: u64 = 2;

/// The versions of symbols, newest first, with the CUDA version that brought them.
const VERSIONS: [(&str, c_int); 4] = [("_v4", 12_050), ("_v3", 11_040), ("_v2", 3_020), ("", 0)];

/// The address of a symbol of this library; null if it has none.
fn own_symbol(name: &str) -> *mut c_void {
    let Ok(name) = CString::new(name) else { return std::ptr::null_mut() };
    // SAFETY: `dladdr` fills the structure for an address of this library, which is loaded, so
    // `dlopen` only returns its handle.
    unsafe {
        let mut info: libc::Dl_info = std::mem::zeroed();
        let here = own_symbol as fn(&str) -> *mut c_void as *const c_void;
        if libc::dladdr(here, &raw mut info) == 0 {
            return std::ptr::null_mut();
        }
        let library = libc::dlopen(info.dli_fname, libc::RTLD_NOLOAD | libc::RTLD_LAZY);
        if library.is_null() { std::ptr::null_mut() } else { libc::dlsym(library, name.as_ptr()) }
    }
}

fn find(name: &str, version: c_int, flags: u64) -> *mut c_void {
    let threads: &[&str] = if flags & PER_THREAD == 0 { &[""] } else { &["_ptsz", "_ptds", ""] };
    for (suffix, _) in VERSIONS.iter().filter(|(_, since)| *since <= version) {
        for thread in threads {
            let found = own_symbol(&format!("{name}{suffix}{thread}"));
            if !found.is_null() {
                return found;
            }
        }
    }
    std::ptr::null_mut()
}

/// `cuMemAlloc_v2` at an address that is not exported.
extern "C" fn hidden_allocate(pointer: Option<&mut u64>, size: usize) -> Code {
    cuMemAlloc_v2(pointer, size)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuGetProcAddress_v2(
    symbol: *const c_char,
    function: Option<&mut *mut c_void>,
    version: c_int,
    flags: u64,
    status: Option<&mut u32>,
) -> Code {
    const STATUS_NOT_FOUND: u32 = 1;
    if symbol.is_null() {
        return INVALID_VALUE;
    }
    let state = match faults("cuGetProcAddress_v2") {
        Ok(state) => state,
        Err(code) => return code,
    };
    // SAFETY: not null, and the caller passes a C string.
    let name = unsafe { CStr::from_ptr(symbol) }.to_string_lossy();
    let found = match &*name {
        "cuMemAlloc" if state.cuda.hides_addresses => hidden_allocate as *mut c_void,
        name => find(name, version, flags),
    };
    if let Some(status) = status {
        *status = if found.is_null() { STATUS_NOT_FOUND } else { 0 };
    }
    let given = give(function, found).err();
    given.unwrap_or(if found.is_null() { NOT_FOUND } else { SUCCESS })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuGetProcAddress(
    symbol: *const c_char,
    function: Option<&mut *mut c_void>,
    version: c_int,
    flags: u64,
) -> Code {
    // SAFETY: the same arguments.
    unsafe { cuGetProcAddress_v2(symbol, function, version, flags, None) }
}

/// A table with only its size, as for an unknown identifier of a driver without it.
#[unsafe(no_mangle)]
extern "C" fn cuGetExportTable(table: Option<&mut *const c_void>, _id: *const c_void) -> Code {
    static TABLE: [usize; 1] = [size_of::<usize>()];
    give(table, (&raw const TABLE).cast()).err().unwrap_or(SUCCESS)
}
