//! The stub of NVML reports the processes of the stub of CUDA.

use std::ffi::{CStr, CString, c_char, c_void};
use std::path::Path;

use gpool_stub_nvml::cgroup_of;

use crate::rig::{GIB, MIB, Machine, OK, OUT_OF_MEMORY, until};

/// The stub of NVML, with the machine's state beside it.
struct Nvml {
    library: *mut c_void,
}

/// `nvmlSetMemoryLimits_v1_t` and, with the last field, `nvmlGetMemoryLimits_v1_t`.
#[repr(C)]
struct Limits {
    cgroup: *const c_char,
    soft: u64,
    hard: u64,
    used: u64,
}

/// `nvmlProcessInfo_t`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct ProcessInfo {
    pid: u32,
    used: u64,
    instances: [u32; 2],
}

/// `nvmlMemory_v2_t`.
#[repr(C)]
#[derive(Default)]
struct Memory {
    version: u32,
    total: u64,
    reserved: u64,
    free: u64,
    used: u64,
}

impl Nvml {
    fn new(machine: &Machine) -> Self {
        let folder = machine.path("driver");
        let library = folder.join("libnvidia-ml.so.1");
        let link = |name: &str, to: &Path| {
            std::os::unix::fs::symlink(to, folder.join(name)).unwrap();
        };
        std::fs::create_dir(machine.path("state.live")).unwrap();
        link("stub-nvml.json", &machine.state_file());
        link("stub-nvml.live", &machine.path("state.live"));
        let path = CString::new(library.to_str().unwrap()).unwrap();
        // SAFETY: a C string.
        let library = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW) };
        assert!(!library.is_null());
        Self { library }
    }

    fn function<F: Copy>(&self, name: &CStr) -> F {
        // SAFETY: a loaded library, and callers know the type of the symbol.
        unsafe {
            let found = libc::dlsym(self.library, name.as_ptr());
            assert!(!found.is_null() && size_of::<F>() == size_of::<usize>());
            std::mem::transmute_copy(&found)
        }
    }

    /// Process ID and memory of each process of the first device.
    fn processes(&self) -> Vec<(u32, u64)> {
        type Get = unsafe extern "C" fn(usize, &mut u32, *mut ProcessInfo) -> u32;
        let get: Get = self.function(c"nvmlDeviceGetComputeRunningProcesses_v3");
        let mut found = [ProcessInfo::default(); 8];
        let mut count = 8;
        // SAFETY: the array has 8 places.
        assert_eq!(unsafe { get(1, &mut count, found.as_mut_ptr()) }, 0);
        found[..count as usize].iter().map(|it| (it.pid, it.used)).collect()
    }

    fn limits(&self, name: &CStr, cgroup: &Path, soft: u64, hard: u64) -> Result<[u64; 3], u32> {
        let cgroup = CString::new(cgroup.to_str().unwrap()).unwrap();
        let mut limits = Limits { cgroup: cgroup.as_ptr(), soft, hard, used: 0 };
        let call: unsafe extern "C" fn(usize, &mut Limits) -> u32 = self.function(name);
        // SAFETY: the structure of these symbols; the text lives longer than the call.
        match unsafe { call(1, &mut limits) } {
            0 => Ok([limits.soft, limits.hard, limits.used]),
            code => Err(code),
        }
    }

    fn set_limits(&self, cgroup: &Path, soft: u64, hard: u64) -> Result<(), u32> {
        self.limits(c"nvmlDeviceSetMemoryLimits_v1", cgroup, soft, hard).map(|_| ())
    }

    /// Soft limit, hard limit and use.
    fn get_limits(&self, cgroup: &Path) -> Result<[u64; 3], u32> {
        self.limits(c"nvmlDeviceGetMemoryLimits_v1", cgroup, 0, 0)
    }

    /// Used and free bytes of the first device.
    fn memory(&self) -> (u64, u64) {
        type Get = unsafe extern "C" fn(usize, &mut Memory) -> u32;
        let get: Get = self.function(c"nvmlDeviceGetMemoryInfo_v2");
        let mut found = Memory::default();
        // SAFETY: the structure of this symbol.
        assert_eq!(unsafe { get(1, &mut found) }, 0);
        (found.used, found.free)
    }
}

#[test]
fn processes_of_one_stub_are_reported_by_the_other() {
    let mut machine = Machine::new();
    machine.edit(|state| {
        state.devices[0].used = GIB;
        state.cuda.context = 300 * MIB;
    });
    let nvml = Nvml::new(&machine);
    assert_eq!((nvml.processes(), nvml.memory()), (vec![], (GIB, 15 * GIB)));
    let Some(mut program) = machine.program("dlsym") else { return };
    program.ready();
    program.get(&format!("alloc {GIB}"));
    let used = GIB + 300 * MIB;
    assert_eq!(nvml.processes(), [(program.pid(), used)]);
    assert_eq!(nvml.memory(), (GIB + used, 15 * GIB - used));
    program.kill();
    until("the dead process has no memory", || nvml.processes().is_empty());
    assert_eq!(nvml.memory(), (GIB, 15 * GIB));
}

#[test]
fn newer_drivers_limit_the_memory_of_a_cgroup() {
    const INVALID_ARGUMENT: u32 = 2;
    const NOT_SUPPORTED: u32 = 3;
    const NOT_FOUND: u32 = 6;
    let mut machine = Machine::new();
    let nvml = Nvml::new(&machine);
    let Some(cgroup) = cgroup_of(std::process::id()).filter(|folder| folder.is_dir()) else {
        eprintln!("skipped: there is no cgroup v2");
        return;
    };
    assert_eq!(nvml.set_limits(&cgroup, 0, GIB), Err(NOT_SUPPORTED), "driver 580");
    machine.edit(|state| state.driver = "615.71.09".into());
    assert_eq!(nvml.get_limits(&cgroup), Err(NOT_FOUND));
    assert_eq!(nvml.set_limits(&cgroup, 2 * GIB, GIB), Err(INVALID_ARGUMENT));
    assert_eq!(nvml.set_limits(&cgroup, 0, 17 * GIB), Err(INVALID_ARGUMENT));
    assert_eq!(nvml.set_limits(&cgroup, GIB, 2 * GIB), Ok(()));
    let programs = [machine.program("dlsym"), machine.program("dlsym")];
    let [Some(mut one), Some(mut two)] = programs else { return };
    one.ready();
    two.ready();
    let address = one.get(&format!("alloc {GIB}"));
    assert_eq!(nvml.get_limits(&cgroup), Ok([GIB, 2 * GIB, GIB]));
    assert_eq!(nvml.memory(), (GIB, GIB), "this process is in the cgroup too");
    let gib = i64::try_from(GIB).unwrap();
    assert_eq!(two.run("info"), [OK, gib, 2 * gib]);
    assert_eq!(two.code(&format!("alloc {}", GIB + 1)), OUT_OF_MEMORY);
    assert_eq!(nvml.set_limits(&cgroup, 0, u64::MAX), Ok(()));
    assert_eq!(two.code(&format!("alloc {}", GIB + 1)), OK);
    assert_eq!(one.code(&format!("free {address}")), OK);
}
