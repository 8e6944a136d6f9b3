//! Every reason has a useful text, with its numbers.

use std::sync::Arc;

use gpool_model::budget::{Overspent, Payer};
use gpool_model::gpu::GpuRequest;
use gpool_model::job::JobState;
use gpool_model::policy::UserCap;
use gpool_model::reason::Bound;
use gpool_model::{
    AdminHold, Bytes, DependencyKind, DeviceUuid, GpuTime, JobId, Lack, Millis, Money, NodeFilter,
    NodeLack, NodeName, NodeRule, PoolName, ProjectName, Reason, ReservationName, ResourceKind,
    Timestamp,
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
        (
            Reason::GpusNotFree { need: 4, free: 2, of_instances: false },
            "It needs 4 GPUs, and 2 are free",
        ),
        (
            Reason::GpusNotFree { need: 1, free: 0, of_instances: true },
            "It needs 1 MIG instance, and none is free",
        ),
        (
            Reason::GpusNotFreeTogether {
                need: 4,
                free: 2,
                node: node.clone(),
                of_instances: false,
            },
            "It needs 4 GPUs on one node, and no node has more than 2 free",
        ),
        (Reason::GpuModelMissing { asked: h100(2), most: 0 }, "No node has 2 × H100"),
        (
            Reason::GpuMemoryTooSmall { need: Bytes::from_gib(80), largest: Bytes::from_gib(40) },
            "It needs GPUs with at least 80 GiB; the largest has 40 GiB",
        ),
        (
            Reason::CpuOrMemShort {
                kind: ResourceKind::Cpu,
                need: 4000,
                free: 500,
                node: node.clone(),
            },
            "It needs 4 CPU cores, and lab7 has 0.5 CPU cores free",
        ),
        (Reason::AheadInOrder { job, n_ahead: 1 }, "Job 7 is before it in the queue"),
        (
            Reason::AheadInOrder { job, n_ahead: 3 },
            "3 jobs are before it in the queue, the last is job 7",
        ),
        (
            Reason::WouldDelay { job, planned_at: since },
            "It would delay job 7, which is planned to start at Thu 01 Jan 00:00 UTC",
        ),
        (Reason::WaitsForJob { job, kind: DependencyKind::Ok }, "It waits for job 7 to succeed"),
        (
            Reason::WaitsForOneOf { job, kind: DependencyKind::Fail, n_jobs: 3 },
            "It waits for one of 3 jobs, such as job 7 to fail",
        ),
        (
            Reason::DependencyFailed { job, state: JobState::Failed },
            "It can never start: its dependency, job 7, has ended as failed",
        ),
        (
            Reason::BeginTime { at: Timestamp::new(1_795_188_600_123) },
            "It begins at Fri 20 Nov 15:30 UTC or later",
        ),
        (
            Reason::QuotaUser { what: UserCap::Gpus, used: 2500, most: 3000 },
            "Its user holds 2.5 of 3 GPUs, their limit (set by an admin)",
        ),
        (
            Reason::QuotaUser { what: UserCap::Gpus, used: 1000, most: 1000 },
            "Its user holds 1 GPU, their limit (set by an admin)",
        ),
        (
            Reason::QuotaUserInProject {
                user: Arc::from("bo"),
                project: red(),
                what: UserCap::RunningJobs,
                used: 2,
                most: 2,
            },
            "Its user runs 2 jobs in project red, their limit there (set by an admin)",
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
            "Project red uses 1.5 GPUs, its limit is 2 GPUs, and this job needs 1 GPU",
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
            "red's 2 guaranteed GPUs are in use; with --preemptible it can borrow idle capacity",
        ),
        (
            Reason::QuotaProject {
                project: red(),
                kind: ResourceKind::Memory,
                bound: Bound::Guaranteed,
                held: 1 << 30,
                asked: 2 << 30,
                most: 2 << 30,
            },
            "Non-preemptible jobs of project red use 1 GiB of memory of its guaranteed 2 GiB of \
             memory, and this job needs 2 GiB of memory; with --preemptible it can borrow idle \
             capacity",
        ),
        (
            Reason::QuotaProject {
                project: red(),
                kind: ResourceKind::Gpu,
                bound: Bound::Guaranteed,
                held: 0,
                asked: 1000,
                most: 0,
            },
            "Project red has no guaranteed GPUs; with --preemptible it can borrow idle capacity",
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
            "red's 2 guaranteed GPUs are in use; projects do not lend here",
        ),
        (
            Reason::NotReserved { reserved: 0 },
            "Only reserved GPUs are used here, and none is reserved for it; an admin can reserve \
             more with gpool reserve create",
        ),
        (
            Reason::NotReserved { reserved: 2 },
            "Only reserved GPUs are used here, and too few of the 2 GPUs reserved for it are free; \
             an admin can reserve more with gpool reserve create",
        ),
        (
            Reason::PreemptionGrace { of: None, devices: vec![], job, n_jobs: 1, until: None },
            "It has a place, and starts when job 7 has released it",
        ),
        (
            Reason::PreemptionGrace {
                of: Some((Arc::from("bo"), red())),
                devices: vec![(lab7(), 0), (lab7(), 1)],
                job,
                n_jobs: 2,
                until: Some(Timestamp::new(1_795_188_600_123)),
            },
            "It has a place, and starts when 2 jobs, such as job 7 of bo (project red), have \
             released GPUs 0,1 of lab7, at Fri 20 Nov 15:30 UTC at the latest",
        ),
        (
            Reason::SlotsKeptForGpus { node: lab7(), need: 1, free: 0, most: 448, slots: 512 },
            "Jobs without GPUs use 448 of 512 task slots of lab7; the other 64 are for jobs with \
             GPUs",
        ),
        (
            Reason::UserSlots { used: 409, most: 409, slots: 512 },
            "Its user has 409 of 512 task slots, and the limit for one user is 409",
        ),
        (
            Reason::GpuTimeHad { job, theirs: hours(30), own: hours(2), until: None },
            "Job 7 has used 3 GPU-hours and this job 0.2: job 7 is preempted",
        ),
        (
            Reason::GpuTimeHad {
                job,
                theirs: hours(30),
                own: hours(2),
                until: Some(Timestamp::new(1_795_188_600_123)),
            },
            "Job 7 has used 3 GPU-hours and this job 0.2: job 7 is preempted after Fri 20 Nov \
             15:30 UTC",
        ),
        (
            Reason::GpuTimeHad { job, theirs: hours(2), own: hours(30), until: None },
            "Job 7 has used 0.2 GPU-hours and this job 3: jobs with less go first",
        ),
        (Reason::HeldByUser { since }, "It is held until its user releases it"),
        (
            Reason::OverBudget {
                since,
                by: Some(Box::new(Overspent {
                    payer: Payer::Project(red()),
                    spent: Money::parse("101.5").unwrap(),
                    budget: Money::parse("100").unwrap(),
                    currency: Arc::from("EUR"),
                })),
            },
            "It is held: the budget of project red for this month is used up, 101.5 EUR of 100",
        ),
        (
            Reason::SetAside { since },
            "It is held by the scheduler: its plan for this job broke a rule; the case is in \
             alerts/; gpool release tries again",
        ),
        (
            Reason::HeldByAdmin { since, hold: None },
            "It is held by an admin; only an admin can release it",
        ),
        (
            Reason::HeldByAdmin { since, hold: Some(hold(None)) },
            "It is held by admin root; only an admin can release it",
        ),
        (
            Reason::HeldByAdmin { since, hold: Some(hold(Some("red"))) },
            "It is held by root, an admin of project red; only an admin of project red or of the \
             server can release it",
        ),
        (
            Reason::NodeLacks {
                lack: NodeLack { node: node.clone(), lack: Lack::Path(text("/e/x")) },
                held_since: Some(since),
            },
            "It is held: /e/x does not exist on lab7; gpool release tries again",
        ),
        (Reason::NoEngine, "It needs a node that runs containers, and there is none"),
        (
            Reason::ImagePull {
                node: node.clone(),
                image: text("tool:1"),
                progress: text("Copying blob 3"),
            },
            "lab7 pulls its image tool:1 (Copying blob 3)",
        ),
        (
            Reason::NodeLacks {
                lack: NodeLack { node: node.clone(), lack: Lack::Account(text("no account ana")) },
                held_since: None,
            },
            "It waits for another node: lab7 can't run it: no account ana",
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
            "A process outside gpool uses GPU 3 of lab7: pid 42 python (user eve)",
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
            "An admin has excluded GPU 3 of lab7 from new jobs",
        ),
        (
            Reason::ReservedForOther {
                reservation: ReservationName::new("r1"),
                whom: Some(Arc::from("bob")),
                node: node.clone(),
                n_devices: 2,
                from: since,
                until: None,
            },
            "2 GPUs of lab7 are reserved for bob from Thu 01 Jan 00:00 UTC until an admin ends it (r1)",
        ),
        (
            Reason::MaintenanceSoon {
                reservation: ReservationName::new("m1"),
                node: node.clone(),
                from: since,
                until: Some(since.after(Millis::from_hours(4))),
            },
            "lab7 has maintenance m1 from Thu 01 Jan 00:00 UTC until Thu 01 Jan 04:00 UTC",
        ),
        (
            Reason::NodeDrained {
                node: node.clone(),
                index: None,
                by: Some(since),
                reason: "new PSU".into(),
            },
            "lab7 is drained and must be empty by Thu 01 Jan 00:00 UTC: new PSU",
        ),
        (
            Reason::NodeOccupied { node: node.clone(), exclusive: true },
            "It needs a node without other jobs (--exclusive), and other jobs run on lab7",
        ),
        (
            Reason::NodeOccupied { node: node.clone(), exclusive: false },
            "A job with --exclusive has lab7 for itself",
        ),
        (
            Reason::OnlyInPool { pool: batch(), n_nodes: 0 },
            "It may only run in pool batch, which has no nodes",
        ),
        (
            Reason::OnlyInPool { pool: batch(), n_nodes: 2 },
            "It may only run in pool batch, on 2 nodes",
        ),
        (
            Reason::OnlyOnNodes {
                nodes: chosen(),
                n_nodes: 1,
                n_left_out: 4,
                left_out: vec![NodeName::new("lab1"), NodeName::new("lab2")],
            },
            "Only 1 node matches --not-node lab2 --where rack=3; excluded: lab1, lab2 and 2 more",
        ),
        (
            Reason::OnlyOnNodes { nodes: chosen(), n_nodes: 0, n_left_out: 1, left_out: vec![] },
            "No node matches --not-node lab2 --where rack=3",
        ),
        (
            Reason::OfPart {
                part: Arc::from("worker"),
                reason: Box::new(Reason::GpusNotFree { need: 4, free: 2, of_instances: false }),
            },
            "Part worker: It needs 4 GPUs, and 2 are free",
        ),
        (Reason::AgentUnreachable { node, since: None }, "The agent of lab7 does not answer"),
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
    let (short, _) = &reasons()[5];
    let facts = gpool_wire::Reason::new(short, true).facts;
    assert_eq!((&facts["kind"], &facts["need"]), (&"cpus".into(), &4.0.into()));
}
