//! Evictions that help no job are found; those that free quota on other nodes are right.

use gpool_model::{Decision, JobId, Plan};
use gpool_scenario::Situation;
use gpool_sched::Workspace;
use gpool_verify::{Violation, verify, verify_fully};
use gpool_world::Snapshot;

/// Returns the violations of the plan after a change.
fn violations(text: &str, change: impl FnOnce(&mut Plan)) -> [Vec<Violation>; 2] {
    let world = Situation::parse(text).expect("the situation is understood").world();
    let snapshot = Snapshot { world: &world, now: Situation::NOW };
    let policy = world.policy();
    let mut plan = gpool_sched::plan(&snapshot, policy, &mut Workspace::default());
    change(&mut plan);
    [verify(&snapshot, policy, &plan), verify_fully(&snapshot, policy, &plan)]
}

/// Adds an eviction of a job for the first job that starts.
fn evict_too(plan: &mut Plan, victim: u64) {
    let first = plan.decisions[0].clone();
    let Decision::Evict { job, .. } = &first else { panic!("{first:?}") };
    let mut other = first.clone();
    assert_ne!(*job, JobId::single(victim));
    if let Decision::Evict { job, .. } = &mut other {
        *job = JobId::single(victim);
    }
    plan.decisions.insert(1, other);
    let Some(Decision::Start { after, .. }) = plan.decisions.last_mut() else { panic!("{plan:?}") };
    after.push(1);
}

const TWO_NODES: &str = "
    node lab1  1 x h100
    node lab2  1 x h100
    job  r  1  running lab1[0] 1h  preemptible  priority -5
    job  s  1  running lab2[0] 2h  preemptible  priority -5
    job  a  1  pending
";

#[test]
fn a_victim_on_another_node_than_its_beneficiary() {
    let none = violations(TWO_NODES, |_| {});
    assert_eq!(none, [vec![], vec![]]);
    let what = "it frees nothing that its beneficiary needs";
    let expected = Violation::WrongEviction { job: JobId::single(2), what };
    for found in violations(TWO_NODES, |plan| evict_too(plan, 2)) {
        assert_eq!(found, std::slice::from_ref(&expected));
    }
}

#[test]
fn a_victim_on_another_node_that_frees_quota() {
    let text = "
        project lab   gpus 2  limit 2
        project red   in lab  gpus 1
        project blue  in lab  gpus 1
        node lab1  2 x h100
        node lab2  1 x a100
        job  r  1       running lab1[0] 2h  project red  preemptible
        job  s  1       running lab1[1] 1h  project red  preemptible
        job  a  a100:1  pending  project blue
    ";
    let mut n_evicted = 0;
    let found = violations(text, |plan| {
        let is_eviction = |it: &&Decision| matches!(it, Decision::Evict { .. });
        n_evicted = plan.decisions.iter().filter(is_eviction).count();
    });
    assert_eq!((n_evicted, found), (1, [vec![], vec![]]));
}
