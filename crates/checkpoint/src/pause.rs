//! The sequence of a pause, and of its undoing.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::call::{CallError, DeviceSnapshot, NOT_READY, ProcessState, SeenDevice};
use crate::machine::Machine;
use crate::plan::{Plan, ResidentProcess};
use crate::rules;

/// Rounds for processes that begin to use a device during the pause.
const ROUNDS: usize = 3;
/// Time between two looks at the devices.
pub(crate) const STEP: Duration = Duration::from_millis(100);

/// A pause that failed. The task's processes run on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotPaused {
    pub why: String,
    /// Whether GPU memory of the task is lost, so that it has to be ended.
    pub is_lost: bool,
}

/// Frees the devices of a task and stops its processes, unless they run on. Returns the processes
/// with GPU memory in host memory. Nothing is changed before all checks have passed, and a failure
/// is undone.
pub fn pause(machine: &mut dyn Machine, plan: &Plan) -> Result<Vec<ResidentProcess>, NotPaused> {
    let refused = |why: String| NotPaused { why, is_lost: false };
    let look = machine.look().map_err(|error| refused(error.to_string()))?;
    let mut held = still_there(machine, &plan.processes);
    held.extend(new_on(machine, &look, &held));
    let refusal = match held.is_empty() {
        true => rules::refusal_of_driver(&look.driver)
            .or_else(|| rules::refusal_of_no_gate(machine, plan, &held).filter(|_| plan.runs_on)),
        false => rules::refusal(machine, plan, &look, &held),
    };
    if let Some(why) = refusal {
        // An earlier plan for the task may have locked some.
        return Err(match plan.processes.is_empty() {
            true => refused(why),
            false => undo(machine, &held, why),
        });
    }
    machine.found(&held);
    let mut touched = plan.processes.clone();
    match attempt(machine, plan, &mut held, &mut touched) {
        Ok(()) => Ok(still_there(machine, &held)),
        Err(why) => Err(undo(machine, &touched, why)),
    }
}

pub(crate) fn still_there(
    machine: &mut dyn Machine,
    processes: &[ResidentProcess],
) -> Vec<ResidentProcess> {
    processes.iter().filter(|process| machine.lives(process)).cloned().collect()
}

/// The processes of the task on its devices that are not known yet.
pub(crate) fn new_on(
    machine: &mut dyn Machine,
    look: &DeviceSnapshot,
    residents: &[ResidentProcess],
) -> Vec<ResidentProcess> {
    let mut found: Vec<ResidentProcess> = Vec::new();
    for device in &look.devices {
        for process in &device.processes {
            let pid = process.pid;
            if residents.iter().any(|it| it.pid == pid) {
                continue;
            }
            let Some(started) = machine.own(pid) else { continue };
            // Without its own figure, all used memory may be the process's.
            let bytes = process.memory.or(device.used).unwrap_or(0);
            let on = (device.uuid.clone(), bytes);
            match found.iter_mut().find(|it| it.pid == pid) {
                Some(it) => drop(it.on.insert(on.0, on.1)),
                None => {
                    let (on, moved) = ([on].into(), BTreeMap::new());
                    found.push(ResidentProcess { pid, started, on, moved });
                }
            }
        }
    }
    found
}

fn attempt(
    machine: &mut dyn Machine,
    plan: &Plan,
    held: &mut Vec<ResidentProcess>,
    touched: &mut Vec<ResidentProcess>,
) -> Result<(), String> {
    machine.close_gate()?;
    for _ in 0..ROUNDS {
        // All are locked before the first is checkpointed: they may depend on each other.
        for process in held.iter() {
            machine.awaken(process.pid);
            lock(machine, process, touched)?;
        }
        for process in held.iter() {
            checkpoint(machine, process)?;
        }
        let new = await_free(machine, plan, held)?;
        if new.is_empty() {
            machine.emptied();
            return if plan.runs_on { Ok(()) } else { freeze(machine, held) };
        }
        held.extend(new);
        machine.found(held);
    }
    Err("new processes of it keep using the GPU".to_owned())
}

/// Stops the processes, and looks for one that began to use a device just before.
fn freeze(machine: &mut dyn Machine, held: &[ResidentProcess]) -> Result<(), String> {
    if !machine.freeze() {
        return Err("its processes could not be stopped".to_owned());
    }
    let look = machine.look().map_err(|error| error.to_string())?;
    match new_on(machine, &look, held).first() {
        None => Ok(()),
        Some(new) => Err(format!("process {} began to use the GPU meanwhile", new.pid)),
    }
}

/// Locks a process, whatever happened to it before. One that may need an unlock is added to
/// `touched`.
pub(crate) fn lock(
    machine: &mut dyn Machine,
    process: &ResidentProcess,
    touched: &mut Vec<ResidentProcess>,
) -> Result<(), String> {
    match machine.state(process) {
        Ok(ProcessState::Locked | ProcessState::Checkpointed) => {
            touched.push(process.clone());
            return Ok(());
        }
        Ok(ProcessState::Running) => {}
        Ok(state) => return unless_ended(machine, process, lost(process, state)),
        Err(error) => return unless_ended(machine, process, error.to_string()),
    }
    touched.push(process.clone());
    match machine.lock(process) {
        Ok(()) => Ok(()),
        Err(error) if error.is(NOT_READY) => {
            let why = format!("a GPU call of process {} did not end in time", process.pid);
            unless_ended(machine, process, why)
        }
        // The state counts: the driver finishes a call even if its caller is killed.
        Err(error) => match machine.state(process) {
            Ok(ProcessState::Locked) => Ok(()),
            _ => unless_ended(machine, process, error.to_string()),
        },
    }
}

/// Checkpoints a locked process.
pub(crate) fn checkpoint(
    machine: &mut dyn Machine,
    process: &ResidentProcess,
) -> Result<(), String> {
    if machine.state(process) == Ok(ProcessState::Checkpointed) {
        return Ok(());
    }
    match machine.checkpoint(process) {
        Ok(()) => Ok(()),
        Err(error) => match machine.state(process) {
            Ok(ProcessState::Checkpointed) => Ok(()),
            _ => unless_ended(machine, process, error.to_string()),
        },
    }
}

/// The failure of a step, which is none if the process has ended meanwhile.
fn unless_ended(
    machine: &mut dyn Machine,
    process: &ResidentProcess,
    why: String,
) -> Result<(), String> {
    if machine.lives(process) { Err(why) } else { Ok(()) }
}

fn lost(process: &ResidentProcess, state: ProcessState) -> String {
    match state {
        ProcessState::Busy => format!("an operation of process {} does not end", process.pid),
        _ => format!("the GPU memory of process {} is lost", process.pid),
    }
}

/// Waits until the driver lists none of these processes. Returns others of the task that it lists.
pub(crate) fn await_free(
    machine: &mut dyn Machine,
    plan: &Plan,
    held: &[ResidentProcess],
) -> Result<Vec<ResidentProcess>, String> {
    let mut left = Duration::from_millis(plan.deadlines.list_ms);
    loop {
        let look = machine.look().map_err(|error: CallError| error.to_string())?;
        let there = still_there(machine, held);
        let is_on = |device: &SeenDevice| {
            device.processes.iter().any(|it| there.iter().any(|held| held.pid == it.pid))
        };
        if !look.devices.iter().any(is_on) {
            return Ok(new_on(machine, &look, held));
        }
        if left.is_zero() {
            return Err("the driver still lists its processes after the checkpoint".to_owned());
        }
        machine.wait(STEP);
        left = left.saturating_sub(STEP);
    }
}

/// Lets the processes run on after a failure.
fn undo(machine: &mut dyn Machine, held: &[ResidentProcess], why: String) -> NotPaused {
    machine.thaw();
    let mut error = None;
    for process in held {
        if let Err(failure) = bring_back(machine, process, &[])
            && machine.lives(process)
        {
            error.get_or_insert(failure);
        }
    }
    for process in held {
        if let Err(failure) = unlock(machine, process) {
            error.get_or_insert(failure);
        }
    }
    machine.open_gate();
    match error {
        None => NotPaused { why, is_lost: false },
        Some(error) => {
            let why = format!("{why}; its GPU memory could not be restored: {error}");
            NotPaused { why, is_lost: true }
        }
    }
}

/// Restores a checkpointed process, with these pairs of devices if its memory moves.
pub(crate) fn bring_back(
    machine: &mut dyn Machine,
    process: &ResidentProcess,
    pairs: &[(String, String)],
) -> Result<(), String> {
    match machine.state(process) {
        Ok(ProcessState::Running | ProcessState::Locked) => return Ok(()),
        Ok(ProcessState::Checkpointed) => {}
        Ok(state) => return Err(lost(process, state)),
        Err(error) => return Err(error.to_string()),
    }
    machine.restores();
    match machine.restore(process, pairs) {
        Ok(()) => Ok(()),
        Err(error) => match machine.state(process) {
            Ok(ProcessState::Locked) => Ok(()),
            _ => Err(error.to_string()),
        },
    }
}

pub(crate) fn unlock(machine: &mut dyn Machine, process: &ResidentProcess) -> Result<(), String> {
    match machine.state(process) {
        Ok(ProcessState::Locked) => {}
        Ok(ProcessState::Running) => return Ok(()),
        Ok(state) => return unless_ended(machine, process, lost(process, state)),
        Err(error) => return unless_ended(machine, process, error.to_string()),
    }
    match machine.unlock(process) {
        Ok(()) => Ok(()),
        Err(error) => match machine.state(process) {
            Ok(ProcessState::Running) => Ok(()),
            _ => unless_ended(machine, process, error.to_string()),
        },
    }
}
