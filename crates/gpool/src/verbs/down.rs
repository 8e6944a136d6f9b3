//! `gpool down`: stops the server; jobs go on unless asked otherwise.

use std::time::{Duration, Instant};

use clap::Args;
use gpool_client::{Client, Error, JobsQuery};
use gpool_model::{Millis, parse};
use rustix::net::sockopt::socket_peercred;
use rustix::process::Pid;

use super::service::{self, ServiceFlags};
use crate::away;
use crate::errors;
use crate::exit::Exit;
use crate::failure::{Failure, Result};
use crate::render::words::count;
use crate::resolve::every_job;
use crate::session::Session;

/// Between two looks whether the server has gone, where the system can't tell by itself.
const LOOK: Duration = Duration::from_millis(20);

/// How long the server may take to answer, and to stop once no job has to be ended.
const PATIENCE: Duration = Duration::from_secs(60);

/// Stop the server; jobs go on
#[derive(Debug, Clone, Copy, Default, Args)]
pub struct DownArgs {
    /// End all jobs first
    #[arg(long)]
    now: bool,
    /// Give up waiting after that time (exit code 8); by default 60s, with --now beyond the longest
    /// grace of the jobs
    #[arg(long, value_name = "TIME", value_parser = parse::span)]
    timeout: Option<Millis>,
    #[command(flatten)]
    service: ServiceFlags,
}

/// Runs it; returns when the server has gone.
///
/// # Errors
/// No server answers, it refuses, or it has not gone in time.
pub fn run(args: DownArgs, session: &Session) -> Result {
    if args.service.systemd {
        return service::uninstall(args.service, session);
    }
    let client = session.client()?.with_timeout(Some(PATIENCE));
    let status = client.status().map_err(|error| unanswered(error, &client))?;
    let grace = if args.now { longest_grace(&client)? } else { Duration::ZERO };
    client.shutdown(args.now)?;
    let n_jobs: u64 = status
        .jobs
        .iter()
        .filter(|(state, _)| matches!(state.as_str(), "starting" | "running" | "stopping"))
        .map(|(_, n)| n)
        .sum();
    if args.now && n_jobs > 0 {
        session.screen.note(&format!("ending {}", count(n_jobs, "job")));
    }
    let timeout = args.timeout.map(|span| Duration::from_millis(span.get()));
    wait_until_gone(status.pid, &client, timeout.unwrap_or(grace + PATIENCE))?;
    if args.now {
        return ended(&status.state_dir, session);
    }
    let goes_on = match n_jobs {
        0 => "no job runs".to_owned(),
        1 => "1 job goes on; `gpool up` takes it over again".to_owned(),
        n => format!("{} go on; `gpool up` takes them over again", count(n, "job")),
    };
    session.screen.note(&format!("stopped; {goes_on}"));
    Ok(Exit::OK)
}

/// A server that hangs can only be killed, which is safe.
fn unanswered(error: Error, client: &Client) -> Failure {
    let stream = std::os::unix::net::UnixStream::connect(client.socket());
    let pid = stream.and_then(|it| Ok(socket_peercred(&it)?.pid.as_raw_nonzero()));
    match (error, pid) {
        (Error::TimedOut, Ok(pid)) => {
            let what = format!("the server (pid {pid}) does not answer");
            Failure::new(errors::NOT_STOPPED, what).tip(kill(&pid))
        }
        (error, _) => error.into(),
    }
}

/// How a server is ended that can't be stopped.
fn kill(pid: &dyn std::fmt::Display) -> String {
    format!("kill -9 {pid}   (jobs go on, nothing that was answered is lost)")
}

/// The longest time that a job which runs may take to end.
fn longest_grace(client: &Client) -> Result<Duration> {
    let state = Some("starting,running,paused,stopping".to_owned());
    let jobs = every_job(client, &JobsQuery { state, ..JobsQuery::default() })?;
    let seconds = jobs.iter().map(|job| job.grace).fold(0.0, f64::max);
    Ok(Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX / 2))
}

/// Says whether all jobs have ended, as far as the caller can see.
fn ended(state_dir: &str, session: &Session) -> Result {
    let found = away::look(Some(state_dir), session);
    let left: Vec<String> = found.runs().map(|left| left.task.job.to_string()).collect();
    match (left.as_slice(), found.unreadable.is_empty()) {
        ([], true) => session.screen.note("stopped; no job runs"),
        ([], false) => session.screen.note("stopped; jobs of other users can't be seen from here"),
        (left, _) => {
            let n = u64::try_from(left.len()).unwrap_or(u64::MAX);
            let did = format!("{} did not end in time: {}", count(n, "job"), left.join(", "));
            return Err(Failure::new(
                errors::NOT_STOPPED,
                "the server has stopped, its jobs not all",
            )
            .why(did)
            .tip("gpool up   (takes them over again)"));
        }
    }
    Ok(Exit::OK)
}

fn wait_until_gone(pid: u32, client: &Client, timeout: Duration) -> Result<()> {
    let began = Instant::now();
    let too_late = || {
        Failure::new(errors::NOT_STOPPED, format!("the server (pid {pid}) has not stopped yet"))
            .tip("gpool status")
            .tip(kill(&pid))
    };
    let handle = i32::try_from(pid).ok().and_then(Pid::from_raw).and_then(|pid| {
        rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty()).ok()
    });
    if let Some(handle) = handle {
        let mut waits = [rustix::event::PollFd::new(&handle, rustix::event::PollFlags::IN)];
        loop {
            // A time that is too long to be told to the kernel is none.
            let left = timeout.saturating_sub(began.elapsed()).try_into().ok();
            match rustix::event::poll(&mut waits, left.as_ref()) {
                Ok(0) => return Err(too_late()),
                Ok(_) => return Ok(()),
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => {
                    let what = format!("can't wait for the server: {error}");
                    return Err(Failure::new(errors::INTERNAL, what));
                }
            }
        }
    }
    // It has gone already, or it lives where its number means nothing: then its socket tells.
    while client.ready().is_ok() {
        if began.elapsed() > timeout {
            return Err(too_late());
        }
        std::thread::sleep(LOOK);
    }
    Ok(())
}
