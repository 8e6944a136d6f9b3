//! The checkpoint calls of the stub, as the agent will use them: by process ID, from another
//! process, with the content checked after a restore.

use std::ffi::{CString, c_void};
use std::time::Duration;

use gpool_ledger::{Gate, Ledger};
use gpool_stub_nvml::Cuda;

use crate::rig::{GIB, MIB, Machine, OK, Program, until, uuid};

const RUNNING: u32 = 0;
const LOCKED: u32 = 1;
const CHECKPOINTED: u32 = 2;
const FAILED: u32 = 3;
const INVALID_VALUE: i32 = 1;
const NO_MEMORY: i32 = 2;
const FAILED_FOR_EVER: i32 = 304;
const ILLEGAL_STATE: i32 = 401;
const NOT_READY: i32 = 600;
const NOT_SUPPORTED: i32 = 801;

/// `CUcheckpointRestoreArgs`.
#[repr(C)]
struct RestoreArguments {
    pairs: *const [[u8; 16]; 2],
    n_pairs: u32,
    reserved: [u32; 13],
}

// SAFETY: the library's functions can be called by all threads.
unsafe impl Sync for Caller {}

/// The driver's library, loaded by the caller of checkpoints. Without the variable, it looks for
/// the state beside itself.
struct Caller {
    library: *mut c_void,
}

impl Caller {
    fn new(machine: &Machine) -> Self {
        let path = machine.path("driver/libcuda.so.1");
        std::os::unix::fs::symlink(machine.state_file(), machine.path("driver/stub-nvml.json"))
            .unwrap();
        std::os::unix::fs::symlink(
            machine.path("state.live"),
            machine.path("driver/stub-nvml.live"),
        )
        .unwrap();
        let path = CString::new(path.to_str().unwrap()).unwrap();
        // SAFETY: a C string.
        let library = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        assert!(!library.is_null());
        Self { library }
    }

    fn call(&self, name: &str, pid: u32, argument: *const c_void) -> i32 {
        let name = CString::new(format!("cuCheckpointProcess{name}")).unwrap();
        // SAFETY: all of these symbols have this type.
        unsafe {
            let found = libc::dlsym(self.library, name.as_ptr());
            assert!(!found.is_null());
            let call: unsafe extern "C" fn(i32, *const c_void) -> i32 = std::mem::transmute(found);
            call(i32::try_from(pid).unwrap(), argument)
        }
    }

    fn lock(&self, pid: u32, timeout_ms: u32) -> i32 {
        let mut arguments = [0_u32; 16];
        arguments[0] = timeout_ms;
        self.call("Lock", pid, arguments.as_ptr().cast())
    }

    fn checkpoint(&self, pid: u32) -> i32 {
        self.call("Checkpoint", pid, std::ptr::null())
    }

    fn restore(&self, pid: u32, pairs: &[[[u8; 16]; 2]]) -> i32 {
        let n_pairs = u32::try_from(pairs.len()).unwrap();
        let arguments = RestoreArguments { pairs: pairs.as_ptr(), n_pairs, reserved: [0; 13] };
        self.call("Restore", pid, (&raw const arguments).cast())
    }

    fn unlock(&self, pid: u32) -> i32 {
        self.call("Unlock", pid, std::ptr::null())
    }

    fn state(&self, pid: u32) -> u32 {
        let mut state = u32::MAX;
        let code = self.call("GetState", pid, (&raw mut state).cast());
        assert_eq!(code, 0);
        state
    }

    /// Locks and checkpoints.
    fn pause(&self, pid: u32) {
        assert_eq!((self.lock(pid, 1000), self.checkpoint(pid)), (0, 0));
    }
}

/// A program with `MIB` of memory and a text in it; returns the address.
fn writer(machine: &Machine) -> Option<(Program, i64)> {
    let mut program = machine.program("dlsym")?;
    program.ready();
    let address = program.get(&format!("alloc {GIB}"));
    assert_eq!(program.code(&format!("write {address} kept")), OK);
    Some((program, address))
}

fn keeps(program: &mut Program, address: i64) -> bool {
    program.words(&format!("read {address} 5")) == ["0", "kept"]
}

#[test]
fn a_pause_frees_the_device_and_a_restore_brings_the_content_back() {
    let machine = Machine::new();
    let caller = Caller::new(&machine);
    let Some((mut program, address)) = writer(&machine) else { return };
    let pid = program.pid();
    assert_eq!(caller.state(pid), RUNNING);
    assert_eq!(caller.checkpoint(pid), ILLEGAL_STATE);
    assert_eq!(caller.lock(pid, 1000), 0);
    assert_eq!((caller.state(pid), machine.driver_memory(0)), (LOCKED, GIB));
    assert_eq!(caller.checkpoint(pid), 0);
    assert_eq!((caller.state(pid), machine.driver_memory(0)), (CHECKPOINTED, 0));
    program.send(&format!("read {address} 5"));
    assert_eq!(caller.unlock(pid), ILLEGAL_STATE);
    assert_eq!(caller.restore(pid, &[]), 0);
    assert_eq!((caller.state(pid), machine.driver_memory(0)), (LOCKED, GIB));
    assert_eq!(caller.unlock(pid), 0);
    assert_eq!(program.line(), "0 kept", "the call waited");
    assert!(keeps(&mut program, address));
}

#[test]
fn a_lock_gives_up_after_its_timeout_and_the_process_runs_on() {
    let slow = [("cuCtxSynchronize".to_owned(), 400)].into();
    let machine = Machine::new().cuda(Cuda { slow_ms: slow, ..Cuda::default() });
    let caller = Caller::new(&machine);
    let Some((mut program, address)) = writer(&machine) else { return };
    assert_eq!(program.words("synchronize-apart"), ["started"]);
    until("the lock gives up", || match caller.lock(program.pid(), 20) {
        NOT_READY => true,
        // The thread had not begun.
        code => code == 0 && caller.unlock(program.pid()) != 0,
    });
    assert_eq!(caller.state(program.pid()), RUNNING);
    assert_eq!(program.line(), "synchronized 0");
    assert!(keeps(&mut program, address));
}

#[test]
fn an_operation_that_hangs_makes_other_callers_wait() {
    let mut machine = Machine::new();
    let caller = Caller::new(&machine);
    let Some((mut program, address)) = writer(&machine) else { return };
    let pid = program.pid();
    assert_eq!(caller.lock(pid, 1000), 0);
    machine.edit(|state| state.hang = ["cuCheckpointProcessCheckpoint".to_owned()].into());
    std::thread::scope(|scope| {
        let checkpoint = scope.spawn(|| caller.checkpoint(pid));
        let question = scope.spawn(|| caller.state(pid));
        machine.edit(|state| state.hang.clear());
        assert_eq!(checkpoint.join().unwrap(), 0);
        let state = question.join().unwrap();
        assert!(state == LOCKED || state == CHECKPOINTED, "{state}");
    });
    machine.edit(|state| {
        state.errors = [("cuCheckpointProcessRestore".to_owned(), INVALID_VALUE as u32)].into();
    });
    assert_eq!(caller.restore(pid, &[]), INVALID_VALUE);
    machine.edit(|state| state.errors.clear());
    assert_eq!((caller.restore(pid, &[]), caller.unlock(pid)), (0, 0), "this failure is not final");
    assert!(keeps(&mut program, address));
    program.kill();
    assert_ne!(caller.lock(pid, 1000), 0, "a dead process");
}

#[test]
fn a_restore_needs_all_devices_in_its_pairs_and_moves_the_memory() {
    let machine = Machine::new();
    let caller = Caller::new(&machine);
    let Some((mut program, address)) = writer(&machine) else { return };
    let pid = program.pid();
    caller.pause(pid);
    assert_eq!(caller.restore(pid, &[[uuid(0), uuid(1)]]), INVALID_VALUE, "one of two devices");
    let twice = [[uuid(0), uuid(1)], [uuid(1), uuid(1)]];
    assert_eq!(caller.restore(pid, &twice), INVALID_VALUE);
    assert_eq!(caller.restore(pid, &[[uuid(0), uuid(1)], [uuid(1), uuid(0)]]), 0);
    assert_eq!(caller.unlock(pid), 0);
    assert_eq!((machine.driver_memory(0), machine.driver_memory(1)), (0, GIB));
    assert!(keeps(&mut program, address));
    assert_eq!(program.code(&format!("free {address}")), OK);
    assert_eq!(machine.driver_memory(1), 0);
}

#[test]
fn a_move_can_be_ignored_or_impossible() {
    let mut machine = Machine::new().cuda(Cuda { move_is_ignored: true, ..Cuda::default() });
    let caller = Caller::new(&machine);
    let Some((program, _)) = writer(&machine) else { return };
    let pid = program.pid();
    let swap = [[uuid(0), uuid(1)], [uuid(1), uuid(0)]];
    caller.pause(pid);
    assert_eq!(caller.restore(pid, &swap), 0);
    assert_eq!((machine.driver_memory(0), machine.driver_memory(1)), (GIB, 0));
    assert_eq!(caller.unlock(pid), 0);
    caller.pause(pid);
    machine.edit(|state| state.devices[1].name = "NVIDIA A100".into());
    assert_eq!(caller.restore(pid, &swap), INVALID_VALUE, "another model");
    machine.edit(|state| state.driver = "570.124.06".into());
    assert_eq!(caller.restore(pid, &swap), NOT_SUPPORTED, "an older driver");
}

#[test]
fn a_restore_without_room_fails_for_ever() {
    let mut machine = Machine::new();
    let caller = Caller::new(&machine);
    let Some((program, _)) = writer(&machine) else { return };
    let pid = program.pid();
    caller.pause(pid);
    machine.edit(|state| state.devices[0].used = 16 * GIB - MIB);
    assert_eq!(caller.restore(pid, &[]), NO_MEMORY);
    machine.edit(|state| state.devices[0].used = 0);
    assert_eq!(caller.restore(pid, &[]), FAILED_FOR_EVER);
    assert_eq!(caller.state(pid), FAILED);
}

#[test]
fn managed_and_shared_memory_and_instances_refuse_a_checkpoint() {
    let mut machine = Machine::new();
    let caller = Caller::new(&machine);
    let Some((mut program, address)) = writer(&machine) else { return };
    let pid = program.pid();
    assert_eq!(caller.lock(pid, 1000), 0);
    machine.edit(|state| state.devices[0].mig = Some(true));
    assert_eq!(caller.checkpoint(pid), NOT_SUPPORTED);
    machine.edit(|state| state.devices[0].mig = None);
    assert_eq!(caller.unlock(pid), 0);
    assert_eq!(program.code(&format!("ipc {address}")), OK);
    assert_eq!(caller.lock(pid, 1000), 0);
    assert_eq!(caller.checkpoint(pid), NOT_SUPPORTED);
    machine.edit(|state| state.driver = "610.43.03".into());
    assert_eq!(caller.checkpoint(pid), 0);
    assert_eq!((caller.restore(pid, &[]), caller.unlock(pid)), (0, 0));
    assert_eq!(program.code(&format!("managed {MIB}")), OK);
    assert_eq!(caller.lock(pid, 1000), 0);
    assert_eq!(caller.checkpoint(pid), NOT_SUPPORTED);
}

/// A program with a ledger, on a driver that crashes in a paused process.
struct Crashing {
    _machine: Machine,
    ledger: Ledger,
    caller: Caller,
    program: Program,
    address: i64,
}

fn crashing() -> Option<Crashing> {
    let machine = Machine::new().cuda(Cuda { crash_on_sync: true, ..Cuda::default() });
    let ledger = machine.ledger(4 * GIB, 4 * GIB);
    let caller = Caller::new(&machine);
    let (program, address) = writer(&machine)?;
    Some(Crashing { _machine: machine, ledger, caller, program, address })
}

#[test]
fn the_gate_keeps_synchronisations_out_of_a_paused_process() {
    for has_gate in [false, true] {
        let Some(Crashing { _machine, ledger, caller, mut program, address }) = crashing() else {
            return;
        };
        let pid = program.pid();
        if has_gate {
            ledger.set_gate(Gate::Pausing);
            assert!(ledger.wait_until_idle(Duration::from_secs(60)).unwrap());
        }
        caller.pause(pid);
        program.send("synchronize");
        if !has_gate {
            assert!(!program.end(), "the driver crashed");
            continue;
        }
        until("the thread waits", || ledger.processes().unwrap()[0].n_waiting == 1);
        assert_eq!((caller.restore(pid, &[]), caller.unlock(pid)), (0, 0));
        ledger.set_gate(Gate::Open);
        assert_eq!(program.line(), "0");
        assert!(keeps(&mut program, address));
    }
}

#[test]
fn queries_in_a_paused_process_are_answered_without_the_driver() {
    for command in ["query", "query-event"] {
        for has_gate in [false, true] {
            let Some(Crashing { _machine, ledger, caller, mut program, address }) = crashing()
            else {
                return;
            };
            let pid = program.pid();
            assert_eq!(program.code(command), OK);
            if has_gate {
                ledger.set_gate(Gate::Released);
            }
            caller.pause(pid);
            program.send(command);
            if !has_gate {
                assert!(!program.end(), "the driver crashed");
                continue;
            }
            // Until the driver has checkpointed all, work may still run.
            until("it waits", || waits_for_a_word(pid));
            ledger.set_empty(true);
            assert_eq!(program.line(), "0");
            assert_eq!(program.code(command), OK);
            assert_eq!(ledger.n_waiting().unwrap(), 0, "a query does not need the device");
            // During the restore, calls that were interrupted may begin work.
            ledger.set_empty(false);
            program.send(command);
            until("it waits again", || waits_for_a_word(pid));
            assert_eq!((caller.restore(pid, &[]), caller.unlock(pid)), (0, 0));
            ledger.set_gate(Gate::Open);
            assert_eq!(program.line(), "0");
            assert!(keeps(&mut program, address));
        }
    }
}

/// Whether the first thread of a process is in the system call `futex`.
fn waits_for_a_word(pid: u32) -> bool {
    let call = std::fs::read_to_string(format!("/proc/{pid}/syscall")).unwrap_or_default();
    call.starts_with("202 ")
}

#[test]
fn both_stubs_report_live_processes_only() {
    let machine = Machine::new();
    let Some((program, _)) = writer(&machine) else { return };
    assert_eq!(machine.driver_memory(0), GIB);
    program.kill();
    assert_eq!(machine.driver_memory(0), 0);
}
