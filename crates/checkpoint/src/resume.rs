//! The sequences of a resume, and of a release before the end of a task.

use std::time::Duration;

use crate::call::{Look, ProcessState, SeenDevice};
use crate::machine::Machine;
use crate::pause::{STEP, await_free, bring_back, checkpoint, lock, new_on, still_there, unlock};
use crate::plan::{Held, Plan};

/// Free memory that a device must have beside the restored bytes. A restore that runs out of
/// memory fails for ever (cuda-checkpoint issue 44).
const MARGIN: u64 = 256 << 20;
/// Attempts to restore.
const TRIES: u32 = 5;
/// Time between two attempts, and between two looks for free memory.
const AGAIN: Duration = Duration::from_millis(500);
/// Attempts to lock a process that will be killed.
const LAST_LOCKS: u32 = 3;

/// The GPU memory of a task can't be restored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lost(pub String);

/// Restores the GPU memory of a task once its devices have room, and lets its processes go on. It
/// waits for room without end, since a restore without room would lose everything.
///
/// # Errors
/// If the driver has lost the memory, or refuses again and again.
pub fn resume(machine: &mut dyn Machine, plan: &Plan) -> Result<(), Lost> {
    let held = still_there(machine, &plan.processes);
    let mut n_tried = 0;
    loop {
        await_room(machine, plan, &held);
        machine.thaw();
        let Err(why) = restore(machine, plan, &held) else { break };
        n_tried += 1;
        let is_lost = held.iter().any(|process| machine.state(process) == Ok(ProcessState::Failed));
        if is_lost || n_tried == TRIES {
            return Err(Lost(why));
        }
        machine.waits(&why);
        machine.wait(AGAIN);
    }
    machine.open_gate();
    Ok(())
}

/// Waits until each device has room for the processes that it does not list.
fn await_room(machine: &mut dyn Machine, plan: &Plan, held: &[Held]) {
    let mut told = String::new();
    loop {
        let there = still_there(machine, held);
        let why = match machine.look() {
            Ok(look) => shortage(machine, plan, &look, &there)
                .or_else(|| machine.try_room(&needs(&look, &there)).err().map(|it| it.to_string())),
            Err(error) => Some(error.to_string()),
        };
        let Some(why) = why else { return };
        if why != told {
            machine.waits(&why);
            told = why;
        }
        machine.wait(AGAIN);
    }
}

/// Why the processes can't be restored now.
fn shortage(machine: &mut dyn Machine, plan: &Plan, look: &Look, held: &[Held]) -> Option<String> {
    for device in &look.devices {
        let needed = need(device, held);
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

/// The memory that a device needs for the processes that it does not list.
fn need(device: &SeenDevice, held: &[Held]) -> u64 {
    let is_listed = |held: &&Held| device.processes.iter().any(|it| it.pid == held.pid);
    let absent = held.iter().filter(|held| !is_listed(held));
    let bytes = absent.filter_map(|held| held.on.get(&device.uuid)).copied();
    bytes.fold(0, u64::saturating_add)
}

/// The needs by device, without those that are zero.
fn needs(look: &Look, held: &[Held]) -> Vec<(String, u64)> {
    let all = look.devices.iter().map(|device| (device.uuid.clone(), need(device, held)));
    all.filter(|(_, bytes)| *bytes > 0).collect()
}

/// A process of others on a device that the task has alone: it may grow during the restore.
fn stranger(machine: &mut dyn Machine, plan: &Plan, device: &SeenDevice) -> Option<u32> {
    let others = device.processes.iter().filter(|it| !plan.ignored.contains(&it.name));
    let mut pids = others.map(|it| it.pid).filter(|_| !plan.is_shared);
    pids.find(|pid| machine.own(*pid).is_none())
}

fn restore(machine: &mut dyn Machine, plan: &Plan, held: &[Held]) -> Result<(), String> {
    for process in held {
        if let Err(why) = bring_back(machine, process)
            && machine.lives(process)
        {
            return Err(why);
        }
    }
    await_listed(machine, plan, held);
    held.iter().try_for_each(|process| unlock(machine, process))
}

/// Waits until the driver lists the processes on their devices again. One that it lists elsewhere
/// is reported by the agent as a stray process.
fn await_listed(machine: &mut dyn Machine, plan: &Plan, held: &[Held]) {
    let mut left = Duration::from_millis(plan.deadlines.list_ms);
    while !left.is_zero() {
        let there = still_there(machine, held);
        let Ok(look) = machine.look() else { return };
        let is_listed = |held: &Held| {
            let has = |device: &SeenDevice| device.processes.iter().any(|it| it.pid == held.pid);
            held.on.keys().all(|uuid| look.devices.iter().any(|it| it.uuid == *uuid && has(it)))
        };
        if there.iter().all(is_listed) {
            return;
        }
        machine.wait(STEP);
        left = left.saturating_sub(STEP);
    }
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
