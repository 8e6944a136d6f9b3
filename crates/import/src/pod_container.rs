//! The container of a pod.

use gpool_yaml::{Node, Value, YamlError};

use crate::amounts;
use crate::job::ImportedJob;
use crate::keys::{child_path, count, each, flag, list, text, texts, wrong};
use crate::note::Notes;
use crate::pod_labels::Labels;

const PROBE: &str = "gpool does not probe jobs";
const RIGHTS: &str = "containers of jobs have the rights of their user";

const REASONS: &[(&str, &str)] = &[
    ("envFrom", "--env-file reads a file; gpool secret set stores secrets"),
    ("ports", "gpool forward JOB PORT opens a port"),
    ("livenessProbe", PROBE),
    ("readinessProbe", PROBE),
    ("startupProbe", PROBE),
    ("lifecycle", PROBE),
    ("stdin", "--pty gives a job a terminal"),
    ("stdinOnce", "--pty gives a job a terminal"),
    ("tty", "--pty gives a job a terminal"),
    ("terminationMessagePath", PROBE),
    ("terminationMessagePolicy", PROBE),
    ("volumeDevices", "gpool mounts paths of the node"),
    ("resizePolicy", "gpool edit changes a job"),
];

/// The longest command in bytes; a request is limited to 1 MB.
const COMMAND_MAX: usize = 512 * 1024;

/// GPUs of NVIDIA in `resources`.
const GPU: &str = "nvidia.com/gpu";
/// MIG instances in `resources`.
const MIG: &str = "nvidia.com/mig-";

/// The volumes of a pod.
pub(crate) struct Volumes<'n> {
    path: String,
    volumes: Vec<(&'n str, &'n Node)>,
}

impl<'n> Volumes<'n> {
    pub fn of(spec: &'n Node, path: &str) -> Result<Self, YamlError> {
        let path = child_path(path, "volumes");
        let mut volumes = Vec::new();
        if let Some(node) = spec.get("volumes") {
            for item in list(node, &path)? {
                let Some(name) = item.text_of("name") else {
                    return Err(wrong(item, &path, "a mapping with name"));
                };
                volumes.push((name, item));
            }
        }
        Ok(Self { path, volumes })
    }

    /// The path of the node with this name.
    fn source(&self, name: &str) -> Option<&'n str> {
        let (_, node) = self.volumes.iter().find(|(own, _)| *own == name)?;
        node.get("hostPath")?.text_of("path")
    }

    /// Notes volumes that are no paths of the node, and settings of the others.
    pub fn note_unused(&self, notes: &mut Notes) -> Result<(), YamlError> {
        const TYPE: &[(&str, &str)] = &[("type", "the path must exist")];
        for (name, node) in &self.volumes {
            let path = child_path(&self.path, name);
            if self.source(name).is_some() {
                each(node, &path, &[], notes, |key, value, notes| match key {
                    "hostPath" => {
                        each(value, &path, TYPE, notes, |key, _, _| Ok(key == "path"))?;
                        Ok(true)
                    }
                    key => Ok(key == "name"),
                })?;
            } else {
                let kinds = node.entries().iter().map(|(key, _)| key.text.as_str());
                let kind = kinds.into_iter().find(|key| *key != "name").unwrap_or("emptyDir");
                let why = format!("{kind}: gpool mounts paths of the node");
                notes.not_taken(node.line, &path, why);
            }
        }
        Ok(())
    }
}

/// Takes the container with GPUs, or else the first one.
pub(crate) fn take(
    node: &Node,
    path: &str,
    volumes: &Volumes<'_>,
    job: &mut ImportedJob,
    labels: &Labels,
    notes: &mut Notes,
) -> Result<(), YamlError> {
    let containers = list(node, path)?;
    let has_gpus = |container: &&Node| match &labels.container {
        Some(name) => container.text_of("name") == Some(name),
        None => ["limits", "requests"].iter().any(|part| {
            let amounts = container.get("resources").and_then(|it| it.get(part));
            let mut keys = amounts.into_iter().flat_map(Node::entries).map(|(key, _)| &key.text);
            keys.any(|key| key.starts_with("nvidia.com/"))
        }),
    };
    let chosen = containers.iter().find(has_gpus).or(containers.first());
    let Some(chosen) = chosen else { return Err(wrong(node, path, "a container")) };
    for other in containers.iter().filter(|other| !std::ptr::eq(*other, chosen)) {
        let name = other.text_of("name").unwrap_or("container");
        let why = "a job has one container: that with GPUs, or else the first";
        notes.not_taken(other.line, &child_path(path, name), why);
    }
    Container::default().take(chosen, path, volumes, job, labels, notes)
}

#[derive(Default)]
struct Container {
    command: Vec<String>,
    arguments: Vec<String>,
    variables: Vec<(String, String)>,
    n_gpus: Option<u32>,
}

impl Container {
    fn take(
        mut self,
        node: &Node,
        path: &str,
        volumes: &Volumes<'_>,
        job: &mut ImportedJob,
        labels: &Labels,
        notes: &mut Notes,
    ) -> Result<(), YamlError> {
        each(node, path, REASONS, notes, |key, value, notes| {
            let path = child_path(path, key);
            match key {
                "name" => {}
                "image" => job.flag("image", text(value, &path)?),
                "command" => self.command = texts(value, &path)?,
                "args" => self.arguments = texts(value, &path)?,
                "env" => self.environment(value, &path, job, notes)?,
                "workingDir" => job.flag("workdir", text(value, &path)?),
                "resources" => self.resources(value, &path, job, notes)?,
                "volumeMounts" => mounts(value, &path, volumes, job, notes)?,
                "securityContext" => user(value, &path, job, notes)?,
                "imagePullPolicy" => {
                    job.flag(
                        "pull",
                        match text(value, &path)?.as_str() {
                            "Always" => "always",
                            "Never" => "never",
                            "IfNotPresent" => "missing",
                            _ => return Err(wrong(value, &path, "Always, IfNotPresent or Never")),
                        },
                    );
                }
                _ => return Ok(false),
            }
            Ok(true)
        })?;
        if !job.has("image") {
            return Err(YamlError::new(node.line, "the container has no image"));
        }
        if self.n_gpus.is_some() && labels.is_fraction() {
            let why = "the annotation with the fraction counts";
            notes.not_taken(node.line, &child_path(path, "resources.nvidia.com/gpu"), why);
        }
        if let Some(gpus) = labels.gpus(self.n_gpus)
            && !job.has("gpus")
        {
            job.flag("gpus", gpus);
        }
        if self.command.is_empty() && self.arguments.is_empty() {
            return Err(YamlError::new(node.line, "the container has no command")
                .advice("gpool does not know the command of an image; write command"));
        }
        if self.command.is_empty() {
            let line = node.get("args").map_or(node.line, |args| args.line);
            let how = "it is the command; gpool does not use the entrypoint of the image";
            notes.approximated(line, &child_path(path, "args"), how);
        }
        let words = self.command.iter().chain(&self.arguments);
        job.command = words.map(|word| self.expanded(word)).collect();
        if job.command.iter().map(String::len).sum::<usize>() > COMMAND_MAX {
            let what = format!("the command has more than {COMMAND_MAX} bytes");
            return Err(YamlError::new(node.line, what));
        }
        Ok(())
    }

    /// A word with the values of `$(NAME)`; unknown names stay as they are.
    fn expanded(&self, word: &str) -> String {
        let mut expanded = String::new();
        let mut rest = word;
        while let Some(at) = rest.find("$(")
            && expanded.len() <= COMMAND_MAX
        {
            let after = &rest[at + 2..];
            let name = after.split(')').next().unwrap_or_default();
            let found = self.variables.iter().find(|(own, _)| own == name);
            expanded.push_str(&rest[..at]);
            match found.filter(|_| name.len() < after.len()) {
                Some((_, value)) => {
                    expanded.push_str(value);
                    rest = &after[name.len() + 1..];
                }
                None => {
                    expanded.push_str("$(");
                    rest = after;
                }
            }
        }
        expanded + rest
    }

    fn environment(
        &mut self,
        node: &Node,
        path: &str,
        job: &mut ImportedJob,
        notes: &mut Notes,
    ) -> Result<(), YamlError> {
        for item in list(node, path)? {
            let Some(name) = item.text_of("name") else {
                return Err(wrong(item, path, "mappings with name and value"));
            };
            let full = child_path(path, name);
            if item.get("valueFrom").is_some() {
                let why = "gpool secret set stores a secret, and --secret NAME makes it a file";
                notes.not_taken(item.line, &full, why);
                continue;
            }
            let value = match item.get("value").filter(|it| it.value != Value::Null) {
                Some(value) => text(value, &full)?,
                None => String::new(),
            };
            job.flag("env", format!("{name}={value}"));
            self.variables.push((name.to_owned(), value));
        }
        Ok(())
    }

    fn resources(
        &mut self,
        node: &Node,
        path: &str,
        job: &mut ImportedJob,
        notes: &mut Notes,
    ) -> Result<(), YamlError> {
        const REASONS: &[(&str, &str)] = &[("claims", "gpool has no resource claims")];
        // Kubernetes schedules by requests; without them, limits are the requests.
        let mut parts: Vec<&Node> = Vec::new();
        each(node, path, REASONS, notes, |key, value, _| {
            match key {
                "requests" => parts.insert(0, value),
                "limits" => parts.push(value),
                _ => return Ok(false),
            }
            Ok(true)
        })?;
        for part in parts {
            each(part, path, &[], notes, |key, value, notes| {
                let path = child_path(path, key);
                match key {
                    GPU => self.n_gpus = Some(count(value, &path)?),
                    "cpu" if !job.has("cpus") => job.flag("cpus", amounts::cores(value, &path)?),
                    "memory" if !job.has("mem") => {
                        job.flag("mem", amounts::memory(value, &path, 1, true)?);
                    }
                    "cpu" | "memory" => {
                        let why = "the request counts; gpool has no other limit";
                        notes.not_taken(value.line, &path, why);
                    }
                    "ephemeral-storage" => {
                        notes.not_taken(value.line, &path, "gpool does not count disks");
                    }
                    name => match name.strip_prefix(MIG) {
                        Some(profile) if !job.has("gpus") => {
                            job.flag("gpus", format!("{profile}:{}", count(value, &path)?));
                        }
                        Some(_) => {}
                        None => {
                            let why = "gpool has GPUs, cores and memory";
                            notes.not_taken(value.line, &path, why);
                        }
                    },
                }
                Ok(true)
            })?;
        }
        Ok(())
    }
}

fn mounts(
    node: &Node,
    path: &str,
    volumes: &Volumes<'_>,
    job: &mut ImportedJob,
    notes: &mut Notes,
) -> Result<(), YamlError> {
    for item in list(node, path)? {
        let (Some(name), Some(target)) = (item.text_of("name"), item.text_of("mountPath")) else {
            return Err(wrong(item, path, "mappings with name and mountPath"));
        };
        let Some(source) = volumes.source(name) else {
            notes.not_taken(
                item.line,
                &child_path(path, name),
                "its volume is no path of the node",
            );
            continue;
        };
        let mut source = source.trim_end_matches('/').to_owned();
        let mut end = "";
        each(item, path, &[], notes, |key, value, _| {
            match key {
                "name" | "mountPath" => {}
                "readOnly" => end = if flag(value, path)? { ":ro" } else { "" },
                "subPath" => source = format!("{source}/{}", text(value, path)?),
                _ => return Ok(false),
            }
            Ok(true)
        })?;
        let source = if source.is_empty() { "/" } else { &source };
        job.flag("mount", format!("{source}:{target}{end}"));
    }
    Ok(())
}

/// The user of `securityContext`.
pub(crate) fn user(
    node: &Node,
    path: &str,
    job: &mut ImportedJob,
    notes: &mut Notes,
) -> Result<(), YamlError> {
    const ALL: &[(&str, &str)] = &[
        ("privileged", RIGHTS),
        ("capabilities", RIGHTS),
        ("allowPrivilegeEscalation", RIGHTS),
        ("fsGroup", RIGHTS),
        ("runAsNonRoot", RIGHTS),
        ("readOnlyRootFilesystem", RIGHTS),
        ("seccompProfile", RIGHTS),
        ("supplementalGroups", RIGHTS),
    ];
    let (mut own, mut group) = (None, None);
    each(node, path, ALL, notes, |key, value, _| {
        match key {
            "runAsUser" => own = Some(count(value, path)?),
            "runAsGroup" => group = Some(count(value, path)?),
            _ => return Ok(false),
        }
        Ok(true)
    })?;
    if let Some(own) = own {
        let group = group.map(|group| format!(":{group}")).unwrap_or_default();
        job.flags.retain(|flag| flag.name != "container-user");
        job.flag("container-user", format!("{own}{group}"));
    } else if group.is_some() {
        notes.not_taken(node.line, &child_path(path, "runAsGroup"), "it needs runAsUser");
    }
    Ok(())
}
