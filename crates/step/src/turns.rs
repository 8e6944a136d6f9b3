//! Coordinates steps of a job that run at the same time, through files in a folder of the job. Each
//! step has a number, and a step that does not need all tasks prefers tasks without another step.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, Write as _};
use std::path::Path;

use rustix::fs::{FlockOperation, flock};
use rustix::io::{FdFlags, fcntl_setfd};

use crate::plan::{Host, Plan};

/// The number and the tasks of a step.
#[derive(Debug, Default)]
pub struct Turn {
    /// Its number, counted from 0 in starting order.
    pub step: u32,
    /// The ranks of the tasks, idle tasks first.
    pub order: Vec<u32>,
    locks: Vec<(u32, File)>,
    /// A lock: while a step holds it, no other step of the job chooses its tasks.
    choosing: Option<File>,
}

impl Turn {
    /// Chooses a number and an order of tasks. If the disk is full, the step runs anyway.
    #[must_use]
    pub fn take(hosts: &[Host], folder: Option<&Path>, overlaps: bool) -> Self {
        let usual = || hosts.iter().map(|host| host.rank).collect();
        let Some(folder) = folder else { return Self { order: usual(), ..Self::default() } };
        let Ok((step, choosing)) = count(folder) else {
            return Self { order: usual(), ..Self::default() };
        };
        if overlaps || hosts.len() < 2 {
            return Self { step, order: usual(), ..Self::default() };
        }
        let (mut locks, mut busy) = (Vec::new(), Vec::new());
        for host in hosts {
            match lock(folder, host.rank) {
                Ok(lock) => locks.push((host.rank, lock)),
                Err(_) => busy.push(host.rank),
            }
        }
        let n_busy = u32::try_from(busy.len()).unwrap_or(u32::MAX).max(1);
        // If all tasks are busy, steps take them in turn.
        busy.rotate_left(usize::try_from(step % n_busy).unwrap_or(0));
        let order = locks.iter().map(|(rank, _)| *rank).chain(busy).collect();
        Self { step, order, locks, choosing: Some(choosing) }
    }

    /// Releases the tasks that the step does not use, and lets other steps choose. A step that
    /// chose before this would see every task as busy.
    pub fn keep(&mut self, plan: &Plan) {
        self.locks.retain(|(rank, _)| plan.hosts.iter().any(|host| host.rank == *rank));
        self.choosing = None;
    }

    /// Keeps the locks when this process executes another program.
    pub fn hand_on(&self) {
        for (_, lock) in &self.locks {
            let _ = fcntl_setfd(lock, FdFlags::empty());
        }
    }
}

/// Takes the number of a step, and the lock for choosing.
fn count(folder: &Path) -> io::Result<(u32, File)> {
    let mut options = File::options();
    options.read(true).write(true).create(true).truncate(false);
    let mut file = options.open(folder.join("steps"))?;
    flock(&file, FlockOperation::LockExclusive)?;
    let mut text = String::new();
    file.read_to_string(&mut text)?;
    // The program of a job that `srun` submitted is step 0 itself.
    let is_in_step = std::env::var_os("SLURM_STEP_ID").is_some();
    let number: u32 = text.trim().parse().unwrap_or(u32::from(is_in_step));
    file.rewind()?;
    file.write_all(number.saturating_add(1).to_string().as_bytes())?;
    Ok((number, file))
}

fn lock(folder: &Path, rank: u32) -> io::Result<File> {
    let path = folder.join(format!("step-task-{rank}"));
    let file = File::options().create(true).append(true).open(path)?;
    flock(&file, FlockOperation::NonBlockingLockExclusive)?;
    Ok(file)
}
