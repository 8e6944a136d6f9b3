//! Flags that say what a job needs. They come from the command line, from `GPOOL_SUBMIT_…`
//! variables and from directives; the first that says something wins, lists are joined.

use clap::Args;

use super::array_flags::ArrayFlags;
use super::life_flags::LifeFlags;
use super::node_flags::NodeFlags;
use super::software_flags::SoftwareFlags;
use super::values;
use crate::caller::Variable;

/// What a job needs and how it is to run.
#[derive(Debug, Clone, Default, PartialEq, Args)]
#[command(next_help_heading = "Job")]
pub struct JobFlags {
    /// GPUs: 2, a100:2, 'a100|h100:2', 40G..:2, 0.5
    #[arg(short, long, value_name = "GPUS", value_parser = values::gpus)]
    #[arg(allow_hyphen_values = true)]
    pub gpus: Option<String>,
    /// Of each GPU only that part, beside others: 0.5
    #[arg(long, value_name = "PART", value_parser = values::gpu_share)]
    #[arg(allow_hyphen_values = true)]
    pub gpu_share: Option<String>,
    /// Of each GPU only so much memory, beside others: 20G
    #[arg(long, visible_alias = "gpu-mem", alias = "max-gpu-mem", value_name = "SIZE")]
    #[arg(value_parser = values::gpu_memory, allow_hyphen_values = true)]
    pub gpu_memory: Option<String>,
    /// Beside others on its GPUs: what --gpu-memory and --gpu-share mean anyway
    #[arg(long)]
    pub shared: bool,
    /// Different nodes on which its tasks run, all at once (2), or so many and more while there is
    /// room (2-4); GPUs, cores, memory are of each task
    #[arg(short = 'N', long, value_name = "N[-MOST]", value_parser = values::nodes)]
    #[arg(allow_hyphen_values = true)]
    pub nodes: Option<String>,
    /// Tasks on each node
    #[arg(long, value_name = "N", value_parser = values::tasks_per_node)]
    pub tasks_per_node: Option<u32>,
    /// Tasks that run all at once, wherever there is room, on as few nodes as that allows (8), or
    /// so many and more while there is room (4-8); GPUs, cores, memory are of each task
    #[arg(long, value_name = "N[-MOST]", value_parser = values::tasks)]
    #[arg(allow_hyphen_values = true, conflicts_with_all = ["nodes", "tasks_per_node"])]
    pub tasks: Option<String>,
    /// Give its tasks the variables that torchrun reads in place of its options
    #[arg(long)]
    pub torchrun: bool,
    /// Run the command in the first task alone; srun in it starts N processes in all of them
    #[arg(long, value_name = "N", value_parser = values::tasks_per_node)]
    pub launcher: Option<u32>,
    /// CPU cores: 4, 0.5
    #[arg(short, long, value_name = "CORES", value_parser = values::cpus)]
    #[arg(allow_hyphen_values = true)]
    pub cpus: Option<String>,
    /// Memory: 20G (GiB), 512M
    #[arg(short, long, value_name = "SIZE", value_parser = values::memory)]
    #[arg(allow_hyphen_values = true)]
    pub mem: Option<String>,
    /// Time limit: 1h30m, 45s, HH:MM:SS; a bare number is minutes
    #[arg(short, long, value_name = "TIME", value_parser = values::time_limit)]
    #[arg(allow_hyphen_values = true)]
    pub time: Option<String>,
    /// What the job is called
    #[arg(short = 'J', long, value_name = "NAME", value_parser = values::name)]
    pub name: Option<String>,
    /// Who is charged
    #[arg(short, long, value_name = "PROJECT", value_parser = values::filled)]
    pub project: Option<String>,
    /// Only on nodes of that pool
    #[arg(long, value_name = "POOL", value_parser = values::filled)]
    pub pool: Option<String>,
    /// Which nodes it may use.
    #[command(flatten)]
    pub chosen: NodeFlags,
    /// Higher goes first, -1000 to 1000
    #[arg(long, visible_alias = "prio", value_name = "N", value_parser = values::priority)]
    #[arg(allow_hyphen_values = true)]
    pub priority: Option<i32>,
    /// Start after jobs: [ok:|fail:|end:|each:|start:]JOB,…
    #[arg(long, value_name = "JOBS")]
    pub after: Vec<String>,
    /// When it starts, and what follows its end.
    #[command(flatten)]
    pub life: LifeFlags,
    /// What makes it an array.
    #[command(flatten)]
    pub array: ArrayFlags,
    /// Folder in which it runs
    #[arg(long, value_name = "FOLDER", value_parser = values::filled)]
    pub cwd: Option<String>,
    /// Variable for the job; without a value, the caller's
    #[arg(short, long, value_name = "NAME[=VALUE]")]
    pub env: Vec<Variable>,
    /// Which software is active for it.
    #[command(flatten, next_help_heading = "Software")]
    pub software: SoftwareFlags,
    /// Pass only HOME, PATH, USER and LANG, and what -e says
    #[arg(long)]
    pub clean_env: bool,
    /// File to read as standard input
    #[arg(long, value_name = "FILE", value_parser = values::filled)]
    pub stdin: Option<String>,
    /// File for standard output
    #[arg(long, value_name = "FILE", value_parser = values::filled)]
    pub stdout: Option<String>,
    /// File for standard error
    #[arg(long, value_name = "FILE", value_parser = values::filled)]
    pub stderr: Option<String>,
    /// Tell a web or mail address: done,fail@https://host/path, fail@mailto:ana@example.org
    #[arg(long, value_name = "EVENTS@URL", value_parser = values::notify)]
    pub notify: Vec<String>,
    /// Keep it from starting until released
    #[arg(long)]
    pub hold: bool,
    /// Text to show beside it
    #[arg(long, value_name = "TEXT", value_parser = values::note)]
    pub note: Option<String>,
    /// Between TERM and KILL when it is ended
    #[arg(long, value_name = "TIME", value_parser = values::span_written)]
    #[arg(allow_hyphen_values = true)]
    pub grace: Option<String>,
    /// Queue it although no node could ever run it
    #[arg(long)]
    pub allow_unsatisfiable: bool,
    /// Give it the variables of slurm, gflow or valohai too
    #[arg(long, value_name = "WHICH", value_delimiter = ',', value_parser = values::compat)]
    pub compat: Vec<String>,
    /// Lower a priority above your right, and leave out a project, pool or label that there is not,
    /// with a warning
    #[arg(long)]
    pub lenient: bool,
    /// Refuse a script with flags that are ignored, contradict others or stand in a wrong place
    #[arg(long)]
    pub strict: bool,
    /// Fail instead of waiting for GPUs
    #[arg(long)]
    pub no_queue: bool,
}

impl JobFlags {
    /// Takes from `other` what is not said here.
    #[must_use]
    pub fn or(self, mut other: Self) -> Self {
        // Where its tasks go is said in one way or the other.
        if self.tasks.is_some() {
            (other.nodes, other.tasks_per_node) = (None, None);
        } else if self.nodes.is_some() || self.tasks_per_node.is_some() {
            other.tasks = None;
        }
        Self {
            gpus: self.gpus.or(other.gpus),
            gpu_share: self.gpu_share.or(other.gpu_share),
            gpu_memory: self.gpu_memory.or(other.gpu_memory),
            shared: self.shared || other.shared,
            nodes: self.nodes.or(other.nodes),
            tasks_per_node: self.tasks_per_node.or(other.tasks_per_node),
            tasks: self.tasks.or(other.tasks),
            torchrun: self.torchrun || other.torchrun,
            launcher: self.launcher.or(other.launcher),
            cpus: self.cpus.or(other.cpus),
            mem: self.mem.or(other.mem),
            time: self.time.or(other.time),
            name: self.name.or(other.name),
            project: self.project.or(other.project),
            pool: self.pool.or(other.pool),
            chosen: self.chosen.or(other.chosen),
            priority: self.priority.or(other.priority),
            after: joined(other.after, self.after),
            life: self.life.or(other.life),
            array: self.array.or(other.array),
            cwd: self.cwd.or(other.cwd),
            env: joined(other.env, self.env),
            software: self.software.or(other.software),
            clean_env: self.clean_env || other.clean_env,
            stdin: self.stdin.or(other.stdin),
            stdout: self.stdout.or(other.stdout),
            stderr: self.stderr.or(other.stderr),
            // Whom the command line names, it names instead: `none` could not be joined.
            notify: if self.notify.is_empty() { other.notify } else { self.notify },
            hold: self.hold || other.hold,
            note: self.note.or(other.note),
            grace: self.grace.or(other.grace),
            allow_unsatisfiable: self.allow_unsatisfiable || other.allow_unsatisfiable,
            compat: joined(other.compat, self.compat),
            lenient: self.lenient || other.lenient,
            strict: self.strict || other.strict,
            no_queue: self.no_queue || other.no_queue,
        }
    }
}

/// Joined so that what is said first comes last, where it wins.
pub(super) fn joined<T>(mut other: Vec<T>, mut own: Vec<T>) -> Vec<T> {
    other.append(&mut own);
    other
}
