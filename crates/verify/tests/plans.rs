//! Corrupts a good plan in every possible way; each corruption is found.

use std::mem;
use std::sync::Arc;

use gpool_model::job::JobState;
use gpool_model::{
    Attempt, Decision, DeviceUuid, JobId, NodeName, Plan, Reason, ResourceKind, Revision, Slot,
    SlotPart, TaskId,
};
use gpool_scenario::Situation;
use gpool_sched::Workspace;
use gpool_verify::{Unusable, Violation, verify, verify_fully};
use gpool_world::{Snapshot, World};

/// Has an example of everything that a plan may get wrong: of 6 pending jobs, 1 and 2 start on the
/// devices 0, 1 and 2 of lab1; 3 and 4 wait.
const SITUATION: &str = "
    node lab1  4 x h100 + 1 x a100 + 1 x h100  cpus 8  mem 32G  tasks 5
    node lab2  1 x h100  unreachable
    gpu  lab1[5]  unmanaged by bob
    job  small    1       pending 9m  cpus 2
    job  two      2       pending 8m
    job  another  2       pending 7m
    job  three    h100:3  pending 6m
    job  runs     h100:1  running lab1[3]  mem 30G
    job  held     1       held
";

const SMALL: JobId = JobId { number: gpool_model::JobNumber(1), element: None };

fn id(number: u64) -> JobId {
    JobId::single(number)
}

fn device(node: &str, position: u32) -> DeviceUuid {
    DeviceUuid::new(format!("GPU-{node}-{position}"))
}

fn slot(node: &str, index: u32) -> Slot {
    Slot { index, device: device(node, index), part: SlotPart::Whole }
}

fn lab1() -> NodeName {
    NodeName::new("lab1")
}

fn task(job: u64) -> TaskId {
    TaskId { job: id(job), attempt: Attempt::FIRST, rank: 0 }
}

/// A situation with its plan, to be changed.
struct Spoiled {
    world: World,
    now: gpool_model::Timestamp,
    plan: Plan,
}

impl Spoiled {
    fn of(text: &str) -> Self {
        let situation = Situation::parse(text).expect("the situation is understood");
        let world = situation.world();
        let snapshot = Snapshot { world: &world, now: situation.now };
        let plan = gpool_sched::plan(&snapshot, world.policy(), &mut Workspace::default());
        let spoiled = Self { now: situation.now, plan, world };
        assert_eq!(spoiled.fully(), vec![], "the plan is good before it is spoiled");
        spoiled
    }

    fn fully(&self) -> Vec<Violation> {
        let snapshot = Snapshot { world: &self.world, now: self.now };
        verify_fully(&snapshot, self.world.policy(), &self.plan)
    }

    fn cheaply(&self) -> Vec<Violation> {
        let snapshot = Snapshot { world: &self.world, now: self.now };
        verify(&snapshot, self.world.policy(), &self.plan)
    }
}

/// The parts of a start.
struct Start<'a> {
    job: &'a mut JobId,
    attempt: &'a mut Attempt,
    placements: &'a mut Vec<gpool_model::Placement>,
    after: &'a mut Vec<u32>,
}

fn start(plan: &mut Plan, position: usize) -> Start<'_> {
    match &mut plan.decisions[position] {
        Decision::Start { job, attempt, placements, after }
        | Decision::Resume { job, attempt, placements, after } => {
            Start { job, attempt, placements, after }
        }
        Decision::Evict { .. } => panic!("decision {position} starts nothing"),
    }
}

fn slots(plan: &mut Plan, position: usize) -> &mut Vec<Slot> {
    &mut start(plan, position).placements[0].slots
}

/// Both modes find the violation.
fn found(spoil: impl FnOnce(&mut Plan), expected: &Violation) {
    let mut spoiled = Spoiled::of(SITUATION);
    spoil(&mut spoiled.plan);
    let cheaply = spoiled.cheaply();
    assert!(cheaply.contains(expected), "expected {expected}, found {cheaply:#?}");
    assert!(spoiled.fully().contains(expected), "only the cheap mode finds {expected}");
    assert!(!expected.to_string().is_empty());
}

/// Only the full mode can find the violation.
fn found_fully(spoil: impl FnOnce(&mut Plan), expected: &Violation) {
    let mut spoiled = Spoiled::of(SITUATION);
    spoil(&mut spoiled.plan);
    let fully = spoiled.fully();
    assert!(fully.contains(expected), "expected {expected}, found {fully:#?}");
}

#[test]
fn the_plan_is_the_one_that_the_tests_spoil() {
    let plan = Spoiled::of(SITUATION).plan;
    let jobs: Vec<_> = plan
        .decisions
        .iter()
        .filter_map(Decision::started)
        .map(|(job, placements)| {
            let indexes: Vec<_> = placements[0].slots.iter().map(|slot| slot.index).collect();
            (job.number.0, indexes)
        })
        .collect();
    assert_eq!(jobs, [(1, vec![0]), (2, vec![1, 2])]);
    assert_eq!(plan.waits.len(), 2);
}

#[test]
fn a_plan_of_another_state() {
    found(
        |plan| plan.basis = Revision(99),
        &Violation::WrongBasis { plan: Revision(99), world: Revision(1) },
    );
}

#[test]
fn jobs_that_may_not_start() {
    found(|plan| *start(plan, 0).job = id(77), &Violation::NoSuchJob { job: id(77) });
    for (job, state) in [(5, JobState::Running), (6, JobState::Held)] {
        found(|plan| *start(plan, 0).job = id(job), &Violation::NotPending { job: id(job), state });
    }
    found(
        |plan| plan.decisions.push(plan.decisions[0].clone()),
        &Violation::StartedTwice { job: SMALL },
    );
    found(
        |plan| *start(plan, 0).attempt = Attempt(2),
        &Violation::WrongAttempt { job: SMALL, plan: Attempt(2), next: Attempt(1) },
    );
}

#[test]
fn more_or_fewer_places_than_tasks() {
    found(
        |plan| start(plan, 0).placements.clear(),
        &Violation::WrongNumberOfTasks { job: SMALL, places: 0, tasks: 1 },
    );
    found(
        |plan| {
            let one = start(plan, 0).placements[0].clone();
            start(plan, 0).placements.push(one);
        },
        &Violation::WrongNumberOfTasks { job: SMALL, places: 2, tasks: 1 },
    );
}

#[test]
fn decisions_that_wait_for_later_ones() {
    for after in [1, 2] {
        found(
            |plan| start(plan, 1).after.push(after),
            &Violation::AfterLater { decision: 1, after },
        );
    }
    let mut good = Spoiled::of(SITUATION);
    start(&mut good.plan, 1).after.push(0);
    assert_eq!(good.fully(), vec![]);
}

#[test]
fn nodes_that_are_not_there() {
    let lab3 = NodeName::new("lab3");
    found(
        |plan| start(plan, 0).placements[0].node = lab3.clone(),
        &Violation::NoSuchNode { job: SMALL, node: lab3.clone() },
    );
    let lab2 = NodeName::new("lab2");
    found(
        |plan| {
            start(plan, 0).placements[0].node = lab2.clone();
            *slots(plan, 0) = vec![slot("lab2", 0)];
        },
        &Violation::NotConnected { job: SMALL, node: lab2.clone() },
    );
}

#[test]
fn devices_of_another_node_or_index() {
    found(
        |plan| *slots(plan, 0) = vec![slot("lab2", 0)],
        &Violation::NoSuchDevice { job: SMALL, node: lab1(), device: device("lab2", 0) },
    );
    found(
        |plan| slots(plan, 0)[0].index = 7,
        &Violation::WrongIndex { job: SMALL, device: device("lab1", 0), slot_index: 7, index: 0 },
    );
}

#[test]
fn more_fewer_or_repeated_devices() {
    found(
        |plan| slots(plan, 0).clear(),
        &Violation::WrongNumberOfDevices { job: SMALL, n_requested: 1, n_assigned: 0 },
    );
    found(
        |plan| slots(plan, 0).push(slot("lab1", 4)),
        &Violation::WrongNumberOfDevices { job: SMALL, n_requested: 1, n_assigned: 2 },
    );
    found(
        |plan| slots(plan, 1).reverse(),
        &Violation::SlotsOutOfOrder { job: id(2), node: lab1() },
    );
    found(
        |plan| *slots(plan, 1) = vec![slot("lab1", 1), slot("lab1", 1)],
        &Violation::SlotsOutOfOrder { job: id(2), node: lab1() },
    );
}

#[test]
fn devices_of_another_kind() {
    let text = SITUATION.replace("1       pending 9m", "h100:1  pending 9m");
    let mut spoiled = Spoiled::of(&text);
    *slots(&mut spoiled.plan, 0) = vec![slot("lab1", 4)];
    let expected = Violation::WrongKind { job: SMALL, device: device("lab1", 4) };
    assert!(spoiled.cheaply().contains(&expected), "{:?}", spoiled.cheaply());

    let text = "
        node lab1  1 x h100 + 2 x a100
        job  a  h100|a100:2  pending
    ";
    let mut spoiled = Spoiled::of(text);
    *slots(&mut spoiled.plan, 0) = vec![slot("lab1", 0), slot("lab1", 1)];
    assert_eq!(spoiled.cheaply(), vec![Violation::MixedKinds { job: SMALL }]);
}

#[test]
fn devices_with_too_little_memory() {
    let mut spoiled = Spoiled::of(
        "
        node lab1  1 x a100-40g + 1 x a100-80g
        job  a  60G..:1  pending
        ",
    );
    *slots(&mut spoiled.plan, 0) = vec![slot("lab1", 0)];
    let expected = Violation::WrongKind { job: SMALL, device: device("lab1", 0) };
    assert_eq!(spoiled.cheaply(), vec![expected]);
}

#[test]
fn devices_that_new_work_may_not_use() {
    for (word, why) in [
        ("unhealthy", Unusable::Unhealthy),
        ("lost", Unusable::Unhealthy),
        ("unknown", Unusable::Unhealthy),
        ("unmanaged", Unusable::Unmanaged),
        ("forbidden", Unusable::NotAllowed),
        ("mig", Unusable::Divided),
        ("occupied", Unusable::Guest),
    ] {
        let mut spoiled = Spoiled::of(&format!(
            "
            node lab1  2 x h100
            gpu  lab1[1]  {word}
            job  a  1  pending
            "
        ));
        *slots(&mut spoiled.plan, 0) = vec![slot("lab1", 1)];
        let expected = Violation::DeviceUnusable { job: SMALL, device: device("lab1", 1), why };
        assert!(spoiled.cheaply().contains(&expected), "{word}: {:?}", spoiled.cheaply());
    }
}

#[test]
fn devices_that_belong_to_others() {
    // A device of a running job, of a leaving one, and of another job of the same plan.
    found(
        |plan| *slots(plan, 0) = vec![slot("lab1", 3)],
        &Violation::DeviceGivenTwice {
            node: lab1(),
            device: device("lab1", 3),
            first: task(5),
            second: task(1),
        },
    );
    found(
        |plan| *slots(plan, 1) = vec![slot("lab1", 0), slot("lab1", 2)],
        &Violation::DeviceGivenTwice {
            node: lab1(),
            device: device("lab1", 0),
            first: task(1),
            second: task(2),
        },
    );
    let mut spoiled = Spoiled::of(
        "
        node lab1  2 x h100
        job  a  1  pending
        job  b  1  stopping lab1[1]
        ",
    );
    *slots(&mut spoiled.plan, 0) = vec![slot("lab1", 1)];
    let expected = Violation::DeviceGivenTwice {
        node: lab1(),
        device: device("lab1", 1),
        first: task(2),
        second: task(1),
    };
    assert_eq!(spoiled.cheaply(), vec![expected]);
}

#[test]
fn more_than_the_node_has_beside_devices() {
    for (words, kind, capacity, booked) in [
        ("cpus 2", ResourceKind::Cpu, 3_000, 4_000),
        ("mem 2G", ResourceKind::Memory, 3 << 30, 4 << 30),
        ("", ResourceKind::Tasks, 1, 2),
    ] {
        let tasks = if words.is_empty() { 1 } else { 9 };
        let mut spoiled = Spoiled::of(&format!(
            "
            node lab1  2 x h100  cpus 3  mem 3G  tasks {tasks}
            job  a  1 x 2  pending  {words}
            "
        ));
        let mut second = spoiled.plan.decisions[0].clone();
        if let Decision::Start { job, placements, .. } = &mut second {
            *job = id(2);
            placements[0].slots = vec![slot("lab1", 1)];
        }
        spoiled.plan.decisions.push(second);
        let expected = Violation::Overbooked { node: lab1(), kind, capacity, booked };
        assert_eq!(spoiled.cheaply(), vec![expected]);
    }
}

#[test]
fn jobs_that_are_passed_over() {
    // Job 3 asks for the same as job 2 and came later.
    let passed = Violation::OutOfOrder { started: id(3), passed: id(2) };
    found_fully(|plan| *start(plan, 1).job = id(3), &passed);
    // Within a plan the cheap mode finds it too.
    let mut spoiled = Spoiled::of(
        "
        node lab1  2 x h100
        job  a  1 x 2  pending
        ",
    );
    spoiled.plan.decisions.reverse();
    let swapped = Violation::OutOfOrder { started: id(2), passed: id(1) };
    assert_eq!(spoiled.cheaply(), vec![swapped]);
}

#[test]
fn every_key_of_the_order_counts() {
    for (order, first, second) in [
        ("priority", "pending  priority 1", "pending 9m"),
        ("escalated", "pending 25h  submitted 1m", "pending 23h"),
        ("age", "pending 2m  priority 1", "pending 1m  priority 2"),
        ("priority,escalated,gpus,age", "pending 2m", "pending 1m"),
        ("id", "pending 2m", "pending 1m"),
        ("id", "pending", "pending"),
    ] {
        let mut spoiled = Spoiled::of(&format!(
            "
            policy order {order}
            node lab1  1 x h100
            job  a  1  {first}
            job  b  1  {second}
            "
        ));
        *start(&mut spoiled.plan, 0).job = id(2);
        let expected = Violation::OutOfOrder { started: id(2), passed: id(1) };
        assert!(spoiled.fully().contains(&expected), "{order}: {:?}", spoiled.fully());
    }
}

#[test]
fn jobs_that_are_left_waiting_although_they_fit() {
    found_fully(
        |plan| drop(plan.decisions.pop()),
        &Violation::FitsAndWaits { job: id(2), node: lab1() },
    );
    found_fully(
        |plan| plan.decisions.clear(),
        &Violation::FitsAndWaits { job: id(1), node: lab1() },
    );
}

#[test]
fn waits_that_are_wrong() {
    let plan = Spoiled::of(SITUATION).plan;
    let shape = Box::new((*plan.waits[0].shape).clone());
    found_fully(
        |plan| drop(plan.waits.remove(0)),
        &Violation::WrongWait { shape: shape.clone(), planned: 0, waiting: 1 },
    );
    found_fully(
        |plan| plan.waits[0].n_jobs = 5,
        &Violation::WrongWait { shape: shape.clone(), planned: 5, waiting: 1 },
    );
    found_fully(
        |plan| plan.waits.push(plan.waits[0].clone()),
        &Violation::WaitTwice { shape: shape.clone() },
    );
    let mut unknown = shape.clone();
    unknown.priority = 7;
    found_fully(
        |plan| {
            let mut wait = plan.waits[0].clone();
            Arc::make_mut(&mut wait.shape).priority = 7;
            wait.n_jobs = 0;
            plan.waits.push(wait);
        },
        &Violation::WrongWait { shape: unknown, planned: 0, waiting: 0 },
    );
}

/// Replaces the reason of the only wait of a situation.
fn with_reason(text: &str, reason: &Reason) -> Vec<Violation> {
    let mut spoiled = Spoiled::of(text);
    let good = mem::replace(&mut spoiled.plan.waits[0].reason, reason.clone());
    assert_ne!(good, *reason, "the reason is another one");
    spoiled.fully()
}

fn not_free(need: u32, free: u32) -> Reason {
    Reason::GpusNotFree { need, free, of_instances: false }
}

fn not_free_together(need: u32, free: u32, node: NodeName) -> Reason {
    Reason::GpusNotFreeTogether { need, free, node, of_instances: false }
}

#[test]
fn reasons_that_are_not_so() {
    let busy = "
        node lab1  2 x h100
        node lab2  2 x h100
        job  a  1  running lab1[0]
        job  b  1  running lab2[0]
        job  c  2  pending
    ";
    let short = "
        node lab1  2 x h100  cpus 4
        job  a  1  running lab1[0]  cpus 3
        job  c  1  pending  cpus 2
    ";
    let (node, gpus) = (lab1(), |text| gpool_model::GpuRequest::parse(text).expect("valid"));
    let gib = gpool_model::Bytes::from_gib;
    for (text, reason) in [
        (busy, not_free(2, 1)),
        (busy, not_free(3, 2)),
        (busy, Reason::GpusNotFree { need: 2, free: 2, of_instances: true }),
        (busy, not_free_together(2, 0, node.clone())),
        (busy, not_free_together(2, 1, NodeName::new("lab3"))),
        (busy, Reason::GpuModelMissing { asked: gpus("2"), most: 1 }),
        (busy, Reason::GpuMemoryTooSmall { need: gib(100), largest: gib(80) }),
        (busy, Reason::AgentUnreachable { node: node.clone(), since: None }),
        (busy, Reason::WaitsForJob { job: id(1), kind: gpool_model::DependencyKind::Ok }),
        (short, not_free(1, 0)),
        (
            short,
            Reason::CpuOrMemShort {
                kind: ResourceKind::Cpu,
                need: 2_000,
                free: 0,
                node: node.clone(),
            },
        ),
        (short, Reason::CpuOrMemShort { kind: ResourceKind::Tasks, need: 1, free: 0, node }),
    ] {
        let found = with_reason(text, &reason);
        match &found[..] {
            [Violation::ReasonUntrue { reason: told, .. }] => assert_eq!(*told, reason),
            other => panic!("{reason:?}: {other:?}"),
        }
    }
}
