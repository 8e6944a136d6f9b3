//! Restores on other devices than those of the checkpoint: when they are tried, the pairs that the
//! driver needs, and the check afterwards.
//!
//! Sources: `CUcheckpointRestoreArgs` in `cuda.h` 13; issue 35 of NVIDIA/cuda-checkpoint and the
//! tests of `cuda.core.checkpoint` for the rules of the pairs, and for drivers that return success
//! and restore on the old device.

use std::collections::{BTreeMap, BTreeSet};

use crate::call::DeviceSnapshot;
use crate::machine::Machine;
use crate::plan::{Plan, ResidentProcess};
use crate::record;
use crate::room::{MARGIN, need};
use crate::rules;

/// Whether a restore of these processes moves memory to another device.
pub(crate) fn moves(plan: &Plan, held: &[ResidentProcess]) -> bool {
    held.iter().any(|process| !moves_of(plan, process).is_empty())
}

/// The new device of each device that the memory of a process leaves.
fn moves_of(plan: &Plan, process: &ResidentProcess) -> BTreeMap<String, String> {
    let all = process.on.keys().map(|device| (process.place(device), plan.target(device)));
    let moved = all.filter(|(from, to)| from != to);
    moved.map(|(from, to)| (from.to_owned(), to.to_owned())).collect()
}

/// The pairs for the restore of a process: a permutation of all GPUs of the machine, or nothing if
/// its memory stays on its devices. The driver counts GPUs that the process can't see too.
pub(crate) fn pairs(
    plan: &Plan,
    look: &DeviceSnapshot,
    process: &ResidentProcess,
) -> Vec<(String, String)> {
    let moves = moves_of(plan, process);
    if moves.is_empty() {
        return Vec::new();
    }
    let targets: BTreeSet<&String> = moves.values().collect();
    // A device that only takes memory gives its own to one of the same model that only gives.
    let mut takers: Vec<&String> = targets.iter().copied().collect();
    takers.retain(|it| !moves.contains_key(*it));
    takers.sort_by_key(|it| look.gpus.get(*it));
    let mut givers: Vec<&String> = moves.keys().filter(|it| !targets.contains(it)).collect();
    givers.sort_by_key(|it| look.gpus.get(*it));
    let back: BTreeMap<&String, &String> = takers.into_iter().zip(givers).collect();
    let to = |from: &String| {
        let to = moves.get(from).or_else(|| back.get(from).copied());
        (from.clone(), to.unwrap_or(from).clone())
    };
    let gone = moves.keys().filter(|it| !look.gpus.contains_key(*it));
    look.gpus.keys().chain(gone).map(to).collect()
}

/// Why the memory of these processes can't be moved; `None` if it can.
pub(crate) fn refusal(
    machine: &mut dyn Machine,
    plan: &Plan,
    look: &DeviceSnapshot,
    held: &[ResidentProcess],
) -> Option<String> {
    if let Some(why) = rules::refusal_of_moves(&look.driver) {
        return Some(why);
    }
    if !machine.can_note_devices() {
        return Some("its library for GPU calls is of an earlier version of gpool".to_owned());
    }
    let all: Vec<_> = held.iter().flat_map(|process| moves_of(plan, process)).collect();
    for (from, to) in &all {
        let Some(new) = look.gpus.get(to) else {
            return Some(format!("{to} is not a whole GPU of this machine"));
        };
        // The server has compared the model of a GPU that is gone.
        if let Some(old) = look.gpus.get(from).filter(|old| *old != new) {
            return Some(format!("{to} is another model than {from}: {new}, not {old}"));
        }
    }
    match machine.moves(&look.driver) {
        Some(true) => None,
        Some(false) => Some(record::stays(&look.driver)),
        None => short_of_both(look, held, &all),
    }
}

/// A driver that was never seen to move memory may restore on the old device, and a restore that
/// runs out of memory there would lose everything.
fn short_of_both(
    look: &DeviceSnapshot,
    held: &[ResidentProcess],
    moves: &[(String, String)],
) -> Option<String> {
    let from = |uuid: &str| moves.iter().any(|(from, _)| from == uuid);
    let short = look.devices.iter().filter(|device| from(&device.uuid)).find_map(|device| {
        let needed = need(device, held, &|process, on| process.place(on) == device.uuid);
        let free = device.free.unwrap_or(0);
        (free < needed.saturating_add(MARGIN)).then_some((device, free))
    });
    short.map(|(device, free)| {
        format!(
            "the first move with driver {} needs room on the old GPU too, in case the driver \
             ignores the new one: {} has {} MiB free",
            look.driver,
            device.uuid,
            free >> 20
        )
    })
}

/// Where the driver lists the processes of a restore.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Listed {
    /// On their new devices.
    There,
    /// One is listed on another device of the plan.
    Elsewhere,
    /// One is not listed on all of its devices yet.
    NotYet,
}

/// Compares the driver's lists with the plan.
pub(crate) fn listed(plan: &Plan, look: &DeviceSnapshot, held: &[ResidentProcess]) -> Listed {
    let of = |process: &ResidentProcess| {
        let seen: BTreeSet<&str> = devices_of(look, process).collect();
        let wanted: BTreeSet<&str> = process.on.keys().map(|it| plan.target(it)).collect();
        match (seen.is_subset(&wanted), wanted.is_subset(&seen)) {
            (true, true) => Listed::There,
            (true, false) => Listed::NotYet,
            (false, _) => Listed::Elsewhere,
        }
    };
    let all: Vec<Listed> = held.iter().map(of).collect();
    let first = |wanted: Listed| all.contains(&wanted).then_some(wanted);
    first(Listed::Elsewhere).or_else(|| first(Listed::NotYet)).unwrap_or(Listed::There)
}

/// Notes the devices that processes came to, before they are checkpointed again.
pub(crate) fn note_places(plan: &Plan, look: &DeviceSnapshot, held: &mut [ResidentProcess]) {
    for process in held {
        let seen: BTreeSet<&str> = devices_of(look, process).collect();
        let came = |device: &&String| seen.contains(plan.target(device));
        let moved = process.on.keys().filter(came);
        let moved = moved.map(|it| (it.clone(), plan.target(it).to_owned()));
        let moved: BTreeMap<String, String> = moved.filter(|(from, to)| from != to).collect();
        process.moved.extend(moved);
    }
}

/// The devices on which the driver lists a process.
fn devices_of<'a>(
    look: &'a DeviceSnapshot,
    process: &ResidentProcess,
) -> impl Iterator<Item = &'a str> {
    let pid = process.pid;
    let has =
        move |device: &&'a crate::call::SeenDevice| device.processes.iter().any(|it| it.pid == pid);
    look.devices.iter().filter(has).map(|device| device.uuid.as_str())
}
