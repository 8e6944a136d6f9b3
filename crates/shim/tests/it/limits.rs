//! A job never has more than is granted, and a dead process leaves nothing.

use std::process::Command;

use gpool_stub_nvml::Cuda;

use crate::rig::{GIB, MIB, Machine, OK, OUT_OF_MEMORY, compiled, counted, share, until};

#[test]
fn an_allocation_above_the_grant_fails_and_a_free_makes_room() {
    let machine = Machine::new();
    let ledger = machine.ledger(GIB, GIB);
    let Some(mut program) = machine.program("dlsym") else { return };
    program.ready();
    let first = program.get(&format!("alloc {}", 700 * MIB));
    assert_eq!(program.code(&format!("alloc {}", 400 * MIB)), OUT_OF_MEMORY);
    assert_eq!(counted(&ledger), 700 * MIB);
    assert_eq!(program.code(&format!("free {first}")), OK);
    assert_eq!(counted(&ledger), 0);
    assert_eq!(program.code(&format!("alloc {GIB}")), OK);
    assert_eq!(machine.driver_memory(0), GIB);
}

#[test]
fn a_refusal_of_the_driver_gives_the_charge_back() {
    let machine = Machine::new();
    let ledger = machine.ledger(64 * GIB, 64 * GIB);
    let Some(mut program) = machine.program("dlsym") else { return };
    program.ready();
    assert_eq!(program.code(&format!("alloc {}", 17 * GIB)), OUT_OF_MEMORY);
    assert_eq!(counted(&ledger), 0);
}

#[test]
fn the_job_sees_its_own_share() {
    let machine = Machine::new();
    let ledger = machine.ledger(GIB, 4 * GIB);
    let Some(mut program) = machine.program("dlsym") else { return };
    program.ready();
    let whole = i64::try_from(4 * GIB).unwrap();
    assert_eq!(program.run("info"), [OK, whole, whole]);
    assert_eq!(program.run("total 0"), [OK, whole]);
    assert_eq!(program.run("total 1"), [OK, i64::try_from(16 * GIB).unwrap()], "not in the ledger");
    program.get(&format!("alloc {GIB}"));
    assert_eq!(program.run("info"), [OK, whole - i64::try_from(GIB).unwrap(), whole]);
    ledger.resize(0, 0, GIB / 2);
    let half = i64::try_from(GIB / 2).unwrap();
    assert_eq!(program.run("info"), [OK, 0, half], "less than it uses is no error");
}

#[test]
fn nvml_shows_the_job_its_own_share() {
    let machine = Machine::new();
    let ledger = machine.ledger(GIB, 4 * GIB);
    let Some(mut program) = machine.program("dlsym") else { return };
    program.ready();
    program.get(&format!("alloc {GIB}"));
    let gib = |n: u64| i64::try_from(n * GIB).unwrap();
    assert_eq!(program.run("nvml 0"), [OK, gib(4), gib(3), gib(1)]);
    assert_eq!(program.run("nvml 1"), [OK, gib(16), gib(16), 0], "not in the ledger");
    ledger.resize(0, GIB / 2, GIB / 2);
    assert_eq!(program.run("nvml 0"), [OK, i64::try_from(GIB / 2).unwrap(), 0, gib(1)]);
    assert_eq!(ledger.processes().unwrap().len(), 1);
}

#[test]
fn without_a_driver_nvml_reports_that() {
    const LIBRARY_NOT_FOUND: i64 = 12;
    let machine = Machine::new();
    let Some(path) = compiled() else { return };
    std::fs::remove_file(machine.path("driver/libnvidia-ml.so.1")).unwrap();
    let mut program = machine.start(Command::new(path));
    let code = program.code("nvml 0");
    // A machine with a driver answers.
    assert!(code == LIBRARY_NOT_FOUND || code == OK, "{code}");
}

#[test]
fn threads_and_processes_that_race_stay_below_the_grant() {
    // The driver does nothing, so that charges follow each other closely.
    let machine = Machine::new().cuda(Cuda { bare: true, ..Cuda::default() });
    let limit = 7 * MIB;
    let ledger = machine.ledger(limit, limit);
    let sum = machine.path("sum");
    std::fs::write(&sum, [0; 8]).unwrap();
    let Some(path) = compiled() else { return };
    let mut programs = [(); 2].map(|()| {
        let mut command = Command::new(path);
        command.env("RACE_SUM", &sum);
        machine.start(command)
    });
    for program in &mut programs {
        program.ready();
        program.send(&format!("race {MIB} {limit}"));
    }
    for program in &mut programs {
        let words = program.line();
        let (above, refused) = words.split_once(' ').unwrap();
        assert_eq!(above, "0", "allocations above the grant");
        assert!(refused.parse::<u32>().unwrap() > 0, "the limit was never reached");
    }
    assert_eq!(counted(&ledger), 0);
}

#[test]
fn a_process_killed_while_it_charges_leaves_nothing() {
    let machine = Machine::new();
    let ledger = machine.ledger(GIB, GIB);
    for round in 0..20 {
        let Some(mut victim) = machine.program("dlsym") else { return };
        victim.ready();
        victim.send(&format!("churn {} 100000000", 20 * MIB));
        until("memory is charged", || counted(&ledger) > 0);
        // The victim goes on meanwhile, so each round ends at another instruction.
        for _ in 0..round * 5 {
            counted(&ledger);
        }
        let pid = victim.pid();
        victim.kill();
        let dead = ledger.take_back_dead().unwrap();
        assert_eq!(dead.iter().map(|process| process.pid).collect::<Vec<_>>(), [pid]);
        assert_eq!(counted(&ledger), 0);
    }
    let Some(mut heir) = machine.program("dlsym") else { return };
    heir.ready();
    assert_eq!(heir.code(&format!("alloc {GIB}")), OK);
}

#[test]
fn contexts_are_charged_once_for_each_process_and_device() {
    let machine = Machine::new();
    let mut limits = share(0, GIB, GIB);
    limits.context = 300 * MIB;
    let ledger = machine.ledger_of(&[limits]);
    let Some(mut program) = machine.program("dlsym") else { return };
    program.ready();
    assert_eq!(program.code("context 0"), OK);
    assert_eq!(counted(&ledger), 300 * MIB);
    assert_eq!(program.code(&format!("alloc {}", 800 * MIB)), OUT_OF_MEMORY);
    let mut others: Vec<_> = (0..2).map(|_| machine.program("dlsym").unwrap()).collect();
    others.iter_mut().for_each(|it| it.ready());
    let Some(mut last) = machine.program("dlsym") else { return };
    assert_eq!(last.code("init"), OK);
    assert_eq!(last.code("context 0"), OUT_OF_MEMORY, "three contexts fill the share");
}

#[test]
fn a_forked_child_does_not_change_its_parents_charge() {
    let machine = Machine::new();
    let ledger = machine.ledger(GIB, GIB);
    let Some(mut program) = machine.program("dlsym") else { return };
    program.ready();
    let address = program.get(&format!("alloc {}", 100 * MIB));
    assert_eq!(program.code(&format!("fork {address}")), OK);
    ledger.take_back_dead().unwrap();
    assert_eq!(counted(&ledger), 100 * MIB);
    assert_eq!(program.code(&format!("free {address}")), OK);
    assert_eq!(counted(&ledger), 0);
}

#[test]
fn a_process_in_an_inner_namespace_is_not_taken_for_dead() {
    let inner = ["--user", "--map-root-user", "--pid", "--fork", "--kill-child"];
    let works = Command::new("unshare").args(inner).arg("true").output();
    if !works.is_ok_and(|output| output.status.success()) {
        eprintln!("skipped: this user can't create a process namespace");
        return;
    }
    let machine = Machine::new();
    let ledger = machine.ledger(GIB, GIB);
    let Some(path) = compiled() else { return };
    let mut command = Command::new("unshare");
    command.args(inner).arg(path);
    let mut program = machine.start(command);
    // The stub's own record has an ID of the inner namespace too, so memory of others is unknown.
    program.ready();
    program.get(&format!("alloc {MIB}"));
    let processes = ledger.processes().unwrap();
    assert_ne!(processes[0].pid, program.pid());
    assert!(processes[0].lives());
    assert_eq!(ledger.take_back_dead().unwrap(), []);
    program.kill();
    until("it has ended", || !ledger.processes().unwrap()[0].lives());
    assert_eq!(ledger.take_back_dead().unwrap().len(), 1);
}
