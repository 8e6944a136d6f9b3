//! Symbols that launch kernels, which do nothing and are counted.

use std::ffi::c_void;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::code::{Code, SUCCESS};
use crate::driver::{BARE, call};

static N_LAUNCHES: AtomicU64 = AtomicU64::new(0);

fn count(symbol: &str) -> Code {
    // Not an atomic addition: it would cost more than the real work that benchmarks compare.
    if BARE.load(Ordering::Relaxed) {
        N_LAUNCHES.store(N_LAUNCHES.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        return SUCCESS;
    }
    call(symbol, |_, _| {
        N_LAUNCHES.fetch_add(1, Ordering::Relaxed);
        Ok(())
    })
}

/// The number of launches by this process. Not a symbol of the driver.
#[unsafe(no_mangle)]
extern "C" fn gpoolStubLaunches() -> u64 {
    N_LAUNCHES.load(Ordering::Relaxed)
}

#[unsafe(no_mangle)]
extern "C" fn cuLaunchKernel(
    _function: usize,
    _grid_x: u32,
    _grid_y: u32,
    _grid_z: u32,
    _block_x: u32,
    _block_y: u32,
    _block_z: u32,
    _shared: u32,
    _stream: usize,
    _parameters: *mut *mut c_void,
    _extra: *mut *mut c_void,
) -> Code {
    count("cuLaunchKernel")
}

#[unsafe(no_mangle)]
extern "C" fn cuLaunchKernel_ptsz(
    _function: usize,
    _grid_x: u32,
    _grid_y: u32,
    _grid_z: u32,
    _block_x: u32,
    _block_y: u32,
    _block_z: u32,
    _shared: u32,
    _stream: usize,
    _parameters: *mut *mut c_void,
    _extra: *mut *mut c_void,
) -> Code {
    count("cuLaunchKernel_ptsz")
}

#[unsafe(no_mangle)]
extern "C" fn cuLaunchKernelEx(
    _config: usize,
    _function: usize,
    _parameters: *mut *mut c_void,
    _extra: *mut *mut c_void,
) -> Code {
    count("cuLaunchKernelEx")
}
