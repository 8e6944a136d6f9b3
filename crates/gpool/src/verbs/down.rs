//! `gpool down`: stops the server; jobs go on unless asked otherwise.

use std::time::{Duration, Instant};

use clap::Args;
use gpool_client::Client;
use gpool_model::{Millis, parse};
use rustix::process::Pid;

use super::service::{self, ServiceFlags};
use crate::errors;
use crate::exit::Exit;
use crate::failure::{Failure, Result};
use crate::render::words::count;
use crate::session::Session;

/// Between two looks whether the server has gone, where the system can't tell by itself.
const LOOK: Duration = Duration::from_millis(20);

/// Stop the server; jobs go on
#[derive(Debug, Clone, Copy, Default, Args)]
pub struct DownArgs {
    /// End all jobs first
    #[arg(long)]
    now: bool,
    /// Give up waiting after that time (exit code 8)
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
    let client = session.client()?;
    let status = client.status()?;
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
    wait_until_gone(
        status.pid,
        &client,
        args.timeout.map(|span| Duration::from_millis(span.get())),
    )?;
    let goes_on = match (args.now, n_jobs) {
        (true, _) | (false, 0) => "no job runs".to_owned(),
        (false, 1) => "1 job goes on; `gpool up` takes it over again".to_owned(),
        (false, n) => format!("{} go on; `gpool up` takes them over again", count(n, "job")),
    };
    session.screen.note(&format!("stopped; {goes_on}"));
    Ok(Exit::OK)
}

fn wait_until_gone(pid: u32, client: &Client, timeout: Option<Duration>) -> Result<()> {
    let began = Instant::now();
    let too_late = || {
        Failure::new(errors::NOT_STOPPED, format!("the server (pid {pid}) has not stopped yet"))
            .tip("gpool status")
    };
    let handle = i32::try_from(pid).ok().and_then(Pid::from_raw).and_then(|pid| {
        rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty()).ok()
    });
    if let Some(handle) = handle {
        let mut waits = [rustix::event::PollFd::new(&handle, rustix::event::PollFlags::IN)];
        loop {
            let left = timeout.map(|timeout| timeout.saturating_sub(began.elapsed()));
            let left = left.and_then(|left| left.try_into().ok());
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
        if timeout.is_some_and(|timeout| began.elapsed() > timeout) {
            return Err(too_late());
        }
        std::thread::sleep(LOOK);
    }
    Ok(())
}
