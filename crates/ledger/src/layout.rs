//! The files and messages that the agent and the shim share. The shim compiles this file too, so
//! it uses only `core`.
//!
//! Each word has one side that writes it. The agent writes `grants`, which a job may only read.
//! The processes of the job write `usage`: each its own slot, so a process that is killed at any
//! instruction leaves nothing wrong but its own slot, and the agent clears that. There is no sum of
//! all slots: it could differ from them.

use core::sync::atomic::{AtomicU32, AtomicU64};

/// The file with limits and gate, in the folder of a ledger.
pub const GRANTS_FILE: &str = "grants";
/// The file with the memory of each process.
pub const USAGE_FILE: &str = "usage";
/// The socket at which the agent answers questions.
pub const SOCKET_FILE: &str = "socket";

/// The longest path of a folder, in bytes: the path of a socket has at most 108, with its zero.
pub const FOLDER_MAX: usize = 108 - "/socket".len() - 1;

/// Names the folder of the ledger to the processes of a job.
pub const FOLDER_VARIABLE: &str = "GPOOL_LEDGER";
/// Names the driver's library by an absolute path.
pub const DRIVER_VARIABLE: &str = "GPOOL_LIBCUDA";
/// Names the driver's NVML library by an absolute path.
pub const NVML_VARIABLE: &str = "GPOOL_LIBNVML";

/// Marks a complete `grants` file. The agent writes it last.
pub const GRANTS_MAGIC: u64 = u64::from_le_bytes(*b"gpGRANTS");
/// Marks a complete `usage` file.
pub const USAGE_MAGIC: u64 = u64::from_le_bytes(*b"gpoolUSE");
pub const MESSAGE_MAGIC: u32 = u32::from_le_bytes(*b"gpQ1");
/// The version of both files. A shim ignores files of another version.
pub const VERSION: u32 = 1;

/// The most devices of a job on a node.
pub const DEVICES_MAX: usize = 16;
/// The most processes of a job that use CUDA at the same time.
pub const SLOTS_MAX: usize = 128;

/// A bit of [`Grants::gate`]: synchronisations and queries wait.
pub const GATE_PAUSING: u32 = 1;
/// A bit of [`Grants::gate`]: the devices are released, and all work waits.
pub const GATE_RELEASED: u32 = 2;
/// A bit of [`Grants::gate`], beside one of the others: the driver has checkpointed all processes,
/// so all of their work on the devices has ended, and queries succeed.
pub const GATE_EMPTY: u32 = 4;

/// A bit of [`Slot::flags`]: memory was exported to or imported from another process.
pub const FLAG_SHARED_MEMORY: u32 = 1;
/// A bit of [`Slot::flags`]: the process has managed memory.
pub const FLAG_MANAGED_MEMORY: u32 = 2;
/// A bit of [`UsageFile::flags`]: a process found no free slot, so its calls can't be paused.
pub const FLAG_NO_SLOT: u32 = 1;

/// The file `grants`.
#[repr(C, align(64))]
pub struct Grants {
    /// [`GRANTS_MAGIC`].
    pub magic: AtomicU64,
    /// [`VERSION`].
    pub version: AtomicU32,
    pub n_devices: AtomicU32,
    /// `GATE_…` bits. Processes wait for a change with a futex.
    pub gate: AtomicU32,
    /// The longest time to wait for an answer of the agent, in milliseconds.
    pub answer_ms: AtomicU32,
    /// The longest time to wait for guaranteed memory, also without agent, in milliseconds. 0 is
    /// not to wait without agent.
    pub owed_ms: AtomicU32,
    /// Number of devices without limits, which only have a name. They follow the others.
    pub n_unlimited: AtomicU32,
    pub devices: [Device; DEVICES_MAX],
}

/// The limits of a job on a device, in bytes.
#[repr(C, align(64))]
pub struct Device {
    /// The device, by its UUID as two little-endian words.
    pub uuid: [AtomicU64; 2],
    /// Guaranteed to the job.
    pub request: AtomicU64,
    /// The ceiling, which the job sees as the size of the device.
    pub limit: AtomicU64,
    /// The processes may use this without asking. Below the request while memory of it is lent.
    pub granted: AtomicU64,
    /// Charged for the first context of each process.
    pub context: AtomicU64,
    /// The UUID in the environment of the job: that of its first device. A restore can move the job
    /// to another, and processes that start later inherit this name. Zero in ledgers of versions
    /// without it.
    pub named: [AtomicU64; 2],
}

#[repr(C, align(64))]
pub struct UsageFile {
    /// [`USAGE_MAGIC`].
    pub magic: AtomicU64,
    /// [`VERSION`].
    pub version: AtomicU32,
    /// No slot from this one on was ever used.
    pub n_slots: AtomicU32,
    /// `FLAG_NO_SLOT`.
    pub flags: AtomicU32,
    /// The processes.
    pub slots: [Slot; SLOTS_MAX],
}

/// The memory of one process.
#[repr(C, align(64))]
pub struct Slot {
    /// The process ([`identity`]); 0 if the slot is free.
    pub identity: AtomicU64,
    /// `FLAG_…` bits.
    pub flags: AtomicU32,
    /// Synchronisations and queries that run. The driver may not lock the process meanwhile.
    pub in_flight: AtomicU32,
    /// Threads that wait at the gate.
    pub waiting: AtomicU32,
    /// Bytes by the device's index in [`Grants::devices`].
    pub used: [AtomicU64; DEVICES_MAX],
}

/// Bits of an identity for the start time; the others are the process ID, at most 2^22.
const START_BITS: u32 = 42;

/// A process by its ID and its start time in clock ticks since boot, in one word, so that a slot is
/// claimed by one instruction.
#[must_use]
pub const fn identity(pid: u32, start: u64) -> u64 {
    ((pid as u64) << START_BITS) | (start & ((1 << START_BITS) - 1))
}

/// Process ID and start time of an identity.
#[must_use]
pub const fn parts(identity: u64) -> (u32, u64) {
    // The shift leaves 22 bits.
    #[allow(clippy::cast_possible_truncation)]
    let pid = (identity >> START_BITS) as u32;
    (pid, identity & ((1 << START_BITS) - 1))
}

/// [`Ask::kind`]: the job needs `bytes` more on `device`.
pub const ASK_MEMORY: u32 = 1;
/// [`Ask::kind`]: the job needs its released devices.
pub const ASK_RETURN: u32 = 2;

/// A question to the agent.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Ask {
    /// [`MESSAGE_MAGIC`].
    pub magic: u32,
    /// `ASK_…`.
    pub kind: u32,
    /// Index in [`Grants::devices`].
    pub device: u32,
    /// Milliseconds that the process has waited already, for an earlier agent.
    pub waited_ms: u32,
    pub bytes: u64,
}

/// [`Reply::kind`]: no.
pub const REPLY_NO: u32 = 0;
/// [`Reply::kind`]: the grant was raised; try again.
pub const REPLY_YES: u32 = 1;
/// [`Reply::kind`]: another reply follows within `ms`.
pub const REPLY_WAIT: u32 = 2;

/// An answer of the agent.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Reply {
    /// [`MESSAGE_MAGIC`].
    pub magic: u32,
    /// `REPLY_…`.
    pub kind: u32,
    /// Milliseconds, for [`REPLY_WAIT`].
    pub ms: u32,
    /// Zero.
    pub reserved: u32,
}
