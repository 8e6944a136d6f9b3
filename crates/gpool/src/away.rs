//! Reports what goes on while no server answers: the jobs that still run, and their output. It
//! reads the state folder, as far as the caller may, and the caller's own processes.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use gpool_cli::failure::Failure;
use gpool_cli::render::style::Style;
use gpool_cli::render::table::{Cell, Table};
use gpool_cli::render::words::{NOTHING, count};
use gpool_cli::session::{Session, state_dir};
use gpool_client::ServerLocation;
use gpool_client::socket::{Surroundings, connect, stranger_on};
use gpool_model::TaskId;
use gpool_model::output::OutputStream;
use gpool_output::Output;
use gpool_shepherd::layout::{self, Layout};
use gpool_shepherd::survey::{self, LocalTask, LocalTaskState};
use gpool_wire::{Time, catalogue};
use serde_json::{Value, json};

mod on_disk;

pub use on_disk::logs;

/// The state folder of the server of the machine.
const MACHINE_STATE: &str = "/var/lib/gpool";

/// Time limit for connecting to a server, to see whether one runs.
const PATIENCE: Duration = Duration::from_millis(200);

#[derive(Debug, Default)]
pub struct AwayReport {
    /// Launched jobs without a recorded end, by id.
    pub tasks: Vec<LocalTask>,
    /// What could not be read, and why.
    pub unreadable: Vec<String>,
    /// The folders that were searched.
    pub folders: Vec<PathBuf>,
}

impl AwayReport {
    pub fn runs(&self) -> impl Iterator<Item = &LocalTask> {
        self.tasks.iter().filter(|left| left.is == LocalTaskState::Runs)
    }

    #[must_use]
    pub fn in_json(&self) -> Value {
        Value::Array(self.tasks.iter().map(in_json).collect())
    }
}

/// Looks for jobs that go on without their server. `named` is the state folder from the command
/// line, if any.
#[must_use]
pub fn look(named: Option<&str>, session: &Session) -> AwayReport {
    let sockets = sockets(session.global.server.as_deref());
    let is_named = named.is_some() || std::env::var_os("GPOOL_STATE_DIR").is_some();
    // The usual folder may belong to another server.
    let is_asked = |left: &LocalTask| {
        let of_socket = |api: &PathBuf| sockets.iter().any(|socket| is_same(api, socket));
        is_named || left.api.as_ref().is_none_or(of_socket)
    };
    let own: Vec<LocalTask> = survey::own_processes();
    let mut folders: Vec<PathBuf> = state_dir(named).into_iter().collect();
    if !is_named {
        folders.push(PathBuf::from(MACHINE_STATE));
        let with_api = own.iter().filter(|left| left.api.is_some() && is_asked(left));
        folders.extend(with_api.map(|left| left.state_dir.clone()));
    }
    let named: Vec<PathBuf> = folders.iter().flat_map(|folder| layout::folders(folder)).collect();
    // The caller may not be allowed to list the folders of nodes; the own processes name some of
    // them.
    let own_folders = own.iter().map(|left| &left.state_dir);
    let below = own_folders.filter(|own| folders.iter().any(|folder| own.starts_with(folder)));
    let mut folders: Vec<PathBuf> = named.into_iter().chain(below.cloned()).collect();
    let mut seen = BTreeSet::new();
    folders.retain(|folder| seen.insert(folder.clone()));
    let mut found = AwayReport::default();
    let uid = rustix::process::geteuid().as_raw();
    folders.retain(|folder| {
        let stranger = stranger_on(folder, uid);
        found.unreadable.extend(stranger.as_ref().map(|it| it.in_words()));
        stranger.is_none()
    });
    for folder in &folders {
        match survey::claimed(folder) {
            Ok(left) => found.tasks.extend(left.into_iter().filter(&is_asked)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => {
                let tasks = Layout::new(folder).tasks();
                found.unreadable.push(format!("{}: {error}", tasks.display()));
            }
        }
    }
    let known: BTreeSet<(PathBuf, TaskId)> =
        found.tasks.iter().map(|left| (left.state_dir.clone(), left.task)).collect();
    let is_new = |left: &LocalTask| {
        folders.contains(&left.state_dir) && !known.contains(&(left.state_dir.clone(), left.task))
    };
    found.tasks.extend(own.into_iter().filter(|left| is_new(left)));
    // After a hit, folders of other users that can't be read don't matter.
    if !known.is_empty() {
        found.unreadable.clear();
    }
    found.tasks.sort_by_key(|left| left.task);
    found.folders = folders;
    found
}

/// The sockets at which the client looks for the server.
fn sockets(flag: Option<&str>) -> Vec<PathBuf> {
    match Surroundings::of_this_process().place(flag) {
        Ok(ServerLocation::Named(path)) => vec![path],
        Ok(ServerLocation::Usual { own, machine }) => vec![own, machine],
        Ok(ServerLocation::Remote(_)) => Vec::new(),
        Err(_) => Vec::new(),
    }
}

fn is_same(one: &Path, other: &Path) -> bool {
    let whole = |path: &Path| std::path::absolute(path).ok();
    whole(one).is_some() && whole(one) == whole(other)
}

/// Adds to a failure "no server answers" how many jobs go on without it.
#[must_use]
pub fn with_running_jobs(failure: Failure, session: &Session) -> Failure {
    // The verb has already added this.
    if !failure.is_no_answer() || failure.has_facts() || session.is_remote() {
        return failure;
    }
    let is_alone = |socket: &PathBuf| connect(socket, PATIENCE).is_err();
    // A lost connection to a server that lives says nothing about jobs.
    if failure.code() == Some(catalogue::UNREACHABLE)
        && !sockets(session.global.server.as_deref()).iter().all(is_alone)
    {
        return failure;
    }
    let found = look(None, session);
    match u64::try_from(found.runs().count()).unwrap_or(u64::MAX) {
        0 => failure,
        n => failure.why(format!("{} without it: gpool queue lists them", go(n))),
    }
}

fn go(n: u64) -> String {
    format!("{} {}", count(n, "job"), if n == 1 { "runs" } else { "run" })
}

/// Lists the jobs that go on and returns the failure with that information. The list goes to
/// standard error, since a program must not take it for the queue.
#[must_use]
pub fn queue(failure: Failure, named: Option<&str>, session: &Session) -> Failure {
    let found = look(named, session);
    if !found.tasks.is_empty() && !session.screen.json {
        session.screen.note(table(&found, session).trim_end());
    }
    let n_runs = u64::try_from(found.runs().count()).unwrap_or(u64::MAX);
    let failure = match n_runs {
        0 if found.tasks.is_empty() && found.unreadable.is_empty() => {
            failure.why("no job that this user can see runs without it")
        }
        0 => failure,
        n => failure.why(format!("{} without it; the next server takes over", go(n))),
    };
    let failure = found.unreadable.iter().fold(failure, |failure, what| {
        failure.why(format!("can't see jobs of other users: {what}"))
    });
    failure.with("without_server", found.in_json())
}

fn table(found: &AwayReport, session: &Session) -> String {
    let columns = ["ID", "STATE", "PID", "SINCE", "USER", "OUTPUT"];
    let mut table = Table::new(columns.map(str::to_owned).to_vec());
    let view = session.view();
    for left in &found.tasks {
        let since = left.started_at.map(|at| view.clock.second(Time(at), view.now));
        let style = if left.is == LocalTaskState::Runs { Style::Good } else { Style::Plain };
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
    // Not cut to the width of the terminal, so that paths can be copied.
    table.render(None, session.screen.talk_colors)
}

fn in_json(left: &LocalTask) -> Value {
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

/// The state of a task in words.
fn state(is: &LocalTaskState) -> String {
    match is {
        LocalTaskState::Runs => "runs".to_owned(),
        LocalTaskState::Ended(end) => match end.exit {
            Some(exit) => format!("ended, exit {}", exit.shell_code()),
            None => "ended".to_owned(),
        },
        LocalTaskState::Lost { rebooted: true } => "lost: the machine was restarted".to_owned(),
        LocalTaskState::Lost { rebooted: false } => "lost: its shepherd ended".to_owned(),
    }
}

fn user(uid: u32) -> String {
    let account = gpool_sys::user::account(uid);
    account.map_or_else(|| uid.to_string(), |it| String::from_utf8_lossy(&it.name).into_owned())
}

/// The path of a task's output, if the caller can read it.
fn output(left: &LocalTask) -> String {
    let path = Layout::new(&left.state_dir).stdout(left.task);
    let streams = vec![OutputStream::Stdout];
    let mut output = Output::new([left.state_dir.clone()].into(), left.task, streams, None);
    match output.refresh() {
        Ok(()) if output.is_written() => path.display().to_string(),
        Ok(()) => "none stored".to_owned(),
        Err(_) => format!("{} (not readable for you)", path.display()),
    }
}
