//! Causes of a job's end: a code for scripts and a sentence for people.

use gpool_model::job::EndCause;
use gpool_model::{JobId, TakenBack};

/// Returns the code of a cause.
#[must_use]
pub fn cause_word(cause: &EndCause) -> &'static str {
    match cause {
        EndCause::Oom => "oom",
        EndCause::TimeLimit => "time_limit",
        EndCause::Deadline => "deadline",
        EndCause::Cancelled { .. } => "cancelled",
        EndCause::LaunchFailed { .. } => "launch_failed",
        EndCause::PathMissing { .. } => "path_missing",
        EndCause::DependencyFailed { .. } => "dependency_failed",
        EndCause::TooManyFailed { .. } => "too_many_failed",
        EndCause::TakenBack { .. } => "taken_back",
        EndCause::TaskFailed { .. } => "task_failed",
        EndCause::TaskRefused { .. } => "task_refused",
        EndCause::GangEnded { .. } => "gang_ended",
        EndCause::Rebooted => "rebooted",
        EndCause::ShepherdLost | EndCause::ProcessesMayBeLeft => "shepherd_lost",
        EndCause::Vanished => "vanished",
    }
}

/// Returns a sentence about a cause.
#[must_use]
pub fn cause_words(cause: &EndCause) -> String {
    let dependency =
        |job: &JobId| format!("job {job}, which it waited for, ended otherwise than asked");
    match cause {
        EndCause::Oom => "the kernel ended it because it ran out of memory".to_owned(),
        EndCause::TimeLimit => "it ran for its whole time limit".to_owned(),
        EndCause::Deadline => "it could not end before its deadline".to_owned(),
        EndCause::Cancelled { by } => format!("cancelled by {by}"),
        EndCause::LaunchFailed { why } => format!("it could not be started: {why}"),
        EndCause::PathMissing { path } => format!("{path} was not there when it should start"),
        EndCause::DependencyFailed { job } => dependency(job),
        EndCause::TakenBack { why: TakenBack::Reclaim, beneficiary } => {
            format!("reclaimed for job {beneficiary}: its project had it over quota")
        }
        EndCause::TakenBack { why: TakenBack::Preempt, beneficiary } => {
            format!("preempted for job {beneficiary}, which has a higher priority")
        }
        EndCause::TakenBack { why: TakenBack::Shrink, beneficiary } => {
            format!("preempted for job {beneficiary}: nodes that make a job larger give way")
        }
        EndCause::TakenBack { why: TakenBack::Consolidate, beneficiary } => {
            format!("moved so that job {beneficiary} fits")
        }
        EndCause::TakenBack { why: TakenBack::Rotate, beneficiary } => {
            format!("preempted for job {beneficiary}, which has had less GPU time")
        }
        EndCause::TooManyFailed { most } => {
            format!("more than {most} elements of its array failed")
        }
        EndCause::TaskFailed { rank } => {
            format!("its task {rank} failed first, and the others were ended with it")
        }
        EndCause::TaskRefused { rank } => {
            format!("others use GPUs of its task {rank}, so all of it starts again")
        }
        EndCause::GangEnded { job } => format!("the run of job {job}, which it joined, is over"),
        EndCause::Rebooted => "the machine was restarted while it ran".to_owned(),
        EndCause::ShepherdLost => {
            "the process that watched it was killed, and what it had started was ended".to_owned()
        }
        EndCause::ProcessesMayBeLeft => "the process that watched it was killed, and processes of \
            it may be left: without control groups gpool can't find all of them. A GPU that one \
            uses is not given out, and `gpool gpus` shows its user"
            .to_owned(),
        EndCause::Vanished => {
            "its node has no trace of it: the store was restored, or files were removed".to_owned()
        }
    }
}
