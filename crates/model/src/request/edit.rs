//! Changes to a job that has not ended: which fields of its request can change, and until when.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::exit::Exit;
use crate::filter::NodeFilter;
use crate::gpu::GpuRequest;
use crate::id::BlobId;
use crate::job::JobSpec;
use crate::request::job::JobRequest;

/// A field that an edit can change.
pub struct Edit {
    /// Its name in JSON.
    pub key: &'static str,
    /// Until when it can change.
    pub until: Until,
    /// Whether only the owner of the job can change it, because the job runs with their rights.
    pub is_owners: bool,
    /// Whether it is part of [`crate::Standing`], which the job's own record holds.
    pub is_standing: bool,
    /// Copies it from the request of a patch.
    take: fn(&mut JobRequest, &JobRequest),
}

/// Until when a field can change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Until {
    /// Until the job starts.
    Start,
    /// Until it ends, if only the size of its shares changes.
    EndIfSize,
    /// Until it ends.
    End,
}

impl Edit {
    const fn new(key: &'static str, take: fn(&mut JobRequest, &JobRequest)) -> Self {
        Self { key, until: Until::Start, is_owners: false, is_standing: false, take }
    }

    const fn standing(key: &'static str) -> Self {
        Self { until: Until::End, is_standing: true, ..Self::new(key, |_, _| ()) }
    }

    const fn until_end(self) -> Self {
        Self { until: Until::End, ..self }
    }

    const fn of_owner(self) -> Self {
        Self { is_owners: true, ..self }
    }
}

/// Copies fields of a request.
macro_rules! copy {
    ($($($part:ident).+),+) => {
        |to: &mut JobRequest, from: &JobRequest| {
            $(to.$($part).+.clone_from(&from.$($part).+);)+
        }
    };
}

/// Copies a part of the rules for nodes.
macro_rules! copy_nodes {
    ($part:ident) => {
        |to: &mut JobRequest, from: &JobRequest| {
            let new = from.nodes.as_deref().cloned().unwrap_or_default();
            let nodes = to.nodes.as_deref().cloned().unwrap_or_default();
            to.nodes = NodeFilter { $part: new.$part, ..nodes }.unless_default();
        }
    };
}

/// Every field that an edit can change. Edits of several fields are applied in this order.
pub static EDITS: &[Edit] = &[
    Edit::standing("priority"),
    Edit::standing("note"),
    Edit::standing("notify").of_owner(),
    Edit::standing("max_parallel"),
    Edit::standing("max_fails"),
    Edit::new("name", copy!(name)).until_end(),
    Edit::new("project", copy!(project)),
    // A script replaces a program and the reverse; see `JobPatch::applied_to`.
    Edit::new("command", copy!(command)).of_owner(),
    Edit::new("script", copy!(command)).of_owner(),
    Edit::new("directory", copy!(directory)).of_owner(),
    // The environment is a stored file; see `JobPatch::applied_to`.
    Edit::new("environment", |_, _| ()).of_owner(),
    Edit::new("stdin", copy!(stdin)).of_owner(),
    Edit::new("stdout", copy!(stdout)).of_owner(),
    Edit::new("stderr", copy!(stderr)).of_owner(),
    Edit::new("open_mode", copy!(open_mode)).of_owner(),
    Edit { until: Until::EndIfSize, ..Edit::new("gpus", take_gpus) },
    Edit::new("share_with", copy!(share_with)),
    Edit::new("node", copy_nodes!(include)),
    Edit::new("not_node", copy_nodes!(exclude)),
    Edit::new("where", copy_nodes!(rules)),
    Edit::new("topology", copy_nodes!(topology)),
    Edit::new("exclusive", copy_nodes!(exclusive)),
    Edit::new("cpus", copy!(cpus)),
    Edit::new("mem", copy!(memory)),
    Edit::new("time", copy!(time_limit)),
    Edit::new("grace", copy!(grace)),
    Edit::new("stop_signal", copy!(stop_signal)),
    Edit::new("after", copy!(after)),
    Edit::new("after_one", copy!(life.after_one)),
    Edit::new("on_unmet", copy!(life.on_unmet)),
    Edit::new("begin", copy!(life.begin)),
    Edit::new("deadline", copy!(life.deadline)),
    Edit::new("signal_before", copy!(life.warning)),
    Edit::new("retry", copy!(life.retry)).until_end(),
    Edit::new("requeue", copy!(life.requeue)).until_end(),
    Edit::new("on_node_lost", copy!(life.on_node_lost)),
    Edit::new("preemptible", take_preemptible),
    Edit::new("exits", take_exits),
    Edit::new("checkpoint", take_checkpoint),
    Edit::new("kind", copy!(life.habits.kind)),
    Edit::new("idle_after", copy!(life.habits.idle_after)),
    Edit::new("yields", copy!(life.habits.yields)),
];

/// Other GPUs need the same enforcement.
fn take_gpus(to: &mut JobRequest, from: &JobRequest) {
    to.gpus = GpuRequest { enforce: to.gpus.enforce, ..from.gpus.clone() };
    to.gpus_written.clone_from(&from.gpus_written);
}

/// A job that is not preemptible has no exits.
fn take_preemptible(to: &mut JobRequest, from: &JobRequest) {
    to.life.preemptible = from.life.preemptible;
    if from.life.preemptible == Some(false) {
        (to.life.exits, to.life.checkpoint) = Default::default();
    }
}

/// A job with exits is preemptible, unless the patch contradicts.
fn take_exits(to: &mut JobRequest, from: &JobRequest) {
    to.life.exits.clone_from(&from.life.exits);
    if !from.life.exits.is_empty() {
        to.life.preemptible = from.life.preemptible.or(Some(true));
    }
}

/// A job that can save its state may be preempted that way.
fn take_checkpoint(to: &mut JobRequest, from: &JobRequest) {
    to.life.checkpoint.clone_from(&from.life.checkpoint);
    if from.life.checkpoint.is_some() {
        to.life.exits.insert(Exit::Checkpoint);
        to.life.preemptible = from.life.preemptible.or(Some(true));
    } else {
        to.life.exits.remove(&Exit::Checkpoint);
    }
}

/// Changes to a job: the names of the fields that change, and a request with their new values.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct JobPatch {
    /// Keys of [`EDITS`].
    changes: BTreeSet<Arc<str>>,
    /// The new values; the other fields are ignored.
    pub to: Box<JobRequest>,
    /// The new script, if the program changes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub script: Option<BlobId>,
    /// The new launch context, if the environment changes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context: Option<BlobId>,
}

impl JobPatch {
    /// Returns a patch that changes these fields to the values of a request.
    pub fn new<'a>(keys: impl IntoIterator<Item = &'a str>, to: JobRequest) -> Self {
        let changes = keys.into_iter().map(Arc::from).collect();
        Self { changes, to: Box::new(to), script: None, context: None }
    }

    /// Changes one more field.
    #[must_use]
    pub fn with(mut self, key: &str, change: impl FnOnce(&mut JobRequest)) -> Self {
        self.changes.insert(Arc::from(key));
        change(&mut self.to);
        self
    }

    /// Whether it changes the field with that name in JSON.
    #[must_use]
    pub fn changes(&self, key: &str) -> bool {
        debug_assert!(EDITS.iter().any(|edit| edit.key == key), "{key} can't be edited");
        self.changes.contains(key)
    }

    /// Returns the fields that it changes.
    pub fn edits(&self) -> impl Iterator<Item = &'static Edit> {
        EDITS.iter().filter(|edit| self.changes(edit.key))
    }

    /// Whether it changes the request, and not only its standing.
    #[must_use]
    pub fn changes_request(&self) -> bool {
        self.edits().any(|edit| !edit.is_standing)
    }

    /// Returns the job with these changes, except for its standing.
    #[must_use]
    pub fn applied_to(&self, spec: &JobSpec) -> JobSpec {
        let mut new = spec.clone();
        for edit in self.edits() {
            (edit.take)(&mut new, &self.to);
        }
        if self.changes("command") || self.changes("script") {
            new.script.clone_from(&self.script);
        }
        if let Some(context) = self.context.as_ref().filter(|_| self.changes("environment")) {
            new.context.clone_from(context);
        }
        new
    }
}
