//! The sequences of a resume, and of a release before the end of a task.

use std::time::Duration;

use crate::call::{DeviceSnapshot, ProcessState, SeenDevice};
use crate::machine::Machine;
use crate::moving::{self, Listed};
use crate::pause::{STEP, await_free, bring_back, checkpoint, lock, new_on, still_there, unlock};
use crate::plan::{Plan, ResidentProcess};
use crate::room::{MARGIN, need};

const TRIES: u32 = 5;
/// Time between two attempts, and between two looks for free memory.
const AGAIN: Duration = Duration::from_millis(500);
/// Attempts to lock a process that will be killed.
const LAST_LOCKS: u32 = 3;

/// Why a restore waits although its devices have room.
const NOT_GRANTED: &str = "other jobs may still use the free GPU memory that it needs";

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NotResumed {
    /// The GPU memory of the task can't be restored.
    Lost(String),
    /// It can't be restored on other devices. The task is paused, as before.
    NotMoved {
        why: String,
        /// The processes with GPU memory in host memory.
        held: Vec<ResidentProcess>,
    },
}

/// Restores the GPU memory of a task once its devices have room, and lets its processes go on. It
/// waits for room without end, since a restore without room would lose everything.
///
/// # Errors
/// If the driver has lost the memory, or refuses again and again, or does not move it to other
/// devices.
pub fn resume(machine: &mut dyn Machine, plan: &Plan) -> Result<(), NotResumed> {
    let mut held = still_there(machine, &plan.processes);
    let mut n_tried = 0;
    loop {
        let look = match await_room(machine, plan, &held) {
            Ok(look) => look,
            Err(why) => {
                // An earlier keeper may have been killed after it noted the new ones.
                machine.note_devices(&plan.home());
                return Err(NotResumed::NotMoved { why, held });
            }
        };
        // Before the processes go on, as they may start others.
        machine.note_devices(&plan.devices);
        machine.thaw();
        let Err(failure) = restore(machine, plan, &look, &held) else { break };
        n_tried += 1;
        let is_lost = held.iter().any(|process| machine.state(process) == Ok(ProcessState::Failed));
        match failure {
            Failure::NotMoved(why) if !is_lost => {
                return Err(undo(machine, plan, &mut held, why));
            }
            Failure::NotMoved(why) | Failure::Error(why) if is_lost || n_tried == TRIES => {
                return Err(NotResumed::Lost(why));
            }
            Failure::NotMoved(why) | Failure::Error(why) => machine.waits(&why),
        }
        machine.wait(AGAIN);
    }
    machine.open_gate();
    Ok(())
}

/// Waits until each device has room for the processes that it does not list. Fails if memory should
/// move to another device and can't.
fn await_room(
    machine: &mut dyn Machine,
    plan: &Plan,
    held: &[ResidentProcess],
) -> Result<DeviceSnapshot, String> {
    let mut told = String::new();
    loop {
        let there = still_there(machine, held);
        let why = match machine.look() {
            Ok(look) => {
                let refusal = match moving::moves(plan, &there) {
                    true => moving::refusal(machine, plan, &look, &there),
                    false => None,
                };
                if let Some(why) = refusal {
                    return Err(why);
                }
                let short = shortage(machine, plan, &look, &there).or_else(|| {
                    let needs = needs(plan, &look, &there);
                    machine.try_room(&needs).err().map(|it| it.to_string())
                });
                let short =
                    short.or_else(|| (!machine.is_granted()).then(|| NOT_GRANTED.to_owned()));
                match short {
                    Some(why) => why,
                    None => return Ok(look),
                }
            }
            Err(error) => error.to_string(),
        };
        if why != told {
            machine.waits(&why);
            told = why;
        }
        machine.wait(AGAIN);
    }
}

/// Why the processes can't be restored now.
fn shortage(
    machine: &mut dyn Machine,
    plan: &Plan,
    look: &DeviceSnapshot,
    held: &[ResidentProcess],
) -> Option<String> {
    for device in &look.devices {
        let needed = need_on(plan, device, held);
        if needed == 0 {
            continue;
        }
        if let Some(pid) = stranger(machine, plan, device) {
            return Some(format!("process {pid} uses GPU {}", device.uuid));
        }
        let needed = needed.saturating_add(MARGIN);
        let free = device.free.unwrap_or(u64::MAX);
        if free < needed {
            let (needed, free) = (needed >> 20, free >> 20);
            let uuid = &device.uuid;
            return Some(format!("GPU {uuid} has {free} MiB free, and it needs {needed} MiB"));
        }
    }
    None
}

/// The memory that a device needs for the restore.
fn need_on(plan: &Plan, device: &SeenDevice, held: &[ResidentProcess]) -> u64 {
    need(device, held, &|_, on| plan.target(on) == device.uuid)
}

/// The needs by device, without those that are zero.
fn needs(plan: &Plan, look: &DeviceSnapshot, held: &[ResidentProcess]) -> Vec<(String, u64)> {
    let need = |device: &SeenDevice| (device.uuid.clone(), need_on(plan, device, held));
    look.devices.iter().map(need).filter(|(_, bytes)| *bytes > 0).collect()
}

/// A process of others on a device that the task has alone: it may grow during the restore.
fn stranger(machine: &mut dyn Machine, plan: &Plan, device: &SeenDevice) -> Option<u32> {
    let others = device.processes.iter().filter(|it| !plan.ignored.contains(&it.name));
    let mut pids = others.map(|it| it.pid).filter(|_| !plan.is_shared);
    pids.find(|pid| machine.own(*pid).is_none())
}

/// Why a restore did not succeed.
enum Failure {
    /// A call failed.
    Error(String),
    /// The memory did not come to other devices.
    NotMoved(String),
}

fn restore(
    machine: &mut dyn Machine,
    plan: &Plan,
    look: &DeviceSnapshot,
    held: &[ResidentProcess],
) -> Result<(), Failure> {
    let moves = moving::moves(plan, held);
    for process in held {
        let pairs = moving::pairs(plan, look, process);
        if let Err(why) = bring_back(machine, process, &pairs)
            && machine.lives(process)
        {
            return Err(if moves { Failure::NotMoved(why) } else { Failure::Error(why) });
        }
    }
    match (await_listed(machine, plan, held), moves) {
        (Listed::There, true) => machine.note_moves(&look.driver, true),
        (Listed::Elsewhere, true) => {
            machine.note_moves(&look.driver, false);
            let driver = &look.driver;
            let why = format!("driver {driver} restored its memory on the old GPU");
            return Err(Failure::NotMoved(why));
        }
        (Listed::NotYet, true) => {
            let why = "the driver does not list it on the new GPU".to_owned();
            return Err(Failure::NotMoved(why));
        }
        (_, false) => {}
    }
    let unlocked = held.iter().try_for_each(|process| unlock(machine, process));
    unlocked.map_err(Failure::Error)
}

/// Waits until the driver lists the processes on the devices of the plan again. One that came to
/// another device without a move is reported by the agent as a stray process.
fn await_listed(machine: &mut dyn Machine, plan: &Plan, held: &[ResidentProcess]) -> Listed {
    let mut left = Duration::from_millis(plan.deadlines.list_ms);
    loop {
        let there = still_there(machine, held);
        let listed = match machine.look() {
            Ok(look) => moving::listed(plan, &look, &there),
            Err(_) => Listed::NotYet,
        };
        if listed != Listed::NotYet || left.is_zero() {
            return listed;
        }
        machine.wait(STEP);
        left = left.saturating_sub(STEP);
    }
}

/// Checkpoints the processes again that came to a device which may be another job's by now.
fn undo(
    machine: &mut dyn Machine,
    plan: &Plan,
    held: &mut [ResidentProcess],
    why: String,
) -> NotResumed {
    if let Ok(look) = machine.look() {
        moving::note_places(plan, &look, held);
    }
    let there = still_there(machine, held);
    let undone = there.iter().try_for_each(|process| checkpoint(machine, process));
    let undone = undone.and_then(|()| await_free(machine, plan, &there).map(drop));
    if let Err(error) = undone {
        return NotResumed::Lost(format!(
            "{why}; its GPU memory could not be saved again: {error}"
        ));
    }
    machine.emptied();
    machine.note_devices(&plan.home());
    if !plan.runs_on {
        // A process that is not stopped waits at its next GPU call.
        machine.freeze();
    }
    NotResumed::NotMoved { why, held: there }
}

/// Frees the devices of a task that will be killed: a process that is killed after a restore can
/// hang the machine (cuda-checkpoint issue 53).
///
/// # Errors
/// If some GPU memory could not be freed. The task has to be killed all the same.
pub fn release(machine: &mut dyn Machine, plan: &Plan) -> Result<(), String> {
    let look = machine.look().map_err(|error| error.to_string())?;
    let mut held = still_there(machine, &plan.processes);
    held.extend(new_on(machine, &look, &held));
    machine.thaw();
    // The processes will be killed, whatever they wait for.
    let _ = machine.close_gate();
    let mut failure: Option<String> = None;
    for process in &held {
        machine.awaken(process.pid);
        let mut locked = lock(machine, process, &mut Vec::new());
        for _ in 1..LAST_LOCKS {
            if locked.is_err() {
                locked = lock(machine, process, &mut Vec::new());
            }
        }
        failure = failure.or(locked.err());
    }
    for process in &held {
        failure = failure.or(checkpoint(machine, process).err());
    }
    match failure {
        None => await_free(machine, plan, &held).map(drop),
        Some(why) => Err(why),
    }
}
