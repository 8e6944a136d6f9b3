//! Slurm's fields of a job, with one name for each; `squeue` and `sacct` have their own letters and
//! names for them.

use std::path::Path;

use gpool_cli::render::clock::span;
use gpool_cli::render::safe::safe;
use gpool_cli::render::words;
use gpool_cli::session::Session;
use gpool_model::JobId;
use gpool_model::job::JobState;
use gpool_wire::{Job, Time, Usage};

use super::tres::{self, cores, mebibytes};

/// The partition of jobs without one: the pool of all nodes that are in no other pool.
pub const DEFAULT_POOL: &str = "default";

/// A field of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cell {
    /// The project.
    Account,
    /// Allocated resources, once it has started.
    AllocTres,
    /// The job id, without the element.
    ArrayId,
    /// The index of the element, or N/A.
    ArrayIndex,
    /// The cluster; there is only one.
    Cluster,
    /// The command.
    Command,
    /// The note.
    Comment,
    /// The cores.
    Cpus,
    /// The cores times the run time.
    CpuTime,
    /// The cores times the run time in seconds.
    CpuTimeRaw,
    /// The dependencies.
    Dependency,
    /// The run time so far.
    Elapsed,
    /// The run time in seconds.
    ElapsedRaw,
    /// The end, or its latest time.
    End,
    /// The exit code and signal.
    ExitCode,
    /// The GPUs.
    Gres,
    /// The job id, with the element.
    Id,
    /// The job id as a single number.
    IdRaw,
    /// The time limit.
    Limit,
    /// The time limit with all digits.
    LimitLong,
    /// The time limit in minutes.
    LimitRaw,
    /// The remaining time.
    Left,
    /// The memory.
    Memory,
    /// The largest memory of a process.
    MaxRss,
    /// The name.
    Name,
    /// The nodes, or nothing.
    Nodes,
    /// The number of nodes.
    NumNodes,
    /// The pool.
    Partition,
    /// The waiting time.
    Planned,
    /// The priority.
    Priority,
    /// A field that gpool does not have.
    Absent,
    /// The reason why it waits.
    Reason,
    /// The requested resources.
    ReqTres,
    /// The number of earlier attempts.
    Restarts,
    /// The run time with all digits.
    RunTime,
    /// The file for standard error.
    StdErr,
    /// The file for standard output.
    StdOut,
    /// The CPU time in the kernel.
    SystemCpu,
    /// The number of tasks.
    Tasks,
    /// The CPU time in user mode.
    UserCpu,
    /// The nodes, or the reason why it waits.
    Where,
    /// The start, or its expected time.
    Start,
    /// The state in a word.
    State,
    /// The state in two letters.
    StateShort,
    /// The time of submission.
    Submit,
    /// The total CPU time.
    TotalCpu,
    /// The user.
    User,
    /// The working folder.
    WorkDir,
}

/// The state of a job: Slurm's abbreviation and word.
#[must_use]
pub fn state(job: &Job) -> (&'static str, &'static str) {
    match job.state {
        JobState::Held | JobState::Waiting | JobState::Pending => ("PD", "PENDING"),
        JobState::Starting => ("CF", "CONFIGURING"),
        JobState::Running => ("R", "RUNNING"),
        JobState::Paused => ("S", "SUSPENDED"),
        JobState::Stopping => ("CG", "COMPLETING"),
        JobState::Succeeded => ("CD", "COMPLETED"),
        JobState::Failed if job.cause.as_deref() == Some("oom") => ("OOM", "OUT_OF_MEMORY"),
        JobState::Failed if job.cause.as_deref() == Some("launch_failed") => ("BF", "BOOT_FAIL"),
        JobState::Failed => ("F", "FAILED"),
        JobState::Cancelled => ("CA", "CANCELLED"),
        JobState::TimedOut => ("TO", "TIMEOUT"),
        JobState::Lost => ("NF", "NODE_FAIL"),
    }
}

/// Whether a job is in a state as a user writes it: `PD`, `pending`.
#[must_use]
pub fn is_in(job: &Job, written: &str) -> bool {
    let (short, long) = state(job);
    written.eq_ignore_ascii_case(short)
        || written.eq_ignore_ascii_case(long)
        || written.eq_ignore_ascii_case("all")
}

/// The words for states that users may write.
pub const STATES: [&str; 26] = [
    "PD",
    "PENDING",
    "CF",
    "CONFIGURING",
    "R",
    "RUNNING",
    "S",
    "SUSPENDED",
    "CG",
    "COMPLETING",
    "CD",
    "COMPLETED",
    "OOM",
    "OUT_OF_MEMORY",
    "BF",
    "BOOT_FAIL",
    "F",
    "FAILED",
    "CA",
    "CANCELLED",
    "TO",
    "TIMEOUT",
    "NF",
    "NODE_FAIL",
    "PR",
    "PREEMPTED",
];

/// Slurm's word for each reason of gpool.
///
/// Source: the table of reason codes in the design, after the manual of squeue.
const REASONS: &[(&str, &str)] = &[
    ("gpus_not_free", "Resources"),
    ("gpus_not_free_together", "Resources"),
    ("gpu_model_missing", "Resources"),
    ("gpu_memory_too_small", "Resources"),
    ("cpu_or_mem_short", "Resources"),
    ("slots_kept_for_gpus", "Resources"),
    ("user_slots", "AssocMaxJobsLimit"),
    ("unmanaged_process", "Resources"),
    ("gpu_unhealthy", "Resources"),
    ("gpu_not_allowed", "Resources"),
    ("ahead_in_order", "Priority"),
    ("reserved_for_other", "Reservation"),
    ("maintenance_soon", "ReqNodeNotAvail"),
    ("node_drained", "NodeDown"),
    ("agent_unreachable", "NodeDown"),
    ("quota_user", "AssocMaxJobsLimit"),
    ("quota_user_in_project", "AssocMaxJobsLimit"),
    ("not_reserved", "Reservation"),
    ("quota_project", "AssocGrpGRES"),
    ("gpu_time_had", "Priority"),
    ("preemption_grace", "Resources"),
    ("group_parallel_limit", "JobArrayTaskLimit"),
    ("waits_for_job", "Dependency"),
    ("dependency_failed", "DependencyNeverSatisfied"),
    ("begin_time", "BeginTime"),
    ("held_by_user", "JobHeldUser"),
    ("held_by_admin", "JobHeldAdmin"),
    ("set_aside", "JobHeldUser"),
    ("over_budget", "AssocGrpBillingMinutes"),
    ("backoff_after_failure", "BeginTime"),
    ("license_or_token", "Licenses"),
];

/// Slurm's word for why a job waits, or how it failed.
#[must_use]
pub fn reason(job: &Job) -> String {
    match job.state {
        JobState::Failed => "NonZeroExitCode".to_owned(),
        JobState::TimedOut => "TimeLimit".to_owned(),
        _ => match job.reasons.first() {
            None => "None".to_owned(),
            Some(reason) => {
                let known = REASONS.iter().find(|(code, _)| *code == reason.code);
                known.map_or_else(|| camel(&reason.code), |(_, word)| (*word).to_owned())
            }
        },
    }
}

fn camel(code: &str) -> String {
    let part = |part: &str| {
        let mut letters = part.chars();
        let first = letters.next().map(|c| c.to_ascii_uppercase());
        first.into_iter().chain(letters).collect::<String>()
    };
    code.split('_').map(part).collect()
}

impl Cell {
    /// The text of the field.
    #[must_use]
    pub fn text(self, job: &Job, session: &Session) -> String {
        let now = session.view().now;
        let moment = |at: Option<Time>, absent: &str| {
            at.map_or_else(|| absent.to_owned(), |at| session.screen.clock.plain(at))
        };
        let id = || job.id.replace('.', "_");
        let text = match self {
            Self::Account => job.project.clone(),
            Self::AllocTres => tres::allocated(job),
            Self::ArrayId => job.id.split('.').next().unwrap_or_default().to_owned(),
            Self::ArrayIndex => {
                job.id.split_once('.').map_or("N/A", |(_, element)| element).to_owned()
            }
            Self::Cluster => "gpool".to_owned(),
            Self::Command if job.script => job.name.clone(),
            Self::Command => words::command(&job.command),
            Self::Comment => job.note.clone().unwrap_or_else(|| "(null)".to_owned()),
            Self::Cpus => cores(job).to_string(),
            Self::CpuTime => long_time(elapsed(job, now).unwrap_or(0) * cores(job)),
            Self::CpuTimeRaw => (elapsed(job, now).unwrap_or(0) * cores(job)).to_string(),
            Self::Dependency => dependency(job),
            Self::Elapsed => elapsed(job, now).map_or("0:00".to_owned(), time),
            Self::ElapsedRaw => elapsed(job, now).unwrap_or(0).to_string(),
            Self::End => moment(job.ended_at.or_else(|| latest_end(job)), "N/A"),
            Self::ExitCode => exit_code(job),
            Self::Gres => gres(job),
            Self::Id => id(),
            Self::IdRaw => {
                job.id.parse::<JobId>().map_or_else(|_| id(), |id| id.plain().to_string())
            }
            Self::Limit => limit(job).map_or("UNLIMITED".to_owned(), time),
            Self::LimitLong => limit(job).map_or("UNLIMITED".to_owned(), long_time),
            Self::LimitRaw => {
                limit(job).map_or("UNLIMITED".to_owned(), |seconds| (seconds / 60).to_string())
            }
            Self::Left => limit(job).map_or("UNLIMITED".to_owned(), |limit| {
                time(limit.saturating_sub(elapsed(job, now).unwrap_or(0)))
            }),
            Self::Memory => job.mem.map_or("0".to_owned(), mebibytes),
            Self::MaxRss => {
                job.usage.map_or_else(String::new, |usage| format!("{}K", usage.memory_peak / 1024))
            }
            Self::Name => job.name.clone(),
            Self::Nodes => nodes(job),
            Self::NumNodes => tres::n_nodes(job).to_string(),
            Self::Partition => job.pool.as_deref().unwrap_or(DEFAULT_POOL).to_owned(),
            Self::Planned => long_time(span(job.waited_s).get() / 1000),
            Self::Priority => job.priority.to_string(),
            Self::Absent => "N/A".to_owned(),
            Self::Reason => reason(job),
            Self::ReqTres => tres::asked(job),
            Self::Restarts => job.attempt.saturating_sub(1).to_string(),
            Self::RunTime => long_time(elapsed(job, now).unwrap_or(0)),
            Self::StdErr => file(job, job.stderr.as_deref()),
            Self::StdOut => file(job, job.stdout.as_deref()),
            Self::SystemCpu => cpu_time(job, |usage| usage.cpu_system_s),
            Self::Tasks => tres::n_tasks(job).to_string(),
            Self::UserCpu => cpu_time(job, |usage| usage.cpu_user_s),
            Self::Where => place(job),
            Self::Start => moment(job.started_at.or_else(|| likely_start(job)), "N/A"),
            Self::State => state(job).1.to_owned(),
            Self::StateShort => state(job).0.to_owned(),
            Self::Submit => moment(Some(job.submitted_at), "N/A"),
            Self::TotalCpu => cpu_time(job, |usage| usage.cpu_user_s + usage.cpu_system_s),
            Self::User => job.user.clone(),
            Self::WorkDir => job.directory.clone().unwrap_or_else(|| "(null)".to_owned()),
        };
        safe(&text).into_owned()
    }
}

/// The nodes, or why it does not run.
fn place(job: &Job) -> String {
    match job.state {
        JobState::Running
        | JobState::Stopping
        | JobState::Starting
        | JobState::Succeeded
        | JobState::Paused => nodes(job),
        _ => format!("({})", reason(job)),
    }
}

fn cpu_time(job: &Job, of: impl Fn(Usage) -> f64) -> String {
    let seconds = job.usage.map_or(0, |usage| span(of(usage)).get() / 1000);
    long_time(seconds)
}

/// The path of a job's file, with its folder and expanded `%` patterns; `(null)` if gpool keeps the
/// output.
fn file(job: &Job, path: Option<&str>) -> String {
    let Some(path) = path else { return "(null)".to_owned() };
    let (array, element) = job.id.split_once('.').unwrap_or((&job.id, "0"));
    let node = job.placement.first().map_or("", |placed| placed.node.as_str());
    let mut filled = String::new();
    let mut rest = path.chars();
    while let Some(c) = rest.next() {
        match (c, if c == '%' { rest.next() } else { None }) {
            ('%', Some('j')) => filled.push_str(&job.id),
            ('%', Some('A')) => filled.push_str(array),
            ('%', Some('a')) => filled.push_str(element),
            ('%', Some('x')) => filled.push_str(&job.name),
            ('%', Some('u')) => filled.push_str(&job.user),
            ('%', Some('N')) => filled.push_str(node),
            ('%', Some('%')) => filled.push('%'),
            ('%', Some(other)) => filled.extend(['%', other]),
            _ => filled.push(c),
        }
    }
    let folder = job.directory.as_deref().unwrap_or("/");
    Path::new(folder).join(filled).to_string_lossy().into_owned()
}

/// The time limit in seconds.
fn limit(job: &Job) -> Option<u64> {
    job.time_limit.map(|limit| span(limit).get() / 1000)
}

/// The run time in seconds.
pub fn elapsed(job: &Job, now: Time) -> Option<u64> {
    let started = job.started_at?;
    Some(job.ended_at.unwrap_or(now).0.since(started.0).get() / 1000)
}

fn latest_end(job: &Job) -> Option<Time> {
    let limit = job.time_limit.filter(|_| job.ended_at.is_none())?;
    Some(Time(job.started_at?.0.after(span(limit))))
}

/// The expected start: the median of the forecast.
fn likely_start(job: &Job) -> Option<Time> {
    serde_json::to_value(&job.eta).ok()?.get("p50")?.as_str()?.parse().ok()
}

/// The nodes on which it runs or ran.
fn nodes(job: &Job) -> String {
    let names: Vec<&str> = job.placement.iter().map(|placed| placed.node.as_str()).collect();
    names.join(",")
}

fn gres(job: &Job) -> String {
    match job.gpus.as_str() {
        "0" | "" => "N/A".to_owned(),
        gpus => format!("gres:gpu:{gpus}"),
    }
}

fn dependency(job: &Job) -> String {
    if job.after.is_empty() || job.started_at.is_some() {
        return "(null)".to_owned();
    }
    let one = |after: &String| {
        let (kind, id) = after.split_once(':').unwrap_or(("ok", after));
        let kind = match kind {
            "fail" => "afternotok",
            "end" => "afterany",
            "each" => "aftercorr",
            _ => "afterok",
        };
        format!("{kind}:{}(unfulfilled)", id.replace('.', "_"))
    };
    job.after.iter().map(one).collect::<Vec<_>>().join(",")
}

/// Exit code and signal: `0:0`.
fn exit_code(job: &Job) -> String {
    match (job.signal, job.exit_code) {
        (Some(signal), _) => format!("0:{signal}"),
        (None, Some(code)) => format!("{code}:0"),
        (None, None) => "0:0".to_owned(),
    }
}

/// A time in short form: `0:05`, `1:02:03`, `2-03:04:05`.
#[must_use]
pub fn time(seconds: u64) -> String {
    let (days, rest) = (seconds / 86400, seconds % 86400);
    let (hours, minutes, seconds) = (rest / 3600, rest / 60 % 60, rest % 60);
    match (days, hours) {
        (0, 0) => format!("{minutes}:{seconds:02}"),
        (0, _) => format!("{hours}:{minutes:02}:{seconds:02}"),
        _ => format!("{days}-{hours:02}:{minutes:02}:{seconds:02}"),
    }
}

/// A time with all digits: `00:00:05`, `2-03:04:05`.
#[must_use]
pub fn long_time(seconds: u64) -> String {
    let days = seconds / 86400;
    let rest = format!("{:02}:{:02}:{:02}", seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
    if days > 0 { format!("{days}-{rest}") } else { rest }
}
