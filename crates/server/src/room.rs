//! Whether what a user asks for fits into the limits of this server. Asked here and not in
//! `control`: the limits are settings of this server and no part of the state, and a replay must
//! not depend on them.

use std::collections::BTreeMap;

use gpool_model::record::IdempotencyRecord;
use gpool_model::{Caller, Command, JobPatch, NewJob, Refusal};
use gpool_world::{JobRow, World};

use crate::limits::Limits;

/// What comes with the commands of one batch that were let through.
#[derive(Debug, Clone, Copy, Default)]
pub struct Coming {
    n_jobs: u64,
    n_dependencies: u64,
}

/// Checks a command; `coming` has by user what comes before it in the same batch.
///
/// # Errors
/// It asks for more than its user may have.
pub fn check(
    world: &World,
    limits: &Limits,
    caller: &Caller,
    command: &Command,
    coming: &mut BTreeMap<u32, Coming>,
) -> Result<(), Refusal> {
    match command {
        Command::Submit { jobs, key, dry_run, .. } => {
            let uid = caller.owner.uid;
            let key = key.as_ref().map(|key| IdempotencyRecord::key_of(uid, &key.name));
            if key.is_some_and(|key| world.request(&key).is_some()) {
                return Ok(());
            }
            let coming = coming.entry(uid).or_default();
            let asked = Coming {
                n_jobs: jobs.len() as u64,
                n_dependencies: check_dependencies(limits, jobs)?,
            };
            let (n_found, n_asked) = (world.n_of_user(uid) + coming.n_jobs, asked.n_jobs);
            if n_found.saturating_add(n_asked) > limits.jobs {
                return Err(Refusal::TooManyJobs { n_found, n_asked, most: limits.jobs });
            }
            check_all_dependencies(world, limits, (uid, *coming), asked.n_dependencies)?;
            if !dry_run {
                coming.n_jobs += asked.n_jobs;
                coming.n_dependencies += asked.n_dependencies;
            }
            Ok(())
        }
        Command::Edit { job, patch, .. } => {
            let Some(row) = world.row_for(*job) else { return Ok(()) };
            let (n_before, n_after) = (row.spec.n_dependencies(), n_after(row, patch));
            if n_after <= n_before {
                return Ok(());
            }
            check_one(limits, n_after)?;
            let uid = row.spec.owner.uid;
            let coming = coming.entry(uid).or_default();
            check_all_dependencies(world, limits, (uid, *coming), n_after - n_before)?;
            coming.n_dependencies += n_after - n_before;
            Ok(())
        }
        _ => Ok(()),
    }
}

/// Checks what jobs wait for, as far as nothing else has to be known; how many dependencies they
/// name together.
///
/// # Errors
/// One names too many, or all together do.
pub fn check_dependencies(limits: &Limits, jobs: &[NewJob]) -> Result<u64, Refusal> {
    let mut n_asked = 0;
    for (index, job) in (0..).zip(jobs) {
        let named = job.after.len() + job.life.after_one.len() + usize::from(job.after_setup);
        check_one(limits, named as u64).map_err(|refusal| match jobs.len() {
            1 => refusal,
            _ => Refusal::OfJob { index, refusal: Box::new(refusal) },
        })?;
        n_asked += named as u64;
    }
    let most = limits.dependencies;
    match n_asked > most {
        true => Err(Refusal::TooManyDependencies { n_found: Some(0), n_asked, most }),
        false => Ok(n_asked),
    }
}

fn check_one(limits: &Limits, n_asked: u64) -> Result<(), Refusal> {
    let most = limits.job_dependencies;
    match n_asked > most {
        true => Err(Refusal::TooManyDependencies { n_found: None, n_asked, most }),
        false => Ok(()),
    }
}

fn check_all_dependencies(
    world: &World,
    limits: &Limits,
    (uid, coming): (u32, Coming),
    n_asked: u64,
) -> Result<(), Refusal> {
    let n_found = world.n_dependencies_of(uid) + coming.n_dependencies;
    let most = limits.dependencies;
    match n_asked > 0 && n_found.saturating_add(n_asked) > most {
        true => Err(Refusal::TooManyDependencies { n_found: Some(n_found), n_asked, most }),
        false => Ok(()),
    }
}

/// Returns how many dependencies a job names once it is changed.
fn n_after(row: &JobRow, patch: &JobPatch) -> u64 {
    let request = |key: &str| if patch.changes(key) { &*patch.to } else { &row.spec.request };
    (request("after").after.len() + request("after_one").life.after_one.len()) as u64
}
