//! The shim's cost for each call, in one process: the driver's stub without bookkeeping, called
//! directly and through the shim. Exits with 1 if a figure is above its target.
//!
//! `cargo bench --package gpool-shim`

#![allow(unsafe_code)] // Calls libraries.
#![allow(clippy::unwrap_used, clippy::cast_precision_loss)]

use std::ffi::{CString, c_void};
use std::fs::OpenOptions;
use std::mem::offset_of;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use gpool_ledger::layout::{DRIVER_VARIABLE, FOLDER_VARIABLE, UsageFile};
use gpool_ledger::{Ledger, Share};
use gpool_stub_nvml::{Cuda, Device, State};

/// The folder with the files of the measurement, in the process that measures.
const FOLDER: &str = "GPOOL_SHIM_BENCH";
/// Runs of each measurement; the fastest counts.
const RUNS: u32 = 25;
const LAUNCHES: u32 = 1_000_000;
const ALLOCATIONS: u32 = 100_000;
/// Processes of a larger job.
const PROCESSES: u32 = 16;
/// The targets in nanoseconds.
const LAUNCH_TARGET: f64 = 3.0;
const ALLOCATION_TARGET: f64 = 100.0;

type Launch = unsafe extern "C" fn(
    usize,
    u32,
    u32,
    u32,
    u32,
    u32,
    u32,
    u32,
    usize,
    *mut c_void,
    *mut c_void,
) -> i32;

/// The functions of one library.
struct Library {
    init: unsafe extern "C" fn(u32) -> i32,
    retain: unsafe extern "C" fn(&mut u64, i32) -> i32,
    select: unsafe extern "C" fn(u64) -> i32,
    allocate: unsafe extern "C" fn(&mut u64, usize) -> i32,
    free: unsafe extern "C" fn(u64) -> i32,
    launch: Launch,
}

impl Library {
    fn open(path: &Path) -> Self {
        let path = CString::new(path.to_str().unwrap()).unwrap();
        // SAFETY: a C string.
        let library = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW) };
        assert!(!library.is_null());
        Self {
            init: function(library, c"cuInit"),
            retain: function(library, c"cuDevicePrimaryCtxRetain"),
            select: function(library, c"cuCtxSetCurrent"),
            allocate: function(library, c"cuMemAlloc_v2"),
            free: function(library, c"cuMemFree_v2"),
            launch: function(library, c"cuLaunchKernel"),
        }
    }

    fn start(&self) {
        let mut context = 0;
        // SAFETY: the driver's functions, with their types.
        unsafe {
            assert_eq!((self.init)(0), 0);
            assert_eq!((self.retain)(&mut context, 0), 0);
            assert_eq!((self.select)(context), 0);
        }
    }

    /// Nanoseconds of a launch.
    fn launch(&self) -> f64 {
        let null = std::ptr::null_mut();
        timed(LAUNCHES, || {
            // SAFETY: the driver's function, with its type.
            unsafe { (self.launch)(1, 1, 1, 1, 1, 1, 1, 0, 0, null, null) };
        })
    }

    /// Nanoseconds of an allocation and its free, among 1,000 others.
    fn allocate(&self) -> f64 {
        let mut held = [0; 1000];
        let mut ix = 0;
        let time = timed(ALLOCATIONS, || {
            ix = (ix + 1) % held.len();
            // SAFETY: the driver's functions, with their types.
            unsafe {
                (self.free)(held[ix]);
                (self.allocate)(&mut held[ix], 1 << 20);
            }
        });
        for address in held {
            // SAFETY: as above.
            unsafe { (self.free)(address) };
        }
        time
    }
}

fn function<F: Copy>(library: *mut c_void, name: &std::ffi::CStr) -> F {
    // SAFETY: a loaded library, and callers know the type of the symbol.
    unsafe {
        let found = libc::dlsym(library, name.as_ptr());
        assert!(!found.is_null() && size_of::<F>() == size_of::<usize>());
        std::mem::transmute_copy(&found)
    }
}

fn timed(n: u32, mut once: impl FnMut()) -> f64 {
    let begin = Instant::now();
    for _ in 0..n {
        once();
    }
    begin.elapsed().as_nanos() as f64 / f64::from(n)
}

fn main() -> ExitCode {
    let is_within = match std::env::var_os(FOLDER) {
        Some(folder) => measure(Path::new(&folder)),
        None => prepare(),
    };
    if is_within { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Creates a driver, a shim and a ledger, and starts the process that measures. Returns whether all
/// figures are within their targets.
fn prepare() -> bool {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    for name in ["driver", "shim", "ledger"] {
        std::fs::create_dir(path(name)).unwrap();
    }
    let driver = gpool_stub_cuda::install(&path("driver")).unwrap();
    gpool_shim::install(&path("shim")).unwrap();
    let uuid = "GPU-00000000-0000-0000-0000-000000000001".into();
    let devices = vec![Device { uuid, memory: Some(80 << 30), ..Device::default() }];
    let cuda = Cuda { bare: true, ..Cuda::default() };
    State { devices, cuda, ..State::default() }.write(&path("state.json")).unwrap();
    let mut uuid = [0; 16];
    uuid[15] = 1;
    let limit = 1 << 40;
    let share = Share { uuid, request: limit, limit, granted: limit, context: 0 };
    Ledger::create(&path("ledger"), &[share], Duration::from_secs(5), None).unwrap();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.env(FOLDER, folder.path()).env("GPOOL_STUB_STATE", path("state.json"));
    command.env(DRIVER_VARIABLE, driver).env(FOLDER_VARIABLE, path("ledger"));
    command.status().unwrap().success()
}

fn measure(folder: &Path) -> bool {
    let driver = Library::open(&folder.join("driver/libcuda.so.1"));
    let shim = Library::open(&folder.join("shim/libcuda.so.1"));
    driver.start();
    shim.start();
    let mut best = [f64::MAX; 5];
    for _ in 0..RUNS {
        use_slots(folder, 1);
        let alone = [driver.launch(), shim.launch(), driver.allocate(), shim.allocate()];
        use_slots(folder, PROCESSES);
        let run = alone.into_iter().chain([shim.allocate()]);
        for (best, time) in best.iter_mut().zip(run) {
            *best = best.min(time);
        }
    }
    let ledger = Ledger::open(&folder.join("ledger")).unwrap();
    assert_eq!(ledger.processes().unwrap().len(), 1, "the shim did not count");
    let [launch, shim_launch, pair, shim_pair, shim_many] = best;
    let many = format!("the same among {PROCESSES} processes");
    let are_within = [
        report("launch", launch, shim_launch, LAUNCH_TARGET),
        report("allocation and free", pair, shim_pair, ALLOCATION_TARGET),
        report(&many, pair, shim_many, ALLOCATION_TARGET),
    ];
    !are_within.contains(&false)
}

/// Has the shim add this number of slots at each allocation.
fn use_slots(folder: &Path, n_slots: u32) {
    let usage = OpenOptions::new().write(true).open(folder.join("ledger/usage")).unwrap();
    usage.write_all_at(&n_slots.to_ne_bytes(), offset_of!(UsageFile, n_slots) as u64).unwrap();
}

/// Prints a figure; returns whether it is within its target.
fn report(what: &str, driver: f64, shim: f64, target: f64) -> bool {
    let more = shim - driver;
    let ratio = shim / driver;
    let is_within = more <= target;
    let verdict = if is_within { "within" } else { "ABOVE" };
    println!(
        "{what}: {driver:.1} ns, through the shim {shim:.1} ns ({ratio:.2} x); {more:.1} ns more, \
         {verdict} the target of {target} ns"
    );
    is_within
}
