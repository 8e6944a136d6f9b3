//! Every reason has a useful text, with its numbers.

#![allow(clippy::unwrap_used, reason = "a test that can't go on should stop where it is")]

use std::sync::Arc;

use gpool_model::gpu::GpuRequest;
use gpool_model::job::JobState;
use gpool_model::policy::UserCap;
use gpool_model::reason::Bound;
use gpool_model::{
    AdminHold, Bytes, DependencyKind, DeviceUuid, GpuTime, JobId, Millis, NodeFilter, NodeName,
    NodeRule, PoolName, ProjectName, Reason, ReservationName, ResourceKind, Timestamp,
};

fn h100(count: u32) -> GpuRequest {
    GpuRequest::parse(&format!("h100:{count}")).unwrap()
}

/// Tenths of an hour of one device.
fn hours(tenths: u64) -> GpuTime {
    GpuTime::new(tenths * GpuTime::HOUR.get() / 10)
}

fn lab7() -> NodeName {
    NodeName::new("lab7")
}

fn hold(project: Option<&str>) -> AdminHold {
    AdminHold { by: Arc::from("root"), project: project.map(ProjectName::new) }
}

fn red() -> ProjectName {
    ProjectName::new("red")
}

fn text(words: &str) -> String {
    words.to_owned()
}

fn chosen() -> Arc<NodeFilter> {
    Arc::new(NodeFilter {
        exclude: [NodeName::new("lab2")].into(),
        rules: [NodeRule::parse("rack=3").unwrap()].into(),
        ..NodeFilter::default()
    })
}

fn reasons() -> Vec<(Reason, &'static str)> {
    let batch = || PoolName::new("batch");
    let (node, index, device) = (lab7(), 3, DeviceUuid::new("GPU-3"));
    let (job, since) = (JobId::single(7), Timestamp::new(0));
    vec![
        (Reason::GpusNotFree { need: 4, free: 2, of_instances: false }, "4 GPUs needed, 2 free"),
        (
            Reason::GpusNotFreeTogether {
                need: 4,
                free: 2,
                node: node.clone(),
                of_instances: false,
            },
            "4 GPUs needed together; lab7 has 2 free",
        ),
        (Reason::GpuModelMissing { asked: h100(2), most: 0 }, "no node has 2 × H100"),
        (
            Reason::GpuMemoryTooSmall { need: Bytes::from_gib(80), largest: Bytes::from_gib(40) },
            "GPUs of at least 80 GiB needed; the largest has 40 GiB",
        ),
        (
            Reason::CpuOrMemShort {
                kind: ResourceKind::Cpu,
                need: 4000,
                free: 500,
                node: node.clone(),
            },
            "4 CPU cores needed; lab7 has 0.5 CPU cores free",
        ),
        (Reason::AheadInOrder { job, n_ahead: 1 }, "job 7 goes first"),
        (
            Reason::WouldDelay { job, planned_at: since },
            "it would not end before 1970-01-01T00:00:00.000Z, when job 7 is planned to start there",
        ),
        (Reason::WaitsForJob { job, kind: DependencyKind::Ok }, "waits for job 7 to succeed"),
        (
            Reason::WaitsForOneOf { job, kind: DependencyKind::Fail, n_jobs: 3 },
            "waits for one of 3 jobs, such as job 7 to fail",
        ),
        (
            Reason::DependencyFailed { job, state: JobState::Failed },
            "job 7, which it waited for, is failed; edit or cancel it: it can't start so",
        ),
        (
            Reason::BeginTime { at: Timestamp::new(1_795_188_600_123) },
            "starts at Fri 20 Nov 15:30 UTC at the earliest",
        ),
        (
            Reason::QuotaUser { what: UserCap::Gpus, used: 2500, most: 3000 },
            "its user holds 2.5 GPUs, and 3 are the most",
        ),
        (
            Reason::QuotaProject {
                project: red(),
                kind: ResourceKind::Gpu,
                bound: Bound::Limit,
                held: 1500,
                asked: 1000,
                most: 2000,
            },
            "project red holds 1.5 GPUs of at most 2 GPUs, and this asks for 1 GPU more",
        ),
        (
            Reason::QuotaProject {
                project: red(),
                kind: ResourceKind::Gpu,
                bound: Bound::Guaranteed,
                held: 2000,
                asked: 1000,
                most: 2000,
            },
            "it can't be taken back, so it needs 1 GPU that is guaranteed; project red has used 2 \
             GPUs of 2 GPUs; with --preemptible it may borrow",
        ),
        (
            Reason::QuotaProject {
                project: red(),
                kind: ResourceKind::Gpu,
                bound: Bound::GuaranteedOnly,
                held: 2000,
                asked: 1000,
                most: 2000,
            },
            "project red holds 2 GPUs of the 2 GPUs that it is guaranteed, nothing is lent here, \
             and this asks for 1 GPU more",
        ),
        (
            Reason::NotReserved { reserved: 0 },
            "only reserved GPUs are given out, and no such GPU is reserved for it; an admin can \
             reserve more: gpool reserve create",
        ),
        (
            Reason::NotReserved { reserved: 2 },
            "only reserved GPUs are given out, and too few of the 2 GPUs reserved for it are free; \
             an admin can reserve more: gpool reserve create",
        ),
        (
            Reason::PreemptionGrace { of: None, devices: vec![], job, n_jobs: 1, until: None },
            "its place is decided; job 7 leaves it first",
        ),
        (
            Reason::PreemptionGrace {
                of: Some((Arc::from("bo"), red())),
                devices: vec![(lab7(), 0), (lab7(), 1)],
                job,
                n_jobs: 2,
                until: Some(Timestamp::new(1_795_188_600_123)),
            },
            "its place is decided; 2 jobs, such as job 7 of bo (project red), give back GPU 0,1 of \
             lab7 first, by Fri 20 Nov 15:30 UTC at the latest",
        ),
        (
            Reason::SlotsKeptForGpus { node: lab7(), need: 1, free: 0, most: 448, slots: 512 },
            "jobs without GPUs have 448 of 512 task slots of lab7, and 64 are kept for jobs with \
             GPUs",
        ),
        (
            Reason::UserSlots { used: 409, most: 409, slots: 512 },
            "its user has 409 of 512 task slots, and one user may have 409",
        ),
        (
            Reason::GpuTimeHad { job, theirs: hours(30), own: hours(2), until: None },
            "job 7 has had 3 GPU-hours, this one 0.2: it makes room",
        ),
        (
            Reason::GpuTimeHad {
                job,
                theirs: hours(30),
                own: hours(2),
                until: Some(Timestamp::new(1_795_188_600_123)),
            },
            "job 7 has had 3 GPU-hours, this one 0.2: it makes room, not before Fri 20 Nov 15:30 \
             UTC",
        ),
        (
            Reason::GpuTimeHad { job, theirs: hours(2), own: hours(30), until: None },
            "job 7 has had 0.2 GPU-hours, this one 3: who has had less goes first",
        ),
        (Reason::HeldByUser { since }, "held by its user until released"),
        (
            Reason::SetAside { since },
            "held by the scheduler: its plan for this job broke a rule, and an admin finds the \
             case in alerts/; released, it is tried again",
        ),
        (
            Reason::HeldByAdmin { since, hold: None },
            "held by an admin; only an admin can release it",
        ),
        (
            Reason::HeldByAdmin { since, hold: Some(hold(None)) },
            "held by admin root; only an admin can release it",
        ),
        (
            Reason::HeldByAdmin { since, hold: Some(hold(Some("red"))) },
            "held by root, an admin of project red; only an admin of project red or of the server \
             can release it",
        ),
        (
            Reason::PathOrImageMissing { since, node: node.clone(), path: text("/e/x") },
            "held: /e/x is not on lab7; released, it looks again",
        ),
        (
            Reason::UnmanagedProcess {
                node: node.clone(),
                index,
                device: device.clone(),
                pid: 42,
                user: Some(text("eve")),
                name: Some(text("python")),
            },
            "GPU 3 of lab7 is used outside gpool: pid 42 python (user eve)",
        ),
        (
            Reason::GpuUnhealthy {
                node: node.clone(),
                index,
                device: device.clone(),
                why: text("Xid 79"),
            },
            "GPU 3 of lab7 can't be used: Xid 79",
        ),
        (
            Reason::GpuNotAllowed { node: node.clone(), index, device },
            "GPU 3 of lab7 is kept from new work by an admin",
        ),
        (
            Reason::ReservedForOther {
                reservation: ReservationName::new("r1"),
                node: node.clone(),
                n_devices: 2,
                from: since,
                until: None,
            },
            "2 GPUs of lab7 reserved for others by r1, Thu 01 Jan 00:00 UTC until released",
        ),
        (
            Reason::MaintenanceSoon {
                reservation: ReservationName::new("m1"),
                node: node.clone(),
                from: since,
                until: Some(since.after(Millis::from_hours(4))),
            },
            "maintenance m1 of lab7, Thu 01 Jan 00:00 UTC to Thu 01 Jan 04:00 UTC",
        ),
        (
            Reason::NodeDrained {
                node: node.clone(),
                index: None,
                by: Some(since),
                reason: "new PSU".into(),
            },
            "lab7 is drained by Thu 01 Jan 00:00 UTC: new PSU",
        ),
        (
            Reason::NodeOccupied { node: node.clone(), exclusive: true },
            "it wants a node without other jobs (--exclusive), and lab7 runs some",
        ),
        (
            Reason::NodeOccupied { node: node.clone(), exclusive: false },
            "lab7 runs a job that has the node alone (--exclusive)",
        ),
        (Reason::OnlyInPool { pool: batch(), n_nodes: 0 }, "no node is in pool batch"),
        (Reason::OnlyInPool { pool: batch(), n_nodes: 2 }, "only nodes of pool batch: 2 nodes"),
        (
            Reason::OnlyOnNodes {
                nodes: chosen(),
                n_nodes: 1,
                n_left_out: 4,
                left_out: vec![NodeName::new("lab1"), NodeName::new("lab2")],
            },
            "only 1 node by --not-node lab2 --where rack=3; left out: lab1, lab2 and 2 more",
        ),
        (
            Reason::OnlyOnNodes { nodes: chosen(), n_nodes: 0, n_left_out: 1, left_out: vec![] },
            "no node passes --not-node lab2 --where rack=3",
        ),
        (Reason::AgentUnreachable { node }, "the agent of lab7 does not answer"),
    ]
}

#[test]
fn every_reason_has_words_and_facts() {
    for (reason, words) in reasons() {
        let shown = gpool_wire::Reason::new(&reason, true);
        assert_eq!((shown.code.as_str(), shown.text.as_str()), (reason.code(), words));
        let json = serde_json::to_value(&shown).unwrap();
        assert_eq!(serde_json::from_value::<gpool_wire::Reason>(json.clone()).unwrap(), shown);
        assert_eq!((&json["code"], &json["blocking"]), (&reason.code().into(), &true.into()));
    }
    let held = Reason::HeldByUser { since: Timestamp::new(0) };
    let facts = gpool_wire::Reason::new(&held, true).facts;
    assert_eq!(facts["since"], "1970-01-01T00:00:00.000Z");
    let (short, _) = &reasons()[4];
    let facts = gpool_wire::Reason::new(short, true).facts;
    assert_eq!((&facts["kind"], &facts["need"]), (&"cpus".into(), &4.0.into()));
}
