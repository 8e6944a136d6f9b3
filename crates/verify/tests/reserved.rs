//! Plans that start a job on capacity reserved for others are refused.

#![allow(clippy::unwrap_used, reason = "a test that meets the unexpected ends there")]

use gpool_model::{Attempt, Decision, JobId, NodeName, Placement, Plan, ReservationName, Slot};
use gpool_model::{DeviceUuid, SlotPart};
use gpool_scenario::Situation;
use gpool_sched::{Workspace, plan};
use gpool_verify::{Violation, verify, verify_fully};
use gpool_world::{Snapshot, World};

/// Returns the violations of a plan that starts the job `x` on the first device of lab1.
fn found(text: &str) -> Vec<Violation> {
    let situation = Situation::parse(text).unwrap();
    let world: World = situation.world();
    let x = situation.jobs.iter().find(|(spec, _)| &*spec.name == "x").unwrap().0.id;
    let snapshot = Snapshot { world: &world, now: situation.now };
    // The scheduler itself does not start the job there.
    let made = plan(&snapshot, world.policy(), &mut Workspace::default());
    assert_eq!(verify_fully(&snapshot, world.policy(), &made), []);
    let device = DeviceUuid::new("GPU-lab1-0");
    let slots = vec![Slot { index: 0, device, part: SlotPart::Whole }];
    let placement = Placement { node: NodeName::new("lab1"), slots };
    let start = |job: JobId| Decision::Start {
        job,
        attempt: Attempt::FIRST,
        placements: vec![placement.clone()],
        after: vec![],
    };
    let forced = Plan { basis: world.revision(), decisions: vec![start(x)], ..Plan::default() };
    let found = verify(&snapshot, world.policy(), &forced);
    let fully = verify_fully(&snapshot, world.policy(), &forced);
    assert!(found.iter().all(|one| fully.contains(one)), "{found:?} {fully:?}");
    found
}

fn refused() -> Vec<Violation> {
    vec![Violation::Reserved {
        job: JobId::single(1),
        node: NodeName::new("lab1"),
        reservation: ReservationName::new("r1"),
    }]
}

#[test]
fn an_outsider_on_reserved_devices_is_refused() {
    for reserve in [
        "lab1[0] for uid 1001 begun 1h",
        "lab1 for uid 1001 begun 1h",
        "lab1[0] for project nlp begun 1h",
        "lab1[0] for nobody begun 1h",
        // Before the window begins: a job without a limit is not certain to have left.
        "lab1[0] for uid 1001 in 2h long 4h",
        "lab1[0] for uid 1001 in 2h long 4h every 24h",
    ] {
        let text = format!("node lab1 2 x h100\njob x 1 pending\nreserve r1 {reserve}");
        assert_eq!(found(&text), refused(), "{reserve}");
    }
    // The grace counts.
    let text = "node lab1 1 x h100\njob x 1 pending limit 2h\n\
                reserve r1 lab1[0] for uid 1001 in 2h long 4h";
    assert_eq!(found(text), refused());
}

#[test]
fn a_reservation_admits_its_own_jobs_and_jobs_that_end_before_it() {
    for (job, reserve) in [
        ("pending uid 1001", "lab1[0] for uid 1001 begun 1h"),
        ("pending project nlp", "lab1[0] for project nlp begun 1h"),
        ("pending limit 1h", "lab1[0] for uid 1001 in 2h long 4h"),
        ("pending", "lab1[1] for uid 1001 begun 1h"),
    ] {
        let text = format!("node lab1 2 x h100\njob x 1 {job}\nreserve r1 {reserve}");
        assert_eq!(found(&text), [], "{job} {reserve}");
    }
}
