//! The environment of a job: the submitter's variables, overridden by gpool's own. Also fills in
//! the patterns in paths of output files. Pure.

use std::collections::BTreeMap;
use std::path::Path;

use gpool_ledger::layout::{DRIVER_VARIABLE, FOLDER_VARIABLE, NVML_VARIABLE};
use gpool_model::Compat;
use gpool_model::agent::TaskOrder;
use gpool_model::file_pattern::{FileNames, has_pattern};
use gpool_model::unit::Timestamp;
use gpool_output::file_name;
use gpool_sys::user::PasswdEntry;

use crate::compat;
use crate::layout::{GPU_MEMORY, HOST_FILE};
use crate::message::{Cap, Element, GpuMemory};
use crate::rendezvous::{self, TaskPosition};

/// The inputs of a job's environment beside the order.
pub struct Surroundings<'a> {
    /// The variables of the submitting process.
    pub inherited: &'a [(Vec<u8>, Vec<u8>)],
    /// The account of the job's user, if that is not the agent's user.
    pub switched_to: Option<&'a PasswdEntry>,
    /// The folder of this run of the job.
    pub folder: &'a Path,
    /// The path of gpool, for launchers of MPI.
    pub program: Option<&'a str>,
    /// The socket of the API.
    pub api: Option<&'a str>,
    /// The job's trace, as `TRACEPARENT` has it.
    pub trace: Option<&'a str>,
    /// The job's memory on its smallest device.
    pub gpu_memory: Option<GpuMemory>,
    /// The cap of the job's device memory.
    pub cap: Option<&'a Cap>,
    /// The item and parameters of an array element.
    pub element: Option<&'a Element>,
    /// The folder with its secrets.
    pub secrets: Option<&'a Path>,
    /// When the job starts.
    pub now: Timestamp,
}

/// Returns all environment variables of a job, by name.
pub fn environment(
    order: &TaskOrder,
    surroundings: &Surroundings<'_>,
) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let mut variables: BTreeMap<Vec<u8>, Vec<u8>> = BTreeMap::new();
    let inherited = surroundings.inherited;
    let is_from_a_job = inherited.iter().any(|(name, _)| name == b"GPOOL_JOB_ID");
    for (name, value) in inherited {
        // A job that submits another job must not pass on the variables that describe itself.
        let is_of_job = (name.starts_with(b"GPOOL_") && !name.starts_with(b"GPOOL_SUBMIT_"))
            || (is_from_a_job && compat::is_of_job(name));
        if !is_of_job {
            variables.insert(name.clone(), value.clone());
        }
    }
    if let Some(account) = surroundings.switched_to {
        for (name, value) in [
            ("HOME", &account.home),
            ("USER", &account.name),
            ("LOGNAME", &account.name),
            ("SHELL", &account.shell),
        ] {
            variables.insert(name.into(), value.clone());
        }
    }
    if let Some(cpus) = order.spec.cpus {
        variables
            .entry("OMP_NUM_THREADS".into())
            .or_insert_with(|| cpus.get().div_ceil(1000).max(1).to_string().into());
    }
    let theirs = order.spec.compat.iter().flat_map(|compat| compat::variables(*compat, order));
    for (name, value) in theirs.chain(ours(order, surroundings)) {
        variables.insert(name.into(), value);
    }
    if let Some(cap) = surroundings.cap {
        cap_by(cap, &mut variables);
    }
    for (name, value) in surroundings.element.map(Element::variables).unwrap_or_default() {
        variables.insert(name.into(), value);
    }
    variables
}

/// The variable that identifies the processes of a run: each run has its own folder.
pub fn mark(folder: &Path) -> Vec<u8> {
    let mut mark = b"GPOOL_DIR=".to_vec();
    mark.extend_from_slice(folder.as_os_str().as_encoded_bytes());
    mark
}

fn ours(order: &TaskOrder, surroundings: &Surroundings<'_>) -> Vec<(&'static str, Vec<u8>)> {
    let (spec, allocation) = (&order.spec, &order.allocation);
    let slots = &allocation.slots;
    let uuids: Vec<&str> = slots.iter().map(|slot| slot.device.as_str()).collect();
    let uuids = uuids.join(",");
    let node = allocation.node.as_str();
    let place = TaskPosition::of(order);
    let name = match surroundings.element {
        Some(element) => element.fill(&spec.name),
        None => spec.name.to_string(),
    };
    let mut ours: Vec<(&str, Vec<u8>)> = vec![
        ("GPOOL_JOB_ID", allocation.task.job.to_string().into()),
        ("GPOOL_JOB_NAME", name.into()),
        ("GPOOL_ATTEMPT", allocation.task.attempt.to_string().into()),
        ("GPOOL_USER", spec.owner.user.as_bytes().to_vec()),
        ("GPOOL_PROJECT", spec.project.as_str().into()),
        ("GPOOL_POOL", order.pool.as_str().into()),
        ("GPOOL_NODE", node.into()),
        ("GPOOL_NODELIST", place.nodes.join(",").into()),
        ("GPOOL_NUM_NODES", place.nodes.len().to_string().into()),
        ("GPOOL_NODE_RANK", place.node_rank.to_string().into()),
        ("GPOOL_RANK", allocation.task.rank.to_string().into()),
        ("GPOOL_LOCAL_RANK", place.local_rank.to_string().into()),
        ("GPOOL_NUM_TASKS", place.n_tasks.to_string().into()),
        ("GPOOL_GPUS", slots.len().to_string().into()),
        ("GPOOL_GPU_UUIDS", uuids.clone().into()),
        ("GPOOL_DIR", surroundings.folder.as_os_str().as_encoded_bytes().to_vec()),
        ("CUDA_VISIBLE_DEVICES", uuids.clone().into()),
        ("CUDA_DEVICE_ORDER", "PCI_BUS_ID".into()),
        // NVIDIA's container tools read this value as "no GPUs".
        (
            "NVIDIA_VISIBLE_DEVICES",
            if uuids.is_empty() { "void".into() } else { uuids.into_bytes() },
        ),
    ];
    ours.extend(rendezvous::of_parts(order));
    ours.extend(rendezvous::variables(order, &place));
    if spec.gang.has_launcher() {
        let nodes: Vec<&str> = match &order.nodes[..] {
            [] => vec![node],
            nodes => nodes.iter().map(|node| node.as_str()).collect(),
        };
        ours.push(("GPOOL_LAUNCHER", spec.gang.launcher.to_string().into()));
        ours.push(("GPOOL_TASK_NODES", nodes.join(",").into()));
        let hosts = surroundings.folder.join(file_name(HOST_FILE, allocation.task));
        ours.push(("GPOOL_HOSTFILE", hosts.into_os_string().into_encoded_bytes()));
        ours.extend(surroundings.program.into_iter().flat_map(rendezvous::remote_shell));
    }
    ours.extend(of_array(order));
    ours.extend(of_limits(order, surroundings));
    if !spec.files.is_usual() {
        ours.push(("GPOOL_WORK_DIR", spec.directory.clone().into()));
    }
    if let Some(trace) = surroundings.trace {
        ours.push(("TRACEPARENT", trace.into()));
    }
    if let Some(folder) = surroundings.secrets {
        ours.push(("GPOOL_SECRETS", folder.as_os_str().as_encoded_bytes().to_vec()));
    }
    if let Some(api) = surroundings.api {
        ours.push(("GPOOL_API", api.into()));
        // `gpool` and its shims in a job then talk to the server that runs the job.
        ours.push(("GPOOL_SOCKET", api.into()));
    }
    ours
}

/// Puts the libraries that cap device memory in front of the driver's.
fn cap_by(cap: &Cap, variables: &mut BTreeMap<Vec<u8>, Vec<u8>>) {
    const SEARCH: &[u8] = b"LD_LIBRARY_PATH";
    let bytes = |path: &Path| path.as_os_str().as_encoded_bytes().to_vec();
    let shim = bytes(&cap.shim);
    let theirs = variables.remove(SEARCH).unwrap_or_default();
    // A job that was submitted by a job inherits the folder. An empty part is the job's own folder.
    let parts = theirs.split(|byte| *byte == b':').filter(|part| **part != *shim);
    let search = if theirs.is_empty() {
        shim.clone()
    } else {
        [&*shim].into_iter().chain(parts).collect::<Vec<_>>().join(&b':')
    };
    for (name, value) in [
        (SEARCH, search),
        (DRIVER_VARIABLE.as_bytes(), bytes(&cap.cuda)),
        (NVML_VARIABLE.as_bytes(), bytes(&cap.nvml)),
        (FOLDER_VARIABLE.as_bytes(), bytes(&cap.ledger)),
    ] {
        variables.insert(name.to_vec(), value);
    }
}

/// The array and the element that a task belongs to.
fn of_array(order: &TaskOrder) -> Vec<(&'static str, Vec<u8>)> {
    let (spec, job) = (&order.spec, order.allocation.task.job);
    let mut ours = Vec::new();
    if let Some(element) = job.element {
        ours.push(("GPOOL_ARRAY_ID", job.number.to_string().into()));
        ours.push(("GPOOL_ARRAY_INDEX", element.to_string().into()));
    }
    if let Some(array) = &spec.array {
        for (name, value) in [
            ("GPOOL_ARRAY_COUNT", array.indexes.len()),
            ("GPOOL_ARRAY_MIN", array.indexes.first()),
            ("GPOOL_ARRAY_MAX", array.indexes.last()),
            ("GPOOL_ARRAY_STEP", array.indexes.step()),
        ] {
            ours.push((name, value.to_string().into()));
        }
    }
    ours
}

/// The memory, cores and time of a task.
fn of_limits(order: &TaskOrder, surroundings: &Surroundings<'_>) -> Vec<(&'static str, Vec<u8>)> {
    let spec = &order.spec;
    let mut ours = Vec::new();
    if let Some(memory) = surroundings.gpu_memory {
        ours.push(("GPOOL_GPU_MEM", memory.request.get().to_string().into()));
        ours.push(("GPOOL_GPU_MEM_LIMIT", memory.limit.get().to_string().into()));
        let file = surroundings.folder.join(file_name(GPU_MEMORY, order.task()));
        ours.push(("GPOOL_GPU_MEM_FILE", file.as_os_str().as_encoded_bytes().to_vec()));
    }
    if let Some(cpus) = spec.cpus {
        ours.push(("GPOOL_CPUS", cpus.to_string().into()));
    }
    if let Some(memory) = spec.memory {
        ours.push(("GPOOL_MEM", memory.get().to_string().into()));
    }
    if let Some(limit) = spec.time_limit {
        ours.push(("GPOOL_TIME_LIMIT", limit.get().div_ceil(1000).to_string().into()));
    }
    let by_limit = spec.time_limit.map(|limit| surroundings.now.after(limit));
    let over = by_limit.into_iter().chain(spec.life.deadline).min();
    ours.extend(over.and_then(rfc3339).map(|at| ("GPOOL_DEADLINE", at.into())));
    ours
}

fn rfc3339(at: Timestamp) -> Option<String> {
    let at = jiff::Timestamp::from_millisecond(i64::try_from(at.get()).ok()?).ok()?;
    Some(format!("{at:.0}"))
}

/// Fills in `%j` (job), `%A` and `%a` (array and element), `%x` (name), `%u` (user), `%N` (node),
/// `%t` (rank of the task) and `%%` in a path. Anything else stays as it is.
pub fn fill_in(path: &str, order: &TaskOrder) -> String {
    let (spec, id) = (&order.spec, order.task().job);
    // A job of Slurm finds the number of its files in SLURM_JOB_ID.
    let is_slurms = spec.compat.contains(&Compat::Slurm);
    let job = if is_slurms { id.plain().to_string() } else { id.to_string() };
    let names = FileNames {
        job: &job,
        number: &id.number.to_string(),
        element: id.element.unwrap_or(0),
        name: &spec.name,
        user: &spec.owner.user,
        node: order.allocation.node.as_str(),
        rank: order.task().rank,
    };
    names.fill(path)
}

/// Whether a path contains the ID of the job. A program that submits jobs makes such a file, or a
/// folder for it, when it knows the ID, and the job may have started by then.
pub fn names_job(path: &str) -> bool {
    has_pattern(path, &['j', 'J', 'A'])
}

/// Whether the folder of a file contains the ID of the job, as in `runs/%j/log`.
pub fn has_own_folder(path: &str) -> bool {
    path.rsplit_once('/').is_some_and(|(folder, _)| names_job(folder))
}

/// The file for a task's output. Array elements, and tasks of a gang beyond the first, need files
/// of their own: if the path has no pattern for the index or rank, it is appended.
pub fn output_file(path: &str, order: &TaskOrder) -> String {
    let mut filled = fill_in(path, order);
    if path.starts_with("/dev/") {
        return filled;
    }
    if let Some(element) = order.task().job.element
        && !has_pattern(path, &['a', 'j', 'J'])
    {
        filled.push_str(&format!(".{element}"));
    }
    let gang = order.spec.gang;
    let by_node = has_pattern(path, &['N'])
        && gang.tasks_per_node == 1
        && !gang.anywhere
        && order.parts.is_empty();
    if order.task().rank > 0 && !has_pattern(path, &['t']) && !by_node {
        filled.push_str(&format!(".{}", order.task().rank));
    }
    filled
}
