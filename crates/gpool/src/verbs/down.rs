//! `gpool down`: stops the server; jobs go on unless `--now` is given.

use std::io::{BufRead as _, IsTerminal as _};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use clap::Args;
use gpool_cli::errors;
use gpool_cli::exit::Exit;
use gpool_cli::failure::{Failure, Result};
use gpool_cli::render::words::count;
use gpool_cli::resolve::every_job;
use gpool_cli::session::{Session, state_dir};
use gpool_client::life::{is_stopped, pid_of};
use gpool_client::socket::connect;
use gpool_client::{Client, Error, JobsQuery};
use gpool_model::{Millis, parse};
use gpool_wire::{Status, catalogue};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use super::service::{self, ServiceFlags};
use crate::away;

/// Interval of checks whether the server has gone, if the system can't report it.
const LOOK: Duration = Duration::from_millis(20);

/// Time limit for an answer, and for the stop once all jobs have ended.
const PATIENCE: Duration = Duration::from_secs(60);

/// Time limit for a connection that only identifies the server's process.
const CONNECT: Duration = Duration::from_millis(200);

#[derive(Debug, Clone, Copy, Default, Args)]
#[command(after_help = "A server stopped by a signal (SIGSTOP, Ctrl-Z) is continued first. A \
    server that hangs is killed if you confirm it or give --yes: its jobs keep running, and \
    everything that it has answered is stored.")]
pub struct DownArgs {
    /// End all jobs first
    #[arg(long)]
    now: bool,
    /// Kill a server that does not answer without asking; jobs keep running
    #[arg(long)]
    yes: bool,
    /// Time limit for the stop, then exit code 8 (default: 60s, with --now plus the longest grace
    /// period of the jobs)
    #[arg(long, value_name = "TIME", value_parser = parse::span)]
    timeout: Option<Millis>,
    #[command(flatten)]
    service: ServiceFlags,
}

/// Runs the verb; returns when the server has gone.
///
/// # Errors
/// No server answers, it refuses, or it has not gone in time.
pub fn run(args: DownArgs, session: &Session) -> Result {
    if args.service.systemd {
        return service::uninstall(args.service, session);
    }
    session.refuse_remote("down")?;
    let client = session.client().map_err(|failure| unlistened(failure, session))?;
    let timeout = args.timeout.map(|span| Duration::from_millis(span.get()));
    let client = client.with_timeout(Some(timeout.map_or(PATIENCE, |it| it.min(PATIENCE))));
    let status = match status(&client, session)? {
        StatusReply::Answered(status) => status,
        StatusReply::Hangs(server, error) => return kill(&server, &error, args, session),
    };
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
    wait_for_exit(status.pid, &client, timeout.unwrap_or(grace + PATIENCE))?;
    if args.now {
        return ended(&status.state_dir, session);
    }
    let goes_on = match n_jobs {
        0 => "no job is running".to_owned(),
        1 => "1 job keeps running; `gpool up` takes it over again".to_owned(),
        n => format!("{} keep running; `gpool up` takes them over again", count(n, "job")),
    };
    session.screen.note(&format!("stopped; {goes_on}"));
    Ok(Exit::OK)
}

/// The server's answer to a status request.
enum StatusReply {
    Answered(Box<Status>),
    Hangs(ServerProcess, Error),
}

/// Asks the server for its status; continues a server that is stopped by a signal.
fn status(client: &Client, session: &Session) -> Result<StatusReply> {
    let mut is_continued = false;
    loop {
        let error = match client.status() {
            Ok(status) => return Ok(StatusReply::Answered(Box::new(status))),
            Err(error @ (Error::Silent { .. } | Error::TimedOut)) => error,
            Err(error) => return Err(error.into()),
        };
        let Some(server) = ServerProcess::behind(client, session) else { return Err(error.into()) };
        if is_continued || !is_stopped(server.pid) {
            return Ok(StatusReply::Hangs(server, error));
        }
        server.send(Signal::CONT)?;
        let pid = server.pid;
        session
            .screen
            .note(&format!("note: the server (pid {pid}) was stopped by a signal; it continues"));
        is_continued = true;
    }
}

/// Explains that no server listens; a server that starts or hangs early already holds its folder.
fn unlistened(failure: Failure, session: &Session) -> Failure {
    if failure.code() != Some(catalogue::UNREACHABLE) {
        return failure;
    }
    match holder(session) {
        None => failure,
        Some((pid, folder)) => failure
            .why(format!("process {pid} has {folder} open and listens on none of these sockets"))
            .tip(format!("kill {pid}   (stops it, if it is the right server)")),
    }
}

/// The process that holds the lock of the usual state folder, if the caller may see it.
pub fn holder(session: &Session) -> Option<(u32, String)> {
    let folder = state_dir(None).ok()?;
    let lock = folder.join("lock").canonicalize().ok()?;
    let own = std::process::id();
    let pid = gpool_sys::proc::holders_of(&lock).into_iter().find(|pid| *pid != own)?;
    if session.global.verbose > 0 {
        session.screen.note(&format!("lock    {} of process {pid}", lock.display()));
    }
    Some((pid, folder.display().to_string()))
}

/// The process of a server; the handle never refers to another process.
struct ServerProcess {
    pid: u32,
    handle: OwnedFd,
}

impl ServerProcess {
    /// Returns the process that listens on the client's socket, or else the process that holds the
    /// state folder.
    fn behind(client: &Client, session: &Session) -> Option<Self> {
        let listens = || pid_of(connect(client.socket()?, CONNECT).ok()?);
        let pid = listens();
        let found = pid.or_else(|| holder(session).map(|(pid, _)| pid))?;
        let raw = Pid::from_raw(i32::try_from(found).ok()?)?;
        let handle = pidfd_open(raw, PidfdFlags::empty()).ok()?;
        // Checked again: the first process id may have been reused meanwhile.
        (listens() == pid).then_some(Self { pid: found, handle })
    }

    fn send(&self, signal: Signal) -> Result<()> {
        match pidfd_send_signal(&self.handle, signal) {
            Ok(()) | Err(Errno::SRCH) => Ok(()),
            Err(error) => {
                let what = format!("the server (pid {}) does not answer", self.pid);
                let name = if signal == Signal::CONT { "CONT" } else { "KILL" };
                Err(Failure::new(catalogue::NOT_PERMITTED, what)
                    .why(format!("you may not send it a signal: {error}"))
                    .tip(format!("kill -{name} {}   (as its user or root)", self.pid)))
            }
        }
    }
}

/// Kills a server that hangs if the user agrees; no data is lost by that.
fn kill(server: &ServerProcess, error: &Error, args: DownArgs, session: &Session) -> Result {
    let pid = server.pid;
    let what = match error {
        Error::Silent { silence, .. } => silence.to_string(),
        _ => format!("the server (pid {pid}) does not answer"),
    };
    if !args.yes && !may_kill(&what) {
        return Err(Failure::new(errors::NOT_STOPPED, what)
            .why("jobs continue without it, and acknowledged requests are stored")
            .tip("gpool down --yes   (kills it)")
            .tip(kill_9(&pid)));
    }
    server.send(Signal::KILL)?;
    if !is_gone(&server.handle, PATIENCE)? {
        return Err(too_late(pid));
    }
    if args.now {
        return Err(Failure::new(
            errors::NOT_STOPPED,
            "the server was killed, and its jobs keep running",
        )
        .why("a server that hangs can't end jobs")
        .tip("gpool up && gpool down --now"));
    }
    session.screen.note("killed; jobs keep running, `gpool up` takes them over again");
    Ok(Exit::OK)
}

fn may_kill(what: &str) -> bool {
    if !std::io::stdin().is_terminal() || !std::io::stderr().is_terminal() {
        return false;
    }
    eprint!("{what}. Kill it? Its jobs keep running. [y/N] ");
    let mut answer = String::new();
    let read = std::io::stdin().lock().read_line(&mut answer);
    read.is_ok() && matches!(answer.trim(), "y" | "Y" | "yes")
}

fn too_late(pid: u32) -> Failure {
    Failure::new(errors::NOT_STOPPED, format!("the server (pid {pid}) has not stopped yet"))
        .tip("gpool status")
        .tip(kill_9(&pid))
}

/// The command that kills a server that can't be stopped.
fn kill_9(pid: &dyn std::fmt::Display) -> String {
    format!("kill -9 {pid}   (jobs continue, and acknowledged requests are stored)")
}

/// The longest grace period of all jobs that run.
fn longest_grace(client: &Client) -> Result<Duration> {
    let state = Some("starting,running,paused,stopping".to_owned());
    let jobs = every_job(client, &JobsQuery { state, ..JobsQuery::default() })?;
    let seconds = jobs.iter().map(|job| job.request.grace_seconds()).fold(0.0, f64::max);
    Ok(Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX / 2))
}

/// Reports whether all jobs have ended, as far as the caller can see.
fn ended(state_dir: &str, session: &Session) -> Result {
    let found = away::look(Some(state_dir), session);
    let left: Vec<String> = found.runs().map(|left| left.task.job.to_string()).collect();
    match (left.as_slice(), found.unreadable.is_empty()) {
        ([], true) => session.screen.note("stopped; no job is running"),
        ([], false) => session.screen.note("stopped; jobs of other users are not visible"),
        (left, _) => {
            let n = u64::try_from(left.len()).unwrap_or(u64::MAX);
            let did = format!("{} did not end in time: {}", count(n, "job"), left.join(", "));
            return Err(Failure::new(
                errors::NOT_STOPPED,
                "the server has stopped, but some jobs have not",
            )
            .why(did)
            .tip("gpool up   (takes them over again)"));
        }
    }
    Ok(Exit::OK)
}

fn wait_for_exit(pid: u32, client: &Client, timeout: Duration) -> Result<()> {
    let began = Instant::now();
    let raw = i32::try_from(pid).ok().and_then(Pid::from_raw);
    if let Some(handle) = raw.and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok()) {
        return if is_gone(&handle, timeout)? { Ok(()) } else { Err(too_late(pid)) };
    }
    // It has gone, or its process id belongs to another namespace; then only the socket shows it.
    while client.ready().is_ok() {
        if began.elapsed() > timeout {
            return Err(too_late(pid));
        }
        std::thread::sleep(LOOK);
    }
    Ok(())
}

/// Waits until a process has ended; false if it has not in time.
fn is_gone(handle: &OwnedFd, timeout: Duration) -> Result<bool> {
    let began = Instant::now();
    let mut waits = [rustix::event::PollFd::new(handle, rustix::event::PollFlags::IN)];
    loop {
        // A timeout too large for the kernel means no timeout.
        let left = timeout.saturating_sub(began.elapsed()).try_into().ok();
        match rustix::event::poll(&mut waits, left.as_ref()) {
            Ok(n) => return Ok(n > 0),
            Err(Errno::INTR) => {}
            Err(error) => {
                let what = format!("can't wait for the server: {error}");
                return Err(Failure::new(errors::INTERNAL, what));
            }
        }
    }
}
