//! Refuses a store that is older than the jobs started from its directory: an old copy of the
//! store. A server on it would reuse job numbers, and mistake exit codes of unknown jobs for those
//! of its own.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use gpool_model::job::JobState;
use gpool_model::{Generation, Job, JobId, JobNumber, TaskId};
use gpool_world::World;

/// Jobs and tasks that were started from a state directory, according to its files.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Launched {
    /// The job with the highest number, and the file that proves it.
    pub newest: Option<(JobNumber, PathBuf)>,
    /// Tasks of the requested jobs, each with its last order and the file that proves it.
    pub tasks: Vec<(TaskId, Generation, PathBuf)>,
    /// Jobs that run.
    pub running: BTreeSet<JobId>,
}

/// Finds the tasks started from a state directory, for the jobs that the function selects. Skips
/// unreadable files.
pub type FindLaunched = fn(&Path, &dyn Fn(JobId) -> bool) -> Launched;

/// Whether a task was started by an order that the store does not contain. Tasks from before a
/// restore have lower generations than the restore gave to the jobs.
fn is_newer(job: &Job, task: TaskId, generation: Generation) -> bool {
    let waits = job.phase.state() <= JobState::Pending;
    let attempt = match waits {
        true => task.attempt >= job.attempt,
        false => task.attempt > job.attempt,
    };
    generation > job.generation || (generation == job.generation && attempt)
}

/// Refuses to start if more tasks were started than the loaded state can have ordered: the server
/// sends orders only when they are durable.
pub(crate) fn refuse_older(
    world: &World,
    state_dir: &Path,
    find: FindLaunched,
) -> anyhow::Result<()> {
    let last = world.cluster().last_job;
    let launched = find(state_dir, &|id| world.job(id).is_some());
    let newer_job = launched.newest.filter(|(number, _)| *number > last);
    let why = match newer_job {
        Some((number, path)) => {
            format!("its last job is {last}, and {} is of job {number}", path.display())
        }
        None => {
            let is_newer = |(task, generation, _): &(TaskId, Generation, PathBuf)| {
                world.job(task.job).is_some_and(|row| is_newer(&row.job, *task, *generation))
            };
            let newer = launched.tasks.into_iter().find(is_newer);
            let Some((task, _, path)) = newer else { return Ok(()) };
            format!("{} shows a later run of job {}", path.display(), task.job)
        }
    };
    let store = state_dir.join("store.db");
    let what = format!("the store {} is older than its jobs: {why}", store.display());
    Err(anyhow::Error::msg(format!(
        "it is an older copy; nothing was changed: put the newest copy back, or make a new store \
         from this one: gpool restore --put-aside {}",
        store.display()
    ))
    .context(what))
}
