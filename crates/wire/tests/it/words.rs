//! Every refusal and reason has a code, a place in the catalogue, and a useful text.

use std::collections::BTreeSet;
use std::sync::Arc;

use gpool_model::gpu::GpuRequest;
use gpool_model::job::JobState;
use gpool_model::policy::UserCap;
use gpool_model::reason::Bound;
use gpool_model::refusal::{LargestFit, Permitted};
use gpool_model::{
    Affected, Beneficiary, Bytes, JobId, Millis, NodeFilter, NodeName, NodeRule, PoolName,
    ProjectName, Refusal, ReservationName, ResourceKind, Timestamp,
};
use gpool_wire::catalogue::{self, CATALOGUE};
use gpool_wire::{Problem, json};

fn h100(count: u32) -> GpuRequest {
    GpuRequest::parse(&format!("h100:{count}")).unwrap()
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

/// One refusal of each kind. A new kind does not compile until it is here.
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
            strongest: None,
        },
        Refusal::ImpossibleResource {
            kind: ResourceKind::Memory,
            asked: Bytes::from_gib(2000).get(),
            largest: Bytes::from_gib(500).get(),
            node: Some(lab7()),
        },
        Refusal::NotPermitted { what: text("cancel job 7 of user ana"), by: Permitted::Owner },
        Refusal::HeldByAdmin { id, action: text("release"), hold: None },
        Refusal::PriorityTooHigh { asked: 10, most: 0 },
        Refusal::CannotRunAs { user: text("bo"), only: 1000 },
        Refusal::TooManyJobs { n_found: 3, n_asked: 1, most: 3 },
        Refusal::TooManyDependencies { n_found: Some(3), n_asked: 1, most: 3 },
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
        Refusal::TooManyProjects { most: 10_000, below: None },
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
        Refusal::NoSuchNodes {
            nodes: Arc::default(),
            unknown: vec![NodeName::new("lab8")],
            there: vec![(lab7(), vec![text("rack=3")])],
        },
        Refusal::NoSuchPool { name: PoolName::new("bach"), pools: vec![PoolName::new("batch")] },
        Refusal::NoSuchDevice { device: text("9"), node: lab7(), n_devices: 8 },
        Refusal::NoSuchReservation { name: r1(), names: vec![r1()] },
        Refusal::ReservationExists { name: r1() },
        Refusal::ReservationClash {
            other: r1(),
            beneficiary: Beneficiary::Nobody,
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
        Refusal::NodeAnswers { name: lab7() },
        Refusal::NodeInUse { name: lab7(), jobs: vec![id], reservations: vec![r1()] },
        Refusal::AlreadyEnded { id, state: JobState::Failed },
        Refusal::WrongState { id, state: JobState::Running, action: text("release") },
        Refusal::VersionConflict { id, expected: 3, found: 4 },
        Refusal::DependencyNeverMet { job: id, state: JobState::Failed },
        Refusal::KeyReused { key: text("k") },
        Refusal::StorageFull { why: text("no space left on device") },
        Refusal::StateGone { why: text("/state/store.db was removed") },
        Refusal::NotKept { id },
        Refusal::TooMuchStored {
            n_kept: Bytes::from_mib(1000),
            n_more: Bytes::from_mib(30),
            most: Bytes::from_gib(1),
        },
        Refusal::Internal { why: text("a thread ended") },
        Refusal::ShuttingDown,
        Refusal::NoEngine,
        Refusal::PartsTogether { n_requested: 8, n_devices: 6 },
        Refusal::NoSuchSecret { name: text("HF_TOKEN") },
    ];
    for refusal in &all {
        match refusal {
            Refusal::Invalid { .. }
            | Refusal::TooLarge { .. }
            | Refusal::NodeAnswers { .. }
            | Refusal::NodeInUse { .. }
            | Refusal::NoGpus { .. }
            | Refusal::ImpossibleGpus { .. }
            | Refusal::NoEngine
            | Refusal::PartsTogether { .. }
            // Wraps one of the others, for one part of a job.
            | Refusal::OfPart(..)
            | Refusal::ImpossibleResource { .. }
            | Refusal::NotPermitted { .. }
            | Refusal::HeldByAdmin { .. }
            | Refusal::PriorityTooHigh { .. }
            | Refusal::CannotRunAs { .. }
            | Refusal::TooManyJobs { .. }
            | Refusal::TooManyDependencies { .. }
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
            // Wraps one of the others, for the nodes of one pool.
            | Refusal::InPool { .. }
            // Wraps one of the others, for some nodes.
            | Refusal::OnNodes { .. }
            | Refusal::NoSuchNodes { .. }
            | Refusal::NoSuchDevice { .. }
            | Refusal::NoSuchReservation { .. }
            | Refusal::NoSuchSecret { .. }
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
            // Wraps one of the others, for one job of several.
            | Refusal::OfJob { .. }
            | Refusal::KeyReused { .. }
            | Refusal::StorageFull { .. }
            | Refusal::StateGone { .. }
            | Refusal::NotKept { .. }
            | Refusal::TooMuchStored { .. }
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
    assert_eq!(
        problem.why,
        ["no node has more than 8 (lab7); the cluster has 16 H100 GPUs in total"]
    );
    assert_eq!(problem.tries[0], "--gpus h100:8");
    assert_eq!((problem.code.as_str(), problem.exit_code()), ("GP0412", 4));
    let problem = Problem::from(&refusals()[4]);
    assert_eq!(problem.detail, "no node could ever run this: 1.9 TiB of memory on one node");
    assert_eq!(problem.why, ["the largest node, lab7, has 500 GiB of memory"]);
    assert_eq!(problem.tries[0], "--mem 500G");
}

#[test]
fn what_a_quota_never_allows_says_what_it_allows_and_what_would_help() {
    let all = refusals();
    let above = all.iter().find(|it| matches!(it, Refusal::AboveQuota { .. })).unwrap();
    let problem = Problem::from(above);
    assert_eq!(
        problem.detail,
        "this could never run: it requests 4.5 GPUs, and a non-preemptible job can only use the \
         guaranteed quota of project red"
    );
    assert_eq!(problem.why, ["red is guaranteed 1 GPU"]);
    assert!(problem.tries[0].starts_with("--preemptible"));
    assert_eq!((problem.code.as_str(), problem.exit_code()), ("GP0415", 4));
}

#[test]
fn an_unknown_model_lists_the_known_ones() {
    let refusal = Refusal::ImpossibleGpus {
        asked: h100(1),
        largest: None,
        nearest: Some(GpuRequest::parse("a100|t4:1").unwrap()),
        models: vec![(text("A100-80G"), 4), (text("T4"), 1)],
        n_kept_back: 0,
        strongest: None,
    };
    let problem = Problem::from(&refusal);
    assert_eq!(problem.detail, "there is no GPU model \"h100\"");
    assert_eq!(problem.why, ["the nodes have A100-80G (up to 4), T4 (up to 1)"]);
    assert_eq!(problem.tries[0], "--gpus 'a100|t4:1'");
    assert_eq!(problem.tries[1], "--gpus a100-80g:1   (of this model)");
}

#[test]
fn a_choice_of_no_node_names_the_nodes_and_their_labels() {
    let there = vec![
        (NodeName::new("lab1"), vec![text("rack=3")]),
        (lab7(), vec![text("rack=4"), text("ssd")]),
    ];
    let refused = |nodes: NodeFilter, unknown: &[&str]| {
        let unknown = unknown.iter().map(NodeName::new).collect();
        let nodes = Arc::new(nodes);
        Problem::from(Refusal::NoSuchNodes { nodes, unknown, there: there.clone() })
    };
    let problem = refused(NodeFilter::default(), &["lab8"]);
    assert_eq!(problem.detail, "there is no node \"lab8\"");
    assert_eq!(
        (&problem.why[..], &problem.tries[..]),
        (&[text("the nodes are: lab1, lab7")][..], &[text("--node lab1")][..])
    );
    let rules = [NodeRule::parse("rack=5").unwrap()].into();
    let problem = refused(NodeFilter { rules, ..NodeFilter::default() }, &[]);
    assert_eq!(problem.detail, "no node matches the request: --where rack=5");
    assert_eq!(problem.why[1], "their labels are: rack=3, rack=4, ssd");
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
