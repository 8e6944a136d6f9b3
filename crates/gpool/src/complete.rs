//! Completes command lines in a shell: verbs and flags from the parser, and names of jobs, nodes,
//! GPUs and so on from the server, if it answers at once. Nothing here prints an error: a user that
//! presses Tab gets words or nothing.

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::time::Duration;

use clap::Command;
use clap::builder::StyledStr;
use clap_complete::CompletionCandidate;
use clap_complete::engine::ArgValueCompleter;
use clap_complete::env::{CompleteEnv, Shells};
use gpool_cli::errors;
use gpool_client::{Client, JobsQuery};
use gpool_model::job::JobState;
use gpool_model::pattern::short_model;
use gpool_wire::Job;

use crate::cli::{self, Verb};
use crate::topics;

/// The variable with which the shell's script asks for words.
const ASKS: &str = "GPOOL_COMPLETE";
/// Time limit for an answer of the server: users do not wait longer for a word.
const PATIENCE: Duration = Duration::from_millis(250);
const WORDS_MAX: u32 = 200;

/// Answers a shell that asks for completions; false if this call is not such a request.
#[must_use]
pub fn answered(verbs: &'static [Verb], words: &[OsString]) -> bool {
    if std::env::var_os(ASKS).is_none() {
        return false;
    }
    let here = std::env::current_dir().ok();
    let asked = CompleteEnv::with_factory(|| with_values(cli::command(verbs), verbs))
        .var(ASKS)
        .bin("gpool");
    // A line that can't be completed stays as it is.
    asked.try_complete(words.to_vec(), here.as_deref()).unwrap_or(true)
}

/// The completion script of a shell; `None` for an unknown shell.
#[must_use]
pub fn script(shell: &str) -> Option<Vec<u8>> {
    let shells = Shells::builtins();
    let shell = shells.completer(shell)?;
    // The path of this program, unless the shell finds it by name.
    let program = std::env::current_exe().ok().filter(|path| !is_in_path(path));
    let program = program.and_then(|path| path.to_str().map(str::to_owned));
    let mut script = Vec::new();
    let completer = program.as_deref().unwrap_or("gpool");
    shell.write_registration(ASKS, "gpool", "gpool", completer, &mut script).ok()?;
    Some(script)
}

fn is_in_path(program: &Path) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join("gpool") == program)
}

/// The parser with a completion function for each kind of value.
fn with_values(command: Command, verbs: &'static [Verb]) -> Command {
    let command = command.mut_args(|arg| {
        let name = arg.get_value_names().and_then(|names| names.first()).map(ToString::to_string);
        match name.as_deref() {
            Some("WHAT") => {
                arg.add(ArgValueCompleter::new(move |start: &OsStr| help_on(verbs, start)))
            }
            Some(name) if let Some(values) = values(name) => {
                arg.add(ArgValueCompleter::new(values))
            }
            _ => arg,
        }
    });
    command.mut_subcommands(|verb| with_values(verb, verbs))
}

/// The completion function of a value, by its name in help.
fn values(name: &str) -> Option<fn(&OsStr) -> Vec<CompletionCandidate>> {
    Some(match name {
        "JOB" | "JOBS" => jobs,
        "PROJECT" => projects,
        "POOL" => pools,
        "USER" => {
            |start| candidates(start, |jobs, _| jobs.iter().map(|it| &it.user).cloned().collect())
        }
        "NODE" | "NODES" => nodes,
        "GPUS" => gpus,
        "STATE" | "STATES" => states,
        _ => return None,
    })
}

fn projects(start: &OsStr) -> Vec<CompletionCandidate> {
    let Some(start) = start.to_str() else { return Vec::new() };
    let all = client().and_then(|client| client.projects().ok()).map(|list| list.items);
    let fits = |it: &gpool_wire::Project| it.name.starts_with(start);
    let word = |it: gpool_wire::Project| {
        let guaranteed = it.gpus.map(|gpus| format!("{gpus} GPUs guaranteed"));
        word_of(&it.name, &guaranteed.unwrap_or_default())
    };
    all.into_iter().flatten().filter(fits).map(word).collect()
}

fn pools(start: &OsStr) -> Vec<CompletionCandidate> {
    let Some(start) = start.to_str() else { return Vec::new() };
    let all = client().and_then(|client| client.pools().ok()).map(|list| list.items);
    let fits = |it: &gpool_wire::Pool| it.name.starts_with(start);
    let word = |it: gpool_wire::Pool| word_of(&it.name, &it.nodes.join(" "));
    all.into_iter().flatten().filter(fits).map(word).collect()
}

/// A client with a short time limit and no retries.
fn client() -> Option<Client> {
    let client = Client::find(None, None).ok()?;
    Some(client.with_retries(Duration::ZERO).with_timeout(Some(PATIENCE)))
}

fn some_jobs(client: &Client) -> Vec<Job> {
    let query = JobsQuery { limit: Some(WORDS_MAX), ..JobsQuery::default() };
    client.jobs(&query).map(|list| list.items).unwrap_or_default()
}

/// Completes job ids, with name and state as description. For a list it completes the last entry.
fn jobs(start: &OsStr) -> Vec<CompletionCandidate> {
    let Some(start) = start.to_str() else { return Vec::new() };
    // The part before the last entry stays: `12,` or `ok:`.
    let before = start.rfind([',', ':']).map_or("", |at| &start[..=at]);
    let last = &start[before.len()..];
    let mut found: Vec<CompletionCandidate> = ["@", "all"]
        .into_iter()
        .filter(|word| !last.is_empty() && word.starts_with(last))
        .map(|word| word_of(&format!("{before}{word}"), ""))
        .collect();
    let all = client().map(|client| some_jobs(&client)).unwrap_or_default();
    for job in all.iter().filter(|job| job.id.starts_with(last)) {
        let about = format!("{} · {}", job.name, job.state.as_str());
        found.push(word_of(&format!("{before}{}", job.id), &about));
    }
    // A name that several jobs have is not a valid reference.
    let is_single = |job: &&Job| all.iter().filter(|other| other.name == job.name).count() == 1;
    let by_name = all.iter().filter(|job| !last.is_empty() && job.name.starts_with(last));
    for job in by_name.filter(is_single).filter(|job| !job.private) {
        let about = format!("job {} · {}", job.id, job.state.as_str());
        found.push(word_of(&format!("{before}{}", job.name), &about));
    }
    found
}

fn candidates(
    start: &OsStr,
    read: impl Fn(&[Job], &Client) -> Vec<String>,
) -> Vec<CompletionCandidate> {
    let Some((start, client)) = start.to_str().zip(client()) else { return Vec::new() };
    let mut words = read(&some_jobs(&client), &client);
    words.sort();
    words.dedup();
    words.iter().filter(|word| word.starts_with(start)).map(|word| word_of(word, "")).collect()
}

fn nodes(start: &OsStr) -> Vec<CompletionCandidate> {
    let Some((start, client)) = start.to_str().zip(client()) else { return Vec::new() };
    let nodes = client.nodes().map(|list| list.items).unwrap_or_default();
    let about = |free: u32, all: u32| format!("{free} of {all} GPUs free");
    let here = nodes.iter().filter(|node| node.name.starts_with(start));
    here.map(|node| word_of(&node.name, &about(node.n_gpus_free, node.n_gpus))).collect()
}

/// Completes counts and the models of the cluster.
fn gpus(start: &OsStr) -> Vec<CompletionCandidate> {
    let Some(start) = start.to_str() else { return Vec::new() };
    let devices = client().and_then(|client| client.gpus().ok());
    let devices = devices.map(|list| list.items).unwrap_or_default();
    let mut models: Vec<String> = devices.iter().map(|gpu| short_model(&gpu.model)).collect();
    models.sort();
    let n_devices = models.len();
    models.dedup();
    let counts = (1..=n_devices.clamp(1, 8)).map(|n| n.to_string());
    let models = models.into_iter().map(|model| format!("{}:", model.to_lowercase()));
    counts.chain(models).filter(|it| it.starts_with(start)).map(|it| word_of(&it, "")).collect()
}

fn states(start: &OsStr) -> Vec<CompletionCandidate> {
    let Some(start) = start.to_str() else { return Vec::new() };
    let before = start.rfind(',').map_or("", |at| &start[..=at]);
    let last = &start[before.len()..];
    let words = JobState::ALL.map(JobState::as_str).into_iter().chain(["all"]);
    let words = words.filter(|word| word.starts_with(last));
    words.map(|word| word_of(&format!("{before}{word}"), "")).collect()
}

fn help_on(verbs: &[Verb], start: &OsStr) -> Vec<CompletionCandidate> {
    let Some(start) = start.to_str() else { return Vec::new() };
    let lists = [("topics", "all topics"), ("codes", "all error codes")];
    let pages = topics::all().chain(lists).map(|(name, about)| word_of(name, about));
    let codes = errors::all().map(|entry| word_of(&entry.code.to_string(), entry.title));
    let verbs = verbs.iter().map(|verb| word_of(verb.name, verb.about));
    let all: Vec<CompletionCandidate> = pages.chain(codes).chain(verbs).collect();
    let starts = |it: &CompletionCandidate| it.get_value().to_string_lossy().starts_with(start);
    all.into_iter().filter(starts).collect()
}

fn word_of(word: &str, about: &str) -> CompletionCandidate {
    // Users choose the names of jobs, so control characters are removed.
    let about = gpool_cli::render::safe::safe(about).into_owned();
    let about = Some(about).filter(|about| !about.is_empty()).map(StyledStr::from);
    CompletionCandidate::new(word).help(about)
}
