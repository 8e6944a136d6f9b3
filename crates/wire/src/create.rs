//! The body of `POST /jobs`, and a line of a bulk submission. The `check` files validate the
//! values.

use std::borrow::Cow;
use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use gpool_model::{JobPart, Refusal};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::amount::Quantity;
use crate::array::{Param, ParamTable};
use crate::check::{check_path, invalid, plain_line};
use crate::course::RetryPolicy;
use crate::launch::{Activate, Setup, Window};
use crate::time::Time;

/// A job to submit. Set `command` or `script`; all other fields are optional.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"command": ["python", "train.py"], "gpus": "a100:2", "name": "train"}))]
pub struct JobCreate {
    /// Program and arguments. With `script`, the arguments of the script.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
    /// Script to run instead of a program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub script: Option<ScriptText>,
    /// Name of the job; does not have to be unique. Default: the name of the script or program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// GPUs of each task, in the syntax of `--gpus`: `"a100:2"`. Default: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpus: Option<String>,
    /// Fraction of each GPU, shared with other jobs: `"0.5"`, or request and limit: `"0.25:0.8"`.
    /// Default: whole GPUs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu_share: Option<String>,
    /// Memory of each GPU, shared with other jobs: `"20G"`, a number of bytes, or request and
    /// limit: `"20G:40G"`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu_memory: Option<Quantity>,
    /// Least enforcement of what the job is given: `booked`, `monitored`, `capped` or `isolated`.
    /// The job only gets devices that have it. Default: `booked`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enforce: Option<String>,
    /// Jobs that may share its GPUs, if it requests fractions: `user` (of the same user), `project`
    /// or `anyone`. Default: the setting `share_with` of the pool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share_with: Option<String>,
    /// Kind of the job: `train`, `notebook`, `serve` or `data`; `shell` is a notebook. Default:
    /// `notebook` for jobs with a terminal (`pty`), otherwise `train`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// Time without use of its GPUs after which the job counts as idle: seconds, or text (`"30m"`).
    /// `"off"` and 0 mean never. Default: 30 minutes for notebooks, otherwise never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle_after: Option<Quantity>,
    /// How the job frees its GPUs itself on request: `file` (it reads a file), or the signal that
    /// it handles, and the time to do so: `"USR1"`, `"USR1@60s"`, `"file@60s"`. Default: it does
    /// not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub yields: Option<String>,
    /// Image of the container that the job runs in, as the node's engine names it. Default: no
    /// container.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// Files and directories of the node that the container sees: `"SOURCE:TARGET"`,
    /// `"SOURCE:TARGET:ro"`. It always sees the job's working directory.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mounts: Vec<String>,
    /// Working directory in the container. Default: the job's working directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workdir: Option<String>,
    /// User in the container: a name or ID, with `:GROUP` if needed. Default: the job's user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub container_user: Option<String>,
    /// When a node pulls the image: `"missing"`, `"always"` or `"never"`. Default: `"missing"`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pull: Option<String>,
    /// Secret with which a node signs in to the registry of the image: `USER:PASSWORD`, or the
    /// content of an `auth.json`. Default: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image_login: Option<String>,
    /// Names of secrets that the job finds as files in the directory `$GPOOL_SECRETS`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub secrets: Vec<String>,
    /// Working folder: the name of a manifest that the caller has sent, as `gpool submit --upload
    /// DIR` does. The job runs in a copy of the folder on its node instead of `directory`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upload: Option<String>,
    /// Results to keep: files, folders or globs, relative to the working folder. The job runs in a
    /// folder of its own on its node, which is empty without `upload`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub download: Vec<String>,
    /// CPU cores: `4`, `"0.5"`. Default: none reserved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpus: Option<Quantity>,
    /// Host memory: a number of bytes, or text with a unit (`"20G"`). Default: none reserved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mem: Option<Quantity>,
    /// Number of nodes. All tasks start together, and GPUs, cores and memory apply to each task.
    /// With a range (`"2-4"`) the job grows and shrinks while it runs. Default: 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nodes: Option<Quantity>,
    /// Number of tasks on each node. Default: 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tasks_per_node: Option<u32>,
    /// Number of tasks, on as few nodes as possible. All tasks start together. With a range
    /// (`"4-8"`) the job grows and shrinks while it runs. Cannot be combined with `nodes`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tasks: Option<Quantity>,
    /// Parts of a job with tasks of different shapes: `"head:1xcpu"`,
    /// `"worker:4xa100:8,cpus=16,mem=100G,tasks=2"`: name, number of nodes, GPUs of each task, and
    /// optionally cores and memory of each task and the number of tasks on each node. At least two.
    /// All tasks start together. Replaces `gpus`, `cpus`, `mem`, `nodes` and `tasks`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<String>,
    /// If true, sets the environment variables that `torchrun` reads instead of its options.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub torchrun: bool,
    /// If set, only the first task runs the command; the other tasks hold their devices for
    /// processes that the command starts with `srun`. The value is the default number of these
    /// processes. Without a command and a script, the first task runs nothing. Default: every task
    /// runs the command.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub launcher: Option<u32>,
    /// Time limit: a number of seconds, or text (`"1h30m"`, `"2-00:00:00"`; a bare number in text
    /// is minutes). Default: no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time: Option<Quantity>,
    /// Time between SIGTERM and SIGKILL: seconds, or text. Default: 30 seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grace: Option<Quantity>,
    /// Signal that asks the job to end, before SIGKILL: `"INT"`, `"SIGUSR1"`, `"2"`. Default:
    /// `"TERM"`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop_signal: Option<String>,
    /// Priority, -1000 to 1000; higher goes first. Users can set at most 0. Default: 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<i32>,
    /// Project to charge. Default: `default`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<String>,
    /// Pool that the job runs in. Default: any pool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pool: Option<String>,
    /// Nodes that the job may use, by name or as lists with ranges: `"node[1-4,7]"`. Default: all
    /// nodes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub node: Vec<String>,
    /// Nodes that the job may not use, in the same form as `node`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_node: Vec<String>,
    /// Rules for node labels; all must match: `"rack=3"`, `"rack!=3"`, `"ssd"` (has the label, or
    /// GPUs of that model), `"!ssd"`, `"rack=3|rack=4"`.
    #[serde(default, rename = "where", skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<String>,
    /// What the nodes of a job of several nodes have in common: `"same-switch"`, `"same-rack"`,
    /// `"same-nvlink"` or `"same-LABEL"`: all have the same value of that label. With `"prefer
    /// same-rack"`, it takes other nodes if these are not free.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topology: Option<String>,
    /// If true, runs only on nodes without other jobs, and no other job starts there while it runs.
    /// The job still gets only the GPUs that it requests.
    #[serde(default, skip_serializing_if = "is_false")]
    pub exclusive: bool,
    /// Group of the user's jobs that this job belongs to: `"tuning"`, with its role in the group
    /// `"tuning/trial"`, and its index in that role `"tuning/trial/12"`. Lists show a group as one
    /// row. Default: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// Working directory, an absolute path. Default: the caller's home directory on the server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub directory: Option<String>,
    /// Environment variables. Neither the API nor the logs ever show them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub environment: BTreeMap<String, String>,
    /// Environment variables that are not UTF-8: base64 of `NAME=VALUE` entries, each ended by a
    /// zero byte, as in `/proc/PID/environ`. `environment` overrides equal names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub environment_bytes: Option<String>,
    /// File to read as standard input. Default: `/dev/null`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stdin: Option<String>,
    /// File for standard output, relative to `directory`. Default: gpool stores the output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stdout: Option<String>,
    /// File for standard error, relative to `directory`. Default: gpool stores the output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stderr: Option<String>,
    /// `append` or `truncate`: how each run opens `stdout` and `stderr`. Default: the first run
    /// truncates, later ones append.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open_mode: Option<String>,
    /// If set, runs the job in a terminal of this initial size. Users can attach to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pty: Option<Window>,
    /// Software to activate before the program starts, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub activate: Vec<Activate>,
    /// Command that prepares the job before it waits for GPUs. Not allowed in a bulk submission.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub setup: Option<Setup>,
    /// Dependencies that must all be met: `"17"` or `"ok:17"` (succeeded), `"fail:17"` (failed),
    /// `"end:17"` (ended), `"start:17"` (started).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<String>,
    /// Alternative dependencies: one must be met. In the same form as `after`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub after_one: Vec<String>,
    /// What to do if the dependencies can never be met: `cancel` (default) or `keep`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_unmet: Option<String>,
    /// Earliest start time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub begin: Option<Time>,
    /// Deadline. The job does not start if it could not end in time, and the server ends it at this
    /// time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Time>,
    /// Signal to send before the time limit: `"USR1@90s"`, or `"90s"` for USR1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal_before: Option<String>,
    /// When to retry the job. Default: never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<RetryPolicy>,
    /// Whether the job can be requeued. `true` also requeues it after a node failure, `false` never
    /// requeues it. Default: only on request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requeue: Option<bool>,
    /// What happens if the server loses contact with the node of the job: `wait` (default),
    /// `requeue` or `end`. With `requeue` and `end`, the node ends the job after 30 seconds without
    /// the server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_node_lost: Option<String>,
    /// Whether the scheduler can preempt and requeue the job for other jobs. Only preemptible jobs
    /// can use more than the guaranteed quota of their project. Default: the project's setting.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preemptible: Option<bool>,
    /// Allowed ways to preempt the job: `pause`, `checkpoint`, `requeue`, `kill`. The scheduler
    /// uses the least disruptive possible one. Implies `preemptible`. Default: `checkpoint` if
    /// `checkpoint` is set, otherwise `requeue`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub exits: Vec<String>,
    /// Signal that makes the job save its state before it is preempted, and the time to save:
    /// `"USR1@2m"`, `"USR1"`, `"2m"` for SIGTERM.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint: Option<String>,
    /// Indexes of the array elements, and the maximum number that run at once: `0-99`, `0-99:2%8`,
    /// `1,3,7-9`. Default with values: one element per value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub array: Option<String>,
    /// Maximum number of array elements that run at once. Default: no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_parallel: Option<u32>,
    /// Maximum number of failed array elements. After one more failure the server cancels the rest.
    /// Default: no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_fails: Option<u32>,
    /// Metric that tells which array element is the best, and its goal: `"loss:min"`,
    /// `"accuracy:max"`, or `"accuracy:0.95"` for the closest to 0.95. The elements report it.
    /// Default: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metric: Option<String>,
    /// Array parameters. The elements get every combination of the values; the last parameter
    /// changes fastest.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub params: Vec<Param>,
    /// One value per array element: text, or any JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub items: Option<Vec<serde_json::Value>>,
    /// Array parameters as a table with one row of values per element.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub table: Option<ParamTable>,
    /// If true, holds the job until it is released.
    #[serde(default, skip_serializing_if = "is_false")]
    pub hold: bool,
    /// Note that is shown with the job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// Notification rules: `"done,fail@https://host/path"`. Events: `start`, `done`, `fail`,
    /// `timeout`, `cancel`, `hold`; `end` and `all` are groups of events. `["none"]` turns
    /// notifications off. Default: the user's rules.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notify: Vec<String>,
    /// If true, queues the job even if no node could ever run it.
    #[serde(default, skip_serializing_if = "is_false")]
    pub allow_unsatisfiable: bool,
    /// File mode creation mask of the job, as a decimal number (022 is 18). Default: the server's
    /// mask.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub umask: Option<u32>,
    /// Sets the environment variables of these schedulers too: `slurm`, `gflow`, `valohai`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub compat: Vec<String>,
    /// How the caller submitted the job, to show it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<Origin>,
}

/// How the caller submitted a job.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Origin {
    /// Command line, without values of environment variables.
    pub line: String,
    /// Absolute path of the script.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub script: Option<String>,
}

impl Origin {
    /// Maximum number of characters in the command line.
    pub const LINE_MAX: usize = 4096;

    /// Checks the command line and the script.
    pub(crate) fn check(&self) -> Result<Box<gpool_model::Origin>, Refusal> {
        plain_line("origin", &self.line, Self::LINE_MAX)?;
        let script = self.script.as_deref();
        script.map_or(Ok(()), |script| check_path("origin", script))?;
        let (line, script) = (self.line.clone(), script.map(str::to_owned));
        Ok(Box::new(gpool_model::Origin { line, script }))
    }
}

/// A script, as it is at submission.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ScriptText {
    /// File name without directories. Empty in answers.
    pub name: String,
    /// Text of the script, including the `#!` line. Absent if `base64` is set, and in answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// Content of the script in base64, for scripts that are not UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base64: Option<String>,
}

/// The script of a job, as it was submitted.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct JobScript {
    /// Name of the job.
    pub name: String,
    /// Text of the script. Absent if `base64` is set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// Content of the script in base64, if it is not UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base64: Option<String>,
}

impl JobScript {
    /// The content of the script.
    ///
    /// # Errors
    /// As for [`ScriptText::bytes`].
    pub fn bytes(self) -> Result<Vec<u8>, Refusal> {
        ScriptText { name: self.name, text: self.text, base64: self.base64 }.bytes()
    }
}

impl ScriptText {
    /// The content of the script.
    ///
    /// # Errors
    /// [`Refusal::Invalid`] without a valid text or base64.
    pub fn bytes(&self) -> Result<Vec<u8>, Refusal> {
        match (&self.text, &self.base64) {
            (Some(text), None) => Ok(text.clone().into_bytes()),
            (None, Some(text)) => {
                let bytes = STANDARD.decode(text);
                bytes.map_err(|error| invalid("script.base64", &error.to_string()))
            }
            _ => Err(invalid("script", "it needs one of text and base64")),
        }
    }
}

fn is_false(flag: &bool) -> bool {
    !flag
}

/// The optional first line of a bulk submission: defaults for all jobs. Each line overrides them;
/// environments merge variable by variable.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct BulkDefaults {
    /// Default values.
    pub defaults: JobCreate,
}

/// The values that answers show as plain numbers and words.
impl JobCreate {
    /// The GPUs of each task, in the syntax of `--gpus`.
    #[must_use]
    pub fn gpus_text(&self) -> &str {
        self.gpus.as_deref().unwrap_or("0")
    }

    /// The GPUs of each task as users read them; of a job with parts, those of each part.
    #[must_use]
    pub fn gpus_words(&self) -> Cow<'_, str> {
        match &self.parts[..] {
            [] => Cow::Borrowed(self.gpus_text()),
            parts => {
                let parts = parts.iter().filter_map(|part| JobPart::parse(part).ok());
                Cow::Owned(JobPart::gpus_words_of(&parts.collect::<Vec<_>>()))
            }
        }
    }

    /// The reserved CPU cores of each task.
    #[must_use]
    pub fn cpu_cores(&self) -> Option<f64> {
        self.cpus.as_ref()?.number()
    }

    /// The reserved host memory of each task, in bytes.
    #[must_use]
    pub fn mem_bytes(&self) -> Option<u64> {
        self.mem.as_ref()?.whole()
    }

    /// The time limit in seconds.
    #[must_use]
    pub fn time_seconds(&self) -> Option<f64> {
        self.time.as_ref()?.number()
    }

    /// The time between SIGTERM and SIGKILL in seconds.
    #[must_use]
    pub fn grace_seconds(&self) -> f64 {
        self.grace.as_ref().and_then(Quantity::number).unwrap_or_default()
    }

    /// The time without use of its GPUs after which the job counts as idle, in seconds.
    #[must_use]
    pub fn idle_after_seconds(&self) -> Option<f64> {
        self.idle_after.as_ref()?.number()
    }

    /// The priority; higher goes first.
    #[must_use]
    pub fn priority_number(&self) -> i32 {
        self.priority.unwrap_or_default()
    }

    /// The kind of the job.
    #[must_use]
    pub fn kind_word(&self) -> &str {
        self.kind.as_deref().unwrap_or_default()
    }

    /// Whether the job gives its array elements values.
    #[must_use]
    pub fn has_values(&self) -> bool {
        !self.params.is_empty() || self.items.is_some() || self.table.is_some()
    }
}
