//! Which processes can be paused with which driver. Each rule follows from a failure that others
//! measured; a driver that is not known to fail is used.
//!
//! Sources: the issues of NVIDIA/cuda-checkpoint (by number below), and `FINDINGS.md` of
//! VivianSobers/gpunap.

use crate::call::DeviceSnapshot;
use crate::machine::{Facts, Gate, Machine};
use crate::plan::{Plan, ResidentProcess};

/// The first driver with the calls.
const FIRST: u32 = 570;
/// The first driver that can restore on other devices.
const MOVES_SINCE: u32 = 580;
/// The first driver that can checkpoint memory that processes share.
const SHARED_SINCE: u32 = 610;
/// Drivers that abort a program with NCCL, even with one rank: 595 did, 580 did not.
const NCCL_ABORTS: std::ops::Range<u32> = 590..610;
/// Driver versions that must not be used, and why.
const DENIED: &[(&str, &str)] =
    // Issue 58.
    &[("610.57.04", "a lock crashes programs with several threads")];

/// Host memory that must stay free beside the copy.
const HOST_MARGIN: u64 = 512 << 20;

/// The branch of a driver version: 580 of `580.95.05`.
#[must_use]
pub fn branch(driver: &str) -> Option<u32> {
    driver.split('.').next()?.parse().ok()
}

/// Why a driver can't pause anything; `None` if it can.
#[must_use]
pub fn refusal_of_driver(driver: &str) -> Option<String> {
    if let Some((version, why)) = DENIED.iter().find(|(version, _)| *version == driver) {
        return Some(format!("driver {version} is not used for pauses: {why}"));
    }
    match branch(driver) {
        Some(branch) if branch < FIRST => {
            Some(format!("driver {driver} has no checkpoints; they need {FIRST} or later"))
        }
        Some(_) => None,
        None => Some(format!("the driver's version {driver:?} is not known")),
    }
}

/// Why a driver can't restore on other devices; `None` if it can.
pub fn refusal_of_moves(driver: &str) -> Option<String> {
    let can = branch(driver).is_some_and(|branch| branch >= MOVES_SINCE);
    (!can).then(|| {
        format!("driver {driver} can't restore on another GPU; that needs {MOVES_SINCE} or later")
    })
}

/// Why these processes can't be paused; `None` if they can.
pub(crate) fn refusal(
    machine: &mut dyn Machine,
    plan: &Plan,
    look: &DeviceSnapshot,
    processes: &[ResidentProcess],
) -> Option<String> {
    if let Some(why) = refusal_of_driver(&look.driver).or_else(|| refusal_of_devices(look)) {
        return Some(why);
    }
    if let Some(why) = refusal_of_no_gate(machine, plan, processes) {
        return Some(why);
    }
    let all: Vec<(u32, Facts)> =
        processes.iter().map(|process| (process.pid, machine.facts(process.pid))).collect();
    refusal_of_processes(branch(&look.driver).unwrap_or(FIRST), &all)
        .or_else(|| refusal_of_gate(machine, processes, branch(&look.driver).unwrap_or(FIRST)))
        .or_else(|| refusal_for_memory(machine, processes))
}

/// Why processes without a gate can't be paused; `None` if they have one, or need none.
pub(crate) fn refusal_of_no_gate(
    machine: &mut dyn Machine,
    plan: &Plan,
    processes: &[ResidentProcess],
) -> Option<String> {
    let is_needed = plan.runs_on || !plan.is_risk_accepted;
    if !is_needed || machine.gate(processes).is_some() {
        return None;
    }
    Some(match plan.runs_on {
        true => "some of its processes bypass the gate at which their GPU calls would wait \
                 (LD_LIBRARY_PATH must keep gpool's folder first)"
            .to_owned(),
        false => "some drivers crash a program that synchronises while it is paused, and this job \
                  has no gate against that; allow it with --exits pause,requeue"
            .to_owned(),
    })
}

fn refusal_of_devices(look: &DeviceSnapshot) -> Option<String> {
    if let Some(device) = look.devices.iter().find(|device| device.is_mig) {
        return Some(format!("{} is divided by MIG, which the driver can't pause", device.uuid));
    }
    let device = look.devices.iter().find(|device| device.has_mps)?;
    Some(format!("{} is served by MPS, and its clients can't be paused", device.uuid))
}

fn refusal_of_processes(branch: u32, all: &[(u32, Facts)]) -> Option<String> {
    // One mapping of the device of managed memory is the driver's own.
    if let Some((pid, _)) = all.iter().find(|(_, facts)| facts.n_uvm_mappings > 1) {
        return Some(format!("process {pid} has managed memory, which the driver can't pause"));
    }
    let n_nccl = all.iter().filter(|(_, facts)| facts.has_nccl).count();
    if n_nccl > 1 {
        return Some(format!("{n_nccl} of its processes are ranks that NCCL connects"));
    }
    (n_nccl == 1 && NCCL_ABORTS.contains(&branch))
        .then(|| format!("it uses NCCL, and drivers of branch {branch} abort such programs"))
}

/// What the processes wrote into their ledger.
fn refusal_of_gate(
    machine: &mut dyn Machine,
    processes: &[ResidentProcess],
    branch: u32,
) -> Option<String> {
    let gate: Gate = machine.gate(processes)?;
    if gate.has_managed_memory {
        return Some("it has managed memory, which the driver can't pause".to_owned());
    }
    if gate.shares_memory && branch < SHARED_SINCE {
        return Some(format!(
            "its processes share GPU memory, which drivers before {SHARED_SINCE} can't pause"
        ));
    }
    None
}

fn refusal_for_memory(machine: &mut dyn Machine, processes: &[ResidentProcess]) -> Option<String> {
    let pids: Vec<u32> = processes.iter().map(|process| process.pid).collect();
    let needed = processes.iter().map(ResidentProcess::bytes).fold(0, u64::saturating_add);
    let needed = needed.saturating_add(HOST_MARGIN);
    let room = machine.host_memory(&pids);
    (needed > room).then(|| {
        let mib = |bytes: u64| bytes >> 20;
        format!(
            "its GPU memory needs {} MiB of host memory, and {} MiB are free",
            mib(needed),
            mib(room)
        )
    })
}
