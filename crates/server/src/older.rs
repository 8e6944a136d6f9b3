//! Refuses a store that is older than the jobs launched from its folder: an older copy that was put
//! back. Its server would give numbers of jobs a second time, and take the exit codes of jobs that
//! it does not know for those of its own.

use std::path::{Path, PathBuf};

use gpool_model::job::JobState;
use gpool_model::{Generation, Job, JobId, JobNumber, TaskId};
use gpool_world::World;

/// Jobs and tasks that were launched from a state folder, as its files show.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Launched {
    /// The job with the highest number, and what shows it.
    pub newest: Option<(JobNumber, PathBuf)>,
    /// Tasks of jobs that were asked for, each with its last order and the file that shows it.
    pub tasks: Vec<(TaskId, Generation, PathBuf)>,
}

/// Finds the tasks launched from a state folder, of the jobs that the function selects. Unreadable
/// files are left out.
pub type FindLaunched = fn(&Path, &dyn Fn(JobId) -> bool) -> Launched;

/// Whether a task was launched by an order that the store does not know. What a restore leaves in
/// place was ordered by generations below those that it gave to the jobs.
fn is_newer(job: &Job, task: TaskId, generation: Generation) -> bool {
    let waits = job.phase.state() <= JobState::Pending;
    let attempt = match waits {
        true => task.attempt >= job.attempt,
        false => task.attempt > job.attempt,
    };
    generation > job.generation || (generation == job.generation && attempt)
}

/// Refuses if more was launched than the state as it was loaded can have ordered: orders leave only
/// when they are durable.
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
        "an older copy was put back; nothing was changed: put the newest one back, or make a \
         store of this one: gpool restore --put-aside {}",
        store.display()
    ))
    .context(what))
}
