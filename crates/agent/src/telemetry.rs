//! The thread that reads the telemetry for the server, once a second. A message without news shows
//! that the agent is there.

use std::collections::BTreeMap;
use std::io;
use std::sync::PoisonError;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use gpool_model::agent::LiveUsage;
use gpool_model::device::{DeviceSample, Lending};
use gpool_model::id::{DeviceUuid, TaskId};
use gpool_model::unit::{Bytes, Millis};
use gpool_protocol::Telemetry;
use gpool_sys::cgroup::Site;

use crate::assignments::Owners;
use crate::devices::Samples;
use crate::input::{InputSender, ThreadInput};
use crate::shared_facts::SharedFacts;
use gpool_shepherd::layout::claim_name;

/// Between two messages.
const PERIOD: Duration = Duration::from_secs(1);
/// Tasks in one message with their use, in turn: reading takes some 50 µs each.
const TASKS_AT_ONCE: usize = 32;

/// The sources of telemetry, and the agent's thread that gets it.
pub(crate) struct TelemetrySource {
    pub samples: Samples,
    pub facts: SharedFacts,
    pub site: Site,
    /// The running tasks, by shepherd.
    pub owners: Owners,
    pub inputs: InputSender,
}

/// The values that were last sent.
#[derive(Default)]
struct Sent {
    samples: BTreeMap<DeviceUuid, DeviceSample>,
    lending: BTreeMap<DeviceUuid, Lending>,
    /// The last task that was read.
    task: Option<TaskId>,
}

/// Starts the thread. It sends at once for each request, and ends when no more can come.
pub(crate) fn start(source: TelemetrySource, requests: Receiver<()>) -> io::Result<()> {
    let push = move || {
        let mut sent = Sent::default();
        while requests.recv_timeout(PERIOD) != Err(RecvTimeoutError::Disconnected) {
            source.inputs.send(ThreadInput::Telemetry(source.read(&mut sent)));
        }
    };
    std::thread::Builder::new().name("telemetry".into()).spawn(push)?;
    Ok(())
}

impl TelemetrySource {
    /// Reads the changes since `sent`, and notes them there.
    fn read(&self, sent: &mut Sent) -> Telemetry {
        let mut telemetry = Telemetry::default();
        let samples = self.samples.lock().unwrap_or_else(PoisonError::into_inner);
        for (device, sample) in &*samples {
            if sent.samples.get(device) != Some(sample) {
                sent.samples.insert(device.clone(), sample.clone());
                telemetry.samples.insert(device.clone(), sample.clone());
            }
        }
        drop(samples);
        let lending = self.facts.lending();
        if lending != sent.lending {
            sent.lending.clone_from(&lending);
            telemetry.lending = Some(lending);
        }
        let tasks = self.next_tasks(sent.task);
        sent.task = tasks.last().copied();
        telemetry.usage = tasks.into_iter().map(|task| (task, self.usage(task))).collect();
        telemetry
    }

    fn next_tasks(&self, last: Option<TaskId>) -> Vec<TaskId> {
        let owners = self.owners.lock().unwrap_or_else(PoisonError::into_inner);
        let mut all: Vec<TaskId> = owners.values().map(|given| given.task).collect();
        drop(owners);
        all.sort_unstable();
        let first = last.map_or(0, |last| all.partition_point(|task| *task <= last));
        let n = all.len();
        all.rotate_left(if first == n { 0 } else { first });
        all.truncate(TASKS_AT_ONCE);
        all
    }

    /// What a task has used so far, from the files of the kernel.
    fn usage(&self, task: TaskId) -> LiveUsage {
        let used = self.site.existing(&claim_name(task)).usage();
        let cpu = used.user_ms.zip(used.system_ms).map(|(user, system)| Millis::new(user + system));
        LiveUsage {
            cpu,
            memory: used.memory.map(Bytes::new),
            memory_peak: used.memory_peak.map(Bytes::new),
            read: used.read_bytes.map(Bytes::new),
            written: used.written_bytes.map(Bytes::new),
        }
    }
}
