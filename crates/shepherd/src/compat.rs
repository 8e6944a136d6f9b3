//! The environment variables of other schedulers, for scripts written for them. They repeat gpool's
//! own variables under the other scheduler's names. Pure.

use gpool_model::Compat;
use gpool_model::agent::TaskOrder;

use crate::rendezvous::TaskPosition;

type Variable = (&'static str, Vec<u8>);

/// Returns the variables of another scheduler for a task.
pub fn variables(of: Compat, order: &TaskOrder) -> Vec<Variable> {
    match of {
        Compat::Slurm => slurm(order),
        Compat::Gflow => gflow(order),
        Compat::Valohai => valohai(order),
    }
}

/// Whether a variable describes the job that has it. `VH_GPUS` is not one of them: it may be a
/// request.
pub(crate) fn is_of_job(name: &[u8]) -> bool {
    name == b"GFLOW_ARRAY_TASK_ID"
        || name == b"GFLOW_JOB_ID"
        || name == b"SLURMD_NODENAME"
        || (name.starts_with(b"SLURM_") && name != b"SLURM_CONF")
}

/// An array element has its own job number, as in Slurm: scripts calculate with it and name folders
/// by it. The Slurm commands accept it as the element.
fn slurm(order: &TaskOrder) -> Vec<Variable> {
    let (spec, allocation) = (&order.spec, &order.allocation);
    let own = allocation.task.job;
    let id = own.plain().to_string();
    let node = allocation.node.as_str();
    let place = TaskPosition::of(order);
    let processes = processes_by_node(order, &place);
    let n_nodes = place.nodes.len().to_string();
    let n_tasks = processes.iter().sum::<u32>().to_string();
    let nodes = place.nodes.join(",");
    let restarts = allocation.task.attempt.0.saturating_sub(1).to_string();
    let indexes: Vec<String> = allocation.slots.iter().map(|slot| slot.index.to_string()).collect();
    let mut all: Vec<Variable> = vec![
        ("SLURM_JOB_ID", id.clone().into()),
        ("SLURM_JOBID", id.into()),
        ("SLURM_JOB_NAME", spec.name.as_bytes().to_vec()),
        ("SLURM_JOB_USER", spec.owner.user.as_bytes().to_vec()),
        ("SLURM_JOB_UID", spec.owner.uid.to_string().into()),
        ("SLURM_JOB_ACCOUNT", spec.project.as_str().into()),
        ("SLURM_JOB_NODELIST", nodes.clone().into()),
        ("SLURM_NODELIST", nodes.into()),
        ("SLURMD_NODENAME", node.into()),
        ("SLURM_JOB_NUM_NODES", n_nodes.clone().into()),
        ("SLURM_NNODES", n_nodes.into()),
        ("SLURM_TASKS_PER_NODE", by_node(&processes).into()),
        ("SLURM_NODEID", place.node_rank.to_string().into()),
        ("SLURM_PROCID", allocation.task.rank.to_string().into()),
        ("SLURM_LOCALID", place.local_rank.to_string().into()),
        ("SLURM_GPUS_ON_NODE", indexes.len().to_string().into()),
        ("SLURM_RESTART_COUNT", restarts.into()),
        ("SLURM_SUBMIT_DIR", spec.directory.clone().into()),
        ("SLURM_SUBMIT_HOST", node.into()),
        ("SLURM_CLUSTER_NAME", "gpool".into()),
        ("SLURM_JOB_PARTITION", order.pool.as_str().into()),
        ("SLURM_LAUNCH_NODE_IPADDR", launch_address(order).into()),
        ("SLURM_GTIDS", allocation.task.rank.to_string().into()),
        ("SLURM_PRIO_PROCESS", "0".into()),
        ("SLURM_TOPOLOGY_ADDR", node.into()),
        ("SLURM_TOPOLOGY_ADDR_PATTERN", "node".into()),
    ];
    // Slurm sets neither variable for jobs that do not ask for tasks, and frameworks take them as a
    // sign that `srun` has started them. Source: the manual of sbatch, "OUTPUT ENVIRONMENT
    // VARIABLES".
    if spec.gang.has_launcher() || place.n_tasks > 1 {
        all.push(("SLURM_NTASKS", n_tasks.clone().into()));
        all.push(("SLURM_NPROCS", n_tasks.into()));
    }
    if spec.gang.has_launcher() && processes.iter().all(|n| *n == processes[0]) {
        all.push(("SLURM_NTASKS_PER_NODE", processes[0].to_string().into()));
    }
    all.extend(room(order, &place, &indexes));
    all.extend(array(order));
    all
}

/// The GPUs, cores and memory that a task has on its node.
fn room(order: &TaskOrder, place: &TaskPosition<'_>, indexes: &[String]) -> Vec<Variable> {
    let spec = &order.spec;
    let mut all = Vec::<Variable>::new();
    if !indexes.is_empty() {
        all.push(("SLURM_JOB_GPUS", indexes.join(",").into()));
        all.push(("SLURM_GPUS", (indexes.len() * place.n_tasks).to_string().into()));
        let on_node = place.tasks_by_node.get(place.node_rank).copied().unwrap_or(1);
        all.push(("SLURM_GPUS_PER_NODE", (indexes.len() * on_node).to_string().into()));
    }
    if let Some(cpus) = spec.cpus {
        let of_task = cpus.get().div_ceil(1000).max(1);
        let by_rank = place.tasks_by_node.iter().map(|n| u64::try_from(*n).unwrap_or(u64::MAX));
        let cores: Vec<u64> = by_rank.map(|n| of_task.saturating_mul(n)).collect();
        let own = cores.get(place.node_rank).copied().unwrap_or(of_task);
        let each = of_task / u64::from(spec.gang.processes_of(0).max(1));
        all.push(("SLURM_CPUS_PER_TASK", each.max(1).to_string().into()));
        all.push(("SLURM_CPUS_ON_NODE", own.to_string().into()));
        all.push(("SLURM_JOB_CPUS_PER_NODE", by_node(&cores).into()));
    }
    if let Some(memory) = spec.memory {
        // In MiB, as in Slurm.
        all.push(("SLURM_MEM_PER_NODE", (memory.get() >> 20).to_string().into()));
    }
    all
}

/// The array and the element that a task belongs to.
fn array(order: &TaskOrder) -> Vec<Variable> {
    let (spec, own) = (&order.spec, order.allocation.task.job);
    let mut all = Vec::<Variable>::new();
    if let Some(array) = &spec.array {
        for (name, value) in [
            ("SLURM_ARRAY_TASK_COUNT", array.indexes.len()),
            ("SLURM_ARRAY_TASK_MIN", array.indexes.first()),
            ("SLURM_ARRAY_TASK_MAX", array.indexes.last()),
            ("SLURM_ARRAY_TASK_STEP", array.indexes.step()),
        ] {
            all.push((name, value.to_string().into()));
        }
    }
    if let Some(element) = own.element {
        all.push(("SLURM_ARRAY_JOB_ID", own.number.to_string().into()));
        all.push(("SLURM_ARRAY_TASK_ID", element.to_string().into()));
    }
    all
}

/// The number of processes on each node: one for each task, or those that a launcher starts.
fn processes_by_node(order: &TaskOrder, place: &TaskPosition<'_>) -> Vec<u32> {
    let mut ranks = 0..;
    let of_node = |n: &usize| {
        ranks.by_ref().take(*n).map(|rank| order.spec.gang.processes_of(rank)).sum::<u32>()
    };
    place.tasks_by_node.iter().map(of_node).collect()
}

/// Counts by node as Slurm writes them: `8(x2),7`.
fn by_node<N: PartialEq + std::fmt::Display>(numbers: &[N]) -> String {
    let alike = numbers.chunk_by(|one, next| one == next).map(|alike| match alike.len() {
        1 => alike[0].to_string(),
        n_nodes => format!("{}(x{n_nodes})", alike[0]),
    });
    alike.collect::<Vec<_>>().join(",")
}

/// The address of the node that the script runs on.
fn launch_address(order: &TaskOrder) -> &str {
    if order.master_addr.is_empty() { "127.0.0.1" } else { &order.master_addr }
}

/// Replaces `$GFLOW_ARRAY_TASK_ID` and `${GFLOW_ARRAY_TASK_ID}` in an argument. gflow's jobs are
/// lines of a shell, which expands them.
pub fn with_task_id(word: &str, order: &TaskOrder) -> String {
    const NAME: &str = "GFLOW_ARRAY_TASK_ID";
    let element = order.task().job.element.unwrap_or(0).to_string();
    let mut filled = String::new();
    let mut rest = word;
    while let Some((before, after)) = rest.split_once('$') {
        filled.push_str(before);
        let braced =
            after.strip_prefix('{').and_then(|it| it.strip_prefix(NAME)?.strip_prefix('}'));
        let goes_on = |it: &&str| it.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_');
        let plain = after.strip_prefix(NAME).filter(|it| !goes_on(it));
        match braced.or(plain) {
            Some(after) => {
                filled.push_str(&element);
                rest = after;
            }
            None => {
                filled.push('$');
                rest = after;
            }
        }
    }
    filled + rest
}

/// gflow sets the variable to 0 for jobs that are no array.
fn gflow(order: &TaskOrder) -> Vec<Variable> {
    let element = order.task().job.element.unwrap_or(0);
    let id = order.task().job.plain().to_string();
    vec![("GFLOW_ARRAY_TASK_ID", element.to_string().into()), ("GFLOW_JOB_ID", id.into())]
}

fn valohai(order: &TaskOrder) -> Vec<Variable> {
    let (spec, id) = (&order.spec, order.task().job);
    let mut all: Vec<Variable> = vec![
        ("VH_JOB_ID", id.to_string().into()),
        ("VH_EXECUTION_ID", id.to_string().into()),
        ("VH_PROJECT_ID", spec.project.as_str().into()),
        ("VH_GPUS", order.allocation.slots.len().to_string().into()),
    ];
    if id.element.is_some() {
        all.push(("VH_TASK_ID", id.number.to_string().into()));
    }
    all
}
