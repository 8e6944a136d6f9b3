//! Starts a task's program: prepares it before the fork, and sets the process up between fork and
//! exec. Every folder, file and program that a user names is opened as that user.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::ffi::{CStr, CString};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use gpool_model::agent::LaunchContext;
use gpool_model::attach::Exec;
use gpool_model::id::Attempt;
use gpool_model::launch::OpenMode;
use gpool_model::{Activation, Compat};
use gpool_sys::cgroup::Group;
use gpool_sys::{awaited, child, privilege, signal};
use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;
use rustix::process::{Pid, Signal};

use super::in_container::{Container, container_of};
use super::lookup::{DEFAULT_SEARCH, as_path, find, interpreter};
use crate::activation;
use crate::compat::with_task_id;
use crate::environment::{fill_in, has_own_folder, names_job, output_file};
use crate::message::Launch;

/// Sent to the parent just before exec; any bytes after it say why exec failed.
pub(super) const READY: u8 = b'!';

/// Sent instead if a path that the job needs does not exist; the path follows.
pub(super) const MISSING: u8 = b'?';

/// All that a child needs, prepared while errors can still be reported.
pub(super) struct Program {
    /// The program: a path, or a name to look up in `PATH`.
    name: String,
    /// Set for a script: the path of its copy.
    script: Option<PathBuf>,
    arguments: Vec<CString>,
    environment: Vec<CString>,
    /// The job's `PATH`.
    search: Vec<u8>,
    directory: CString,
    stdin: Option<UserFile>,
    stdout: Option<UserFile>,
    stderr: Option<UserFile>,
    /// Whether output files are truncated.
    begin_anew: bool,
    /// The environments that must exist.
    activate: Vec<Activation>,
    /// The container that it runs in.
    container: Option<Container>,
}

/// A file that the user names.
#[derive(PartialEq, Eq)]
struct UserFile {
    path: String,
    /// Whether the submitting program may still be making it, or its folder.
    is_awaited: bool,
}

/// The inherited descriptors of a child, and its user and limits.
pub(super) struct Setting<'a> {
    /// The pipe on which it reports errors.
    pub status_pipe: &'a OwnedFd,
    /// Its standard input, if that is a pipe.
    pub stdin: Option<&'a OwnedFd>,
    /// Its terminal, in place of all pipes and files.
    pub terminal: Option<&'a OwnedFd>,
    /// Its standard output, unless the user named a file.
    pub stdout: Option<&'a OwnedFd>,
    /// Its standard error, unless the user named a file.
    pub stderr: Option<&'a OwnedFd>,
    pub group: Option<&'a Group>,
    /// Whether it was forked into the group.
    pub born_in_group: bool,
    /// The submitter's limits and umask.
    pub context: &'a LaunchContext,
    /// The user and group to become; `None` for the agent's.
    pub become_user: Option<(u32, u32)>,
    /// Bytes of memory for each process, where no control group limits them.
    pub memory_limit: Option<u64>,
    /// Processes of the user, where no control group limits them.
    pub processes_limit: Option<u32>,
    /// The shepherd's process ID.
    pub parent: u32,
}

impl Program {
    /// Prepares a program.
    ///
    /// # Errors
    /// Fails with a message if a value holds a NUL.
    pub(super) fn prepare(
        launch: &Launch,
        environment: BTreeMap<Vec<u8>, Vec<u8>>,
        script: Option<PathBuf>,
    ) -> Result<Self, String> {
        let spec = &launch.order.spec;
        let c_string = |what: &str, bytes: Vec<u8>| {
            CString::new(bytes).map_err(|_| format!("{what} contains a NUL character"))
        };
        let mut words = match &launch.element {
            Some(element) => spec.command.iter().map(|word| element.fill(word)).collect(),
            None => spec.command.clone(),
        };
        if spec.compat.contains(&Compat::Gflow) {
            words.iter_mut().for_each(|word| *word = with_task_id(word, &launch.order));
        }
        if let Some(script) = &script {
            words.insert(0, script.to_string_lossy().into_owned());
        }
        let wrapped = activation::wrap(&spec.activate, &mut words);
        let mut environment = activation::apply(&spec.activate, environment);
        let container = container_of(launch, &mut environment, &mut words)?;
        let name = words.first().cloned().unwrap_or_default();
        let script = script.filter(|_| !wrapped && container.is_none());
        let search =
            environment.get(&b"PATH"[..]).cloned().unwrap_or_else(|| DEFAULT_SEARCH.into());
        let variable = |(mut name, value): (Vec<u8>, Vec<u8>)| {
            name.push(b'=');
            name.extend(value);
            c_string("the environment", name)
        };
        let order = &launch.order;
        let input =
            |path: &str| UserFile { path: fill_in(path, order), is_awaited: names_job(path) };
        let output = |path: &str| UserFile {
            path: output_file(path, order),
            is_awaited: has_own_folder(path),
        };
        let task = launch.order.task();
        Ok(Self {
            name,
            script,
            arguments: words
                .into_iter()
                .map(|word| c_string("the command", word.into_bytes()))
                .collect::<Result<_, _>>()?,
            environment: environment.into_iter().map(variable).collect::<Result<_, _>>()?,
            search,
            directory: c_string("the working directory", spec.directory.clone().into_bytes())?,
            stdin: spec.stdin.as_deref().map(input),
            stdout: spec.stdout.as_deref().map(output),
            stderr: spec.stderr.as_deref().map(output),
            begin_anew: match spec.open_mode {
                None => task.attempt == Attempt::FIRST,
                Some(mode) => mode == OpenMode::Truncate,
            },
            activate: spec.activate.to_vec(),
            container,
        })
    }

    pub(super) fn container(&self) -> Option<&Container> {
        self.container.as_ref()
    }

    /// Prepares a command of the engine, after the end of the task.
    ///
    /// # Errors
    /// Fails with a message if a value holds a NUL.
    pub(super) fn of_engine(&self, words: Vec<String>) -> Result<Self, String> {
        self.beside(words, self.environment.clone(), c"/".to_owned())
    }

    /// Whether there is nothing to run, as in a task that only holds its place.
    pub(super) fn is_empty(&self) -> bool {
        self.arguments.is_empty()
    }

    /// Prepares a further program with the same setting, but without the task's files.
    ///
    /// # Errors
    /// Fails with a message if a value holds a NUL, or if the engine of its container can't run it.
    pub(super) fn for_exec(&self, exec: &Exec) -> Result<Self, String> {
        let mut environment = self.environment.clone();
        for (name, value) in &exec.environment {
            let start = format!("{name}=");
            environment.retain(|entry| !entry.as_bytes().starts_with(start.as_bytes()));
            environment.push(c_string_of(format!("{start}{value}"))?);
        }
        if let Some(Container { engine, name }) = &self.container {
            let words = engine.exec(name, exec);
            let words = words.ok_or("this container engine can't run a further command")?;
            return self.beside(words, environment, self.directory.clone());
        }
        let mut words = exec.command.clone();
        activation::wrap(&self.activate, &mut words);
        let directory = exec.directory.clone().map(c_string_of).transpose()?;
        let directory = directory.unwrap_or_else(|| self.directory.clone());
        self.beside(words, environment, directory)
    }

    fn beside(
        &self,
        words: Vec<String>,
        environment: Vec<CString>,
        directory: CString,
    ) -> Result<Self, String> {
        Ok(Self {
            name: words.first().cloned().ok_or("the command is empty")?,
            script: None,
            arguments: words.into_iter().map(c_string_of).collect::<Result<_, _>>()?,
            environment,
            search: self.search.clone(),
            directory,
            stdin: None,
            stdout: None,
            stderr: None,
            begin_anew: false,
            activate: self.activate.clone(),
            container: None,
        })
    }

    /// Becomes the program, in the child. On an error it reports to the parent and ends.
    pub(super) fn run(&self, setting: &Setting<'_>) -> Infallible {
        let why = match self.become_it(setting) {
            Ok(never) => match never {},
            Err(why) => why,
        };
        // The parent reads until the end; an error here can't be reported.
        let _ = rustix::io::write(setting.status_pipe, why.as_bytes());
        child::end(127)
    }

    /// Holds the task's place until it is killed, in the child: processes that a launcher starts
    /// run beside it. It ignores the signals that are meant for them.
    pub(super) fn hold(&self, setting: &Setting<'_>) -> Infallible {
        self.run_instead(setting, || {
            (1..=signal::HIGHEST).for_each(signal::ignore);
            let _ = rustix::io::write(setting.status_pipe, &[READY]);
            privilege::close_from(0);
            loop {
                std::thread::park();
            }
        })
    }

    /// Runs `work` in place of the program, in the child.
    pub(super) fn run_instead(
        &self,
        setting: &Setting<'_>,
        work: impl FnOnce() -> Result<Infallible, String>,
    ) -> Infallible {
        let why = match self.become_one_of_it(setting).and_then(|()| work()) {
            Ok(never) => match never {},
            Err(why) => why,
        };
        let _ = rustix::io::write(setting.status_pipe, why.as_bytes());
        child::end(127)
    }

    fn become_it(&self, setting: &Setting<'_>) -> Result<Infallible, String> {
        self.become_one_of_it(setting)?;
        let missing = |path: &str| format!("{}{path}", char::from(MISSING));
        rustix::process::chdir(&self.directory).map_err(|error| {
            let directory = self.directory.to_string_lossy();
            match error {
                Errno::NOENT | Errno::NOTDIR => missing(&directory),
                _ => format!("can't enter the working directory {directory}: {error}"),
            }
        })?;
        if let Some(path) = self.missing() {
            return Err(missing(path));
        }
        self.open_files(setting)?;
        privilege::close_on_exec_from(3);
        self.execute(setting)
    }

    /// The path of a missing environment, as the job's user sees it.
    fn missing(&self) -> Option<&str> {
        self.activate.iter().map(Activation::path).find(|path| !Path::new(path).exists())
    }

    /// Becomes a process of the task: with its control group and user, tied to the shepherd.
    fn become_one_of_it(&self, setting: &Setting<'_>) -> Result<(), String> {
        match setting.terminal {
            // A terminal belongs to a session.
            Some(_) => rustix::process::setsid().map(drop),
            None => rustix::process::setpgid(None, None),
        }
        .map_err(|error| format!("can't create a process group: {error}"))?;
        if let Some(group) = setting.group {
            group
                .enter(setting.born_in_group)
                .map_err(|error| format!("can't enter the control group of the job: {error}"))?;
        }
        fail::fail_point!("program-before");
        give_up_privileges(setting)?;
        signal::reset();
        // After the change of users, which clears it.
        rustix::process::set_parent_process_death_signal(Some(Signal::KILL))
            .map_err(|error| format!("can't bind the process to its shepherd: {error}"))?;
        if rustix::process::getppid() != Pid::from_raw(setting.parent.cast_signed()) {
            return Err("the shepherd was killed".to_owned());
        }
        let umask = setting.context.umask.unwrap_or(0o022);
        rustix::process::umask(Mode::from_raw_mode(umask & 0o777));
        Ok(())
    }

    fn open_files(&self, setting: &Setting<'_>) -> Result<(), String> {
        let place = |fd: &OwnedFd, standard| {
            child::place(fd.as_fd(), standard).map_err(|error| format!("can't open: {error}"))
        };
        if let Some(terminal) = setting.terminal {
            rustix::process::ioctl_tiocsctty(terminal)
                .map_err(|error| format!("can't take the terminal: {error}"))?;
            return (0..3).try_for_each(|standard| place(terminal, standard));
        }
        if let Some(pipe) = setting.stdin {
            place(pipe, 0)?;
        }
        if let Some(file) = &self.stdin {
            place(&open(file, "standard input", OFlags::RDONLY)?, 0)?;
        }
        let output = |file: &UserFile, what| -> Result<OwnedFd, String> {
            let file = open(file, what, OFlags::WRONLY | OFlags::CREATE | OFlags::APPEND)?;
            if self.begin_anew {
                // Devices have no length to truncate.
                let _ = rustix::fs::ftruncate(&file, 0);
            }
            Ok(file)
        };
        let shared = self.stdout.is_some() && self.stdout == self.stderr;
        match (&self.stdout, setting.stdout) {
            (Some(file), _) => place(&output(file, "output")?, 1)?,
            (None, Some(pipe)) => place(pipe, 1)?,
            (None, None) => {}
        }
        match (&self.stderr, setting.stderr) {
            // One open file, so that neither overwrites the other.
            (Some(_), _) if shared => {
                child::place(rustix::stdio::stdout(), 2).map_err(|e| format!("can't open: {e}"))?;
            }
            (Some(file), _) => place(&output(file, "errors")?, 2)?,
            (None, Some(pipe)) => place(pipe, 2)?,
            (None, None) => {}
        }
        Ok(())
    }

    fn execute(&self, setting: &Setting<'_>) -> Result<Infallible, String> {
        let path = match &self.script {
            Some(script) => script.clone(),
            None => find(&self.name, &self.search)?,
        };
        let path = CString::new(path.into_os_string().into_encoded_bytes())
            .map_err(|_| "the command contains a NUL character".to_owned())?;
        let _ = rustix::io::write(setting.status_pipe, &[READY]);
        let error = child::execute(&path, &self.arguments, &self.environment);
        if error.raw_os_error() == Some(Errno::NOEXEC.raw_os_error()) {
            return Err(self.execute_by_shell(&path));
        }
        Err(self.explain(&path, &error))
    }

    /// A text file without `#!` line is run by the shell, as usual.
    fn execute_by_shell(&self, path: &CStr) -> String {
        let mut start = [0; 256];
        let length =
            File::open(as_path(path)).and_then(|mut file| io::Read::read(&mut file, &mut start));
        if length.is_ok_and(|length| start[..length].contains(&0)) {
            return format!("{} is not a program for this machine", self.name);
        }
        let mut arguments = vec![c"/bin/sh".to_owned(), path.to_owned()];
        arguments.extend(self.arguments.iter().skip(1).cloned());
        let error = child::execute(c"/bin/sh", &arguments, &self.environment);
        format!("can't run {} with /bin/sh: {error}", self.name)
    }

    fn explain(&self, path: &CStr, error: &io::Error) -> String {
        let shown = path.to_string_lossy();
        match Errno::from_io_error(error) {
            Some(Errno::NOENT) => match interpreter(as_path(path)) {
                Some(interpreter) if interpreter.ends_with('\r') => {
                    format!("{shown} has DOS line breaks (CR LF): sed -i 's/\\r$//' converts them")
                }
                Some(interpreter) => {
                    format!("the interpreter {interpreter} of {shown} does not exist")
                }
                None => format!("can't run {shown}: a file that it needs is missing"),
            },
            Some(Errno::TOOBIG) => {
                let bytes = |strings: &[CString]| -> usize {
                    strings.iter().map(|string| string.as_bytes_with_nul().len() + 8).sum()
                };
                format!(
                    "environment ({} bytes) and arguments ({} bytes) are larger than the system \
                     accepts; use --clean-env, or pass files",
                    bytes(&self.environment),
                    bytes(&self.arguments)
                )
            }
            _ => format!("can't run {shown}: {error}"),
        }
    }
}

fn c_string_of(text: String) -> Result<CString, String> {
    CString::new(text).map_err(|_| "it contains a NUL character".to_owned())
}

fn give_up_privileges(setting: &Setting<'_>) -> Result<(), String> {
    // When memory is short, the kernel should kill the job, not its shepherd.
    if let Ok(mut file) = File::options().write(true).open("/proc/self/oom_score_adj") {
        let _ = file.write_all(b"0");
    }
    for (kind, soft, hard) in &setting.context.limits {
        privilege::set_limit(*kind, *soft, *hard)
            .map_err(|error| format!("can't set resource limit {kind}: {error}"))?;
    }
    if let Some(bytes) = setting.memory_limit {
        privilege::lower_limit(privilege::LIMIT_DATA, bytes)
            .map_err(|error| format!("can't limit memory: {error}"))?;
    }
    if let Some(most) = setting.processes_limit {
        privilege::lower_limit(privilege::LIMIT_PROCESSES, u64::from(most))
            .map_err(|error| format!("can't limit processes: {error}"))?;
    }
    match setting.become_user {
        Some((uid, gid)) => privilege::become_user(uid, gid)
            .map_err(|not| format!("can't {} (uid {uid}, gid {gid}): {}", not.step, not.error)),
        None => Ok(()),
    }
}

/// Opens a file that a user named, as that user. Never waits for the other end of a FIFO, and
/// refuses one: the task's end must not depend on another process.
fn open(file: &UserFile, what: &str, flags: OFlags) -> Result<OwnedFd, String> {
    let path = Path::new(&file.path);
    let failed =
        |why: &dyn std::fmt::Display| format!("can't open {} for {what}: {why}", path.display());
    let always = OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let open = || -> io::Result<OwnedFd> {
        Ok(rustix::fs::open(path, flags | always, Mode::from_raw_mode(0o666))?)
    };
    let opened = match file.is_awaited {
        false => open(),
        true if flags.contains(OFlags::CREATE) => awaited::create(path, open),
        true => awaited::open(open),
    };
    let file = opened.map_err(|error| match Errno::from_io_error(&error) {
        // Opening a FIFO without a reader fails with this error.
        Some(Errno::NXIO) => {
            failed(&"it is a FIFO without a reader or writer, or a device without a driver")
        }
        _ => failed(&error),
    })?;
    let stat = rustix::fs::fstat(&file).map_err(|error| failed(&error))?;
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile | FileType::CharacterDevice => {}
        FileType::Directory => return Err(failed(&"it is a directory")),
        _ => return Err(failed(&"it is not a file or a character device")),
    }
    let status = rustix::fs::fcntl_getfl(&file).map_err(|error| failed(&error))?;
    rustix::fs::fcntl_setfl(&file, status - OFlags::NONBLOCK).map_err(|error| failed(&error))?;
    Ok(file)
}
