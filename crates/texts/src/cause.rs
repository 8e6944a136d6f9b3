//! Causes of a job's end: a code for scripts and a sentence for people.

use gpool_model::agent::{LoanIs, LoanReport, MoveIs, MoveReason, MoveReport};
use gpool_model::job::{EndCause, ExitStatus, OutputCut};
use gpool_model::{JobId, Lack, TakenBack};

use crate::signal;

/// Returns the code of a cause.
#[must_use]
pub fn cause_word(cause: &EndCause) -> &'static str {
    match cause {
        EndCause::Oom => "oom",
        EndCause::TimeLimit => "time_limit",
        EndCause::Deadline => "deadline",
        EndCause::Cancelled { .. } => "cancelled",
        EndCause::LaunchFailed { .. } => "launch_failed",
        EndCause::NodeLacks(_) => "node_lacks",
        EndCause::DependencyFailed { .. } => "dependency_failed",
        EndCause::TooManyFailed { .. } => "too_many_failed",
        EndCause::TakenBack { .. } => "taken_back",
        EndCause::TaskFailed { .. } => "task_failed",
        EndCause::TaskRefused { .. } => "task_refused",
        EndCause::GangEnded { .. } => "gang_ended",
        EndCause::Rebooted => "rebooted",
        EndCause::NodeLost => "node_lost",
        EndCause::ShepherdLost | EndCause::ProcessesMayBeLeft | EndCause::ShepherdEnded { .. } => {
            "shepherd_lost"
        }
        EndCause::OutputCut { .. } => "output_cut",
        EndCause::GpuMemoryLost { .. } => "gpu_memory_lost",
        EndCause::LoanCalledBack => "loan_called_back",
        EndCause::Vanished => "vanished",
    }
}

/// Returns a sentence about a cause.
#[must_use]
pub fn cause_words(cause: &EndCause) -> String {
    let dependency =
        |job: &JobId| format!("its dependency, job {job}, ended in another way than required");
    match cause {
        EndCause::Oom => "it ran out of memory, and the kernel killed it".to_owned(),
        EndCause::TimeLimit => "it reached its time limit".to_owned(),
        EndCause::Deadline => "it could not end before its deadline".to_owned(),
        EndCause::Cancelled { by } => format!("cancelled by {by}"),
        EndCause::LaunchFailed { why } => format!("it could not be started: {why}"),
        EndCause::NodeLacks(Lack::Path(path) | Lack::Stored(path)) => {
            format!("{path} did not exist when it was about to start")
        }
        EndCause::NodeLacks(
            Lack::Account(why)
            | Lack::Engine(why)
            | Lack::Image(why)
            | Lack::Secret(why)
            | Lack::Space(why),
        ) => format!("it could not be started: {why}"),
        EndCause::NodeLacks(Lack::Pull(image)) => format!("its node had to pull {image} first"),
        EndCause::DependencyFailed { job } => dependency(job),
        EndCause::TakenBack { why: TakenBack::Reclaim, beneficiary } => {
            format!("reclaimed for job {beneficiary}, because its project was over quota")
        }
        EndCause::TakenBack { why: TakenBack::Preempt, beneficiary } => {
            format!("preempted for job {beneficiary}, which has a higher priority")
        }
        EndCause::TakenBack { why: TakenBack::Shrink, beneficiary } => {
            format!("preempted for job {beneficiary}, because it only made another job larger")
        }
        EndCause::TakenBack { why: TakenBack::Consolidate, beneficiary } => {
            format!("moved so that job {beneficiary} fits")
        }
        EndCause::TakenBack { why: TakenBack::Rotate, beneficiary } => {
            format!("preempted for job {beneficiary}, which has used less GPU time")
        }
        EndCause::TooManyFailed { most } => {
            format!("more than {most} elements of its array failed")
        }
        EndCause::TaskFailed { rank } => {
            format!("its task {rank} failed, which ended the others")
        }
        EndCause::TaskRefused { rank } => {
            format!("other processes use GPUs of its task {rank}, so all tasks start again")
        }
        EndCause::GangEnded { job } => format!("job {job}, which it joined, has ended"),
        EndCause::Rebooted => "the machine was restarted while it ran".to_owned(),
        EndCause::NodeLost => "the server lost contact with its node, which ended it".to_owned(),
        EndCause::ShepherdLost => {
            "its shepherd process was killed, so gpool ended its processes".to_owned()
        }
        EndCause::ProcessesMayBeLeft => {
            "its shepherd process was killed, and some of its processes \
            may still run: without control groups gpool can't find all of them. Jobs get no GPU \
            that they use, and `gpool gpus` shows their user"
                .to_owned()
        }
        EndCause::ShepherdEnded { shepherd, by, may_be_left } => {
            shepherd_words(*shepherd, *by, *may_be_left)
        }
        EndCause::OutputCut { cut } => output_words(*cut),
        EndCause::GpuMemoryLost { why } => {
            format!("the driver lost its GPU memory in a pause: {why}")
        }
        EndCause::LoanCalledBack => "GPU memory above its request was called back".to_owned(),
        EndCause::Vanished => {
            "its node does not know it: the store was restored, or files were removed".to_owned()
        }
    }
}

fn shepherd_words(shepherd: u32, by: Option<ExitStatus>, may_be_left: bool) -> String {
    let (ended, how) = match by {
        Some(ExitStatus::Signal(number)) => {
            let name = signal::name(number).map(|name| format!(" {name}")).unwrap_or_default();
            ("was killed", format!("signal {number}{name}"))
        }
        Some(ExitStatus::Code(code)) => ("ended", format!("exit code {code}")),
        None => ("was killed", "by an unknown signal, because its nursery ended too".to_owned()),
    };
    let then = match may_be_left {
        true => {
            ", and some of its processes may still run: without control groups gpool can't find \
             all of them. Jobs get no GPU that they use, and `gpool gpus` shows their user"
        }
        false => ", so gpool ended its processes",
    };
    format!("its shepherd process {ended} (process {shepherd}, {how}){then}")
}

/// Returns the words for output of a task that is dropped.
#[must_use]
pub fn output_words(cut: OutputCut) -> String {
    match cut {
        OutputCut::Limit { limit } => format!("its output reached the limit of {limit}"),
        OutputCut::DiskFull => "the disk of the state folder has no room for its output".to_owned(),
    }
}

/// Returns the words for an event about a loan, of the task that has it.
#[must_use]
pub fn loan_words(loan: &LoanReport) -> String {
    match &loan.is {
        LoanIs::Called { bytes, beneficiary } => format!(
            "{bytes} above its request are called back: job {} needs them for its own request",
            beneficiary.job
        ),
        LoanIs::Paused => {
            "kept memory that was called back: it is paused until its GPU has room".to_owned()
        }
        LoanIs::NotPaused { why } => {
            format!("kept memory that was called back, and could not be paused: {why}")
        }
        LoanIs::Returned => "is back on its GPU".to_owned(),
        LoanIs::Stopped => "kept memory that was called back: it is stopped".to_owned(),
        LoanIs::Late { bytes, waited } => {
            format!("waits for GPU memory within its request ({bytes}) since {waited}")
        }
        LoanIs::NotLimited { why } => format!("its new size is not enforced: {why}"),
    }
}

/// Returns the words for a move between devices, of the task that moved.
#[must_use]
pub fn move_words(report: &MoveReport) -> String {
    let (from, to) = report.changed();
    let gpus = |indexes: &[u32]| {
        let noun = if indexes.len() == 1 { "GPU" } else { "GPUs" };
        let indexes: Vec<String> = indexes.iter().map(ToString::to_string).collect();
        format!("{noun} {}", indexes.join(","))
    };
    let (from, to) = (gpus(&from), gpus(&to));
    let took = report.took.map(|took| format!(" in {took}")).unwrap_or_default();
    let how = match report.is {
        MoveIs::Done => format!("moved from {from} to {to}{took}"),
        MoveIs::NotLeft => format!("could not leave {from} and stays there"),
        MoveIs::NotReached => format!("could not move from {from} to {to} and goes back"),
    };
    let how = report.why.as_ref().map_or(how.clone(), |why| format!("{how} ({why})"));
    match report.reason {
        Some(MoveReason::Room { beneficiary }) => {
            format!("{how}, to make room for job {}", beneficiary.job)
        }
        Some(MoveReason::Closed) => {
            format!("{how}, because {from} is drained or reserved")
        }
        Some(MoveReason::Loan { beneficiary }) => {
            format!("{how}: job {} needs the GPU memory that it borrowed", beneficiary.job)
        }
        None => how,
    }
}
