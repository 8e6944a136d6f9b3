//! What somebody changes of a job that has not ended.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::exit::{Checkpoint, Exit};
use crate::filter::FilterPatch;
use crate::gpu::GpuRequest;
use crate::id::ProjectName;
use crate::job::{BlobId, Dependency, JobSpec};
use crate::life::{OnUnmet, Retry, Warning};
use crate::notify::NotifyRule;
use crate::rare::Rare;
use crate::unit::{Bytes, MilliCpu, Millis, Timestamp};

/// Changes to a job; what is `None` stays. Where there may be nothing, `Some(None)` removes it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct JobPatch {
    /// New priority.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<i32>,
    /// New note; empty removes it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// How many elements of an array may run at once; 0 is any number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_parallel: Option<u32>,
    /// How many elements of an array may fail before the rest is cancelled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_fails: Option<u32>,
    /// Who is told of it from now on; empty for nobody.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub notify: Option<Vec<NotifyRule>>,
    /// Changes to what it asked for.
    #[serde(skip_serializing_if = "SpecPatch::is_empty")]
    pub spec: Box<SpecPatch>,
}

/// Changes to what a job asked for.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct SpecPatch {
    /// See [`crate::JobRequest::name`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<Arc<str>>,
    /// See [`crate::JobRequest::project`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub project: Option<ProjectName>,
    /// See [`crate::JobRequest::command`] and [`JobSpec::script`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub program: Option<(Vec<String>, Option<BlobId>)>,
    /// See [`crate::JobRequest::directory`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub directory: Option<String>,
    /// See [`crate::JobRequest::stdin`].
    #[serde(with = "twice", skip_serializing_if = "Option::is_none")]
    pub stdin: Option<Option<String>>,
    /// See [`crate::JobRequest::stdout`].
    #[serde(with = "twice", skip_serializing_if = "Option::is_none")]
    pub stdout: Option<Option<String>>,
    /// See [`crate::JobRequest::stderr`].
    #[serde(with = "twice", skip_serializing_if = "Option::is_none")]
    pub stderr: Option<Option<String>>,
    /// See [`crate::JobRequest::gpus`] and [`crate::JobRequest::gpus_written`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gpus: Option<(GpuRequest, Arc<str>)>,
    /// Changes to [`crate::JobRequest::nodes`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nodes: Option<FilterPatch>,
    /// See [`crate::JobRequest::cpus`].
    #[serde(with = "twice", skip_serializing_if = "Option::is_none")]
    pub cpus: Option<Option<MilliCpu>>,
    /// See [`crate::JobRequest::memory`].
    #[serde(with = "twice", skip_serializing_if = "Option::is_none")]
    pub memory: Option<Option<Bytes>>,
    /// See [`crate::JobRequest::time_limit`].
    #[serde(with = "twice", skip_serializing_if = "Option::is_none")]
    pub time_limit: Option<Option<Millis>>,
    /// See [`crate::JobRequest::grace`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grace: Option<Millis>,
    /// See [`crate::JobRequest::after`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<Vec<Dependency>>,
    /// See [`crate::life::Life::after_one`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after_one: Option<Vec<Dependency>>,
    /// See [`crate::life::Life::on_unmet`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_unmet: Option<OnUnmet>,
    /// See [`crate::life::Life::begin`].
    #[serde(with = "twice", skip_serializing_if = "Option::is_none")]
    pub begin: Option<Option<Timestamp>>,
    /// See [`crate::life::Life::deadline`].
    #[serde(with = "twice", skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Option<Timestamp>>,
    /// See [`crate::life::Life::warning`].
    #[serde(with = "twice", skip_serializing_if = "Option::is_none")]
    pub warning: Option<Option<Warning>>,
    /// See [`crate::life::Life::retry`].
    #[serde(with = "twice", skip_serializing_if = "Option::is_none")]
    pub retry: Option<Option<Retry>>,
    /// See [`crate::life::Life::requeue`].
    #[serde(with = "twice", skip_serializing_if = "Option::is_none")]
    pub requeue: Option<Option<bool>>,
    /// See [`crate::life::Life::preemptible`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preemptible: Option<bool>,
    /// See [`crate::life::Life::exits`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exits: Option<BTreeSet<Exit>>,
    /// See [`crate::life::Life::checkpoint`].
    #[serde(with = "twice", skip_serializing_if = "Option::is_none")]
    pub checkpoint: Option<Option<Checkpoint>>,
}

impl SpecPatch {
    /// Whether it changes nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Whether it changes only what can still change once the job has started: what it is called
    /// and what follows its end.
    #[must_use]
    pub fn is_for_running(&self) -> bool {
        let rest = Self { name: None, retry: None, requeue: None, ..self.clone() };
        rest.is_empty()
    }

    /// The job as it is to be.
    #[must_use]
    pub fn applied_to(self, spec: &JobSpec) -> JobSpec {
        let mut new = spec.clone();
        let Self { name, project, program, directory, stdin, stdout, stderr, gpus, .. } = self;
        set(&mut new.name, name);
        set(&mut new.project, project);
        if let Some((command, script)) = program {
            (new.command, new.script) = (command, script);
        }
        set(&mut new.directory, directory);
        set(&mut new.stdin, boxed(stdin));
        set(&mut new.stdout, boxed(stdout));
        set(&mut new.stderr, boxed(stderr));
        if let Some((gpus, written)) = gpus {
            (new.gpus, new.gpus_written) = (gpus, written);
        }
        if let Some(nodes) = self.nodes {
            new.nodes = nodes.applied_to(new.nodes.as_deref()).kept();
        }
        set(&mut new.cpus, self.cpus);
        set(&mut new.memory, self.memory);
        set(&mut new.time_limit, self.time_limit);
        set(&mut new.grace, self.grace);
        set(&mut new.after, self.after.map(Rare::from));
        set(&mut new.life.after_one, self.after_one.map(Rare::from));
        set(&mut new.life.on_unmet, self.on_unmet);
        set(&mut new.life.begin, self.begin);
        set(&mut new.life.deadline, self.deadline);
        set(&mut new.life.warning, self.warning.map(Rare::from));
        set(&mut new.life.retry, self.retry.map(|it| it.map(Box::new)));
        set(&mut new.life.requeue, self.requeue);
        new.life.edit_exits(self.preemptible, self.exits, self.checkpoint);
        new
    }
}

pub(crate) fn set<T>(field: &mut T, value: Option<T>) {
    if let Some(value) = value {
        *field = value;
    }
}

/// What may be set to nothing, as a list of at most one thing.
pub(crate) mod twice {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[expect(clippy::ref_option, reason = "serde gives it so")]
    pub fn serialize<S: Serializer, T: Serialize>(
        value: &Option<Option<T>>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        value.as_ref().map(|value| value.iter().collect::<Vec<_>>()).serialize(serializer)
    }

    pub fn deserialize<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
        deserializer: D,
    ) -> Result<Option<Option<T>>, D::Error> {
        let value = Option::<Vec<T>>::deserialize(deserializer)?;
        Ok(value.map(|value| value.into_iter().next()))
    }
}

/// What a path becomes, in the form in which jobs keep it.
fn boxed(path: Option<Option<String>>) -> Option<Option<Box<str>>> {
    path.map(|path| path.map(Box::from))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_set_to_nothing_is_read_as_nothing_and_not_as_unsaid() {
        let spec = SpecPatch {
            cpus: Some(None),
            time_limit: Some(Some(Millis::from_mins(5))),
            ..SpecPatch::default()
        };
        let patch = JobPatch { spec: Box::new(spec), ..JobPatch::default() };
        let text = serde_json::to_string(&patch).expect("it can be written");
        assert_eq!(text, r#"{"spec":{"cpus":[],"time_limit":[300000]}}"#);
        assert_eq!(serde_json::from_str::<JobPatch>(&text).expect("it can be read"), patch);
    }
}
