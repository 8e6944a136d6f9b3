//! `gpool debug dump`: gathers the data for a bug report into one file, with or without a running
//! server. It leaves out texts of users: environments, scripts, commands, output, notes.

use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use gpool_cli::errors;
use gpool_cli::exit::Exit;
use gpool_cli::failure::{Failure, Result};
use gpool_cli::render::clock;
use gpool_cli::render::list::value_at;
use gpool_cli::render::safe::safe_json;
use gpool_cli::session::{Session, state_dir};
use gpool_cli::working::during;
use gpool_client::{Client, JobsQuery};
use gpool_journal::dump;
use gpool_shepherd::layout;
use gpool_store::Reader;
use gpool_wire::{API_VERSION, Job};
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::doctor;
use super::version::VERSION;
use crate::away;
use crate::config::Config;

/// Lines of the server's log in a dump.
const LOG_LINES: usize = 300;
/// Bytes at the end of the log that are searched for these lines.
const LOG_BYTES: u64 = 256 * 1024;
/// Most jobs in a dump.
const JOBS_MAX: u32 = 1000;
/// The fields of a job in a dump: none that its user wrote.
const OF_A_JOB: [&str; 23] = [
    "id",
    "user",
    "project",
    "state",
    "submitted_at",
    "version",
    "request.after",
    "request.cpus",
    "request.gpus",
    "request.grace",
    "request.mem",
    "request.priority",
    "request.time",
    "placement",
    "run.attempt",
    "run.cause",
    "run.ended_at",
    "run.exit_code",
    "run.signal",
    "run.started_at",
    "wait.reasons",
    "wait.waited_s",
    "usage",
];

#[derive(Debug, Clone, Args)]
pub struct DebugArgs {
    #[command(subcommand)]
    action: DebugAction,
}

#[derive(Debug, Clone, Subcommand)]
enum DebugAction {
    /// Gather the data for a bug report into a file, without texts of users
    #[command(
        after_help = "Included: versions, the machine, the report of doctor, settings, the server \
        with its nodes, GPUs and queue, the last entries of the journal, the state as a scenario, \
        metrics, the end of the server's log, jobs that run without a server, and the state with \
        its plan for gpool replay. Not included: environments, scripts, commands, output, notes \
        and names of jobs. Users, machines, paths and programs on GPUs are named: check the file \
        before you send it."
    )]
    Dump(DumpArgs),
}

#[derive(Debug, Clone, Args)]
struct DumpArgs {
    /// File to create, readable only by you; - is standard output
    #[arg(value_name = "FILE", conflicts_with = "output")]
    file: Option<PathBuf>,
    /// Same as FILE
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// State folder of the server
    #[arg(long, alias = "state", value_name = "FOLDER")]
    state_dir: Option<String>,
    /// Number of journal entries to include, newest first
    #[arg(long, value_name = "N", default_value_t = 200)]
    #[arg(value_parser = clap::value_parser!(u32).range(0..=100_000))]
    entries: u32,
}

/// Runs the verb.
pub fn run(args: DebugArgs, session: &Session) -> Result {
    session.refuse_remote("debug dump")?;
    let DebugAction::Dump(args) = args.action;
    // Creates the file first: if that fails, gathering would be wasted.
    let made = clock::now();
    let to = match args.file.as_ref().or(args.output.as_ref()) {
        Some(path) if path == Path::new("-") => None,
        Some(path) => Some(path.to_owned()),
        None => {
            let name = made.to_string().replace([':', '-'], "");
            let name = name.split('.').next().unwrap_or("now").replace('T', "-");
            Some(PathBuf::from(format!("gpool-dump-{name}.json")))
        }
    };
    let file = to.as_deref().map(create).transpose()?;
    let dump = during(&session.screen, "gathering", || gather(&args, session));
    let text = dump.text(made);
    let text = safe_json(&text);
    let (Some(mut file), Some(path)) = (file, to) else {
        session.screen.data(&format!("{text}\n"))?;
        return Ok(Exit::OK);
    };
    file.write_all(text.as_bytes())
        .and_then(|()| file.write_all(b"\n"))
        .map_err(|error| not_made(&path, &error))?;
    session.screen.data(&format!("{}\n", path.display()))?;
    let case = dump.case.as_ref().map(|_| "case");
    let names: Vec<&str> = dump.parts.keys().map(String::as_str).chain(case).collect();
    session.screen.note(&format!("in it: {}", names.join(", ")));
    for (part, why) in &dump.missing {
        session.screen.note(&format!("not included: {part}: {}", why.as_str().unwrap_or_default()));
    }
    session.screen.note(
        "It names users, machines and paths; it does not include environments, scripts, commands \
         and output. Check it before you send it.",
    );
    Ok(Exit::OK)
}

fn create(path: &Path) -> Result<File> {
    let mut options = File::options();
    let file = options.write(true).create_new(true).mode(0o600).open(path);
    file.map_err(|error| not_made(path, &error))
}

fn not_made(path: &Path, error: &std::io::Error) -> Failure {
    let what = format!("can't write {}: {error}", path.display());
    Failure::new(errors::NOT_WRITTEN, what).tip("gpool debug dump -o OTHER-FILE")
}

/// The gathered parts, and the errors of missing ones.
#[derive(Default)]
struct Dump {
    /// The state with its plan and checksum: the members of a JSON object, without its braces.
    case: Option<String>,
    parts: Map<String, Value>,
    missing: Map<String, Value>,
}

impl Dump {
    fn add<T: Serialize>(&mut self, name: &str, part: std::result::Result<T, String>) {
        match part.and_then(|part| serde_json::to_value(part).map_err(|e| e.to_string())) {
            Ok(value) => drop(self.parts.insert(name.to_owned(), value)),
            Err(why) => drop(self.missing.insert(name.to_owned(), Value::String(why))),
        }
    }

    /// The dump as one JSON document. The state is appended as text on its own lines, since it may
    /// be large.
    fn text(&self, made: gpool_wire::Time) -> String {
        let mut text = serde_json::to_string_pretty(&self.document(made)).unwrap_or_default();
        if let Some(case) = &self.case {
            text.truncate(text.trim_end().trim_end_matches('}').trim_end().len());
            text.push_str(",\n  ");
            text.push_str(case);
            text.push_str("\n}");
        }
        text
    }

    /// Takes the state from a case file: everything from the checksum on.
    fn add_case(&mut self, file: std::result::Result<String, String>) {
        let members = file.and_then(|file| {
            let from = file.find("\"checksum\"").ok_or_else(|| "it is none".to_owned())?;
            let to = file.trim_end().strip_suffix('}').map_or(file.len(), str::len);
            Ok(file[from..to].to_owned())
        });
        match members {
            Ok(members) => {
                self.missing.remove("case");
                self.case = Some(members);
            }
            Err(why) => drop(self.missing.insert("case".to_owned(), Value::String(why))),
        }
    }

    fn document(&self, made: gpool_wire::Time) -> Value {
        let mut document = json!({
            "apiVersion": API_VERSION,
            "kind": "dump",
            "made_at": made,
            "gpool": VERSION,
            "uid": rustix::process::geteuid().as_raw(),
            "missing": self.missing,
        });
        for (name, part) in &self.parts {
            document[name] = part.clone();
        }
        document
    }
}

fn gather(args: &DumpArgs, session: &Session) -> Dump {
    let named = args.state_dir.as_deref();
    let mut dump = Dump::default();
    dump.add("machine", Ok(machine()));
    dump.add("doctor", Ok(doctor::probes(named, session)));
    dump.add("settings", settings());
    match session.client().and_then(|client| Ok(client.version().map(|_| client)?)) {
        Ok(client) => of_server(&mut dump, &client),
        Err(failure) => dump.add::<Value>("server", Err(failure.what().to_owned())),
    }
    match state_dir(named) {
        Ok(folder) => of_folder(&mut dump, &folder, args.entries),
        Err(failure) => dump.add::<Value>("state", Err(failure.what().to_owned())),
    }
    dump.add("shepherds", Ok(away::look(named, session).in_json()));
    dump
}

fn machine() -> Value {
    let uname = rustix::system::uname();
    let text = |text: &std::ffi::CStr| text.to_string_lossy().into_owned();
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let lines = |path: &str, starts: &[&str]| -> Vec<String> {
        let text = read(path);
        let is_asked = |line: &&str| starts.iter().any(|start| line.starts_with(start));
        text.lines().filter(is_asked).map(str::to_owned).collect()
    };
    let variables = std::env::vars_os().map(|(name, _)| name.to_string_lossy().into_owned());
    let is_ours = |name: &String| {
        name.starts_with("GPOOL_") || name.starts_with("XDG_") || name.starts_with("CUDA_")
    };
    json!({
        "kernel": format!("{} {}", text(uname.sysname()), text(uname.release())),
        "machine": text(uname.machine()),
        "system": lines("/etc/os-release", &["PRETTY_NAME="]),
        "cpus": std::thread::available_parallelism().map_or(0, std::num::NonZero::get),
        "memory": lines("/proc/meminfo", &["MemTotal:", "MemAvailable:", "SwapTotal:"]),
        "load": read("/proc/loadavg").trim(),
        "uptime_s": read("/proc/uptime").split('.').next(),
        "cgroups": lines("/proc/self/mounts", &["cgroup"]),
        "own_cgroup": read("/proc/self/cgroup").lines().collect::<Vec<_>>(),
        // Only the names of variables, never their values.
        "variables_set": variables.filter(is_ours).collect::<Vec<_>>(),
    })
}

fn settings() -> std::result::Result<Value, String> {
    let config = Config::find().map_err(|failure| failure.what().to_owned())?;
    Ok(json!({
        "name": config.name, "devices": config.devices, "gpus": config.gpus,
        "strategy": config.strategy, "ignore_processes": config.ignore_processes,
    }))
}

/// Adds everything that the server shows to the caller.
fn of_server(dump: &mut Dump, client: &Client) {
    let said = |error: gpool_client::Error| error.to_string();
    dump.add("server", client.status().map_err(said));
    dump.add("recovery", client.recovery().map_err(said));
    dump.add("nodes", client.nodes().map(|list| list.items).map_err(said));
    dump.add("gpus", client.gpus().map(|list| list.items).map_err(said));
    let limit = Some(JOBS_MAX);
    let living = JobsQuery { limit, ..JobsQuery::default() };
    dump.add("queue", client.jobs(&living).map(|list| summaries(&list.items)).map_err(said));
    let state = Some("failed,timed_out,lost".to_owned());
    let ended_badly = JobsQuery { state, limit: Some(JOBS_MAX / 10), ..JobsQuery::default() };
    dump.add("ended_badly", client.jobs(&ended_badly).map(|it| summaries(&it.items)).map_err(said));
    dump.add_case(client.dump().map_err(said));
    let metrics = client.metrics().map(|text| text.lines().map(str::to_owned).collect::<Vec<_>>());
    dump.add("metrics", metrics.map_err(said));
}

fn summaries(jobs: &[Job]) -> Vec<Value> {
    let of_a_job = |job: &Job| {
        let whole = serde_json::to_value(job).unwrap_or_default();
        let taken = OF_A_JOB.iter().map(|key| ((*key).to_owned(), value_at(&whole, key).clone()));
        Value::Object(taken.collect())
    };
    jobs.iter().map(of_a_job).collect()
}

/// Adds the state folder, as far as the caller may read it.
fn of_folder(dump: &mut Dump, folder: &Path, n_entries: u32) {
    dump.add("state", files(folder));
    let nodes = layout::folders(folder).into_iter().skip(1).map(|node| files(&node));
    let nodes = nodes.map(|said| said.unwrap_or_else(Value::String)).collect::<Vec<_>>();
    if !nodes.is_empty() {
        dump.add("nodes_state", Ok(nodes));
    }
    let reader = || Reader::open(folder).map_err(|error| error.to_string());
    dump.add("journal", reader().and_then(|reader| dump::journal(&reader, n_entries)));
    if dump.case.is_none() {
        let case = reader().and_then(|reader| dump::case(&reader));
        let text = case.map(|case| String::from_utf8_lossy(&case.file()).into_owned());
        dump.add_case(text);
    }
    let scenario = reader().and_then(|reader| dump::scenario(&reader));
    dump.add("scenario", scenario.map(|text| text.lines().map(str::to_owned).collect::<Vec<_>>()));
    dump.add("server_log", last_lines(&folder.join("server.log")));
}

/// The files directly in the folder, by name and size.
fn files(folder: &Path) -> std::result::Result<Value, String> {
    let unread = |error: std::io::Error| format!("{}: {error}", folder.display());
    let mut files = Map::new();
    for entry in std::fs::read_dir(folder).map_err(unread)? {
        let entry = entry.map_err(unread)?;
        let about = entry.metadata().map_err(unread)?;
        let size = if about.is_dir() { Value::from("folder") } else { Value::from(about.len()) };
        files.insert(entry.file_name().to_string_lossy().into_owned(), size);
    }
    let alerts = std::fs::read_dir(folder.join("alerts")).map_or(0, std::iter::Iterator::count);
    Ok(json!({"folder": folder, "files": files, "alerts": alerts}))
}

fn last_lines(log: &Path) -> std::result::Result<Vec<String>, String> {
    let read = || -> std::io::Result<Vec<u8>> {
        let mut file = File::open(log)?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(LOG_BYTES)))?;
        let mut bytes = Vec::new();
        file.take(LOG_BYTES).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    let bytes = read().map_err(|error| format!("{}: {error}", log.display()))?;
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<&str> = text.lines().collect();
    let last = lines.len().saturating_sub(LOG_LINES);
    Ok(lines[last..].iter().map(|line| (*line).to_owned()).collect())
}
