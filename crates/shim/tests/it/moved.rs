//! A job that a restore moved to another device: processes that it starts later, with the names of
//! its first devices in their environment.

use crate::rig::{GIB, MIB, Machine, OK, OUT_OF_MEMORY, Program, counted, share, uuid, uuid_text};

const UNAVAILABLE: i64 = 46;

/// Whether an allocation of a new process is on the device of this position, within the share.
fn is_on(machine: &Machine, device: usize, mut program: Program) -> bool {
    program.ready();
    let before = machine.driver_memory(device);
    program.get(&format!("alloc {}", 700 * MIB));
    assert_eq!(program.code(&format!("alloc {}", 700 * MIB)), OUT_OF_MEMORY);
    machine.driver_memory(device) == before + 700 * MIB
}

#[test]
fn a_process_that_starts_later_is_capped_on_the_new_device() {
    let machine = Machine::new();
    let ledger = machine.ledger(GIB, GIB);
    ledger.moved(0, uuid(1));
    let first = uuid_text(0);
    // The driver accepts the beginning of a UUID too.
    for name in [&first[..], &first[..12]] {
        let Some(program) = machine.program_with(name) else { return };
        assert!(is_on(&machine, 1, program), "{name}");
        ledger.take_back_dead().unwrap();
    }
    // Its own processes get the first name: the device can change again.
    let Some(mut program) = machine.program_with(&first) else { return };
    program.ready();
    assert_eq!(program.words("visible"), [&first[..]]);
    ledger.moved(0, uuid(0));
    let Some(program) = machine.program_with(&first) else { return };
    assert!(is_on(&machine, 0, program), "it is back");
}

#[test]
fn each_of_several_names_leads_to_its_device() {
    let machine = Machine::new();
    let ledger = machine.ledger_of(&[share(0, GIB, GIB), share(1, 2 * GIB, 2 * GIB)]);
    let names = format!("{},{}", uuid_text(0), uuid_text(1));
    // They changed places.
    ledger.moved(0, uuid(1));
    ledger.moved(1, uuid(0));
    let Some(mut program) = machine.program_with(&names) else { return };
    program.ready();
    let sizes = [GIB, 2 * GIB].map(|it| i64::try_from(it).unwrap());
    assert_eq!(program.run("total 0"), [OK, sizes[0]]);
    assert_eq!(program.run("total 1"), [OK, sizes[1]]);
    program.get(&format!("alloc {MIB}"));
    assert_eq!((counted(&ledger), machine.driver_memory(1)), (MIB, MIB));
}

#[test]
fn a_process_with_a_context_keeps_its_place_and_one_without_gets_none() {
    let machine = Machine::new();
    let ledger = machine.ledger(GIB, GIB);
    let name = uuid_text(0);
    let start = || machine.program_with(&name);
    let (Some(mut one), Some(mut other)) = (start(), start()) else { return };
    one.ready();
    assert_eq!(other.code("init"), OK);
    assert_eq!(other.code("total 0"), OK);
    // No driver moves the second process: it holds nothing that could be moved.
    ledger.moved(0, uuid(1));
    assert_eq!(one.code("context 0"), OK);
    assert_eq!(one.code(&format!("alloc {}", 2 * GIB)), OUT_OF_MEMORY);
    one.get(&format!("alloc {MIB}"));
    assert_eq!(counted(&ledger), MIB);
    assert_eq!(other.code("context 0"), UNAVAILABLE, "the device of another job");
}

#[test]
fn devices_without_limits_have_names_too() {
    let machine = Machine::new();
    let ledger = machine.ledger_of(&[]);
    ledger.add_unlimited(&[uuid(0)]);
    let name = uuid_text(0);
    let start = || machine.program_with(&name);
    let (Some(mut one), Some(mut other)) = (start(), start()) else { return };
    one.ready();
    assert_eq!(other.code("init"), OK);
    ledger.moved(0, uuid(1));
    assert_eq!(one.code("context 0"), OK, "the driver has moved it");
    assert_eq!(other.code("context 0"), UNAVAILABLE);
    let Some(mut later) = start() else { return };
    later.ready();
    later.get(&format!("alloc {}", 2 * GIB));
    assert_eq!(machine.driver_memory(1), 2 * GIB);
}

#[test]
fn a_process_that_names_no_device_can_use_the_new_one_only() {
    let machine = Machine::new();
    let ledger = machine.ledger(GIB, GIB);
    ledger.moved(0, uuid(1));
    let Some(mut program) = machine.program("dlsym") else { return };
    assert_eq!(program.code("init"), OK);
    assert_eq!(program.code("context 0"), UNAVAILABLE);
    assert_eq!(program.code("context 1"), OK);
    program.get(&format!("alloc {MIB}"));
    assert_eq!((counted(&ledger), machine.driver_memory(1)), (MIB, MIB));
}
