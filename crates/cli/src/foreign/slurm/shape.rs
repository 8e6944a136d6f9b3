//! The size and layout of a Slurm job: nodes, processes, and the GPUs, cores and memory of each.
//! Slurm gives a job parts of nodes, in which `srun` starts processes; here each part is a task,
//! and the first task runs the script.

use super::flags::JOB;
use super::{node_constraints, values};
use crate::failure::Result;
use crate::foreign::flag::FlagSupport::Covered;
use crate::foreign::flag::Takes::Value;
use crate::foreign::flag::{Flag, PassedFlag, invalid, row};
use crate::foreign::translated::Translated;

/// Flags that request GPUs; the last one wins.
const GPUS: [&str; 4] = ["gpus", "gpus-per-node", "gpus-per-task", "gres"];
/// Flags for the nodes, the number of processes, and the resources of each.
const REST: [&str; 9] = [
    "nodes",
    "nodelist",
    "ntasks",
    "ntasks-per-node",
    "cpus-per-task",
    "cpus-per-gpu",
    "mem",
    "mem-per-cpu",
    "mem-per-gpu",
];
/// The variable that makes `srun` give each process its own GPUs.
pub const GPUS_PER_PROCESS: &str = "SRUN_GPUS_PER_TASK";

/// The variable with the number of parts of a heterogeneous job.
pub const SIZE: &str = "SLURM_HET_SIZE";
/// The number of equal parts, beside the flags of one of them. No command has this flag.
pub static PARTS: Flag = row("parts", '\0', Value, Covered, "equal parts");

/// The number of equal parts of a job.
fn copies(given: &[PassedFlag]) -> Option<(&PassedFlag, u64)> {
    let flag = given.iter().rev().find(|given| *given.flag == PARTS)?;
    Some((flag, flag.value.parse().ok()?))
}

/// Whether a flag is one of those that are translated together.
pub fn is_of_shape(given: &PassedFlag) -> bool {
    GPUS.contains(&given.flag.long)
        || REST.contains(&given.flag.long)
        || copies(std::slice::from_ref(given)).is_some()
}

/// The last occurrence of a flag.
fn last<'g>(given: &'g [PassedFlag], long: &str) -> Option<&'g PassedFlag> {
    given.iter().rev().find(|given| given.flag.long == long)
}

fn count_of<'g>(given: &'g [PassedFlag], long: &str) -> Result<Option<(&'g PassedFlag, u64)>> {
    last(given, long).map(|flag| Ok((flag, values::count(flag)?))).transpose()
}

/// The parts of nodes that a job gets, and its processes.
#[derive(Clone, Copy)]
struct JobLayout {
    n_parts: u64,
    /// Whether several parts may be on one node.
    anywhere: bool,
    /// Number of processes in all parts.
    processes: u64,
    /// Number of equal parts of a heterogeneous job. Flags hold for each of them.
    copies: u64,
}

impl JobLayout {
    /// Most processes in one part.
    fn each(self) -> u64 {
        self.processes.div_ceil(self.n_parts.max(1))
    }
}

/// The flags, with those that `--tres-per-task` stands for.
///
/// # Errors
/// A resource of it is not known.
pub fn with_tres(given: &[PassedFlag]) -> Result<Vec<PassedFlag>> {
    let mut all = Vec::with_capacity(given.len());
    for flag in given {
        all.push(flag.clone());
        if flag.flag.long != "tres-per-task" {
            continue;
        }
        for (long, value) in values::tres(flag)? {
            let named = JOB.iter().find(|row| row.long == long);
            all.extend(named.map(|row| PassedFlag { flag: row, value, place: flag.place.clone() }));
        }
    }
    Ok(all)
}

/// Translates the flags that depend on each other.
pub fn translate(given: &[PassedFlag], all: &mut Translated) -> Result<()> {
    let asked = asked_gpus(given, all)?;
    let shape = shape(given, asked.as_ref(), all)?;
    let n_gpus = gpus(asked, shape, all)?;
    let per_gpu = |given: &PassedFlag, n: u64| match n_gpus {
        Some(n_gpus) => Ok(n.saturating_mul(n_gpus)),
        None => Err(invalid(given, "is per GPU, and the job requests no GPU").tip("--gpus 1")),
    };
    let mut n_cores = shape.each();
    if let Some((flag, n)) = count_of(given, "cpus-per-gpu")? {
        n_cores = per_gpu(flag, n)?;
        all.flag("cpus", &n_cores.to_string(), flag);
    }
    if let Some((flag, n)) = count_of(given, "cpus-per-task")? {
        n_cores = n.saturating_mul(shape.each());
        all.flag("cpus", &n_cores.to_string(), flag);
    }
    if let Some(flag) = last(given, "mem-per-cpu") {
        memory(flag, values::mebibytes(flag)?.saturating_mul(n_cores), all);
    }
    if let Some(flag) = last(given, "mem-per-gpu") {
        let mebibytes = per_gpu(flag, values::mebibytes(flag)?)?;
        memory(flag, mebibytes, all);
        all.warnings.push(
            "--mem-per-gpu is host memory, as in Slurm; for GPU memory write --gpus 40G.."
                .to_owned(),
        );
    }
    if let Some(flag) = last(given, "mem") {
        // `--mem` is per node. Parts without fixed nodes could all be on one node.
        let parts = if shape.anywhere { shape.n_parts / shape.copies } else { 1 };
        memory(flag, values::mebibytes(flag)?.div_ceil(parts), all);
    }
    Ok(())
}

fn memory(flag: &PassedFlag, mebibytes: u64, all: &mut Translated) {
    if mebibytes == 0 {
        all.remarks.push(format!("{} 0 requests and limits no memory", flag.flag.spelling()));
    } else {
        all.flag("mem", &format!("{mebibytes}M"), flag);
    }
}

/// The layout of the processes, as `--nodes`, `--tasks` and `--launcher`.
fn shape(
    flags: &[PassedFlag],
    gpus: Option<&RequestedGpus<'_>>,
    all: &mut Translated,
) -> Result<JobLayout> {
    let nodes = match last(flags, "nodes") {
        Some(flag) => Some((flag, n_nodes(flag)?)),
        // A job gets every node that it names.
        None => match last(flags, "nodelist") {
            Some(flag) => Some((flag, node_constraints::n_named(flag)?)).filter(|(_, n)| *n > 1),
            None => None,
        },
    };
    let (per_node, total) = (count_of(flags, "ntasks-per-node")?, count_of(flags, "ntasks")?);
    let shape = match (nodes, per_node, total) {
        (None, None, Some((_, n))) if n > 1 && is_anywhere(gpus, n) => {
            JobLayout { n_parts: n, anywhere: true, processes: n, copies: 1 }
        }
        (None, None, total) => {
            let processes = total.map_or(1, |(_, n)| n);
            JobLayout { n_parts: 1, anywhere: false, processes, copies: 1 }
        }
        (None, Some((_, each)), total) => {
            let processes = total.map_or(each, |(_, n)| n);
            let n_parts = processes.div_ceil(each);
            JobLayout { n_parts, anywhere: false, processes, copies: 1 }
        }
        (Some((flag, n)), per_node, total) => {
            let most = per_node.map(|(_, each)| each.saturating_mul(n));
            let processes = total.map(|(_, n)| n).or(most).unwrap_or(n);
            if let (Some(most), Some((flag, _))) = (most.filter(|most| processes > *most), total) {
                let failure = invalid(flag, "is more than the nodes have together");
                return Err(failure.tip(format!("--ntasks {most}")));
            }
            if processes < n {
                let what = "each node needs at least one process";
                all.remarks
                    .push(format!("{} {n}: {processes} nodes, {what}", flag.flag.spelling()));
            }
            JobLayout { n_parts: n.min(processes), anywhere: false, processes, copies: 1 }
        }
    };
    let (shape, copied) = match copies(flags) {
        None => (shape, None),
        Some((flag, copies)) => {
            all.flag("env", &format!("{}={copies}", SIZE), flag);
            // Parts on one node each may share a node, as in Slurm.
            let anywhere = shape.anywhere || shape.n_parts == 1;
            let (n_parts, processes) = (shape.n_parts * copies, shape.processes * copies);
            (JobLayout { n_parts, anywhere, processes, copies }, Some(flag))
        }
    };
    let from = nodes.map(|(flag, _)| flag).or(per_node.or(total).map(|(flag, _)| flag));
    let from = from.or(copied);
    // Flags of the command line must override the script even with one node and one process.
    let is_over = flags.iter().any(|given| given.place.is_none())
        && flags.iter().any(|given| given.place.is_some());
    // A script that requests tasks, even one, reads their number from the environment.
    let has_tasks = per_node.is_some() || total.is_some();
    if let Some(flag) = from.filter(|_| shape.processes > 1 || has_tasks || is_over) {
        let parts = if shape.anywhere { "tasks" } else { "nodes" };
        if shape.n_parts > 1 || is_over {
            all.flag(parts, &shape.n_parts.to_string(), flag);
        }
        all.flag("launcher", &shape.processes.to_string(), flag);
    }
    Ok(shape)
}

/// Parses the number of nodes; a real range is refused.
fn n_nodes(flag: &PassedFlag) -> Result<u64> {
    let (least, most) = values::range(flag)?;
    if least != most {
        let failure = invalid(flag, "is a range of nodes");
        return Err(failure.tip(format!("--nodes {}", least.max(1))));
    }
    values::count(&PassedFlag { value: least.to_string(), ..flag.clone() })
}

/// Whether processes can be placed independently: then the GPUs of each must be known.
fn is_anywhere(gpus: Option<&RequestedGpus<'_>>, n_processes: u64) -> bool {
    match gpus {
        None => true,
        Some(asked) => match asked.flag.flag.long {
            "gpus-per-task" => true,
            "gpus" => asked.n.is_multiple_of(n_processes),
            // These flags are per node.
            _ => false,
        },
    }
}

struct RequestedGpus<'g> {
    text: String,
    n: u64,
    flag: &'g PassedFlag,
}

/// The last request for GPUs.
fn asked_gpus<'g>(
    flags: &'g [PassedFlag],
    all: &mut Translated,
) -> Result<Option<RequestedGpus<'g>>> {
    let mut request: Option<RequestedGpus<'_>> = None;
    for flag in flags.iter().filter(|given| GPUS.contains(&given.flag.long)) {
        let read = match flag.flag.long {
            "gres" => values::gres(flag, &mut all.ignored)?,
            _ => Some(values::gpus(flag)?),
        };
        let Some((text, n)) = read else { continue };
        if let Some(RequestedGpus { text: earlier, flag: by, .. }) = &request
            && *earlier != text
            && by.flag != flag.flag
            && by.place.is_some() == flag.place.is_some()
        {
            let (one, other) = (by.flag.spelling(), flag.flag.spelling());
            let what = format!("{one} requests {earlier} and {other} requests {text}");
            all.contradictions.push(format!("{what}: the later one counts"));
        }
        request = Some(RequestedGpus { text, n, flag });
    }
    Ok(request)
}

/// The number of GPUs of each part, if any.
fn gpus(
    request: Option<RequestedGpus<'_>>,
    shape: JobLayout,
    all: &mut Translated,
) -> Result<Option<u64>> {
    let Some(RequestedGpus { text, n, flag }) = request else { return Ok(None) };
    let of_process = flag.flag.long == "gpus-per-task";
    let n = match flag.flag.long {
        "gpus-per-task" => n.saturating_mul(shape.each()),
        "gpus" if !n.is_multiple_of(shape.n_parts / shape.copies) => {
            return Err(invalid(flag, "can't be distributed evenly over the nodes")
                .tip("--gpus-per-node 1, for each of them"));
        }
        "gpus" => n / (shape.n_parts / shape.copies),
        _ => n,
    };
    if of_process && n > 0 && shape.processes > 1 {
        let each = n / shape.each();
        all.flag("env", &format!("{GPUS_PER_PROCESS}={each}"), flag);
    }
    let text = match text.rsplit_once(':') {
        Some((model, _)) => format!("{model}:{n}"),
        None => n.to_string(),
    };
    all.flag("gpus", &text, flag);
    Ok((n > 0).then_some(n))
}
