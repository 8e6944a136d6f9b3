//! Lists the tasks of a state folder without server and agent: from the claims of shepherds, and
//! from the processes of the caller's own jobs. Read-only.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use gpool_model::agent::TaskEnd;
use gpool_model::id::{JobId, TaskId};
use gpool_model::unit::Timestamp;
use gpool_protocol::{Launched, LaunchedTask};
use gpool_sys::{clock, lock, proc};

use crate::layout::{Layout, claimed_task, recorded_task};
use crate::record::ClaimRecord;

/// A launched task; no server has made its end durable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocalTask {
    pub task: TaskId,
    pub is: LocalTaskState,
    /// The process ID of its program.
    pub pid: Option<u32>,
    /// The start time of its program.
    pub started_at: Option<Timestamp>,
    /// The user that it runs as.
    pub uid: u32,
    pub state_dir: PathBuf,
    /// The socket of the server that started it, if it is visible.
    pub api: Option<PathBuf>,
}

/// The state of such a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LocalTaskState {
    Runs,
    /// It has ended, and its shepherd has noted how.
    Ended(Box<TaskEnd>),
    /// It is over, and its result is unknown: the machine was restarted, or its shepherd killed.
    Lost {
        rebooted: bool,
    },
}

/// Returns all claimed tasks of a state folder, in order.
///
/// # Errors
/// If the folder can't be listed. A claim that can't be read is left out.
pub fn claimed(state_dir: &Path) -> io::Result<Vec<LocalTask>> {
    let layout = Layout::new(state_dir);
    let mut left = Vec::new();
    for entry in std::fs::read_dir(layout.tasks())? {
        let name = entry?.file_name();
        let task = name.to_str().and_then(claimed_task);
        left.extend(task.and_then(|task| claim(&layout, task).ok().flatten()));
    }
    left.sort_by_key(|left| left.task);
    Ok(left)
}

/// Finds all launches of agents in their state folders, by their claims, ledgers and job folders:
/// the job with the highest number, and the tasks of some jobs. Users can write in none of these
/// places. Files that can't be read are left out.
#[must_use]
pub fn launched(state_dirs: &[PathBuf], jobs: &BTreeSet<JobId>) -> Launched {
    let mut found = Launched::default();
    for folder in state_dirs {
        let layout = Layout::new(folder);
        let mut tasks = Vec::new();
        for (name, path) in entries(&layout.tasks()) {
            let Some(task) = claimed_task(&name) else { continue };
            newest(&mut found, task.job, &path);
            if matches!(claim(&layout, task), Ok(Some(LocalTask { is: LocalTaskState::Runs, .. })))
            {
                found.running.insert(task.job);
            }
            tasks.extend(jobs.contains(&task.job).then_some((task, path)));
        }
        for path in layout.done() {
            let text = std::fs::read_to_string(&path).unwrap_or_default();
            let over = text.lines().filter_map(|line| line.parse::<TaskId>().ok());
            over.for_each(|task| newest(&mut found, task.job, &path));
        }
        for (name, path) in entries(&layout.state().join("jobs")) {
            let Ok(job) = name.parse::<JobId>() else { continue };
            newest(&mut found, job, &path);
            if jobs.contains(&job) {
                let recorded =
                    |(name, path): (String, PathBuf)| Some((recorded_task(job, &name)?, path));
                tasks.extend(entries(&path).into_iter().filter_map(recorded));
            }
        }
        found.tasks.extend(tasks.into_iter().filter_map(|(task, path)| {
            let record = ClaimRecord::read(&std::fs::read(&path).ok()?)?;
            let path = path.display().to_string();
            Some(LaunchedTask { task, generation: record.generation(), path })
        }));
    }
    found
}

fn newest(found: &mut Launched, job: JobId, path: &Path) {
    if found.newest.as_ref().is_none_or(|(number, _)| job.number > *number) {
        found.newest = Some((job.number, path.display().to_string()));
    }
}

/// The entries of a folder that have text names, sorted.
fn entries(folder: &Path) -> Vec<(String, PathBuf)> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let named =
        entries.filter_map(|entry| Some((entry.file_name().into_string().ok()?, entry.path())));
    let mut named: Vec<(String, PathBuf)> = named.collect();
    named.sort_unstable();
    named
}

/// Reads one claim; `None` if it has no valid first line.
fn claim(layout: &Layout, task: TaskId) -> io::Result<Option<LocalTask>> {
    let mut file = File::open(layout.claim(task))?;
    // Checked before reading: a shepherd that ends in between has noted its end by then.
    let is_held = lock::is_held(&file)?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    let Some(record) = ClaimRecord::read(&bytes) else { return Ok(None) };
    let is = match record.ended {
        Some(end) => LocalTaskState::Ended(Box::new(end)),
        None if is_held => LocalTaskState::Runs,
        None => LocalTaskState::Lost { rebooted: record.claimant.boot_id != proc::boot_id() },
    };
    let pid = record.started.map(|(pid, _)| pid).filter(|_| is == LocalTaskState::Runs);
    Ok(Some(LocalTask {
        task,
        is,
        pid,
        started_at: record.started.map(|(_, at)| at),
        uid: record.claimant.uid,
        state_dir: layout.state().to_owned(),
        api: pid.and_then(api_of),
    }))
}

/// Returns the caller's jobs that run on this machine, of any server, from the environments of
/// their processes. This works even if the state folder belongs to another user.
#[must_use]
pub fn own_processes() -> Vec<LocalTask> {
    let own = rustix::process::geteuid().as_raw();
    // The oldest process of a run is its program.
    let mut oldest: BTreeMap<(PathBuf, TaskId), (u64, LocalTask)> = BTreeMap::new();
    for pid in proc::all() {
        let is_own = std::fs::metadata(format!("/proc/{pid}")).is_ok_and(|it| it.uid() == own);
        let Some(stat) = proc::stat(pid).filter(|stat| is_own && stat.state != b'Z') else {
            continue;
        };
        let Some(left) = local_task(pid, stat.started, own) else { continue };
        let key = (left.state_dir.clone(), left.task);
        let is_older = oldest.get(&key).is_none_or(|(started, _)| stat.started < *started);
        if is_older {
            oldest.insert(key, (stat.started, left));
        }
    }
    oldest.into_values().map(|(_, left)| left).collect()
}

/// A process of a job, from its environment; `None` if it is of no job.
pub fn local_task(pid: u32, started: u64, uid: u32) -> Option<LocalTask> {
    let environment = std::fs::read(format!("/proc/{pid}/environ")).ok()?;
    let folder = PathBuf::from(variable(&environment, "GPOOL_DIR=")?);
    let attempt: u32 = variable(&environment, "GPOOL_ATTEMPT=")?.parse().ok()?;
    let job = variable(&environment, "GPOOL_JOB_ID=")?;
    let rank = variable(&environment, "GPOOL_RANK=").unwrap_or_else(|| "0".to_owned());
    let task: TaskId = format!("{job}#{attempt}/{rank}").parse().ok()?;
    let state_dir = folder.ancestors().nth(3)?.to_owned();
    // The folder and the variables must agree, or the environment was made up.
    if Layout::new(&state_dir).attempt(task) != folder {
        return None;
    }
    let age = clock::boot_ticks().saturating_sub(started);
    let age_ms = age.saturating_mul(1000) / rustix::param::clock_ticks_per_second().max(1);
    Some(LocalTask {
        task,
        is: LocalTaskState::Runs,
        pid: Some(pid),
        started_at: Some(Timestamp::new(clock::unix_ms().saturating_sub(age_ms))),
        uid,
        state_dir,
        api: variable(&environment, "GPOOL_API=").map(PathBuf::from),
    })
}

/// The API socket in the job's environment, if it may be read.
fn api_of(pid: u32) -> Option<PathBuf> {
    let environment = std::fs::read(format!("/proc/{pid}/environ")).ok()?;
    variable(&environment, "GPOOL_API=").map(PathBuf::from)
}

/// Returns the rest of the first entry with this prefix.
pub fn variable(environment: &[u8], prefix: &str) -> Option<String> {
    let mut entries = environment.split(|byte| *byte == 0);
    let value = entries.find_map(|entry| entry.strip_prefix(prefix.as_bytes()))?;
    String::from_utf8(value.to_vec()).ok()
}
