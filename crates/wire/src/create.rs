//! A job as somebody asks for it: the body of `POST /jobs`, and a line of a bulk submission. What
//! it may hold is checked beside it, in `check`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::amount::Written;
use crate::array::{Param, ParamTable};
use crate::course::RetryAsked;
use crate::launch::{Activate, Setup, Window};
use crate::time::Time;

/// A job as it is asked for. One of `command` and `script` is needed; the rest may be absent.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"command": ["python", "train.py"], "gpus": "a100:2", "name": "train"}))]
pub struct JobCreate {
    /// Program and arguments; with a script, what follows the script's name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
    /// A script to run in place of a program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub script: Option<ScriptText>,
    /// What people call it; need not be unique. Absent: the name of the script or program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// GPUs in the grammar of `--gpus`. Absent: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpus: Option<String>,
    /// Of each GPU only that part, beside others: `"0.5"`. Absent: the whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu_share: Option<String>,
    /// Of each GPU only so much memory, beside others: `"20G"`, or a number of bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu_memory: Option<Written>,
    /// CPU cores: `4`, `"0.5"`. Absent: none are booked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpus: Option<Written>,
    /// Host memory: a number of bytes, or text with a unit (`"20G"`). Absent: none is booked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mem: Option<Written>,
    /// On how many different nodes its tasks run, all at once; GPUs, cores and memory are those of
    /// each task. A range (`"2-4"`) lets it grow and shrink while it runs. Absent: 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nodes: Option<Written>,
    /// How many tasks run on each of them. Absent: 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tasks_per_node: Option<u32>,
    /// How many tasks run, all at once, wherever there is room, on as few nodes as that allows. A
    /// range (`"4-8"`) lets it grow and shrink while it runs. Not with `nodes`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tasks: Option<Written>,
    /// Give its tasks the variables that `torchrun` reads in place of its options.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub torchrun: bool,
    /// Run the command in the first task alone, and let the others hold their places for processes
    /// that it starts in them (`srun`): how many it starts in all by default. Without a command
    /// and a script the first task only holds its place, too. Absent: every task runs the command.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub launcher: Option<u32>,
    /// Time limit: a number of seconds, or text (`"1h30m"`, `"2-00:00:00"`; a bare number in
    /// text is minutes). Absent: no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time: Option<Written>,
    /// Between TERM and KILL: seconds, or text. Absent: 30 seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grace: Option<Written>,
    /// Higher goes first, -1000…1000; users may ask for at most 0. Absent: 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<i32>,
    /// Who is charged. Absent: `default`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<String>,
    /// The pool of nodes in which it must run. Absent: any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pool: Option<String>,
    /// The only nodes that it may use, by name or as lists with ranges: `"node[1-4,7]"`. Absent:
    /// any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub node: Vec<String>,
    /// Nodes that it may not use, written as for `node`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_node: Vec<String>,
    /// Rules for the labels of its nodes, all of which must hold: `"rack=3"`, `"rack!=3"`, `"ssd"`
    /// (has the label, or GPUs of that model), `"!ssd"`, `"rack=3|rack=4"`.
    #[serde(default, rename = "where", skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<String>,
    /// Run it only on nodes without other jobs, and start none there while it runs. It still gets
    /// only the GPUs that it asks for.
    #[serde(default, skip_serializing_if = "is_false")]
    pub exclusive: bool,
    /// Where it runs, an absolute path. Absent: the caller's home, as the server knows it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub directory: Option<String>,
    /// Environment by name. Never shown again, neither by the API nor in logs.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub environment: BTreeMap<String, String>,
    /// More environment, for what is not UTF-8: base64 of `NAME=VALUE` entries, each ended by a
    /// zero byte, as in `/proc/PID/environ`. A name in `environment` overrides one here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub environment_bytes: Option<String>,
    /// A file to read instead of nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stdin: Option<String>,
    /// A file for its output instead of gpool's own; relative to `directory`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stdout: Option<String>,
    /// A file for its errors instead of gpool's own; relative to `directory`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stderr: Option<String>,
    /// Run it on a terminal of its own, at first of that size, to which one can attach.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pty: Option<Window>,
    /// Software that is made active before its program starts, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub activate: Vec<Activate>,
    /// What prepares it before it waits for GPUs. Not in a bulk submission.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub setup: Option<Setup>,
    /// Jobs that must have ended before: `"17"` or `"ok:17"` (succeeded), `"fail:17"`,
    /// `"end:17"`; or that must have started: `"start:17"`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<String>,
    /// Jobs of which one must have ended so before, written as for `after`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub after_one: Vec<String>,
    /// What becomes of it if what it waits for can never be: `cancel` (as if absent) or `keep`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_unmet: Option<String>,
    /// It does not start before then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub begin: Option<Time>,
    /// It does not start too late to end by then, and is ended then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Time>,
    /// A signal some time before its time is over: `"USR1@90s"`, or `"90s"` for USR1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal_before: Option<String>,
    /// When it is run again by itself. Absent: never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<RetryAsked>,
    /// Whether it may be put back and run again: `true` also after its node failed, `false` never.
    /// Absent: only if somebody asks for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requeue: Option<bool>,
    /// Whether what it holds may be taken back for others, to be run again: only such jobs may use
    /// more than their project is guaranteed. Absent: what its project says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preemptible: Option<bool>,
    /// In which ways it may be taken back: `pause`, `checkpoint`, `requeue`, `kill`; the best that
    /// is possible is taken. What it names it allows, so that `preemptible` may be absent. Absent:
    /// `checkpoint` if it says how, else `requeue`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub exits: Vec<String>,
    /// How it is told to save what it has before it is taken back, and how long it has for it:
    /// `"USR1@2m"`, `"USR1"`, `"2m"` for TERM.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint: Option<String>,
    /// The indexes of an array's elements, and how many run at once: `0-99`, `0-99:2%8`,
    /// `1,3,7-9`. Absent, with values: an element for each.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub array: Option<String>,
    /// How many elements run at once at most. Absent: any number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_parallel: Option<u32>,
    /// After more failed elements than this the rest is cancelled. Absent: never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_fails: Option<u32>,
    /// Parameters of which the elements get every combination; the last one changes fastest.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub params: Vec<Param>,
    /// What each element is given: text, or any JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub items: Option<Vec<serde_json::Value>>,
    /// Parameters with a row of values for each element.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub table: Option<ParamTable>,
    /// Keep it from being considered until released.
    #[serde(default, skip_serializing_if = "is_false")]
    pub hold: bool,
    /// What is written beside it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// Who is told of what becomes of it: `"done,fail@https://host/path"`. What is told are
    /// `start`, `done`, `fail`, `timeout`, `cancel`, `hold`, and `end` and `all` for several.
    /// `["none"]`: nobody, whatever is usual. Absent: what is usual.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notify: Vec<String>,
    /// Queue it although no node could ever run it.
    #[serde(default, skip_serializing_if = "is_false")]
    pub allow_unsatisfiable: bool,
    /// File mode creation mask of its processes, as a number (022 is 18). Absent: the server's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub umask: Option<u32>,
    /// Whose variables it finds beside gpool's: `slurm`, `gflow`, `valohai`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub compat: Vec<String>,
}

/// A script as it is when submitted.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ScriptText {
    /// The name of its file, without folders.
    pub name: String,
    /// The script, `#!` line included. Absent where `base64` has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// The script in base64, where it is not UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base64: Option<String>,
}

fn is_false(flag: &bool) -> bool {
    !flag
}

/// The first line of a bulk submission, if it is to hold what all jobs have in common: what a
/// line does not say is taken from here, the environment entry by entry.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct BulkDefaults {
    /// What lines do not say.
    pub defaults: JobCreate,
}

impl JobCreate {
    /// Whether it gives the elements of an array values.
    #[must_use]
    pub fn has_values(&self) -> bool {
        !self.params.is_empty() || self.items.is_some() || self.table.is_some()
    }
}
