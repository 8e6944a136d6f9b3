//! The memory that a restore needs on a device.

use crate::call::SeenDevice;
use crate::plan::ResidentProcess;

/// Free memory that a device must have beside the restored bytes. A restore that runs out of
/// memory fails for ever (cuda-checkpoint issue 44).
pub(crate) const MARGIN: u64 = 256 << 20;

/// The memory that a device needs for the processes that it does not list, of those devices of a
/// process that count.
pub(crate) fn need(
    device: &SeenDevice,
    held: &[ResidentProcess],
    counts: &dyn Fn(&ResidentProcess, &str) -> bool,
) -> u64 {
    let is_listed = |held: &&ResidentProcess| device.processes.iter().any(|it| it.pid == held.pid);
    let absent = held.iter().filter(|held| !is_listed(held));
    let all = absent.flat_map(|held| held.on.iter().map(move |(on, bytes)| (held, on, bytes)));
    let bytes = all.filter(|(held, on, _)| counts(held, on)).map(|(_, _, bytes)| *bytes);
    bytes.fold(0, u64::saturating_add)
}
