//! States that contradict themselves, made through the functions of the world, which trust their
//! callers; each contradiction is found.

use gpool_model::job::{JobEnd, JobState, Usage};
use gpool_model::record::ClusterRecord;
use gpool_model::{
    Allocation, AllocationState, Attempt, Generation, Job, JobId, MilliCpu, Millis, NodeName,
    Outcome, Phase, ResourceKind, Slot, SlotPart, TaskId, Timestamp,
};
use gpool_scenario::Situation;
use gpool_verify::{Violation, check};
use gpool_world::{Snapshot, World};

const SITUATION: &str = "
    node lab1  3 x h100 + 1 x a100  cpus 8  mem 64G  tasks 3
    job  a  h100|a100:2  running lab1[0,1] 5m  cpus 4
    job  b  1            stopping lab1[2]
    job  c  1            pending 5m
    job  d  1            waiting  after c
    job  e  1            held
";

fn id(number: u64) -> JobId {
    JobId::single(number)
}

fn world() -> World {
    Situation::parse(SITUATION).expect("the situation is understood").world()
}

fn violations(world: &World) -> Vec<Violation> {
    check(&Snapshot { world, now: Situation::NOW })
}

/// Changes one job and returns the violations.
fn changed(number: u64, change: impl FnOnce(&mut Job)) -> Vec<Violation> {
    let mut world = world();
    let mut job = world.job(id(number)).expect("it is there").job.clone();
    change(&mut job);
    world.put_job(job);
    violations(&world)
}

/// Changes the allocation of one job and returns the violations.
fn changed_allocation(number: u64, change: impl FnOnce(&mut Allocation)) -> Vec<Violation> {
    changed(number, |job| match &mut job.phase {
        Phase::Running { allocations, .. } | Phase::Stopping { allocations, .. } => {
            change(&mut allocations[0]);
        }
        other => panic!("holds nothing: {other:?}"),
    })
}

fn assert_found(found: &[Violation], expected: &Violation) {
    assert!(found.contains(expected), "expected {expected}, found {found:#?}");
}

#[test]
fn a_good_state_is_good() {
    assert_eq!(violations(&world()), vec![]);
}

#[test]
fn devices_that_two_tasks_hold() {
    let found = changed_allocation(1, |allocation| {
        allocation.slots[1] = Slot { index: 2, device: device(2), part: SlotPart::Whole };
    });
    // Job 2 is leaving, but has not left.
    let [first, second] = [task(1), task(2)];
    let node = NodeName::new("lab1");
    let expected = Violation::DeviceGivenTwice { node, device: device(2), first, second };
    assert_eq!(found, vec![expected]);
}

#[test]
fn a_claim_may_stand_on_what_is_being_left() {
    let mut world = world();
    let mut job = world.job(id(3)).expect("it is there").job.clone();
    let spec = world.job(id(3)).expect("it is there").spec.clone();
    let slots = vec![Slot { index: 2, device: device(2), part: SlotPart::Whole }];
    let claim = Allocation {
        task: task(3),
        node: NodeName::new("lab1"),
        resources: spec.resources(0, &slots),
        slots,
        state: AllocationState::Claimed { after: vec![task(2)] },
    };
    job.phase = Phase::Starting { allocations: vec![claim], since: Situation::NOW };
    world.put_job(job.clone());
    assert_eq!(violations(&world), vec![]);
    // Job 1 stays, and a job that waits for nothing has to start.
    for (after, expected) in [
        (vec![task(1), task(2)], Violation::ClaimBehindOther(id(3), task(1))),
        (vec![task(4)], Violation::ClaimUnused(id(3))),
    ] {
        job.phase.allocations_mut()[0].state = AllocationState::Claimed { after };
        world.put_job(job.clone());
        assert_eq!(violations(&world), [expected]);
    }
    // Once the job is placed it may not.
    if let Phase::Starting { allocations, .. } = &mut job.phase {
        allocations[0].state = AllocationState::Placed;
    }
    world.put_job(job);
    let [first, second] = [task(2), task(3)];
    let node = NodeName::new("lab1");
    let expected = Violation::DeviceGivenTwice { node, device: device(2), first, second };
    assert_found(&violations(&world), &expected);
}

fn device(position: u32) -> gpool_model::DeviceUuid {
    gpool_model::DeviceUuid::new(format!("GPU-lab1-{position}"))
}

fn task(number: u64) -> TaskId {
    TaskId { job: id(number), attempt: Attempt::FIRST, rank: 0 }
}

#[test]
fn allocations_that_are_not_what_was_asked() {
    let job = id(1);
    let found = changed_allocation(1, |allocation| allocation.slots.truncate(1));
    assert_found(&found, &Violation::WrongNumberOfDevices { job, n_requested: 2, n_assigned: 1 });

    let found = changed_allocation(1, |allocation| {
        let cpus = MilliCpu::from_cores(5);
        allocation.resources = allocation.resources.clone().with_cpus(cpus);
    });
    assert_found(&found, &Violation::WrongResources { job });

    let found = changed_allocation(1, |allocation| {
        allocation.slots[1] = Slot { index: 3, device: device(3), part: SlotPart::Whole };
    });
    assert_eq!(found, vec![Violation::MixedKinds { job }]);

    let found = changed_allocation(1, |allocation| {
        allocation.slots[1] = allocation.slots[0].clone();
    });
    assert_found(&found, &Violation::SlotsOutOfOrder { job, node: NodeName::new("lab1") });

    let found = changed_allocation(1, |allocation| allocation.task.attempt = Attempt(2));
    assert_found(
        &found,
        &Violation::WrongTask { job, task: TaskId { attempt: Attempt(2), ..task(1) } },
    );

    let found = changed(1, |job| match &mut job.phase {
        Phase::Running { allocations, .. } => allocations.clear(),
        other => panic!("it runs: {other:?}"),
    });
    assert_found(&found, &Violation::WrongNumberOfTasks { job, places: 0, tasks: 1 });
}

#[test]
fn a_device_of_another_kind() {
    let text = SITUATION.replace("h100|a100:2  running lab1[0,1]", "h100:1 running lab1[3]");
    let world = Situation::parse(&text).expect("the situation is understood").world();
    let expected = Violation::WrongKind { job: id(1), device: device(3) };
    assert_eq!(violations(&world), vec![expected]);
}

#[test]
fn allocations_that_are_held_otherwise_than_the_state_says() {
    for (number, state, held) in [
        (1, JobState::Running, AllocationState::Placed),
        (1, JobState::Running, AllocationState::Releasing { deadline: Situation::NOW }),
        (2, JobState::Stopping, AllocationState::Running),
    ] {
        let found = changed_allocation(number, |allocation| allocation.state = held);
        assert_found(&found, &Violation::WrongAllocationState { job: id(number), state });
    }
}

#[test]
fn more_booked_than_there_is() {
    let mut world = world();
    let mut node = world.nodes()[0].node.clone();
    node.capacity.set(ResourceKind::Cpu, 3_000);
    world.put_node(node.clone());
    let expected = Violation::Overbooked {
        node: node.name,
        kind: ResourceKind::Cpu,
        capacity: 3_000,
        booked: 4_000,
    };
    assert_eq!(violations(&world), vec![expected]);
}

#[test]
fn numbers_that_do_not_count() {
    assert_found(
        &changed(1, |job| job.generation = Generation(0)),
        &Violation::NotCounted { job: id(1) },
    );
    assert_found(
        &changed(3, |job| job.attempt = Attempt(0)),
        &Violation::NotCounted { job: id(3) },
    );
    let mut world = world();
    world.put_cluster(ClusterRecord::default());
    assert_found(&violations(&world), &Violation::UnassignedNumber { job: id(5) });
}

fn end(job: &mut Job) {
    job.phase = Phase::Ended(Box::new(JobEnd {
        outcome: Outcome::Succeeded,
        cause: None,
        exit: None,
        started_at: None,
        ended_at: Situation::NOW,
        usage: Usage::default(),
        allocations: vec![],
        resized: 0,
        steps: gpool_model::Rare::default(),
    }));
}

#[test]
fn jobs_that_wait_for_nothing() {
    assert_eq!(changed(3, end), vec![Violation::WaitsForNothing { job: id(4) }]);
}

/// Returns a world with the records of job 3 alone, after a change.
fn with_job(change: impl FnOnce(&mut Job)) -> World {
    let full = world();
    let row = full.job(id(3)).expect("it is there").clone();
    let mut job = row.job;
    change(&mut job);
    let mut world = Situation::empty().world();
    world.put_cluster(full.cluster().clone());
    world.add_job(row.spec, job);
    world
}

#[test]
fn jobs_that_have_ended_and_did_not_leave() {
    let found = violations(&with_job(end));
    assert_found(&found, &Violation::EndedInMemory { job: id(3) });
    let how = "job 3 has ended and was not archived".to_owned();
    assert_found(&found, &Violation::LoadsDifferently { how });
}

#[test]
fn records_of_two_jobs_under_one_id() {
    let found = violations(&with_job(|job| job.id = id(5)));
    assert_found(&found, &Violation::MixedRecords { job: id(5) });
}

#[test]
fn a_state_that_was_not_advanced() {
    let world = world();
    let now = Situation::NOW.after(Millis::from_hours(24));
    let found = check(&Snapshot { world: &world, now });
    let is_queue = |violation: &Violation| {
        matches!(violation, Violation::WrongIndexEntry { index: "pending jobs", .. })
    };
    assert!(found.iter().any(is_queue), "{found:?}");
    let how = "its pending jobs".to_owned();
    assert_found(&found, &Violation::LoadsDifferently { how });
    let mut advanced = world;
    advanced.advance(now);
    assert_eq!(check(&Snapshot { world: &advanced, now }), vec![]);
    assert!(advanced.next_timer().is_none_or(|timer: Timestamp| timer > now));
}

#[test]
fn a_node_that_lists_one_device_twice() {
    let mut world = world();
    let mut node = world.nodes()[0].node.clone();
    node.devices[3].uuid = node.devices[0].uuid.clone();
    world.put_node(node.clone());
    let what = format!("device {}", device(0));
    assert_found(&violations(&world), &Violation::WrongLedger { node: node.name, what });
}
