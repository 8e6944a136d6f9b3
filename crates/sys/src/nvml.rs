//! Calls of the NVIDIA management library that its Rust wrapper lacks: memory limits of control
//! groups, which drivers have since 615, and the NVLink domain of a device.
//!
//! Source: `nvml.h` of NVML 13.4.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// The result of a call that did its work.
const SUCCESS: c_int = 0;
/// `NVML_DEVICE_MEMORY_LIMIT_MAX`.
const NO_LIMIT: u64 = u64::MAX;

type GetHandle = unsafe extern "C" fn(*const c_char, *mut *mut c_void) -> c_int;
type SetLimits = unsafe extern "C" fn(*mut c_void, *const MemoryLimitsV1) -> c_int;
type GetFabricInfo = unsafe extern "C" fn(*mut c_void, *mut FabricInfoV2) -> c_int;
type Explain = unsafe extern "C" fn(c_int) -> *const c_char;

/// `nvmlSetMemoryLimits_v1_t`.
#[repr(C)]
struct MemoryLimitsV1 {
    group: *const c_char,
    soft: u64,
    hard: u64,
}

/// Finds symbols of a library that this process has loaded.
fn symbols(library: &Path) -> Option<impl Fn(&CStr) -> Option<*mut c_void>> {
    let path = CString::new(library.as_os_str().as_bytes()).ok()?;
    // SAFETY: a C string; nothing is loaded that is not there already.
    let library = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_NOLOAD) };
    let find = move |name: &CStr| {
        // SAFETY: a loaded library and a C string.
        let symbol = unsafe { libc::dlsym(library, name.as_ptr()) };
        (!symbol.is_null()).then_some(symbol)
    };
    (!library.is_null()).then_some(find)
}

/// `nvmlGpuFabricInfo_v2_t`.
#[repr(C)]
#[derive(Default)]
struct FabricInfoV2 {
    version: u32,
    cluster_uuid: [u8; 16],
    status: c_int,
    clique: u32,
    state: u8,
    health: u32,
}

/// `NVML_GPU_FABRIC_STATE_COMPLETED`.
const FABRIC_COMPLETED: u8 = 3;

/// The NVLink domain of a device: the UUID of its fabric and the number of its clique, as NVIDIA
/// labels nodes of Kubernetes by `nvidia.com/gpu.clique`. `None` if it has none, or has not joined
/// one yet. The library is loaded and initialised, and is never unloaded.
#[must_use]
pub fn nvlink_domain(library: &Path, device: &str) -> Option<String> {
    let found = symbols(library)?;
    let (handle, info) =
        (found(c"nvmlDeviceGetHandleByUUID")?, found(c"nvmlDeviceGetGpuFabricInfoV")?);
    // SAFETY: the types of these symbols.
    let (handle, info) = unsafe {
        (
            std::mem::transmute::<*mut c_void, GetHandle>(handle),
            std::mem::transmute::<*mut c_void, GetFabricInfo>(info),
        )
    };
    let device = CString::new(device).ok()?;
    let mut place = std::ptr::null_mut();
    // SAFETY: a C string, and a place for the handle.
    if unsafe { handle(device.as_ptr(), &raw mut place) } != SUCCESS {
        return None;
    }
    let size = u32::try_from(size_of::<FabricInfoV2>()).ok()?;
    let mut fabric = FabricInfoV2 { version: size | 2 << 24, ..FabricInfoV2::default() };
    // SAFETY: a handle of the driver, and a structure of the version that it names.
    if unsafe { info(place, &raw mut fabric) } != SUCCESS {
        return None;
    }
    let id = u128::from_be_bytes(fabric.cluster_uuid);
    let joined = fabric.status == SUCCESS && fabric.state == FABRIC_COMPLETED && id != 0;
    let hex = format!("{id:032x}");
    let parts = [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]];
    joined.then(|| format!("{}.{}", parts.join("-"), fabric.clique))
}

/// The calls of a loaded library.
#[derive(Clone, Copy)]
pub struct MemoryLimits {
    handle: GetHandle,
    set: SetLimits,
    explain: Explain,
}

impl MemoryLimits {
    /// The calls of a library that this process has loaded and initialised, and never unloads;
    /// `None` if it has no such calls.
    #[must_use]
    pub fn of(library: &Path) -> Option<Self> {
        let found = symbols(library)?;
        let handle = found(c"nvmlDeviceGetHandleByUUID")?;
        let set = found(c"nvmlDeviceSetMemoryLimits_v1")?;
        let explain = found(c"nvmlErrorString")?;
        // SAFETY: the types of these symbols.
        Some(unsafe {
            Self {
                handle: std::mem::transmute::<*mut c_void, GetHandle>(handle),
                set: std::mem::transmute::<*mut c_void, SetLimits>(set),
                explain: std::mem::transmute::<*mut c_void, Explain>(explain),
            }
        })
    }

    /// Limits the memory of the processes in a group of version 2 and below, in bytes, or removes
    /// the limit. Memory that they have counts only if the limit was there before.
    ///
    /// # Errors
    /// Returns the driver's message.
    pub fn set(&self, device: &str, group: &Path, limit: Option<u64>) -> Result<(), String> {
        let text = |bytes: &[u8]| CString::new(bytes).map_err(|error| error.to_string());
        let (device, group) = (text(device.as_bytes())?, text(group.as_os_str().as_bytes())?);
        let mut handle = std::ptr::null_mut();
        // SAFETY: a C string, and a place for the handle.
        self.check(unsafe { (self.handle)(device.as_ptr(), &raw mut handle) })?;
        // No soft limit: gpool reserves the guaranteed memory itself, and a soft limit stays with
        // the groups above if the group is removed before it is cleared.
        let limits =
            MemoryLimitsV1 { group: group.as_ptr(), soft: 0, hard: limit.unwrap_or(NO_LIMIT) };
        // SAFETY: a handle of the driver; text and structure live longer than the call.
        self.check(unsafe { (self.set)(handle, &raw const limits) })
    }

    fn check(&self, code: c_int) -> Result<(), String> {
        if code == SUCCESS {
            return Ok(());
        }
        // SAFETY: the library returns a constant C string, or null.
        let text = unsafe {
            let text = (self.explain)(code);
            (!text.is_null()).then(|| CStr::from_ptr(text).to_string_lossy().into_owned())
        };
        Err(text.unwrap_or_else(|| format!("error {code}")))
    }
}
