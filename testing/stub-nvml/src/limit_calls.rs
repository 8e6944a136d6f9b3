//! Symbols about memory limits of cgroups. Drivers have them since 615.

use std::ffi::{CStr, OsStr, c_char};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use gpool_stub_state::{Device, Limit, Live, State, state_file};

use crate::call::{
    Code, Handle, INVALID_ARGUMENT, NOT_FOUND, NOT_SUPPORTED, OPERATING_SYSTEM, UNKNOWN,
    device_call, device_ix, instance,
};

/// The first driver with limits.
const SINCE: u32 = 615;
/// `NVML_DEVICE_MEMORY_LIMIT_MAX`.
const NO_LIMIT: u64 = u64::MAX;

/// `nvmlSetMemoryLimits_v1_t`.
#[repr(C)]
struct SetLimits {
    cgroup: *const c_char,
    soft: u64,
    hard: u64,
}

/// `nvmlGetMemoryLimits_v1_t`.
#[repr(C)]
struct GetLimits {
    cgroup: *const c_char,
    soft: u64,
    hard: u64,
    used: u64,
}

/// The folder of a cgroup that exists.
///
/// # Safety
/// `cgroup` is null or a C string.
unsafe fn folder(cgroup: *const c_char) -> Result<PathBuf, Code> {
    if cgroup.is_null() {
        return Err(INVALID_ARGUMENT);
    }
    // SAFETY: not null, and the caller passes a C string.
    let path = PathBuf::from(OsStr::from_bytes(unsafe { CStr::from_ptr(cgroup) }.to_bytes()));
    if path.is_dir() { Ok(path) } else { Err(OPERATING_SYSTEM) }
}

fn live() -> Result<Live, Code> {
    state_file().map(|file| Live::beside(&file)).map_err(|_| UNKNOWN)
}

fn check(state: &State, device: &Device, handle: Handle) -> Result<usize, Code> {
    let branch = state.driver.split('.').next().and_then(|branch| branch.parse().ok());
    let has_limits = branch.unwrap_or(0) >= SINCE && device.mig != Some(true);
    if !has_limits || instance(device, handle).is_some() {
        return Err(NOT_SUPPORTED);
    }
    device_ix(handle).ok_or(INVALID_ARGUMENT)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceSetMemoryLimits_v1(
    device: Handle,
    limits: Option<&SetLimits>,
) -> Code {
    device_call("nvmlDeviceSetMemoryLimits_v1", device, |state, it| {
        let ix = check(state, it, device)?;
        let limits = limits.ok_or(INVALID_ARGUMENT)?;
        // SAFETY: the caller guarantees the text.
        let cgroup = unsafe { folder(limits.cgroup)? };
        let clears = limits.soft == 0 && limits.hard == NO_LIMIT;
        let most = it.memory.unwrap_or(NO_LIMIT);
        if !clears && (limits.soft > limits.hard || limits.hard > most) {
            return Err(INVALID_ARGUMENT);
        }
        let live = live()?;
        let locked = live.lock().map_err(|_| UNKNOWN)?;
        let mut all = locked.limits();
        all.retain(|it| it.device != ix || it.cgroup != cgroup);
        if !clears {
            all.push(Limit { device: ix, soft: limits.soft, hard: limits.hard, cgroup });
        }
        locked.write_limits(&all).map_err(|_| UNKNOWN)
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetMemoryLimits_v1(
    device: Handle,
    limits: Option<&mut GetLimits>,
) -> Code {
    device_call("nvmlDeviceGetMemoryLimits_v1", device, |state, it| {
        let ix = check(state, it, device)?;
        let limits = limits.ok_or(INVALID_ARGUMENT)?;
        // SAFETY: the caller guarantees the text.
        let cgroup = unsafe { folder(limits.cgroup)? };
        let live = live()?;
        let locked = live.lock().map_err(|_| UNKNOWN)?;
        let all = locked.limits();
        let found = all.iter().find(|it| it.device == ix && it.cgroup == cgroup);
        let found = found.ok_or(NOT_FOUND)?;
        let records = locked.records().map_err(|_| UNKNOWN)?;
        (limits.soft, limits.hard) = (found.soft, found.hard);
        limits.used = found.used(&records);
        Ok(())
    })
}
