//! How a job's program is started beside its command, as the API writes it: a terminal, software
//! that is made active, a command that prepares the job.

use std::sync::Arc;

use gpool_model::said::is_unprintable;
use gpool_model::{
    Activation, GpuRequest, JobRequest, NewJob, NodeFilter, Refusal, Standing, WindowSize,
};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Bytes of a path, as the kernel counts them.
const PATH_MAX: usize = 4095;
/// Modules that one job may load.
const MODULES_MAX: usize = 64;

/// The size of a terminal's window, in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Window {
    /// Lines.
    pub rows: u16,
    /// Characters in a line.
    pub columns: u16,
}

/// Software that is made active before a job's program starts: one of `conda`, `venv` and
/// `modules`. Paths are absolute, and must be there where the job starts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Activate {
    /// The folder of a conda environment.
    Conda(String),
    /// The folder of a Python virtual environment.
    Venv(String),
    /// Environment modules.
    Modules(Modules),
}

/// Environment modules that are loaded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Modules {
    /// The script that makes `module` known to `sh`.
    pub init: String,
    /// What is loaded, in order: `cuda/12.4`.
    pub names: Vec<String>,
}

/// What runs before a job, without GPUs, as a job of its own: the job waits for it to succeed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Setup {
    /// A line for `/bin/sh`.
    pub run: String,
    /// Software that is active for it; what it makes itself can't be among it.
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

/// Checks what is made active.
///
/// # Errors
/// [`Refusal::Invalid`] for a path that is not absolute, a module without a name, and for more
/// than one Python.
pub(crate) fn checked(activate: &[Activate]) -> Result<Vec<Activation>, Refusal> {
    let is_python = |it: &&Activate| matches!(it, Activate::Conda(_) | Activate::Venv(_));
    if activate.iter().filter(is_python).count() > 1 {
        return Err(invalid("a job has one of conda, uv and venv; leave the others out"));
    }
    activate.iter().map(checked_one).collect()
}

fn checked_one(activate: &Activate) -> Result<Activation, Refusal> {
    let path = |path: &str| {
        let is_whole = path.starts_with('/') && path.len() <= PATH_MAX;
        if !is_whole || path.chars().any(is_unprintable) || path.contains(':') {
            return Err(invalid("a path is absolute, and holds no colon: /home/ana/envs/torch"));
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
                return Err(invalid("it is 1 to 64 names of modules: [\"cuda/12.4\"]"));
            }
            Activation::Modules { init: path(init)?, names: names.clone() }
        }
    })
}

/// The job that prepares another: the same user, folder and environment, no GPUs, and after the
/// same jobs.
///
/// # Errors
/// [`Refusal::Invalid`] if it says nothing to run.
pub(crate) fn setup_of(job: &NewJob, setup: &Setup) -> Result<NewJob, Refusal> {
    let refused = |why: &str| Refusal::Invalid { field: "setup".to_owned(), why: why.to_owned() };
    if setup.run.trim().is_empty() {
        return Err(refused("it is empty; give a line for sh: {\"run\": \"uv sync\"}"));
    }
    if setup.run.contains('\0') || setup.run.len() >= crate::check::ARGUMENT_MAX {
        return Err(refused("it holds a zero byte, or is longer than the kernel takes"));
    }
    let name: String = job.name.chars().take(crate::check::NAME_MAX - ":setup".len()).collect();
    let beside = job.nodes.as_deref().cloned().unwrap_or_default();
    let priority = job.standing.priority;
    Ok(NewJob::from(JobRequest {
        // It prepares the job beside others.
        nodes: NodeFilter { exclusive: false, ..beside }.kept(),
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
        // Messages are about the job itself. A held one is prepared, and waits to be released.
        standing: Standing { priority, ..Standing::default() }.into(),
        ..job.request.clone()
    }))
}

/// Checks the window of a terminal.
///
/// # Errors
/// [`Refusal::Invalid`] for one without room.
pub fn checked_window(window: Window) -> Result<WindowSize, Refusal> {
    if window.rows == 0 || window.columns == 0 {
        let why = "a window has rows and columns: {\"rows\": 24, \"columns\": 80}".to_owned();
        return Err(Refusal::Invalid { field: "pty".to_owned(), why });
    }
    Ok(window.into())
}

fn invalid(why: &str) -> Refusal {
    Refusal::Invalid { field: "activate".to_owned(), why: why.to_owned() }
}
