//! A server from start to end: opens the store, begins a term, starts its agents, listens, and
//! stops without ending running jobs.

use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::Path;
use std::pin::Pin;
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use anyhow::{Context, bail};
use gpool_link::{ServerLink, local};
use gpool_model::{Caller, Command, JobId, JobVerb, Millis, NodeName, Policy, Refusal};
use gpool_store::{Committer, Store, StoreOptions};
use gpool_world::World;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
use rustix::process::Signal;
use tokio::net::UnixListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{broadcast, watch};

use crate::account::FindAccount;
use crate::agents::{AgentPeer, Agents};
use crate::clock::now;
use crate::config::ServerConfig;
use crate::core::Core;
use crate::evictions::Evictions;
use crate::fault::refused;
use crate::feed::Feed;
use crate::files::FileStore;
use crate::handle::{
    CoreHandle, ServerInfo, Settings, Shared, StartFindings, StopRequest, Storage, server_itself,
};
use crate::input::{CoreMessage, pass_commits, pass_deliveries};
use crate::listen::Others;
use crate::live::{self, Live};
use crate::older::refuse_older;
use crate::reads::Reads;
use crate::recovery::PriorState;
use crate::{forecast, listen, settle};
use gpool_identity::Identities;
use gpool_identity::access::Access;
use gpool_identity::audit::{Audit, SYSLOG};
use gpool_identity::nodes::NodeAdmissions;
use gpool_identity::secrets::Secrets;
use gpool_identity::sign_in::SignIns;
use gpool_insight::Insight;
use gpool_insight::forecaster::Forecaster;
use gpool_insight::lives::Lives;
use gpool_insight::usage::UsageHistory;
use gpool_post::{Keys, Post};

/// Extra time for a job after its grace period, before the stopping server leaves it running.
const END_MARGIN: Millis = Millis::from_secs(10);
/// Time for an agent or the core to stop. A hanging thread ends with the process.
pub const STOP_PATIENCE: Duration = Duration::from_secs(15);
/// Number of notices that a watcher may fall behind before it has to read the state again.
const NOTICES_MAX: usize = 4096;

/// Completes when the API is to stop.
pub type Shutdown = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The API, until it has stopped.
pub type Serving = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Serves the API on the socket and the other listeners until the end of `Shutdown`.
pub type ServeApi = fn(UnixListener, Others, CoreHandle, FindAccount, Shutdown) -> Serving;

/// Stops an agent of this process. Running jobs go on.
pub type StopAgent = Box<dyn FnOnce() + Send>;

/// Runs a server with its API until a request to stop it. Calls `start_agent` for each node in
/// turn, and `ready` once the server answers.
pub fn run(
    config: &ServerConfig,
    start_agent: impl FnMut(&NodeName, Arc<dyn ServerLink>) -> anyhow::Result<StopAgent>,
    api: ServeApi,
    ready: impl FnOnce(&ServerInfo),
) -> anyhow::Result<()> {
    let usual = StoreOptions::default();
    let journal_keep = config.journal_entries.unwrap_or(usual.journal_keep);
    let (store, loaded) = Store::open(&config.state_dir, &StoreOptions { journal_keep, ..usual })?;
    let (inputs, inbox) = mpsc::channel();
    let shared = share(config, &store, inputs.clone())?;
    let on_done = shared.insight.lives.before(pass_commits(inputs.clone()));
    let committer = Committer::spawn(store, on_done).context("can't start a thread")?;
    let (keys, usage) = (Arc::clone(&shared.keys), Arc::clone(&shared.insight.usage));
    let post = Post::new(keys, &config.notify, usage, pass_deliveries(inputs.clone()));
    let policy = Policy::of_new_server();
    let mut core = Core::new(Arc::clone(&shared), committer, post, &loaded, policy)?;
    fail::fail_point!("server-start-loaded");
    drop(loaded);
    check_names(core.world(), &config.nodes, &shared.identities.nodes.admitted())?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .thread_name("http")
        .enable_all()
        .build()
        .context("can't start the threads of the API")?;
    let stops = start_agents(config, &shared, &mut core, start_agent)?;
    let found = match runtime.block_on(take_over(config, &shared, &mut core)) {
        Ok(found) => found,
        Err(error) => {
            within(STOP_PATIENCE, "the agents", || stops.into_iter().for_each(|stop| stop()));
            return Err(error);
        }
    };
    let core = std::thread::Builder::new()
        .name("core".to_owned())
        .spawn(move || core.run(&inbox))
        .context("can't start a thread")?;

    let handle = CoreHandle { shared: Arc::clone(&shared) };
    let served = runtime.block_on(serve(config, &handle, found, api, ready));
    runtime.shutdown_timeout(Duration::from_secs(1));
    shared.insight.forecaster.save();
    within(STOP_PATIENCE, "the agents", || stops.into_iter().for_each(|stop| stop()));
    fail::fail_point!("server-stop-agent");
    // The last journal entry: it shows the next server that this one was not killed.
    drop(inputs.send(CoreMessage::Stopping));
    drop(inputs.send(CoreMessage::Stop));
    if let Some(Err(_)) = within(STOP_PATIENCE, "the core", || core.join()) {
        bail!("the core thread panicked; everything that it acknowledged is stored");
    }
    fail::fail_point!("server-stop-done");
    served
}

/// Returns the data that core and API share.
fn share(
    config: &ServerConfig,
    store: &Store,
    inputs: mpsc::Sender<CoreMessage>,
) -> anyhow::Result<Arc<Shared>> {
    let info = ServerInfo {
        version: env!("CARGO_PKG_VERSION"),
        nodes: config.nodes.clone(),
        state_dir: config.state_dir.clone(),
        socket: config.socket.clone(),
        uid: rustix::process::geteuid().as_raw(),
        started_at: now(),
        find_user: config.find_user,
        mail: config.notify.mail.clone(),
    };
    let access = Arc::new(Access::open(&config.state_dir)?);
    let syslog = config.audit_syslog.then_some(Path::new(SYSLOG));
    let audit = Arc::new(Audit::open(&config.state_dir, syslog)?);
    let nodes = Arc::new(NodeAdmissions::open(&config.state_dir)?);
    let secrets = Arc::new(Secrets::new(&config.state_dir));
    let sign_ins = config.provider.clone();
    let sign_ins = sign_ins.map(|it| Arc::new(SignIns::new(it, access.clone(), audit.clone())));
    Ok(Arc::new(Shared {
        info,
        settings: Settings {
            limits: config.limits,
            usual_notify: config.notify.usual.clone(),
            notify_allow: config.notify.allow.clone(),
            keep_output: config.keep_output,
            keep_environment: config.keep_environment,
            telemetry: config.telemetry.clone(),
        },
        inputs,
        notices: broadcast::Sender::new(NOTICES_MAX),
        evictions: Evictions::default(),
        feed: Arc::new(Feed::new(now())),
        storage: Storage {
            blobs: Arc::new(store.blobs()?),
            files: Arc::new(FileStore::open(&config.state_dir, &config.limits)?),
            presence: store.presence(),
            room: store.room(),
        },
        agents: Agents::default(),
        recovery: StartFindings::default(),
        listeners: Arc::default(),
        identities: Identities::new(access, nodes, sign_ins, audit, secrets),
        insight: Insight {
            usage: Arc::new(UsageHistory::new(&config.state_dir)),
            forecaster: Arc::new(Forecaster::new(&config.state_dir)),
            lives: Lives::new(&config.telemetry).context("can't start a thread")?,
        },
        keys: Arc::new(Keys::open(&config.state_dir)?),
        lacking: Mutex::default(),
        stop: watch::Sender::new(StopRequest::None),
        pulse: Arc::default(),
        reads: Reads::start().context("can't start a thread")?,
        still: Mutex::default(),
    }))
}

/// Begins a term with the loaded state, if this server may; returns the findings of the start. The
/// reports of the agents wait until then.
async fn take_over(
    config: &ServerConfig,
    shared: &Shared,
    core: &mut Core,
) -> anyhow::Result<PriorState> {
    // A restored store is older, and skips job numbers that may have been used since.
    if !core.is_restored() {
        refuse_older(core.world(), &config.state_dir, &shared.agents).await?;
    }
    let mut found = PriorState::of(core.world(), &config.state_dir);
    found.is_restored = core.is_restored();
    let term = core.begin();
    fail::fail_point!("server-start-begun");
    tracing::info!(%term, state = %config.state_dir.display(), "server started");
    Ok(found)
}

/// Starts the agents of this process, one per node; returns the functions that stop them.
fn start_agents(
    config: &ServerConfig,
    shared: &Arc<Shared>,
    core: &mut Core,
    mut start_agent: impl FnMut(&NodeName, Arc<dyn ServerLink>) -> anyhow::Result<StopAgent>,
) -> anyhow::Result<Vec<StopAgent>> {
    let mut stops = Vec::new();
    for node in &config.nodes {
        // It is never lost alone, so it needs no lease.
        let peer = AgentPeer::new(node.clone(), None, shared.inputs.clone(), shared.launch_files());
        let connection = peer.accept();
        let (link, end) = local::link(connection.clone());
        connection.open(link);
        shared.agents.add(peer);
        stops.push(start_agent(node, end)?);
        fail::fail_point!("server-start-agent");
    }
    let agents = shared.clone();
    // An agent of a removed node gets no orders.
    core.set_agents(Box::new(move |node, to, order| {
        if let Some(agent) = agents.agents.get(node) {
            agent.order(to, order);
        }
    }));
    Ok(stops)
}

/// Runs work that may hang; `None` after a timeout. The work then continues in its own thread until
/// the process ends.
pub fn within<T: Send + 'static>(
    patience: Duration,
    what: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    let (done, is_done) = mpsc::channel();
    let work = move || drop(done.send(work()));
    let spawned = std::thread::Builder::new().name("stop".to_owned()).spawn(work);
    let answer = spawned.ok().and_then(|_| is_done.recv_timeout(patience).ok());
    if answer.is_none() {
        tracing::error!(?patience, "{what} did not stop in time");
    }
    answer
}

/// Refuses to start without the nodes of this state directory's running jobs: without agents, the
/// server would end those jobs. Agents on other machines connect later.
fn check_names(world: &World, nodes: &[NodeName], remote: &[NodeName]) -> anyhow::Result<()> {
    let allocations = world.holding().flat_map(|row| row.job.phase.allocations());
    let elsewhere = allocations.map(|allocation| &allocation.node);
    let is_known = |name: &NodeName| nodes.contains(name) || remote.contains(name);
    let elsewhere: Vec<&NodeName> = elsewhere.filter(|name| !is_known(name)).collect();
    let Some(name) = elsewhere.first() else { return Ok(()) };
    let n_there = elsewhere.iter().filter(|other| other == &name).count();
    let run = if n_there == 1 { "1 job runs" } else { &format!("{n_there} jobs run") };
    let (what, why) = match nodes {
        [node] => (
            format!("{run} on node {name}, and this server would have node {node}"),
            format!("this folder belongs to {name}: gpool up --name {name} takes the jobs over"),
        ),
        nodes => {
            let names: Vec<&str> = nodes.iter().map(NodeName::as_str).collect();
            let names = names.join(", ");
            (
                format!("{run} on node {name}, and this server would have nodes {names}"),
                format!("include {name}, at least until no job runs there"),
            )
        }
    };
    Err(anyhow::Error::msg(why).context(what))
}

async fn serve(
    config: &ServerConfig,
    handle: &CoreHandle,
    found: PriorState,
    api: ServeApi,
    ready: impl FnOnce(&ServerInfo),
) -> anyhow::Result<()> {
    // A file above the limit of the process (`ulimit -f`) is an error then, not a silent end. A
    // handler, unlike an ignored signal, is not passed on to programs.
    let too_large = SignalKind::from_raw(Signal::XFSZ.as_raw());
    let _too_large = signal(too_large).context("can't handle SIGXFSZ")?;
    let admin = server_itself(handle);
    let later = settle::begin(config, handle, found, &admin).await?;
    // They connect once the server listens; the start does not wait for them.
    handle.shared.identities.nodes.admitted().iter().for_each(|node| handle.admit_agent(node));
    let listener = bind(&config.socket)?;
    let live = Live::listen_near(&config.socket, live::of(Arc::clone(&handle.shared.pulse)))?;
    let web = listen::dashboard(handle, config.web).await?;
    let (end_serving, serving_ended) = tokio::sync::oneshot::channel::<()>();
    let network = match &config.network {
        Some(network) => Some(listen::network(handle, network, &config.state_dir).await?),
        None => None,
    };
    // The sender is dropped when the server stops.
    let end = Box::pin(async { drop(serving_ended.await) });
    let others = Others { web, network };
    let server = api(listener, others, handle.clone(), config.find_account, end);
    let server = tokio::spawn(server);
    let forecasts = tokio::spawn(forecast::keep(handle.clone()));
    let removal = tokio::spawn(crate::output::remove_old(handle.clone()));
    let files = tokio::spawn(crate::environments::look_after(handle.clone()));
    let folders = tokio::spawn(crate::unused_files::look_after(handle.clone()));
    let instances = tokio::spawn(crate::controllers::keep_instances(handle.clone()));
    let usage = tokio::spawn(crate::recorder::keep(handle.clone()));
    let budgets = tokio::spawn(crate::subscriptions::keep(handle.clone()));
    let agents = tokio::spawn(crate::lease::watch(handle.clone(), config.node_lease));
    fail::fail_point!("server-start-listening");
    ready(handle.info());
    fail::fail_point!("server-start-ready");
    let asked = wait_for_stop(handle).await?;
    tracing::info!(?asked, "stopping");
    fail::fail_point!("server-stop-asked");
    if asked == StopRequest::EndJobs {
        end_jobs(handle, &admin).await?;
    }
    forecasts.abort();
    removal.abort();
    files.abort();
    folders.abort();
    instances.abort();
    usage.abort();
    budgets.abort();
    agents.abort();
    later.iter().for_each(tokio::task::JoinHandle::abort);
    drop(end_serving);
    server.await.context("the API panicked")?;
    fail::fail_point!("server-stop-served");
    drop(std::fs::remove_file(&config.socket));
    drop(live);
    Ok(())
}

/// Whether a server listens on a socket, also one that takes no connections any more.
fn is_served(path: &Path) -> bool {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let connected = SocketAddrUnix::new(path).and_then(|address| {
        let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        connect(&socket, &address)
    });
    matches!(connected, Ok(()) | Err(rustix::io::Errno::AGAIN))
}

/// Creates the socket. Fails if a server listens on it; replaces the socket of a killed server.
fn bind(path: &Path) -> anyhow::Result<UnixListener> {
    /// The most connections that wait in the kernel until the server takes them. A process that
    /// finds the queue full waits in `connect`, or gets EAGAIN if it does not block. Processes that
    /// connect without end fill any queue; in a longer one other users wait behind more of them.
    const BACKLOG: i32 = 128;

    if is_served(path) {
        bail!(
            "another server answers on {}: stop it with `gpool down`, or choose another path with \
             --socket",
            path.display()
        );
    }
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)
            .with_context(|| format!("can't make the folder {}", folder.display()))?;
    }
    match path.symlink_metadata() {
        Ok(about) if about.file_type().is_socket() => std::fs::remove_file(path)
            .with_context(|| format!("can't replace {}", path.display()))?,
        Ok(_) => bail!(
            "{} exists and is not a socket: choose another path with --socket",
            path.display()
        ),
        // The file does not exist, or `bind` reports the error.
        Err(_) => {}
    }
    let listener =
        UnixListener::bind(path).with_context(|| format!("can't listen on {}", path.display()))?;
    rustix::net::listen(&listener, BACKLOG)
        .context("can't set the length of the socket's queue")?;
    // Every local user may connect: the socket's peer credentials identify the user.
    let mode = std::fs::Permissions::from_mode(0o666);
    std::fs::set_permissions(path, mode)
        .with_context(|| format!("can't open {} to other users", path.display()))?;
    Ok(listener)
}

/// Waits for a request to stop, or for a signal, which leaves jobs running.
async fn wait_for_stop(handle: &CoreHandle) -> anyhow::Result<StopRequest> {
    let mut terminate = signal(SignalKind::terminate()).context("can't wait for SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("can't wait for SIGINT")?;
    let mut requests = handle.stopping();
    tokio::select! {
        _ = terminate.recv() => Ok(StopRequest::LeaveJobs),
        _ = interrupt.recv() => Ok(StopRequest::LeaveJobs),
        asked = requests.wait_for(|asked| *asked != StopRequest::None) => Ok(*asked?),
    }
}

/// Ends all running jobs within the longest grace period and a margin. Jobs still running then
/// continue, and waiting jobs stay queued: the next server takes over both.
async fn end_jobs(handle: &CoreHandle, admin: &Caller) -> anyhow::Result<()> {
    // With this order, no job starts on the released devices.
    drop(handle.shared.inputs.send(CoreMessage::Stopping));
    let longest = |view: &crate::View<'_>| view.world.holding().map(|row| row.spec.grace).max();
    let asked = tokio::time::timeout(STOP_PATIENCE, handle.query(longest)).await;
    let grace = match asked {
        Ok(grace) => grace.map_err(|refusal| refused(&refusal))?.unwrap_or_default(),
        Err(_) => Millis::ZERO,
    };
    let patience = Duration::from_millis(grace.saturating_add(END_MARGIN).get());
    match tokio::time::timeout(patience, cancel_all(handle, admin)).await {
        Ok(ended) => ended,
        Err(_) => {
            tracing::error!(?patience, "jobs did not end in time and keep running");
            Ok(())
        }
    }
}

/// Cancels all running jobs and waits for their ends.
async fn cancel_all(handle: &CoreHandle, admin: &Caller) -> anyhow::Result<()> {
    let mut notices = handle.notices();
    let holding = |view: &crate::View<'_>| -> Vec<JobId> {
        view.world.holding().map(|row| row.job.id).collect()
    };
    loop {
        let jobs = handle.query(holding).await.map_err(|refusal| refused(&refusal))?;
        if jobs.is_empty() {
            return Ok(());
        }
        match handle.command(admin.clone(), Command::on(jobs, JobVerb::Cancel)).await {
            // The job ended in between; the loop requests the remaining jobs again.
            Ok(_) | Err(Refusal::NoSuchJob { .. } | Refusal::AlreadyEnded { .. }) => {}
            Err(refusal) => return Err(refused(&refusal)),
        }
        // A notice or a timeout: check again.
        drop(notices.recv().await);
    }
}
