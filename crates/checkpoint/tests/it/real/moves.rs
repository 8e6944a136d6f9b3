//! Resumes on another GPU.

use super::*;

/// The same machine with a second GPU of the model, and one of another.
fn with_more_gpus(machine: &mut Machine) -> [String; 2] {
    let uuids = ["b1", "c2"].map(|digits| GPU.replace("a0", digits));
    machine.edit(|state| {
        for (uuid, name) in uuids.iter().zip(["NVIDIA H100", "NVIDIA A100"]) {
            let (uuid, name) = (uuid.clone(), name.to_owned());
            state.devices.push(Device { uuid, name, ..state.devices[0].clone() });
        }
    });
    uuids
}

fn moved(machine: &Machine, held: &[ResidentProcess], to: &str) -> Plan {
    let moves = [(GPU.to_owned(), to.to_owned())].into();
    Plan { devices: vec![to.to_owned()], moves, ..machine.plan(Aim::Resume, held) }
}

#[test]
fn memory_moves_to_another_gpu_and_back() {
    let mut machine = Machine::new(Cuda::default());
    let [other, _] = with_more_gpus(&mut machine);
    let Some((mut program, address)) = machine.writer() else { return };
    let held = pause(&machine, &program);
    let last = Keeper::start(moved(&machine, &held, &other)).last(&program);
    assert_eq!(last, Some(Say::Resumed));
    assert!(program.has_text(&address));
    let plan = || Plan { devices: vec![other.clone()], ..machine.plan(Aim::Pause, &[]) };
    let Some(Say::Paused(held)) = Keeper::start(plan()).last(&program) else { panic!() };
    assert!(held[0].on.contains_key(&other), "{held:?}");
    let moves = [(other.clone(), GPU.to_owned())].into();
    let last = Keeper::start(Plan { moves, ..machine.plan(Aim::Resume, &held) }).last(&program);
    assert_eq!(last, Some(Say::Resumed));
    assert!(program.has_text(&address));
}

#[test]
fn a_driver_that_does_not_move_memory_is_found_out() {
    let mut machine = Machine::new(Cuda { move_is_ignored: true, ..Cuda::default() });
    let [other, _] = with_more_gpus(&mut machine);
    let Some((mut program, address)) = machine.writer() else { return };
    let mut held = pause(&machine, &program);
    for word in ["restored its memory on the old GPU", "when it was tried before"] {
        match Keeper::start(moved(&machine, &held, &other)).last(&program) {
            Some(Say::NotMoved { why, held: again }) => {
                assert!(why.contains(word), "{why}");
                held = again;
            }
            other => panic!("{other:?}"),
        }
        assert!(program.is_stopped());
    }
    resume(&machine, &program, &held);
    assert!(program.has_text(&address));
}

#[test]
fn a_driver_that_refuses_a_move_keeps_the_memory() {
    let mut machine = Machine::new(Cuda::default());
    let [other, another_model] = with_more_gpus(&mut machine);
    let Some((mut program, address)) = machine.writer() else { return };
    let held = pause(&machine, &program);
    let why_not = |plan: Plan| match Keeper::start(plan).last(&program) {
        Some(Say::NotMoved { why, .. }) => why,
        other => panic!("{other:?}"),
    };
    let why = why_not(moved(&machine, &held, &another_model));
    assert!(why.contains("is another model"), "{why}");
    machine.edit(|state| {
        state.errors = [("cuCheckpointProcessRestore".to_owned(), 801)].into();
    });
    let why = why_not(moved(&machine, &held, &other));
    assert!(why.contains("CUDA_ERROR_NOT_SUPPORTED"), "{why}");
    machine.edit(|state| {
        state.errors.clear();
        state.driver = "575.57.08".to_owned();
    });
    let why = why_not(moved(&machine, &held, &other));
    assert!(why.contains("580 or later"), "{why}");
    resume(&machine, &program, &held);
    assert!(program.has_text(&address));
}
