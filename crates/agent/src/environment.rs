//! The environment of a job: the submitter's variables, overridden by gpool's own. Also fills in
//! the patterns in paths of output files. Pure.

use std::collections::BTreeMap;
use std::path::Path;

use gpool_model::agent::TaskOrder;
use gpool_model::unit::{Bytes, Timestamp};
use gpool_sys::user::Account;

use crate::compat;
use crate::message::Element;
use crate::rendezvous::{self, Place};

/// The inputs of a job's environment beside the order.
pub(crate) struct Surroundings<'a> {
    /// The variables of the submitting process.
    pub inherited: &'a [(Vec<u8>, Vec<u8>)],
    /// The account of the job's user, if that is not the agent's user.
    pub switched_to: Option<&'a Account>,
    /// The folder of this run of the job.
    pub folder: &'a Path,
    /// The socket of the API.
    pub api: Option<&'a str>,
    /// Memory of the smallest of the job's devices.
    pub gpu_memory: Option<Bytes>,
    /// The item and parameters of an array element.
    pub element: Option<&'a Element>,
    /// When the job starts.
    pub now: Timestamp,
}

/// Returns all environment variables of a job, by name.
pub(crate) fn environment(
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
    for (name, value) in surroundings.element.map(Element::variables).unwrap_or_default() {
        variables.insert(name.into(), value);
    }
    variables
}

/// The variable that identifies the processes of a run: each run has its own folder.
pub(crate) fn mark(folder: &Path) -> Vec<u8> {
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
    let place = Place::of(order);
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
    ours.extend(rendezvous::variables(order, &place));
    if spec.gang.has_launcher() {
        let nodes: Vec<&str> = match &order.nodes[..] {
            [] => vec![node],
            nodes => nodes.iter().map(|node| node.as_str()).collect(),
        };
        ours.push(("GPOOL_LAUNCHER", spec.gang.launcher.to_string().into()));
        ours.push(("GPOOL_TASK_NODES", nodes.join(",").into()));
    }
    ours.extend(of_array(order));
    ours.extend(of_limits(order, surroundings));
    if let Some(api) = surroundings.api {
        ours.push(("GPOOL_API", api.into()));
        // `gpool` and its shims in a job then talk to the server that runs the job.
        ours.push(("GPOOL_SOCKET", api.into()));
    }
    ours
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
        ours.push(("GPOOL_GPU_MEM", memory.get().to_string().into()));
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
pub(crate) fn fill_in(path: &str, order: &TaskOrder) -> String {
    let (spec, id) = (&order.spec, order.task().job);
    let mut filled = String::with_capacity(path.len());
    let mut rest = path.chars();
    while let Some(c) = rest.next() {
        if c != '%' {
            filled.push(c);
            continue;
        }
        // A name is one component of the path, even if it has slashes.
        let part = |text: &str| text.replace('/', "_");
        match rest.next() {
            Some('j') => filled.push_str(&id.to_string()),
            Some('A') => filled.push_str(&id.number.to_string()),
            Some('a') => filled.push_str(&id.element.unwrap_or(0).to_string()),
            Some('x') => filled.push_str(&part(&spec.name)),
            Some('u') => filled.push_str(&part(&spec.owner.user)),
            Some('t') => filled.push_str(&order.task().rank.to_string()),
            Some('N') => filled.push_str(&part(order.allocation.node.as_str())),
            Some('%') => filled.push('%'),
            Some(other) => filled.extend(['%', other]),
            None => filled.push('%'),
        }
    }
    filled
}

/// The file for a task's output. Array elements, and tasks of a gang beyond the first, need files
/// of their own: if the path has no pattern for the index or rank, it is appended.
pub(crate) fn output_file(path: &str, order: &TaskOrder) -> String {
    let mut filled = fill_in(path, order);
    if path.starts_with("/dev/") {
        return filled;
    }
    let says = |pattern: &str| path.replace("%%", "").contains(pattern);
    if let Some(element) = order.task().job.element
        && !says("%a")
        && !says("%j")
    {
        filled.push_str(&format!(".{element}"));
    }
    let gang = order.spec.gang;
    let by_node = says("%N") && gang.tasks_per_node == 1 && !gang.anywhere;
    if order.task().rank > 0 && !says("%t") && !by_node {
        filled.push_str(&format!(".{}", order.task().rank));
    }
    filled
}

#[cfg(test)]
pub(crate) mod tests {
    use std::sync::Arc;

    use gpool_model::JobRequest;
    use gpool_model::allocation::{Allocation, AllocationState, Slot, SlotPart};
    use gpool_model::gpu::GpuRequest;
    use gpool_model::id::{DeviceUuid, Generation, NodeName, PoolName, TaskId, Term};
    use gpool_model::job::{BlobId, JobSpec, Owner};

    use gpool_model::resource::Resources;
    use gpool_model::unit::{MilliCpu, Millis};

    use super::*;

    pub(crate) fn order(task: &str) -> TaskOrder {
        let task: TaskId = task.parse().expect("valid");
        let spec = JobSpec {
            retry_of: None,
            joins: None,
            id: task.job,
            owner: Owner { uid: 1000, gid: 1000, user: Arc::from("ana") },
            script: None,
            context: BlobId(Arc::from("c")),
            setup: None,
            submitted_at: Timestamp::ZERO,
            request: JobRequest {
                name: Arc::from("a/b"),
                command: vec!["true".to_owned()],
                gpus: GpuRequest::whole(1),
                gpus_written: Arc::from("1"),
                cpus: Some(MilliCpu::new(1500)),
                time_limit: Some(Millis::from_mins(1)),
                grace: Millis::from_secs(1),
                ..JobRequest::default()
            },
        };
        let slot = |index| Slot {
            index,
            device: DeviceUuid::new(format!("GPU-{index}")),
            part: SlotPart::Whole,
        };
        let allocation = Allocation {
            task,
            node: NodeName::new("lab1"),
            slots: vec![slot(2), slot(5)],
            resources: Resources::none(),
            state: AllocationState::Placed,
        };
        TaskOrder {
            term: Term(1),
            generation: Generation(1),
            spec: Arc::new(spec),
            allocation,
            pool: PoolName::usual(),
            nodes: Vec::new(),
            master_addr: String::new(),
        }
    }

    fn made(order: &TaskOrder, inherited: &[(&str, &str)]) -> BTreeMap<String, String> {
        let inherited: Vec<_> =
            inherited.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
        let account = Account {
            name: b"ana".to_vec(),
            uid: 1000,
            gid: 1000,
            home: b"/home/ana".to_vec(),
            shell: b"/bin/zsh".to_vec(),
        };
        let surroundings = Surroundings {
            inherited: &inherited,
            switched_to: Some(&account),
            folder: Path::new("/s/jobs/7/1"),
            api: Some("/run/gpool/api.sock"),
            gpu_memory: Some(Bytes::from_gib(80)),
            element: None,
            now: Timestamp::ZERO,
        };
        let text = |bytes| String::from_utf8(bytes).expect("text");
        let all = environment(order, &surroundings);
        all.into_iter().map(|(name, value)| (text(name), text(value))).collect()
    }

    #[test]
    fn own_variables_override_the_submitters() {
        let inherited =
            [("CUDA_VISIBLE_DEVICES", "0"), ("A", "b"), ("HOME", "/root"), ("GPOOL_X", "y")];
        let made = made(&order("7#1/0"), &inherited);
        for (name, value) in [
            ("A", "b"),
            ("CUDA_VISIBLE_DEVICES", "GPU-2,GPU-5"),
            ("GPOOL_API", "/run/gpool/api.sock"),
            ("GPOOL_ATTEMPT", "1"),
            ("GPOOL_CPUS", "1.5"),
            ("GPOOL_DEADLINE", "1970-01-01T00:01:00Z"),
            ("GPOOL_DIR", "/s/jobs/7/1"),
            ("GPOOL_GPUS", "2"),
            ("GPOOL_GPU_MEM", "85899345920"),
            ("GPOOL_JOB_ID", "7"),
            ("GPOOL_SOCKET", "/run/gpool/api.sock"),
            ("GPOOL_TIME_LIMIT", "60"),
            ("HOME", "/home/ana"),
            ("NVIDIA_VISIBLE_DEVICES", "GPU-2,GPU-5"),
            ("OMP_NUM_THREADS", "2"),
            ("USER", "ana"),
        ] {
            assert_eq!(made.get(name).map(String::as_str), Some(value), "{name}");
        }
        assert!(!made.contains_key("GPOOL_X"), "it describes the submitting job");
        assert!(!made.contains_key("GPOOL_MEM"), "not asked for");
    }

    #[test]
    fn variables_that_describe_the_submitting_job_are_not_passed_on() {
        let inherited = [("SLURM_JOB_ID", "3"), ("SLURM_CONF", "/c"), ("GPOOL_JOB_ID", "3")];
        let inner = made(&order("7#1/0"), &inherited);
        assert!(!inner.contains_key("SLURM_JOB_ID"));
        assert_eq!(inner["SLURM_CONF"], "/c");
        // Set by a real Slurm, not by gpool.
        assert_eq!(made(&order("7#1/0"), &inherited[..2])["SLURM_JOB_ID"], "3");
        let mut order = order("7#1/0");
        Arc::make_mut(&mut order.spec).compat = vec![gpool_model::Compat::Slurm].into();
        assert_eq!(made(&order, &inherited)["SLURM_JOB_ID"], "7");
    }

    #[test]
    fn a_job_without_gpus_sees_none() {
        let mut order = order("7.4#1/0");
        order.allocation.slots.clear();
        let made = made(&order, &[("OMP_NUM_THREADS", "9")]);
        assert_eq!(made["CUDA_VISIBLE_DEVICES"], "");
        assert_eq!(made["NVIDIA_VISIBLE_DEVICES"], "void");
        assert_eq!(made["OMP_NUM_THREADS"], "9", "set by the caller");
        assert_eq!((&*made["GPOOL_ARRAY_ID"], &*made["GPOOL_ARRAY_INDEX"]), ("7", "4"));
    }

    /// The second of two tasks on the second of two nodes.
    pub(crate) fn member() -> TaskOrder {
        let mut order = order("7#2/3");
        let spec = Arc::make_mut(&mut order.spec);
        spec.gang = gpool_model::Gang::new(2, 2).expect("a gang");
        order.nodes = ["lab0", "lab0", "lab1", "lab1"].map(NodeName::new).to_vec();
        order.master_addr = "lab0.net".to_owned();
        order
    }

    #[test]
    fn the_variables_of_a_gang_describe_the_other_tasks() {
        let made = made(&member(), &[]);
        for (name, value) in [
            ("GPOOL_NODELIST", "lab0,lab1"),
            ("GPOOL_NUM_NODES", "2"),
            ("GPOOL_NODE_RANK", "1"),
            ("GPOOL_RANK", "3"),
            ("GPOOL_LOCAL_RANK", "1"),
            ("GPOOL_NUM_TASKS", "4"),
            ("MASTER_ADDR", "lab0.net"),
            ("MASTER_PORT", "20219"),
            ("WORLD_SIZE", "4"),
            ("RANK", "3"),
            ("LOCAL_RANK", "1"),
            ("NODE_RANK", "1"),
        ] {
            assert_eq!(made.get(name).map(String::as_str), Some(value), "{name}");
        }
        let single = super::tests::made(&order("7#1/0"), &[]);
        assert!(!single.contains_key("MASTER_ADDR"), "alone");
        assert_eq!((&*single["GPOOL_RANK"], &*single["GPOOL_NUM_TASKS"]), ("0", "1"));
    }

    #[test]
    fn each_task_of_a_gang_has_its_own_output_file() {
        let member = member();
        for (path, file) in
            [("o", "o.3"), ("o-%t", "o-3"), ("o-%N", "o-lab1.3"), ("/dev/null", "/dev/null")]
        {
            assert_eq!(output_file(path, &member), file, "{path}");
        }
        assert_eq!(output_file("o", &order("7#1/0")), "o", "the first");
    }

    #[test]
    fn patterns_of_paths_are_filled_in() {
        let order = order("7.4#1/0");
        assert_eq!(fill_in("o/%x-%A_%a-%u@%N.%j%%j%", &order), "o/a_b-7_4-ana@lab1.7.4%j%");
        assert_eq!(fill_in("%z", &order), "%z");
        for (path, file) in [
            ("out.txt", "out.txt.4"),
            ("out-%a.txt", "out-4.txt"),
            ("%j", "7.4"),
            ("%%a", "%a.4"),
            ("/dev/null", "/dev/null"),
        ] {
            assert_eq!(output_file(path, &order), file, "{path}");
        }
    }
}
