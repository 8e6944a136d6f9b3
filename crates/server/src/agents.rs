//! The agents of this server. Each has a connection, the last values that it pushed, and the open
//! questions to it.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard};
use std::time::{Duration, Instant};

use gpool_control::lease::{LeaseWatch, Reachability};
use gpool_link::{AgentLink, Connection, ResultPart, SecretQuery, ServerInbox};
use gpool_model::agent::{LiveUsage, Order};
use gpool_model::device::{DeviceSample, Lending};
use gpool_model::job::BlobId;
use gpool_model::{
    DeviceUuid, Incarnation, JobId, LeaseTerms, Millis, NodeName, Silence, TaskId, Timestamp,
};
use gpool_protocol::recent::{DevicePoint, TaskMetric};
use gpool_protocol::{
    Answer, FileAnswer, FileQuestion, Hello, Launched, Question, QuestionId, Telemetry, ToAgent,
    ToServer, VERSION, understands,
};
use gpool_wire::Time;
use tokio::sync::oneshot;

use crate::agent_view::{AgentView, ProcessReadings, RELEASE, refusal};
use crate::input::CoreMessage;
use crate::launch_files::LaunchFiles;
use gpool_sys::clock::{boot_ms, unix_ms};

/// How long an agent may take to answer from its memory, or with a part of a file.
const PATIENCE: Duration = Duration::from_secs(5);
/// The same for a part of a file over a network, which may be slow.
const REMOTE_PATIENCE: Duration = Duration::from_secs(30);
/// How long to wait for an agent that is silent: its answers may still come, as those that need
/// only its files do.
const SILENT_PATIENCE: Duration = Duration::from_millis(500);
/// How long it may take to list or remove the files of some jobs. If it takes longer, it goes on,
/// and the next look finds the rest.
const REMOVAL_PATIENCE: Duration = Duration::from_secs(600);
/// How long it may take to find all tasks that were launched on its node.
const LAUNCHED_PATIENCE: Duration = Duration::from_secs(60);
/// The use of a task is forgotten after this time without a new value: the task has ended.
const USAGE_AGE: Duration = Duration::from_secs(60);

/// Every agent of the server, by node. Those of other machines come and go while it runs.
#[derive(Default)]
pub struct Agents(RwLock<BTreeMap<NodeName, Arc<AgentPeer>>>);

impl Agents {
    pub fn add(&self, peer: Arc<AgentPeer>) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).insert(peer.node.clone(), peer);
    }

    pub fn get(&self, node: &NodeName) -> Option<Arc<AgentPeer>> {
        self.read().get(node).cloned()
    }

    /// Ends the connection of an agent, and admits none from now on.
    pub fn remove(&self, node: &NodeName) {
        let removed = self.0.write().unwrap_or_else(PoisonError::into_inner).remove(node);
        if let Some(peer) = removed {
            // Its connection ends with the link.
            drop(peer.accept());
        }
    }

    /// Every agent, by node.
    pub fn all(&self) -> Vec<Arc<AgentPeer>> {
        self.read().values().cloned().collect()
    }

    fn read(&self) -> RwLockReadGuard<'_, BTreeMap<NodeName, Arc<AgentPeer>>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }
}

pub struct AgentPeer {
    node: NodeName,
    present: Mutex<PresentConnection>,
    /// Where its reports go.
    inputs: Mutex<Sender<CoreMessage>>,
    files: LaunchFiles,
    last_question: AtomicU64,
    waiting: Mutex<BTreeMap<QuestionId, oneshot::Sender<Reply>>>,
    pushed: Mutex<Pushed>,
    watch: Mutex<LeaseWatch>,
    /// The terms of its lease; an agent of this process has none, since it is never lost alone.
    lease: Option<LeaseTerms>,
    /// Why its last hello was refused; `None` once one was accepted.
    refusal: Mutex<Option<String>>,
}

/// The newest connection of an agent.
#[derive(Default)]
struct PresentConnection {
    /// Its number, from 1.
    number: u64,
    /// `None` until it is made, and once it is closed.
    link: Option<Arc<dyn AgentLink>>,
    /// Whether the agent said hello on it, for its node and in this version of the protocol.
    is_welcome: bool,
}

/// A connection of an agent. A newer one takes its place: its messages are dropped from then on.
pub struct AgentConnection {
    peer: Arc<AgentPeer>,
    number: u64,
}

/// The last values that an agent pushed.
#[derive(Default)]
struct Pushed {
    samples: BTreeMap<DeviceUuid, DeviceSample>,
    lending: BTreeMap<DeviceUuid, Lending>,
    usage: BTreeMap<TaskId, (Instant, LiveUsage)>,
    process: ProcessReadings,
}

/// The answer to a question, or the connection that it asked for.
pub enum Reply {
    Answer(Answer),
    Connection(Connection),
}

impl AgentPeer {
    /// An agent that has not connected yet.
    pub fn new(
        node: NodeName,
        lease: Option<LeaseTerms>,
        inputs: Sender<CoreMessage>,
        files: LaunchFiles,
    ) -> Arc<Self> {
        Arc::new(Self {
            node,
            lease: lease_for_tests(lease.is_some()).or(lease),
            present: Mutex::default(),
            inputs: Mutex::new(inputs),
            files,
            last_question: AtomicU64::new(0),
            waiting: Mutex::default(),
            pushed: Mutex::default(),
            watch: Mutex::new(LeaseWatch::new(boot_ms())),
            refusal: Mutex::default(),
        })
    }

    /// Begins a new connection of the agent, in place of the present one.
    pub fn accept(self: &Arc<Self>) -> Arc<AgentConnection> {
        let mut present = lock(&self.present);
        let number = present.number + 1;
        *present = PresentConnection { number, ..PresentConnection::default() };
        Arc::new(AgentConnection { peer: self.clone(), number })
    }

    /// Sends a message; returns whether there is a connection.
    fn send(&self, message: &ToAgent) -> bool {
        let link = lock(&self.present).link.clone();
        if let Some(link) = &link {
            link.send(message);
        }
        link.is_some()
    }

    /// Sends an order, for one run of the agent or for any.
    pub fn order(&self, to: Option<Incarnation>, order: Order) {
        let beat = self.lease.and_then(|_| lock(&self.watch).last_beat());
        self.send(&ToAgent::Order { to, beat, order });
    }

    /// Every order from before the agent was lost has left.
    pub fn readmit(&self) {
        lock(&self.watch).readmit();
    }

    /// The core has forgotten whether the agent is silent.
    pub fn tell_again(&self) {
        lock(&self.watch).tell_again();
    }

    /// Asks a question; `None` if the agent does not answer in time. A question without an answer
    /// may have been carried out.
    pub async fn ask(&self, question: Question, patience: Duration) -> Option<Reply> {
        let id = QuestionId(self.last_question.fetch_add(1, Ordering::Relaxed) + 1);
        let (reply, replied) = oneshot::channel();
        let patience = match lock(&self.watch).is_heard() {
            true => patience,
            false => patience.min(SILENT_PATIENCE),
        };
        // The caller may be gone before the answer is there.
        let _entry = QuestionGuard { peer: self, id };
        lock(&self.waiting).insert(id, reply);
        if !self.send(&ToAgent::Question { id, question }) {
            return None;
        }
        tokio::time::timeout(patience, replied).await.ok()?.ok()
    }

    pub fn node(&self) -> &NodeName {
        &self.node
    }

    /// Asks about the files of jobs; `None` if the agent does not answer in time.
    pub async fn files(&self, question: FileQuestion) -> Option<FileAnswer> {
        let patience = match question {
            FileQuestion::Output(_) | FileQuestion::OutputPaths { .. } => match self.lease {
                None => PATIENCE,
                Some(_) => REMOTE_PATIENCE,
            },
            FileQuestion::OldJobs { .. } | FileQuestion::RemoveJobs { .. } => REMOVAL_PATIENCE,
        };
        match self.ask(Question::Files(question), patience).await? {
            Reply::Answer(Answer::Files(answer)) => Some(answer),
            _ => None,
        }
    }

    /// Lists the launched tasks of some jobs; `None` if the agent does not answer in time.
    pub async fn launched(&self, jobs: BTreeSet<JobId>) -> Option<Launched> {
        match self.ask(Question::Launched { jobs }, LAUNCHED_PATIENCE).await? {
            Reply::Answer(Answer::Launched(launched)) => Some(launched),
            _ => None,
        }
    }

    /// The samples of a device from a time on, at most of the last hour.
    pub async fn points(&self, device: DeviceUuid, since: Timestamp) -> Vec<DevicePoint> {
        match self.ask(Question::DevicePoints { device, since }, PATIENCE).await {
            Some(Reply::Answer(Answer::DevicePoints(points))) => points,
            _ => Vec::new(),
        }
    }

    /// The metrics that the tasks of a job, or of all jobs, reported from a time on, at most those
    /// of the last hour.
    pub async fn metrics(&self, job: Option<JobId>, since: Timestamp) -> Vec<TaskMetric> {
        match self.ask(Question::Metrics { job, since }, PATIENCE).await {
            Some(Reply::Answer(Answer::Metrics(metrics))) => metrics,
            _ => Vec::new(),
        }
    }

    /// The last sample of each device.
    pub fn samples(&self) -> BTreeMap<DeviceUuid, DeviceSample> {
        lock(&self.pushed).samples.clone()
    }

    /// The loans of memory on each device.
    pub fn lending(&self) -> BTreeMap<DeviceUuid, Lending> {
        lock(&self.pushed).lending.clone()
    }

    /// What a running task has used so far.
    pub fn usage(&self, task: TaskId) -> Option<LiveUsage> {
        self.aged_usage(task).map(|(_, usage)| usage)
    }

    /// The same with its age.
    pub fn aged_usage(&self, task: TaskId) -> Option<(Duration, LiveUsage)> {
        lock(&self.pushed).usage.get(&task).map(|(at, usage)| (at.elapsed(), *usage))
    }

    /// The agent as people see it. One in the process of the server is the server.
    pub fn view(&self, now: Timestamp) -> AgentView {
        let refusal = lock(&self.refusal).clone();
        if self.lease.is_none() {
            return AgentView { refusal, ..AgentView::default() };
        }
        let silence = lock(&self.watch).silence(boot_ms());
        let pushed = lock(&self.pushed);
        let last_message_at = Some(Timestamp::new(now.get().saturating_sub(silence.get())));
        AgentView { last_message_at, refusal, ..pushed.process.view() }
    }

    /// Tells the core if the agent has become silent, is lost, or is heard again.
    pub fn look(&self, silent_after: Millis, now: Timestamp) {
        let time = boot_ms();
        let mut watch = lock(&self.watch);
        let Some(standing) = watch.look(time, silent_after, self.lease) else { return };
        let since = Timestamp::new(now.get().saturating_sub(watch.silence(time).get()));
        let (node, at) = (&self.node, Time(since));
        let silence = match standing {
            Reachability::Present => {
                tracing::info!(%node, "the agent is heard again");
                None
            }
            Reachability::Silent => {
                tracing::warn!(%node, since = %at, "the agent is silent");
                Some(Silence { since, is_lost: false })
            }
            Reachability::Lost => {
                tracing::warn!(%node, since = %at, "the agent is lost; its fenced jobs have ended");
                Some(Silence { since, is_lost: true })
            }
        };
        drop(lock(&self.inputs).send(CoreMessage::Silence(self.node.clone(), silence)));
    }

    /// Answers the first message of a connection; one of another node gets no answer.
    fn hello(&self, hello: &Hello, number: u64) {
        let is_understood = understands(hello.version);
        let is_expected = is_understood && hello.node == self.node;
        let mut present = lock(&self.present);
        if present.number != number {
            return;
        }
        present.is_welcome = is_expected;
        drop(present);
        *lock(&self.refusal) = (!is_understood).then(|| refusal(hello));
        match is_expected {
            true => {
                self.send(&ToAgent::Welcome { version: VERSION, lease: self.lease });
                // A removed node joins again.
                drop(lock(&self.inputs).send(CoreMessage::Silence(self.node.clone(), None)));
            }
            false => {
                tracing::error!(?hello, VERSION, node = %self.node, "refused an agent");
                if !is_understood {
                    self.send(&ToAgent::Refused { version: VERSION, release: RELEASE.to_owned() });
                }
            }
        }
    }

    /// Takes a beat, and renews the lease of the agent if it may.
    fn take_beat(&self, beat: u64) {
        if self.lease.is_some() && lock(&self.watch).beat(beat, boot_ms()) {
            self.send(&ToAgent::Renewed { beat });
        }
    }

    fn take_telemetry(&self, telemetry: Telemetry) {
        let mut pushed = lock(&self.pushed);
        if let Some(agent) = telemetry.agent {
            pushed.process.add(boot_ms(), Timestamp::new(unix_ms()), agent);
        }
        pushed.samples.extend(telemetry.samples);
        if let Some(lending) = telemetry.lending {
            pushed.lending = lending;
        }
        let now = Instant::now();
        pushed.usage.retain(|_, (at, _)| now.duration_since(*at) < USAGE_AGE);
        pushed.usage.extend(telemetry.usage.into_iter().map(|(task, it)| (task, (now, it))));
    }

    /// Takes an answer to a question.
    pub fn take_answer(&self, question: QuestionId, answer: Answer) {
        self.reply(question, Reply::Answer(answer));
    }

    /// Takes the connection that a question asked for.
    pub fn take_stream(&self, question: QuestionId, connection: Connection) {
        self.reply(question, Reply::Connection(connection));
    }

    fn reply(&self, id: QuestionId, reply: Reply) {
        if let Some(waiting) = lock(&self.waiting).remove(&id) {
            // The caller has gone; a connection is closed with the reply.
            drop(waiting.send(reply));
        }
    }
}

/// The lease that a test asks for.
fn lease_for_tests(is_remote: bool) -> Option<LeaseTerms> {
    let point = if is_remote { "server-remote-lease" } else { "server-agent-lease" };
    // Without failpoints nothing else names it.
    let _ = point;
    fail::fail_point!(point, |ms: Option<String>| {
        let lasts = ms.and_then(|ms| ms.parse().ok()).map(Millis::new);
        lasts.map(|lasts| LeaseTerms { lasts })
    });
    None
}

/// Forgets a question when its caller no longer waits.
struct QuestionGuard<'p> {
    peer: &'p AgentPeer,
    id: QuestionId,
}

impl Drop for QuestionGuard<'_> {
    fn drop(&mut self) {
        lock(&self.peer.waiting).remove(&self.id);
    }
}

impl AgentConnection {
    pub fn peer(&self) -> &Arc<AgentPeer> {
        &self.peer
    }

    /// Gives the connection its link, unless a newer connection has taken its place.
    pub fn open(&self, link: Arc<dyn AgentLink>) {
        let mut present = lock(&self.peer.present);
        if present.number == self.number {
            present.link = Some(link);
        }
    }

    /// Whether the agent was admitted on this connection, and no newer one has taken its place.
    fn is_welcome(&self) -> bool {
        let present = lock(&self.peer.present);
        present.number == self.number && present.is_welcome
    }
}

impl Drop for AgentConnection {
    fn drop(&mut self) {
        let mut present = lock(&self.peer.present);
        if present.number == self.number {
            present.link = None;
        }
    }
}

impl ServerInbox for AgentConnection {
    fn message(&self, message: ToServer) {
        let peer = &self.peer;
        if let ToServer::Hello(hello) = &message {
            peer.hello(hello, self.number);
        }
        if !self.is_welcome() {
            return;
        }
        // Other threads of the agent answer questions, also while its own thread hangs.
        if !matches!(message, ToServer::Answer { .. }) {
            lock(&peer.watch).hear(boot_ms());
        }
        match message {
            ToServer::Hello(_) => {}
            ToServer::Report(report) => {
                // If the core has stopped, the next server's agent sends the report again.
                drop(lock(&peer.inputs).send(CoreMessage::Report(peer.node.clone(), *report)));
            }
            ToServer::Telemetry(telemetry) => {
                telemetry.beat.into_iter().for_each(|beat| peer.take_beat(beat));
                peer.take_telemetry(telemetry);
            }
            ToServer::Answer { id, answer } => peer.take_answer(id, answer),
        }
    }

    fn connection(&self, question: QuestionId, connection: Connection) {
        self.peer.take_stream(question, connection);
    }

    fn blob(&self, id: &BlobId) -> io::Result<Vec<u8>> {
        self.peer.files.blob(id)
    }

    fn secret(&self, query: &SecretQuery) -> io::Result<Vec<u8>> {
        self.peer.files.secret(query.uid, &query.name)
    }

    fn results(&self, task: TaskId, owner: u32, part: &ResultPart) -> io::Result<Vec<String>> {
        self.peer.files.folders.take(task, owner, part)
    }
}

impl AgentPeer {
    /// The files that it may use.
    pub fn launch_files(&self) -> &LaunchFiles {
        &self.files
    }
}

fn lock<T>(value: &Mutex<T>) -> MutexGuard<'_, T> {
    value.lock().unwrap_or_else(PoisonError::into_inner)
}
