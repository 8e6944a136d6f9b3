//! Every kind of allocation is charged, and given back when the driver frees it.

use crate::rig::{GIB, MIB, Machine, OK, OUT_OF_MEMORY, Program, counted};

const ON_DEVICE: u64 = 1;
const ON_HOST: u64 = 2;

fn ready(machine: &Machine) -> Option<Program> {
    let mut program = machine.program("dlsym")?;
    program.ready();
    Some(program)
}

#[test]
fn released_physical_memory_counts_until_it_is_unmapped() {
    let machine = Machine::new();
    let ledger = machine.ledger(GIB, GIB);
    let Some(mut program) = ready(&machine) else { return };
    let size = 512 * MIB;
    let handle = program.get(&format!("create {size} {ON_DEVICE}"));
    assert_eq!(counted(&ledger), size);
    let address = program.get(&format!("map {handle} {size}"));
    assert_eq!(program.code(&format!("release {handle}")), OK);
    assert_eq!((counted(&ledger), machine.driver_memory(0)), (size, size), "still mapped");
    assert_eq!(program.get(&format!("retain {address}")), handle);
    assert_eq!(program.code(&format!("unmap {address} {size}")), OK);
    assert_eq!((counted(&ledger), machine.driver_memory(0)), (size, size), "still referred to");
    assert_eq!(program.code(&format!("release {handle}")), OK);
    assert_eq!((counted(&ledger), machine.driver_memory(0)), (0, 0));
    assert_eq!(program.code(&format!("create {} {ON_DEVICE}", 2 * GIB)), OUT_OF_MEMORY);
}

#[test]
fn physical_memory_of_the_host_is_not_counted() {
    let machine = Machine::new();
    let ledger = machine.ledger(GIB, GIB);
    let Some(mut program) = ready(&machine) else { return };
    let handle = program.get(&format!("create {} {ON_HOST}", 4 * GIB));
    assert_eq!(counted(&ledger), 0);
    assert_eq!(program.code(&format!("release {handle}")), OK);
}

#[test]
fn a_pool_counts_with_its_unused_memory() {
    let machine = Machine::new();
    let ledger = machine.ledger(GIB, GIB);
    let Some(mut program) = ready(&machine) else { return };
    assert_eq!(program.code(&format!("keep-pool {GIB}")), OK);
    let size = 600 * MIB;
    let first = program.get(&format!("async {size}"));
    assert_eq!(counted(&ledger), size);
    assert_eq!(program.code(&format!("free-async {first}")), OK);
    assert_eq!((counted(&ledger), machine.driver_memory(0)), (size, size), "the pool keeps it");
    let second = program.get(&format!("async {size}"));
    assert_eq!(counted(&ledger), size, "the pool's own memory needs no charge");
    assert_eq!(program.code(&format!("alloc {size}")), OUT_OF_MEMORY);
    assert_eq!(program.code(&format!("free-async {second}")), OK);
    assert_eq!(program.code("keep-pool 0"), OK);
    assert_eq!(program.code("synchronize"), OK);
    assert_eq!(program.code(&format!("alloc {size}")), OK, "the driver has it back");
    assert_eq!((counted(&ledger), machine.driver_memory(0)), (size, size));
}

#[test]
fn a_pool_cannot_exceed_the_grant() {
    let machine = Machine::new();
    let ledger = machine.ledger(GIB, GIB);
    let Some(mut program) = ready(&machine) else { return };
    assert_eq!(program.code(&format!("async {}", 2 * GIB)), OUT_OF_MEMORY);
    assert_eq!(counted(&ledger), 0);
    // Plain memory can be freed in stream order too.
    let address = program.get(&format!("alloc {GIB}"));
    assert_eq!(program.code(&format!("free {address}")), OK);
    assert_eq!(counted(&ledger), 0);
}

#[test]
fn arrays_count_with_the_size_of_their_descriptors() {
    let machine = Machine::new();
    let ledger = machine.ledger(GIB, GIB);
    let Some(mut program) = ready(&machine) else { return };
    let array = program.get("array 1024 1024");
    assert_eq!(counted(&ledger), 16 * MIB);
    assert_eq!(program.code(&format!("destroy-array {array}")), OK);
    assert_eq!(counted(&ledger), 0);
    assert_eq!(program.code("array 65536 65536"), OUT_OF_MEMORY);
}

#[test]
fn rows_count_with_their_true_pitch() {
    let machine = Machine::new();
    let ledger = machine.ledger(GIB, GIB);
    let Some(mut program) = ready(&machine) else { return };
    let result = program.run("pitch 100 1000");
    assert_eq!((result[0], result[2]), (OK, 512));
    assert_eq!(counted(&ledger), 512_000);
    assert_eq!(program.code(&format!("free {}", result[1])), OK);
    assert_eq!(counted(&ledger), 0);
}

#[test]
fn allocations_of_graphs_count_from_the_start() {
    let machine = Machine::new();
    let ledger = machine.ledger(GIB, GIB);
    let Some(mut program) = ready(&machine) else { return };
    assert_eq!(program.code(&format!("graph {}", 300 * MIB)), OK);
    assert_eq!((counted(&ledger), machine.driver_memory(0)), (300 * MIB, 300 * MIB));
    assert_eq!(program.code(&format!("graph {GIB}")), OUT_OF_MEMORY);
    assert_eq!(program.code("trim-graphs"), OK);
    assert_eq!(counted(&ledger), 0);
}

#[test]
fn managed_and_shared_memory_is_flagged() {
    let machine = Machine::new();
    let ledger = machine.ledger(GIB, GIB);
    let Some(mut program) = ready(&machine) else { return };
    let flags = || {
        let processes = ledger.processes().unwrap();
        (processes[0].has_managed_memory, processes[0].shares_memory)
    };
    let address = program.get(&format!("alloc {MIB}"));
    assert_eq!(flags(), (false, false));
    assert_eq!(program.code(&format!("managed {MIB}")), OK);
    assert_eq!(flags(), (true, false));
    assert_eq!(program.code(&format!("ipc {address}")), OK);
    assert_eq!(flags(), (true, true));
    assert_eq!(counted(&ledger), 2 * MIB);
}

#[test]
fn allocations_end_with_their_context() {
    let machine = Machine::new();
    let ledger = machine.ledger(GIB, GIB);
    let Some(mut program) = ready(&machine) else { return };
    for _ in 0..100 {
        program.get(&format!("alloc {MIB}"));
    }
    program.get("array 1024 1024");
    let context = program.get("other-context 0");
    for _ in 0..300 {
        program.get(&format!("alloc {MIB}"));
    }
    assert_eq!(counted(&ledger), 416 * MIB);
    assert_eq!(program.code(&format!("destroy-context {context}")), OK);
    assert_eq!((counted(&ledger), machine.driver_memory(0)), (116 * MIB, 116 * MIB));
    assert_eq!(program.code("reset 0"), OK);
    assert_eq!((counted(&ledger), machine.driver_memory(0)), (0, 0));
}
