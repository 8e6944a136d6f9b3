//! `gpool edit`: changes what can still change of a job. `prio` and `note` are short for it.

use clap::Args;
use gpool_cli::act::Each;
use gpool_cli::args::jobs::Jobs;
use gpool_cli::args::life_flags::LifeFlags;
use gpool_cli::args::request_flags::{Changed, NONE};
use gpool_cli::args::values;
use gpool_cli::caller::Variable;
use gpool_cli::errors;
use gpool_cli::exit::Exit;
use gpool_cli::failure::{Failure, Result};
use gpool_cli::render::eta::interval;
use gpool_cli::render::reason;
use gpool_cli::render::safe::safe;
use gpool_cli::render::view::View;
use gpool_cli::render::words::count;
use gpool_cli::request::{begin, moment, retry, waited_for};
use gpool_cli::resolve::{self, JobScope};
use gpool_cli::script::Script;
use gpool_cli::session::Session;
use gpool_client::Client;
use gpool_model::enforcement::Enforcement;
use gpool_model::job::JobState;
use gpool_wire::field::heading;
use gpool_wire::{GpuShare, Job, JobPatch, Problem, Why};
use serde_json::Value;

use super::edit_text;

#[derive(Debug, Clone, Args)]
#[command(after_help = "The value none removes a setting: --deadline none. Without flags, on a \
    terminal, $EDITOR opens the settings. Of a running job, only --name, --note, --retry, \
    --requeue and the size of its parts of GPUs (--gpus 0.5:1) can change; gpool extend changes \
    its time limit.")]
pub struct EditArgs {
    #[command(flatten)]
    jobs: Jobs,
    #[command(flatten)]
    changed: Changed,
    /// Allow other jobs on the nodes of the job
    #[arg(long, conflicts_with = "exclusive", help_heading = heading::NODES)]
    no_exclusive: bool,
    /// Jobs to wait for, as [ok:|fail:|end:]JOB,…, or none
    #[arg(long, value_name = "JOBS", help_heading = heading::TIME)]
    after: Vec<String>,
    #[command(flatten)]
    life: LifeFlags,
    /// Environment variable to change; without a value, that of this process
    #[arg(short = 'e', long = "env", value_name = "NAME[=VALUE]")]
    #[arg(help_heading = heading::PROGRAM)]
    env: Vec<Variable>,
    /// Working folder of the job
    #[arg(long, value_name = "FOLDER", value_parser = values::filled)]
    #[arg(help_heading = heading::PROGRAM)]
    cwd: Option<String>,
    /// Script to run instead of the present program
    #[arg(long, value_name = "FILE", value_parser = values::filled)]
    #[arg(help_heading = heading::PROGRAM)]
    script: Option<String>,
    /// Line for /bin/sh to run instead of the present program
    #[arg(long, value_name = "LINE", value_parser = values::filled, conflicts_with = "script")]
    #[arg(help_heading = heading::PROGRAM)]
    command: Option<String>,
}

/// Runs it.
///
/// # Errors
/// Nothing is to be changed, there is no such job, or the server refuses.
pub fn run(args: &EditArgs, session: &Session) -> Result {
    let client = session.client()?;
    let patch = args.patch(&client, session)?;
    if !patch.is_empty() {
        patch.check().map_err(|refusal| Failure::from(Problem::from(refusal)))?;
        return apply(&args.jobs, &patch, session);
    }
    match edit_text::patch_from_editor(&args.jobs, &client, session)? {
        Some((id, patch, version)) => change(&client, &id, &patch, Some(version), session),
        None => Err(Failure::new(errors::USAGE, "there is nothing to change")
            .tip("gpool edit JOB --priority -10")
            .tip("gpool edit JOB --time 4h --deadline 'fri 18:00'")
            .tip("gpool edit JOB -e LR=0.2")),
    }
}

impl EditArgs {
    fn patch(&self, client: &Client, session: &Session) -> Result<JobPatch> {
        let mut patch = self.changed.0.clone();
        if self.no_exclusive {
            patch.set("exclusive", |to| to.exclusive = false);
        }
        let jobs = |flag: &str, words: &[String]| match words {
            [none] if [NONE, ""].contains(&none.as_str()) => Ok(Vec::new()),
            words => waited_for(client, session.me(), flag, words),
        };
        if !self.after.is_empty() {
            let after = jobs("--after", &self.after)?;
            patch.set("after", |to| to.after = after);
        }
        if !self.life.after_one.is_empty() {
            let after = jobs("--after-one", &self.life.after_one)?;
            patch.set("after_one", |to| to.after_one = after);
        }
        self.moments(&mut patch, session)?;
        if let Some(retry) = retry(&self.life)? {
            patch.set("retry", |to| to.retry = Some(retry));
        }
        if let Some(cwd) = &self.cwd {
            let directory = gpool_cli::caller::directory(Some(cwd))?;
            patch.set("directory", |to| to.directory = directory);
        }
        if !self.env.is_empty() {
            let variables = self.env.iter().map(value_of).collect::<Result<_>>()?;
            patch.set("environment", |to| to.environment = variables);
        }
        if let Some(script) = &self.script {
            let script = Script::read(script)?.to_wire();
            patch.set("script", |to| to.script = Some(script));
        }
        if let Some(line) = &self.command {
            let command = ["/bin/sh", "-c", line].map(str::to_owned).to_vec();
            patch.set("command", |to| to.command = command);
        }
        Ok(patch)
    }

    fn moments(&self, patch: &mut JobPatch, session: &Session) -> Result<()> {
        let clock = &session.screen.clock;
        if let Some(text) = &self.life.begin {
            let at = match text.as_str() {
                NONE => None,
                text => {
                    let (at, remark) = begin(clock, text)?;
                    session.screen.note(&format!("note: {remark}"));
                    at
                }
            };
            patch.set("begin", |to| to.begin = at);
        }
        if let Some(text) = &self.life.deadline {
            let at = match text.as_str() {
                NONE => None,
                text => Some(moment(clock, "--deadline", text)?),
            };
            patch.set("deadline", |to| to.deadline = at);
        }
        Ok(())
    }
}

/// A variable with its value, from the flag or from this process.
fn value_of(variable: &Variable) -> Result<(String, String)> {
    let name = variable.name.clone();
    match variable.value.clone().or_else(|| std::env::var(&name).ok()) {
        Some(value) => Ok((name, value)),
        None => {
            let what = format!("-e {name}: this process has no such variable");
            Err(Failure::new(errors::INVALID, what).tip(format!("-e {name}=VALUE")))
        }
    }
}

/// Makes the same change to each of the jobs.
///
/// # Errors
/// There is no such job, or the server refuses some of them; the others are changed.
pub fn apply(jobs: &Jobs, patch: &JobPatch, session: &Session) -> Result {
    let client = session.client()?;
    let user = jobs.user.as_deref();
    let mut found =
        resolve::each(&client, jobs.references(), user, session.me(), JobScope::Living)?;
    if found.ids.is_empty() && found.refused.is_empty() {
        session.screen.note("no job to change");
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
    let view = session.view();
    let start = both.as_ref().and_then(|(before, after)| start_words(before, after, &view));
    let time = both.as_ref().and_then(|(before, after)| time_words(before, after, &view));
    let start: String = start.into_iter().chain(time).map(|words| format!(" · {words}")).collect();
    let changed = changed_words(patch, &job);
    session.screen.note(&safe(&format!("job {} {}{start}", job.id, changed.join(" · "))));
    let sizes = ["gpus", "gpu_memory", "gpu_share"];
    if job.state == JobState::Running && sizes.into_iter().any(|field| patch.sets(field)) {
        not_enforced(client, &job.id, session)?;
    }
    Ok(Exit::OK)
}

/// Notes the GPUs that do not hold a running job to its new size.
fn not_enforced(client: &Client, id: &str, session: &Session) -> Result<()> {
    for gpu in client.gpus()?.items {
        let own = gpu.shares.iter().filter(|share| share.job == id);
        let level = |share: &GpuShare| share.enforcement.parse::<Enforcement>().ok();
        let weak = own.filter_map(level).find(|level| *level < Enforcement::Capped);
        if let Some(level) = weak {
            session.screen.note(&format!(
                "the size is not enforced on {}:{} ({level}): only the job itself keeps to it",
                safe(&gpu.node),
                gpu.index
            ));
        }
    }
    Ok(())
}

/// What a patch changed, as the job has it now: `priority 7`, `name "train"`, `time 4h`.
fn changed_words(patch: &JobPatch, job: &Job) -> Vec<String> {
    let Ok(Value::Object(fields)) = serde_json::to_value(patch) else { return Vec::new() };
    let word = |(field, value): (&String, &Value)| match (field.as_str(), value) {
        ("notify", _) if job.request.notify.is_empty() => vec!["sends no messages".to_owned()],
        ("notify", _) => job.request.notify.iter().map(|rule| format!("tells {rule}")).collect(),
        ("note", Value::String(note)) if note.is_empty() => vec!["without a note".to_owned()],
        ("script", _) => vec!["script changed".to_owned()],
        ("environment", Value::Object(variables)) => {
            variables.keys().map(|name| format!("variable {name} changed")).collect()
        }
        ("name" | "note", value) => vec![format!("{field} {value}")],
        (_, Value::Null) => vec![format!("{field} none")],
        (_, Value::String(text)) => vec![format!("{field} {text}")],
        (_, value) => vec![format!("{field} {value}")],
    };
    fields.iter().flat_map(word).collect()
}

/// What a change did to when the job starts, if it did anything.
fn start_words(before: &Why, after: &Why, view: &View<'_>) -> Option<String> {
    let of = |why: &Why| match (&why.place, waits_for(&why.job, view)) {
        (_, Some(reason)) => Some(reason),
        (Some(place), None) => Some(format!("behind {}", count(place.n_ahead, "job"))),
        (None, None) => None,
    };
    match (of(before), of(after)) {
        (before, after) if before == after => None,
        (Some(before), Some(after)) => Some(format!("now: {after} (before: {before})")),
        (Some(before), None) => Some(format!("now: {} (before: {before})", after.job.state)),
        (None, after) => after.map(|after| format!("now: {after}")),
    }
}

/// What a change did to the time at which the job likely starts, if it did anything.
fn time_words(before: &Why, after: &Why, view: &View<'_>) -> Option<String> {
    let of = |why: &Why| why.eta.as_ref().map(|eta| interval(eta, view));
    match (of(before), of(after)) {
        (before, after) if before == after => None,
        (Some(before), Some(after)) => Some(format!("expected start {after}, was {before}")),
        (None, after) => after.map(|after| format!("expected start {after}")),
        // It does not wait any more, or nothing is known of when.
        (Some(_), None) => None,
    }
}

fn waits_for(job: &Job, view: &View<'_>) -> Option<String> {
    let is_pending = job.state == gpool_model::job::JobState::Pending;
    let reason = job.wait.reasons.first().filter(|_| !is_pending);
    reason.map(|it| reason::brief(it, &job.user, view))
}
