//! The ways by which programs find the driver all lead through the shim.

use std::path::Path;
use std::process::Command;

use gpool_ledger::layout::{DRIVER_VARIABLE, FOLDER_VARIABLE};
use gpool_stub_nvml::Cuda;

use crate::program;
use crate::rig::{
    GIB, MIB, Machine, OK, OUT_OF_MEMORY, Program, compile, compiled, counted, python, share, uuid,
};

/// Half of the grant fits, another half and a bit does not.
fn is_capped(machine: &Machine, mut program: Program) {
    let ledger = machine.ledger(GIB, GIB);
    program.ready();
    assert_eq!(program.code(&format!("alloc {}", GIB / 2)), OK);
    assert_eq!(program.code(&format!("alloc {}", GIB / 2 + MIB)), OUT_OF_MEMORY);
    assert_eq!(counted(&ledger), GIB / 2);
}

#[test]
fn symbols_of_the_library() {
    let machine = Machine::new();
    let Some(program) = machine.program("dlsym") else { return };
    is_capped(&machine, program);
}

#[test]
fn addresses_that_the_driver_returns() {
    for route in ["get-address", "per-thread"] {
        let machine = Machine::new();
        let Some(program) = machine.program(route) else { return };
        is_capped(&machine, program);
    }
}

#[test]
fn addresses_that_the_driver_does_not_export() {
    let machine = Machine::new().cuda(Cuda { hides_addresses: true, ..Cuda::default() });
    let Some(program) = machine.program("get-address") else { return };
    is_capped(&machine, program);
}

#[test]
fn per_thread_streams_of_returned_addresses() {
    let machine = Machine::new();
    let ledger = machine.ledger(GIB, GIB);
    let Some(mut program) = machine.program("per-thread") else { return };
    program.ready();
    assert_eq!(program.code(&format!("async {}", 512 * MIB)), OK);
    assert_eq!(counted(&ledger), 512 * MIB);
    assert_eq!(program.code(&format!("async {GIB}")), OUT_OF_MEMORY);
    assert_eq!(program.code("synchronize"), OK);
    assert_eq!(program.code("launch"), OK);
}

#[test]
fn a_program_in_python() {
    let machine = Machine::new();
    let Some(command) = python() else { return };
    is_capped(&machine, machine.start(command));
}

#[test]
fn a_program_in_rust() {
    let machine = Machine::new();
    let ledger = machine.ledger(GIB, GIB);
    let mut program = machine.start(program::command());
    while program.line() != "ready" {}
    program.ready();
    assert_eq!(program.code(&format!("alloc {GIB}")), OK);
    assert_eq!(program.code(&format!("alloc {MIB}")), OUT_OF_MEMORY);
    assert_eq!(counted(&ledger), GIB);
}

#[test]
fn a_program_linked_to_the_driver() {
    let machine = Machine::new();
    let (path, library) = (machine.path("linked"), machine.path("shim/libcuda.so.1"));
    if !compile(&path, &["-Wl,--no-as-needed".as_ref(), library.as_os_str()]) {
        return;
    }
    let mut command = Command::new(path);
    command.arg("linked");
    is_capped(&machine, machine.start(command));
}

#[test]
fn a_preloaded_shim() {
    let machine = Machine::new();
    let Some(path) = compiled() else { return };
    let mut command = Command::new(path);
    command.env("LD_PRELOAD", machine.path("shim/libcuda.so.1"));
    is_capped(&machine, machine.start(command));
}

#[test]
fn without_the_variable_the_driver_is_found_behind_the_shim() {
    let machine = Machine::new();
    let ledger = machine.ledger(GIB, GIB);
    let Some(path) = compiled() else { return };
    let mut command = Command::new(path);
    let folders = [machine.path("shim"), machine.path("shim"), machine.path("driver")];
    command.env("LD_LIBRARY_PATH", std::env::join_paths(folders).unwrap());
    command.env(FOLDER_VARIABLE, machine.path("ledger"));
    command.env("GPOOL_STUB_STATE", machine.state_file());
    command.env_remove(DRIVER_VARIABLE);
    let mut program = Program::start(command);
    program.ready();
    assert_eq!(program.code(&format!("alloc {GIB}")), OK);
    assert_eq!(counted(&ledger), GIB);
}

#[test]
fn devices_are_found_by_uuid() {
    let machine = Machine::new();
    let ledger = machine.ledger_of(&[share(1, GIB, GIB)]);
    let Some(mut program) = machine.program("dlsym") else { return };
    program.ready();
    assert_eq!(program.code(&format!("alloc {}", 2 * GIB)), OK, "the other device");
    assert_eq!(counted(&ledger), 0);
    assert_eq!(program.code("context 1"), OK);
    assert_eq!(program.code(&format!("alloc {}", 2 * GIB)), OUT_OF_MEMORY);
    assert_eq!(program.code(&format!("alloc {GIB}")), OK);
    assert_eq!(counted(&ledger), GIB);
}

#[test]
fn a_moved_device_is_found_by_its_new_uuid() {
    let machine = Machine::new();
    let ledger = machine.ledger(GIB, GIB);
    ledger.moved(0, uuid(1));
    assert_eq!(ledger.shares()[0].uuid, uuid(1));
    let Some(mut program) = machine.program("dlsym") else { return };
    assert_eq!((program.code("init"), program.code("context 1")), (OK, OK));
    assert_eq!(program.code(&format!("alloc {}", 2 * GIB)), OUT_OF_MEMORY);
}

#[test]
fn a_program_without_cuda_is_not_touched() {
    let machine = Machine::new();
    let ledger = machine.ledger(GIB, GIB);
    let mut command = Command::new("sh");
    command.args(["-c", "echo fine; exit 3"]);
    command.env("LD_PRELOAD", machine.path("shim/libcuda.so.1"));
    command.env(FOLDER_VARIABLE, machine.path("ledger"));
    command.env(DRIVER_VARIABLE, "/nonexistent/libcuda.so.1");
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(3));
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "fine\n");
    assert!(output.stderr.is_empty());
    assert_eq!(ledger.processes().unwrap(), []);
}

#[test]
fn without_a_driver_there_is_no_device() {
    const NO_DEVICE: i64 = 100;
    let machine = Machine::new();
    let Some(path) = compiled() else { return };
    let real =
        ["/usr/lib/x86_64-linux-gnu", "/usr/lib64"].map(|it| Path::new(it).join("libcuda.so.1"));
    if real.iter().any(|file| file.exists()) {
        eprintln!("skipped: this machine has a driver");
        return;
    }
    std::fs::remove_file(machine.path("driver/libcuda.so.1")).unwrap();
    let mut program = machine.start(Command::new(path));
    assert_eq!(program.code("init"), NO_DEVICE);
    assert_eq!(program.code("alloc 1"), NO_DEVICE);
    assert!(program.end());
}
