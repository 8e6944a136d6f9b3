//! Labels and annotations of Run:ai and KAI.
//!
//! Source: <https://github.com/NVIDIA/KAI-Scheduler/tree/main/docs>

use gpool_yaml::{Key, Node, YamlError};

use crate::amounts;
use crate::job::ImportedJob;
use crate::keys::{child_path, count, text, wrong};
use crate::note::Notes;

/// Priority classes of KAI: their priority above `train`, the default, and whether their jobs can
/// be preempted.
const CLASSES: &[(&str, i32, bool)] = &[
    ("train", 0, true),
    ("interactive-preemptible", 25, true),
    ("build", 50, false),
    ("inference", 75, false),
];

/// The prefix of the namespaces of Run:ai's projects.
const NAMESPACE: &str = "runai-";

/// What labels, annotations and node selectors say.
#[derive(Debug, Default)]
pub(crate) struct Labels {
    queue: Option<String>,
    namespace: Option<(usize, String)>,
    class: Option<(usize, String)>,
    is_preemptible: Option<bool>,
    topology: Option<(usize, String)>,
    /// The fraction of a GPU.
    pub fraction: Option<String>,
    /// The memory of a fraction, as a value of `--gpu-memory`.
    pub memory: Option<String>,
    /// GPUs that the fraction is of.
    pub n_devices: Option<u32>,
    /// The container with the fraction.
    pub container: Option<String>,
    /// The model of the GPUs.
    pub model: Option<String>,
    /// Pods that start together.
    pub n_together: Option<u32>,
    pool: Option<String>,
}

impl Labels {
    pub fn namespace(&mut self, line: usize, name: &str) {
        self.namespace = Some((line, name.to_owned()));
    }

    pub fn priority_class(&mut self, line: usize, name: String) {
        self.class = Some((line, name));
    }

    /// Takes a label or an annotation.
    pub fn take(
        &mut self,
        key: &Key,
        value: &Node,
        path: &str,
        notes: &mut Notes,
    ) -> Result<(), YamlError> {
        let path = child_path(path, &key.text);
        let written = || text(value, &path);
        match key.text.as_str() {
            "kai.scheduler/queue" | "runai/queue" | "project" => self.queue = Some(written()?),
            "kai.scheduler/node-pool" | "runai/node-pool" => self.pool = Some(written()?),
            "gpu-fraction" => {
                let fraction = written()?;
                let number = fraction.parse::<f64>().ok();
                if !number.is_some_and(|number| number > 0.0 && number <= 1.0) {
                    return Err(wrong(value, &path, "a fraction such as 0.5"));
                }
                self.fraction = Some(fraction);
            }
            "gpu-memory" => {
                self.memory = Some(amounts::size(u128::from(count(value, &path)?) << 20))
            }
            "gpu-fraction-num-devices" => self.n_devices = Some(count(value, &path)?),
            "gpu-fraction-container-name" => self.container = Some(written()?),
            "kai.scheduler/batch-min-member" => self.n_together = Some(count(value, &path)?),
            "kai.scheduler/preemptibility" => {
                self.is_preemptible = Some(match written()?.as_str() {
                    "preemptible" => true,
                    "non-preemptible" => false,
                    "semi-preemptible" => {
                        let how = "the job is not preempted, and gets no more nodes";
                        notes.approximated(key.line, &path, how);
                        false
                    }
                    _ => return Err(wrong(value, &path, "preemptible or non-preemptible")),
                });
            }
            "kai.scheduler/topology" => {
                notes.not_taken(key.line, &path, "the labels of nodes are the topology");
            }
            "kai.scheduler/topology-required-placement" => {
                self.topology = Some((key.line, format!("same-{}", written()?)));
            }
            "kai.scheduler/topology-preferred-placement" => {
                if self.topology.is_none() {
                    self.topology = Some((key.line, format!("prefer same-{}", written()?)));
                }
            }
            "kai.scheduler/subgroup-name" => {
                notes.not_taken(key.line, &path, "--part gives a job tasks of several shapes");
            }
            _ => notes.not_taken(key.line, &path, "jobs have --note and --group, and no labels"),
        }
        Ok(())
    }

    /// Takes an entry of `nodeSelector`.
    pub fn node_label(
        &mut self,
        key: &Key,
        value: &Node,
        path: &str,
        job: &mut ImportedJob,
        notes: &mut Notes,
    ) -> Result<(), YamlError> {
        let path = child_path(path, &key.text);
        let written = text(value, &path)?;
        match key.text.as_str() {
            "kai.scheduler/node-pool" | "runai/node-pool" => self.pool = Some(written),
            "nvidia.com/gpu.product" => self.model = Some(written.to_ascii_lowercase()),
            "kubernetes.io/hostname" => job.flag("node", written),
            name => {
                job.flag("where", format!("{name}={written}"));
                notes.approximated(key.line, &path, "a label of nodes of gpool");
            }
        }
        Ok(())
    }

    /// Whether it requests parts of GPUs.
    pub fn is_fraction(&self) -> bool {
        self.fraction.is_some() || self.memory.is_some()
    }

    /// The value of `--gpus` for a number of devices, or for the fraction.
    pub fn gpus(&self, n_devices: Option<u32>) -> Option<String> {
        let n_parts = self.n_devices.unwrap_or(1);
        let count = match (&self.fraction, &self.memory) {
            (Some(fraction), _) if fraction.parse() == Ok(1.0) => n_parts.to_string(),
            (Some(fraction), _) if n_parts == 1 => fraction.clone(),
            (Some(fraction), _) => format!("{n_parts}@{fraction}"),
            (None, Some(memory)) => format!("{n_parts}@{memory}"),
            (None, None) => n_devices?.to_string(),
        };
        Some(match &self.model {
            Some(model) => format!("{model}:{count}"),
            None => count,
        })
    }

    /// Adds the flags of project, priority, pool and topology.
    pub fn finish(
        self,
        job: &mut ImportedJob,
        is_gang: bool,
        notes: &mut Notes,
    ) -> Result<(), YamlError> {
        match (self.queue, self.namespace) {
            (Some(queue), namespace) => {
                if let Some((line, _)) = namespace {
                    notes.not_taken(line, "metadata.namespace", "the queue is the project");
                }
                job.flag("project", queue);
            }
            (None, Some((line, name))) => match name.strip_prefix(NAMESPACE) {
                Some(project) => job.flag("project", project),
                None => notes.not_taken(line, "metadata.namespace", "a queue would be the project"),
            },
            (None, None) => {}
        }
        if let Some(pool) = self.pool {
            job.flag("pool", pool);
        }
        let mut is_preemptible = self.is_preemptible;
        if let Some((line, name)) = self.class {
            const KEY: &str = "priorityClassName";
            match CLASSES.iter().find(|(class, _, _)| *class == name) {
                Some((_, priority, preemptible)) => {
                    is_preemptible = is_preemptible.or(Some(*preemptible));
                    if *priority > 0 {
                        job.flag("priority", priority.to_string());
                        job.switch("lenient");
                        let how = format!(
                            "{priority} above class train; users of gpool can only lower \
                             their priority"
                        );
                        notes.approximated(line, KEY, how);
                    }
                }
                None => notes.not_taken(line, KEY, "--priority has numbers, and 0 is the default"),
            }
        }
        match is_preemptible {
            Some(true) => job.switch("preemptible"),
            Some(false) => job.switch("no-preemptible"),
            None => {}
        }
        if let Some((line, topology)) = self.topology {
            match is_gang {
                true => job.flag("topology", topology),
                false => notes.not_taken(line, "kai.scheduler/topology", "a pod is on one node"),
            }
        }
        Ok(())
    }
}
