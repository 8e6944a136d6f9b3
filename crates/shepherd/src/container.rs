//! The command lines of container engines for the programs of jobs. Pure.
//!
//! The engine's client is the job's program as its shepherd sees it: its output, exit code and
//! signals are those of the job. Podman, Apptainer and Enroot run the container as processes below
//! it; Docker's daemon runs it elsewhere, so the container has the job's limits by its flags.
//!
//! Sources: the manual pages podman-run(1), docker-run(1), and the references of Apptainer
//! (`apptainer exec`) and Enroot (`enroot start`).

use std::collections::BTreeMap;
use std::path::Path;

use gpool_model::agent::TaskOrder;
use gpool_model::attach::Exec;
use gpool_model::container::{ContainerRequest, EngineKind, PullPolicy};
use gpool_model::id::TaskId;
use serde::{Deserialize, Serialize};

use crate::layout::claim_name;

type Variables = BTreeMap<Vec<u8>, Vec<u8>>;

/// The engine of a node, for one task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskEngine {
    pub kind: EngineKind,
    /// The program's path.
    pub program: String,
    /// Whether it can put a small init process in front of the program.
    pub has_init: bool,
    /// The words that let the container use the task's devices.
    pub device_words: Vec<String>,
}

/// The task of a container, without its command.
pub struct ContainerTask<'a> {
    pub order: &'a TaskOrder,
    pub request: &'a ContainerRequest,
    /// The agent's folder, which makes names unique among the agents of a machine.
    pub state_dir: &'a Path,
    /// Files and folders that gpool's own variables name; they have the same path inside.
    pub own_paths: Vec<&'a Path>,
    /// The folder with the secrets of the job; it is read-only inside.
    pub secrets: Option<&'a Path>,
    /// Most processes and threads.
    pub pids_max: Option<u32>,
    pub has_terminal: bool,
}

/// Variables that describe the machine, and are of no use in a container.
const OF_MACHINE: &[&str] = &[
    "HOME",
    "LANG",
    "LOGNAME",
    "OLDPWD",
    "PATH",
    "PWD",
    "SHELL",
    "TMPDIR",
    "USER",
    "XDG_RUNTIME_DIR",
    "_",
];

/// The label with the task of a container.
const LABEL: &str = "gpool.task";

/// The name of a task's container.
#[must_use]
pub fn name(state_dir: &Path, task: TaskId) -> String {
    let claim = claim_name(task).replace(|c: char| !c.is_ascii_alphanumeric(), "-");
    format!("{}{claim}", name_prefix(state_dir))
}

/// Begins the names of all containers of an agent.
#[must_use]
pub fn name_prefix(state_dir: &Path) -> String {
    // FNV-1a, which is the same in every version of this program.
    let fold = |hash: u32, byte: &u8| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193);
    let hash = state_dir.as_os_str().as_encoded_bytes().iter().fold(0x811c_9dc5, fold);
    format!("gpool-{hash:08x}-")
}

impl TaskEngine {
    /// Whether a container has the limits of its own flags, not those of the process that starts
    /// it.
    #[must_use]
    pub fn limits_by_flags(&self) -> bool {
        matches!(self.kind, EngineKind::Podman | EngineKind::Docker)
    }

    /// The words that run `words` in a new container. `variables` are those of the engine's own
    /// process; the container gets all but those of the machine.
    #[must_use]
    pub fn run(
        &self,
        task: &ContainerTask<'_>,
        variables: &mut Variables,
        words: Vec<String>,
    ) -> Vec<String> {
        let mut line = vec![self.program.clone()];
        match self.kind {
            EngineKind::Podman | EngineKind::Docker => {
                self.run_by_flags(task, variables, &mut line)
            }
            EngineKind::Apptainer => self.run_apptainer(task, variables, &mut line),
            EngineKind::Enroot => self.run_enroot(task, variables, &mut line),
        }
        line.extend(words);
        line
    }

    fn run_by_flags(
        &self,
        task: &ContainerTask<'_>,
        variables: &Variables,
        line: &mut Vec<String>,
    ) {
        let (order, request) = (task.order, task.request);
        let spec = &order.spec;
        let mut flag = |name: &str, value: String| line.extend([name.to_owned(), value]);
        flag("run", format!("--name={}", name(task.state_dir, order.task())));
        flag("--label", format!("{LABEL}={}", order.task()));
        // Tasks of a gang find each other by the addresses of their nodes.
        flag("--network", "host".to_owned());
        flag("--pull", "never".to_owned());
        // The shepherd keeps the output.
        flag("--log-driver", "none".to_owned());
        flag("--workdir", request.workdir.clone().unwrap_or_else(|| spec.directory.clone()));
        // Programs of machine learning share more memory than the 64 MB of an engine.
        flag("--volume", "/dev/shm:/dev/shm".to_owned());
        for mount in mounts(task) {
            flag("--volume", mount);
        }
        if let Some(bytes) = spec.memory {
            flag("--memory", bytes.get().to_string());
            flag("--memory-swap", bytes.get().to_string());
        }
        if let Some(cpus) = spec.cpus {
            flag("--cpus", cpus.to_string());
        }
        if let Some(most) = task.pids_max {
            flag("--pids-limit", most.to_string());
        }
        match &request.user {
            Some(user) => flag("--user", user.clone()),
            None if self.kind == EngineKind::Podman && spec.owner.uid != 0 => {
                // The job's user runs the engine, and has the same ID inside.
                flag("--userns", "keep-id".to_owned());
            }
            None => flag("--user", format!("{}:{}", spec.owner.uid, spec.owner.gid)),
        }
        // The value comes from the engine's environment: no value is in the list of processes.
        for variable in variables.keys().filter_map(|name| of_container(name)) {
            flag("--env", variable);
        }
        line.push("--interactive".to_owned());
        line.extend(task.has_terminal.then(|| "--tty".to_owned()));
        line.extend(self.has_init.then(|| "--init".to_owned()));
        line.extend(self.device_words.iter().cloned());
        line.push(request.image.clone());
    }

    fn run_apptainer(
        &self,
        task: &ContainerTask<'_>,
        variables: &mut Variables,
        line: &mut Vec<String>,
    ) {
        let request = task.request;
        line.extend(["exec", "--cleanenv"].map(str::to_owned));
        for mount in mounts(task) {
            line.extend(["--bind".to_owned(), mount]);
        }
        let workdir = request.workdir.as_ref().unwrap_or(&task.order.spec.directory);
        line.extend(["--pwd".to_owned(), workdir.clone()]);
        if request.user.as_deref() == Some("root") {
            line.push("--fakeroot".to_owned());
        }
        line.extend(self.device_words.iter().cloned());
        // It passes on the variables with this prefix.
        let inside: Vec<(Vec<u8>, Vec<u8>)> = variables
            .iter()
            .filter_map(|(name, value)| {
                let name = format!("APPTAINERENV_{}", of_container(name)?);
                Some((name.into_bytes(), value.clone()))
            })
            .collect();
        variables.extend(inside);
        line.push(match is_file_or_url(&request.image) {
            true => request.image.clone(),
            false => format!("docker://{}", request.image),
        });
    }

    fn run_enroot(&self, task: &ContainerTask<'_>, variables: &Variables, line: &mut Vec<String>) {
        line.push("start".to_owned());
        for mount in mounts(task) {
            line.extend(["--mount".to_owned(), mount]);
        }
        for variable in variables.keys().filter_map(|name| of_container(name)) {
            line.extend(["--env".to_owned(), variable]);
        }
        line.extend(self.device_words.iter().cloned());
        line.push(task.request.image.clone());
        // It has no flag for the working directory.
        let workdir = task.request.workdir.as_ref().unwrap_or(&task.order.spec.directory);
        let enter = "cd \"$0\" && exec \"$@\"";
        line.extend(["/bin/sh", "-c", enter, workdir].map(str::to_owned));
    }

    /// The words that run a further command in a container; `None` if the engine can't.
    #[must_use]
    pub fn exec(&self, container: &str, exec: &Exec) -> Option<Vec<String>> {
        if !self.limits_by_flags() {
            return None;
        }
        let mut line = self.line(&["exec", "--interactive"]);
        line.extend(exec.pty.map(|_| "--tty".to_owned()));
        for (name, _) in &exec.environment {
            line.extend(["--env".to_owned(), name.clone()]);
        }
        if let Some(directory) = &exec.directory {
            line.extend(["--workdir".to_owned(), directory.clone()]);
        }
        line.push(container.to_owned());
        line.extend(exec.command.iter().cloned());
        Some(line)
    }

    /// The words that print whether a container that has ended was killed for lack of memory.
    #[must_use]
    pub fn ask_oom(&self, container: &str) -> Vec<String> {
        self.line(&["inspect", "--format", "{{.State.OOMKilled}}", container])
    }

    /// Whether processes of a container go on without the engine's daemon.
    #[must_use]
    pub fn has_daemon(&self) -> bool {
        self.kind == EngineKind::Docker
    }

    /// The words that print the names of containers with this prefix; `None` if containers do not
    /// outlive the commands that end them.
    #[must_use]
    pub fn list(&self, prefix: &str) -> Option<Vec<String>> {
        let filter = format!("name=^/?{prefix}");
        let words = ["ps", "--all", "--filter", &filter, "--format", "{{.Names}}"];
        self.has_daemon().then(|| self.line(&words))
    }

    /// The words that end and remove a container; `None` if the engine keeps none.
    #[must_use]
    pub fn remove(&self, container: &str) -> Option<Vec<String>> {
        self.limits_by_flags().then(|| self.line(&["rm", "--force", "--volumes", container]))
    }

    /// The words that succeed if the engine has an image; `None` if it finds images by itself.
    #[must_use]
    pub fn ask_image(&self, image: &str) -> Option<Vec<String>> {
        let words = ["image", "inspect", "--format", "{{.Id}}", image];
        self.limits_by_flags().then(|| self.line(&words))
    }

    /// The words that pull an image, with the logins in a folder if there is one.
    #[must_use]
    pub fn pull(&self, image: &str, logins: Option<&Path>) -> Vec<String> {
        let Some(folder) = logins.map(|folder| folder.display().to_string()) else {
            return self.line(&["pull", image]);
        };
        match self.kind {
            EngineKind::Docker => self.line(&["--config", &folder, "pull", image]),
            EngineKind::Podman | EngineKind::Apptainer | EngineKind::Enroot => {
                let file = format!("{folder}/{}", self.login_file());
                self.line(&["pull", "--authfile", &file, image])
            }
        }
    }

    /// The name of the file with logins.
    #[must_use]
    pub fn login_file(&self) -> &'static str {
        match self.kind {
            EngineKind::Docker => "config.json",
            EngineKind::Podman | EngineKind::Apptainer | EngineKind::Enroot => "auth.json",
        }
    }

    /// Whether gpool has the engine pull an image before a run.
    #[must_use]
    pub fn must_pull(&self, policy: PullPolicy, has_image: bool) -> bool {
        self.limits_by_flags()
            && match policy {
                PullPolicy::Always => true,
                PullPolicy::Missing => !has_image,
                PullPolicy::Never => false,
            }
    }

    fn line(&self, words: &[&str]) -> Vec<String> {
        [&*self.program].iter().chain(words).map(|word| (*word).to_owned()).collect()
    }
}

/// The name of a variable, if a container gets it.
fn of_container(name: &[u8]) -> Option<String> {
    let name = std::str::from_utf8(name).ok()?;
    (!OF_MACHINE.contains(&name)).then(|| name.to_owned())
}

/// The mounts of a container: those of the user, the working directory unless the user mounts
/// something there, and the paths in gpool's variables.
fn mounts(task: &ContainerTask<'_>) -> Vec<String> {
    let (request, directory) = (task.request, &task.order.spec.directory);
    let of_user = request.mounts.iter().map(|mount| {
        let source = Path::new(directory).join(&mount.source);
        let suffix = if mount.read_only { ":ro" } else { "" };
        format!("{}:{}{suffix}", source.display(), mount.target)
    });
    let is_covered =
        directory == "/" || request.mounts.iter().any(|mount| mount.target == *directory);
    let of_job = (!is_covered).then(|| format!("{directory}:{directory}"));
    let own = task.own_paths.iter().map(|path| format!("{0}:{0}", path.display()));
    let secrets = task.secrets.map(|path| format!("{0}:{0}:ro", path.display()));
    of_user.chain(of_job).chain(own).chain(secrets).collect()
}

fn is_file_or_url(image: &str) -> bool {
    image.contains("://") || image.starts_with(['/', '.']) || image.ends_with(".sif")
}
