//! Texts for alternatives to a job request: the flags to ask for one, or what to do.

use gpool_model::policy::UserCap;
use gpool_model::{JobId, WhatIf};

use crate::reason::request_words;

/// Returns the flags or the command for a change.
#[must_use]
pub fn flags(what: &WhatIf, job: JobId) -> String {
    match what {
        WhatIf::Gpus { gpus } => format!("--gpus {}", quoted(&gpus.to_string())),
        WhatIf::TimeLimit { limit } => format!("--time {}", minutes(*limit)),
        WhatIf::Cpus { cpus } if cpus.is_zero() => "without --cpus".to_owned(),
        WhatIf::Cpus { cpus } => format!("--cpus {cpus}"),
        WhatIf::Memory { memory } if memory.is_zero() => "without --mem".to_owned(),
        WhatIf::Memory { memory } => format!("--mem {}", mebibytes(memory.get())),
        WhatIf::Release => format!("gpool release {job}"),
        WhatIf::Resume => format!("gpool resume {job}"),
        WhatIf::Priority { priority } => format!("gpool prio {priority} {job}"),
        WhatIf::WithoutDependency { job } => format!("without --after {job}"),
        WhatIf::WithoutBegin => format!("gpool edit {job} --begin none"),
        WhatIf::WithoutDeadline => format!("gpool edit {job} --deadline none"),
        WhatIf::WithoutCap { cap: UserCap::RunningJobs, project: Some(project), .. } => {
            format!("gpool project edit {project} --user-running none")
        }
        WhatIf::WithoutCap { cap: UserCap::Gpus, project: Some(project), .. } => {
            format!("gpool project edit {project} --user-gpus none")
        }
        WhatIf::WithoutCap { user, cap: UserCap::RunningJobs, project: None } => {
            format!("gpool user limit {user} --running none")
        }
        WhatIf::WithoutCap { user, cap: UserCap::Gpus, project: None } => {
            format!("gpool user limit {user} --gpus none")
        }
        WhatIf::WithoutReservation { reservation, maintenance: false } => {
            format!("gpool reserve cancel {reservation}")
        }
        WhatIf::WithoutReservation { reservation, maintenance: true } => {
            format!("gpool maint cancel {reservation}")
        }
        WhatIf::Ended { job } => format!("gpool cancel {job}"),
        WhatIf::DeviceUsable { node, index } => format!("GPU {index} of {node} is usable again"),
        WhatIf::NodeBack { node } => format!("{node} is back"),
    }
}

/// Returns a change as text.
#[must_use]
pub fn words(what: &WhatIf) -> String {
    match what {
        WhatIf::Gpus { gpus } => format!("it requests {}", request_words(gpus)),
        WhatIf::TimeLimit { limit } => format!("its time limit is {limit}"),
        WhatIf::Cpus { cpus } if cpus.is_zero() => "it requests no CPU cores".to_owned(),
        WhatIf::Cpus { cpus } => format!("it requests {cpus} CPU cores"),
        WhatIf::Memory { memory } if memory.is_zero() => "it requests no memory".to_owned(),
        WhatIf::Memory { memory } => format!("it requests {memory} of memory"),
        WhatIf::Release => "it is released".to_owned(),
        WhatIf::Resume => "it is resumed".to_owned(),
        WhatIf::Priority { priority } => format!("its priority is {priority}"),
        WhatIf::WithoutDependency { job } => format!("it does not wait for job {job}"),
        WhatIf::WithoutBegin => "it has no begin time".to_owned(),
        WhatIf::WithoutDeadline => "it has no deadline".to_owned(),
        WhatIf::WithoutCap { cap: UserCap::RunningJobs, project: Some(project), .. } => {
            format!("one user may run any number of jobs in project {project}")
        }
        WhatIf::WithoutCap { cap: UserCap::Gpus, project: Some(project), .. } => {
            format!("one user may have any number of GPUs in project {project}")
        }
        WhatIf::WithoutCap { user, cap: UserCap::RunningJobs, project: None } => {
            format!("{user} may run any number of jobs")
        }
        WhatIf::WithoutCap { user, cap: UserCap::Gpus, project: None } => {
            format!("{user} may have any number of GPUs")
        }
        WhatIf::WithoutReservation { reservation, maintenance: false } => {
            format!("reservation {reservation} is cancelled")
        }
        WhatIf::WithoutReservation { reservation, maintenance: true } => {
            format!("maintenance {reservation} is cancelled")
        }
        WhatIf::Ended { job } => format!("job {job} ends now"),
        WhatIf::DeviceUsable { node, index } => {
            format!("jobs can use GPU {index} of {node} again")
        }
        WhatIf::NodeBack { node } => format!("jobs can start on {node} again"),
    }
}

/// Quotes text for a shell where needed.
fn quoted(text: &str) -> String {
    if text.contains('|') { format!("'{text}'") } else { text.to_owned() }
}

/// Formats a time limit as a flag's value, rounded down to whole minutes.
fn minutes(limit: gpool_model::Millis) -> String {
    match limit.div_floor(60_000).get().max(1) {
        whole if whole.is_multiple_of(60) => format!("{}h", whole / 60),
        whole => format!("{whole}m"),
    }
}

/// Formats memory as a flag's value, rounded down.
fn mebibytes(bytes: u64) -> String {
    match bytes >> 20 {
        whole if whole.is_multiple_of(1024) && whole > 0 => format!("{}G", whole >> 10),
        whole => format!("{}M", whole.max(1)),
    }
}
