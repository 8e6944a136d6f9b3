//! Answers to requests about MIG instances. The thread that polls the devices carries the requests
//! out, in turn with its checks before launches, so no task is started on an instance that goes
//! away.

use std::time::Duration;

use gpool_device::{Monitor, PollRequest};
use gpool_model::mig_layout::{MigChange, MigError, MigReport};
use gpool_model::unit::Timestamp;
use gpool_protocol::{Answer, QuestionId, ToServer};

/// Returns the answer to a request: the MIG instances of the node, or why nothing was changed.
pub(crate) fn answer(id: QuestionId, divided: Result<MigReport, MigError>) -> ToServer {
    let answer = divided.map_or_else(Answer::MigRefused, Answer::MigInstances);
    ToServer::Answer { id, answer }
}

/// Refuses to destroy an instance that a process uses.
pub(crate) fn check_processes(
    monitor: &mut Monitor,
    change: &MigChange,
    now: Timestamp,
    timeout: Duration,
) -> Result<(), MigError> {
    let MigChange::Destroy { instance } = change else { return Ok(()) };
    let seen = monitor.look_at(instance, PollRequest::PROCESSES, now, timeout);
    match seen.processes.unwrap_or_default().first() {
        None => Ok(()),
        Some(process) => {
            let (name, user) = (process.name.as_deref(), process.user.as_deref());
            let name = format!("{} of {}", name.unwrap_or("?"), user.unwrap_or("?"));
            Err(MigError::HasProcess { pid: process.pid, name })
        }
    }
}
