//! The part of a step in a task of the job: starts the processes that `srun` sends, forwards
//! signals and reports their ends. It runs beside the task; `srun` starts it itself for its own
//! task. It needs no server, so a step survives a restart of the server.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use base64::prelude::{BASE64_STANDARD, Engine as _};
use clap::Args;
use gpool_cli::errors;
use gpool_cli::exit::Exit;
use gpool_cli::failure::{Failure, Result};
use gpool_sys::signal;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::iterator::Signals;

use crate::pmi::Pmi;
use crate::remote::{self, Remote};
use crate::wire::{self, FromHost, Hello, Start, StartProcess, ToHost};
use crate::{bridge, record};

/// Grace period of processes after their `srun` has gone.
const GRACE: Duration = Duration::from_secs(10);

/// The most bytes of PMI that one process may send: it puts a few keys.
const PMI_BYTES_MAX: u64 = 64 << 20;

/// Start processes of a step; only srun calls this
#[derive(Debug, Clone, Args)]
pub struct StepHostArgs {
    /// Socket of srun
    name: String,
    /// Rank of the task
    rank: u32,
    /// Addresses of srun, if it may be on another machine
    addresses: Vec<SocketAddr>,
}

/// Runs the verb.
///
/// # Errors
/// `srun` has gone, or is not trustworthy.
pub fn run(args: &StepHostArgs) -> Result {
    // `srun` blocks the signals that it reads as data; the processes must not inherit that.
    signal::reset();
    signal::ignore(Signal::PIPE.as_raw());
    // Signals of a terminal, a closed connection or the end of the job are meant for the processes.
    // They are caught and not ignored, since processes would inherit ignored signals.
    let caught = Signals::new([SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2]);
    let _caught = caught
        .map_err(|error| Failure::new(errors::INTERNAL, format!("can't catch signals: {error}")))?;
    match serve(args) {
        Ok(()) => Ok(Exit::OK),
        // The other end failed, and has reported it.
        Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => Ok(Exit::FAILED),
        Err(error) => {
            let what = format!("lost the connection to srun: {error}");
            Err(Failure::new(errors::CONNECTION_LOST, what))
        }
    }
}

fn serve(args: &StepHostArgs) -> std::io::Result<()> {
    let stream = connect(args)?;
    wire::send(&stream, &Hello { rank: args.rank, gpus: visible_gpus() })?;
    let start: Start = wire::receive(&stream)?;
    let n = start.processes.len();
    let fds: Vec<[OwnedFd; 3]> =
        (0..n).map(|_| wire::receive_three(&stream)).collect::<std::io::Result<_>>()?;
    let stream = Arc::new(stream);
    let running = Running::default();
    let environment = environment(&start);
    let mut waiting = Vec::new();
    let mut pmi = PmiStreams::new();
    for (process, fds) in start.processes.iter().zip(fds) {
        let rank = process.rank;
        let ends = if start.has_pmi { Some(UnixStream::pair()?) } else { None };
        let (own, theirs) = ends.unzip();
        match spawn(&start, &environment, process, (fds, theirs)) {
            Err(error) => {
                let program = process.command.first().map_or("", String::as_str);
                let why = format!("can't run {program}: {error}");
                wire::send(&stream, &FromHost::NotStarted(rank, why))?;
            }
            Ok(child) => {
                running.add(&child);
                if let Some(own) = own {
                    pmi.insert(rank, own.try_clone()?);
                    let (running, stream) = (running.clone(), Arc::clone(&stream));
                    std::thread::spawn(move || carry_pmi(rank, own, &running, &stream));
                }
                let (running, stream) = (running.clone(), Arc::clone(&stream));
                waiting.push(std::thread::spawn(move || {
                    let code = running.wait(child);
                    // If srun has gone, there is no reader.
                    let _ = running.say(&stream, &FromHost::Ended(rank, code));
                }));
            }
        }
    }
    let (tell, gone) = channel();
    {
        let (running, stream) = (running.clone(), Arc::clone(&stream));
        std::thread::spawn(move || hear(&stream, &running, &pmi, &tell));
    }
    waiting.into_iter().for_each(|thread| drop(thread.join()));
    let _ = running.say(&stream, &FromHost::Used(record::usage_of_children()));
    let _ = gone.recv();
    Ok(())
}

/// Connects to `srun`: beside this program, or on another machine.
fn connect(args: &StepHostArgs) -> std::io::Result<UnixStream> {
    let mut error = match UnixStream::connect_addr(&wire::address(&args.name)?) {
        Ok(stream) if wire::is_trusted(&stream) => return Ok(stream),
        Ok(_) => std::io::ErrorKind::PermissionDenied.into(),
        Err(error) => error,
    };
    let token = std::env::var(remote::TOKEN).unwrap_or_default();
    for address in &args.addresses {
        match Remote::connect(address, &token) {
            Ok(remote) => return bridge::at_host(remote),
            Err(why) => error = std::io::Error::new(why.kind(), format!("{address}: {why}")),
        }
    }
    Err(error)
}

/// The connections for PMI, by the rank of their process.
type PmiStreams = BTreeMap<u32, UnixStream>;

/// Passes on the requests of a process until it closes its connection.
fn carry_pmi(rank: u32, requests: UnixStream, running: &Running, stream: &UnixStream) {
    for line in
        BufReader::new(requests.take(PMI_BYTES_MAX)).lines().map_while(std::result::Result::ok)
    {
        if running.say(stream, &FromHost::Pmi(rank, line)).is_err() {
            return;
        }
    }
}

/// Carries out the messages of `srun`. When `srun` has gone, reports that and ends all processes.
fn hear(stream: &UnixStream, running: &Running, pmi: &PmiStreams, tell: &Sender<()>) {
    while let Ok(said) = wire::receive(stream) {
        match said {
            ToHost::Signal(number) => running.signal(number),
            ToHost::Pmi(rank, line) => {
                // The process may have ended.
                let answer =
                    |mut stream: &UnixStream| stream.write_all(format!("{line}\n").as_bytes());
                drop(pmi.get(&rank).map(answer));
            }
            ToHost::Record(line) => {
                if let Err(error) = record::append(&line) {
                    let _ = running.say(stream, &FromHost::NotRecorded(error.to_string()));
                }
                // `srun` waits until the connection is closed.
                let _ = stream.shutdown(Shutdown::Both);
            }
        }
    }
    let _ = tell.send(());
    running.signal(Signal::TERM.as_raw());
    running.signal(Signal::CONT.as_raw());
    std::thread::sleep(GRACE);
    running.signal(Signal::KILL.as_raw());
}

/// The GPUs that are visible here.
fn visible_gpus() -> Vec<String> {
    let all = std::env::var("CUDA_VISIBLE_DEVICES").unwrap_or_default();
    all.split(',').filter(|gpu| !gpu.is_empty()).map(str::to_owned).collect()
}

/// Whether a variable describes the task of a process, so that `srun`'s value does not apply.
fn is_of_task(name: &[u8]) -> bool {
    (name.starts_with(b"GPOOL_") && name != remote::TOKEN.as_bytes())
        || [
            &b"CUDA_VISIBLE_DEVICES"[..],
            b"NVIDIA_VISIBLE_DEVICES",
            b"SLURMD_NODENAME",
            b"SLURM_JOB_GPUS",
            b"SLURM_GPUS_ON_NODE",
            b"SLURM_CPUS_ON_NODE",
        ]
        .contains(&name)
}

/// The environment of `srun`, with the variables of this task.
fn environment(start: &Start) -> Vec<(Vec<u8>, Vec<u8>)> {
    let bytes = BASE64_STANDARD.decode(&start.environment).unwrap_or_default();
    let entries = bytes.split(|byte| *byte == 0).filter_map(|entry| {
        let at = entry.iter().position(|byte| *byte == b'=')?;
        Some((entry[..at].to_vec(), entry[at + 1..].to_vec()))
    });
    let theirs: Vec<(Vec<u8>, Vec<u8>)> = entries.filter(|(name, _)| !is_of_task(name)).collect();
    let own = std::env::vars_os()
        .map(|(name, value)| (name.as_encoded_bytes().to_vec(), value.as_encoded_bytes().to_vec()));
    // The job's variables come from srun if it has them; outside of the job it has none.
    let is_missing = |name: &[u8]| theirs.iter().all(|(theirs, _)| theirs != name);
    let own: Vec<_> = own
        .filter(|(name, _)| {
            let is_of_job = name.starts_with(b"SLURM_") || name.starts_with(b"MASTER_");
            is_of_task(name) || (is_of_job && is_missing(name))
        })
        .collect();
    theirs.into_iter().chain(own).collect()
}

fn spawn(
    start: &Start,
    environment: &[(Vec<u8>, Vec<u8>)],
    process: &StartProcess,
    ([stdin, stdout, stderr], pmi): ([OwnedFd; 3], Option<UnixStream>),
) -> std::io::Result<Child> {
    let variables = pmi.as_ref().map(|stream| {
        // No other process is started before this end is closed.
        let flags = rustix::io::FdFlags::empty();
        let fd = stream.as_raw_fd();
        rustix::io::fcntl_setfd(stream, flags)
            .map(|()| Pmi::variables(process.rank, start.n_processes, fd))
    });
    let variables = variables.transpose()?.into_iter().flatten();
    let all = environment.iter().map(|(n, v)| (OsStr::from_bytes(n), OsStr::from_bytes(v)));
    let (program, arguments) =
        process.command.split_first().ok_or(std::io::ErrorKind::InvalidInput)?;
    Command::new(program)
        .args(arguments)
        .env_clear()
        .envs(all)
        .envs(process.variables.iter().map(|(name, value)| (name, value)))
        .envs(variables)
        .current_dir(&start.directory)
        .stdin(Stdio::from(stdin))
        .stdout(Stdio::from(stdout))
        .stderr(Stdio::from(stderr))
        // In its own process group, so that a signal reaches all its children.
        .process_group(0)
        .spawn()
}

/// The processes that were not reaped yet, so their ids are still valid.
#[derive(Clone, Default)]
struct Running(Arc<Mutex<Vec<Pid>>>);

impl Running {
    fn all(&self) -> std::sync::MutexGuard<'_, Vec<Pid>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, child: &Child) {
        self.all().push(Pid::from_child(child));
    }

    /// Waits for a process and returns its exit code.
    fn wait(&self, mut child: Child) -> i32 {
        let pid = Pid::from_child(&child);
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        // The process stays a zombie until it is off the list.
        let _ = rustix::io::retry_on_intr(|| rustix::process::waitid(WaitId::Pid(pid), options));
        let mut all = self.all();
        all.retain(|other| *other != pid);
        let status = child.wait();
        drop(all);
        status.map_or(-1, |status| {
            status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0))
        })
    }

    fn signal(&self, number: i32) {
        let Some(signal) = Signal::from_named_raw(number) else { return };
        for pid in &*self.all() {
            let _ = rustix::process::kill_process_group(*pid, signal);
        }
    }

    /// Sends a message; threads take turns.
    fn say(&self, stream: &UnixStream, what: &FromHost) -> std::io::Result<()> {
        let _turn = self.all();
        wire::send(stream, what)
    }
}
