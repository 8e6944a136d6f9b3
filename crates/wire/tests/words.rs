//! Every refusal and reason has a code, a place in the catalogue, and words that a person can act
//! on.

#![allow(clippy::unwrap_used, reason = "a test that can't go on should stop where it is")]

use std::collections::BTreeSet;
use std::sync::Arc;

use gpool_model::gpu::GpuRequest;
use gpool_model::job::JobState;
use gpool_model::policy::UserCap;
use gpool_model::reason::Bound;
use gpool_model::refusal::LargestFit;
use gpool_model::{
    Affected, Bytes, DependencyKind, DeviceUuid, GpuTime, JobId, Millis, NodeName, PoolName,
    ProjectName, Reason, Refusal, ReservationName, ResourceKind, Timestamp, Whom,
};
use gpool_wire::catalogue::{self, CATALOGUE};
use gpool_wire::{Problem, json};

fn h100(count: u32) -> GpuRequest {
    GpuRequest::parse(&format!("h100:{count}")).unwrap()
}

/// So many tenths of an hour of one device.
fn hours(tenths: u64) -> GpuTime {
    GpuTime::new(tenths * GpuTime::HOUR.get() / 10)
}

fn r1() -> ReservationName {
    ReservationName::new("r1")
}

fn lab7() -> NodeName {
    NodeName::new("lab7")
}

fn red() -> ProjectName {
    ProjectName::new("red")
}

fn text(words: &str) -> String {
    words.to_owned()
}

/// One of each kind. A kind that is added does not compile until it is here.
fn refusals() -> Vec<Refusal> {
    let (id, user) = (JobId::single(7), Arc::from("ana"));
    let all = vec![
        Refusal::Invalid { field: text("mem"), why: text("no unit") },
        Refusal::TooLarge { what: text("the request"), most: text("1 MiB") },
        Refusal::NoGpus { asked: h100(1), why: text("no driver") },
        Refusal::ImpossibleGpus {
            asked: h100(16),
            largest: Some(LargestFit { n_devices: 8, node: lab7(), n_in_cluster: 16 }),
            nearest: None,
            models: vec![(text("H100-80G"), 8)],
            n_kept_back: 0,
        },
        Refusal::ImpossibleResource {
            kind: ResourceKind::Memory,
            asked: Bytes::from_gib(2000).get(),
            largest: Bytes::from_gib(500).get(),
            node: Some(lab7()),
        },
        Refusal::NotPermitted { what: text("cancel job 7 of user ana") },
        Refusal::PriorityTooHigh { asked: 10, most: 0 },
        Refusal::CannotRunAs { user: text("bo"), only: 1000 },
        Refusal::TooManyJobs { n_found: 3, n_asked: 1, most: 3 },
        Refusal::UserCap { n_found: 3, n_asked: 1, most: 3, project: None },
        Refusal::AboveUserCap { user, project: None, what: UserCap::Gpus, asked: 2500, most: 2000 },
        Refusal::ExtendTooLong { asked: Some(Millis::from_hours(9)), most: Millis::from_hours(4) },
        Refusal::DependencyCycle { jobs: vec![id, JobId::single(8)] },
        Refusal::NotRequeueable { id },
        Refusal::NoSuchJob { id },
        Refusal::NoSuchProject {
            name: ProjectName::new("nlp"),
            projects: vec![ProjectName::new("default")],
        },
        Refusal::DepartmentTakesNoJobs { name: red(), leaves: vec![ProjectName::new("nlp")] },
        Refusal::NotMember {
            name: red(),
            user: Arc::from("ana"),
            members: vec![text("bo"), text("@lab")],
            open: vec![ProjectName::new("nlp")],
        },
        Refusal::TooFewNodes {
            asked: GpuRequest::parse("h100:8").unwrap(),
            gang: gpool_model::Gang::new(4, 1).unwrap(),
            able: 2,
            largest: Some(4),
        },
        Refusal::AboveQuota {
            project: red(),
            kind: ResourceKind::Gpu,
            bound: Bound::Guaranteed,
            asked: 4500,
            most: 1000,
        },
        Refusal::TimeTooLong {
            project: red(),
            asked: Millis::from_hours(9),
            most: Millis::from_hours(4),
        },
        Refusal::ProjectExists { name: red() },
        Refusal::ProjectHasJobs { name: red(), n_jobs: 2, child: None },
        Refusal::ProjectHasChildren { name: red(), children: vec![ProjectName::new("nlp")] },
        Refusal::ProjectCycle { projects: vec![red(), ProjectName::new("nlp")] },
        Refusal::ProjectNeeded { name: ProjectName::new("default") },
        Refusal::TooManyProjects { most: 10_000 },
        Refusal::ProjectConflict { name: red(), expected: 3, found: 4 },
        Refusal::AboveParent {
            project: ProjectName::new("nlp"),
            parent: red(),
            kind: ResourceKind::Gpu,
            bound: Bound::Limit,
            asked: None,
            most: 4000,
        },
        Refusal::NoSuchNode { name: lab7() },
        Refusal::NoSuchPool { name: PoolName::new("bach"), pools: vec![PoolName::new("batch")] },
        Refusal::NoSuchDevice { device: text("9"), node: lab7(), n_devices: 8 },
        Refusal::NoSuchReservation { name: r1(), names: vec![r1()] },
        Refusal::ReservationExists { name: r1() },
        Refusal::ReservationClash {
            other: r1(),
            whom: Whom::Nobody,
            node: lab7(),
            index: Some(3),
            from: Timestamp::ZERO,
            until: None,
        },
        Refusal::NotEnoughToReserve { asked: h100(4), spread: false, most: 2 },
        Refusal::TooManyReservations { most: 1000 },
        Refusal::AffectsOthers {
            action: text("drain lab7"),
            affected: Box::new(Affected { n_waiting: 3, ..Affected::default() }),
        },
        Refusal::NotDrained { what: text("lab7") },
        Refusal::AlreadyEnded { id, state: JobState::Failed },
        Refusal::WrongState { id, state: JobState::Running, action: text("release") },
        Refusal::VersionConflict { id, expected: 3, found: 4 },
        Refusal::DependencyNeverMet { job: id, state: JobState::Failed },
        Refusal::KeyReused { key: text("k") },
        Refusal::StorageFull { why: text("no space left on device") },
        Refusal::Internal { why: text("a thread ended") },
        Refusal::ShuttingDown,
    ];
    for refusal in &all {
        match refusal {
            Refusal::Invalid { .. }
            | Refusal::TooLarge { .. }
            | Refusal::NoGpus { .. }
            | Refusal::ImpossibleGpus { .. }
            | Refusal::ImpossibleResource { .. }
            | Refusal::NotPermitted { .. }
            | Refusal::PriorityTooHigh { .. }
            | Refusal::CannotRunAs { .. }
            | Refusal::TooManyJobs { .. }
            | Refusal::UserCap { .. }
            | Refusal::AboveUserCap { .. }
            | Refusal::ExtendTooLong { .. }
            | Refusal::DependencyCycle { .. }
            | Refusal::NotRequeueable { .. }
            | Refusal::NoSuchJob { .. }
            | Refusal::NoSuchProject { .. }
            | Refusal::DepartmentTakesNoJobs { .. }
            | Refusal::NotMember { .. }
            | Refusal::AboveQuota { .. }
            | Refusal::TooFewNodes { .. }
            | Refusal::TimeTooLong { .. }
            | Refusal::ProjectExists { .. }
            | Refusal::ProjectHasJobs { .. }
            | Refusal::ProjectHasChildren { .. }
            | Refusal::ProjectCycle { .. }
            | Refusal::ProjectNeeded { .. }
            | Refusal::TooManyProjects { .. }
            | Refusal::ProjectConflict { .. }
            | Refusal::AboveParent { .. }
            | Refusal::NoSuchNode { .. }
            | Refusal::NoSuchPool { .. }
            // One of the others, for the nodes of one pool.
            | Refusal::InPool { .. }
            | Refusal::NoSuchDevice { .. }
            | Refusal::NoSuchReservation { .. }
            | Refusal::ReservationExists { .. }
            | Refusal::ReservationClash { .. }
            | Refusal::NotEnoughToReserve { .. }
            | Refusal::TooManyReservations { .. }
            | Refusal::AffectsOthers { .. }
            | Refusal::NotDrained { .. }
            | Refusal::AlreadyEnded { .. }
            | Refusal::WrongState { .. }
            | Refusal::VersionConflict { .. }
            | Refusal::DependencyNeverMet { .. }
            // One of the others, of one job among several.
            | Refusal::OfJob { .. }
            | Refusal::KeyReused { .. }
            | Refusal::StorageFull { .. }
            | Refusal::Internal { .. }
            | Refusal::ShuttingDown => {}
        }
    }
    all
}

#[test]
fn every_refusal_is_a_problem_with_its_code() {
    let refusals = refusals();
    let codes: BTreeSet<_> = refusals.iter().map(Refusal::code).collect();
    assert_eq!(codes.len(), refusals.len(), "two kinds share a code, or one is missing");
    for refusal in refusals {
        let problem = Problem::from(&refusal);
        assert_eq!(problem.code, refusal.code().to_string());
        assert!((400..600).contains(&problem.status), "{problem:?}");
        assert!((1..=8).contains(&problem.exit_code()), "{problem:?}");
        for line in problem.why.iter().chain(&problem.tries).chain([&problem.detail]) {
            assert!(!line.is_empty() && !line.ends_with('.') && !line.contains('\n'), "{line:?}");
        }
    }
}

#[test]
fn an_impossible_request_names_what_fits() {
    let problem = Problem::from(&refusals()[3]);
    assert_eq!(problem.detail, "no node could ever run this: 16 × H100 on one node");
    assert_eq!(problem.why, ["the most on one node is 8, on lab7; there are 16 H100 GPUs in all"]);
    assert_eq!(problem.tries[0], "gpool run --gpus h100:8 -- …");
    assert_eq!((problem.code.as_str(), problem.exit_code()), ("GP0412", 4));
    let problem = Problem::from(&refusals()[4]);
    assert_eq!(problem.detail, "no node could ever run this: 1.9 TiB of memory on one node");
    assert_eq!(problem.why, ["the largest is lab7 with 500 GiB of memory"]);
    assert_eq!(problem.tries[0], "--mem 500G");
}

#[test]
fn what_a_quota_never_allows_says_what_it_allows_and_what_would_help() {
    let all = refusals();
    let above = all.iter().find(|it| matches!(it, Refusal::AboveQuota { .. })).unwrap();
    let problem = Problem::from(above);
    assert_eq!(
        problem.detail,
        "this could never run: it can't be taken back, and 4.5 GPUs are more than project red is \
         guaranteed"
    );
    assert_eq!(problem.why, ["red is guaranteed 1 GPU"]);
    assert!(problem.tries[0].starts_with("--preemptible"));
    assert_eq!((problem.code.as_str(), problem.exit_code()), ("GP0415", 4));
}

#[test]
fn a_model_that_nobody_has_names_those_there_are() {
    let refusal = Refusal::ImpossibleGpus {
        asked: h100(1),
        largest: None,
        nearest: Some(GpuRequest::parse("a100|t4:1").unwrap()),
        models: vec![(text("A100-80G"), 4), (text("T4"), 1)],
        n_kept_back: 0,
    };
    let problem = Problem::from(&refusal);
    assert_eq!(problem.why, ["the nodes have A100-80G (up to 4), T4 (up to 1)"]);
    assert_eq!(problem.tries[0], "gpool run --gpus 'a100|t4:1' -- …");
}

#[test]
fn the_catalogue_is_whole() {
    let mut last = 0;
    for entry in CATALOGUE {
        assert!(entry.code.0 > last, "{} is out of order", entry.code);
        last = entry.code.0;
        assert!((1..=8).contains(&entry.exit), "{}", entry.code);
        assert!((400..600).contains(&entry.status), "{}", entry.code);
        assert!(entry.help.len() > 40 && entry.help.ends_with('.'), "{}", entry.code);
        assert!(!entry.title.ends_with('.'), "{}", entry.code);
        for text in [entry.code.to_string(), entry.code.to_string().to_lowercase()] {
            assert_eq!(catalogue::find(&text), Some(entry));
        }
    }
    for refusal in refusals() {
        assert!(catalogue::entry(refusal.code()).is_some(), "{refusal:?}");
    }
    for text in ["", "GP", "GP9999", "x", "GP04 12", "é"] {
        assert_eq!(catalogue::find(text), None, "{text:?}");
    }
}

#[test]
fn a_problem_of_a_newer_server_has_an_exit_code() {
    let problem: Problem = json::read(br#"{"code":"GP7777","status":404,"detail":"x"}"#).unwrap();
    assert_eq!((problem.entry(), problem.exit_code()), (None, 6));
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
            Reason::PreemptionGrace { job, n_jobs: 1, until: None },
            "its place is decided; job 7 leaves it first",
        ),
        (
            Reason::PreemptionGrace {
                job,
                n_jobs: 2,
                until: Some(Timestamp::new(1_795_188_600_123)),
            },
            "its place is decided; 2 jobs, such as job 7, leave it first, by Fri 20 Nov 15:30 UTC \
             at the latest",
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
        (Reason::HeldByAdmin { since }, "held by an admin until released"),
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
        (Reason::OnlyInPool { pool: batch(), n_nodes: 0 }, "no node is in pool batch"),
        (Reason::OnlyInPool { pool: batch(), n_nodes: 2 }, "only nodes of pool batch: 2 nodes"),
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
