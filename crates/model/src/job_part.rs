//! Parts of a job: tasks of different shapes that start together, or none of them. Users write them
//! as `head:1xcpu` and `worker:4xa100:8,cpus=16,mem=100G,tasks=2`.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::gang::Gang;
use crate::gpu::GpuRequest;
use crate::parse;
use crate::unit::{Bytes, MilliCpu};

/// Why a text is no part of a job.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct JobPartError(String);

/// Tasks of one shape, in a job with tasks of several shapes. Ranks count through: the tasks of the
/// first part come first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobPart {
    /// Its name, unique in the job.
    pub name: Arc<str>,
    /// GPUs of each task.
    pub gpus: GpuRequest,
    /// CPU cores of each task; `None` books none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpus: Option<MilliCpu>,
    /// Host memory of each task; `None` books none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<Bytes>,
    /// The number of nodes, and of tasks on each: a fixed number.
    pub gang: Gang,
}

impl JobPart {
    /// The word for no GPUs.
    const CPU: &'static str = "cpu";
    /// The most characters of a name.
    const NAME_MAX: usize = 32;

    /// Reads `NAME:[NODESx]GPUS[,cpus=CORES][,mem=SIZE][,tasks=N]`; `cpu` are no GPUs.
    ///
    /// # Errors
    /// If the text is anything else; the message says what is expected.
    pub fn parse(text: &str) -> Result<Self, JobPartError> {
        let bad = |what: String| JobPartError(format!("{text:?} is no part of a job: {what}"));
        let form = "write NAME:NODESxGPUS, e.g. head:1xcpu or worker:4xa100:8,cpus=16,mem=100G";
        let (name, rest) = text.split_once(':').ok_or_else(|| bad(form.to_owned()))?;
        let is_in_name = |it: char| it.is_ascii_alphanumeric() || it == '-' || it == '_';
        if name.is_empty() || name.len() > Self::NAME_MAX || !name.chars().all(is_in_name) {
            let most = Self::NAME_MAX;
            return Err(bad(format!(
                "its name {name:?} is not 1 to {most} letters, digits, - or _; {form}"
            )));
        }
        let mut words = rest.split(',');
        let (nodes, gpus) = nodes_and_gpus(words.next().unwrap_or_default());
        let written = if gpus == Self::CPU { "0" } else { gpus };
        let gpus = GpuRequest::parse(written).map_err(|error| bad(error.to_string()))?;
        let (mut cpus, mut memory, mut tasks) = (None, None, 1);
        for word in words {
            match word.split_once('=') {
                Some(("cpus", cores)) => {
                    cpus = Some(parse::cpus(cores).map_err(|error| bad(error.to_string()))?);
                }
                Some(("mem", size)) => {
                    memory = Some(parse::bytes(size).map_err(|error| bad(error.to_string()))?);
                }
                Some(("tasks", n)) => {
                    let why = || bad(format!("{n:?} is no number of tasks on each node"));
                    tasks = n.parse().map_err(|_| why())?;
                }
                _ => return Err(bad(format!("{word:?} is not cpus=, mem= or tasks=; {form}"))),
            }
        }
        let most = Gang::TASKS_MAX;
        let gang = Gang::new(nodes, tasks)
            .ok_or_else(|| bad(format!("a job has 1 to {most} tasks; {form}")))?;
        Ok(Self {
            name: Arc::from(name),
            gpus,
            cpus: cpus.filter(|cpus| !cpus.is_zero()),
            memory: memory.filter(|memory| !memory.is_zero()),
            gang,
        })
    }
}

impl JobPart {
    /// The number of nodes, and the GPUs of each task: `4xa100:8`.
    #[must_use]
    pub fn gpus_words(&self) -> String {
        match self.gpus.is_none() {
            true => format!("{}x{}", self.gang.nodes, Self::CPU),
            false => format!("{}x{}", self.gang.nodes, self.gpus),
        }
    }

    /// The same of all parts: `1xcpu+4xa100:8`.
    #[must_use]
    pub fn gpus_words_of(parts: &[Self]) -> String {
        parts.iter().map(Self::gpus_words).collect::<Vec<_>>().join("+")
    }
}

/// Divides `4xa100:8` into 4 and `a100:8`; without a number it is 1 node.
fn nodes_and_gpus(text: &str) -> (u32, &str) {
    let divided = text.split_once('x').and_then(|(n, gpus)| Some((n.parse().ok()?, gpus)));
    divided.unwrap_or((1, text))
}

/// Writes the part as [`JobPart::parse`] reads it.
impl fmt::Display for JobPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.name, self.gpus_words())?;
        if let Some(cpus) = self.cpus {
            write!(f, ",cpus={cpus}")?;
        }
        if let Some(memory) = self.memory {
            write!(f, ",mem={}", parse::exact_bytes(memory))?;
        }
        match self.gang.tasks_per_node {
            1 => Ok(()),
            n => write!(f, ",tasks={n}"),
        }
    }
}
