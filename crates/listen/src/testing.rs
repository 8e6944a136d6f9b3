//! A server for tests: its core runs in this process, the test plays the agent of its only node,
//! and each socket has one fixed user. Also functions that the tests call by themselves.

use std::collections::BTreeMap;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak, mpsc};
use std::time::Duration;

use gpool_link::{AgentLink, ServerInbox as _};
use gpool_model::agent::{LiveUsage, Order, Report};
use gpool_model::device::DeviceSample;
use gpool_model::{
    Attempt, Bytes, Caller, DeviceUuid, Incarnation, JobId, Millis, NodeName, Policy, TaskId,
    Timestamp,
};
use gpool_output::JobFiles;
use gpool_protocol::recent::{DevicePoint, TaskMetric};
use gpool_protocol::{Answer, Hello, Launched, Question, ToAgent, ToServer, VERSION};
use gpool_store::{Committer, Store, StoreOptions};
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::{broadcast, watch};

use super::accept::serve_as;
use gpool_api::asker::{Asker, Peer};
use gpool_identity::Identities;
use gpool_identity::nodes::NodeAdmissions;
use gpool_identity::secrets::Secrets;
use gpool_identity::tls::{NetworkConfig, Tls};
use gpool_identity::web::Web;
use gpool_insight::Insight;
use gpool_insight::forecaster::Forecaster;
use gpool_insight::lives::Lives;
use gpool_insight::lives::settings::Telemetry;
use gpool_post::{NotifySettings, Post};
use gpool_server::agents::{AgentConnection, AgentPeer, Agents};
use gpool_server::core::Core;
use gpool_server::evictions::Evictions;
use gpool_server::feed::Feed;
use gpool_server::files::FileStore;
use gpool_server::handle::{
    CoreHandle, ServerInfo, Settings, Shared, StartFindings, StopRequest, Storage,
};
use gpool_server::input::{CoreMessage, pass_commits, pass_deliveries};
use gpool_server::launch_files::LaunchFiles;
use gpool_server::limits::Limits;
use gpool_server::listen::Others;
use gpool_server::recovery::PriorState;

pub use super::agent::messages::{ConnectionEnd, carry};
pub use gpool_api::asker::{LIMITS, Limit, limits_of, parse_limits};
pub use gpool_api::connections::Patience;
pub use gpool_api::device_list::devices_of;
pub use gpool_api::reservations::{target_word, targets_of};
pub use gpool_api::usage_history::without_gaps;
pub use gpool_identity::access::{
    Access, CreateError, FILE, Provided, Subject, TOKENS_MAX, TokenRow,
};
pub use gpool_identity::audit::{
    Audit, AuditFilter, AuditKind, Broken, ENTRY_MAX, FILE_MAX, FILES_MAX, FOLDER as AUDIT_FOLDER,
    verify,
};
pub use gpool_identity::pool::{Active, Places, Pool, Rates, RequestSource};
pub use gpool_identity::sign_in::waiting::PendingSignIns;
pub use gpool_identity::tls::Authority;
pub use gpool_identity::web::connected::users;
pub use gpool_insight::history::ran;
pub use gpool_insight::otherwise::{FORMS, Supposed, added, read};
pub use gpool_post::{Guarded, KEY_FILE, Keys};
pub use gpool_server::alert::{KEPT_MOST, dump};
pub use gpool_server::clock::now;
pub use gpool_server::live::{Live, Pulse, of};
pub use gpool_server::reads::{ReadQueueState, Reads, Work};
pub use gpool_server::run::{STOP_PATIENCE, within};

pub const NODE: &str = "lab1";

/// The agent of the node: gets each order, and answers with reports.
pub type OnOrder = Box<dyn Fn(Order, &dyn Fn(Report)) + Send>;

/// The samples of the node's devices.
pub type Samples = fn() -> BTreeMap<DeviceUuid, DeviceSample>;

/// A running server. It ends when it is dropped.
pub struct Server {
    handle: CoreHandle,
    inputs: mpsc::Sender<CoreMessage>,
    core: Option<std::thread::JoinHandle<()>>,
    found: Option<PriorState>,
}

/// The users of the tests, and every number.
fn find_user(name: &str) -> Option<(u32, String)> {
    let known = [("olga", 1000), ("ana", 1001), ("bo", 1002)];
    let known = known.into_iter().find(|(user, _)| *user == name);
    let uid = known.map_or_else(|| name.parse().ok(), |(_, uid)| Some(uid));
    Some((uid?, name.to_owned()))
}

/// The first message of the agent.
fn hello(node: NodeName) -> ToServer {
    let incarnation = Incarnation::new("test");
    ToServer::Hello(Hello { version: VERSION, release: String::new(), node, incarnation })
}

impl Server {
    /// Starts a server with its state below a folder. It takes jobs of every user.
    pub fn start(
        folder: &Path,
        limits: Limits,
        on_order: OnOrder,
        samples: Samples,
        telemetry: Telemetry,
    ) -> anyhow::Result<Self> {
        let state_dir = folder.join("state");
        let (store, loaded) = Store::open(&state_dir, &StoreOptions::default())?;
        let (presence, room) = (store.presence(), store.room());
        let blobs = Arc::new(store.blobs()?);
        let folders = Arc::new(FileStore::open(&state_dir, &limits)?);
        let (inputs, inbox) = mpsc::channel();
        let lives = Lives::new(&telemetry)?;
        let committer = Committer::spawn(store, lives.before(pass_commits(inputs.clone())))?;
        let info = info(folder, state_dir);
        let node = NodeName::new(NODE);
        let identities = identities(folder)?;
        let secrets = identities.secrets.clone();
        let stored = LaunchFiles { blobs: blobs.clone(), secrets, folders: folders.clone() };
        let peer = AgentPeer::new(node.clone(), None, inputs.clone(), stored);
        let (agents, agent) = (Agents::default(), peer.accept());
        agents.add(peer);
        let files = JobFiles::new([info.state_dir.clone()].into());
        let server = Arc::downgrade(&agent);
        agent.open(Arc::new(TestAgent { server, on_order: Mutex::new(on_order), files }));
        agent.message(hello(node));
        let pushed = gpool_protocol::Telemetry { samples: samples(), ..Default::default() };
        agent.message(ToServer::Telemetry(pushed));
        let shared = Arc::new(Shared {
            info,
            settings: Settings {
                limits,
                usual_notify: Vec::new(),
                notify_allow: Vec::new(),
                keep_output: Some(Millis::ZERO),
                keep_environment: gpool_server::environments::KEPT_USUALLY,
                telemetry,
            },
            inputs: inputs.clone(),
            notices: broadcast::Sender::new(4096),
            evictions: Evictions::default(),
            feed: Arc::new(Feed::new(now())),
            storage: Storage { blobs, files: folders, presence, room },
            agents,
            recovery: StartFindings::default(),
            listeners: Arc::default(),
            identities,
            insight: Insight {
                usage: Arc::new(gpool_insight::usage::UsageHistory::new(folder)),
                forecaster: Arc::new(Forecaster::new(folder)),
                lives,
            },
            keys: Arc::new(Keys::open(folder)?),
            lacking: Mutex::default(),
            stop: watch::Sender::new(StopRequest::None),
            pulse: Arc::default(),
            reads: Reads::start()?,
            still: Mutex::default(),
        });
        let (keys, usage) = (Arc::clone(&shared.keys), Arc::clone(&shared.insight.usage));
        let post =
            Post::new(keys, &NotifySettings::default(), usage, pass_deliveries(inputs.clone()));
        let mut core = Core::new(Arc::clone(&shared), committer, post, &loaded, Policy::fair())?;
        let found = PriorState::of(core.world(), &shared.info.state_dir);
        core.set_agents(Box::new(move |_, to, order| agent.peer().order(to, order)));
        core.begin();
        let core = std::thread::spawn(move || core.run(&inbox));
        Ok(Self { handle: CoreHandle { shared }, inputs, core: Some(core), found: Some(found) })
    }

    #[must_use]
    pub fn handle(&self) -> &CoreHandle {
        &self.handle
    }

    pub fn report(&self, report: Report) {
        drop(self.inputs.send(CoreMessage::Report(NodeName::new(NODE), report)));
    }

    /// Completes the account of the start, as the server does once the node has reported.
    ///
    /// # Panics
    /// If it is called twice, or the core has ended.
    pub async fn complete_start(&mut self) {
        let found = self.found.take().expect("it is called once");
        let account = found.account(&self.handle).await.expect("the core runs");
        assert!(self.handle.shared.recovery.account.set(account).is_ok());
    }

    /// Makes forecasts until it is dropped.
    pub fn forecasts(&self) -> impl Future<Output = ()> + Send + 'static {
        gpool_server::forecast::keep(self.handle.clone())
    }

    /// Serves a socket on which every client is the same user, until `shutdown` completes.
    pub fn serve(
        &self,
        listener: UnixListener,
        (caller, home): (Caller, String),
        patience: Patience,
        shutdown: impl Future<Output = ()> + Send + 'static,
    ) -> impl Future<Output = ()> + Send + 'static {
        let identify =
            Arc::new(move |peer: Peer| Asker::new(caller.clone(), home.clone(), peer.pid));
        serve_as(listener, Others::default(), self.handle.clone(), identify, patience, shutdown)
    }

    /// Serves the network, for tokens of users by their numbers, until `shutdown` completes.
    ///
    /// # Panics
    /// If there is no certificate for the listener.
    pub fn serve_network(
        &self,
        (local, network): (UnixListener, TcpListener),
        user: impl Fn(u32) -> (Caller, String) + Send + Sync + 'static,
        patience: Patience,
        shutdown: impl Future<Output = ()> + Send + 'static,
    ) -> impl Future<Output = ()> + Send + 'static {
        let identify = Arc::new(move |peer: Peer| {
            let (caller, home) = user(peer.uid);
            Asker::new(caller, home, peer.pid)
        });
        let listen = network.local_addr().expect("it listens");
        let config = NetworkConfig { listen, names: Vec::new(), notebooks: None, site: None };
        let tls = Tls::open(&config, &self.handle.shared.info.state_dir);
        let tls = Arc::new(tls.expect("the state folder is writable"));
        assert!(
            self.handle.shared.identities.network.set((tls.clone(), listen)).is_ok(),
            "one network"
        );
        let others =
            Others { web: None, network: Some(Box::pin(std::future::ready((network, tls)))) };
        let handle = self.handle.clone();
        serve_as(local, others, handle, identify, patience, shutdown)
    }

    /// Reads on behalf of a user.
    pub fn push_read(&self, uid: u32, work: Work) {
        self.handle.shared.reads.push(uid, work);
    }

    /// Removes the output of all jobs that have ended; returns their number.
    pub async fn remove_output(&self) -> Result<u64, gpool_model::Refusal> {
        gpool_server::output::remove_expired(&self.handle, Millis::ZERO).await
    }

    /// Removes environments that were last used longer ago than `keep`; returns their number.
    pub async fn remove_environments(&self, keep: Duration) -> Result<usize, gpool_model::Refusal> {
        gpool_server::environments::look(&self.handle, keep).await
    }

    /// Compares the cost of this month with the budgets.
    pub async fn compare_budgets(&self) -> Result<(), gpool_model::Refusal> {
        gpool_server::subscriptions::compare_budgets(&self.handle).await
    }

    /// Sends the digests of weeks that ended before a time, in UTC.
    pub async fn report_digests(&self, now: Timestamp) -> Result<(), gpool_model::Refusal> {
        gpool_server::digest::report(&self.handle, now, &jiff::tz::TimeZone::UTC).await
    }
}

/// Facts about a server of a test.
fn info(folder: &Path, state_dir: PathBuf) -> ServerInfo {
    ServerInfo {
        version: "0.0.0",
        nodes: vec![NodeName::new(NODE)],
        state_dir,
        socket: folder.join("api.sock"),
        // Of root, so that it takes jobs of every user.
        uid: 0,
        started_at: now(),
        find_user,
        mail: gpool_server::MailSettings::default(),
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.inputs.send(CoreMessage::Stop));
        if let Some(core) = self.core.take() {
            drop(core.join());
        }
    }
}

/// The agent of the node. It has no streams.
struct TestAgent {
    server: Weak<AgentConnection>,
    on_order: Mutex<OnOrder>,
    /// In the state folder of the server.
    files: JobFiles,
}

impl AgentLink for TestAgent {
    fn send(&self, message: &ToAgent) {
        let Some(server) = self.server.upgrade() else { return };
        let answer = |id, answer| server.message(ToServer::Answer { id, answer });
        match message.clone() {
            ToAgent::Welcome { .. } | ToAgent::Refused { .. } | ToAgent::Renewed { .. } => {}
            ToAgent::Order { order, .. } => {
                if let Order::Run(order) = &order {
                    let usage = vec![(order.task(), used())];
                    let telemetry = gpool_protocol::Telemetry { usage, ..Default::default() };
                    server.message(ToServer::Telemetry(telemetry));
                }
                let on_order = self.on_order.lock().unwrap_or_else(PoisonError::into_inner);
                on_order(order, &|report| server.message(ToServer::Report(Box::new(report))));
            }
            ToAgent::Question { id, question } => match question {
                Question::Stream { .. } => {
                    answer(id, Answer::NotOpened(gpool_model::attach::NotOpened::NotRunning));
                }
                Question::MigInstances { .. } => {
                    answer(id, Answer::MigInstances(gpool_model::mig_layout::MigReport::default()));
                }
                Question::DevicePoints { since, .. } => {
                    answer(id, Answer::DevicePoints(recent(since)));
                }
                Question::Metrics { job, since } => {
                    answer(id, Answer::Metrics(metrics(job, since)));
                }
                Question::Files(question) => {
                    let server = Arc::clone(&server);
                    let reply = Box::new(move |answer| {
                        server.message(ToServer::Answer { id, answer: Answer::Files(answer) });
                    });
                    self.files.answer(question, reply).expect("a thread can be started");
                }
                Question::Launched { .. } => answer(id, Answer::Launched(Launched::default())),
            },
        }
    }
}

/// What each running task has used.
fn used() -> LiveUsage {
    LiveUsage {
        cpu: Some(Millis::from_secs(90)),
        memory: Some(Bytes::from_gib(2)),
        read: Some(Bytes::from_gib(3)),
        ..LiveUsage::default()
    }
}

/// The samples of each device in the last minute: half of the time busy.
fn recent(since: Timestamp) -> Vec<DevicePoint> {
    let now = now().get() / 1000;
    let seconds = (now.saturating_sub(60)..=now).map(|second| Timestamp::new(second * 1000));
    let point = |at: Timestamp| DevicePoint {
        at,
        utilization: Some(if at.get().is_multiple_of(2000) { 1.0 } else { 0.0 }),
        memory_used: Some(3e9),
        power: None,
    };
    seconds.filter(|at| *at >= since).map(point).collect()
}

/// The metrics of job 1, with two tasks.
fn metrics(job: Option<JobId>, since: Timestamp) -> Vec<TaskMetric> {
    let job = job.unwrap_or(JobId::single(1));
    let metric = |rank: u32, name: &str, value: f32| TaskMetric {
        task: TaskId { job, attempt: Attempt(1), rank },
        name: name.to_owned(),
        points: vec![(now(), f64::from(value))],
    };
    let all = [metric(1, "loss", 9.0), metric(0, "loss", 0.31), metric(1, "speed", 7.0)];
    all.into_iter().filter(|_| job == JobId::single(1) && since <= now()).collect()
}

fn identities(folder: &Path) -> anyhow::Result<Identities> {
    let (access, audit) = (Access::open(folder)?, Audit::open(folder, None)?);
    let nodes = NodeAdmissions::open(folder)?;
    let web = Web::new(([127, 0, 0, 1], 7478).into(), Arc::default());
    let web = OnceLock::from(Arc::new(web));
    let secrets = Arc::new(Secrets::new(folder));
    let others = Identities::new(access.into(), nodes.into(), None, audit.into(), secrets);
    Ok(Identities { web, ..others })
}
