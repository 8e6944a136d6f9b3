//! How a job's program starts, in the API: terminal, activated software, setup command.

use std::sync::Arc;

use gpool_model::escape::is_unprintable;
use gpool_model::launch::OpenMode;
use gpool_model::{
    Activation, GpuRequest, JobRequest, NewJob, NodeFilter, Refusal, Standing, WindowSize,
};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Maximum length of a path in bytes, as in the kernel.
const PATH_MAX: usize = 4095;
/// Maximum number of modules of one job.
const MODULES_MAX: usize = 64;

/// Size of a terminal window, in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Window {
    /// Number of lines.
    pub rows: u16,
    /// Number of characters per line.
    pub columns: u16,
}

/// Reads `append` or `truncate`.
///
/// # Errors
/// [`Refusal::Invalid`] for another word.
pub(crate) fn open_mode(word: &str) -> Result<OpenMode, Refusal> {
    OpenMode::named(word).ok_or_else(|| {
        let shown: String = word.chars().take(32).collect();
        let why = format!("{shown:?} is neither append nor truncate");
        Refusal::Invalid { field: "open_mode".to_owned(), why }
    })
}

/// Software to activate before a job's program starts: `conda`, `venv` or `modules`. Paths are
/// absolute and must exist on the node of the job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Activate {
    /// Directory of a conda environment.
    Conda(String),
    /// Directory of a Python virtual environment.
    Venv(String),
    /// Environment modules.
    Modules(Modules),
}

/// Environment modules to load.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Modules {
    /// Script that defines `module` in `sh`.
    pub init: String,
    /// Names of the modules in the order of loading: `cuda/12.4`.
    pub names: Vec<String>,
}

/// A command that prepares the job. It runs as a separate job without GPUs, and the job waits for
/// its success.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Setup {
    /// Command line for `/bin/sh`.
    pub run: String,
    /// Software to activate for the command. It cannot include software that the command creates.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub activate: Vec<Activate>,
}

impl From<Window> for WindowSize {
    fn from(window: Window) -> Self {
        Self { rows: window.rows, columns: window.columns }
    }
}

impl From<WindowSize> for Window {
    fn from(size: WindowSize) -> Self {
        Self { rows: size.rows, columns: size.columns }
    }
}

impl From<&Activation> for Activate {
    fn from(activation: &Activation) -> Self {
        match activation.clone() {
            Activation::Conda(path) => Self::Conda(path),
            Activation::Venv(path) => Self::Venv(path),
            Activation::Modules { init, names } => Self::Modules(Modules { init, names }),
        }
    }
}

/// Checks the software to activate.
///
/// # Errors
/// [`Refusal::Invalid`] for a path that is not absolute, a module without a name, or more than one
/// Python environment.
pub(crate) fn checked(activate: &[Activate]) -> Result<Vec<Activation>, Refusal> {
    let is_python = |it: &&Activate| matches!(it, Activate::Conda(_) | Activate::Venv(_));
    if activate.iter().filter(is_python).count() > 1 {
        return Err(invalid("a job can have only one of conda, uv and venv; leave the others out"));
    }
    activate.iter().map(checked_one).collect()
}

fn checked_one(activate: &Activate) -> Result<Activation, Refusal> {
    let path = |path: &str| {
        let is_whole = path.starts_with('/') && path.len() <= PATH_MAX;
        if !is_whole || path.chars().any(is_unprintable) || path.contains(':') {
            return Err(invalid(
                "the path must be absolute and contain no colon: /home/ana/envs/torch",
            ));
        }
        Ok(path.to_owned())
    };
    Ok(match activate {
        Activate::Conda(folder) => Activation::Conda(path(folder)?),
        Activate::Venv(folder) => Activation::Venv(path(folder)?),
        Activate::Modules(Modules { init, names }) => {
            let is_name = |name: &String| {
                let allowed = |c: char| c.is_ascii_alphanumeric() || "._-+/=@".contains(c);
                !name.is_empty()
                    && name.len() <= 255
                    && !name.starts_with('-')
                    && name.chars().all(allowed)
            };
            if names.is_empty() || names.len() > MODULES_MAX || !names.iter().all(is_name) {
                return Err(invalid("it must be 1 to 64 module names: [\"cuda/12.4\"]"));
            }
            Activation::Modules { init: path(init)?, names: names.clone() }
        }
    })
}

/// Returns the setup job of a job, with the same user, directory, environment and dependencies, and
/// without GPUs.
///
/// # Errors
/// [`Refusal::Invalid`] if the command is empty.
pub(crate) fn setup_of(job: &NewJob, setup: &Setup) -> Result<NewJob, Refusal> {
    let refused = |why: &str| Refusal::Invalid { field: "setup".to_owned(), why: why.to_owned() };
    if setup.run.trim().is_empty() {
        return Err(refused("it is empty; give a command line for sh: {\"run\": \"uv sync\"}"));
    }
    if setup.run.contains('\0') || setup.run.len() >= crate::check::ARGUMENT_MAX {
        return Err(refused("it contains a zero byte, or is longer than the kernel accepts"));
    }
    let name: String = job.name.chars().take(crate::check::NAME_MAX - ":setup".len()).collect();
    let beside = job.nodes.as_deref().cloned().unwrap_or_default();
    let priority = job.standing.priority;
    Ok(NewJob::from(JobRequest {
        // Setup jobs run next to other jobs.
        nodes: NodeFilter { exclusive: false, ..beside }.unless_default(),
        name: Arc::from(format!("{name}:setup")),
        command: ["/bin/sh", "-c", &setup.run].map(str::to_owned).to_vec(),
        stdin: None,
        stdout: None,
        stderr: None,
        pty: None,
        activate: checked(&setup.activate)?.into(),
        gpus: GpuRequest::default(),
        gpus_written: Arc::from("0"),
        cpus: None,
        memory: None,
        time_limit: None,
        array: None,
        gang: gpool_model::Gang::SINGLE,
        // Only the job itself sends messages. A held job is prepared and then waits for its
        // release.
        standing: Standing { priority, ..Standing::default() }.into(),
        ..job.request.clone()
    }))
}

/// Checks the size of a terminal window.
///
/// # Errors
/// [`Refusal::Invalid`] for a window without rows or columns.
pub fn checked_window(window: Window) -> Result<WindowSize, Refusal> {
    if window.rows == 0 || window.columns == 0 {
        let why = "a window must have rows and columns: {\"rows\": 24, \"columns\": 80}".to_owned();
        return Err(Refusal::Invalid { field: "pty".to_owned(), why });
    }
    Ok(window.into())
}

fn invalid(why: &str) -> Refusal {
    Refusal::Invalid { field: "activate".to_owned(), why: why.to_owned() }
}
