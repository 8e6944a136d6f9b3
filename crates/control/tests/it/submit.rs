//! Accepted and refused submissions; a refusal changes nothing.

use gpool_model::agent::Report;
use gpool_model::command::{ArchivedDependency, RequestKey};
use gpool_model::enforcement::Enforcement;
use gpool_model::job::{JobState, Outcome};
use gpool_model::unit::{Bytes, MilliCpu};
use gpool_model::{
    Command, DependencyKind, Event, JobId, NewJob, NodeName, Reason, Refusal, Reply, Resources,
};

use crate::harness::{Harness, after, ana, bo, inventory, job, root};

fn refusal(harness: &mut Harness, job: NewJob) -> Refusal {
    let before = harness.control.revision();
    let refusal = harness.submit(&ana(), vec![job]).expect_err("must be refused");
    assert_eq!(harness.control.revision(), before, "a refusal changes nothing");
    refusal
}

#[test]
fn impossible_counts_are_refused_with_the_largest_that_fits() {
    let mut harness = Harness::new(8);
    match refusal(&mut harness, job("h100:16")) {
        Refusal::ImpossibleGpus { largest: Some(largest), nearest: None, models, .. } => {
            assert_eq!((largest.n_devices, largest.n_in_cluster), (8, 8));
            assert_eq!(models, [("H100-80G".to_owned(), 8)]);
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_model_that_is_not_there_is_refused_with_the_nearest_alternative() {
    let mut harness = Harness::new(8);
    match refusal(&mut harness, job("a100:2")) {
        Refusal::ImpossibleGpus { largest: None, nearest: Some(nearest), .. } => {
            assert_eq!(nearest.to_string(), "2");
        }
        other => panic!("{other:?}"),
    }
    match refusal(&mut harness, job("141G..:2")) {
        Refusal::ImpossibleGpus { largest: None, nearest: Some(nearest), .. } => {
            assert_eq!(nearest.to_string(), "80G..:2");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn without_gpus_a_request_for_one_says_why_there_are_none() {
    let mut harness = Harness::new(0);
    match refusal(&mut harness, job("1")) {
        Refusal::NoGpus { why, .. } => assert!(why.contains("simulated"), "{why}"),
        other => panic!("{other:?}"),
    }
    let id = harness.add(job("0"));
    assert_eq!(harness.state(id), JobState::Starting);
}

#[test]
fn cores_and_memory_beyond_every_node_are_refused() {
    let mut harness = Harness::new(1);
    let cores = job("1").with(|it| it.cpus = Some(MilliCpu::from_cores(17)));
    assert!(matches!(refusal(&mut harness, cores), Refusal::ImpossibleResource { .. }));
    let memory = job("0").with(|it| it.memory = Some(Bytes::from_gib(65)));
    assert!(matches!(refusal(&mut harness, memory), Refusal::ImpossibleResource { .. }));
}

#[test]
fn a_resource_that_no_single_node_has_is_named_on_a_node_that_lacks_it() {
    let mut harness = Harness::new(1);
    // The harness's node has 16 cores and 64 GiB; this one has more of one and less of the other.
    let capacity = Resources::none().with_cpus(MilliCpu::from_cores(64)).with_tasks(32);
    let Report::Inventory { stamp, devices, boot_id, facts, .. } = inventory(1) else {
        panic!("an inventory is one")
    };
    let report = Report::Inventory { stamp, capacity, devices, boot_id, facts };
    harness.step(vec![Event::Reported { node: NodeName::new("lab2"), report }]);
    let both = job("1").with(|it| {
        (it.cpus, it.memory) = (Some(MilliCpu::from_cores(32)), Some(Bytes::from_gib(32)));
    });
    match refusal(&mut harness, both) {
        Refusal::ImpossibleResource { asked, largest, .. } => assert!(largest < asked),
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_impossible_waits_where_that_was_asked_for() {
    let mut harness = Harness::new(2);
    let id = harness.add(job("a100:2").with(|it| it.allow_unsatisfiable = true));
    assert_eq!(harness.state(id), JobState::Pending);
    let world = harness.control.world();
    let snapshot = gpool_world::Snapshot { world, now: harness.now };
    let explainer = gpool_sched::Explainer::new(snapshot, world.policy());
    let reasons = explainer.fully(world.job(id).expect("it is live"));
    assert!(matches!(reasons[0], Reason::GpuModelMissing { most: 0, .. }), "{reasons:?}");
}

#[test]
fn users_may_not_put_themselves_first_and_admins_may() {
    let mut harness = Harness::new(1);
    let first = job("1").with(|it| it.standing.priority = 1);
    assert!(matches!(refusal(&mut harness, first.clone()), Refusal::PriorityTooHigh { .. }));
    assert!(harness.submit(&root(), vec![first]).is_ok());
    assert!(harness.submit(&ana(), vec![job("1").with(|it| it.standing.priority = -5)]).is_ok());
}

#[test]
fn one_bad_job_refuses_all_of_a_request() {
    let mut harness = Harness::new(2);
    let before = harness.control.world().cluster().last_job;
    let refused = harness.submit(&ana(), vec![job("1"), job("9"), job("1")]);
    let Err(Refusal::OfJob { index: 1, refusal }) = refused else { panic!("{refused:?}") };
    assert!(matches!(*refusal, Refusal::ImpossibleGpus { .. }));
    assert_eq!(harness.control.world().cluster().last_job, before);
    assert!(harness.control.world().jobs().is_empty());
}

#[test]
fn a_repeated_request_is_answered_and_not_done_again() {
    let mut harness = Harness::new(2);
    let submit = |digest: &str| Command::Submit {
        jobs: vec![job("1"), job("1")],
        key: Some(RequestKey { name: "k".to_owned(), digest: digest.to_owned() }),
        ends: vec![],
        array_ends: vec![],
        dry_run: false,
    };
    let first = harness.command(&ana(), submit("d")).expect("taken");
    assert!(matches!(first, Reply::Submitted { repeated: false, n_jobs: 2, .. }));
    let again = harness.command(&ana(), submit("d")).expect("answered");
    let (Reply::Submitted { first: a, .. }, Reply::Submitted { first: b, repeated: true, .. }) =
        (first, again)
    else {
        panic!("not the same answer");
    };
    assert_eq!(a, b);
    assert_eq!(harness.control.world().jobs().len(), 2);
    let other = harness.command(&ana(), submit("another"));
    assert!(matches!(other, Err(Refusal::KeyReused { .. })));
    assert!(harness.command(&bo(), submit("another")).is_ok(), "keys are each caller's own");
    harness.restart();
    let after_restart = harness.command(&ana(), submit("d"));
    assert!(matches!(after_restart, Ok(Reply::Submitted { repeated: true, .. })));
}

#[test]
fn dependencies_must_exist_belong_to_the_caller_and_be_possible() {
    let mut harness = Harness::new(2);
    let absent = after(job("0"), JobId::single(99), DependencyKind::Ok);
    assert!(matches!(refusal(&mut harness, absent), Refusal::NoSuchJob { .. }));
    let first = harness.add(job("1"));
    let by_bo = harness.submit(&bo(), vec![after(job("0"), first, DependencyKind::Ok)]);
    assert!(matches!(by_bo, Err(Refusal::NotPermitted { .. })));
    harness.started(first);
    harness.exited(first, 1);
    let never = after(job("0"), first, DependencyKind::Ok);
    assert!(matches!(refusal(&mut harness, never), Refusal::DependencyNeverMet { .. }));
    let id = harness.add(after(job("0"), first, DependencyKind::Fail));
    assert_eq!(harness.state(id), JobState::Starting);
}

#[test]
fn the_end_of_a_job_that_left_memory_comes_from_the_caller() {
    let mut harness = Harness::new(2);
    let first = harness.add(job("1"));
    harness.started(first);
    harness.exited(first, 0);
    harness.restart();
    let jobs = vec![after(job("0"), first, DependencyKind::Ok)];
    let (outcome, began_at) = (Outcome::Succeeded, harness.now);
    let ends = vec![ArchivedDependency { job: first, outcome, began_at }];
    let submit = Command::Submit { jobs, key: None, ends, array_ends: vec![], dry_run: false };
    assert!(harness.command(&ana(), submit).is_ok());
}

#[test]
fn a_dry_run_says_where_or_why_not_and_changes_nothing() {
    let mut harness = Harness::new(2);
    harness.add(job("1"));
    let before = harness.control.revision();
    let jobs = vec![job("1"), job("2"), job("1").with(|it| it.standing.hold = true)];
    let submit =
        Command::Submit { jobs, key: None, ends: vec![], array_ends: vec![], dry_run: true };
    let Ok(Reply::WouldSubmit { forecasts }) = harness.command(&ana(), submit) else {
        panic!("no forecast");
    };
    assert_eq!(forecasts[0].placements[0].slots[0].index, 1);
    assert!(matches!(forecasts[1].reasons[..], [Reason::GpusNotFree { need: 2, free: 1, .. }]));
    assert!(matches!(forecasts[2].reasons[..], [Reason::HeldByUser { .. }]));
    assert_eq!(harness.control.revision(), before);
}

#[test]
fn numbers_are_given_out_once_even_after_a_restart() {
    let mut harness = Harness::new(1);
    let first = harness.add(job("1"));
    harness.started(first);
    harness.exited(first, 0);
    harness.restart();
    let second = harness.add(job("1"));
    assert_eq!(second.number, first.number.next());
}

/// A report of two devices; only the second caps shares.
fn one_capped() -> Report {
    let mut report = inventory(2);
    if let Report::Inventory { devices, .. } = &mut report {
        devices[1].enforced.share = Enforcement::Capped;
    }
    report
}

fn enforced(gpus: &str, enforce: Enforcement) -> NewJob {
    let mut new = job(gpus);
    new.request.gpus.enforce = enforce;
    new
}

#[test]
fn a_job_gets_a_device_with_the_enforcement_that_it_requests() {
    let mut harness = Harness::new(2);
    harness.report(one_capped());
    let devices = |harness: &Harness, id| {
        let row = harness.control.world().job(id).expect("it runs");
        let tasks = row.job.phase.allocations().iter().flat_map(|it| &it.slots);
        tasks.map(|slot| slot.index).collect::<Vec<_>>()
    };
    let plain = harness.add(job("0.5"));
    let capped = harness.add(enforced("0.5", Enforcement::Capped));
    let beside = harness.add(enforced("0.5", Enforcement::Capped));
    let waits = harness.add(enforced("0.5", Enforcement::Capped));
    for (id, index) in [(plain, 0), (capped, 1), (beside, 1)] {
        assert_eq!(devices(&harness, id), [index], "{id}");
    }
    assert_eq!(harness.state(waits), JobState::Pending, "the first device does not cap");
    // Jobs that run are not affected by a level that falls.
    harness.started(capped);
    harness.report(inventory(2));
    assert_eq!(harness.state(capped), JobState::Running);
}

#[test]
fn an_enforcement_that_no_device_has_is_refused_with_the_best() {
    let mut harness = Harness::new(2);
    harness.report(one_capped());
    match refusal(&mut harness, enforced("0.5", Enforcement::Isolated)) {
        Refusal::ImpossibleGpus { strongest, .. } => {
            assert_eq!(strongest, Some(Enforcement::Capped));
        }
        other => panic!("{other:?}"),
    }
    // One device of that level is too few.
    match refusal(&mut harness, enforced("2@0.5", Enforcement::Capped)) {
        Refusal::ImpossibleGpus { strongest, .. } => {
            assert_eq!(strongest, Some(Enforcement::Booked));
        }
        other => panic!("{other:?}"),
    }
    match refusal(&mut harness, enforced("1", Enforcement::Monitored)) {
        Refusal::ImpossibleGpus { strongest, .. } => {
            assert_eq!(strongest, Some(Enforcement::Booked));
        }
        other => panic!("{other:?}"),
    }
}
