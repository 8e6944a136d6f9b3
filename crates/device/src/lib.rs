//! Where devices come from and what is known of them: the NVIDIA driver or simulated ones behind
//! one trait, asked with deadlines so that a hung driver call stops nothing else; which processes
//! on a device are nobody's job; and how often to ask. It gives out nothing and ends nothing.

#![forbid(unsafe_code)]

pub mod cadence;
pub mod choice;
mod choice_error;
pub mod monitor;
mod nvml;
mod process;
mod share;
mod sim;
pub mod source;
mod text;
pub mod unmanaged;
mod worker;

pub use cadence::{Cadence, Schedule, Wanted};
pub use choice::{DevicesArg, NodeArg, NodeDevices, NodesArg, Opened};
pub use choice_error::ChoiceError;
pub use monitor::{Monitor, Observation};
pub use nvml::{NoDriver, NvmlSource};
pub use share::overshoots;
pub use sim::{Breakage, ControlError, Query, SimControl, SimDevice, SimProcess, SimSource};
pub use source::{DeviceSource, Inventory, Outline, RawProcess, Silent, SourceError};
pub use unmanaged::{Belongs, Ignore, Sorted, UnmanagedGrace, sort_processes};
