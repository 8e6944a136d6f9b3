//! From a claim to a process: prepares everything, then forks. Also forks further processes of the
//! task.

use std::convert::Infallible;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use gpool_model::JobSpec;
use gpool_model::agent::{LaunchContext, TaskEnd};
use gpool_model::job::{EndCause, Usage};
use gpool_model::unit::Bytes;
use gpool_output::file_name;
use gpool_sys::cgroup::{Group, Limits};
use gpool_sys::{child, user};
use rustix::pipe::{PipeFlags, pipe_with};

use super::files::{give, make_folder, write_file, write_script};
use super::output::{Order, Stream, Target};
use super::standard_streams::Fds;
use super::start::{Program, Setting};
use super::tree::Tree;
use super::{Shepherd, now, terminal};
use crate::environment::{Surroundings, environment};
use crate::layout::{HOST_FILE, claim_name};
use crate::message::Launch;
use crate::rendezvous::{TaskPosition, host_file};
use crate::secrets::{self, NamedSecret};

/// The agent's first message.
pub(super) struct FirstMessage {
    pub launch: Launch,
    pub content: LaunchContent,
}

/// The bytes after the announcement of a task.
pub(super) struct LaunchContent {
    context: Vec<u8>,
    script: Option<Vec<u8>>,
    secrets: Vec<NamedSecret>,
}

impl FirstMessage {
    pub fn read(input: &mut impl io::BufRead) -> io::Result<Self> {
        let mut line = Vec::new();
        input.read_until(b'\n', &mut line)?;
        let launch: Launch = serde_json::from_slice(&line).map_err(io::Error::other)?;
        let mut bytes = |length| {
            let mut bytes = vec![0; length];
            input.read_exact(&mut bytes).map(|()| bytes)
        };
        let context = bytes(launch.context_bytes)?;
        let script = launch.script_bytes.map(&mut bytes).transpose()?;
        let secrets =
            launch.secrets.iter().map(|(name, length)| Ok((name.clone(), bytes(*length)?)));
        let secrets = secrets.collect::<io::Result<_>>()?;
        Ok(Self { launch, content: LaunchContent { context, script, secrets } })
    }
}

/// The child's ends of the program's output.
struct ChildEnds {
    stdout: Option<OwnedFd>,
    stderr: Option<OwnedFd>,
    terminal: Option<OwnedFd>,
}

impl Shepherd {
    /// Prepares everything and forks.
    pub(super) fn start(&mut self, content: LaunchContent) -> Result<(), String> {
        let LaunchContent { context, script, secrets } = content;
        self.context = read_context(&context)?;
        let task = self.task();
        let spec = std::sync::Arc::clone(&self.launch.order.spec);
        let own = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
        // For the agent's own user nothing changes; looking up an account costs milliseconds.
        let owner =
            Some((spec.owner.uid, spec.owner.gid)).filter(|owner| own.0 == 0 && *owner != own);
        let folder = self.layout.attempt(task);
        make_folder(&self.layout, &folder)?;
        self.owner = owner;
        self.order = Order::new(Target::new(self.layout.order(task), owner));
        let holds = self.holds();
        let ChildEnds { stdout, stderr, terminal } = self.open_ends(&spec, holds)?;
        let script = script.map(|bytes| {
            let path = folder.join(file_name("script", task));
            write_script(&path, &bytes, owner).map(|()| path)
        });
        let script = script.transpose()?;
        give(&folder, owner, 0o700)?;
        if !secrets.is_empty() {
            secrets::write(&self.layout, &claim_name(task), owner, &secrets)?;
        }
        let secret_files = self.secret_files();
        if !self.launch.memory.is_empty() {
            self.show_memory(&self.launch.memory);
        }
        let program = self.prepare_launcher(&folder)?;
        let switched_to =
            owner.filter(|(uid, _)| *uid != 0).and_then(|(uid, _)| user::account(uid));
        let surroundings = Surroundings {
            inherited: &self.context.environment,
            switched_to: switched_to.as_ref(),
            folder: &folder,
            program: program.as_deref(),
            api: self.launch.api.as_deref(),
            trace: self.launch.trace.as_deref(),
            gpu_memory: self.launch.gpu_memory,
            cap: self.launch.cap.as_ref(),
            element: self.launch.element.as_ref(),
            secrets: secret_files.as_deref(),
            now: now(),
        };
        let variables = environment(&self.launch.order, &surroundings);
        let program = Program::prepare(&self.launch, variables, script)?;
        if !holds && program.is_empty() {
            return Err("the command is empty".into());
        }
        fail::fail_point!("shepherd-ready");
        let fds = Fds {
            stdin: None,
            stdout: stdout.as_ref(),
            stderr: stderr.as_ref(),
            terminal: terminal.as_ref(),
        };
        let group = self.group()?;
        let (pid, told) = self.fork(group.as_ref(), &fds, |setting| match holds {
            true => program.hold(setting),
            false => program.run(setting),
        })?;
        fail::fail_point!("shepherd-forked");
        let engine = self.launch.engine.as_ref().filter(|_| self.launch.has_named_container());
        self.tree = Some(Tree::new(group, pid, engine.map(|engine| engine.kind)));
        self.setup = Some((told, pid, Vec::new()));
        self.program = Some(program);
        Ok(())
    }

    /// Writes the list of nodes for the launcher of a job. Returns the path of this program; `None`
    /// without a launcher.
    fn prepare_launcher(&self, folder: &Path) -> Result<Option<String>, String> {
        let order = &self.launch.order;
        if !order.spec.gang.has_launcher() {
            return Ok(None);
        }
        let hosts = host_file(order, &TaskPosition::of(order));
        // Tasks of one node share the folder, and start at the same time.
        let path = folder.join(file_name(HOST_FILE, self.task()));
        write_file(&path, self.owner, &hosts)
            .map_err(|error| format!("can't write the list of nodes: {error}"))?;
        let program = std::env::current_exe().ok();
        Ok(program.and_then(|path| path.into_os_string().into_string().ok()))
    }

    /// The folder with the secrets of the task, if it has any.
    fn secret_files(&self) -> Option<PathBuf> {
        let has_any = !self.launch.order.spec.secrets.is_empty();
        has_any.then(|| self.layout.secrets_of(self.task()))
    }

    /// Removes the secrets of the task. If it fails, its agent tries again.
    pub(super) fn remove_secrets(&self) {
        if self.secret_files().is_some() {
            let _ = secrets::remove(&self.layout, &claim_name(self.task()));
        }
    }

    /// Opens the program's output: files, or a terminal if the job asks for one.
    fn open_ends(&mut self, spec: &JobSpec, holds: bool) -> Result<ChildEnds, String> {
        let (task, owner) = (self.task(), self.owner);
        let terminal = spec.pty.filter(|_| !holds);
        let terminal = terminal.map(|size| terminal::open(size, owner)).transpose()?;
        if let Some((terminal, _)) = &terminal {
            let target = Target::new(self.layout.stdout(task), owner);
            self.outputs[0] =
                Some(Stream::new(0, terminal.reader()?, target, self.launch.output_limit));
        }
        let (terminal, slave) = terminal.unzip();
        let is_piped = terminal.is_none();
        self.client_streams.terminal = terminal;
        let stdout = match spec.stdout {
            None if is_piped => Some(self.pipe_to(0, self.layout.stdout(task), owner)?),
            _ => None,
        };
        let stderr = match spec.stderr {
            None if is_piped => Some(self.pipe_to(1, self.layout.stderr(task), owner)?),
            _ => None,
        };
        Ok(ChildEnds { stdout, stderr, terminal: slave })
    }

    /// The program's control group, with the job's limits. A task that can't be kept from other
    /// GPUs does not start: its agent has found that this works here.
    fn group(&self) -> Result<Option<Group>, String> {
        let spec = &self.launch.order.spec;
        let limits = Limits {
            memory: self.memory_limit(),
            pids: self.launch.pids_max,
            cpu_milli: spec
                .cpus
                .map(|cpus| cpus.get())
                .filter(|_| !self.launch.has_named_container()),
        };
        let (name, devices) = (claim_name(self.task()), self.launch.devices.as_ref());
        self.launch.site.group(&name, limits, devices).map_err(|error| {
            format!("can't keep the job from other GPUs: {error}; see isolate_gpus in gpool.toml")
        })
    }

    /// The most memory of the processes that the shepherd starts. A client of an engine may need
    /// more than the job in its container.
    fn memory_limit(&self) -> Option<u64> {
        let memory = self.launch.order.spec.memory.map(Bytes::get);
        memory.filter(|_| !self.launch.has_named_container())
    }

    /// Forks a further process of the task.
    pub(super) fn fork_in_tree(
        &self,
        fds: &Fds<'_>,
        run: impl Fn(&Setting<'_>) -> Infallible,
    ) -> Result<(u32, OwnedFd), String> {
        self.fork(self.tree.as_ref().and_then(Tree::group), fds, run)
    }

    /// Forks a process, into a group if there is one. Returns its ID and the pipe on which it
    /// reports errors before its program starts.
    pub(super) fn fork(
        &self,
        group: Option<&Group>,
        fds: &Fds<'_>,
        run: impl Fn(&Setting<'_>) -> Infallible,
    ) -> Result<(u32, OwnedFd), String> {
        let memory = self.memory_limit();
        let limited = group.map(Group::limited).unwrap_or_default();
        let (told_read, told) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)
            .map_err(|error| format!("can't create a pipe: {error}"))?;
        let handle = group.and_then(Group::handle);
        let mut setting = Setting {
            status_pipe: &told,
            stdin: fds.stdin,
            stdout: fds.stdout,
            stderr: fds.stderr,
            terminal: fds.terminal,
            group,
            born_in_group: handle.is_some(),
            context: &self.context,
            become_user: self.owner,
            memory_limit: memory.filter(|_| !limited.memory),
            processes_limit: self.launch.pids_max.filter(|_| !limited.pids),
            parent: std::process::id(),
        };
        let mut forked = child::fork(handle, || run(&setting));
        if forked.is_err() && setting.born_in_group {
            // The kernel can't fork into a control group; the child moves itself then.
            setting.born_in_group = false;
            forked = child::fork(None, || run(&setting));
        }
        let pid = forked.map_err(|error| format!("can't create a process: {error}"))?;
        Ok((pid, told_read))
    }

    /// Makes a pipe to the program; the shepherd writes its bytes to a file of gpool's own.
    fn pipe_to(
        &mut self,
        which: usize,
        path: PathBuf,
        owner: Option<(u32, u32)>,
    ) -> Result<OwnedFd, String> {
        let failed = |error| format!("can't create a pipe: {error}");
        let (read, write) = pipe_with(PipeFlags::CLOEXEC).map_err(failed)?;
        // Only the shepherd's end: the program must get a blocking pipe.
        rustix::fs::fcntl_setfl(&read, rustix::fs::OFlags::NONBLOCK).map_err(failed)?;
        self.give_pipe(&write)?;
        let target = Target::new(path, owner);
        self.outputs[which] = Some(Stream::new(which, read, target, self.launch.output_limit));
        Ok(write)
    }

    /// Gives a pipe to the task's user. Otherwise the job could use it but not open it, for example
    /// as /dev/stdout.
    pub(super) fn give_pipe(&self, pipe: &OwnedFd) -> Result<(), String> {
        let Some((uid, gid)) = self.owner else { return Ok(()) };
        std::os::unix::fs::fchown(pipe, Some(uid), Some(gid))
            .map_err(|error| format!("can't give a pipe to the user: {error}"))
    }
}

fn read_context(context: &[u8]) -> Result<LaunchContext, String> {
    match context {
        // The format of store layout 3 and older.
        [b'{', ..] => serde_json::from_slice(context)
            .map_err(|error| format!("can't read the job's environment: {error}")),
        _ => LaunchContext::read(context)
            .ok_or_else(|| "can't read the job's environment".to_owned()),
    }
}

/// The end of a task that could not be started.
pub(super) fn not_started(why: String) -> TaskEnd {
    unstarted(EndCause::LaunchFailed { why })
}

/// The end of a task without a program.
pub(super) fn unstarted(cause: EndCause) -> TaskEnd {
    TaskEnd {
        started_at: None,
        ended_at: now(),
        exit: None,
        cause: Some(cause),
        stopped: false,
        usage: Usage::default(),
        steps: gpool_model::Rare::default(),
    }
}
