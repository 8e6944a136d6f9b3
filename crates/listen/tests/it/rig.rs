//! A whole server with a store in a temporary folder, an agent that pretends, and a socket for
//! each user that a test needs.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use gpool_client::Client;
use gpool_listen::testing::{NODE, Patience, Server, Work, now};
use gpool_model::agent::{Order, Report, Stamp, TaskEnd, TaskIs, TaskReport};
use gpool_model::device::{DeviceDetail, DeviceSample};
use gpool_model::job::{ExitStatus, GpuUsage, Usage};
use gpool_model::node::NodeFacts;
use gpool_model::unit::{Bytes, MilliCpu, Millis};
use gpool_model::{Caller, Device, DeviceUuid, NodeName, Owner, Resources, TaskId, Timestamp};
use gpool_server::{Limits, Telemetry, View};
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::oneshot;

/// The user that runs the server, and two others.
pub const OWNER: u32 = 1000;
pub const ANA: u32 = 1001;
pub const BO: u32 = 1002;

pub struct Rig {
    pub folder: tempfile::TempDir,
    // Ends before the runtime, whose tasks have its handle.
    server: Server,
    runtime: tokio::runtime::Runtime,
    ends: Vec<(oneshot::Sender<()>, tokio::task::JoinHandle<()>)>,
}

impl Rig {
    pub fn new() -> Self {
        Self::with(Limits::default())
    }

    pub fn with(limits: Limits) -> Self {
        Self::with_telemetry(limits, Telemetry::default())
    }

    pub fn with_telemetry(limits: Limits, telemetry: Telemetry) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let pretend = Box::new(pretend);
        let server = Server::start(folder.path(), limits, pretend, samples, telemetry).unwrap();
        server.report(inventory());
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap();
        let mut rig = Self { folder, server, runtime, ends: Vec::new() };
        rig.until_connected();
        rig.runtime.spawn(rig.server.forecasts());
        rig.runtime.block_on(rig.server.complete_start());
        rig
    }

    /// Waits until the agent has described its node.
    fn until_connected(&self) {
        self.until("the node is connected", || {
            let name = NodeName::new(NODE);
            let connected =
                move |view: &View<'_>| view.world.node(&name).is_some_and(|row| row.node.connected);
            self.runtime.block_on(self.server.handle().query(connected)).unwrap()
        });
    }

    /// A socket on which every client is that user.
    pub fn socket(&mut self, uid: u32) -> PathBuf {
        self.patient_socket(uid, Patience::default())
    }

    pub fn patient_socket(&mut self, uid: u32, patience: Patience) -> PathBuf {
        let path = self.folder.path().join(format!("{uid}-{}.sock", self.ends.len()));
        let _guard = self.runtime.enter();
        let listener = UnixListener::bind(&path).unwrap();
        let owner = Owner { uid, gid: uid, user: Arc::from(user_name(uid)) };
        let user = (Caller::new(owner, uid == OWNER), format!("/home/{}", user_name(uid)));
        let (end, ended) = oneshot::channel();
        let serving = self.server.serve(listener, user, patience, async {
            drop(ended.await);
        });
        let serving = self.runtime.spawn(serving);
        self.ends.push((end, serving));
        path
    }

    pub fn client(&mut self, uid: u32) -> Client {
        Client::at(&self.socket(uid)).with_timeout(Some(Duration::from_secs(20)))
    }

    /// Listens on a loopback address as on the network; returns its port.
    pub fn network(&mut self) -> u16 {
        self.network_of(Patience::default(), |uid| {
            let owner = Owner { uid, gid: uid, user: Arc::from(user_name(uid)) };
            Caller::new(owner, uid == OWNER)
        })
    }

    /// The same with other accounts: the caller of each user.
    pub fn network_of(
        &mut self,
        patience: Patience,
        caller: impl Fn(u32) -> Caller + Send + Sync + 'static,
    ) -> u16 {
        let path = self.folder.path().join("beside-the-network.sock");
        let _guard = self.runtime.enter();
        let local = UnixListener::bind(path).unwrap();
        let listener = self.runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let port = listener.local_addr().unwrap().port();
        let user = move |uid: u32| (caller(uid), format!("/home/{}", user_name(uid)));
        let (end, ended) = oneshot::channel();
        let serving = self.server.serve_network((local, listener), user, patience, async {
            drop(ended.await);
        });
        let serving = self.runtime.spawn(serving);
        self.ends.push((end, serving));
        port
    }

    /// Ends all listeners, as the server does when it stops.
    pub fn stop_serving(&mut self) {
        for (end, serving) in self.ends.drain(..) {
            drop(end);
            self.runtime.block_on(serving).unwrap();
        }
    }

    /// Where the pretending agent's jobs would write.
    pub fn log(&self, id: &str, stream: &str) -> PathBuf {
        let folder = self.folder.path().join("state/jobs").join(id).join("1");
        std::fs::create_dir_all(&folder).unwrap();
        folder.join(stream)
    }

    /// Removes the output of all jobs that have ended, and says of how many.
    pub fn remove_output(&self) -> u64 {
        self.runtime.block_on(self.server.remove_output()).unwrap()
    }

    /// Removes environments that were last used longer ago than `keep`; returns their number.
    pub fn remove_environments(&self, keep: Duration) -> usize {
        self.runtime.block_on(self.server.remove_environments(keep)).unwrap()
    }

    /// Compares the cost of this month with the budgets.
    pub fn compare_budgets(&self) {
        self.runtime.block_on(self.server.compare_budgets()).unwrap();
    }

    /// Sends the digests of weeks that ended before a time.
    pub fn report_digests(&self, now: Timestamp) {
        self.runtime.block_on(self.server.report_digests(now)).unwrap();
    }

    /// Reads on behalf of a user.
    pub fn push_read(&self, uid: u32, work: Work) {
        self.server.push_read(uid, work);
    }

    pub fn until(&self, what: &str, mut is: impl FnMut() -> bool) {
        let deadline = Instant::now() + Duration::from_secs(20);
        while !is() {
            assert!(Instant::now() < deadline, "it never came about that {what}");
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        self.stop_serving();
    }
}

/// The user that these tests run as, the owner of the files below the state folder.
pub fn me() -> u32 {
    rustix::process::geteuid().as_raw()
}

pub fn user_name(uid: u32) -> &'static str {
    match uid {
        OWNER => "olga",
        ANA => "ana",
        _ => "bo",
    }
}

/// What a raw request is answered: status, headers in lower case, body.
pub fn raw(socket: &Path, request: &str) -> (u16, String, String) {
    let mut stream = UnixStream::connect(socket).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    // The server may answer and close before it has read all.
    drop(stream.write_all(request.as_bytes()));
    raw_answer(stream)
}

/// Reads an answer to its end: status, headers in lower case, body.
pub fn raw_answer(mut stream: impl Read) -> (u16, String, String) {
    let mut answer = Vec::new();
    // The server may close without a farewell.
    drop(stream.read_to_end(&mut answer));
    let text = String::from_utf8_lossy(&answer).into_owned();
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
    let status = head.split(' ').nth(1).unwrap_or("0").parse().unwrap();
    (status, head.to_lowercase(), body.to_owned())
}

/// A request with a JSON body, as one that ends its connection.
pub fn request(method: &str, path: &str, body: &str) -> String {
    let kind = if body.is_empty() { "" } else { "content-type: application/json\r\n" };
    let length = body.len();
    format!(
        "{method} {path} HTTP/1.1\r\nhost: gpool\r\nconnection: close\r\n{kind}\
         content-length: {length}\r\n\r\n{body}"
    )
}

/// An agent that starts tasks on order, ends `true` at once and other tasks on order.
fn pretend(order: Order, report: &dyn Fn(Report)) {
    let ended = |exit, stopped| {
        TaskIs::Ended(TaskEnd {
            started_at: Some(now()),
            ended_at: now(),
            exit: Some(exit),
            cause: None,
            stopped,
            usage: Usage::default(),
            steps: gpool_model::Rare::default(),
        })
    };
    match order {
        Order::Sync { term, round, .. } => {
            let stamp = Stamp::default();
            report(Report::Tasks { stamp, term, round, tasks: Vec::new() });
        }
        Order::Run(run) => {
            let task = run.task();
            let generation = run.generation;
            let tell = |is| report(Report::Task(TaskReport { task, generation, is }));
            let program = run.spec.command.first().map_or("", String::as_str);
            if program == "waste" {
                return tell(wasted());
            }
            tell(TaskIs::Running { pid: 1, started_at: now() });
            if program == "true" {
                tell(ended(ExitStatus::Code(0), false));
            }
        }
        Order::Stop { task, generation, .. } => {
            let is = ended(ExitStatus::Signal(15), true);
            report(Report::Task(TaskReport { task, generation, is }));
        }
        Order::Change { task, .. }
        | Order::Signal { task, .. }
        | Order::Pause { task, .. }
        | Order::Resume { task, .. }
        | Order::Acknowledge { task, .. } => {
            let _: TaskId = task;
        }
    }
}

/// The end of a task that failed after two hours, and used a fifth of its GPU.
fn wasted() -> TaskIs {
    let started_at = Timestamp::new(now().get() - 2 * 3_600_000);
    let gpu = GpuUsage {
        memory_peak: Bytes::from_gib(4),
        memory_limit: Bytes::from_gib(80),
        busy: Millis::from_mins(24),
        measured: Millis::from_mins(120),
    };
    TaskIs::Ended(TaskEnd {
        started_at: Some(started_at),
        ended_at: now(),
        exit: Some(ExitStatus::Code(3)),
        cause: None,
        stopped: false,
        usage: Usage { gpu: Some(gpu), ..Usage::default() },
        steps: gpool_model::Rare::default(),
    })
}

fn inventory() -> Report {
    Report::Inventory {
        stamp: Stamp::default(),
        capacity: Resources::none()
            .with_cpus(MilliCpu::from_cores(8))
            .with_memory(Bytes::from_gib(64))
            .with_tasks(64),
        devices: (0..2).map(device).collect(),
        boot_id: "boot".to_owned(),
        facts: Box::new(NodeFacts {
            version: "0.0.0".to_owned(),
            devices_from: "simulated".to_owned(),
            system: "test".to_owned(),
            ..NodeFacts::default()
        }),
    }
}

fn device(index: u32) -> Device {
    Device::new(
        index,
        DeviceUuid::new(format!("GPU-{index}")),
        "NVIDIA A100-SXM4-80GB".to_owned(),
        Bytes::from_gib(80),
    )
}

fn samples() -> BTreeMap<DeviceUuid, DeviceSample> {
    let sample = DeviceSample {
        memory_used: Some(Bytes::from_gib(3)),
        memory_free: Some(Bytes::from_gib(77)),
        utilization_percent: Some(50),
        traffic_percent: None,
        detail: DeviceDetail {
            temperature_c: Some(40),
            power_mw: Some(61_500),
            energy_mj: Some(2_500),
            sm_active_permille: Some(250),
            thermal_capped_ms: Some(1_500),
            ..DeviceDetail::default()
        },
    };
    BTreeMap::from([(DeviceUuid::new("GPU-0"), sample)])
}
