//! `salloc`: allocates resources, runs a local command or shell in which `srun` uses them, and
//! releases them.

use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, Command};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use gpool_cli::act::cancel_living;
use gpool_cli::errors;
use gpool_cli::exit::Exit;
use gpool_cli::failure::{Failure, Result};
use gpool_cli::foreign::flag::ParsedArgs;
use gpool_cli::foreign::slurm::flags::SALLOC;
use gpool_cli::foreign::slurm::parts::refuse_colon;
use gpool_cli::foreign::slurm::translate::{translate_over, without_replaced};
use gpool_cli::hand_in::{hand_in, say};
use gpool_cli::request::{self, Request};
use gpool_cli::session::Session;
use gpool_client::Client;
use gpool_wire::frame::{Frame, Frames};
use gpool_wire::{ExecInJob, Job};
use rustix::process::{Pid, Signal, kill_process};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::iterator::Signals;

use super::{input_variables, origin};
use crate::shim::read;

/// The variables that describe the first task, if there is one.
const OF_TASK: [&str; 5] =
    ["SLURM_PROCID", "SLURM_LOCALID", "SLURM_NODEID", "SLURM_GTIDS", "SLURMD_NODENAME"];

/// Time for the command to end after TERM, HUP or QUIT, before its allocation does.
const GRACE: Duration = Duration::from_secs(10);

/// Runs the command.
pub fn run(words: &[String], session: &Session) -> Result {
    let Some(args) = read(&SALLOC, words, session)? else { return Ok(Exit::OK) };
    refuse_colon("salloc", &args.words)?;
    let mut request = request(&args)?;
    request.job.origin = Some(origin::of("salloc", words, None));
    let client = session.client()?;
    request.resolve(&client, session)?;
    if !args.has("quiet") {
        say(&request, session);
    }
    let (tell, happenings) = channel();
    catch_signals(tell.clone())?;
    let job = hand_in(&client, &request)?;
    let note = |text: &str| {
        if !args.has("quiet") {
            session.screen.note(&format!("salloc: {text}"));
        }
    };
    let client = session.patient(client);
    watch(client.clone(), job.id.clone(), tell.clone());
    let id = &job.id;
    if job.run.started_at.is_none() {
        note(&format!("Pending job allocation {id}"));
    }
    if let Some(exit) = until_granted(&client, id, &happenings)? {
        return Ok(exit);
    }
    note(&format!("Granted job allocation {id}"));
    if args.has("no-shell") {
        return Ok(Exit::OK);
    }
    let ended = with_command(&client, id, &args, (&tell, &happenings), session);
    note(&format!("Relinquishing job allocation {id}"));
    cancel_living(&client, std::slice::from_ref(id))?;
    ended
}

fn request(args: &ParsedArgs) -> Result<Request> {
    let variables = without_replaced(input_variables::of_batch("SALLOC_"), &args.flags);
    let mut translation = translate_over(&args.flags, &variables)?;
    let of_variables = translate_over(&variables, &[])?;
    let flags = translation.flags()?.or(of_variables.flags()?);
    translation.join(of_variables, "SALLOC_ variables");
    let flags = flags.or(gpool_cli::flags::from_variables(request::text_variables())?);
    let mut request = request::of_brought(flags, &translation, |_| None)?;
    request.job.name.get_or_insert_with(|| "interactive".to_owned());
    // Without a command, its tasks only hold the resources.
    request.job.launcher.get_or_insert(1);
    request.job.compat.push("slurm".to_owned());
    Ok(request)
}

enum Happening {
    Changed(Box<Job>),
    Signal(i32),
    /// The local command has ended with this exit code.
    Ended(u8),
    Lost(Failure),
}

fn catch_signals(tell: Sender<Happening>) -> Result<()> {
    let mut signals = Signals::new([SIGINT, SIGQUIT, SIGTERM, SIGHUP])
        .map_err(|error| Failure::new(errors::INTERNAL, format!("can't catch signals: {error}")))?;
    std::thread::spawn(move || {
        for signal in signals.forever() {
            if tell.send(Happening::Signal(signal)).is_err() {
                return;
            }
        }
    });
    Ok(())
}

/// Reports changes of the job until it has ended.
fn watch(client: Client, id: String, tell: Sender<Happening>) {
    let look = {
        let (client, id, tell) = (client.clone(), id.clone(), tell.clone());
        move || -> std::result::Result<bool, gpool_client::Error> {
            let job = client.job(&id)?;
            let has_ended = job.state.is_end();
            Ok(tell.send(Happening::Changed(Box::new(job))).is_err() || has_ended)
        }
    };
    let follow = move || -> std::result::Result<(), gpool_client::Error> {
        // Subscribes before the first request, so that no change is missed.
        let events = client.events(None)?;
        if look()? {
            return Ok(());
        }
        for event in events {
            if event?.kind.may_concern(&id) && look()? {
                return Ok(());
            }
        }
        Ok(())
    };
    std::thread::spawn(move || {
        if let Err(error) = follow() {
            let _ = tell.send(Happening::Lost(error.into()));
        }
    });
}

/// Waits until the job runs; returns an exit code if it never will.
fn until_granted(
    client: &Client,
    id: &String,
    happenings: &Receiver<Happening>,
) -> Result<Option<Exit>> {
    loop {
        match happenings.recv().map_err(|_| nobody())? {
            Happening::Changed(job) if job.state.is_end() => {
                let what = format!("salloc: job {id} ended before it started");
                let why = job.run.cause_text.unwrap_or_else(|| job.state.as_str().to_owned());
                return Err(Failure::new(errors::EXEC_NOT_STARTED, what).why(why));
            }
            Happening::Changed(job) if job.run.started_at.is_some() => return Ok(None),
            Happening::Signal(number) => {
                cancel_living(client, std::slice::from_ref(id))?;
                return Ok(Some(Exit(u8::try_from(128 + number).unwrap_or(u8::MAX))));
            }
            Happening::Lost(failure) => return Err(failure),
            Happening::Changed(_) | Happening::Ended(_) => {}
        }
    }
}

/// Runs the command, or a shell, and waits for its end.
fn with_command(
    client: &Client,
    id: &str,
    args: &ParsedArgs,
    (tell, happenings): (&Sender<Happening>, &Receiver<Happening>),
    session: &Session,
) -> Result {
    let folder = tempfile::tempdir().map_err(|error| {
        Failure::new(errors::INTERNAL, format!("salloc: can't create a folder: {error}"))
    })?;
    let shell = || std::env::var("SHELL").ok().filter(|shell| !shell.is_empty());
    let words = match &args.words[..] {
        [] => vec![shell().unwrap_or_else(|| "/bin/sh".to_owned())],
        words => words.to_vec(),
    };
    let mut child = Command::new(&words[0])
        .args(&words[1..])
        .envs(variables_of(client, id)?)
        .env(gpool_step::ALLOCATION, id)
        .env(gpool_step::STEPS, folder.path())
        .spawn()
        .map_err(|error| {
            let what = format!("salloc: can't run {}: {error}", words[0]);
            Failure::new(errors::EXEC_NOT_STARTED, what).exit_with(Exit(127))
        })?;
    let pid = Pid::from_child(&child);
    let tell = tell.clone();
    std::thread::spawn(move || drop(tell.send(Happening::Ended(code(&mut child)))));
    let kill = args.has("kill-command").then(|| kill_signal(args));
    // When the allocation ends although the command does not: shells ignore TERM.
    let mut over_at: Option<(Instant, i32)> = None;
    loop {
        let happening = match over_at {
            None => happenings.recv().map_err(|_| nobody())?,
            Some((at, signal)) => {
                match happenings.recv_timeout(at.saturating_duration_since(Instant::now())) {
                    Ok(happening) => happening,
                    Err(_) => {
                        let _ = kill_process(pid, Signal::HUP);
                        return Ok(Exit(u8::try_from(128 + signal).unwrap_or(u8::MAX)));
                    }
                }
            }
        };
        match happening {
            Happening::Ended(code) => return Ok(Exit(code)),
            Happening::Changed(job) if job.state.is_end() => {
                session.screen.note(&format!("salloc: Job allocation {id} has been revoked."));
                if let Some(signal) = kill {
                    let _ = kill_process(pid, signal);
                }
            }
            Happening::Signal(signal @ (SIGTERM | SIGHUP | SIGQUIT)) => {
                // The keys of a terminal reach the command directly.
                if signal != SIGQUIT
                    && let Some(signal) = Signal::from_named_raw(signal)
                {
                    let _ = kill_process(pid, signal);
                }
                over_at.get_or_insert_with(|| (Instant::now() + GRACE, signal));
            }
            Happening::Signal(_) | Happening::Changed(_) => {}
            Happening::Lost(failure) => session.screen.warn(failure.what()),
        }
    }
}

fn code(child: &mut Child) -> u8 {
    let status = child.wait();
    let code = status
        .map_or(1, |status| status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0)));
    u8::try_from(code.clamp(0, 255)).unwrap_or(u8::MAX)
}

/// The signal for the command when the allocation ends.
fn kill_signal(args: &ParsedArgs) -> Signal {
    let named = args.value("kill-command").unwrap_or_default().trim_start_matches("SIG");
    let number = gpool_wire::signal::number(&named.into()).ok();
    number.and_then(Signal::from_named_raw).unwrap_or(Signal::HUP)
}

/// The variables that describe a job in its own environment.
fn variables_of(client: &Client, id: &str) -> Result<Vec<(String, String)>> {
    let command = ["env", "-0"].map(str::to_owned).to_vec();
    let exec =
        ExecInJob { command, pty: None, directory: None, environment: [].into(), rank: None };
    let line = client.exec(id, &exec)?;
    let lost = || {
        Failure::new(errors::CONNECTION_LOST, format!("salloc: job {id} can't be reached"))
            .tip(format!("gpool show {id}"))
    };
    let mut frames = Frames::default();
    frames.push(&line.early);
    let (mut bytes, mut buffer) = (Vec::new(), vec![0; 32 * 1024]);
    'read: loop {
        while let Ok(Some(frame)) = frames.next_frame() {
            match frame {
                Frame::Output(part) => bytes.extend(part),
                Frame::Exit(0) => break 'read,
                Frame::Exit(_) | Frame::NotStarted(_) => return Err(lost()),
                _ => {}
            }
        }
        match line.vigil.read(&line.stream, &mut buffer, None) {
            Ok(n_read @ 1..) => frames.push(&buffer[..n_read]),
            Ok(_) | Err(_) => return Err(lost()),
        }
    }
    let entries = bytes.split(|byte| *byte == 0).filter_map(|entry| {
        let (name, value) = std::str::from_utf8(entry).ok()?.split_once('=')?;
        let is_wanted = ["SLURM", "SRUN_", "MASTER_", "GPOOL_LAUNCHER", "GPOOL_TASK_NODES"]
            .iter()
            .any(|start| name.starts_with(start))
            || matches!(name, "CUDA_VISIBLE_DEVICES" | "NVIDIA_VISIBLE_DEVICES");
        let is_it = is_wanted && !OF_TASK.contains(&name);
        is_it.then(|| (name.to_owned(), value.to_owned()))
    });
    Ok(entries.collect())
}

fn nobody() -> Failure {
    Failure::new(errors::INTERNAL, "everything that listened ended")
}
