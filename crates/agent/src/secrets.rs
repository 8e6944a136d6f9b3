//! The secrets of tasks on this node: fetched from the server before a launch, and removed after
//! the task, also if its shepherd or an earlier agent was killed.

use std::io;

use gpool_link::SecretQuery;
use gpool_model::Lack;
use gpool_model::id::TaskId;
use gpool_model::job::EndCause;
use gpool_shepherd::layout::{claim_name, claimed_task};
use gpool_shepherd::secrets;

use crate::input::ThreadInput;
use crate::runner::Runner;

impl Runner {
    /// Asks the server for secrets of a task; `uid` is its user on the server.
    pub(crate) fn ask_for_secrets(&self, task: TaskId, uid: u32, names: Vec<String>) {
        for name in names {
            let query = SecretQuery { job: task.job, uid, name: name.clone() };
            let inputs = self.parts.sender.clone();
            let reply = move |value| inputs.send(ThreadInput::Secret { task, name, value });
            self.parts.server.secret(&query, Box::new(reply));
        }
    }

    /// Takes a secret of a task. Without it, the task does not start.
    pub(crate) fn take_secret(&mut self, task: TaskId, name: String, value: io::Result<Vec<u8>>) {
        let Some(pending) = self.pending_launches.get_mut(&task) else { return };
        if pending.is_complete() {
            return;
        }
        match value {
            Ok(value) => {
                pending.secrets.insert(name, value);
                self.check_image(task);
            }
            Err(error) => {
                self.pending_launches.remove(&task);
                self.not_started(task, no_secret(&name, &error));
            }
        }
    }

    /// Removes the secrets of a task that has ended.
    pub(crate) fn remove_secrets(&self, task: TaskId) {
        if let Err(error) = secrets::remove(&self.parts.layout, &claim_name(task)) {
            tracing::warn!(%task, %error, "secrets of a task could not be removed");
        }
    }

    /// Removes the secrets that killed processes left.
    pub(crate) fn sweep_secrets(&self) {
        let is_used = |name: &str| claimed_task(name).is_some_and(|it| self.shepherds.knows(it));
        if let Err(error) = secrets::sweep(&self.parts.layout, is_used) {
            tracing::warn!(%error, "secrets of earlier tasks could not be removed");
        }
    }
}

/// Why a task can't start without a secret. If there is none, the job is held: nothing of it has
/// run, and the user can release it once the secret is set.
fn no_secret(name: &str, error: &io::Error) -> EndCause {
    match error.kind() {
        io::ErrorKind::NotFound => EndCause::NodeLacks(Lack::Secret(error.to_string())),
        _ => EndCause::LaunchFailed { why: format!("can't get its secret {name}: {error}") },
    }
}
