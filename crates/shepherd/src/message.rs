//! The messages between agent and shepherd: lines of JSON. After the agent's first message come the
//! bytes that it announces.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use gpool_checkpoint::{Deadlines, Drivers};
use gpool_model::agent::{TaskEnd, TaskOrder, Terms};
use gpool_model::attach::{NotOpened, Opening};
use gpool_model::id::{DeviceUuid, Generation, TaskId};
use gpool_model::job::OutputCut;
use gpool_model::unit::{Bytes, Millis, Timestamp};
use gpool_model::{ArrayValues, SignalTo, placeholder};
use gpool_sys::cgroup::Site;
use gpool_sys::device_filter::DeviceFilter;
use serde::{Deserialize, Serialize};

use crate::container::TaskEngine;

/// The first message to a shepherd.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Launch {
    /// The task to run, with the devices that it uses.
    pub order: TaskOrder,
    /// The devices that the server booked for it, by slot.
    #[serde(default)]
    pub booked: Vec<DeviceUuid>,
    pub state_dir: PathBuf,
    /// The place for control groups.
    pub site: Site,
    /// The devices that the task can open; `None` is no limit.
    #[serde(default)]
    pub devices: Option<DeviceFilter>,
    /// Most processes and threads of the task.
    pub pids_max: Option<u32>,
    /// Size at which gpool's own output files are cut.
    pub output_limit: Bytes,
    /// Whether the task is stopped when its output is dropped.
    #[serde(default)]
    pub stop_on_cut: bool,
    /// The socket of the API, for the job's environment.
    pub api: Option<String>,
    /// The job's trace, for its environment.
    #[serde(default)]
    pub trace: Option<String>,
    /// The task's memory on its smallest device.
    pub gpu_memory: Option<GpuMemory>,
    /// The task's memory on each of its devices.
    #[serde(default)]
    pub memory: Vec<DeviceMemory>,
    /// The cap of the task's device memory.
    #[serde(default)]
    pub cap: Option<Cap>,
    /// How to pause the task's GPU work; `None` if stopping its processes is enough.
    #[serde(default)]
    pub pausing: Option<Checkpoints>,
    /// What runs the task's container, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub engine: Option<TaskEngine>,
    /// The item and parameters of an array element.
    #[serde(default)]
    pub element: Option<Element>,
    /// Length of the launch context that follows.
    pub context_bytes: usize,
    /// Length of the script that follows after it.
    pub script_bytes: Option<usize>,
    /// The names of the secrets that follow after the script, and their lengths.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub secrets: Vec<(String, usize)>,
    /// When the shepherd ends the task unless the lease is renewed, in milliseconds since the
    /// machine was booted; `None` if the task is not fenced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fence_at: Option<u64>,
}

impl Launch {
    /// Whether the task has a container that its engine limits, and removes by name.
    #[must_use]
    pub fn has_named_container(&self) -> bool {
        let engine = self.engine.as_ref().filter(|_| self.order.spec.container.is_some());
        engine.is_some_and(TaskEngine::limits_by_flags)
    }
}

/// The driver that frees the devices of a paused task by checkpoints.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Checkpoints {
    /// Its libraries.
    pub drivers: Drivers,
    /// Names of programs that do not count as use of a device.
    pub ignored: BTreeSet<String>,
    /// The time limits, if they are not the usual ones.
    pub deadlines: Option<Deadlines>,
    /// The file that records whether the driver moves memory to other devices.
    #[serde(default)]
    pub record: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct GpuMemory {
    /// The guaranteed memory.
    pub request: Bytes,
    /// The most memory that it may use while the device has room.
    pub limit: Bytes,
}

/// The memory of one device that a task may use.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceMemory {
    pub device: DeviceUuid,
    /// The guaranteed memory.
    pub request: Bytes,
    /// The most memory that it may use now.
    pub limit: Bytes,
}

/// The files with which the processes of a task keep to its share. All paths are absolute.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cap {
    /// The folder with the libraries in front of the driver.
    pub shim: PathBuf,
    /// The driver's `libcuda.so.1`.
    pub cuda: PathBuf,
    /// The driver's `libnvidia-ml.so.1`.
    pub nvml: PathBuf,
    /// The folder of the task's ledger.
    pub ledger: PathBuf,
}

/// The values of an array element beside its index.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Element {
    /// Its line or item.
    pub item: Option<String>,
    /// Its parameters with their values, in order.
    pub params: Vec<(String, String)>,
}

impl Element {
    /// The values of the element with this index.
    pub fn of(values: &ArrayValues, index: u32) -> Self {
        let owned = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
        Self {
            item: values.item(index).map(str::to_owned),
            params: values.params(index).into_iter().map(owned).collect(),
        }
    }

    /// Fills in the element's values where a text names them.
    pub fn fill(&self, text: &str) -> String {
        let params = self.params.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        placeholder::fill(text, self.item.as_deref(), &params.collect::<Vec<_>>())
    }

    /// The environment variables for the element's values.
    pub fn variables(&self) -> Vec<(String, Vec<u8>)> {
        let mut variables = Vec::new();
        if let Some(item) = &self.item {
            variables.push(("GPOOL_ITEM".to_owned(), item.clone().into_bytes()));
        }
        if self.params.is_empty() {
            return variables;
        }
        let all: serde_json::Map<String, serde_json::Value> =
            self.params.iter().map(|(name, value)| (name.clone(), value.clone().into())).collect();
        let all = serde_json::Value::Object(all).to_string();
        variables.push(("GPOOL_SWEEP_PARAMS".to_owned(), all.into_bytes()));
        let one = |(name, value): &(String, String)| {
            let name = format!("GPOOL_PARAM_{}", name.to_ascii_uppercase());
            (name, value.clone().into_bytes())
        };
        variables.extend(self.params.iter().map(one));
        variables
    }
}

/// A message from an agent to a shepherd.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToShepherd {
    Stop {
        /// Time between SIGTERM and SIGKILL.
        grace: Millis,
        /// The signal for its process group in place of SIGTERM.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        signal: Option<i32>,
    },
    /// The lease is renewed, for a fenced task.
    Lease {
        /// Its end, in milliseconds since the machine was booted.
        until: u64,
    },
    Change {
        /// The generation of the order: the latest takes effect.
        generation: Generation,
        terms: Terms,
    },
    /// Stop the task's processes.
    Pause {
        /// The generation of the order: the latest takes effect.
        generation: Generation,
        /// Whether its processes run on: only its devices are freed.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        runs_on: bool,
    },
    /// Let the task's processes go on.
    Resume {
        generation: Generation,
        /// Its devices from now on, by slot.
        #[serde(default)]
        devices: Vec<DeviceUuid>,
        /// Those that are booked for it; none if that did not change.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        booked: Vec<DeviceUuid>,
    },
    /// Whether the devices are free that the job was asked to free itself.
    Vacated {
        /// The generation of the request.
        generation: Generation,
        /// A process of the job that is still on one of them, for people.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        user: Option<String>,
    },
    /// Leave the task's devices, to go to others.
    Detach,
    /// Come to these devices, by slot.
    Attach { devices: Vec<DeviceUuid> },
    /// Tell the task how much device memory it may use.
    Memory { devices: Vec<DeviceMemory> },
    /// Pause the task, if its user allows that, because it keeps memory that was called back.
    Vacate,
    /// Let a task that vacated its devices come back to them.
    Return,
    /// End the task, because it keeps memory that was called back.
    Reclaim {
        /// Time between SIGTERM and SIGKILL.
        grace: Millis,
    },
    /// Send the task's processes a signal.
    Signal {
        signal: i32,
        #[serde(default)]
        to: SignalTo,
    },
    /// The task's end is durable.
    Acknowledge,
    /// Open a stream to the task, over a new connection to this agent.
    Open {
        /// The number of the stream.
        line: u64,
        opening: Opening,
    },
}

/// A message from a shepherd to an agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FromShepherd {
    /// The first message to an agent that did not start this shepherd.
    Hello {
        task: TaskId,
        /// Whether the task's memory is off its devices, or still being restored. A later message
        /// says what becomes of it. None from shepherds that do not say it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        is_off: Option<bool>,
    },
    /// The only message on a requested stream; the bytes after it are the stream's.
    Line {
        task: TaskId,
        /// The number of the stream.
        line: u64,
        /// Why the stream could not be opened.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        not_opened: Option<NotOpened>,
    },
    /// Another process has claimed the task; this shepherd does nothing and ends.
    AlreadyClaimed,
    Started {
        pid: u32,
        at: Timestamp,
    },
    /// The terms of this generation are noted in the claim and apply.
    Changed {
        generation: Generation,
    },
    /// The task's processes are stopped, and that is noted in the claim.
    Paused {
        generation: Generation,
    },
    /// The job says that it freed its devices itself: the agent checks it.
    Released {
        /// The generation of the request.
        generation: Generation,
    },
    Resumed {
        generation: Generation,
    },
    /// The task could not be paused, and goes on.
    NotPaused {
        generation: Generation,
        #[serde(default)]
        why: String,
        /// Whether it leaves its devices for the node or comes to others, and so was not paused.
        #[serde(default)]
        is_between: bool,
    },
    /// The task could not resume on other devices, and is paused; that is noted in the claim.
    NotMoved {
        generation: Generation,
        why: String,
        /// The devices on which it can resume, by slot.
        devices: Vec<DeviceUuid>,
    },
    /// Output of the task is dropped.
    OutputCut {
        cut: OutputCut,
        /// Whether the task is stopped for it.
        is_stopped: bool,
    },
    /// The task should go on and can't be restored yet.
    Waits {
        /// What it waits for, for people.
        why: String,
    },
    /// The task is paused, because it kept memory that was called back.
    Vacated,
    /// It could not be paused for that.
    NotVacated {
        why: String,
    },
    /// A task that vacated its devices is back on them.
    Returned,
    /// The task left its devices, or could not.
    Detached {
        is_done: bool,
        /// Why it did not, for people.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        why: Option<String>,
    },
    /// The task is on these devices.
    Attached {
        /// The devices, by slot.
        devices: Vec<DeviceUuid>,
    },
    /// The task could not come to other devices, and uses none.
    NotAttached {
        /// The devices that it had before.
        left: Vec<DeviceUuid>,
        /// Why it could not, for people.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        why: Option<String>,
    },
    /// The program reported these metrics: the last value of each since the last message.
    Metrics {
        /// By name.
        values: BTreeMap<String, f64>,
    },
    /// The program says whether a person works with it.
    Busy {
        is_busy: bool,
    },
    /// The task has ended: no process of it is left, and its output is written.
    Ended {
        end: TaskEnd,
    },
}

/// Encodes a message for the socket.
pub fn line(message: &impl Serialize) -> Vec<u8> {
    let mut line = serde_json::to_vec(message).expect("messages have string keys only");
    line.push(b'\n');
    line
}

/// Takes the complete lines from the front of the input; skips invalid lines.
pub fn take_lines<T: for<'de> Deserialize<'de>>(input: &mut Vec<u8>) -> Vec<T> {
    let Some(end) = input.iter().rposition(|byte| *byte == b'\n') else { return Vec::new() };
    let rest = input.split_off(end + 1);
    let complete = std::mem::replace(input, rest);
    complete
        .split_inclusive(|byte| *byte == b'\n')
        .filter_map(|line| serde_json::from_slice(line).ok())
        .collect()
}
