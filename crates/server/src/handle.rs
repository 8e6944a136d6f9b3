//! The HTTP side's handle of the core: queries, and data outside the state machine
//! (archive, blobs, samples). Cheap to clone.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak, mpsc};

use gpool_model::agent::LiveUsage;
use gpool_model::device::{DeviceSample, Lending};
use gpool_model::job::Owner;
use gpool_model::record::EndedJob;
use gpool_model::{
    Allocation, Caller, DeviceUuid, JobId, LeaseTerms, Millis, NodeName, Notice, NotifyRule,
    Refusal, TaskId, Timestamp,
};
use gpool_protocol::recent::TaskMetric;
use gpool_store::{BlobId, Blobs, Reader, Room, StoreFiles};
use tokio::sync::{broadcast, oneshot, watch};

use crate::agents::{AgentPeer, Agents};
use crate::evictions::Evictions;
use crate::fault::internal;
use crate::feed::Feed;
use crate::files::FileStore;
use crate::input::CoreMessage;
pub use crate::input::StopRequest;
use crate::launch_files::LaunchFiles;
use crate::limits::Limits;
use crate::listeners::Listeners;
use crate::live::Pulse;
use crate::reads::Reads;
use crate::recovery::account::RecoveryAccount;
use crate::still::Still;
use crate::view::{Deliver, View};
use gpool_identity::Identities;
use gpool_insight::Insight;
use gpool_insight::lives::settings::Telemetry;
use gpool_post::{Allowed, Keys, MailSettings};

#[derive(Debug, Clone)]
pub struct ServerInfo {
    pub version: &'static str,
    /// The nodes with an agent in this process.
    pub nodes: Vec<NodeName>,
    pub state_dir: PathBuf,
    /// Path of the API socket.
    pub socket: PathBuf,
    /// The user that the server runs as.
    pub uid: u32,
    pub started_at: Timestamp,
    /// Finds a user by name or number; returns ID and name.
    pub find_user: FindUser,
    pub mail: MailSettings,
}

/// Finds a user by name or number. May block on the system's name service.
pub type FindUser = fn(&str) -> Option<(u32, String)>;

pub struct Shared {
    pub info: ServerInfo,
    pub settings: Settings,
    pub inputs: mpsc::Sender<CoreMessage>,
    pub notices: broadcast::Sender<Notice>,
    /// Evictions, for the limits of their beneficiaries.
    pub evictions: Evictions,
    /// The last events, for watchers over the API.
    pub feed: Arc<Feed>,
    pub storage: Storage,
    pub agents: Agents,
    pub recovery: StartFindings,
    /// Which of the listeners beside the Unix socket are open.
    pub listeners: Arc<Listeners>,
    pub identities: Identities,
    pub insight: Insight,
    /// Keys for the signatures of messages.
    pub keys: Arc<Keys>,
    /// Waiting jobs with a missing file, and the file.
    pub lacking: Mutex<BTreeMap<JobId, BlobId>>,
    pub stop: watch::Sender<StopRequest>,
    /// Current step of the core, for the liveness check.
    pub pulse: Arc<Pulse>,
    /// Threads for slow reads.
    pub reads: Reads,
    /// The last copy of the state.
    pub still: Mutex<Weak<Still>>,
}

impl Shared {
    /// The files that agents use of this server.
    pub(crate) fn launch_files(&self) -> LaunchFiles {
        LaunchFiles {
            blobs: self.storage.blobs.clone(),
            secrets: self.identities.secrets.clone(),
            folders: self.storage.files.clone(),
        }
    }
}

/// Settings that requests follow.
pub struct Settings {
    pub limits: Limits,
    /// Notification rules of jobs that name none.
    pub usual_notify: Vec<NotifyRule>,
    /// Addresses inside the server's machine that users may name.
    pub notify_allow: Vec<Allowed>,
    /// Retention time of a job's output after its end; `None` means forever.
    pub keep_output: Option<Millis>,
    /// Retention time of the data for a retry of an ended job.
    pub keep_environment: Millis,
    pub telemetry: Telemetry,
}

/// The state folder.
pub struct Storage {
    pub blobs: Arc<Blobs>,
    /// Working folders and results.
    pub files: Arc<FileStore>,
    /// Whether the open files are still the store's files.
    pub presence: StoreFiles,
    /// The free space of the folder.
    pub room: Room,
}

/// What this start found.
#[derive(Default)]
pub struct StartFindings {
    /// The account until the agents have reported.
    pub early: OnceLock<RecoveryAccount>,
    /// The account; set once all agents have reported their inventory.
    pub account: OnceLock<RecoveryAccount>,
    /// Unexpected tasks that their agents were ordered to end.
    pub unexpected: Mutex<BTreeSet<TaskId>>,
}

impl Shared {
    /// Returns a copy of the current or a later state; waits for it.
    fn still(&self) -> Result<Arc<Still>, Refusal> {
        let (reply, answer) = oneshot::channel();
        self.inputs.send(CoreMessage::Still(reply)).map_err(|_| Refusal::ShuttingDown)?;
        let still = answer.blocking_recv().map_err(|_| Refusal::ShuttingDown)??;
        *self.last_still() = Arc::downgrade(&still);
        Ok(still)
    }

    fn last_still(&self) -> MutexGuard<'_, Weak<Still>> {
        self.still.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Maximum age of a copy of the state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Age {
    /// Not older than the request.
    New,
    /// The last copy, if it still exists: to finish a request that began with a new one.
    Last,
}

/// Handle of the core for the HTTP side.
#[derive(Clone)]
pub struct CoreHandle {
    pub shared: Arc<Shared>,
}

impl CoreHandle {
    #[must_use]
    pub fn info(&self) -> &ServerInfo {
        &self.shared.info
    }

    /// Returns the limits of one user.
    pub fn limits(&self) -> Limits {
        self.shared.settings.limits
    }

    /// Runs a query on the state; returns when all data of the answer is durable.
    ///
    /// # Errors
    /// If the server is stopping, or a commit with data of the answer failed.
    pub async fn query<T: Send + 'static>(
        &self,
        ask: impl FnOnce(&View<'_>) -> T + Send + 'static,
    ) -> Result<T, Refusal> {
        let (reply, answer) = oneshot::channel();
        let work = move |view: &View<'_>| -> Deliver {
            let found = ask(view);
            // The caller may have disconnected.
            Box::new(move |stands| drop(reply.send(stands.map(|()| found))))
        };
        let input = CoreMessage::Query(Box::new(work));
        self.shared.inputs.send(input).map_err(|_| Refusal::ShuttingDown)?;
        answer.await.map_err(|_| Refusal::ShuttingDown)?
    }

    /// Returns an ended job or array element. The array may still be live.
    pub async fn archived(&self, id: JobId) -> Result<Option<EndedJob>, Refusal> {
        let living = move |view: &View<'_>| {
            let (row, position) = view.world.position_of(id)?;
            Some((row.spec.clone(), crate::elements::never_started(row, id, position)))
        };
        let living = match id.element {
            Some(_) => self.query(living).await?,
            None => None,
        };
        self.read(move |reader| crate::elements::archived(reader, id, living)).await
    }

    /// Runs slow work outside the core, in the user's queue of reads.
    ///
    /// # Errors
    /// If the server is stopping, or the work failed.
    pub async fn run_slow<T: Send + 'static>(
        &self,
        uid: u32,
        work: impl FnOnce() -> Result<T, Refusal> + Send + 'static,
    ) -> Result<T, Refusal> {
        let (reply, answer) = oneshot::channel();
        let work = move || {
            // The caller may have disconnected.
            if !reply.is_closed() {
                drop(reply.send(work()));
            }
        };
        self.shared.reads.push(uid, Box::new(work));
        answer.await.map_err(|_| Refusal::ShuttingDown)?
    }

    /// Reads a copy of the state in the user's queue of reads, which takes no time of the core. All
    /// data of the answer is durable.
    ///
    /// # Errors
    /// If the server is stopping, or a commit with data of the answer failed.
    pub async fn look<T: Send + 'static>(
        &self,
        uid: u32,
        age: Age,
        look: impl FnOnce(&View<'_>) -> T + Send + 'static,
    ) -> Result<T, Refusal> {
        let shared = Arc::clone(&self.shared);
        let work = move || {
            let last = shared.last_still().upgrade().filter(|_| age == Age::Last);
            let still = match last {
                Some(last) => last,
                None => shared.still()?,
            };
            Ok(look(&still.view()))
        };
        self.run_slow(uid, work).await
    }

    /// Searches the store in the user's queue of reads.
    pub async fn search<T: Send + 'static>(
        &self,
        uid: u32,
        search: impl FnOnce(&Reader) -> Result<T, Refusal> + Send + 'static,
    ) -> Result<T, Refusal> {
        let handle = self.clone();
        self.run_slow(uid, move || search(&handle.open_reader()?)).await
    }

    /// Reads a few rows of the store on a thread for slow work.
    pub async fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Reader) -> Result<T, Refusal> + Send + 'static,
    ) -> Result<T, Refusal> {
        let state_dir = self.shared.info.state_dir.clone();
        let task = move || read(&Reader::open(&state_dir).map_err(internal)?);
        tokio::task::spawn_blocking(task).await.map_err(internal)?
    }

    /// Opens the store for reading. Call it on a thread for slow work.
    pub fn open_reader(&self) -> Result<Reader, Refusal> {
        Reader::open(&self.shared.info.state_dir).map_err(internal)
    }

    /// Returns a receiver of all future notices.
    #[must_use]
    pub fn notices(&self) -> broadcast::Receiver<Notice> {
        self.shared.notices.subscribe()
    }

    /// Files for environments and scripts.
    #[must_use]
    pub fn blobs(&self) -> &Blobs {
        &self.shared.storage.blobs
    }

    /// Working folders and results of jobs.
    #[must_use]
    pub fn files(&self) -> &FileStore {
        &self.shared.storage.files
    }

    /// Returns the last sample of each device.
    #[must_use]
    pub fn samples(&self) -> BTreeMap<DeviceUuid, DeviceSample> {
        self.agents().iter().flat_map(|agent| agent.samples()).collect()
    }

    /// Returns what each task has used so far, about a second ago.
    #[must_use]
    pub fn live_usage(&self, allocations: &[Allocation]) -> Vec<LiveUsage> {
        let of = |it: &Allocation| self.agent(&it.node)?.usage(it.task);
        allocations.iter().filter_map(of).collect()
    }

    pub fn agent(&self, node: &NodeName) -> Option<Arc<AgentPeer>> {
        self.shared.agents.get(node)
    }

    /// Admits the agent of a node on another machine, in place of an earlier agent of the node.
    pub fn admit_agent(&self, node: &NodeName) {
        let Shared { inputs, agents, .. } = &*self.shared;
        let (inputs, files) = (inputs.clone(), self.shared.launch_files());
        agents.remove(node);
        agents.add(AgentPeer::new(node.clone(), Some(LeaseTerms::USUAL), inputs, files));
    }

    /// Returns all agents, by node.
    pub fn agents(&self) -> Vec<Arc<AgentPeer>> {
        self.shared.agents.all()
    }

    /// Returns the metrics that the tasks of a job, or of all jobs, reported from a time on, at
    /// most those of the last hour.
    pub async fn metrics(&self, job: Option<JobId>, since: Timestamp) -> Vec<TaskMetric> {
        let agents = self.agents();
        let answers = agents.iter().map(|agent| agent.metrics(job, since));
        futures_util::future::join_all(answers).await.into_iter().flatten().collect()
    }

    /// Returns the loans of memory on each device.
    #[must_use]
    pub fn lending(&self) -> BTreeMap<DeviceUuid, Lending> {
        self.agents().iter().flat_map(|agent| agent.lending()).collect()
    }

    /// Returns the report of the last start, limited to the jobs that the caller may see.
    ///
    /// # Errors
    /// If the agent has not yet reported its inventory.
    pub fn recovery(&self, may_see: impl Fn(u32) -> bool) -> Result<gpool_wire::Recovery, Refusal> {
        let account =
            self.shared.recovery.account.get().or_else(|| self.shared.recovery.early.get());
        let account = account.ok_or_else(|| internal("the start is not over"))?;
        let unexpected =
            self.shared.recovery.unexpected.lock().unwrap_or_else(PoisonError::into_inner);
        let run = |task: &TaskId| format!("{}#{}", task.job, task.attempt);
        Ok(account.visible_part(unexpected.iter().map(run).collect(), may_see))
    }

    /// Returns the notification rules of jobs without their own.
    pub fn usual_notify(&self) -> &[NotifyRule] {
        &self.shared.settings.usual_notify
    }

    /// Checks that the caller may send messages to the addresses of these rules.
    pub fn check_notify(&self, caller: &Caller, rules: &[NotifyRule]) -> Result<(), Refusal> {
        let allow = &self.shared.settings.notify_allow;
        let mut checked = rules.iter().map(|rule| gpool_post::check(&rule.url, allow));
        match checked.find_map(Result::err).filter(|_| !caller.admin) {
            Some(why) => Err(Refusal::Invalid { field: "notify".to_owned(), why }),
            None => Ok(()),
        }
    }

    /// Returns the key for the signatures of a user's messages.
    pub fn notify_secret(&self, uid: u32) -> String {
        self.shared.keys.secret(uid)
    }

    pub fn stop(&self, request: StopRequest) {
        self.shared.stop.send_replace(request);
    }

    /// Returns a receiver that changes when the server is asked to stop.
    #[must_use]
    pub fn stopping(&self) -> watch::Receiver<StopRequest> {
        self.shared.stop.subscribe()
    }
}

/// The server acts as an admin for its own requests.
pub fn server_itself(handle: &CoreHandle) -> Caller {
    let user = Arc::from("gpool");
    let uid = handle.info().uid;
    let gid = rustix::process::getegid().as_raw();
    Caller::new(Owner { uid, gid, user }, true)
}
