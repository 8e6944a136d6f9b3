//! Calls of the NVIDIA management library about MIG instances that its Rust wrapper lacks. Devices
//! are named by UUID. They may block as long as the driver does.
//!
//! Source: `nvml.h` of NVML 13.4.

use std::ffi::{CStr, CString, OsStr, c_char, c_int, c_void};
use std::mem::size_of;
use std::os::unix::ffi::OsStrExt;

use thiserror::Error;

#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{call} failed: {why}")]
pub struct Failed {
    pub call: &'static str,
    pub kind: MigErrorKind,
    /// The driver's message.
    pub why: String,
}

/// The kinds of errors with their own meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MigErrorKind {
    /// The device or instance is gone.
    NotFound,
    NoRoom,
    InUse,
    Other,
}

/// A size of instances.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Profile {
    /// The kind of profile, the same on all devices: `NVML_GPU_INSTANCE_PROFILE_…`.
    pub kind: u32,
    /// The driver's number for it on this device.
    pub id: u32,
    /// The driver's name; empty if it has none.
    pub name: String,
    /// Compute slices.
    pub slices: u32,
    /// Instances that an empty device can have.
    pub n_max: u32,
    pub multiprocessors: u32,
    /// MiB of memory.
    pub memory_mb: u64,
    /// Further instances that the device can have now.
    pub n_free: u32,
    /// First memory slice and number of slices of each possible place.
    pub placements: Vec<(u32, u32)>,
    pub instances: Vec<GpuInstance>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GpuInstance {
    /// Its number on the device.
    pub id: u32,
    /// First memory slice and number of slices.
    pub placement: (u32, u32),
}

const SUCCESS: c_int = 0;
const INVALID_ARGUMENT: c_int = 2;
const NOT_SUPPORTED: c_int = 3;
const NOT_FOUND: c_int = 6;
const INSUFFICIENT_RESOURCES: c_int = 23;
const IN_USE: c_int = 19;
/// More kinds of profiles than a driver has, of GPU and of compute instances.
const KINDS: u32 = 32;
/// Most places, and most instances, of one profile.
const PLACES: u32 = 32;
/// `NVML_COMPUTE_INSTANCE_ENGINE_PROFILE_SHARED`.
const SHARED_ENGINES: u32 = 0;

type Handle = *mut c_void;
type Count = *mut u32;
/// The name of a call for a number of a device, and the call.
type NumberOf = (&'static str, unsafe extern "C" fn(Handle, Count) -> c_int);

/// `nvmlGpuInstanceProfileInfo_v2_t`.
#[repr(C)]
struct GpuProfile {
    version: u32,
    id: u32,
    is_p2p_supported: u32,
    slices: u32,
    n_max: u32,
    multiprocessors: u32,
    engines: [u32; 5],
    memory_mb: u64,
    name: [c_char; 96],
}

/// `NVML_STRUCT_VERSION(GpuInstanceProfileInfo, 2)`: the size, and the version above.
const GPU_PROFILE_VERSION: u32 = 152 | 2 << 24;
const _: () = assert!(size_of::<GpuProfile>() == 152);

/// `nvmlComputeInstanceProfileInfo_t`.
#[repr(C)]
#[derive(Default)]
struct ComputeProfile {
    id: u32,
    slices: u32,
    n_max: u32,
    multiprocessors: u32,
    engines: [u32; 5],
}

/// `nvmlGpuInstancePlacement_t`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Placement {
    start: u32,
    size: u32,
}

/// `nvmlGpuInstanceInfo_t`.
#[repr(C)]
struct GpuInfo {
    device: Handle,
    id: u32,
    profile: u32,
    placement: Placement,
}

macro_rules! calls {
    ($($name:ident: $symbol:literal ($($argument:ty),*);)*) => {
        /// The calls of a loaded library.
        #[derive(Clone, Copy)]
        #[allow(clippy::type_complexity)]
        pub struct MigCalls {
            explain: unsafe extern "C" fn(c_int) -> *const c_char,
            $($name: (&'static str, unsafe extern "C" fn($($argument),*) -> c_int),)*
        }

        impl MigCalls {
            /// The calls of a library that this process has loaded and initialised, and never
            /// unloads; `None` if it lacks one.
            #[must_use]
            pub fn of(library: &OsStr) -> Option<Self> {
                let path = CString::new(library.as_bytes()).ok()?;
                // SAFETY: a C string; nothing is loaded that is not there already.
                let library = unsafe {
                    libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_NOLOAD)
                };
                if library.is_null() {
                    return None;
                }
                let found = |name: &str| {
                    let name = CString::new(name).ok()?;
                    // SAFETY: a loaded library and a C string.
                    let symbol = unsafe { libc::dlsym(library, name.as_ptr()) };
                    (!symbol.is_null()).then_some(symbol)
                };
                let explain = found("nvmlErrorString")?;
                $(let $name = found($symbol)?;)*
                // SAFETY: the types of these symbols.
                Some(unsafe {
                    Self {
                        explain: std::mem::transmute::<
                            Handle, unsafe extern "C" fn(c_int) -> *const c_char
                        >(explain),
                        $($name: ($symbol, std::mem::transmute::<
                            Handle, unsafe extern "C" fn($($argument),*) -> c_int
                        >($name)),)*
                    }
                })
            }
        }
    };
}

calls! {
    by_uuid: "nvmlDeviceGetHandleByUUID" (*const c_char, *mut Handle);
    gpu_profile: "nvmlDeviceGetGpuInstanceProfileInfoV" (Handle, u32, *mut GpuProfile);
    placements: "nvmlDeviceGetGpuInstancePossiblePlacements_v2"
        (Handle, u32, *mut Placement, Count);
    remaining: "nvmlDeviceGetGpuInstanceRemainingCapacity" (Handle, u32, Count);
    instances: "nvmlDeviceGetGpuInstances" (Handle, u32, *mut Handle, Count);
    instance_by_id: "nvmlDeviceGetGpuInstanceById" (Handle, u32, *mut Handle);
    instance_info: "nvmlGpuInstanceGetInfo" (Handle, *mut GpuInfo);
    instance_of: "nvmlDeviceGetGpuInstanceId" (Handle, Count);
    compute_instance_of: "nvmlDeviceGetComputeInstanceId" (Handle, Count);
    create: "nvmlDeviceCreateGpuInstance" (Handle, u32, *mut Handle);
    destroy: "nvmlGpuInstanceDestroy" (Handle);
    compute_profile: "nvmlGpuInstanceGetComputeInstanceProfileInfo"
        (Handle, u32, u32, *mut ComputeProfile);
    compute_instances: "nvmlGpuInstanceGetComputeInstances" (Handle, u32, *mut Handle, Count);
    create_compute: "nvmlGpuInstanceCreateComputeInstance" (Handle, u32, *mut Handle);
    destroy_compute: "nvmlComputeInstanceDestroy" (Handle);
}

impl MigCalls {
    /// The profiles of a device, with its instances.
    ///
    /// # Errors
    /// If the device is gone, or the driver fails.
    pub fn profiles(&self, device: &str) -> Result<Vec<Profile>, Failed> {
        let device = self.handle(device)?;
        let mut profiles = Vec::new();
        for kind in 0..KINDS {
            let Some(info) = self.gpu_profile_of(device, kind)? else { continue };
            profiles.push(self.profile(device, kind, &info)?);
        }
        Ok(profiles)
    }

    fn profile(&self, device: Handle, kind: u32, info: &GpuProfile) -> Result<Profile, Failed> {
        let mut n_free = 0;
        let (call, remaining) = self.remaining;
        // SAFETY: a handle of the driver, and a place for the number.
        self.check(call, unsafe { remaining(device, info.id, &raw mut n_free) })?;
        let mut places = [Placement::default(); PLACES as usize];
        let mut n_places = PLACES;
        let (call, placements) = self.placements;
        // SAFETY: the array has the length that the call gets.
        let code = unsafe { placements(device, info.id, places.as_mut_ptr(), &raw mut n_places) };
        self.check(call, code)?;
        let mut handles = [std::ptr::null_mut(); PLACES as usize];
        let mut n_instances = PLACES;
        let (call, instances) = self.instances;
        // SAFETY: the array has the length that the call gets.
        let code =
            unsafe { instances(device, info.id, handles.as_mut_ptr(), &raw mut n_instances) };
        self.check(call, code)?;
        let handles = handles.iter().take(n_instances as usize);
        let instances = handles.map(|it| self.part(*it)).collect::<Result<_, _>>()?;
        let places = places.iter().take(n_places as usize);
        Ok(Profile {
            kind,
            id: info.id,
            name: text(&info.name),
            slices: info.slices,
            n_max: info.n_max,
            multiprocessors: info.multiprocessors,
            memory_mb: info.memory_mb,
            n_free,
            placements: places.map(|place| (place.start, place.size)).collect(),
            instances,
        })
    }

    /// The number of the GPU instance that a MIG device belongs to.
    ///
    /// # Errors
    /// If the MIG device is gone.
    pub fn instance_of(&self, mig_device: &str) -> Result<u32, Failed> {
        self.number_of(mig_device, self.instance_of)
    }

    /// The number of the compute instance of a MIG device, within its GPU instance.
    ///
    /// # Errors
    /// If the MIG device is gone.
    pub fn compute_instance_of(&self, mig_device: &str) -> Result<u32, Failed> {
        self.number_of(mig_device, self.compute_instance_of)
    }

    fn number_of(&self, mig_device: &str, (call, number): NumberOf) -> Result<u32, Failed> {
        let device = self.handle(mig_device)?;
        let mut id = 0;
        // SAFETY: a handle of the driver, and a place for the number.
        self.check(call, unsafe { number(device, &raw mut id) })?;
        Ok(id)
    }

    /// Creates a GPU instance with one compute instance that has all of it; returns the number of
    /// the GPU instance.
    ///
    /// # Errors
    /// If the device has no room for it, or the driver refuses; nothing is left then.
    pub fn create(&self, device: &str, profile: u32) -> Result<u32, Failed> {
        let device = self.handle(device)?;
        let mut instance = std::ptr::null_mut();
        let (call, create) = self.create;
        // SAFETY: a handle of the driver, and a place for the new one.
        self.check(call, unsafe { create(device, profile, &raw mut instance) })?;
        let created = self.fill(instance).and_then(|()| self.part(instance));
        if created.is_err() {
            // SAFETY: the handle of the new instance, which has no other user.
            unsafe { self.destroy.1(instance) };
        }
        created.map(|part| part.id)
    }

    /// Creates the compute instance that has all of a GPU instance.
    fn fill(&self, instance: Handle) -> Result<(), Failed> {
        let mut largest: Option<ComputeProfile> = None;
        for kind in 0..KINDS {
            let found = self.compute_profile_of(instance, kind)?;
            let is_larger =
                |it: &ComputeProfile| largest.as_ref().is_none_or(|other| it.slices > other.slices);
            largest = found.filter(is_larger).or(largest);
        }
        let (call, create) = self.create_compute;
        let profile = largest.ok_or_else(|| self.failed(call, NOT_SUPPORTED))?;
        let mut compute = std::ptr::null_mut();
        // SAFETY: a handle of the driver, and a place for the new one.
        self.check(call, unsafe { create(instance, profile.id, &raw mut compute) })
    }

    /// Destroys a GPU instance and its compute instances.
    ///
    /// # Errors
    /// If it is in use, or the driver refuses.
    pub fn destroy(&self, device: &str, instance: u32) -> Result<(), Failed> {
        let device = self.handle(device)?;
        let mut handle = std::ptr::null_mut();
        let (call, by_id) = self.instance_by_id;
        // SAFETY: a handle of the driver, and a place for another.
        self.check(call, unsafe { by_id(device, instance, &raw mut handle) })?;
        for kind in 0..KINDS {
            let Some(profile) = self.compute_profile_of(handle, kind)? else { continue };
            let mut parts = [std::ptr::null_mut(); PLACES as usize];
            let mut n_parts = PLACES;
            let (call, list) = self.compute_instances;
            // SAFETY: the array has the length that the call gets.
            let code = unsafe { list(handle, profile.id, parts.as_mut_ptr(), &raw mut n_parts) };
            self.check(call, code)?;
            for part in parts.iter().take(n_parts as usize) {
                let (call, destroy) = self.destroy_compute;
                // SAFETY: a handle of the driver, which is not used again.
                self.check(call, unsafe { destroy(*part) })?;
            }
        }
        let (call, destroy) = self.destroy;
        // SAFETY: a handle of the driver, which is not used again.
        self.check(call, unsafe { destroy(handle) })
    }

    fn handle(&self, uuid: &str) -> Result<Handle, Failed> {
        let (call, by_uuid) = self.by_uuid;
        let uuid = CString::new(uuid).map_err(|_| self.failed(call, INVALID_ARGUMENT))?;
        let mut handle = std::ptr::null_mut();
        // SAFETY: a C string, and a place for the handle.
        self.check(call, unsafe { by_uuid(uuid.as_ptr(), &raw mut handle) })?;
        Ok(handle)
    }

    fn part(&self, instance: Handle) -> Result<GpuInstance, Failed> {
        let placement = Placement::default();
        let mut info = GpuInfo { device: std::ptr::null_mut(), id: 0, profile: 0, placement };
        let (call, instance_info) = self.instance_info;
        // SAFETY: a handle of the driver, and a place for the information.
        self.check(call, unsafe { instance_info(instance, &raw mut info) })?;
        Ok(GpuInstance { id: info.id, placement: (info.placement.start, info.placement.size) })
    }

    fn gpu_profile_of(&self, device: Handle, kind: u32) -> Result<Option<GpuProfile>, Failed> {
        let mut info = GpuProfile {
            version: GPU_PROFILE_VERSION,
            id: 0,
            is_p2p_supported: 0,
            slices: 0,
            n_max: 0,
            multiprocessors: 0,
            engines: [0; 5],
            memory_mb: 0,
            name: [0; 96],
        };
        let (call, gpu_profile) = self.gpu_profile;
        // SAFETY: a handle of the driver, and a structure of the version that it names.
        let code = unsafe { gpu_profile(device, kind, &raw mut info) };
        Ok(self.if_supported(call, code)?.then_some(info))
    }

    fn compute_profile_of(
        &self,
        instance: Handle,
        kind: u32,
    ) -> Result<Option<ComputeProfile>, Failed> {
        let mut info = ComputeProfile::default();
        let (call, profile) = self.compute_profile;
        // SAFETY: a handle of the driver, and a place for the information.
        let code = unsafe { profile(instance, kind, SHARED_ENGINES, &raw mut info) };
        Ok(self.if_supported(call, code)?.then_some(info))
    }

    /// Whether there is a profile of a kind: devices have a few of them, drivers know more or less.
    fn if_supported(&self, call: &'static str, code: c_int) -> Result<bool, Failed> {
        match code {
            NOT_SUPPORTED | INVALID_ARGUMENT | NOT_FOUND => Ok(false),
            code => self.check(call, code).map(|()| true),
        }
    }

    fn check(&self, call: &'static str, code: c_int) -> Result<(), Failed> {
        if code == SUCCESS { Ok(()) } else { Err(self.failed(call, code)) }
    }

    fn failed(&self, call: &'static str, code: c_int) -> Failed {
        // SAFETY: the library returns a constant C string, or null.
        let why = unsafe {
            let text = (self.explain)(code);
            (!text.is_null()).then(|| CStr::from_ptr(text).to_string_lossy().into_owned())
        };
        let kind = match code {
            NOT_FOUND => MigErrorKind::NotFound,
            INSUFFICIENT_RESOURCES => MigErrorKind::NoRoom,
            IN_USE => MigErrorKind::InUse,
            _ => MigErrorKind::Other,
        };
        Failed { call, kind, why: why.unwrap_or_else(|| format!("error {code}")) }
    }
}

fn text(characters: &[c_char]) -> String {
    let bytes: Vec<u8> =
        characters.iter().map(|c| c.cast_unsigned()).take_while(|c| *c != 0).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}
