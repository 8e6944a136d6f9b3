//! `gpool edit`: changes what can still change of a job. `prio` and `note` are short for it.

use clap::Args;
use gpool_cli::act::Each;
use gpool_cli::args::jobs::Jobs;
use gpool_cli::args::values;
use gpool_cli::errors;
use gpool_cli::exit::Exit;
use gpool_cli::failure::{Failure, Result};
use gpool_cli::render::eta::interval;
use gpool_cli::render::safe::safe;
use gpool_cli::render::words::count;
use gpool_cli::request::{begin, moment, waited_for};
use gpool_cli::resolve::{self, Scope};
use gpool_cli::script::Script;
use gpool_cli::session::Session;
use gpool_client::Client;
use gpool_wire::{Job, JobPatch, Problem, RetryAsked, Time, Why, Written};
use serde_json::Value;

use super::edit_text;

/// Change what can still change of a job
#[derive(Debug, Clone, Args)]
#[command(after_help = "The word none takes away what may be absent: gpool edit 1842 --deadline \
    none --after none. Without flags, on a terminal, $EDITOR opens what can change. Once a job \
    runs, that is --name, --note, --retry and --requeue, and its time limit by gpool extend.")]
pub struct EditArgs {
    #[command(flatten)]
    jobs: Jobs,
    /// New priority, -1000 to 1000; higher goes first
    #[arg(long, visible_alias = "prio", value_name = "N", value_parser = values::priority)]
    #[arg(allow_hyphen_values = true)]
    priority: Option<i32>,
    /// New note; an empty one removes it
    #[arg(long, value_name = "TEXT", value_parser = values::note)]
    note: Option<String>,
    /// What the job is called
    #[arg(long, value_name = "NAME", value_parser = values::name)]
    name: Option<String>,
    /// Who is charged
    #[arg(long, value_name = "PROJECT", value_parser = values::filled)]
    project: Option<String>,
    /// GPUs: 2, a100:2; 0 for none
    #[arg(long, value_name = "GPUS", value_parser = values::gpus, allow_hyphen_values = true)]
    gpus: Option<String>,
    /// Only on these nodes: lab1,lab2 or node[1-4,7], or none for any
    #[arg(long, value_name = "NODES", value_parser = values::filled)]
    node: Vec<String>,
    /// Not on these nodes, or none
    #[arg(long, value_name = "NODES", value_parser = values::filled)]
    not_node: Vec<String>,
    /// Only on nodes with a label: rack=3, rack!=3, ssd, or none
    #[arg(long = "where", value_name = "RULE", value_parser = values::filled)]
    rules: Vec<String>,
    /// Only on nodes without other jobs
    #[arg(long, conflicts_with = "no_exclusive")]
    exclusive: bool,
    /// Beside other jobs
    #[arg(long)]
    no_exclusive: bool,
    /// CPU cores, or none
    #[arg(long, value_name = "CORES", value_parser = values::filled)]
    cpus: Option<String>,
    /// Memory, or none
    #[arg(long, value_name = "SIZE", value_parser = values::filled)]
    mem: Option<String>,
    /// Time limit, or none
    #[arg(long, value_name = "TIME", value_parser = values::filled)]
    time: Option<String>,
    /// Between TERM and KILL when it is ended
    #[arg(long, value_name = "TIME", value_parser = values::span_written)]
    grace: Option<String>,
    /// Start after all of these: [ok:|fail:|end:]JOB,…, or none
    #[arg(long, value_name = "JOBS")]
    after: Option<String>,
    /// Start after the first of these: [ok:|fail:|end:]JOB,…, or none
    #[arg(long, value_name = "JOBS")]
    after_one: Option<String>,
    /// If what it waits for can never be: cancel or keep it
    #[arg(long, value_name = "WHAT", value_parser = ["cancel", "keep"])]
    on_unmet: Option<String>,
    /// Do not start before: 18:00, now+2h, or none
    #[arg(long, value_name = "MOMENT", value_parser = values::filled)]
    begin: Option<String>,
    /// End it by then, or none
    #[arg(long, value_name = "MOMENT", value_parser = values::filled)]
    deadline: Option<String>,
    /// Signal so long before its time is over, or none
    #[arg(long, value_name = "[SIGNAL@]TIME", value_parser = values::filled)]
    signal_before: Option<String>,
    /// Run it again after a failure, so often at most; 0 for never
    #[arg(long, value_name = "N", value_parser = values::retries)]
    retry: Option<u32>,
    /// After which ends: fail, timeout, oom, lost
    #[arg(long, value_name = "ENDS", value_delimiter = ',', requires = "retry")]
    retry_on: Vec<String>,
    /// After which exit codes as well
    #[arg(long, value_name = "CODES", value_delimiter = ',', requires = "retry")]
    retry_exit: Vec<i32>,
    /// Pause before it is run again, doubled each time
    #[arg(long, value_name = "TIME", value_parser = values::span_written, requires = "retry")]
    backoff: Option<String>,
    /// Run it again after its node has failed
    #[arg(long, conflicts_with = "no_requeue")]
    requeue: bool,
    /// Never run it again
    #[arg(long)]
    no_requeue: bool,
    /// It may borrow, and what it holds may be taken back for others
    #[arg(long, conflicts_with = "no_preemptible")]
    preemptible: bool,
    /// It is not taken back, and uses no more than its project is guaranteed
    #[arg(long)]
    no_preemptible: bool,
    /// How it may be taken back: pause, checkpoint, requeue, kill
    #[arg(long, value_name = "EXITS", value_delimiter = ',', value_parser = values::exit)]
    exits: Vec<String>,
    /// Signal that tells it to save what it has before it is taken back, or none
    #[arg(long, value_name = "SIGNAL[@TIME]", value_parser = values::filled)]
    checkpointable: Option<String>,
    /// Folder in which it runs
    #[arg(long, value_name = "FOLDER", value_parser = values::filled)]
    cwd: Option<String>,
    /// File to read as standard input, or none
    #[arg(long, value_name = "FILE", value_parser = values::filled)]
    stdin: Option<String>,
    /// File for standard output, or none for gpool's own
    #[arg(long, value_name = "FILE", value_parser = values::filled)]
    stdout: Option<String>,
    /// File for standard error, or none for gpool's own
    #[arg(long, value_name = "FILE", value_parser = values::filled)]
    stderr: Option<String>,
    /// Elements of an array that run at once; 0 for any number
    #[arg(long, value_name = "N")]
    max_parallel: Option<u32>,
    /// Elements of an array that may fail
    #[arg(long, value_name = "N")]
    max_fails: Option<u32>,
    /// A script in place of what it runs
    #[arg(long, value_name = "FILE", value_parser = values::filled)]
    script: Option<String>,
    /// A line for /bin/sh in place of what it runs
    #[arg(long, value_name = "LINE", value_parser = values::filled, conflicts_with = "script")]
    command: Option<String>,
}

/// Runs it.
///
/// # Errors
/// Nothing is to be changed, there is no such job, or the server refuses.
pub fn run(args: &EditArgs, session: &Session) -> Result {
    let client = session.client()?;
    let patch = args.patch(&client, session)?;
    if patch != JobPatch::default() {
        patch.check().map_err(|refusal| Failure::from(Problem::from(refusal)))?;
        return apply(&args.jobs, &patch, session);
    }
    match edit_text::asked(&args.jobs, &client, session)? {
        Some((id, patch, version)) => change(&client, &id, &patch, Some(version), session),
        None => Err(Failure::new(errors::USAGE, "nothing is to be changed")
            .tip("gpool edit JOB --priority -10")
            .tip("gpool edit JOB --time 4h --deadline 'fri 18:00'")),
    }
}

impl EditArgs {
    fn patch(&self, client: &Client, session: &Session) -> Result<JobPatch> {
        let me = session.me();
        let clock = &session.screen.clock;
        let jobs = |flag: &str, text: &Option<String>| match text.as_deref() {
            None => Ok(None),
            Some("none" | "") => Ok(Some(Vec::new())),
            Some(text) => waited_for(client, me, flag, &[text.to_owned()]).map(Some),
        };
        let script = self.script.as_deref().map(Script::read).transpose()?;
        let line = |line: &String| ["/bin/sh", "-c", line].map(str::to_owned).to_vec();
        let retry = self.retry.map(|most| RetryAsked {
            most,
            on: self.retry_on.clone(),
            exits: self.retry_exit.clone(),
            backoff: self.backoff.clone().map(Written::Text),
        });
        let begin = or_none(&self.begin, |text| {
            let (at, remark) = begin(clock, text)?;
            session.screen.note(&format!("note: {remark}"));
            Ok(at)
        })?;
        let deadline = or_none(&self.deadline, |text| moment(clock, "--deadline", text).map(Some))?;
        let cwd = self.cwd.as_deref().map(|cwd| gpool_cli::caller::directory(Some(cwd)));
        Ok(JobPatch {
            priority: self.priority,
            note: self.note.clone(),
            notify: None,
            max_parallel: self.max_parallel,
            max_fails: self.max_fails,
            name: self.name.clone(),
            project: self.project.clone(),
            command: self.command.as_ref().map(line),
            script: script.as_ref().map(Script::written),
            directory: cwd.transpose()?,
            stdin: text_or_none(&self.stdin),
            stdout: text_or_none(&self.stdout),
            stderr: text_or_none(&self.stderr),
            gpus: self.gpus.clone(),
            node: list_or_none(&self.node),
            not_node: list_or_none(&self.not_node),
            rules: list_or_none(&self.rules),
            exclusive: (self.exclusive || self.no_exclusive).then_some(self.exclusive),
            cpus: written_or_none(&self.cpus),
            mem: written_or_none(&self.mem),
            time: written_or_none(&self.time),
            grace: self.grace.clone().map(Written::Text),
            after: jobs("--after", &self.after)?,
            after_one: jobs("--after-one", &self.after_one)?,
            on_unmet: self.on_unmet.clone(),
            begin,
            deadline,
            signal_before: text_or_none(&self.signal_before),
            retry: retry.map(Some),
            requeue: match (self.requeue, self.no_requeue) {
                (false, false) => None,
                (requeue, _) => Some(Some(requeue)),
            },
            preemptible: (self.preemptible || self.no_preemptible).then_some(self.preemptible),
            exits: (!self.exits.is_empty()).then(|| self.exits.clone()),
            checkpoint: text_or_none(&self.checkpointable),
        })
    }
}

fn text_or_none(text: &Option<String>) -> Option<Option<String>> {
    text.as_ref().map(|text| Some(text.clone()).filter(|text| text != "none"))
}

fn list_or_none(list: &[String]) -> Option<Vec<String>> {
    match list {
        [] => None,
        [none] if none == "none" => Some(Vec::new()),
        list => Some(list.to_vec()),
    }
}

fn written_or_none(text: &Option<String>) -> Option<Option<Written>> {
    text_or_none(text).map(|text| text.map(Written::Text))
}

fn or_none(
    text: &Option<String>,
    read: impl FnOnce(&str) -> Result<Option<Time>>,
) -> Result<Option<Option<Time>>> {
    match text.as_deref() {
        None => Ok(None),
        Some("none") => Ok(Some(None)),
        Some(text) => read(text).map(Some),
    }
}

/// Makes the same change to each of the jobs.
///
/// # Errors
/// There is no such job, or the server refuses some of them; the others are changed.
pub fn apply(jobs: &Jobs, patch: &JobPatch, session: &Session) -> Result {
    let client = session.client()?;
    let user = jobs.user.as_deref();
    let mut found = resolve::each(&client, jobs.references(), user, session.me(), Scope::Living)?;
    if found.ids.is_empty() && found.refused.is_empty() {
        session.screen.note("there is no job to change");
    }
    let mut each = Each::of(&mut found);
    for id in &found.ids {
        each.take(change(&client, id, patch, None, session))?;
    }
    each.end("change", Exit::OK)
}

fn change(
    client: &Client,
    id: &str,
    patch: &JobPatch,
    version: Option<u64>,
    session: &Session,
) -> Result {
    let before = client.why(id).ok();
    let job = client.edit(id, patch, version)?;
    let after = before.as_ref().and_then(|_| client.why(id).ok());
    let both = before.zip(after);
    let start = both.as_ref().and_then(|(before, after)| start_words(before, after));
    let time = both.as_ref().and_then(|(before, after)| time_words(before, after, session));
    let start: String = start.into_iter().chain(time).map(|words| format!(" · {words}")).collect();
    let changed = changed_words(patch, &job);
    session.screen.note(&safe(&format!("job {} {}{start}", job.id, changed.join(" · "))));
    Ok(Exit::OK)
}

/// What a patch changed, as the job has it now: `priority 7`, `name "train"`, `time 4h`.
fn changed_words(patch: &JobPatch, job: &Job) -> Vec<String> {
    let Ok(Value::Object(fields)) = serde_json::to_value(patch) else { return Vec::new() };
    let word = |(field, value): (&String, &Value)| match (field.as_str(), value) {
        ("notify", _) if job.notify.is_empty() => vec!["sends no messages".to_owned()],
        ("notify", _) => job.notify.iter().map(|rule| format!("tells {rule}")).collect(),
        ("note", Value::String(note)) if note.is_empty() => vec!["without a note".to_owned()],
        ("script", _) => vec!["script changed".to_owned()],
        ("name" | "note", value) => vec![format!("{field} {value}")],
        (_, Value::Null) => vec![format!("{field} none")],
        (_, Value::String(text)) => vec![format!("{field} {text}")],
        (_, value) => vec![format!("{field} {value}")],
    };
    fields.iter().flat_map(word).collect()
}

/// What a change did to when the job starts, if it did anything.
fn start_words(before: &Why, after: &Why) -> Option<String> {
    let of = |why: &Why| match (&why.place, waits_for(&why.job)) {
        (_, Some(reason)) => Some(reason),
        (Some(place), None) => Some(format!("behind {}", count(place.n_ahead, "job"))),
        (None, None) => None,
    };
    match (of(before), of(after)) {
        (before, after) if before == after => None,
        (Some(before), Some(after)) => Some(format!("was {before}, is {after}")),
        (Some(before), None) => Some(format!("was {before}, is {}", after.job.state)),
        (None, after) => after.map(|after| format!("is {after}")),
    }
}

/// What a change did to the time at which the job likely starts, if it did anything.
fn time_words(before: &Why, after: &Why, session: &Session) -> Option<String> {
    let view = session.view();
    let of = |why: &Why| why.eta.as_ref().map(|eta| interval(eta, &view));
    match (of(before), of(after)) {
        (before, after) if before == after => None,
        (Some(before), Some(after)) => Some(format!("likely starts {after}, was {before}")),
        (None, after) => after.map(|after| format!("likely starts {after}")),
        // It does not wait any more, or nothing is known of when.
        (Some(_), None) => None,
    }
}

fn waits_for(job: &Job) -> Option<String> {
    let is_pending = job.state == gpool_model::job::JobState::Pending;
    job.reasons.first().filter(|_| !is_pending).map(|reason| reason.text.clone())
}
