//! `cuGetProcAddress`: the CUDA runtime and frameworks find all other symbols with it. It returns
//! the driver's functions, except for those that have a replacement or wait at the gate.

use core::ffi::{CStr, c_char};
use core::sync::atomic::Ordering::Relaxed;

use crate::cuda::OUT_OF_MEMORY;
use crate::driver::{SUCCESS, function};
use crate::entries::{DRIVER, ENTRIES, IS_WORK, NAMES, TABLE, ix};

type Get = unsafe extern "C" fn(*const c_char, *mut usize, i32, u64) -> u32;
type Get2 = unsafe extern "C" fn(*const c_char, *mut usize, i32, u64, *mut u32) -> u32;

/// `CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM`.
const PER_THREAD: u64 = 2;

/// Versions of symbols with an own replacement, newest first: the CUDA version of each.
///
/// Source: `cudaTypedefs.h`.
const VERSIONS: [(&[u8], i32, &[u8]); 5] = [
    (b"cuCtxCreate", 12_050, b"_v4"),
    (b"cuCtxCreate", 11_040, b"_v3"),
    (b"cuGetProcAddress", 12_000, b"_v2"),
    (b"cuGetProcAddress", 11_030, b""),
    (b"cuIpcOpenMemHandle", 11_000, b"_v2"),
];

pub unsafe extern "C" fn get(
    name: *const c_char,
    found: *mut usize,
    version: i32,
    flags: u64,
) -> u32 {
    let Some(call) = function::<Get>(ix::cuGetProcAddress) else { return OUT_OF_MEMORY };
    let result = call(name, found, version, flags);
    replace(result, name, found, version, flags);
    result
}

pub unsafe extern "C" fn get_2(
    name: *const c_char,
    found: *mut usize,
    version: i32,
    flags: u64,
    status: *mut u32,
) -> u32 {
    let Some(call) = function::<Get2>(ix::cuGetProcAddress_v2) else { return OUT_OF_MEMORY };
    let result = call(name, found, version, flags, status);
    replace(result, name, found, version, flags);
    result
}

unsafe fn replace(result: u32, name: *const c_char, found: *mut usize, version: i32, flags: u64) {
    if result != SUCCESS || name.is_null() || found.is_null() || *found == 0 {
        return;
    }
    let name = CStr::from_ptr(name).to_bytes();
    // Versions of a symbol can have one address.
    let is_same = |ix: &usize| DRIVER.get(*ix).is_some_and(|word| word.load(Relaxed) == *found);
    let mut same = (0..DRIVER.len()).filter(is_same).peekable();
    // A driver may return other addresses than it exports.
    let ix = match same.peek() {
        Some(_) => same.find(|ix| is_needed(*ix)),
        None => by_name(name, version, flags).filter(|ix| is_needed(*ix)),
    };
    if let Some(ix) = ix
        && let Some(entry) = ENTRIES.get(ix)
    {
        *found = *entry as *const () as usize;
    }
}

/// Whether calls must go through the entry of this symbol.
fn is_needed(ix: usize) -> bool {
    let load = |words: &[core::sync::atomic::AtomicUsize]| {
        words.get(ix).map_or(0, |word| word.load(Relaxed))
    };
    let is_work = IS_WORK.get(ix).copied().unwrap_or(false);
    is_work || load(&TABLE) != load(&DRIVER)
}

/// The symbol that a name without version stands for.
fn by_name(name: &[u8], version: i32, flags: u64) -> Option<usize> {
    let listed = VERSIONS.iter().find(|(of, since, _)| *of == name && version >= *since);
    let suffixes: [&[u8]; 2] = match listed {
        Some((_, _, suffix)) => [suffix, suffix],
        None => [b"_v2", b""],
    };
    let threads: [&[u8]; 3] = match flags & PER_THREAD {
        0 => [b"", b"", b""],
        _ => [b"_ptsz", b"_ptds", b""],
    };
    suffixes.iter().find_map(|suffix| {
        threads.iter().find_map(|thread| {
            NAMES.iter().zip(&DRIVER).position(|(known, word)| {
                let rest = known.to_bytes().strip_prefix(name);
                let rest = rest.and_then(|rest| rest.strip_prefix(*suffix));
                rest == Some(*thread) && word.load(Relaxed) != 0
            })
        })
    })
}
