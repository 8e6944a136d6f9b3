//! The gate: synchronisations wait while the job is paused, all work while its devices are
//! released.

use std::time::Duration;

use gpool_ledger::{Gate, Ledger, Wish};
use gpool_stub_nvml::Cuda;

use crate::rig::{GIB, MIB, Machine, OK, Program, until};

const LONG: Duration = Duration::from_secs(60);
const SHORT: Duration = Duration::from_millis(20);

fn n_waiting(ledger: &Ledger) -> u32 {
    ledger.processes().unwrap().iter().map(|process| process.n_waiting).sum()
}

fn ready(machine: &Machine, route: &str) -> Option<Program> {
    let mut program = machine.program(route)?;
    program.ready();
    // The first charge claims the slot.
    program.get(&format!("alloc {MIB}"));
    Some(program)
}

#[test]
fn synchronisations_wait_and_launches_do_not() {
    for route in ["dlsym", "get-address"] {
        let machine = Machine::new();
        let ledger = machine.ledger(GIB, GIB);
        let Some(mut program) = ready(&machine, route) else { return };
        ledger.set_gate(Gate::Pausing);
        assert_eq!(ledger.gate(), Gate::Pausing);
        assert!(ledger.wait_until_idle(LONG).unwrap());
        assert_eq!(program.code("launch"), OK);
        program.send("synchronize");
        until("the thread waits", || n_waiting(&ledger) == 1);
        assert!(ledger.wait_until_idle(SHORT).unwrap(), "a waiting thread is not in flight");
        ledger.set_gate(Gate::Open);
        assert_eq!(program.line(), "0");
        assert_eq!(n_waiting(&ledger), 0);
    }
}

#[test]
fn the_agent_waits_for_synchronisations_in_flight() {
    let slow = [("cuCtxSynchronize".to_owned(), 500)].into();
    let machine = Machine::new().cuda(Cuda { slow_ms: slow, ..Cuda::default() });
    let ledger = machine.ledger(GIB, GIB);
    let Some(mut program) = ready(&machine, "dlsym") else { return };
    assert_eq!(program.words("synchronize-apart"), ["started"]);
    until("it is in flight", || ledger.processes().unwrap()[0].n_in_flight == 1);
    ledger.set_gate(Gate::Pausing);
    assert!(!ledger.wait_until_idle(SHORT).unwrap());
    assert_eq!(program.line(), "synchronized 0");
    assert!(ledger.wait_until_idle(LONG).unwrap());
}

#[test]
fn a_process_killed_in_a_synchronisation_is_not_waited_for() {
    let hang = ["cuCtxSynchronize".to_owned()].into();
    let mut machine = Machine::new();
    machine.edit(|state| state.hang = hang);
    let ledger = machine.ledger(GIB, GIB);
    let Some(mut program) = ready(&machine, "dlsym") else { return };
    assert_eq!(program.words("synchronize-apart"), ["started"]);
    until("it is in flight", || ledger.processes().unwrap()[0].n_in_flight == 1);
    ledger.set_gate(Gate::Pausing);
    program.kill();
    assert!(ledger.wait_until_idle(LONG).unwrap());
}

#[test]
fn released_devices_are_asked_for_by_the_next_work() {
    for (route, command) in [("dlsym", "launch"), ("get-address", "launch"), ("dlsym", "alloc 1")] {
        let machine = Machine::new();
        let ledger = machine.ledger(GIB, GIB);
        let asks = ledger.listen(None).unwrap();
        let Some(mut program) = ready(&machine, route) else { return };
        ledger.set_gate(Gate::Released);
        assert_eq!(program.code("total 0"), OK, "a question about the machine is no work");
        assert!(asks.next().unwrap().is_none());
        program.send(command);
        let mut wish = None;
        until("the program asks", || {
            wish = asks.next().unwrap().map(|question| question.wish);
            wish.is_some()
        });
        assert_eq!(wish, Some(Wish::Return));
        until("the thread waits", || n_waiting(&ledger) == 1);
        ledger.set_gate(Gate::Open);
        assert!(program.line().starts_with('0'));
        assert_eq!(program.code("launch"), OK);
    }
}

#[test]
fn a_ledger_without_devices_is_a_gate_without_limits() {
    for route in ["dlsym", "get-address"] {
        let machine = Machine::new();
        let ledger = machine.ledger_of(&[]);
        let Some(mut program) = machine.program(route) else { return };
        program.ready();
        let pids: Vec<u32> = ledger.processes().unwrap().iter().map(|it| it.pid).collect();
        assert_eq!(pids, [program.pid()], "a process with a context is known");
        program.get(&format!("alloc {}", 8 * GIB));
        ledger.set_gate(Gate::Released);
        program.send("alloc 1");
        until("the thread waits", || ledger.n_waiting().unwrap() == 1);
        ledger.set_gate(Gate::Open);
        assert!(program.line().starts_with("0 "));
        ledger.set_gate(Gate::Released);
        program.send("launch");
        until("the thread waits", || ledger.n_waiting().unwrap() == 1);
        program.kill();
        assert_eq!(ledger.n_waiting().unwrap(), 0, "dead threads wait for nothing");
    }
}

#[test]
fn a_process_that_starts_during_a_pause_waits_too() {
    let machine = Machine::new();
    let ledger = machine.ledger(GIB, GIB);
    ledger.set_gate(Gate::Released);
    let Some(mut program) = machine.program("dlsym") else { return };
    // The job may return to other devices, so it does not look at them before.
    program.send("init");
    until("the thread waits", || n_waiting(&ledger) == 1);
    ledger.set_gate(Gate::Pausing);
    assert_eq!(program.line(), "0");
    assert_eq!(program.code("context 0"), OK);
    program.send("synchronize");
    until("the thread waits", || n_waiting(&ledger) == 1);
    ledger.set_gate(Gate::Open);
    assert_eq!(program.line(), "0");
}
