//! The driver's own library: `libcuda.so.1`, or `libnvidia-ml.so.1` in the shim of NVML.

use core::ffi::{CStr, c_void};
use core::sync::atomic::Ordering::Relaxed;

use crate::entries::{DRIVER, ENTRIES, NAMES};
use crate::kernel::{file_id, load, symbol, variable};
use crate::library::{FILE, VARIABLE};
use crate::page::join;

/// The result of a call that did its work.
pub const SUCCESS: u32 = 0;

/// Where installers put the library, when neither the agent nor the program says it.
const FOLDERS: [&CStr; 8] = [
    c"/usr/lib/x86_64-linux-gnu",
    c"/usr/lib64",
    c"/usr/lib",
    c"/lib/x86_64-linux-gnu",
    c"/usr/local/nvidia/lib64",
    c"/usr/lib/wsl/lib",
    c"/run/opengl-driver/lib",
    c"/usr/local/cuda/compat",
];

/// A function of the driver. `F` is its type.
#[inline]
pub fn function<F: Copy>(ix: usize) -> Option<F> {
    let address = DRIVER.get(ix)?.load(Relaxed);
    if address == 0 || size_of::<F>() != size_of::<usize>() {
        return None;
    }
    // SAFETY: the address of this symbol, and the caller knows its type.
    Some(unsafe { core::mem::transmute_copy(&address) })
}

/// Loads the library and finds its symbols; returns whether there is one.
pub fn find() -> bool {
    let mut path = [0; 4096];
    let mut name = [0_u8; 32];
    for (to, from) in name.iter_mut().zip(VARIABLE.bytes()) {
        *to = from;
    }
    let named = CStr::from_bytes_until_nul(&name).ok().and_then(variable);
    if named.is_some_and(|path| path.to_bytes().first() == Some(&b'/') && take(path)) {
        return true;
    }
    // The loader would look there after the shim.
    let folders = variable(c"LD_LIBRARY_PATH").map_or(&[][..], CStr::to_bytes);
    for folder in folders.split(|byte| matches!(byte, b':' | b';')) {
        if join(&mut path, folder, FILE).is_some_and(take) {
            return true;
        }
    }
    FOLDERS.iter().any(|folder| join(&mut path, folder.to_bytes(), FILE).is_some_and(take))
}

/// Loads a library, unless it is missing or this one.
fn take(path: &CStr) -> bool {
    if file_id(path).is_none() {
        return false;
    }
    let library = load(path);
    if library.is_null() || is_self(library) {
        return false;
    }
    for ((name, word), entry) in NAMES.iter().zip(&DRIVER).zip(&ENTRIES) {
        let address = symbol(library, name);
        word.store(if address == *entry as usize { 0 } else { address }, Relaxed);
    }
    true
}

/// Another copy of the shim has its own entries, which lead here again or nowhere.
fn is_self(library: *mut c_void) -> bool {
    symbol(library, c"gpool_shim_version") != 0
}

/// Marks a library as the shim.
#[unsafe(no_mangle)]
pub static gpool_shim_version: u32 = 1;
