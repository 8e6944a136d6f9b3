//! 100,000 jobs of 1,000 users wait: the cost for the server, for reads, and for a restart after
//! kill -9.

use std::io::Cursor;
use std::time::Instant;

use gpool_cli::failure::{Failure, Result};
use gpool_client::{Client, new_key};
use gpool_model::job::JobState;

use super::rig::{Rig, Stop, kill, on_gpus};
use super::{Options, Outcome};
use crate::bench::failed;
use crate::bench::figure::{Figure, Ranked};
use crate::bench::process::memory_of;

/// First of the user ids without an account.
const FIRST_UID: u32 = 1_900_000_000;

/// Fills the queue, reads it, kills the server and waits for the first decision of the next one.
pub fn measure(options: &Options, stop: &Stop) -> Result<Outcome> {
    let is_root = rustix::process::geteuid().is_root();
    let n_users = if is_root { options.amount(1000, 100) } else { 1 };
    let n_jobs = options.amount(100_000, 10_000);
    let mut rig = Rig::up("sim:8xH100-80G", stop)?;
    let at = rig.path("holder").display().to_string();
    let holder = rig.submit(&on_gpus(8, &format!("echo $$ > {at}; exec sleep 1d")))?;
    let holder_pid: u32 = rig.read("holder")?.trim().parse().unwrap_or(0);
    let began = Instant::now();
    for user in 0..n_users {
        stop.check()?;
        submit_as(&rig, is_root.then_some(FIRST_UID + user), n_jobs / n_users)?;
    }
    let submitted = began.elapsed().as_secs_f64();
    let memory = memory_of(rig.server_pid());
    let queue = time_command(&rig, &["queue"])?;
    let last = (n_jobs + 1).to_string();
    let why = time_command(&rig, &["why", &last])?;
    rig.kill();
    kill(holder_pid);
    let began = Instant::now();
    rig.start()?;
    let client = rig.client();
    stop.until("a job is started after the restart", || {
        let jobs = client.status().ok()?.jobs;
        let states = [JobState::Starting, JobState::Running];
        let n_started: u64 = states.iter().filter_map(|state| jobs.get(state.as_str())).sum();
        // The killed job counts until its end is known.
        let holds = client.job(&holder).ok()?.state;
        (n_started > 0 && holds.is_end()).then_some(())
    })?;
    let restart = began.elapsed().as_secs_f64();
    let memory_after = memory_of(rig.server_pid());
    let n_known: u64 = client.status().map_err(Failure::from)?.jobs.values().sum();
    let n_lost = i64::from(n_jobs) - i64::try_from(n_known).unwrap_or(i64::MAX);
    rig.end()?;
    let mb =
        |name, what, bytes: u64| Figure::new(name, what, bytes as f64 / 1e6, "MB").below(300.0);
    let figures = vec![
        Figure::new("100k_lost", "lost jobs", n_lost as f64, "jobs").exactly(0.0),
        Figure::new("100k_submit_s", "submission, one bulk per user", submitted, "s"),
        mb("100k_memory_mb", "server memory", memory),
        Figure::new("100k_queue_ms", "gpool queue", queue, "ms").below(200.0),
        Figure::new("100k_why_ms", "gpool why of the last", why, "ms").below(200.0),
        Figure::new("100k_restart_s", "kill -9, start to first job started", restart, "s")
            .below(2.0),
        mb("100k_memory_after_mb", "server memory after the restart", memory_after),
    ];
    let users = if is_root { "users" } else { "user (only root can be others)" };
    Ok(Outcome::Done {
        did: format!("{n_jobs} jobs of {n_users} {users} wait for 8 GPUs"),
        figures,
    })
}

/// Submits jobs for 1 to 8 GPUs in one call. The server gets the user from the kernel, which takes
/// it from the connecting thread.
fn submit_as(rig: &Rig, uid: Option<u32>, n_jobs: u32) -> Result<()> {
    let mut lines = String::from(
        "{\"defaults\":{\"directory\":\"/\",\"environment\":{\"PATH\":\"/usr/bin:/bin\"}}}\n",
    );
    for n in 0..n_jobs {
        lines += &format!("{{\"command\":[\"sleep\",\"1d\"],\"gpus\":\"{}\"}}\n", n % 8 + 1);
    }
    let socket = rig.socket();
    let submit = || -> Result<()> {
        become_user(uid)?;
        let mut lines = Cursor::new(lines.into_bytes());
        Client::at(&socket).submit_many(&mut lines, Some(&new_key())).map_err(Failure::from)?;
        Ok(())
    };
    std::thread::scope(|scope| scope.spawn(submit).join())
        .unwrap_or_else(|_| Err(failed("a submitter panicked")))
}

/// Makes only this thread act as a user.
pub fn become_user(uid: Option<u32>) -> Result<()> {
    let Some(uid) = uid else { return Ok(()) };
    let uid = rustix::process::Uid::from_raw(uid);
    rustix::thread::set_thread_res_uid(uid, uid, uid)
        .map_err(|error| failed(format!("can't act as another user: {error}")))
}

/// The median of nine runs of a command, in milliseconds.
fn time_command(rig: &Rig, words: &[&str]) -> Result<f64> {
    let once = || -> Result<f64> {
        let began = Instant::now();
        rig.gpool(words)?;
        Ok(began.elapsed().as_secs_f64() * 1000.0)
    };
    Ok(Ranked::of((0..9).map(|_| once()).collect::<Result<_>>()?).percentile(50))
}
