//! The devices of a node: the NVIDIA driver or simulated devices behind one trait, polled with
//! deadlines so that a hung driver call blocks nothing else. Also finds the processes on a device
//! that belong to no job, and decides how often to poll. It allocates no devices and ends no
//! processes.

#![forbid(unsafe_code)]

pub mod cadence;
pub mod choice;
mod choice_error;
mod idle;
mod meter;
pub mod monitor;
mod nvml;
mod observation;
mod process;
mod share;
mod sim;
mod sim_load;
pub mod source;
mod text;
pub mod unmanaged;
mod worker;

pub use cadence::{Cadence, PollRequest, Schedule};
pub use choice::{DevicesArg, NodeArg, NodeDevices, NodesArg, Opened};
pub use choice_error::ChoiceError;
pub use idle::{Activity, IdleWatch, is_busy};
pub use meter::{Meter, Use};
pub use monitor::Monitor;
pub use nvml::{NoDriver, NvmlSource};
pub use observation::Observation;
pub use share::overshoots;
pub use sim::{
    Breakage, ControlError, Follows, Query, SimControl, SimDevice, SimProcess, SimSource,
};
pub use sim_load::{SimLoad, Stated, VARIABLE as LOAD_VARIABLE};
pub use source::{
    DeviceSource, Inventory, Libraries, Outline, Pausing, ProcessActivity, RawProcess, Silent,
    SourceError,
};
pub use unmanaged::{Belongs, Ignore, Sorted, UnmanagedGrace, sort_processes};

/// Internals for the tests of this crate, in `tests/it`.
#[doc(hidden)]
pub mod testing {
    pub use crate::nvml::card::{host_memory, numa_of};
    pub use crate::nvml::health::judge;
    pub use crate::nvml::links::bus_key;
    pub use crate::nvml::mig::nodes_in;
    pub use crate::process::{Identity, Lookup};
    pub use crate::worker::{PendingAnswer, Worker};
}
