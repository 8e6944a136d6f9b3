//! Pods and jobs of Kubernetes, with the labels and annotations of Run:ai and KAI.
//!
//! Source: <https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/>

use gpool_yaml::{Node, Value, YamlError};

use crate::amounts::time;
use crate::job::ImportedJob;
use crate::keys::{child_path, count, each, flag, list, map, text};
use crate::note::Notes;
use crate::pod_container::{self, Volumes};
use crate::pod_labels::Labels;

const CLUSTER: &str = "it is about a cluster of Kubernetes";
const NETWORK: &str = "jobs of gpool use the network of their node";

const METADATA: &[(&str, &str)] = &[
    ("creationTimestamp", CLUSTER),
    ("uid", CLUSTER),
    ("resourceVersion", CLUSTER),
    ("generation", CLUSTER),
    ("ownerReferences", CLUSTER),
    ("finalizers", CLUSTER),
];

const POD: &[(&str, &str)] = &[
    ("initContainers", "--setup prepares a job; --after waits for another one"),
    ("affinity", "--where, --node and --topology choose nodes"),
    ("topologySpreadConstraints", "--topology chooses nodes"),
    ("tolerations", "gpool drains nodes, and has no taints"),
    ("runtimeClassName", CLUSTER),
    ("serviceAccount", CLUSTER),
    ("serviceAccountName", CLUSTER),
    ("automountServiceAccountToken", CLUSTER),
    ("imagePullSecrets", "--image-login names a secret with USER:PASSWORD"),
    ("hostNetwork", NETWORK),
    ("hostIPC", NETWORK),
    ("hostPID", NETWORK),
    ("dnsPolicy", NETWORK),
    ("hostname", NETWORK),
    ("subdomain", NETWORK),
    ("enableServiceLinks", CLUSTER),
    ("schedulingGates", "--hold keeps a job from starting"),
    ("resourceClaims", CLUSTER),
    ("ephemeralContainers", CLUSTER),
    ("status", CLUSTER),
];

const JOB: &[(&str, &str)] = &[
    ("ttlSecondsAfterFinished", "gpool keeps ended jobs in its history"),
    ("selector", CLUSTER),
    ("manualSelector", CLUSTER),
    ("podFailurePolicy", "--retry-exit and --retry-on choose failures"),
    ("backoffLimitPerIndex", "--retry applies to each element"),
    ("podReplacementPolicy", CLUSTER),
];

/// The jobs of all pods and jobs of a file.
pub(crate) fn jobs(documents: &[Node], notes: &mut Notes) -> Result<Vec<ImportedJob>, YamlError> {
    let mut jobs = Vec::new();
    let mut others = Vec::new();
    for document in documents.iter().filter(|node| node.value != Value::Null) {
        let items = match document.text_of("kind") {
            Some("List") => match document.get("items") {
                Some(items) => list(items, "items")?,
                None => &[],
            },
            _ => std::slice::from_ref(document),
        };
        for item in items {
            match item.text_of("kind") {
                Some("Pod") => jobs.push(pod(item, notes)?),
                Some("Job") => jobs.push(batch(item, notes)?),
                kind => {
                    let kind = kind.unwrap_or("a document without kind").to_owned();
                    notes.not_taken(item.line, &kind, "gpool imports kind Pod and kind Job");
                    others.push((item.line, kind));
                }
            }
        }
    }
    match (jobs.is_empty(), others.first()) {
        (false, _) => Ok(jobs),
        (true, other) => {
            let (line, what) = match other {
                Some((line, kind)) => (*line, format!("gpool can't import {kind}")),
                None => (1, "the file has no pod".to_owned()),
            };
            Err(YamlError::new(line, what).advice("it imports kind: Pod and kind: Job"))
        }
    }
}

fn pod(node: &Node, notes: &mut Notes) -> Result<ImportedJob, YamlError> {
    let mut job = ImportedJob::new(node.line);
    let mut labels = Labels::default();
    let mut spec = None;
    each(node, "", POD, notes, |key, value, notes| {
        match key {
            "apiVersion" | "kind" => {}
            "metadata" => metadata(value, &mut job, &mut labels, notes)?,
            "spec" => spec = Some(value),
            _ => return Ok(false),
        }
        Ok(true)
    })?;
    let Some(spec) = spec else {
        return Err(YamlError::new(node.line, "the pod has no spec"));
    };
    pod_spec(spec, "spec", &mut job, &mut labels, notes)?;
    labels.finish(&mut job, false, notes)?;
    Ok(job)
}

/// A job of Kubernetes: an array, or a gang if KAI starts its pods together.
fn batch(node: &Node, notes: &mut Notes) -> Result<ImportedJob, YamlError> {
    let mut job = ImportedJob::new(node.line);
    let mut labels = Labels::default();
    let mut pods = Pods::default();
    let mut template = None;
    each(node, "", POD, notes, |key, value, notes| {
        match key {
            "apiVersion" | "kind" => {}
            "metadata" => metadata(value, &mut job, &mut labels, notes)?,
            "spec" => each(value, key, JOB, notes, |key, value, notes| {
                if key == "template" {
                    template = Some(value);
                    return Ok(true);
                }
                pods.take(key, value, &mut job, notes)
            })?,
            _ => return Ok(false),
        }
        Ok(true)
    })?;
    let Some(template) = template else {
        return Err(YamlError::new(node.line, "the job has no spec.template"));
    };
    let mut has_spec = false;
    each(template, "spec.template", POD, notes, |key, value, notes| {
        match key {
            "metadata" => metadata(value, &mut job, &mut labels, notes)?,
            "spec" => {
                has_spec = true;
                pod_spec(value, "spec.template.spec", &mut job, &mut labels, notes)?;
            }
            _ => return Ok(false),
        }
        Ok(true)
    })?;
    if !has_spec {
        return Err(YamlError::new(template.line, "the job has no spec.template.spec"));
    }
    let is_gang = pods.finish(&labels, &mut job, notes);
    labels.finish(&mut job, is_gang, notes)?;
    Ok(job)
}

/// The numbers of pods of a job.
#[derive(Default)]
struct Pods {
    line: usize,
    parallelism: Option<u32>,
    completions: Option<u32>,
    is_indexed: bool,
}

impl Pods {
    fn take(
        &mut self,
        key: &str,
        value: &Node,
        job: &mut ImportedJob,
        notes: &mut Notes,
    ) -> Result<bool, YamlError> {
        let path = child_path("spec", key);
        match key {
            "parallelism" => {
                self.line = value.line;
                self.parallelism = Some(count(value, &path)?);
            }
            "completions" => {
                self.line = value.line;
                self.completions = Some(count(value, &path)?);
            }
            "completionMode" => self.is_indexed = text(value, &path)? == "Indexed",
            "backoffLimit" => match count(value, &path)? {
                0 => {}
                n_retries => {
                    job.flag("retry", n_retries.to_string());
                    notes.approximated(value.line, &path, "retries of the job or each element");
                }
            },
            "activeDeadlineSeconds" => job.flag("time", time(value, &path)?),
            "suspend" => {
                if flag(value, &path)? {
                    job.switch("hold");
                }
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Adds the flags; returns whether the job is a gang.
    fn finish(&self, labels: &Labels, job: &mut ImportedJob, notes: &mut Notes) -> bool {
        let n_pods = self.completions.or(self.parallelism).unwrap_or(1);
        let n_parallel = self.parallelism.unwrap_or(1);
        if let Some(least) = labels.n_together.filter(|least| *least > 1 && n_parallel >= *least) {
            let tasks = match least == n_parallel {
                true => least.to_string(),
                false => format!("{least}-{n_parallel}"),
            };
            job.flag("tasks", tasks);
            if self.completions.is_some_and(|completions| completions != n_parallel) {
                let how = "the tasks of a gang run once";
                notes.approximated(self.line, "spec.completions", how);
            }
            self.wrap(job, "GPOOL_RANK");
            return true;
        }
        if n_pods > 1 {
            job.flag("array", format!("0-{}", n_pods - 1));
            if n_parallel < n_pods {
                job.flag("max-parallel", n_parallel.max(1).to_string());
            }
            self.wrap(job, "GPOOL_ARRAY_INDEX");
        }
        false
    }

    /// Sets the variable of indexed jobs.
    fn wrap(&self, job: &mut ImportedJob, variable: &str) {
        if self.is_indexed {
            let script = format!("export JOB_COMPLETION_INDEX=\"${variable}\"; exec \"$@\"");
            let words = ["/bin/sh".to_owned(), "-c".to_owned(), script, "sh".to_owned()];
            job.command.splice(0..0, words);
        }
    }
}

fn metadata(
    node: &Node,
    job: &mut ImportedJob,
    labels: &mut Labels,
    notes: &mut Notes,
) -> Result<(), YamlError> {
    each(node, "metadata", METADATA, notes, |key, value, notes| {
        let path = child_path("metadata", key);
        match key {
            // The name of a template does not replace that of its job.
            "name" | "generateName" => {
                let name = text(value, &path)?;
                if job.name.is_empty() {
                    job.name = name.trim_end_matches('-').to_owned();
                }
            }
            "namespace" => labels.namespace(value.line, &text(value, &path)?),
            "labels" | "annotations" => {
                for (key, value) in map(value, &path)? {
                    labels.take(key, value, &path, notes)?;
                }
            }
            _ => return Ok(false),
        }
        Ok(true)
    })
}

/// The flags of a pod.
fn pod_spec(
    node: &Node,
    path: &str,
    job: &mut ImportedJob,
    labels: &mut Labels,
    notes: &mut Notes,
) -> Result<(), YamlError> {
    let volumes = Volumes::of(node, path)?;
    let mut containers = None;
    each(node, path, POD, notes, |key, value, notes| {
        let path = child_path(path, key);
        match key {
            "containers" => containers = Some((value, path)),
            "volumes" => {}
            "schedulerName" => {}
            "restartPolicy" => restarts(value, &path, job, notes)?,
            "priorityClassName" => labels.priority_class(value.line, text(value, &path)?),
            "terminationGracePeriodSeconds" => job.flag("grace", time(value, &path)?),
            "activeDeadlineSeconds" => job.flag("time", time(value, &path)?),
            "nodeName" => job.flag("node", text(value, &path)?),
            "nodeSelector" => {
                for (key, value) in map(value, &path)? {
                    labels.node_label(key, value, &path, job, notes)?;
                }
            }
            "securityContext" => pod_container::user(value, &path, job, notes)?,
            _ => return Ok(false),
        }
        Ok(true)
    })?;
    let Some((containers, path)) = containers else {
        return Err(YamlError::new(node.line, "the pod has no containers"));
    };
    pod_container::take(containers, &path, &volumes, job, labels, notes)?;
    volumes.note_unused(notes)?;
    if job.name.is_empty() {
        job.name = "pod".to_owned();
    }
    Ok(())
}

/// `Never` is the way of gpool.
fn restarts(
    node: &Node,
    path: &str,
    job: &mut ImportedJob,
    notes: &mut Notes,
) -> Result<(), YamlError> {
    match text(node, path)?.as_str() {
        "Never" => {}
        // The `backoffLimit` of a job counts these.
        "OnFailure" if job.has("retry") => {}
        "OnFailure" => {
            job.flag("retry", "6");
            notes.approximated(node.line, path, "at most 6 retries after a failure");
        }
        _ => notes.not_taken(node.line, path, "a job that succeeds does not start again"),
    }
    Ok(())
}
