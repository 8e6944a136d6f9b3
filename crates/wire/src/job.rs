//! A job as the API shows it.

use gpool_model::job::{JobEnd, JobState};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::array::{ArrayShown, ElementShown};
use crate::course::{Attempted, RetryAsked};
use crate::eta::Eta;
use crate::gang::GangShown;
use crate::launch::Activate;
use crate::log::LogFiles;
pub use crate::placed::PlacedOn;
use crate::reason::Reason;
use crate::schema;
use crate::time::{Time, seconds};

/// What stands in place of what the caller may not see.
pub const PRIVATE: &str = "(private)";

/// A job. Of other users' jobs only admins see name, command, directory, note and paths.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Job {
    /// Its id: `1842`, or `1842.3` for an element of an array.
    pub id: String,
    /// What people call it.
    pub name: String,
    /// Whose it is.
    pub user: String,
    /// Who is charged.
    pub project: String,
    /// In one word.
    #[schema(schema_with = schema::job_state)]
    pub state: JobState,
    /// Which run it is in, or will be in when it starts; from 1.
    pub attempt: u32,
    /// The request for GPUs as it was written.
    pub gpus: String,
    /// Where it runs or ran; empty before.
    pub placement: Vec<PlacedOn>,
    /// When it was submitted.
    pub submitted_at: Time,
    /// When it started.
    pub started_at: Option<Time>,
    /// When it ended.
    pub ended_at: Option<Time>,
    /// Since when it is paused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused_since: Option<Time>,
    /// Its exit code, or 128 + the signal that ended it.
    pub exit_code: Option<i32>,
    /// Why it waits; empty if it does not. At most 8; `why` of the job has more.
    pub reasons: Vec<Reason>,
    /// How many reasons there are beyond these: other jobs that it waits for.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub n_more_reasons: u64,
    /// When it will likely start, by the last forecast; `null` if that is not known.
    pub eta: Option<Eta>,
    /// Whether the caller may not see name, command, directory, note and paths.
    #[serde(default)]
    pub private: bool,
    /// Program and arguments; with a script, what follows the script's name.
    pub command: Vec<String>,
    /// Whether it runs a script that was handed in.
    pub script: bool,
    /// Where it runs.
    pub directory: Option<String>,
    /// Higher goes first.
    pub priority: i32,
    /// CPU cores it books.
    pub cpus: Option<f64>,
    /// Bytes of host memory it books.
    pub mem: Option<u64>,
    /// Seconds after which it is ended.
    pub time_limit: Option<f64>,
    /// Seconds between TERM and KILL.
    pub grace: f64,
    /// What somebody wrote beside it.
    pub note: Option<String>,
    /// Who is told of its states, without the paths of addresses; hidden from others.
    #[serde(default)]
    pub notify: Vec<String>,
    /// What stands behind how it ended, in a word: `oom`, `time_limit`, `deadline`, `cancelled`,
    /// `launch_failed`, `dependency_failed`, `rebooted`, `shepherd_lost`, `vanished`.
    pub cause: Option<String>,
    /// The same for people.
    pub cause_text: Option<String>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// What it used; `null` before it has ended.
    pub usage: Option<Usage>,
    /// Allocated GPUs times hours of its run, of an array of all runs of its elements.
    #[serde(default)]
    pub gpu_hours: f64,
    /// Grows with each change that a user makes; what `If-Match` compares.
    pub version: u64,
    /// Jobs that must have ended before: `ok:17`, `fail:17`, `end:17`.
    pub after: Vec<String>,
    /// Jobs of which one must have ended so before.
    #[serde(default)]
    pub after_one: Vec<String>,
    /// What becomes of it if what it waits for can never be: `cancel` or `keep`.
    #[serde(default = "cancel_word")]
    pub on_unmet: String,
    /// It does not start before then.
    #[serde(default)]
    pub begin: Option<Time>,
    /// It must end by then.
    #[serde(default)]
    pub deadline: Option<Time>,
    /// The signal before its time is over: `USR1@90s`.
    #[serde(default)]
    pub signal_before: Option<String>,
    /// When it is run again by itself.
    #[serde(default)]
    pub retry: Option<RetryAsked>,
    /// How many of its retries are used.
    #[serde(default)]
    pub n_retries: u32,
    /// Whether it may be put back and run again.
    #[serde(default)]
    pub requeue: Option<bool>,
    /// Whether what it holds may be taken back for others.
    #[serde(default)]
    pub preemptible: bool,
    /// In which ways, the best first: `pause`, `checkpoint`, `requeue`, `kill`.
    #[serde(default)]
    pub exits: Vec<String>,
    /// The signal by which it is told to save, and how long it has for it: `USR1@120s`.
    #[serde(default)]
    pub checkpoint: Option<String>,
    /// How its earlier attempts ended, the last 32 of them.
    #[serde(default)]
    pub attempts: Vec<Attempted>,
    /// When it is released, if it is held until then.
    #[serde(default)]
    pub release_at: Option<Time>,
    /// Its own file to read.
    pub stdin: Option<String>,
    /// Its own file for output; `null`: gpool's.
    pub stdout: Option<String>,
    /// Until when gpool keeps its output; absent in lists, and if output is kept forever.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_kept_until: Option<Time>,
    /// Whether a job that has ended can be run again: whether its environment and script are
    /// there. Absent in lists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub can_retry: Option<bool>,
    /// Until when they are kept at least; absent in lists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_until: Option<Time>,
    /// Its own file for errors; `null`: gpool's.
    pub stderr: Option<String>,
    /// The files that hold its output; only in the answer for a single job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub logs: Option<LogFiles>,
    /// Whether it runs on a terminal of its own, to which one can attach.
    #[serde(default)]
    pub pty: bool,
    /// Software that is made active before its program starts.
    #[serde(default)]
    pub activate: Vec<Activate>,
    /// The job that prepares it.
    pub setup: Option<String>,
    /// Who keeps it from starting, or from going on: `user`, `admin` or `scheduler`. Only an admin
    /// can start the job that an admin stopped.
    pub held_by: Option<String>,
    /// The name of that admin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held_by_admin: Option<String>,
    /// What it gets other than it asked for, in words.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// Seconds it waited to start, or has waited so far.
    pub waited_s: f64,
    /// Of an array: its elements.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub array: Option<ArrayShown>,
    /// Of an element of an array: what it was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub element: Option<ElementShown>,
    /// The tasks of a job that has several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gang: Option<GangShown>,
    /// The job that it joins: one more node of it, for as long as that runs and has room.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub joins: Option<String>,
    /// The ended job that it runs anew, or elements of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_of: Option<String>,
    /// The pool in which it must run; absent if any does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pool: Option<String>,
    /// The only nodes that it may use; absent if it may use any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub node: Vec<String>,
    /// Nodes that it may not use.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_node: Vec<String>,
    /// Rules for the labels of its nodes, all of which hold.
    #[serde(default, rename = "where", skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<String>,
    /// Whether it runs only on nodes without other jobs.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub exclusive: bool,
    /// Whose variables it finds beside gpool's: `slurm`, `gflow`, `valohai`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub compat: Vec<String>,
}

/// What a job used, as the kernel counted it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Usage {
    /// Seconds of CPU time in user mode.
    pub cpu_user_s: f64,
    /// Seconds of CPU time in the kernel.
    pub cpu_system_s: f64,
    /// Most bytes of memory of one process at once.
    pub memory_peak: u64,
}

impl From<&JobEnd> for Usage {
    fn from(end: &JobEnd) -> Self {
        Self {
            cpu_user_s: seconds(end.usage.cpu_user),
            cpu_system_s: seconds(end.usage.cpu_system),
            memory_peak: end.usage.memory_peak.get(),
        }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for it so")]
pub(crate) fn is_zero(n: &u64) -> bool {
    *n == 0
}

fn cancel_word() -> String {
    "cancel".to_owned()
}
