//! A step of one process in the task of `srun`. The process inherits terminal, files and process
//! group of `srun`, which stays only to measure it.

use std::os::unix::process::CommandExt as _;
use std::process::Command;
use std::sync::mpsc::channel;

use gpool_cli::errors;
use gpool_cli::exit::Exit;
use gpool_cli::failure::{Failure, Result};
use gpool_cli::session::Session;
use gpool_sys::signal;
use rustix::process::{Pid, PidfdFlags, Signal, getppid, pidfd_open, pidfd_send_signal};

use crate::record::{self, Started};
use crate::turns::Turn;
use crate::watch::{self, Happening};

/// Runs the process and records the step.
pub fn run(mut command: Command, turn: &Turn, started: Started, session: &Session) -> Result {
    let program = command.get_program().to_string_lossy().into_owned();
    let failed = |error: std::io::Error| {
        let what = format!("srun: can't run {program}: {error}");
        Err(Failure::new(errors::EXEC_NOT_STARTED, what).exit_with(Exit(127)))
    };
    let parent = getppid().and_then(|parent| u32::try_from(parent.as_raw_nonzero().get()).ok());
    if parent.is_some_and(watch::is_shepherd) {
        // Here `srun` is the task's program, and the task is measured: its record is the step's.
        turn.hand_on();
        return failed(command.exec());
    }
    let (tell, happenings) = channel();
    watch::catch_signals(tell.clone())?;
    signal::keep_ended_children();
    signal::unblock_in(&mut command);
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(error) => return failed(error),
    };
    let process = pidfd_open(Pid::from_child(&child), PidfdFlags::empty());
    std::thread::spawn(move || tell.send(Happening::Part(0, watch::code(&mut child))));
    let code = loop {
        match happenings.recv() {
            Ok(Happening::Part(_, code)) => break code,
            // A terminal and a shepherd signal all processes themselves.
            Ok(Happening::Signal(number, from)) if from != 0 && !watch::is_shepherd(from) => {
                if let (Ok(process), Some(signal)) = (&process, Signal::from_named_raw(number)) {
                    let _ = pidfd_send_signal(process, signal);
                }
            }
            Ok(_) => {}
            Err(_) => break 1,
        }
    };
    record::write(&started.line(i32::from(code), record::usage_of_children()), session);
    Ok(Exit(code))
}
