//! Refusals of jobs that no node could ever run, or that name unknown nodes.

use std::collections::BTreeSet;

use gpool_model::enforcement::Enforcement;
use gpool_model::gpu::GpuRequest;
use gpool_model::refusal::LargestFit;
use gpool_model::resource::ResourceKind;
use gpool_model::unit::{Bytes, MilliCpu};
use gpool_model::{Gang, NodeFilter, NodeName, PoolName, Refusal};

use crate::kind::amount_words;
use crate::problem::Problem;
use crate::reason::{devices, gpus, models_words, request_words};
use crate::words::nearest;

pub(super) fn text(refusal: &Refusal) -> Option<Problem> {
    let problem = |what: String| Problem::new(refusal.code(), what);
    Some(match refusal {
        Refusal::NoGpus { asked, why } => problem(format!(
            "the job requests {}, and the cluster has no GPUs",
            request_words(asked)
        ))
        .because(why.clone())
        .try_this("gpool doctor   (finds the cause)")
        .try_this("leave --gpus out   (to run without a GPU)"),
        Refusal::ImpossibleGpus { asked, strongest: Some(strongest), .. } => {
            let what = request_words(asked);
            too_weak(problem(format!("no node could ever run this: {what}")), *strongest)
        }
        Refusal::ImpossibleGpus { asked, largest, nearest, models, n_kept_back, .. } => {
            let is_unknown = largest.is_none() && *n_kept_back == 0 && !asked.models.is_empty();
            let what = match is_unknown {
                true => no_such_model(asked),
                false => {
                    format!("no node could ever run this: {} on one node", request_words(asked))
                }
            };
            let problem = kept_back(problem(what), *n_kept_back);
            impossible_gpus(problem, asked, largest.as_ref(), nearest.as_ref(), models)
        }
        Refusal::ImpossibleResource { kind, asked, largest, node, .. } => {
            let asked = amount_words(kind, *asked);
            let what = format!("no node could ever run this: {asked} on one node");
            impossible_resource(problem(what), kind, *largest, node.as_ref())
        }
        Refusal::TooFewNodes { asked, gang, able, largest } => {
            let what = match gang.anywhere {
                true => "the cluster could never run this",
                false => "too few nodes could ever run this",
            };
            let problem = problem(format!("{what}: {}", gang_words(asked, *gang)));
            too_few_nodes(problem, asked, *gang, *able, *largest)
        }
        Refusal::NoEngine => no_engine(problem("no node runs containers".to_owned())),
        Refusal::NoSuchPool { name, pools } => {
            let what = format!("there is no pool {:?}", name.as_str());
            no_such_pool(problem(what), name, pools)
        }
        Refusal::InPool { pool, refusal } => Problem::from(&**refusal)
            .because(format!("--pool {pool} allows only the nodes of that pool")),
        Refusal::NoSuchNodes { nodes, unknown, there } => {
            let what = match unknown.as_slice() {
                [] => format!("no node matches the request: {nodes}"),
                [name] => format!("there is no node {:?}", name.as_str()),
                names => format!("there are no nodes {}", node_words(names)),
            };
            no_such_nodes(problem(what), nodes, unknown, there)
        }
        Refusal::OnNodes { nodes, refusal } => Problem::from(&**refusal)
            .because(format!("the request allows only some nodes: {nodes}")),
        Refusal::NoSuchNode { name } => {
            problem(format!("there is no node {:?}", name.as_str())).try_this("gpool status")
        }
        Refusal::NoSuchDevice { device, node, n_devices } => {
            let problem = problem(format!("{node} has no GPU {device:?}"));
            match n_devices {
                0 => problem.because(format!("{node} has no GPUs")),
                n => problem
                    .because(format!("{node} has {n}: 0 to {}", n - 1))
                    .try_this("gpool gpus"),
            }
        }
        _ => return of_parts(refusal),
    })
}

/// Refusals of jobs with parts.
fn of_parts(refusal: &Refusal) -> Option<Problem> {
    Some(match refusal {
        Refusal::OfPart(part, refusal) => {
            let mut problem = Problem::from(&**refusal);
            // Each part says its GPUs, cores and memory itself.
            let of_job = ["--gpus", "--cpus", "--mem", "--nodes", "--tasks"];
            problem.tries.retain(|text| !of_job.iter().any(|flag| text.starts_with(flag)));
            Problem { detail: format!("part {part}: {}", problem.detail), ..problem }
        }
        Refusal::PartsTogether { n_requested, n_devices } => {
            let what = "the cluster could never run all parts of this job at once";
            Problem::new(refusal.code(), what.to_owned())
                .because(format!(
                    "they need {n_requested} GPUs together, and {n_devices} GPUs match their requests"
                ))
                .try_this("gpool gpus")
        }
        _ => return None,
    })
}

fn no_engine(problem: Problem) -> Problem {
    problem
        .because("no node that the job may use has podman, docker, apptainer or enroot")
        .try_this("gpool doctor   (what each node was found to have)")
}

fn too_few_nodes(
    problem: Problem,
    requested: &GpuRequest,
    gang: Gang,
    able: u32,
    largest: Option<u32>,
) -> Problem {
    if gang.anywhere {
        let could = if able == 1 { "task could" } else { "tasks could" };
        let problem = problem.because(format!("at most {able} {could} run at once"));
        let problem = match able {
            0 => problem,
            _ => problem.try_this(format!("--tasks {able} --gpus '{requested}'")),
        };
        return match largest.map(|largest| requested.of_count(largest)) {
            None => problem,
            Some(less) => problem.try_this(format!("--tasks {} --gpus '{less}'", gang.nodes)),
        };
    }
    let could = if able == 1 { "node could" } else { "nodes could" };
    let problem = problem.because(format!("{able} {could} run one part of it"));
    let problem = match (able, gang.tasks_per_node) {
        (0, _) => problem,
        (_, 1) => problem.try_this(format!("--nodes {able} --gpus '{requested}'")),
        (_, n) => {
            problem.try_this(format!("--nodes {able} --tasks-per-node {n} --gpus '{requested}'"))
        }
    };
    match largest {
        None => problem,
        Some(largest) => {
            let less = requested.of_count(largest);
            problem.try_this(format!("--nodes {} --gpus '{less}'", gang.nodes))
        }
    }
}

/// Describes the request of a job with several tasks.
fn gang_words(asked: &GpuRequest, gang: Gang) -> String {
    let each = match asked.is_none() {
        true => String::new(),
        false => format!(" with {}", request_words(asked)),
    };
    match gang.tasks_per_node {
        _ if gang.anywhere => format!("{} tasks{each}", gang.nodes),
        1 => format!("{} nodes{each}", gang.nodes),
        n => format!("{n} tasks on each of {} nodes, each task{each}", gang.nodes),
    }
}

fn no_such_pool(problem: Problem, name: &PoolName, pools: &[PoolName]) -> Problem {
    let names: Vec<&str> = pools.iter().map(PoolName::as_str).collect();
    let problem = problem.because(format!("the pools are: {}", names.join(", ")));
    match nearest(name.as_str(), names.iter().copied()).or(names.first().copied()) {
        Some(near) => problem.try_this(format!("--pool {near}")),
        None => problem.try_this("gpool nodes"),
    }
}

fn no_such_nodes(
    problem: Problem,
    nodes: &NodeFilter,
    unknown: &[NodeName],
    there: &[(NodeName, Vec<String>)],
) -> Problem {
    let names: Vec<NodeName> = there.iter().map(|(name, _)| name.clone()).collect();
    let problem = problem.because(format!("the nodes are: {}", node_words(&names)));
    if unknown.is_empty() && (!nodes.rules.is_empty() || nodes.topology.is_some()) {
        let labels: BTreeSet<&str> =
            there.iter().flat_map(|(_, labels)| labels).map(String::as_str).collect();
        let labels: Vec<&str> = labels.into_iter().collect();
        let problem = problem.because(match labels.is_empty() {
            true => "no node has a label".to_owned(),
            false => format!("their labels are: {}", labels.join(", ")),
        });
        let problem = problem.try_this("gpool nodes -o wide   (shows the labels of each node)");
        return match &nodes.topology {
            Some(topology) => {
                problem.try_this(format!("gpool nodes label NODE {}=1", topology.name))
            }
            None => problem,
        };
    }
    let near =
        unknown.first().and_then(|name| nearest(name.as_str(), names.iter().map(NodeName::as_str)));
    match near {
        Some(near) => problem.try_this(format!("--node {near}")),
        None => problem.try_this("gpool nodes"),
    }
}

fn node_words(names: &[NodeName]) -> String {
    match names {
        [] => "none".to_owned(),
        names => names.iter().map(NodeName::as_str).collect::<Vec<_>>().join(", "),
    }
}

/// Adds the best enforcement of devices that would do otherwise.
fn too_weak(problem: Problem, strongest: Enforcement) -> Problem {
    let best = strongest.as_str();
    problem
        .because(format!("the best enforcement for such a request is {best:?}"))
        .try_this(format!("--enforce {best}"))
        .try_this("gpool doctor   (shows why a mechanism does not work)")
        .try_this("--allow-unsatisfiable   (queues it until such a node exists)")
}

/// Adds a fact about devices that exist but take no new jobs.
fn kept_back(problem: Problem, n_devices: u32) -> Problem {
    if n_devices == 0 {
        return problem;
    }
    let are = if n_devices == 1 { "such GPU is" } else { "such GPUs are" };
    problem
        .because(format!("{n_devices} {are} closed for new jobs by an admin"))
        .try_this("gpool gpus allow all   (as an admin)")
}

/// Returns the title for a request of GPU models or MIG profiles that no node has.
fn no_such_model(asked: &GpuRequest) -> String {
    let names: Vec<String> = asked.models.iter().map(|it| format!("{:?}", it.as_str())).collect();
    match (asked.is_of_instances(), names.as_slice()) {
        (false, [name]) => format!("there is no GPU model {name}"),
        (false, names) => format!("there are no GPU models {}", names.join(" or ")),
        (true, names) => format!("no GPU has MIG instances {}", names.join(" or ")),
    }
}

fn impossible_gpus(
    mut problem: Problem,
    requested: &GpuRequest,
    largest: Option<&LargestFit>,
    nearest: Option<&GpuRequest>,
    models: &[(String, u32)],
) -> Problem {
    match largest {
        Some(largest) => {
            problem = problem.because(largest_words(requested, largest));
            let fits =
                GpuRequest { amount: requested.amount.of(largest.n_devices), ..requested.clone() };
            if largest.n_devices > 0 {
                problem = problem.try_this(format!("--gpus {}", quoted(&fits)));
            }
        }
        None if models.is_empty() => problem = problem.because("no node has a GPU"),
        None => {
            let known: Vec<String> =
                models.iter().map(|(model, most)| format!("{model} (up to {most})")).collect();
            problem = problem.because(format!("the nodes have {}", known.join(", ")));
        }
    }
    if let Some(nearest) = nearest {
        let of_any = if nearest.models.is_empty() { "   (of any model)" } else { "" };
        problem = problem.try_this(format!("--gpus {}{of_any}", quoted(nearest)));
    }
    if largest.is_none()
        && let Some((model, most)) = models.first()
    {
        let (model, n) = (model.to_ascii_lowercase(), requested.n_devices().min(*most));
        problem = problem.try_this(format!("--gpus {model}:{n}   (of this model)"));
    }
    problem.try_this("--allow-unsatisfiable   (queues it until such a node exists)")
}

/// Formats a GPU request for a shell, quoted where needed.
fn quoted(request: &GpuRequest) -> String {
    let written = request.to_string();
    let is_plain =
        |c: char| c.is_ascii_alphanumeric() || matches!(c, ':' | '.' | ',' | '-' | '_' | '@');
    if written.chars().all(is_plain) { written } else { format!("'{written}'") }
}

fn largest_words(asked: &GpuRequest, largest: &LargestFit) -> String {
    let LargestFit { n_devices, node, n_in_cluster } = largest;
    let kind = match (asked.memory_needed(), asked.models.is_empty()) {
        (Some(least), _) => format!("{} of at least {least}", gpus(*n_in_cluster)),
        (None, true) => gpus(*n_in_cluster).to_owned(),
        (None, false) => {
            let what = devices(*n_in_cluster, asked.is_of_instances());
            format!("{} {what}", models_words(asked))
        }
    };
    format!(
        "no node has more than {n_devices} ({node}); the cluster has {n_in_cluster} {kind} in total"
    )
}

fn impossible_resource(
    problem: Problem,
    kind: &ResourceKind,
    largest: u64,
    node: Option<&NodeName>,
) -> Problem {
    let problem = match node {
        Some(node) => problem
            .because(format!("the largest node, {node}, has {}", amount_words(kind, largest))),
        None => problem.because("no node has any"),
    };
    let problem = match kind {
        ResourceKind::Cpu if largest > 0 => {
            problem.try_this(format!("--cpus {}", MilliCpu::new(largest)))
        }
        ResourceKind::Memory if largest > 0 => {
            problem.try_this(format!("--mem {}", mem_flag(largest)))
        }
        _ => problem,
    };
    problem.try_this("--allow-unsatisfiable   (queues it until such a node exists)")
}

/// Formats bytes for `--mem`, rounded down.
fn mem_flag(bytes: u64) -> String {
    match Bytes::new(bytes).div_floor(1 << 30).get() {
        0 => format!("{}M", Bytes::new(bytes).div_floor(1 << 20).get()),
        gib => format!("{gib}G"),
    }
}
