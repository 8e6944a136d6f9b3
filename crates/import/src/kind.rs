//! The tools of files.

use gpool_yaml::{Node, Value, YamlError};

/// The tool that a file is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileKind {
    Dstack,
    SkyPilot,
    /// Pods and jobs of Kubernetes, with the labels of Run:ai and KAI.
    Pods,
    Compose,
}

/// Keys that only tasks of SkyPilot have at the top.
const SKYPILOT: &[&str] =
    &["run", "setup", "num_nodes", "workdir", "file_mounts", "envs", "resources"];

/// The kinds of files, for messages.
const TOOLS: &str = "gpool import reads dstack (type: task), SkyPilot (run: …), pods of Run:ai \
                     and KAI (kind: Pod), and docker-compose (services: …)";

impl FileKind {
    /// The name of the tool.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Dstack => "dstack",
            Self::SkyPilot => "SkyPilot",
            Self::Pods => "Kubernetes",
            Self::Compose => "docker-compose",
        }
    }

    /// Finds the tool from the keys of the first document with a value.
    pub(crate) fn of(documents: &[Node]) -> Result<Self, YamlError> {
        let Some(first) = documents.iter().find(|node| node.value != Value::Null) else {
            return Err(YamlError::new(1, "the file is empty").advice(TOOLS));
        };
        if let Value::List(items) = &first.value
            && items.iter().any(|item| item.get("step").is_some())
        {
            return Err(YamlError::new(first.line, "this is a valohai.yaml")
                .advice("gpool vh exec run STEP runs a step of it"));
        }
        if !matches!(first.value, Value::Map(_)) {
            let what = format!("the file is not for a known tool: it is {}", first.value.kind());
            return Err(YamlError::new(first.line, what).advice(TOOLS));
        }
        let has = |key: &str| documents.iter().any(|node| node.get(key).is_some());
        if has("method") && has("parameters") {
            return Err(YamlError::new(first.line, "this is a sweep file of Weights & Biases")
                .advice("gpool sweep FILE runs it"));
        }
        if has("apiVersion") || has("kind") {
            return Ok(Self::Pods);
        }
        if has("services") {
            return Ok(Self::Compose);
        }
        if has("type") {
            return Ok(Self::Dstack);
        }
        if SKYPILOT.iter().any(|key| has(key)) {
            return Ok(Self::SkyPilot);
        }
        let keys = first.entries().iter().take(5).map(|(key, _)| key.text.as_str());
        let keys: Vec<&str> = keys.collect();
        let what = format!("the file is not for a known tool: its keys are {}", keys.join(", "));
        Err(YamlError::new(first.line, what).advice(TOOLS))
    }
}
