//! The outside world of a pause: the real machine, or a test's.

use std::time::Duration;

use crate::call::{CallError, DeviceSnapshot, ProcessState};
use crate::plan::ResidentProcess;

/// Facts about a process that the driver does not tell.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Facts {
    /// Mappings of `/dev/nvidia-uvm`: managed memory adds some.
    pub n_uvm_mappings: usize,
    /// Whether it has threads of NCCL.
    pub has_nccl: bool,
}

/// The gate of a job with a ledger.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Gate {
    /// Whether one of its processes exported or imported memory.
    pub shares_memory: bool,
    /// Whether one of its processes has managed memory.
    pub has_managed_memory: bool,
}

/// A machine with the processes of one task.
pub trait Machine {
    /// Looks at the task's devices.
    ///
    /// # Errors
    /// If the driver lists nothing.
    fn look(&mut self) -> Result<DeviceSnapshot, CallError>;

    /// Identifies a process of the task with its memory: its start time, in ticks since boot;
    /// `None` for a process of others.
    fn own(&mut self, pid: u32) -> Option<u64>;

    /// Whether a process of the task still runs.
    fn lives(&mut self, process: &ResidentProcess) -> bool;

    /// The state of a process in the driver.
    ///
    /// # Errors
    /// If there is none, or no answer.
    fn state(&mut self, process: &ResidentProcess) -> Result<ProcessState, CallError>;

    /// Locks a process.
    ///
    /// # Errors
    /// If its GPU calls do not end in time, or the call fails.
    fn lock(&mut self, process: &ResidentProcess) -> Result<(), CallError>;

    /// Copies the GPU memory of a locked process to host memory.
    fn checkpoint(&mut self, process: &ResidentProcess) -> Result<(), CallError>;

    /// Allocates this much on each device, by UUID, and frees it again: the driver's figure of
    /// free memory is not always available to one process.
    ///
    /// # Errors
    /// If the memory is short on a device. A test that could not be made is no error.
    fn try_room(&mut self, devices: &[(String, u64)]) -> Result<(), CallError>;

    /// Whether the agent has granted the task all memory that its processes count. Other tasks may
    /// use their grants at any time, so free memory alone is no room. Without a ledger there are no
    /// grants, and a damaged one permits the restore.
    fn is_granted(&mut self) -> bool;

    /// Copies it back, each device's memory to the other device of its pair. Without pairs, the
    /// devices stay the same.
    fn restore(
        &mut self,
        process: &ResidentProcess,
        pairs: &[(String, String)],
    ) -> Result<(), CallError>;

    /// Lets a locked process go on.
    fn unlock(&mut self, process: &ResidentProcess) -> Result<(), CallError>;

    fn facts(&mut self, pid: u32) -> Facts;

    /// Bytes of host memory that these processes can still use.
    fn host_memory(&mut self, pids: &[u32]) -> u64;

    /// Continues a stopped process: the driver's calls would wait for ever.
    fn awaken(&mut self, pid: u32);

    /// The gate, if the job has one at which these processes wait.
    fn gate(&mut self, processes: &[ResidentProcess]) -> Option<Gate>;

    /// Closes the gate and waits until no process synchronises. For processes that run on, all GPU
    /// calls wait at it.
    ///
    /// # Errors
    /// If that takes too long, or a process that runs on uses its GPU.
    fn close_gate(&mut self) -> Result<(), String>;

    /// Notes for the gate that all processes are checkpointed.
    fn emptied(&mut self);

    fn open_gate(&mut self);

    /// Whether the ledger, if there is one, can note a move.
    fn can_note_devices(&mut self) -> bool;

    /// Notes in the ledger that the task is on these devices, by slot: processes that start later
    /// use them.
    fn note_devices(&mut self, devices: &[String]);

    /// Stops all processes of the task; `false` if that took too long.
    fn freeze(&mut self) -> bool;

    /// Lets all processes of the task go on; returns once they do.
    fn thaw(&mut self);

    /// Reports the processes of the plan, before the first is locked.
    fn found(&mut self, processes: &[ResidentProcess]);

    /// Reports why a restore waits.
    fn waits(&mut self, why: &str);

    /// Reports that GPU memory will be restored; returns once that is noted.
    fn restores(&mut self);

    /// Whether this version of the driver moves memory to other devices, as an earlier restore
    /// showed; `None` if there was none.
    fn moves(&mut self, driver: &str) -> Option<bool>;

    /// Notes whether this version of the driver moves memory.
    fn note_moves(&mut self, driver: &str, it_does: bool);

    /// Waits before the next look.
    fn wait(&mut self, time: Duration);
}
