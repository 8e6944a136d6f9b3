//! A cluster that is killed again and again while clients use it, and the checks at the end.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use gpool_shepherd::layout;

use super::checker::violations;
use super::history::{Fate, History, Told, read_of_node};
use super::load::{Done, Load};
use super::numbers::Numbers;
use crate::harness::{Cluster, kill_9, until_so};
use crate::notify::Endpoint;

/// A cluster under load.
pub struct Siege {
    pub cluster: Cluster,
    pub numbers: Numbers,
    pub killed: BTreeMap<u64, Fate>,
    /// The actions, to find the cause of a violation.
    pub done: Vec<String>,
    pub n_kills: u64,
    load: Load,
    /// The endpoint for messages.
    endpoint: Endpoint,
    restarts: Vec<Duration>,
    began: Instant,
}

impl Siege {
    /// Starts a cluster of this number of nodes with this number of simulated devices each.
    pub fn new(seed: u64, n_nodes: usize, n_gpus: usize) -> Self {
        let mut numbers = Numbers::new(seed);
        let cluster = Cluster::new(&format!("{n_nodes}x(sim:{n_gpus}xH100-80G)"));
        let endpoint = Endpoint::new(|_| Some(200));
        let load = Load::start(&cluster, n_gpus, Some(&endpoint.url), &mut numbers);
        Self {
            cluster,
            numbers,
            killed: BTreeMap::new(),
            done: Vec::new(),
            n_kills: 0,
            load,
            endpoint,
            restarts: Vec::new(),
            began: Instant::now(),
        }
    }

    /// Lets clients and jobs continue for a random time of at most this number of milliseconds. The
    /// moment of the next kill is what varies; nothing waits for a condition by it.
    pub fn go_on(&mut self, bound_ms: u64) {
        std::thread::sleep(Duration::from_millis(self.numbers.below(bound_ms)));
    }

    pub fn note(&mut self, what: impl Into<String>) {
        let at = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis();
        self.done.push(format!("{at} {}", what.into()));
    }

    pub fn kill_server(&mut self) {
        self.note(format!("server {}", self.cluster.server_pid()));
        self.cluster.kill();
        self.n_kills += 1;
    }

    /// Starts a server and measures the time until it answers.
    pub fn up(&mut self) {
        let began = Instant::now();
        self.cluster.up();
        self.restarts.push(began.elapsed());
    }

    /// Kills the shepherd of a random job, if there is one.
    pub fn kill_a_shepherd(&mut self) -> bool {
        let Some((id, pid)) = self.a_shepherd() else { return false };
        self.killed.insert(id, Fate::Any);
        self.note(format!("shepherd {pid} of {id}"));
        kill_9(pid);
        self.n_kills += 1;
        true
    }

    fn a_shepherd(&mut self) -> Option<(u64, u32)> {
        pick_shepherd(claims(&self.cluster), &mut self.numbers)
    }

    /// Kills the nursery, if there is one.
    pub fn kill_nursery(&mut self) -> bool {
        let Some(pid) = nursery_of(self.cluster.server_pid()) else { return false };
        self.note(format!("nursery {pid}"));
        kill_9(pid);
        self.n_kills += 1;
        true
    }

    /// Lets all jobs end, and checks the promises.
    pub fn end(mut self) {
        let Self { load, .. } = self;
        let done = load.stop();
        drain(&self.cluster, &self.done);
        let waiting = || self.cluster.client().status().map(|it| it.notifications.waiting);
        until_so("all messages are sent", || waiting().is_ok_and(|waiting| waiting == 0));
        let took = self.began.elapsed();
        let told = self.endpoint.got().iter().map(told).collect();
        let agents = [self.cluster.state()];
        let history = read_history(&mut self.cluster, &agents, done, told, self.killed);
        self.restarts.sort_unstable();
        let (n_jobs, n_killed) = (history.asked.len(), history.killed.len());
        let middle = self.restarts.get(self.restarts.len() / 2);
        eprintln!(
            "{} kills, {n_jobs} jobs, {n_killed} of them without their shepherd, {} made longer, \
             {} messages, {took:.1?}; ready again after {:.3?} (p50), {:.3?} (most)",
            self.n_kills,
            history.extended.len(),
            history.told.len(),
            middle.copied().unwrap_or_default(),
            self.restarts.last().copied().unwrap_or_default(),
        );
        let found = violations(&history);
        assert!(found.is_empty(), "{}\ndone: {:#?}", found.join("\n"), self.done);
    }
}

/// The job and the process of the shepherd of a random claim.
pub fn pick_shepherd(mut claims: Vec<PathBuf>, numbers: &mut Numbers) -> Option<(u64, u32)> {
    claims.retain(|claim| !claim.file_name().unwrap().as_encoded_bytes().starts_with(b"."));
    claims.sort_unstable();
    let claim = numbers.pick(&claims)?;
    let name = claim.file_name()?.to_str()?;
    let claim = std::fs::read_to_string(claim).ok()?;
    let (_, first) = claim.lines().next()?.split_once(' ')?;
    let first: serde_json::Value = serde_json::from_str(first).ok()?;
    let pid = u32::try_from(first["claimed"]["shepherd"].as_u64()?).ok()?;
    let id = name.split('#').next()?.parse().ok()?;
    // The agent itself claims tasks that must never start; and a shepherd may have ended meanwhile.
    (shepherded(pid)? == id).then_some((id, pid))
}

/// Stops a cluster without jobs, and reads its history. Its agents have these state folders.
pub fn read_history(
    cluster: &mut Cluster,
    agents: &[PathBuf],
    done: Done,
    told: Vec<Told>,
    killed: BTreeMap<u64, Fate>,
) -> History {
    let Done { asked, extended } = done;
    let mut history = History { asked, extended, told, killed, ..History::default() };
    for asked in &history.asked {
        let out = read_of_node(agents, &format!("jobs/{}/1/stdout", asked.id));
        history.outputs.insert(asked.id, out);
    }
    // The next server cleans up after a killed one.
    cluster.down(&[]);
    cluster.up();
    cluster.down(&[]);
    history.left = left_behind(cluster);
    let verified = cluster.gpool(["verify"]);
    let is_sound = verified.code == 0 && verified.out.contains("is sound");
    history.unsound = (!is_sound).then(|| format!("{verified:?}"));
    history.read_store(&cluster.state());
    history.read_claims(agents);
    history.read_trace(&std::fs::read_to_string(cluster.path("trace")).unwrap());
    history
}

pub fn told(got: &crate::notify::Got) -> Told {
    let job = got.json()["data"]["id"].as_str().unwrap().parse().unwrap();
    Told { message: got.header("webhook-id").to_owned(), job }
}

/// Waits until no job is left.
pub fn drain(cluster: &Cluster, done: &[String]) {
    let client = cluster.client();
    let give_up = Instant::now() + Duration::from_secs(60);
    while !client.status().is_ok_and(|status| status.jobs.is_empty()) {
        assert!(
            Instant::now() < give_up,
            "jobs do not end: {:#?}\nclaimed: {:?}\ndone: {done:#?}",
            client.jobs(&gpool_client::JobsQuery::default()).unwrap().items,
            claims(cluster),
        );
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// The claims of tasks that are not over, on any node.
fn claims(cluster: &Cluster) -> Vec<PathBuf> {
    claims_in(&layout::folders(&cluster.state()))
}

/// The same in the state folders of some agents.
pub fn claims_in(agents: &[PathBuf]) -> Vec<PathBuf> {
    let entries = agents.iter().filter_map(|agent| std::fs::read_dir(agent.join("tasks")).ok());
    entries.flatten().flatten().map(|entry| entry.path()).collect()
}

/// The job of a shepherd, by its process name: `gpool 12#1/0`.
pub fn shepherd_in(name: &str) -> Option<u64> {
    name.trim_end().strip_prefix("gpool ")?.split('#').next()?.parse().ok()
}

fn shepherded(pid: u32) -> Option<u64> {
    shepherd_in(&std::fs::read_to_string(format!("/proc/{pid}/comm")).ok()?)
}

fn pids() -> impl Iterator<Item = u32> {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

fn nursery_of(server: u32) -> Option<u32> {
    pids().find(|pid| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let parent = stat.rsplit_once(") ").and_then(|(_, rest)| rest.split(' ').nth(1));
        let words = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        parent == Some(&server.to_string())
            && words.ends_with(b"__nursery\0")
            && shepherded(*pid).is_none()
    })
}

/// Processes that have files below a folder open: a shepherd does not name the folder elsewhere.
fn users_of(folder: &Path) -> Vec<u32> {
    let uses = |pid: &u32| {
        let Ok(open) = std::fs::read_dir(format!("/proc/{pid}/fd")) else { return false };
        open.flatten()
            .filter_map(|entry| std::fs::read_link(entry.path()).ok())
            .any(|path| path.starts_with(folder))
    };
    let own = std::process::id();
    pids().filter(|pid| *pid != own && uses(pid)).collect()
}

/// Processes, groups and files of a cluster that has stopped without jobs.
fn left_behind(cluster: &Cluster) -> Vec<String> {
    // A dismissed shepherd ends a moment later.
    let mut n_looks = 0;
    until_so("processes have gone, or stay", || {
        n_looks += 1;
        n_looks > 200 || (cluster.processes().is_empty() && users_of(&cluster.state()).is_empty())
    });
    let shown = |pid: &u32| {
        let words = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        format!("process {pid}: {}", String::from_utf8_lossy(&words).replace('\0', " "))
    };
    let mut left: Vec<String> = cluster.processes().iter().map(shown).collect();
    left.extend(users_of(&cluster.state()).iter().map(shown));
    left.extend(claims(cluster).iter().map(|claim| claim.display().to_string()));
    let entries = std::fs::read_dir(cluster.state().join("blobs/tmp")).unwrap().flatten();
    left.extend(entries.map(|entry| entry.path().display().to_string()));
    for node in layout::folders(&cluster.state()) {
        let temporary = std::fs::read_dir(&node).unwrap().flatten();
        let temporary = temporary.map(|entry| entry.path().display().to_string());
        left.extend(temporary.filter(|path| path.ends_with(".new")));
        left.extend(groups_of(&node, Path::new("/sys/fs/cgroup"), 4));
    }
    left
}

/// The control groups that an agent with this state folder has made.
fn groups_of(state: &Path, below: &Path, depth: usize) -> Vec<String> {
    // FNV-1a of the path, as in the agent's names.
    let hash =
        state.as_os_str().as_encoded_bytes().iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3_u64)
        });
    let name = format!("gpool-{hash:016x}");
    let mut found = Vec::new();
    for entry in std::fs::read_dir(below).into_iter().flatten().flatten() {
        let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
        if entry.file_name().to_str() == Some(&name) {
            let inner = std::fs::read_dir(entry.path()).into_iter().flatten().flatten();
            let inner = inner.filter_map(|entry| entry.file_name().into_string().ok());
            let of_jobs: Vec<String> = inner.filter(|name| name.contains('#')).collect();
            found.push(format!("control group {} of {of_jobs:?}", entry.path().display()));
        } else if is_folder && depth > 0 {
            found.extend(groups_of(state, &entry.path(), depth - 1));
        }
    }
    found
}
