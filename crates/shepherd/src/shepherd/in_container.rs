//! A task's container: the engine's words before those of its program; at its end, why it ended,
//! and its removal. Its processes are gone by then, or those of its engine's client.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::{Duration, Instant};

use gpool_model::agent::TaskEnd;
use gpool_model::job::{EndCause, ExitStatus};
use gpool_sys::pidfd;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, WaitOptions};

use super::Shepherd;
use super::standard_streams::Fds;
use crate::container::{self, ContainerTask, TaskEngine};
use crate::layout::Layout;
use crate::marked;
use crate::message::Launch;

/// The container of a program.
#[derive(Clone)]
pub(super) struct Container {
    pub engine: TaskEngine,
    pub name: String,
}

/// Puts the words of the engine before those of a program that runs in a container.
pub(super) fn container_of(
    launch: &Launch,
    variables: &mut BTreeMap<Vec<u8>, Vec<u8>>,
    words: &mut Vec<String>,
) -> Result<Option<Container>, String> {
    let order = &launch.order;
    let Some(request) = &order.spec.container else { return Ok(None) };
    let engine = launch.engine.clone().ok_or("this node has no engine for containers")?;
    let layout = Layout::new(&launch.state_dir);
    let folder = layout.attempt(order.task());
    let secrets = (!order.spec.secrets.is_empty()).then(|| layout.secrets_of(order.task()));
    let api = launch.api.as_deref().map(Path::new).filter(|path| path.exists());
    let cap = launch.cap.iter().flat_map(|cap| [cap.shim.as_path(), cap.ledger.as_path()]);
    let task = ContainerTask {
        order,
        request,
        state_dir: &launch.state_dir,
        own_paths: [folder.as_path()].into_iter().chain(api).chain(cap).collect(),
        secrets: secrets.as_deref(),
        pids_max: launch.pids_max,
        has_terminal: order.spec.pty.is_some(),
    };
    *words = engine.run(&task, variables, std::mem::take(words));
    Ok(Some(Container { name: container::name(&launch.state_dir, order.task()), engine }))
}

/// How long a command of the engine may take.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long the daemon of an engine may be away at the end of a container, until the container
/// stays behind without processes.
const ABSENCE: Duration = Duration::from_secs(60);
/// The pause between two attempts to remove a container.
const PAUSE: Duration = Duration::from_millis(500);
/// The exit code of a shell for a program that SIGKILL ended.
const KILLED: i32 = 137;

impl Shepherd {
    /// Removes the task's container, and adds to its end whether it ran out of memory.
    pub(super) fn end_container(&self, end: &mut TaskEnd) {
        let container = self.program.as_ref().and_then(|program| program.container());
        let Some(Container { engine, name, .. }) = container else { return };
        let Some(removal) = engine.remove(name) else { return };
        if end.exit == Some(ExitStatus::Code(KILLED))
            && end.cause.is_none()
            && !end.stopped
            && self.ask_engine(engine.ask_oom(name)).is_some_and(|said| said.trim() == "true")
        {
            end.cause = Some(EndCause::Oom);
        }
        let give_up = Instant::now() + ABSENCE;
        // If it fails, the container stays behind under its name, and no process with it.
        while self.ask_engine(removal.clone()).is_none() && engine.has_daemon() {
            // The container goes on without its daemon. Its first process has the mark of the run,
            // and the kernel ends all others with it.
            marked::kill(&self.layout, self.task(), 0);
            if Instant::now() > give_up {
                break;
            }
            std::thread::sleep(PAUSE);
        }
    }

    /// Runs a command of the engine as the job's user; returns its output if it succeeded.
    fn ask_engine(&self, words: Vec<String>) -> Option<String> {
        let program = self.program.as_ref()?.of_engine(words).ok()?;
        let (read, write) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).ok()?;
        let fds = Fds { stdin: None, stdout: Some(&write), stderr: None, terminal: None };
        // Not in the task's control group, where the kernel kills new processes once it was killed.
        let (pid, status_pipe) = self.fork(None, &fds, |setting| program.run(setting)).ok()?;
        drop(write);
        let has_ended = pidfd::open(pid).ok().flatten().is_none_or(|process| {
            let has_ended = wait_for(&process);
            if !has_ended {
                drop(pidfd::signal(&process, Signal::KILL.as_raw()));
            }
            has_ended
        });
        let status = loop {
            match rustix::process::waitpid(Pid::from_raw(pid.cast_signed()), WaitOptions::empty()) {
                Ok(status) => break status,
                Err(rustix::io::Errno::INTR) => {}
                Err(_) => break None,
            }
        };
        // The process writes to it before it becomes the program.
        drop(status_pipe);
        let succeeded = status.is_some_and(|(_, status)| status.exit_status() == Some(0));
        let mut said = String::new();
        let mut output = std::fs::File::from(read);
        std::io::Read::read_to_string(&mut output, &mut said).ok()?;
        (has_ended && succeeded).then_some(said)
    }
}

/// Waits until a process has ended; `false` if that takes too long.
fn wait_for(process: &OwnedFd) -> bool {
    let give_up = Instant::now() + PATIENCE;
    loop {
        let left = give_up.saturating_duration_since(Instant::now());
        let Ok(limit) = Timespec::try_from(left) else { return false };
        match poll(&mut [PollFd::new(process, PollFlags::IN)], Some(&limit)) {
            Ok(n_ready) => return n_ready == 1,
            Err(rustix::io::Errno::INTR) => {}
            Err(_) => return false,
        }
    }
}
