//! Everything that a user can ask for a job.

use std::num::NonZeroU8;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::array::spec::ArraySpec;
use crate::compat::Compat;
use crate::container::ContainerRequest;
use crate::files::FileRequest;
use crate::filter::NodeFilter;
use crate::gang::Gang;
use crate::gpu::GpuRequest;
use crate::group::GroupPlace;
use crate::id::{PoolName, ProjectName};
use crate::job::dependency::Dependency;
use crate::job_part::JobPart;
use crate::kind::{JobKind, Yields};
use crate::launch::{Activation, OpenMode, WindowSize};
use crate::life::Life;
use crate::notify::NotifyRule;
use crate::rare::{Rare, Usual, is_false};
use crate::sharer::{ShareWith, Sharer};
use crate::unit::{Bytes, MilliCpu, MilliGpu, Millis};

/// Everything that a user can ask for a job, each field valid by itself. The default asks for
/// nothing.
///
/// Flags, directives, environment variables, JSON lines, the API, scenarios and other schedulers'
/// commands all fill this type, and [`crate::JobSpec`] embeds it. Rarely used fields are boxed: a
/// server keeps a hundred thousand of these in memory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct JobRequest {
    /// The name of the job; need not be unique.
    pub name: Arc<str>,
    /// The project that is charged.
    pub project: ProjectName,
    /// The pool that the job must run in; `None` means any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pool: Option<PoolName>,
    /// The node filter; `None` means any node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nodes: Option<Arc<NodeFilter>>,
    /// Program and arguments; with a script, the arguments that follow the script's name.
    pub command: Vec<String>,
    /// The working directory of the job.
    pub directory: String,
    /// The file for standard input; empty input by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stdin: Option<Box<str>>,
    /// A file for its output instead of gpool's own; relative to `directory`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stdout: Option<Box<str>>,
    /// A file for its errors instead of gpool's own; relative to `directory`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stderr: Option<Box<str>>,
    /// How `stdout` and `stderr` are opened.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub open_mode: Option<OpenMode>,
    /// Run the job on a terminal, initially of this size, instead of pipes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pty: Option<WindowSize>,
    /// Software that is activated before its program starts, in order.
    #[serde(skip_serializing_if = "Rare::is_usual")]
    pub activate: Rare<Vec<Activation>>,
    /// The container that its program runs in; `None` means in none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub container: Option<Arc<ContainerRequest>>,
    /// Names of the secrets that its tasks find as files; each once, in their order.
    #[serde(skip_serializing_if = "Rare::is_usual")]
    pub secrets: Rare<Vec<String>>,
    /// Its working folder and results, which travel: it runs in a folder of its own then.
    #[serde(skip_serializing_if = "Rare::is_usual")]
    pub files: Rare<FileRequest>,
    /// GPUs of each task.
    pub gpus: GpuRequest,
    /// The GPU request as text, as the user wrote it.
    pub gpus_written: Arc<str>,
    /// The jobs that it accepts on its devices; `None` is the rule of their pool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub share_with: Option<ShareWith>,
    /// CPU cores of each task; `None` books none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpus: Option<MilliCpu>,
    /// Host memory of each task; `None` books none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<Bytes>,
    /// The number of tasks and nodes.
    #[serde(skip_serializing_if = "Gang::is_single")]
    pub gang: Gang,
    /// The parts of a job with tasks of different shapes, at least two. Then `gpus`, `cpus`,
    /// `memory` and `gang` are those of the first part.
    #[serde(skip_serializing_if = "Rare::is_usual")]
    pub parts: Rare<Vec<JobPart>>,
    /// Whether its tasks get the variables that `torchrun` reads.
    #[serde(skip_serializing_if = "is_false")]
    pub torchrun: bool,
    /// The run time after which the job is ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_limit: Option<Millis>,
    /// The time between TERM and KILL.
    pub grace: Millis,
    /// The signal that asks its processes to end; `None` is TERM.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stop_signal: Option<NonZeroU8>,
    /// Its place in a group of its user's jobs; `None` means it is in none. The scheduler does not
    /// read it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub part_of: Option<Arc<GroupPlace>>,
    /// Jobs that must have ended, or started, before this one may start, all of them.
    #[serde(skip_serializing_if = "Rare::is_usual")]
    pub after: Rare<Vec<Dependency>>,
    /// Makes the job an array: its elements share this request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub array: Option<Box<ArraySpec>>,
    /// Options for its start, retries and eviction.
    #[serde(skip_serializing_if = "Life::is_plain")]
    pub life: Life,
    /// Queue the job although no node could ever run it.
    #[serde(skip_serializing_if = "is_false")]
    pub allow_unsatisfiable: bool,
    /// The schedulers that the job gets additional variables of; each once, in their order.
    #[serde(skip_serializing_if = "Rare::is_usual")]
    pub compat: Rare<Vec<Compat>>,
    /// How the caller submitted it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub origin: Option<Box<Origin>>,
    /// The initial standing. Admission moves it into the job's own record, [`crate::Job`], which
    /// changes far more often than the request.
    #[serde(skip_serializing_if = "Rare::is_usual")]
    pub standing: Rare<Standing>,
}

/// How the caller submitted a job. It is only shown.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Origin {
    /// The command line, without values of environment variables.
    pub line: String,
    /// The path of the script at that time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub script: Option<String>,
}

/// The part of a request that [`crate::Job`] and [`crate::ArrayState`] hold once the job is
/// admitted, because it changes by itself or for one element of an array alone.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Standing {
    /// Higher goes first, -1000…1000.
    pub priority: i32,
    /// Text to show beside the job.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// Addresses that get messages about its state.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notify: Vec<NotifyRule>,
    /// Hold the job until it is released.
    #[serde(skip_serializing_if = "is_false")]
    pub hold: bool,
    /// The most elements of an array that run at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_parallel: Option<u32>,
    /// After more failures than this, the remaining elements of an array are cancelled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_fails: Option<u32>,
}

impl JobRequest {
    /// Returns the job of a user, as others on its devices see it, if it requests shares.
    #[must_use]
    pub fn sharer(&self, uid: u32) -> Option<Sharer> {
        let (with, project) = (self.share_with, &self.project);
        let mut gpus = [&self.gpus].into_iter().chain(self.parts.iter().map(|part| &part.gpus));
        gpus.find_map(GpuRequest::share).map(|_| Sharer {
            with,
            uid,
            project: project.clone(),
            priority: 0,
        })
    }
}

impl Usual for Standing {
    const USUAL: &'static Self = &Self {
        priority: 0,
        note: None,
        notify: Vec::new(),
        hold: false,
        max_parallel: None,
        max_fails: None,
    };
}

impl Default for JobRequest {
    fn default() -> Self {
        Self {
            name: Arc::from("job"),
            project: ProjectName::new("default"),
            pool: None,
            nodes: None,
            command: Vec::new(),
            directory: "/".to_owned(),
            stdin: None,
            stdout: None,
            stderr: None,
            open_mode: None,
            pty: None,
            activate: Rare::default(),
            container: None,
            secrets: Rare::default(),
            files: Rare::default(),
            gpus: GpuRequest::default(),
            gpus_written: Arc::from("0"),
            share_with: None,
            cpus: None,
            memory: None,
            gang: Gang::SINGLE,
            parts: Rare::default(),
            torchrun: false,
            time_limit: None,
            grace: Self::GRACE,
            stop_signal: None,
            part_of: None,
            after: Rare::default(),
            array: None,
            life: Life::default(),
            allow_unsatisfiable: false,
            compat: Rare::default(),
            origin: None,
            standing: Rare::default(),
        }
    }
}

impl JobRequest {
    /// The default time between TERM and KILL.
    pub const GRACE: Millis = Millis::from_secs(30);

    /// Returns a request for these GPUs, with this text.
    #[must_use]
    pub fn of_gpus(gpus: GpuRequest) -> Self {
        let gpus_written = Arc::from(gpus.to_string());
        Self { gpus, gpus_written, ..Self::default() }
    }

    /// Returns the GPUs of all its tasks together, for the queue order and the caps of users.
    #[must_use]
    pub fn gpus_together(&self) -> MilliGpu {
        let of = |(gpus, gang): (&GpuRequest, Gang)| {
            gpus.size().checked_mul(u64::from(gang.n_tasks())).unwrap_or(MilliGpu::MAX)
        };
        self.shapes().map(of).fold(MilliGpu::ZERO, MilliGpu::saturating_add)
    }

    /// Returns how many runs of a task it may come to: with all elements and all retries.
    #[must_use]
    pub fn n_runs(&self) -> u64 {
        let n_elements = self.array.as_ref().map_or(1, |array| u64::from(array.indexes.len()));
        let n_retries = self.life.retry.as_ref().map_or(0, |retry| u64::from(retry.most));
        let n_tasks = u64::from(self.n_tasks());
        n_elements.saturating_mul(n_tasks).saturating_mul(1 + n_retries)
    }

    /// Returns the number of its dependencies, met or not.
    #[must_use]
    pub fn n_dependencies(&self) -> u64 {
        (self.after.len() + self.life.after_one.len()) as u64
    }

    /// Returns all its dependencies, from `after` and `after_one`.
    pub fn dependencies(&self) -> impl Iterator<Item = &Dependency> {
        self.after.iter().chain(&self.life.after_one)
    }

    /// Returns the names of all secrets that it needs, with that of its registry.
    pub fn secret_names(&self) -> impl Iterator<Item = &str> {
        let login = self.container.as_ref().and_then(|container| container.login.as_ref());
        self.secrets.iter().chain(login).map(String::as_str)
    }

    /// Whether it needs nodes without other jobs.
    #[must_use]
    pub fn is_exclusive(&self) -> bool {
        self.nodes.as_ref().is_some_and(|nodes| nodes.exclusive)
    }
}

impl JobRequest {
    /// The kind of the job. A job with a terminal of its own is a notebook by default.
    #[must_use]
    pub fn kind(&self) -> JobKind {
        let usual = if self.pty.is_some() { JobKind::Notebook } else { JobKind::default() };
        self.life.habits.kind.unwrap_or(usual)
    }

    /// How the job frees its GPUs itself; `None` if it does not.
    #[must_use]
    pub fn yields(&self) -> Option<Yields> {
        self.life.habits.yields.filter(|_| self.has_gpus())
    }

    /// How long the GPUs of the job are unused before the policy for idle jobs applies to it;
    /// `None` if it never does.
    #[must_use]
    pub fn idle_after(&self) -> Option<Millis> {
        let after = self.life.habits.idle_after.or_else(|| self.kind().idle_after());
        after.filter(|after| !after.is_zero() && self.has_gpus())
    }

    /// How long the GPUs of the job are unused before it is shown as idle; `None` if it never is.
    #[must_use]
    pub fn shown_idle_after(&self) -> Option<Millis> {
        match self.life.habits.idle_after {
            Some(_) => self.idle_after(),
            None => Some(JobKind::IDLE_AFTER).filter(|_| self.has_gpus()),
        }
    }
}
