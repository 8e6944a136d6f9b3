//! The environment of a job: the submitter's variables, overridden by gpool's own. Also fills in
//! the patterns in paths of output files. Pure.

use std::sync::Arc;

use gpool_model::JobRequest;
use gpool_model::allocation::{Allocation, AllocationState, Slot, SlotPart};
use gpool_model::gpu::GpuRequest;
use gpool_model::id::{DeviceUuid, Generation, NodeName, PoolName, TaskId, Term};
use gpool_model::job::{BlobId, JobSpec, Owner};

use gpool_model::resource::Resources;
use gpool_model::unit::{MilliCpu, Millis};

use std::collections::BTreeMap;
use std::path::Path;

use gpool_model::agent::TaskOrder;
use gpool_model::{Bytes, Timestamp};
use gpool_shepherd::testing::{Cap, GpuMemory, Surroundings, environment, fill_in, output_file};
use gpool_sys::user::PasswdEntry;

pub fn order(task: &str) -> TaskOrder {
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
        parts: Vec::new(),
        term: Term(1),
        generation: Generation(1),
        spec: Arc::new(spec),
        allocation,
        pool: PoolName::usual(),
        has_gate: false,
        sharer: None,
        nodes: Vec::new(),
        master_addr: String::new(),
    }
}

fn made(order: &TaskOrder, inherited: &[(&str, &str)]) -> BTreeMap<String, String> {
    made_with(order, inherited, None)
}

fn made_with(
    order: &TaskOrder,
    inherited: &[(&str, &str)],
    cap: Option<&Cap>,
) -> BTreeMap<String, String> {
    let inherited: Vec<_> =
        inherited.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
    let account = PasswdEntry {
        name: b"ana".to_vec(),
        uid: 1000,
        gid: 1000,
        home: b"/home/ana".to_vec(),
        shell: b"/bin/zsh".to_vec(),
    };
    let surroundings = Surroundings {
        secrets: None,
        inherited: &inherited,
        switched_to: Some(&account),
        program: Some("/usr/bin/gpool"),
        folder: Path::new("/s/jobs/7/1"),
        api: Some("/run/gpool/api.sock"),
        trace: Some("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
        cap,
        gpu_memory: Some(GpuMemory { request: Bytes::from_gib(20), limit: Bytes::from_gib(80) }),
        element: None,
        now: Timestamp::ZERO,
    };
    let text = |bytes| String::from_utf8(bytes).expect("text");
    let all = environment(order, &surroundings);
    all.into_iter().map(|(name, value)| (text(name), text(value))).collect()
}

#[test]
fn own_variables_override_the_submitters() {
    let inherited = [
        ("CUDA_VISIBLE_DEVICES", "0"),
        ("A", "b"),
        ("HOME", "/root"),
        ("GPOOL_X", "y"),
        ("TRACEPARENT", "00-the-trace-of-the-submitter-01"),
    ];
    let made = made(&order("7#1/0"), &inherited);
    for (name, value) in [
        ("TRACEPARENT", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
        ("A", "b"),
        ("CUDA_VISIBLE_DEVICES", "GPU-2,GPU-5"),
        ("GPOOL_API", "/run/gpool/api.sock"),
        ("GPOOL_ATTEMPT", "1"),
        ("GPOOL_CPUS", "1.5"),
        ("GPOOL_DEADLINE", "1970-01-01T00:01:00Z"),
        ("GPOOL_DIR", "/s/jobs/7/1"),
        ("GPOOL_GPUS", "2"),
        ("GPOOL_GPU_MEM", "21474836480"),
        ("GPOOL_GPU_MEM_LIMIT", "85899345920"),
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
fn a_cap_comes_first_in_the_search_path() {
    let cap = Cap {
        shim: "/s/shim/1".into(),
        cuda: "/lib/libcuda.so.1".into(),
        nvml: "/lib/libnvidia-ml.so.1".into(),
        ledger: "/s/ledgers/7#1-0".into(),
    };
    let order = order("7#1/0");
    for (theirs, search) in [
        (None, "/s/shim/1"),
        (Some(""), "/s/shim/1"),
        (Some("/opt/a:/opt/b"), "/s/shim/1:/opt/a:/opt/b"),
        (Some("/opt/a:"), "/s/shim/1:/opt/a:"),
        // Submitted by a job with a share.
        (Some("/s/shim/1:/opt/a"), "/s/shim/1:/opt/a"),
        (Some("/s/shim/1"), "/s/shim/1"),
    ] {
        let inherited: Vec<_> = theirs.map(|it| ("LD_LIBRARY_PATH", it)).into_iter().collect();
        let made = made_with(&order, &inherited, Some(&cap));
        assert_eq!(made["LD_LIBRARY_PATH"], search, "{theirs:?}");
        assert_eq!(made["GPOOL_LEDGER"], "/s/ledgers/7#1-0");
        assert_eq!(made["GPOOL_LIBCUDA"], "/lib/libcuda.so.1");
        assert_eq!(made["GPOOL_LIBNVML"], "/lib/libnvidia-ml.so.1");
    }
    assert!(!made_with(&order, &[], None).contains_key("LD_LIBRARY_PATH"));
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
pub fn member() -> TaskOrder {
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
    let single = super::environment::made(&order("7#1/0"), &[]);
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
    assert_eq!(fill_in("%z %4z", &order), "%z %4z");
    assert_eq!(fill_in("%3A-%04a-%b-%5x-%12A", &order), "007-0004-4-a_b-0000000007");
    let mut slurms = order.clone();
    slurms.spec = std::sync::Arc::new({
        let mut spec = (*order.spec).clone();
        spec.request.compat = vec![gpool_model::Compat::Slurm].into();
        spec
    });
    assert_eq!(fill_in("%j", &slurms), "1073748996", "as SLURM_JOB_ID");
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
