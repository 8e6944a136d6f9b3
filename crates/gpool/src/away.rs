//! What can be said while no server answers: which jobs go on, and what they have written. Found in
//! the state folder, as far as the caller may look into it, and among the caller's own processes.

use std::collections::BTreeSet;
use std::io::{Read as _, Seek as _, SeekFrom, Write};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use gpool_agent::layout::{self, Layout};
use gpool_agent::survey::{self, Left, LeftIs};
use gpool_client::socket::Surroundings;
use gpool_client::{Client, LogQuery, Place};
use gpool_model::{Attempt, JobId, TaskId};
use gpool_wire::{Time, catalogue};
use serde_json::{Value, json};

use crate::errors;
use crate::failure::{Failure, Result};
use crate::follow;
use crate::render::clock;
use crate::render::safe::Plain;
use crate::render::style::Style;
use crate::render::table::{Cell, Table};
use crate::render::words::{NOTHING, count};
use crate::screen::not_written;
use crate::session::{BACK, Session, state_dir};

/// The state folder of the machine's server.
const MACHINE_STATE: &str = "/var/lib/gpool";
/// Between two looks at a file that is followed.
const LOOK: Duration = Duration::from_millis(200);
/// Runs of a job that are looked for.
const ATTEMPTS_MAX: u32 = 64;

/// What was found.
#[derive(Debug, Default)]
pub struct Found {
    /// Jobs that were launched and whose end no server has taken note of, by id.
    pub left: Vec<Left>,
    /// What could not be looked into, and why.
    pub unreadable: Vec<String>,
    /// Where was looked.
    pub folders: Vec<PathBuf>,
}

impl Found {
    /// Those that run.
    pub fn runs(&self) -> impl Iterator<Item = &Left> {
        self.left.iter().filter(|left| left.is == LeftIs::Runs)
    }

    /// All of them for programs.
    #[must_use]
    pub fn in_json(&self) -> Value {
        Value::Array(self.left.iter().map(in_json).collect())
    }
}

/// Looks at what goes on without the server that was asked for. `named` is the state folder, where
/// somebody named it.
#[must_use]
pub fn look(named: Option<&str>, session: &Session) -> Found {
    let sockets = sockets(session.global.server.as_deref());
    let is_named = named.is_some() || std::env::var_os("GPOOL_STATE_DIR").is_some();
    // A folder that is only usual may be that of another server.
    let is_asked = |left: &Left| {
        let of_socket = |api: &PathBuf| sockets.iter().any(|socket| is_same(api, socket));
        is_named || left.api.as_ref().is_none_or(of_socket)
    };
    let own: Vec<Left> = survey::own_processes();
    let mut folders: Vec<PathBuf> = state_dir(named).into_iter().collect();
    if !is_named {
        folders.push(PathBuf::from(MACHINE_STATE));
        let told = own.iter().filter(|left| left.api.is_some() && is_asked(left));
        folders.extend(told.map(|left| left.state_dir.clone()));
    }
    let named: Vec<PathBuf> = folders.iter().flat_map(|folder| layout::folders(folder)).collect();
    // Whoever can't list them sees those of the jobs of their own.
    let own_folders = own.iter().map(|left| &left.state_dir);
    let below = own_folders.filter(|own| folders.iter().any(|folder| own.starts_with(folder)));
    let mut folders: Vec<PathBuf> = named.into_iter().chain(below.cloned()).collect();
    let mut seen = BTreeSet::new();
    folders.retain(|folder| seen.insert(folder.clone()));
    let mut found = Found::default();
    for folder in &folders {
        match survey::claimed(folder) {
            Ok(left) => found.left.extend(left.into_iter().filter(&is_asked)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => {
                let tasks = Layout::new(folder).tasks();
                found.unreadable.push(format!("{}: {error}", tasks.display()));
            }
        }
    }
    let known: BTreeSet<(PathBuf, TaskId)> =
        found.left.iter().map(|left| (left.state_dir.clone(), left.task)).collect();
    let is_new = |left: &Left| {
        folders.contains(&left.state_dir) && !known.contains(&(left.state_dir.clone(), left.task))
    };
    found.left.extend(own.into_iter().filter(|left| is_new(left)));
    // Who has found a folder of their own need not hear of others'.
    if !known.is_empty() {
        found.unreadable.clear();
    }
    found.left.sort_by_key(|left| left.task);
    found.folders = folders;
    found
}

/// The sockets on which the server was looked for.
fn sockets(flag: Option<&str>) -> Vec<PathBuf> {
    match Surroundings::of_this_process().place(flag) {
        Ok(Place::Named(path)) => vec![path],
        Ok(Place::Usual { own, machine }) => vec![own, machine],
        Err(_) => Vec::new(),
    }
}

fn is_same(one: &Path, other: &Path) -> bool {
    let whole = |path: &Path| std::path::absolute(path).ok();
    whole(one).is_some() && whole(one) == whole(other)
}

/// Adds to a failure that no server answers what goes on without it.
#[must_use]
pub fn told(failure: Failure, session: &Session) -> Failure {
    // A verb that has looked itself has said it.
    if failure.code() != Some(catalogue::UNREACHABLE) || failure.has_facts() {
        return failure;
    }
    let is_alone = |socket: &PathBuf| std::os::unix::net::UnixStream::connect(socket).is_err();
    // A connection that was lost to a server that lives says nothing about jobs.
    if !sockets(session.global.server.as_deref()).iter().all(is_alone) {
        return failure;
    }
    let found = look(None, session);
    match u64::try_from(found.runs().count()).unwrap_or(u64::MAX) {
        0 => failure,
        n => failure.why(format!("{} on without it: gpool queue lists them", go(n))),
    }
}

fn go(n: u64) -> String {
    format!("{} {}", count(n, "job"), if n == 1 { "goes" } else { "go" })
}

/// Shows what goes on, and gives back the failure with what is to be said of it. The list goes to
/// standard error: it is not the queue, and no program should take it for that.
#[must_use]
pub fn queue(failure: Failure, named: Option<&str>, session: &Session) -> Failure {
    let found = look(named, session);
    if !found.left.is_empty() && !session.screen.json {
        session.screen.note(table(&found, session).trim_end());
    }
    let n_runs = u64::try_from(found.runs().count()).unwrap_or(u64::MAX);
    let failure = match n_runs {
        0 if found.left.is_empty() && found.unreadable.is_empty() => {
            failure.why("no job goes on without it, as far as can be seen from here")
        }
        0 => failure,
        n => failure.why(format!("{} on without it; the next server takes over", go(n))),
    };
    let failure = found
        .unreadable
        .iter()
        .fold(failure, |failure, what| failure.why(format!("jobs of others are not seen: {what}")));
    failure.with("without_server", found.in_json())
}

fn table(found: &Found, session: &Session) -> String {
    let columns = ["ID", "STATE", "PID", "SINCE", "USER", "OUTPUT"];
    let mut table = Table::new(columns.map(str::to_owned).to_vec());
    let view = session.view();
    for left in &found.left {
        let since = left.started_at.map(|at| view.clock.second(Time(at), view.now));
        let style = if left.is == LeftIs::Runs { Style::Good } else { Style::Plain };
        let pid = left.pid.map(|pid| pid.to_string());
        table.push(vec![
            Cell::new(&left.task.job.to_string()),
            Cell::new(&state(&left.is)).styled(style),
            Cell::new(pid.as_deref().unwrap_or(NOTHING)),
            Cell::new(since.as_deref().unwrap_or(NOTHING)),
            Cell::new(&user(left.uid)),
            Cell::new(&output(left)),
        ]);
    }
    // Not cut to the terminal: paths are there to be copied.
    table.render(None, session.screen.talk_colors)
}

fn in_json(left: &Left) -> Value {
    json!({
        "id": left.task.job.to_string(),
        "attempt": left.task.attempt.0,
        "state": state(&left.is),
        "pid": left.pid,
        "started_at": left.started_at.map(Time),
        "user": user(left.uid),
        "stdout": Layout::new(&left.state_dir).stdout(left.task),
    })
}

/// How a task is, in words.
fn state(is: &LeftIs) -> String {
    match is {
        LeftIs::Runs => "runs".to_owned(),
        LeftIs::Ended(end) => match end.exit {
            Some(exit) => format!("ended, exit {}", exit.shell_code()),
            None => "ended".to_owned(),
        },
        LeftIs::Lost { rebooted: true } => "lost to a restart of the machine".to_owned(),
        LeftIs::Lost { rebooted: false } => "lost with its shepherd".to_owned(),
    }
}

fn user(uid: u32) -> String {
    let account = gpool_sys::user::account(uid);
    account.map_or_else(|| uid.to_string(), |it| String::from_utf8_lossy(&it.name).into_owned())
}

/// Where its output is, if the caller can see that.
fn output(left: &Left) -> String {
    let path = Layout::new(&left.state_dir).stdout(left.task);
    match survey::open_output(&left.state_dir, left.task, "stdout") {
        Ok(_) => path.display().to_string(),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            "none kept here, or none yet".to_owned()
        }
        Err(_) => format!("{} (not yours to read)", path.display()),
    }
}

/// A job's output as it lies on disk.
struct OnDisk {
    file: std::fs::File,
    path: PathBuf,
    task: TaskId,
    state_dir: PathBuf,
    n_seen: u64,
}

/// Writes what is on disk of a job's output; with `query.follow`, goes on until it has ended or a
/// server is back, which then has the rest. `failure` is what came of asking the server; it is
/// given back where nothing else was said.
///
/// # Errors
/// There is no output that the caller may read, or it can't be written.
pub fn logs(
    failure: Failure,
    named: Option<&str>,
    job: JobId,
    query: &LogQuery,
    session: &Session,
) -> Result<()> {
    let found = look(named, session);
    let on_disk = match find(&found, job, query) {
        Ok(Some(on_disk)) => on_disk,
        Ok(None) => {
            let looked: Vec<String> =
                found.folders.iter().map(|folder| folder.display().to_string()).collect();
            return Err(failure
                .why(format!("no output of job {job} is kept in {}", looked.join(" or ")))
                .tip(format!("gpool logs {job} --state-dir FOLDER")));
        }
        Err(why) => return Err(failure.why(why)),
    };
    let left = found.left.iter().find(|left| left.task == on_disk.task);
    let how = left.map(|left| format!(" ({})", state(&left.is))).unwrap_or_default();
    session.screen.note(&format!(
        "note: no server answers; this is what is on disk of job {job}{how}: {}",
        on_disk.path.display()
    ));
    on_disk.copy(failure, query, session)
}

/// The output of the run that is meant: the one that was named, or the newest there is.
fn find(
    found: &Found,
    job: JobId,
    query: &LogQuery,
) -> std::result::Result<Option<OnDisk>, String> {
    let attempts: Vec<u32> = match query.attempt {
        Some(attempt) => vec![attempt],
        None => (1..=ATTEMPTS_MAX).rev().collect(),
    };
    for state_dir in &found.folders {
        for attempt in &attempts {
            let task = TaskId { job, attempt: Attempt(*attempt), rank: 0 };
            let stream = query.stream.as_str();
            let path = Layout::new(state_dir).attempt(task).join(stream);
            match survey::open_output(state_dir, task, stream) {
                Ok(file) => {
                    let state_dir = state_dir.clone();
                    return Ok(Some(OnDisk { file, path, task, state_dir, n_seen: 0 }));
                }
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                Err(error) => return Err(format!("{} can't be read: {error}", path.display())),
            }
        }
    }
    Ok(None)
}

impl OnDisk {
    /// Whether it was written by the one who reads it.
    fn is_mine(&self) -> std::io::Result<bool> {
        Ok(self.file.metadata()?.uid() == rustix::process::geteuid().as_raw())
    }

    fn copy(mut self, failure: Failure, query: &LogQuery, session: &Session) -> Result<()> {
        let unread = |error: std::io::Error| {
            Failure::new(errors::CONNECTION_LOST, format!("the output can't be read: {error}"))
        };
        if let Some(since) = query.since {
            let written = self.file.metadata().and_then(|it| it.modified()).map_err(unread)?;
            let age = written.elapsed().unwrap_or_default();
            if age.as_millis() > u128::from(clock::now().0.since(since.0).get()) && !query.follow {
                return Err(failure);
            }
        }
        if let Some(n_lines) = query.tail {
            self.n_seen = survey::last_lines(&mut self.file, n_lines).map_err(unread)?;
            self.file.seek(SeekFrom::Start(self.n_seen)).map_err(unread)?;
        }
        let is_plain = session.screen.is_terminal() && !self.is_mine().map_err(unread)?;
        let mut out: Box<dyn Write> = match std::io::stdout().lock() {
            out if is_plain => Box::new(Plain::new(out)),
            out => Box::new(out),
        };
        loop {
            // Asked first: what was written before its end is read after.
            let has_ended = !self.runs();
            while self.copy_some(&mut out).map_err(|error| not_written(&error))? {}
            if !query.follow || has_ended {
                return Err(failure);
            }
            if let Ok(client) = session.listener()
                && client.ready().is_ok()
            {
                return self.go_on(&client, query, session, &mut out);
            }
            std::thread::sleep(LOOK);
        }
    }

    /// Whether it runs, as far as that can be seen.
    fn runs(&self) -> bool {
        let is_it = |left: &Left| left.task == self.task && left.state_dir == self.state_dir;
        let claimed = survey::claimed(&self.state_dir);
        let left = claimed.unwrap_or_else(|_| survey::own_processes());
        left.iter().any(|left| is_it(left) && left.is == LeftIs::Runs)
    }

    fn copy_some(&mut self, out: &mut dyn Write) -> std::io::Result<bool> {
        let mut buffer = vec![0; 64 * 1024];
        let n_read = self.file.read(&mut buffer)?;
        out.write_all(&buffer[..n_read]).and_then(|()| out.flush())?;
        self.n_seen += n_read as u64;
        Ok(n_read > 0)
    }

    /// Lets a server that is back have the rest.
    fn go_on(
        self,
        client: &Client,
        query: &LogQuery,
        session: &Session,
        out: &mut dyn Write,
    ) -> Result<()> {
        session.screen.note(BACK);
        let attempt = Some(self.task.attempt.0);
        let rest = LogQuery { since: None, tail: None, attempt, ..query.clone() };
        follow::copy_after(client, &self.task.job.to_string(), &rest, self.n_seen, out)
    }
}
