//! Job steps: the processes that `srun` starts in the tasks of a job.

#![forbid(unsafe_code)]

mod alone;
mod bridge;
mod gpus;
pub mod host;
mod options;
mod output;
mod plan;
pub mod pmi;
mod programs;
mod record;
pub mod remote;
pub mod rsh;
mod start;
mod turns;
pub mod watch;
mod wire;

use std::os::fd::AsFd as _;
use std::path::PathBuf;
use std::process::Command;
use std::sync::mpsc::channel;

use base64::prelude::{BASE64_STANDARD, Engine as _};
use gpool_cli::errors;
use gpool_cli::failure::{Failure, Result};
use gpool_cli::foreign::flag::ParsedArgs;
use gpool_cli::session::Session;
use gpool_wire::catalogue;

use options::StepOptions;
use output::Outputs;
pub use plan::{Host, LayoutRequest, Plan, StepProcess, plan};
pub use programs::Programs;
use record::{Started, variable};
use start::SrunLocation;
pub use turns::Turn;
use watch::{Happening, RunningStep};
use wire::{Start, StartProcess};

/// The variable with the job for the command of `salloc`.
pub const ALLOCATION: &str = "GPOOL_ALLOCATION";
/// The variable with the folder of the steps for the command of `salloc`.
pub const STEPS: &str = "GPOOL_STEPS";

/// The variable that tells a part of a step its number and the number of parts: `0/2`.
pub const PART: &str = "SRUN_PART";

/// The job in which `srun` starts processes.
pub struct StepJob {
    place: SrunLocation,
    hosts: Vec<Host>,
    /// The folder with the locks of its steps.
    folder: Option<PathBuf>,
    /// Its user, if that is not the caller.
    other: Option<String>,
}

impl StepJob {
    /// The job of this process, or the allocation of the surrounding `salloc`.
    #[must_use]
    pub fn here() -> Option<Self> {
        let allocation = variable(ALLOCATION);
        let rank = match allocation {
            Some(_) => None,
            None => Some(variable("GPOOL_RANK").and_then(|rank| rank.parse().ok()).unwrap_or(0)),
        };
        let job = allocation.or_else(|| variable("GPOOL_JOB_ID"))?;
        let folder = variable(STEPS).or_else(|| variable("GPOOL_DIR")).map(PathBuf::from);
        let launcher = variable("GPOOL_LAUNCHER").and_then(|n| n.parse().ok());
        let hosts = match (launcher, variable("GPOOL_TASK_NODES")) {
            (Some(launcher), Some(nodes)) => hosts(nodes.split(','), launcher),
            // Every task runs its own `srun`, which acts only on that task.
            _ => {
                let node = variable("GPOOL_NODE").unwrap_or_else(|| "localhost".to_owned());
                vec![Host { rank: rank.unwrap_or(0), node, usual: 1 }]
            }
        };
        Some(Self { place: SrunLocation { job, rank }, hosts, folder, other: None })
    }

    /// A running job by its id.
    pub fn of(id: &str, session: &Session) -> Result<Self> {
        let id = id.replace('_', ".");
        let job = session.client()?.job(&id)?;
        let place = SrunLocation { job: job.id.clone(), rank: None };
        let tasks = job.gang.iter().flat_map(|gang| &gang.tasks);
        let mut hosts: Vec<Host> =
            tasks.map(|task| Host { rank: task.rank, node: task.node.clone(), usual: 1 }).collect();
        if hosts.is_empty() {
            let node = job.placement.first().map(|place| place.node.clone()).unwrap_or_default();
            hosts.push(Host { rank: 0, node, usual: 1 });
        }
        let other = Some(job.user).filter(|user| user != session.me());
        Ok(Self { place, hosts, folder: None, other })
    }

    #[must_use]
    pub fn id(&self) -> &str {
        &self.place.job
    }

    /// The rank of its first task on a node.
    #[must_use]
    pub fn rank_on(&self, node: &str) -> Option<u32> {
        self.hosts.iter().find(|host| host.node == node).map(|host| host.rank)
    }

    /// Its nodes, for people.
    #[must_use]
    pub fn nodes(&self) -> String {
        plan::nodes(&self.hosts).join(", ")
    }

    /// The nodes of each part of a job with several equal parts.
    #[must_use]
    pub fn nodes_of_parts(&self, n_parts: usize) -> Vec<Vec<&str>> {
        let of = |part| plan::of_part(&self.hosts, (part, n_parts));
        (0..n_parts).map(|part| plan::nodes(of(part))).collect()
    }
}

/// The tasks of a job, with the default number of processes in each.
fn hosts<'n>(nodes: impl Iterator<Item = &'n str>, launcher: u32) -> Vec<Host> {
    let nodes: Vec<&str> = nodes.collect();
    let n_tasks = u32::try_from(nodes.len()).unwrap_or(u32::MAX).max(1);
    let usual = |rank: u32| launcher / n_tasks + u32::from(rank < launcher % n_tasks);
    let host = |(rank, node): (u32, &str)| Host { rank, node: node.to_owned(), usual: usual(rank) };
    (0..).zip(nodes).map(host).collect()
}

/// Runs a command as a step of a job.
///
/// # Errors
/// The step does not fit into the job, or its processes can't be started.
pub fn run(job: &StepJob, said: &ParsedArgs, session: &Session) -> Result {
    let mut options = StepOptions::read(said)?;
    let part = variable(PART).and_then(|text| {
        let (part, n_parts) = text.split_once('/')?;
        Some((part.parse().ok()?, n_parts.parse().ok()?))
    });
    let hosts = part.map_or(&job.hosts[..], |part| plan::of_part(&job.hosts, part));
    let mut turn = Turn::take(hosts, job.folder.as_deref(), options.overlap || options.pty);
    let plan = plan(hosts, &turn.order, &options.layout)?;
    turn.keep(&plan);
    options.output.step = turn.step;
    let programs = programs(said)?;
    let started = || {
        let program = said.words.first().map_or("", String::as_str);
        Started::now(turn.step, said.value("job-name"), program, &plan)
    };
    let host = &plan.hosts[0];
    let is_alone = plan.processes.len() == 1;
    if options.pty && Some(host.rank) != job.place.rank {
        let rank = host.rank.to_string();
        let words = ["exec", "--pty", "--rank", &rank, &job.place.job, "--"].map(str::to_owned);
        let line: Vec<String> = words.into_iter().chain(said.words.iter().cloned()).collect();
        return session.verb(&line);
    }
    if let Some(other) = &job.other {
        // The processes would run as that user, with the files and the environment of `srun`.
        let what = format!("srun: job {} belongs to user {other}", job.place.job);
        return Err(Failure::new(catalogue::NOT_PERMITTED, what)
            .why("that user could use your terminal and your environment")
            .tip(format!("gpool exec {} -- COMMAND", job.place.job)));
    }
    if is_alone && Some(host.rank) == job.place.rank && options.is_plain() {
        let words = programs.of(0)?;
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).envs(of_process(&plan, 0, &options, None));
        command.current_dir(&options.directory);
        return alone::run(command, &turn, started(), session);
    }
    start_all(job, &plan, &options, &programs, started(), session)
}

/// The programs of a step: the words of the command line, or of the file that they name.
fn programs(args: &ParsedArgs) -> Result<Programs> {
    if !args.has("multi-prog") {
        return Ok(Programs::One(args.words.clone()));
    }
    let (path, more) = args.words.split_first().ok_or_else(|| {
        Failure::new(errors::USAGE, "srun: the file is missing").tip("srun -n4 --multi-prog FILE")
    })?;
    let text = std::fs::read_to_string(path).map_err(|error| {
        Failure::new(errors::USAGE, format!("srun: can't read {path}: {error}"))
    })?;
    Programs::read(path, &text, more)
}

fn start_all(
    job: &StepJob,
    plan: &Plan,
    options: &StepOptions,
    programs: &Programs,
    started: Started,
    session: &Session,
) -> Result {
    let commands: Vec<Vec<String>> =
        (0..plan.processes.len()).map(|rank| programs.of(rank)).collect::<Result<_>>()?;
    let (tell, happenings) = channel::<Happening>();
    // Before other threads start, since they inherit the signal mask.
    watch::catch_signals(tell.clone())?;
    let lines = start::start(&job.place, &plan.hosts, session, &tell)?;
    let hosts = match watch::gather(plan, &happenings)? {
        Ok(hosts) => hosts,
        Err(exit) => return Ok(exit),
    };
    lines.close();
    let (streams, gpus): (Vec<_>, Vec<_>) = hosts.into_iter().unzip();
    let folder = job.folder.as_deref().filter(|_| !options.overlap);
    let given = gpus::give(plan, &gpus, options.gpus, folder, session)?;
    let mut outputs = Outputs::default();
    for (at, stream) in streams.iter().enumerate() {
        let here = |rank: &usize| plan.processes[*rank].host == at;
        let ranks: Vec<usize> = (0..plan.processes.len()).filter(here).collect();
        let processes = ranks.iter().map(|rank| {
            let own = given.of_process[*rank].as_deref();
            StartProcess {
                rank: u32::try_from(*rank).unwrap_or(u32::MAX),
                command: commands[*rank].clone(),
                variables: of_process(plan, *rank, options, own),
            }
        });
        let start = Start {
            n_processes: u32::try_from(plan.processes.len()).unwrap_or(u32::MAX),
            has_pmi: options.has_pmi,
            directory: options.directory.clone(),
            environment: BASE64_STANDARD.encode(options.environment()),
            processes: processes.collect(),
        };
        let lost = |error: std::io::Error| {
            let node = &plan.hosts[at].node;
            Failure::new(
                errors::CONNECTION_LOST,
                format!("srun: lost the connection to {node}: {error}"),
            )
        };
        wire::send(stream, &start).map_err(lost)?;
        for rank in ranks {
            let three = outputs.three(&options.output, plan, rank)?;
            wire::send_three(stream, three.each_ref().map(|fd| fd.as_fd())).map_err(lost)?;
        }
    }
    let mut step = RunningStep::new(plan, session, options.limits, streams, &tell);
    let (code, usage) = step.stay(&happenings)?;
    outputs.finish();
    drop(given);
    let line = started.line(code, usage);
    match job.place.rank {
        Some(_) => record::write(&line, session),
        None => step.record(line, &happenings),
    }
    Ok(watch::exit(code))
}

/// The variables that describe the step to a process.
///
/// Source: the manual of srun, "OUTPUT ENVIRONMENT VARIABLES".
fn of_process(
    plan: &Plan,
    rank: usize,
    options: &StepOptions,
    gpus: Option<&[String]>,
) -> Vec<(String, String)> {
    let process = &plan.processes[rank];
    let nodes = plan.nodes();
    let node = plan.hosts[process.host].node.as_str();
    let node_rank = nodes.iter().position(|other| *other == node).unwrap_or(0);
    let n_tasks = plan.processes.len().to_string();
    let by_node = by_node(&plan.by_node());
    let on_node: Vec<String> = plan.on_node(node).map(|rank| rank.to_string()).collect();
    let step = options.output.step.to_string();
    let mut all = vec![
        ("SLURM_PROCID", rank.to_string()),
        ("SLURM_LOCALID", process.local.to_string()),
        ("SLURM_NODEID", node_rank.to_string()),
        ("SLURMD_NODENAME", node.to_owned()),
        ("SLURM_NTASKS", n_tasks.clone()),
        ("SLURM_NPROCS", n_tasks.clone()),
        ("SLURM_NNODES", nodes.len().to_string()),
        ("SLURM_NODELIST", nodes.join(",")),
        ("SLURM_TASKS_PER_NODE", by_node.clone()),
        ("SLURM_GTIDS", on_node.join(",")),
        ("SLURM_STEP_ID", step.clone()),
        ("SLURM_STEPID", step),
        ("SLURM_STEP_NUM_TASKS", n_tasks),
        ("SLURM_STEP_NUM_NODES", nodes.len().to_string()),
        ("SLURM_STEP_NODELIST", nodes.join(",")),
        ("SLURM_STEP_TASKS_PER_NODE", by_node),
    ];
    if let Some(n) = options.layout.per_node {
        all.push(("SLURM_NTASKS_PER_NODE", n.to_string()));
    }
    if let Some(n) = options.cpus {
        all.push(("SLURM_CPUS_PER_TASK", n.to_string()));
    }
    if let gpus::GpuRequest::PerProcess(n) = options.gpus {
        all.push(("SLURM_GPUS_PER_TASK", n.to_string()));
    }
    if let Some(gpus) = gpus {
        let visible = gpus.join(",");
        let by_nvidia = if gpus.is_empty() { "void".to_owned() } else { visible.clone() };
        all.push(("CUDA_VISIBLE_DEVICES", visible));
        all.push(("NVIDIA_VISIBLE_DEVICES", by_nvidia));
        all.push(("SLURM_GPUS_ON_NODE", gpus.len().to_string()));
    }
    all.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// Numbers per node in Slurm's form: `8(x2),7`.
fn by_node(numbers: &[u32]) -> String {
    let alike = numbers.chunk_by(|one, next| one == next).map(|alike| match alike.len() {
        1 => alike[0].to_string(),
        n_nodes => format!("{}(x{n_nodes})", alike[0]),
    });
    alike.collect::<Vec<_>>().join(",")
}
