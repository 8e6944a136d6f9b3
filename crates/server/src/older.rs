//! Refuses a store that is older than the jobs launched on its nodes: an old copy of the store. A
//! server on it would reuse job numbers, and mistake exit codes of unknown jobs for those of its
//! own.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::{Context, anyhow};
use futures_util::future::join_all;
use gpool_model::job::JobState;
use gpool_model::{Generation, Job, JobId, TaskId};
use gpool_protocol::Launched;
use gpool_world::World;

use crate::agents::Agents;

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

/// Refuses to start if agents launched more tasks than the loaded state can have ordered: the
/// server sends orders only when they are durable.
pub async fn refuse_older(world: &World, state_dir: &Path, agents: &Agents) -> anyhow::Result<()> {
    let jobs: BTreeSet<JobId> = world.jobs().keys().copied().collect();
    let agents = agents.all();
    let answers = agents.iter().map(|agent| agent.launched(jobs.clone()));
    for (agent, launched) in agents.iter().zip(join_all(answers).await) {
        let launched = launched.with_context(|| {
            format!("the agent of node {} did not list its jobs in time", agent.node())
        })?;
        if let Some(why) = newer_launch(world, launched) {
            let store = state_dir.join("store.db");
            let what = format!("the store {} is older than its jobs: {why}", store.display());
            return Err(anyhow!(
                "it is an older copy, and was not changed: put the newest copy back, or make a \
                 new store from this one: gpool restore --put-aside {}",
                store.display()
            )
            .context(what));
        }
    }
    Ok(())
}

/// A launch that is newer than the state, in words.
fn newer_launch(world: &World, launched: Launched) -> Option<String> {
    let last = world.cluster().last_job;
    if let Some((number, path)) = launched.newest
        && number > last
    {
        return Some(format!("its last job is {last}, and {path} is of job {number}"));
    }
    let newer = launched.tasks.into_iter().find(|it| {
        let row = world.job(it.task.job);
        row.is_some_and(|row| is_newer(&row.job, it.task, it.generation))
    })?;
    Some(format!("{} shows a later run of job {}", newer.path, newer.task.job))
}
