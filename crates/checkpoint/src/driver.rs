//! The functions of `libcuda.so.1` that checkpoint a process. All of them are optional: old drivers
//! have none.

use std::ffi::{c_int, c_void};
use std::path::Path;

use libloading::Library;

use crate::call::{CallError, ProcessState};

/// The functions that a pause needs, by their names after `cuCheckpointProcess`.
pub(crate) const NEEDED: [&str; 5] = ["GetState", "Lock", "Checkpoint", "Restore", "Unlock"];

const UUID_BYTES: usize = 16;

/// The type of all functions about a process.
type OfProcess = unsafe extern "C" fn(c_int, *mut c_void) -> c_int;

/// `CUcheckpointLockArgs`. All such structures have 64 bytes.
#[repr(C)]
struct LockArguments {
    timeout_ms: u32,
    reserved: [u32; 15],
}

/// `CUcheckpointRestoreArgs`. Before CUDA 13 all of it was reserved.
#[repr(C)]
struct RestoreArguments {
    pairs: *const [[u8; UUID_BYTES]; 2],
    n_pairs: u32,
    reserved: [u32; 13],
}

/// The loaded library.
pub(crate) struct Driver {
    library: Library,
}

impl Driver {
    pub(crate) fn open(path: &Path) -> Result<Self, CallError> {
        // SAFETY: the driver's own library; its constructors have no conditions.
        let opened = unsafe { Library::new(path) };
        opened.map(|library| Self { library }).map_err(|error| CallError::NoLibrary {
            library: path.display().to_string(),
            why: error.to_string(),
        })
    }

    pub(crate) fn has(&self, symbol: &str) -> bool {
        // SAFETY: only its address is read.
        unsafe { self.library.get::<*const c_void>(symbol.as_bytes()) }.is_ok()
    }

    /// The CUDA version of the driver: 13000 is 13.0.
    pub(crate) fn version(&self) -> Result<u32, CallError> {
        let symbol = "cuDriverGetVersion";
        let mut version: c_int = 0;
        // SAFETY: the function has this type in all versions.
        unsafe {
            let call: unsafe extern "C" fn(*mut c_int) -> c_int = self.find(symbol)?;
            result(symbol, call(&raw mut version))?;
        }
        Ok(u32::try_from(version).unwrap_or(0))
    }

    /// Initialises the driver in this process: a restore needs that, or persistence mode.
    fn init(&self) -> Result<(), CallError> {
        // SAFETY: the function has this type in all versions.
        unsafe {
            let call: unsafe extern "C" fn(u32) -> c_int = self.find("cuInit")?;
            result("cuInit", call(0))
        }
    }

    pub(crate) fn state(&self, pid: u32) -> Result<ProcessState, CallError> {
        let mut state = u32::MAX;
        self.call("GetState", pid, (&raw mut state).cast())?;
        let symbol = "cuCheckpointProcessGetState".to_owned();
        ProcessState::of(state).ok_or(CallError::Driver { symbol, code: 999 })
    }

    pub(crate) fn lock(&self, pid: u32, timeout_ms: u32) -> Result<(), CallError> {
        let mut arguments = LockArguments { timeout_ms, reserved: [0; 15] };
        self.call("Lock", pid, (&raw mut arguments).cast())
    }

    pub(crate) fn checkpoint(&self, pid: u32) -> Result<(), CallError> {
        self.call("Checkpoint", pid, std::ptr::null_mut())
    }

    pub(crate) fn restore(&self, pid: u32, pairs: &[(String, String)]) -> Result<(), CallError> {
        self.init()?;
        let bytes = |(old, new): &(String, String)| Some([uuid_bytes(old)?, uuid_bytes(new)?]);
        let pairs: Option<Vec<_>> = pairs.iter().map(bytes).collect();
        let symbol = || "cuCheckpointProcessRestore".to_owned();
        let pairs = pairs.ok_or_else(|| CallError::Driver { symbol: symbol(), code: 1 })?;
        if pairs.is_empty() {
            return self.call("Restore", pid, std::ptr::null_mut());
        }
        let n_pairs = u32::try_from(pairs.len()).unwrap_or(u32::MAX);
        let mut arguments = RestoreArguments { pairs: pairs.as_ptr(), n_pairs, reserved: [0; 13] };
        self.call("Restore", pid, (&raw mut arguments).cast())
    }

    /// Allocates and frees memory on a device. The context of this process stands for a part of it.
    pub(crate) fn try_room(&self, uuid: &str, bytes: u64) -> Result<(), CallError> {
        /// What a context takes at most, usually.
        const CONTEXT: u64 = 512 << 20;
        let bytes = usize::try_from(bytes.saturating_sub(CONTEXT)).unwrap_or(usize::MAX).max(1);
        self.init()?;
        let device = self.device(uuid)?;
        let (mut context, mut address) = (std::ptr::null_mut::<c_void>(), 0_u64);
        // SAFETY: the functions have these types in all versions with checkpoints.
        unsafe {
            let retain: unsafe extern "C" fn(*mut *mut c_void, c_int) -> c_int =
                self.find("cuDevicePrimaryCtxRetain")?;
            let release: unsafe extern "C" fn(c_int) -> c_int =
                self.find("cuDevicePrimaryCtxRelease_v2")?;
            let set: unsafe extern "C" fn(*mut c_void) -> c_int = self.find("cuCtxSetCurrent")?;
            let alloc: unsafe extern "C" fn(*mut u64, usize) -> c_int =
                self.find("cuMemAlloc_v2")?;
            let free: unsafe extern "C" fn(u64) -> c_int = self.find("cuMemFree_v2")?;
            result("cuDevicePrimaryCtxRetain", retain(&raw mut context, device))?;
            let done = result("cuCtxSetCurrent", set(context))
                .and_then(|()| result("cuMemAlloc_v2", alloc(&raw mut address, bytes)))
                .and_then(|()| result("cuMemFree_v2", free(address)));
            // The end of this process would release it too.
            release(device);
            done
        }
    }

    /// The number of a device of this process.
    fn device(&self, uuid: &str) -> Result<c_int, CallError> {
        let mut n_devices = 0;
        // SAFETY: the functions have these types in all versions with checkpoints.
        unsafe {
            let count: unsafe extern "C" fn(*mut c_int) -> c_int = self.find("cuDeviceGetCount")?;
            let uuid_of: unsafe extern "C" fn(*mut [u8; UUID_BYTES], c_int) -> c_int =
                self.find("cuDeviceGetUuid")?;
            result("cuDeviceGetCount", count(&raw mut n_devices))?;
            for device in 0..n_devices {
                let mut bytes = [0; UUID_BYTES];
                // The handle of a device is its number.
                result("cuDeviceGetUuid", uuid_of(&raw mut bytes, device))?;
                if uuid_bytes(uuid) == Some(bytes) {
                    return Ok(device);
                }
            }
        }
        Err(CallError::Driver { symbol: "cuDeviceGetUuid".to_owned(), code: 100 })
    }

    pub(crate) fn unlock(&self, pid: u32) -> Result<(), CallError> {
        self.call("Unlock", pid, std::ptr::null_mut())
    }

    fn call(&self, name: &str, pid: u32, argument: *mut c_void) -> Result<(), CallError> {
        let symbol = format!("cuCheckpointProcess{name}");
        let pid = c_int::try_from(pid).unwrap_or(-1);
        // SAFETY: all of them have this type, and the argument is null or theirs.
        unsafe {
            let call: OfProcess = self.find(&symbol)?;
            result(&symbol, call(pid, argument))
        }
    }

    /// Finds a function. The caller knows its type `F`.
    unsafe fn find<F: Copy>(&self, symbol: &str) -> Result<F, CallError> {
        // SAFETY: the caller's promise.
        let found = unsafe { self.library.get::<F>(symbol.as_bytes()) };
        found.map(|it| *it).map_err(|_| CallError::NoSymbol { symbol: symbol.to_owned() })
    }
}

fn result(symbol: &str, code: c_int) -> Result<(), CallError> {
    match code {
        0 => Ok(()),
        code => Err(CallError::Driver { symbol: symbol.to_owned(), code }),
    }
}

/// The bytes of a UUID in the form `GPU-8-4-4-4-12`.
pub fn uuid_bytes(uuid: &str) -> Option<[u8; UUID_BYTES]> {
    let digits: String = uuid.strip_prefix("GPU-")?.chars().filter(|it| *it != '-').collect();
    if digits.len() != 2 * UUID_BYTES || !digits.is_ascii() {
        return None;
    }
    let mut bytes = [0; UUID_BYTES];
    for (ix, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&digits[2 * ix..2 * ix + 2], 16).ok()?;
    }
    Some(bytes)
}
