//! How much one user may have in a project: who waits for that, and who goes on meanwhile.

use gpool_model::{Project, ProjectName};
use gpool_scenario::{Cluster, Situation, answer, reasons};
use gpool_sched::Workspace;
use insta::assert_snapshot;

/// I am at the cap of my project: do others of it go on, and may I go on elsewhere?
#[test]
fn who_has_as_much_as_one_user_may_have_in_a_project_waits_there_alone() {
    assert_snapshot!(answer("
        node lab1  6 x h100
        project red  gpus 4  user-gpus 2
        project blue  gpus 2
        job  a  1 x 3  pending 1h  project red  uid 1001
        job  b  1      pending     project red  uid 1002
        job  c  1      pending     project blue  uid 1001
    "), @"
    start a1 lab1[0]
    start c lab1[1]
    start a2 lab1[2]
    start b lab1[3]
    wait  a3 quota_user_in_project u1001 in red gpus used 2000 most 2000
    ");
}

/// Does what I hold already count, and what runs in another project?
#[test]
fn what_is_held_counts_in_its_own_project() {
    assert_snapshot!(answer("
        node lab1  8 x h100
        project red  gpus 4  user-gpus 2
        project blue  gpus 4
        job  a  2  running lab1[0-1] 1h  project red  uid 1001
        job  b  2  running lab1[2-3] 1h  project blue  uid 1002
        job  c  1  pending  project red  uid 1001
        job  d  2  pending  project red  uid 1002
    "), @"
    start d lab1[4,5]
    wait  c quota_user_in_project u1001 in red gpus used 2000 most 2000
    ");
}

/// My department says two jobs for each: does it count what I run in all of its projects?
#[test]
fn the_cap_of_a_department_counts_all_below_it() {
    assert_snapshot!(answer("
        node lab1  8 x h100
        project lab   gpus 8  user-running 2
        project red   in lab  gpus 4
        project blue  in lab  gpus 4  user-running 1
        job  a  1  running lab1[0] 1h  project red  uid 1001
        job  b  1 x 2  pending 1h  project blue  uid 1001
        job  c  0      pending     project red  uid 1001
        job  d  1 x 2  pending     project red  uid 1002
    "), @"
    start b1 lab1[1]
    start d1 lab1[2]
    start d2 lab1[3]
    wait  c quota_user_in_project u1001 in lab jobs used 2 most 2
    wait  b2 quota_user_in_project u1001 in blue jobs used 1 most 1
    ");
}

/// A cap of nothing: may jobs without GPUs still run?
#[test]
fn who_may_have_no_gpus_in_a_project_runs_without() {
    assert_snapshot!(answer("
        node lab1  2 x h100
        project red  gpus 2  user-gpus 0
        job  a  1  pending  project red  uid 1001
        job  b  0  pending  project red  uid 1001
    "), @"
    start b lab1
    wait  a quota_user_in_project u1001 in red gpus used 0 most 0
    ");
}

/// I hold half a GPU of one that I may have: is a half let in, and a whole kept out?
#[test]
fn parts_of_devices_count_as_parts() {
    assert_snapshot!(answer("
        node lab1  2 x h100
        project red  gpus 2  user-gpus 1
        job  a  0.5  running lab1[0] 1h  project red  uid 1001
        job  b  1    pending 1h  project red  uid 1001
        job  c  0.5  pending     project red  uid 1001
    "), @"
    start c lab1[0]
    wait  b quota_user_in_project u1001 in red gpus used 1000 most 1000
    ");
}

// Both the cluster and my project have a cap: which one am I told?
#[test]
fn the_cap_of_the_cluster_is_told_before_that_of_the_project() {
    let text = "
        node lab1  4 x h100
        cap all  gpus 1
        project red  gpus 4  user-running 1
        job  a  1  running lab1[0] 1h  project red  uid 1001
        job  b  1  pending  project red  uid 1001
        job  c  0  pending  project red  uid 1001
    ";
    assert_snapshot!(answer(text), @"
    wait  c quota_user_in_project u1001 in red jobs used 1 most 1
    wait  b quota_user gpus used 1000 most 1000
    ");
    assert_snapshot!(reasons(text), @"
    b   quota_user gpus used 1000 most 1000
        ahead_in_order 1 ahead, last job 3
    c   quota_user_in_project u1001 in red jobs used 1 most 1
    ");
}

// A project that comes by a cap, moves below one or loses it, has it from then on.
#[test]
fn caps_hold_from_when_they_are_said() {
    let text = "
        node lab1  4 x h100
        project lab
        project red  gpus 4
        job  a  1  running lab1[0] 1h  project red  uid 1001
        job  b  1  pending  project red  uid 1001
    ";
    let situation = Situation::parse(text).unwrap();
    let mut cluster = Cluster::of(&situation);
    let mut caps_after = |name: &str, change: fn(&mut Project)| {
        let world = cluster.world_mut();
        let mut project = world.projects()[&ProjectName::new(name)].clone();
        change(&mut project);
        world.put_project(project);
        let snapshot = cluster.snapshot();
        assert_eq!(gpool_verify::check(&snapshot), []);
        let plan = gpool_sched::plan(&snapshot, snapshot.world.policy(), &mut Workspace::default());
        assert_eq!(gpool_verify::verify_fully(&snapshot, snapshot.world.policy(), &plan), []);
        plan.waits.iter().map(|wait| wait.reason.code()).collect::<Vec<_>>()
    };
    assert!(caps_after("red", |_| {}).is_empty());
    assert!(caps_after("lab", |it| it.user_caps.running_jobs = Some(1)).is_empty());
    let below = |it: &mut Project| it.parent = Some(ProjectName::new("lab"));
    assert_eq!(caps_after("red", below), ["quota_user_in_project"]);
    assert!(caps_after("lab", |it| it.user_caps.running_jobs = Some(2)).is_empty());
    assert_eq!(
        caps_after("red", |it| it.user_caps.running_jobs = Some(0)),
        ["quota_user_in_project"]
    );
    assert!(caps_after("red", |it| it.user_caps.running_jobs = None).is_empty());
}
