//! Caps of one user in a project: which jobs wait for them, and which start meanwhile.

use gpool_model::{Project, ProjectName};
use gpool_scenario::{Cluster, Situation, answer, reasons};
use gpool_sched::Workspace;
use insta::assert_snapshot;

/// I am at the cap in my project: do other users' jobs start, and mine in another project?
#[test]
fn a_user_at_the_cap_waits_in_that_project_only() {
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

/// Do the GPUs that I hold count, and those in another project?
#[test]
fn gpus_count_in_their_own_project() {
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

/// My department allows two jobs for each user: does it count my jobs in all of its projects?
#[test]
fn the_cap_of_a_department_counts_all_projects_below_it() {
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

/// A cap of zero GPUs: may jobs without GPUs still run?
#[test]
fn with_a_cap_of_no_gpus_jobs_without_gpus_run() {
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

/// I hold half a GPU of one that I may have: does another half start, and a whole one wait?
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

// The cluster and the project have a cap: the reason names the cluster's.
#[test]
fn the_cap_of_the_cluster_is_reported_before_that_of_the_project() {
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

// A project that gets a cap, moves below one, or loses it: the change counts at once.
#[test]
fn a_changed_cap_counts_at_once() {
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
