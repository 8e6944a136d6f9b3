//! Slurm's words for the states of jobs, and for the reasons why they wait.

use gpool_model::job::JobState;
use gpool_wire::Job;

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
        JobState::Failed if job.run.cause.as_deref() == Some("oom") => ("OOM", "OUT_OF_MEMORY"),
        JobState::Failed if job.run.cause.as_deref() == Some("launch_failed") => {
            ("BF", "BOOT_FAIL")
        }
        JobState::Failed => ("F", "FAILED"),
        JobState::Cancelled => ("CA", "CANCELLED"),
        JobState::TimedOut => ("TO", "TIMEOUT"),
        JobState::Lost => ("NF", "NODE_FAIL"),
    }
}

/// The state of a job in Slurm's accounting, where a job that starts or stops is running.
#[must_use]
pub fn recorded(job: &Job) -> (&'static str, &'static str) {
    match job.state {
        JobState::Starting | JobState::Stopping => ("R", "RUNNING"),
        _ => state(job),
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
        _ => match job.wait.reasons.first() {
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
