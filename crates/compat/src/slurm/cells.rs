//! Slurm's fields of a job, each as a function. The tables of `squeue`, `sacct`, `scontrol show`
//! and of their JSON name them. `None` is no value: the tables have Slurm's text for it.

use std::path::Path;

use gpool_cli::render::clock::{Clock, span};
use gpool_cli::render::words;
use gpool_cli::session::Session;
use gpool_model::JobId;
use gpool_model::file_pattern::FileNames;
use gpool_model::job::JobState;
use gpool_sys::user;
use gpool_wire::{Job, Time, Usage};

use super::hostlist;
use super::states::{reason, state};
use super::times::{self, elapsed, latest_end, likely_start, limit, long_time, time};
use super::tres::{self, Resources, mebibytes};

/// The partition of jobs without one: the pool of all nodes that are in no other pool.
pub const DEFAULT_POOL: &str = "default";

/// The cluster; there is only one.
pub const CLUSTER: &str = "gpool";

/// A row of a list: a job at a time.
#[derive(Clone, Copy)]
pub struct SlurmJobRow<'r> {
    pub job: &'r Job,
    /// The time of the list.
    pub now: Time,
    pub clock: &'r Clock,
}

impl<'r> SlurmJobRow<'r> {
    #[must_use]
    pub fn of(job: &'r Job, session: &'r Session) -> Self {
        Self { job, now: session.view().now, clock: &session.screen.clock }
    }
}

/// The content of a field, without escapes.
pub type Cell = fn(&SlurmJobRow<'_>) -> Option<String>;

/// A field that gpool does not have.
pub fn none(_: &SlurmJobRow<'_>) -> Option<String> {
    None
}

pub fn account(row: &SlurmJobRow<'_>) -> Option<String> {
    Some(row.job.project.clone())
}

pub fn allocated(row: &SlurmJobRow<'_>) -> Option<String> {
    Resources::allocated(row.job).map(|held| held.text())
}

pub fn array_id(row: &SlurmJobRow<'_>) -> Option<String> {
    Some(number(row.job).to_owned())
}

/// The id without the element.
fn number(job: &Job) -> &str {
    job.id.split('.').next().unwrap_or_default()
}

pub fn array_index(row: &SlurmJobRow<'_>) -> Option<String> {
    row.job.id.split_once('.').map(|(_, element)| element.trim_matches(['[', ']']).to_owned())
}

pub fn batch_flag(row: &SlurmJobRow<'_>) -> Option<String> {
    Some(u8::from(row.job.request.script.is_some()).to_string())
}

pub fn batch_host(row: &SlurmJobRow<'_>) -> Option<String> {
    row.job.placement.first().map(|placed| placed.node.clone())
}

pub fn cluster(_: &SlurmJobRow<'_>) -> Option<String> {
    Some(CLUSTER.to_owned())
}

/// The path of the script with its arguments, or the program with its arguments.
pub fn command(row: &SlurmJobRow<'_>) -> Option<String> {
    let job = row.job;
    if job.request.script.is_none() {
        return (!job.request.command.is_empty()).then(|| words::command(&job.request.command));
    }
    let script = job.request.origin.as_ref().and_then(|origin| origin.script.clone());
    let script = script.unwrap_or_else(|| job.name.clone());
    let words: Vec<String> =
        std::iter::once(script).chain(job.request.command.iter().cloned()).collect();
    Some(words::command(&words))
}

pub fn comment(row: &SlurmJobRow<'_>) -> Option<String> {
    row.job.request.note.clone()
}

pub fn cpus(row: &SlurmJobRow<'_>) -> Option<String> {
    Some(Resources::of(row.job).cpus.to_string())
}

pub fn requested_cpus(row: &SlurmJobRow<'_>) -> Option<String> {
    Some(Resources::requested(row.job).cpus.to_string())
}

pub fn cpus_per_task(row: &SlurmJobRow<'_>) -> Option<String> {
    Some(tres::cpus_per_task(row.job).to_string())
}

/// The cores of each node.
pub fn min_cpus(row: &SlurmJobRow<'_>) -> Option<String> {
    let all = Resources::requested(row.job);
    Some(all.cpus.div_ceil(all.nodes.max(1)).to_string())
}

fn core_seconds(row: &SlurmJobRow<'_>) -> u64 {
    elapsed(row.job, row.now).unwrap_or(0).saturating_mul(Resources::of(row.job).cpus)
}

pub fn cpu_time(row: &SlurmJobRow<'_>) -> Option<String> {
    Some(long_time(core_seconds(row)))
}

pub fn cpu_time_raw(row: &SlurmJobRow<'_>) -> Option<String> {
    Some(core_seconds(row).to_string())
}

pub fn deadline(row: &SlurmJobRow<'_>) -> Option<String> {
    moment(row, row.job.request.deadline)
}

pub fn dependency(row: &SlurmJobRow<'_>) -> Option<String> {
    let job = row.job;
    if job.request.after.is_empty() || job.run.started_at.is_some() {
        return None;
    }
    let one = |after: &String| {
        let (kind, id) = after.split_once(':').unwrap_or(("ok", after));
        let kind = match kind {
            "fail" => "afternotok",
            "end" => "afterany",
            "each" => "aftercorr",
            "start" => "after",
            _ => "afterok",
        };
        format!("{kind}:{}(unfulfilled)", id.replace('.', "_"))
    };
    Some(job.request.after.iter().map(one).collect::<Vec<_>>().join(","))
}

/// The run time so far: `0:05`.
pub fn time_used(row: &SlurmJobRow<'_>) -> Option<String> {
    Some(elapsed(row.job, row.now).map_or("0:00".to_owned(), time))
}

/// The run time so far: `00:00:05`.
pub fn run_time(row: &SlurmJobRow<'_>) -> Option<String> {
    Some(long_time(elapsed(row.job, row.now).unwrap_or(0)))
}

pub fn run_time_raw(row: &SlurmJobRow<'_>) -> Option<String> {
    Some(elapsed(row.job, row.now).unwrap_or(0).to_string())
}

/// When it can start at the earliest.
pub fn eligible(row: &SlurmJobRow<'_>) -> Option<String> {
    moment(row, eligible_at(row.job))
}

/// When it can start at the earliest; held and dependent jobs have no such time.
pub fn eligible_at(job: &Job) -> Option<Time> {
    let waits =
        job.run.started_at.is_none() && matches!(job.state, JobState::Held | JobState::Waiting);
    job.request.begin.or_else(|| (!waits).then_some(job.submitted_at))
}

/// The end, or its latest time; `NONE` for a running job without a limit.
pub fn end_expected(row: &SlurmJobRow<'_>) -> Option<String> {
    let job = row.job;
    let is_endless = || (job.run.started_at.is_some()).then(|| "NONE".to_owned());
    moment(row, job.run.ended_at.or_else(|| latest_end(job))).or_else(is_endless)
}

/// The end, or its latest time.
pub fn end_latest(row: &SlurmJobRow<'_>) -> Option<String> {
    moment(row, row.job.run.ended_at.or_else(|| latest_end(row.job)))
}

pub fn end(row: &SlurmJobRow<'_>) -> Option<String> {
    moment(row, row.job.run.ended_at)
}

pub fn excluded_nodes(row: &SlurmJobRow<'_>) -> Option<String> {
    (!row.job.request.not_node.is_empty()).then(|| hostlist::compressed(&row.job.request.not_node))
}

/// Exit code and signal: `0:0`.
pub fn exit_code(row: &SlurmJobRow<'_>) -> Option<String> {
    Some(match (row.job.run.signal, row.job.run.exit_code) {
        (Some(signal), _) => format!("0:{signal}"),
        (None, Some(code)) => format!("{code}:0"),
        (None, None) => "0:0".to_owned(),
    })
}

pub fn features(row: &SlurmJobRow<'_>) -> Option<String> {
    (!row.job.request.rules.is_empty()).then(|| row.job.request.rules.join("&"))
}

/// The number of the user's primary group. The largest number stands for an unknown one.
pub fn gid(row: &SlurmJobRow<'_>) -> Option<String> {
    Some(user::account_named(&row.job.user).map_or(u32::MAX - 1, |it| it.gid).to_string())
}

pub fn group(row: &SlurmJobRow<'_>) -> Option<String> {
    let account = user::account_named(&row.job.user)?;
    let name = user::group_name(account.gid)?;
    String::from_utf8(name).ok()
}

pub fn gpus_per_node(row: &SlurmJobRow<'_>) -> Option<String> {
    tres::gpus_per_node(row.job)
}

/// The id with the element: `7_4`.
pub fn id(row: &SlurmJobRow<'_>) -> Option<String> {
    Some(row.job.id.replace('.', "_"))
}

/// The id as a number; for a row of waiting elements, the id of the array.
pub fn id_raw(row: &SlurmJobRow<'_>) -> Option<String> {
    Some(plain_id(row.job).to_string())
}

#[must_use]
pub fn plain_id(job: &Job) -> u64 {
    let plain = job.id.parse::<JobId>().map(JobId::plain);
    plain.unwrap_or_else(|_| number(job).parse().unwrap_or(0))
}

pub fn limit_short(row: &SlurmJobRow<'_>) -> Option<String> {
    limit(row.job).map(time)
}

pub fn limit_long(row: &SlurmJobRow<'_>) -> Option<String> {
    limit(row.job).map(long_time)
}

pub fn limit_minutes(row: &SlurmJobRow<'_>) -> Option<String> {
    limit(row.job).map(|seconds| (seconds / 60).to_string())
}

pub fn remaining_time(row: &SlurmJobRow<'_>) -> Option<String> {
    let left = limit(row.job)?.saturating_sub(elapsed(row.job, row.now).unwrap_or(0));
    Some(time(left))
}

/// The memory of each node.
pub fn min_memory(row: &SlurmJobRow<'_>) -> Option<String> {
    let memory = row.job.request.mem_bytes().filter(|memory| *memory > 0)?;
    Some(mebibytes(memory.saturating_mul(tres::places_per_node(row.job))))
}

pub fn requested_memory(row: &SlurmJobRow<'_>) -> Option<String> {
    Resources::requested(row.job).memory.map(mebibytes)
}

pub fn name(row: &SlurmJobRow<'_>) -> Option<String> {
    Some(row.job.name.clone())
}

pub fn nice(row: &SlurmJobRow<'_>) -> Option<String> {
    Some(row.job.request.priority_number().saturating_neg().to_string())
}

pub fn nodes(row: &SlurmJobRow<'_>) -> Option<String> {
    Some(hostlist::compressed(&tres::nodes(row.job)))
}

pub fn n_nodes(row: &SlurmJobRow<'_>) -> Option<String> {
    Some(Resources::of(row.job).nodes.to_string())
}

pub fn n_requested_nodes(row: &SlurmJobRow<'_>) -> Option<String> {
    Some(Resources::requested(row.job).nodes.to_string())
}

pub fn n_tasks(row: &SlurmJobRow<'_>) -> Option<String> {
    Some(tres::n_tasks(row.job).to_string())
}

pub fn n_tasks_per_node(row: &SlurmJobRow<'_>) -> Option<String> {
    let nodes = Resources::requested(row.job).nodes;
    Some(tres::n_tasks(row.job).div_ceil(nodes.max(1)).to_string())
}

/// `NO` for a job that runs alone on its nodes.
pub fn oversubscribe(row: &SlurmJobRow<'_>) -> Option<String> {
    Some(if row.job.request.exclusive { "NO" } else { "OK" }.to_owned())
}

pub fn partition(row: &SlurmJobRow<'_>) -> Option<String> {
    Some(row.job.request.pool.as_deref().unwrap_or(DEFAULT_POOL).to_owned())
}

pub fn waiting(row: &SlurmJobRow<'_>) -> Option<String> {
    Some(long_time(waited(row.job)))
}

pub fn waiting_seconds(row: &SlurmJobRow<'_>) -> Option<String> {
    Some(waited(row.job).to_string())
}

fn waited(job: &Job) -> u64 {
    span(job.wait.waited_s).get() / 1000
}

fn waiting_cores(row: &SlurmJobRow<'_>) -> u64 {
    waited(row.job).saturating_mul(Resources::of(row.job).cpus)
}

pub fn waiting_core_time(row: &SlurmJobRow<'_>) -> Option<String> {
    Some(long_time(waiting_cores(row)))
}

pub fn waiting_core_seconds(row: &SlurmJobRow<'_>) -> Option<String> {
    Some(waiting_cores(row).to_string())
}

pub fn priority(row: &SlurmJobRow<'_>) -> Option<String> {
    Some(row.job.request.priority_number().to_string())
}

/// Limits come from projects, so there is one quality of service.
pub fn qos(_: &SlurmJobRow<'_>) -> Option<String> {
    Some("normal".to_owned())
}

pub fn why(row: &SlurmJobRow<'_>) -> Option<String> {
    Some(reason(row.job))
}

pub fn requested(row: &SlurmJobRow<'_>) -> Option<String> {
    Some(Resources::requested(row.job).text())
}

/// The allocated resources, or the requested ones before the start.
pub fn resources(row: &SlurmJobRow<'_>) -> Option<String> {
    Some(Resources::of(row.job).text())
}

pub fn requested_nodes(row: &SlurmJobRow<'_>) -> Option<String> {
    (!row.job.request.node.is_empty()).then(|| hostlist::compressed(&row.job.request.node))
}

pub fn requeue(row: &SlurmJobRow<'_>) -> Option<String> {
    Some(u8::from(row.job.request.requeue.unwrap_or(false)).to_string())
}

pub fn restarts(row: &SlurmJobRow<'_>) -> Option<String> {
    Some(row.job.run.attempt.saturating_sub(1).to_string())
}

pub fn start(row: &SlurmJobRow<'_>) -> Option<String> {
    moment(row, row.job.run.started_at)
}

/// The start, or its expected time.
pub fn start_expected(row: &SlurmJobRow<'_>) -> Option<String> {
    moment(row, row.job.run.started_at.or_else(|| likely_start(row.job)))
}

pub fn state_long(row: &SlurmJobRow<'_>) -> Option<String> {
    Some(state(row.job).1.to_owned())
}

pub fn state_short(row: &SlurmJobRow<'_>) -> Option<String> {
    Some(state(row.job).0.to_owned())
}

pub fn stderr(row: &SlurmJobRow<'_>) -> Option<String> {
    file(row.job, row.job.request.stderr.as_deref())
}

pub fn stdin(row: &SlurmJobRow<'_>) -> Option<String> {
    Some(file(row.job, row.job.request.stdin.as_deref()).unwrap_or_else(|| "/dev/null".to_owned()))
}

pub fn stdout(row: &SlurmJobRow<'_>) -> Option<String> {
    file(row.job, row.job.request.stdout.as_deref())
}

pub fn submit(row: &SlurmJobRow<'_>) -> Option<String> {
    moment(row, Some(row.job.submitted_at))
}

/// The command line that submitted it.
pub fn submit_line(row: &SlurmJobRow<'_>) -> Option<String> {
    row.job.request.origin.as_ref().map(|origin| origin.line.clone()).or_else(|| command(row))
}

pub fn suspended_since(row: &SlurmJobRow<'_>) -> Option<String> {
    moment(row, row.job.run.paused_since)
}

pub fn throttle(row: &SlurmJobRow<'_>) -> Option<String> {
    row.job.array.as_ref()?.max_parallel.map(|most| most.to_string())
}

/// The user's number. The largest number stands for an unknown one.
pub fn uid(row: &SlurmJobRow<'_>) -> Option<String> {
    Some(uid_of(&row.job.user).to_string())
}

#[must_use]
pub fn uid_of(name: &str) -> u32 {
    user::account_named(name).map_or(u32::MAX - 1, |account| account.uid)
}

/// `ana(1000)`
pub fn user_with_uid(row: &SlurmJobRow<'_>) -> Option<String> {
    Some(format!("{}({})", row.job.user, uid_of(&row.job.user)))
}

/// `staff(50)`
pub fn group_with_gid(row: &SlurmJobRow<'_>) -> Option<String> {
    let group = group(row).unwrap_or_else(|| row.job.user.clone());
    Some(format!("{group}({})", gid(row)?))
}

pub fn user(row: &SlurmJobRow<'_>) -> Option<String> {
    Some(row.job.user.clone())
}

pub fn system_cpu(row: &SlurmJobRow<'_>) -> Option<String> {
    Some(used(row, |usage| usage.cpu_system_s))
}

pub fn total_cpu(row: &SlurmJobRow<'_>) -> Option<String> {
    Some(used(row, |usage| usage.cpu_user_s + usage.cpu_system_s))
}

pub fn user_cpu(row: &SlurmJobRow<'_>) -> Option<String> {
    Some(used(row, |usage| usage.cpu_user_s))
}

fn used(row: &SlurmJobRow<'_>, of: fn(Usage) -> f64) -> String {
    times::cpu_time(row.job.usage.total.map_or(0, |usage| span(of(usage)).get()))
}

/// The nodes, or why it does not run.
pub fn place(row: &SlurmJobRow<'_>) -> Option<String> {
    match row.job.state {
        JobState::Running
        | JobState::Stopping
        | JobState::Starting
        | JobState::Succeeded
        | JobState::Paused => nodes(row),
        _ => Some(format!("({})", reason(row.job))),
    }
}

pub fn work_dir(row: &SlurmJobRow<'_>) -> Option<String> {
    row.job.request.directory.clone()
}

fn moment(row: &SlurmJobRow<'_>, at: Option<Time>) -> Option<String> {
    at.map(|at| row.clock.plain(at))
}

/// The path of a job's file, with its folder and expanded `%` patterns; `None` if gpool keeps the
/// output.
#[must_use]
pub fn file(job: &Job, path: Option<&str>) -> Option<String> {
    let path = path?;
    let id: Option<JobId> = job.id.parse().ok();
    let is_slurms = job.request.compat.iter().any(|compat| compat == "slurm");
    let plain = id.filter(|_| is_slurms).map(|id| id.plain().to_string());
    let names = FileNames {
        job: plain.as_deref().unwrap_or(&job.id),
        number: &id.map_or(0, |id| id.number.0).to_string(),
        element: id.and_then(|id| id.element).unwrap_or(0),
        name: &job.name,
        user: &job.user,
        node: job.placement.first().map_or("", |placed| placed.node.as_str()),
        rank: 0,
    };
    let filled = names.fill(path);
    let folder = job.request.directory.as_deref().unwrap_or("/");
    Some(Path::new(folder).join(filled).to_string_lossy().into_owned())
}
