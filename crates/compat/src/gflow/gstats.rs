//! `gstats`: the number of jobs, their results, and their run times.

use std::fmt::Write as _;

use gpool_cli::exit::Exit;
use gpool_cli::failure::{Failure, Result};
use gpool_cli::foreign::flag::FlagSupport::Covered;
use gpool_cli::foreign::flag::Takes::{Nothing, Value as Takes};
use gpool_cli::foreign::flag::{Flag, Spoken, row};
use gpool_cli::foreign::gflow::flags::CONFIG;
use gpool_cli::render::clock::span;
use gpool_cli::render::safe::safe;
use gpool_cli::resolve::every_job;
use gpool_cli::session::Session;
use gpool_client::JobsQuery;
use gpool_model::job::JobState;
use gpool_wire::{Job, Time, catalogue};
use serde_json::{Value, json};

use super::completion;
use super::job_view::n_gpus;
use crate::shim::{print, read};
use crate::slurm::times::{elapsed, long_time};

static FLAGS: &[Flag] = &[
    row("all-users", 'a', Nothing, Covered, "of all users"),
    row("output", 'o', Takes, Covered, "table, json or csv, with gflow's keys"),
    row("since", 't', Takes, Covered, "submitted since: 7d, 1h, today"),
    row("user", 'u', Takes, Covered, "of this user, or all"),
    row("version", 'V', Nothing, Covered, "prints gpool's"),
];

pub static SPOKEN: Spoken =
    Spoken { name: "gstats", about: "Count jobs of gpool", flags: &[FLAGS, CONFIG], words: "" };

/// Most jobs in the list of the longest ones.
const TOP: usize = 5;

/// Runs the command.
pub fn run(words: &[String], session: &Session) -> Result {
    if let [word, rest @ ..] = words
        && word == "completion"
    {
        return completion(rest, session);
    }
    let Some(args) = read(&SPOKEN, words, session)? else { return Ok(Exit::OK) };
    let invalid = |what: String| Failure::new(catalogue::INVALID, format!("gstats: {what}"));
    let now = session.view().now;
    let since = args.value("since").map(|text| session.screen.clock.read(text, now));
    let since = since.transpose().map_err(|why| invalid(format!("--since: {why}")))?;
    let user = match args.value("user") {
        _ if args.has("all-users") => None,
        Some("all") => None,
        user => Some(user.unwrap_or(session.me()).to_owned()),
    };
    let query =
        JobsQuery { state: Some("all".to_owned()), user: user.clone(), ..JobsQuery::default() };
    let mut jobs = every_job(&session.client()?, &query)?;
    jobs.retain(|job| since.is_none_or(|since| job.submitted_at >= since));
    let stats = stats(&jobs, user.as_deref(), args.value("since"), now);
    let text = match args.value("output").unwrap_or("table") {
        "table" => table(&stats),
        "json" => format!("{stats:#}\n"),
        "csv" => csv(&stats),
        other => {
            return Err(invalid(format!("--output: {other:?} is not table, json or csv")));
        }
    };
    print(&text, session)
}

#[expect(clippy::cast_precision_loss, reason = "counts of jobs and seconds")]
fn stats(jobs: &[Job], user: Option<&str>, since: Option<&str>, now: Time) -> Value {
    let n = |state: &dyn Fn(JobState) -> bool| jobs.iter().filter(|job| state(job.state)).count();
    let mean = |values: Vec<f64>| match values.len() {
        0 => 0.0,
        n => values.iter().sum::<f64>() / n as f64,
    };
    let ran = |job: &Job| elapsed(job, now).unwrap_or(0) as f64;
    let ended = n(&|state| state.is_end());
    let done = n(&|state| state == JobState::Succeeded);
    let with_gpus: Vec<&Job> = jobs.iter().filter(|job| n_gpus(job) > 0).collect();
    let gpu_hours = jobs.iter().fold(0.0, |sum, job| sum + job.usage.gpu_hours);
    let mut top: Vec<&Job> = jobs.iter().filter(|job| job.run.started_at.is_some()).collect();
    top.sort_by_key(|job| std::cmp::Reverse(elapsed(job, now)));
    let top: Vec<Value> = top
        .iter()
        .take(TOP)
        .map(|job| {
            json!({
                "id": job.id, "name": job.name, "runtime_secs": ran(job), "gpus": n_gpus(job),
            })
        })
        .collect();
    let started = || jobs.iter().filter(|job| job.run.started_at.is_some());
    json!({
        "user": user,
        "since": since,
        "total_jobs": jobs.len(),
        "completed_jobs": done,
        "failed_jobs": n(&|state| matches!(state, JobState::Failed | JobState::Lost)),
        "cancelled_jobs": n(&|state| state == JobState::Cancelled),
        "timeout_jobs": n(&|state| state == JobState::TimedOut),
        "running_jobs": n(&|state| !state.is_end() && state >= JobState::Starting),
        "queued_jobs": n(&|state| state < JobState::Starting),
        "avg_wait_secs": mean(started().map(|job| job.wait.waited_s).collect()),
        "avg_runtime_secs": mean(started().filter(|job| job.state.is_end()).map(ran).collect()),
        "total_gpu_hours": gpu_hours,
        "jobs_with_gpus": with_gpus.len(),
        "avg_gpus_per_job": mean(jobs.iter().map(|job| n_gpus(job) as f64).collect()),
        "peak_gpu_usage": jobs.iter().map(n_gpus).max().unwrap_or(0),
        "success_rate": if ended == 0 { 0.0 } else { done as f64 * 100.0 / ended as f64 },
        "top_jobs": top,
    })
}

/// The keys of the counts, with their labels.
const LINES: [(&str, &str); 14] = [
    ("total_jobs", "Total jobs"),
    ("completed_jobs", "Completed"),
    ("failed_jobs", "Failed"),
    ("cancelled_jobs", "Cancelled"),
    ("timeout_jobs", "Timeout"),
    ("running_jobs", "Running"),
    ("queued_jobs", "Queued"),
    ("avg_wait_secs", "Mean wait, s"),
    ("avg_runtime_secs", "Mean runtime, s"),
    ("total_gpu_hours", "GPU hours"),
    ("jobs_with_gpus", "Jobs with GPUs"),
    ("avg_gpus_per_job", "GPUs per job"),
    ("peak_gpu_usage", "Most GPUs of a job"),
    ("success_rate", "Success rate, %"),
];

fn number(value: &Value) -> String {
    match value.as_f64() {
        Some(number) if value.is_f64() => format!("{number:.2}"),
        _ => value.to_string(),
    }
}

fn csv(stats: &Value) -> String {
    let lines = LINES.iter().map(|(key, _)| format!("{key},{}\n", number(&stats[*key])));
    format!("metric,value\n{}", lines.collect::<String>())
}

fn table(stats: &Value) -> String {
    let user = stats["user"].as_str().unwrap_or("all");
    let since = stats["since"].as_str().unwrap_or("all time");
    let mut text = format!("Usage of {}, since {}\n", safe(user), safe(since));
    for (key, words) in LINES {
        let _ = writeln!(text, "  {words:<20} {}", number(&stats[key]));
    }
    for job in stats["top_jobs"].as_array().into_iter().flatten() {
        let ran = long_time(span(job["runtime_secs"].as_f64().unwrap_or(0.0)).get() / 1000);
        let (id, name) = (job["id"].as_str().unwrap_or(""), job["name"].as_str().unwrap_or(""));
        let _ = writeln!(text, "  {ran}  job {} {}", safe(id), safe(name));
    }
    text
}
