//! The choice of victims (scheduling.md A3, A9, A10): a test for each rule that the public
//! scenarios hardly cover.

use gpool_kai::{Change, GpuAsk, Site, Stage, TaskSet, TaskState, Why};

use crate::small::{Small, became, free, guaranteed, share, sit};

/// Project `a` has a guarantee and no devices; `b` uses these nodes, with one job each.
fn borrowed(mine: i64, nodes: &[&str]) -> Small {
    let mut it = Small::new();
    it.leaf("a", guaranteed(mine, 0));
    it.leaf("b", guaranteed(0, 0));
    for name in nodes {
        it.node(name, 1);
        it.runs(&format!("b-{name}"), "b", 1, &[name]);
    }
    it
}

#[test]
fn a_gang_takes_back_node_by_node() {
    let mut it = borrowed(2000, &["n0", "n1", "n2"]);
    it.job("j", "a", 1, 2);
    // The newest first: n2 for the first task, then n1 for both.
    became(
        &it.after(&[Stage::Reclaim]),
        &[
            ("b-n0-0", "Running n0"),
            ("b-n1-0", "Releasing n1"),
            ("b-n2-0", "Releasing n2"),
            ("j-0", "Pipelined n1"),
            ("j-1", "Pipelined n2"),
        ],
    );
}

#[test]
fn those_on_another_node_are_not_ended_for_it() {
    // The newest first: b3 and b2 are on two nodes, which leaves one device on each, and the task
    // needs two. With b1 n0 is free, and b2 stays.
    let mut it = Small::new();
    it.leaf("a", guaranteed(2000, 0));
    it.leaf("b", guaranteed(0, 0));
    for name in ["n0", "n1"] {
        it.node(name, 2);
    }
    for (name, node) in [("b0", "n1"), ("b1", "n0"), ("b2", "n1"), ("b3", "n0")] {
        it.runs(name, "b", 1, &[node]);
    }
    it.job("j", "a", 2, 1);
    became(
        &it.after(&[Stage::Reclaim]),
        &[
            ("b0-0", "Running n1"),
            ("b1-0", "Releasing n0"),
            ("b2-0", "Running n1"),
            ("b3-0", "Releasing n0"),
            ("j-0", "Pipelined n0"),
        ],
    );
}

#[test]
fn what_must_run_at_once_goes_whole() {
    let mut it = Small::new();
    it.node("n0", 1);
    it.node("n1", 1);
    it.leaf("a", guaranteed(1000, 0));
    it.leaf("b", guaranteed(1000, 0));
    it.runs("g", "b", 1, &["n0", "n1"]);
    it.job("j", "a", 1, 1);
    // Although b then has less than its guarantee, and one device is idle.
    became(
        &it.after(&[Stage::Reclaim]),
        &[("g-0", "Releasing n0"), ("g-1", "Releasing n1"), ("j-0", "Pipelined n0")],
    );
    it.input.jobs[0].gang.sets[0].min = 1;
    let after = it.after(&[Stage::Reclaim]);
    became(&after, &[("g-0", "Running n0"), ("g-1", "Releasing n1"), ("j-0", "Pipelined n1")]);
}

/// A node with a device and cores for one task, and one with cores only.
fn with_cores_only() -> Small {
    let mut it = borrowed(1000, &[]);
    it.node("n0", 1).cpu = 1000;
    it.node("n1", 0);
    it.input.projects[2].cpu = guaranteed(0, 0);
    it
}

#[test]
fn a_gang_goes_everywhere_if_any_of_it_needs_no_device() {
    let mut it = with_cores_only();
    it.runs("r", "b", 1, &["n0"]);
    let job = it.job("j", "a", 1, 2);
    job.tasks[1].request.gpu = GpuAsk::None;
    became(
        &it.after(&[Stage::Reclaim]),
        &[("r-0", "Releasing n0"), ("j-0", "Pipelined n0"), ("j-1", "Pipelined n1")],
    );
}

#[test]
fn a_victim_for_devices_moves_only_to_nodes_with_devices_or_of_other_victims() {
    let mut it = with_cores_only();
    it.runs("r", "b", 0, &["n0"]);
    it.job("j", "a", 1, 1);
    // It would fit on n1, which has no device.
    became(&it.after(&[Stage::Reclaim]), &[("r-0", "Releasing n0"), ("j-0", "Pipelined n0")]);
    it.input.nodes[1] = it.input.nodes[0].clone();
    it.input.nodes[1].name = "n1".to_owned();
    // One of the two kinds of devices is enough.
    let mut none = it.input.nodes[1].devices[0].clone();
    none.count = 0;
    it.input.nodes[1].devices[0].count = 2;
    it.input.nodes[1].devices.push(none);
    it.input.jobs[1].tasks[0].site = Some(0);
    it.input.sites.push(Site { nodes: Some(vec!["n0".to_owned()]), kinds: None });
    became(&it.after(&[Stage::Reclaim]), &[("r-0", "Pipelined n1"), ("j-0", "Pipelined n0")]);
}

#[test]
fn priority_of_jobs_means_nothing_between_projects() {
    let mut it = borrowed(1000, &["n0"]);
    it.input.jobs[0].priority = 99;
    it.job("j", "a", 1, 1).priority = 1;
    became(&it.after(&[Stage::Reclaim]), &[("b-n0-0", "Releasing n0"), ("j-0", "Pipelined n0")]);
}

#[test]
fn nothing_is_taken_back_beyond_the_own_share_and_why_says_so() {
    let mut it = borrowed(1000, &["n0", "n1"]);
    it.job("j", "a", 2, 1);
    let outcome = it.run(&[Stage::Reclaim]);
    let Why::OverShare(line) = &outcome.waits[0].why else { panic!("{:?}", outcome.waits) };
    assert_eq!((line.project, line.held, line.asked, line.bound), (1, 0, 2000, 1000));
}

#[test]
fn nothing_is_taken_of_what_is_the_others_own() {
    let mut it = borrowed(1000, &["n0"]);
    it.input.projects[2].gpu = guaranteed(1000, 0);
    it.job("j", "a", 1, 1);
    let outcome = it.run(&[Stage::Reclaim]);
    assert!(outcome.decisions.is_empty());
    assert_eq!(outcome.waits[0].why, Why::Own { project: 2 });
}

#[test]
fn one_that_asks_for_no_less_is_not_tried_again() {
    let mut it = borrowed(4000, &["n0", "n1"]);
    for job in &mut it.input.jobs {
        job.preemptible = false;
    }
    it.job("j0", "a", 1, 2);
    it.job("j1", "a", 1, 2);
    it.job("j2", "a", 1, 1);
    let why: Vec<Why> = it.run(&[Stage::Reclaim]).waits.into_iter().map(|it| it.why).collect();
    assert_eq!(why, [Why::NobodyGivesWay, Why::AsAnother { job: 2 }, Why::NobodyGivesWay]);
}

#[test]
fn a_job_is_left_alone_until_it_ran_for_a_while() {
    let mut it = borrowed(1000, &["n0"]);
    it.job("j", "a", 1, 1);
    // It has run for a minute.
    it.input.projects[2].min_run_reclaim = Some(61_000);
    assert!(it.run(&[Stage::Reclaim]).decisions.is_empty());
    it.input.projects[2].min_run_reclaim = Some(60_000);
    assert_eq!(it.run(&[Stage::Reclaim]).decisions.len(), 2);
    // The value of the parent applies if the project has none.
    it.input.projects[2].min_run_reclaim = None;
    it.input.projects[0].min_run_reclaim = Some(61_000);
    assert!(it.run(&[Stage::Reclaim]).decisions.is_empty());
    it.input.projects[2].min_run_reclaim = Some(0);
    assert_eq!(it.run(&[Stage::Reclaim]).decisions.len(), 2);
}

#[test]
fn how_long_it_ran_counts_from_where_the_ways_part() {
    let mut it = Small::new();
    it.node("n0", 1);
    it.project("left", Some("top"), free());
    it.project("right", Some("top"), free());
    it.project("a", Some("left"), guaranteed(1000, 0));
    it.project("b", Some("right"), guaranteed(0, 0));
    it.runs("r", "b", 1, &["n0"]);
    it.job("j", "a", 1, 1);
    it.input.projects[1].gpu = guaranteed(1000, 0);
    it.input.projects[2].gpu = guaranteed(0, 0);
    assert_eq!(it.run(&[Stage::Reclaim]).decisions.len(), 2);
    // Below the common ancestor's child it has no effect.
    it.input.projects[4].min_run_reclaim = Some(61_000);
    assert_eq!(it.run(&[Stage::Reclaim]).decisions.len(), 2);
    it.input.projects[2].min_run_reclaim = Some(61_000);
    assert!(it.run(&[Stage::Reclaim]).decisions.is_empty());
    // Without a common ancestor the top project of the victim applies.
    it.input.projects[2].min_run_reclaim = Some(0);
    it.input.projects[1].parent = None;
    it.input.projects[2].parent = None;
    assert_eq!(it.run(&[Stage::Reclaim]).decisions.len(), 2);
}

#[test]
fn what_grew_may_be_lost_also_before_that() {
    let mut it = borrowed(1000, &[]);
    it.node("n0", 2);
    it.input.projects[2].min_run_reclaim = Some(61_000);
    it.runs("g", "b", 1, &["n0", "n0"]).gang.sets[0].min = 1;
    it.job("j", "a", 1, 1);
    became(
        &it.after(&[Stage::Reclaim]),
        &[("g-0", "Running n0"), ("g-1", "Releasing n0"), ("j-0", "Pipelined n0")],
    );
    it.input.projects[1].gpu = guaranteed(2000, 0);
    it.input.jobs[1].tasks[0].request.gpu = GpuAsk::Whole(2);
    assert!(it.run(&[Stage::Reclaim]).decisions.is_empty(), "the rest is safe");
}

#[test]
fn one_that_is_to_be_left_alone_keeps_all_from_giving_way() {
    for stage in [Stage::Reclaim, Stage::Preempt] {
        let mut it = borrowed(3000, &[]);
        it.node("n0", 3);
        let low = if stage == Stage::Reclaim { "b" } else { "a" };
        for project in &mut it.input.projects {
            project.min_run_reclaim = Some(61_000);
            project.min_run_preempt = Some(61_000);
        }
        it.runs("g", low, 1, &["n0", "n0"]).gang.sets[0].min = 1;
        it.runs("old", low, 1, &["n0"]).last_start = None;
        it.job("j", "a", 3, 1).priority = 99;
        assert!(it.run(&[stage]).decisions.is_empty(), "{stage:?}");
        it.input.jobs[0].last_start = None;
        assert_eq!(it.run(&[stage]).decisions.len(), 4, "{stage:?}");
    }
}

#[test]
fn preempting_looks_at_how_long_the_nearest_project_says() {
    let mut it = Small::new();
    it.node("n0", 1);
    it.leaf("a", guaranteed(1000, 0));
    it.runs("low", "a", 1, &["n0"]);
    it.job("high", "a", 1, 1).priority = 100;
    it.input.projects[0].min_run_preempt = Some(61_000);
    assert!(it.run(&[Stage::Preempt]).decisions.is_empty());
    it.input.projects[1].min_run_preempt = Some(1000);
    became(&it.after(&[Stage::Preempt]), &[("low-0", "Releasing n0"), ("high-0", "Pipelined n0")]);
}

#[test]
fn preempting_needs_strictly_more_priority() {
    let mut it = Small::new();
    it.node("n0", 1);
    it.leaf("a", guaranteed(1000, 0));
    it.runs("low", "a", 1, &["n0"]);
    it.job("same", "a", 1, 1);
    assert!(it.run(&[Stage::Preempt]).decisions.is_empty());
}

#[test]
fn jobs_of_other_projects_are_moved_too() {
    let mut it = Small::new();
    it.node("n0", 2);
    it.node("n1", 2);
    it.leaf("a", free());
    it.leaf("b", free());
    it.runs("r0", "a", 1, &["n0"]);
    it.runs("r1", "b", 1, &["n1"]);
    it.job("j", "a", 2, 1);
    let outcome = it.run(&[Stage::Consolidate]);
    let moved = outcome.decisions.iter().filter(|it| matches!(it.what, Change::Move { .. }));
    assert_eq!(moved.count(), 1);
    // It neither evicts non-preemptible jobs, nor evicts for a non-preemptible job.
    it.input.jobs[2].preemptible = false;
    assert!(it.run(&[Stage::Consolidate]).decisions.is_empty());
    it.input.jobs[2].preemptible = true;
    for job in &mut it.input.jobs[..2] {
        job.preemptible = false;
    }
    assert!(it.run(&[Stage::Consolidate]).decisions.is_empty());
}

#[test]
fn a_line_of_one_project_says_nothing_of_the_jobs_of_others() {
    let mut it = Small::new();
    it.node("n0", 2);
    it.node("n1", 2);
    it.leaf("a", free()).gpu.limit = Some(1000);
    it.leaf("b", free());
    it.runs("r0", "b", 1, &["n0"]);
    it.runs("r1", "b", 1, &["n1"]);
    it.job("ja", "a", 2, 1).priority = 99;
    it.input.projects[1].priority = 200;
    it.job("jb", "b", 2, 1);
    for shortcuts in [true, false] {
        it.settings.shortcuts = shortcuts;
        let outcome = it.run(&[Stage::Consolidate]);
        assert!(matches!(outcome.waits[0].why, Why::OverLimit(_)), "{:?}", outcome.waits);
        let after = it.after(&[Stage::Consolidate]);
        assert!(after["jb-0"].starts_with("Pipelined"), "{after:#?}");
    }
}

#[test]
fn what_is_not_moved_for_one_is_not_tried_for_another_project() {
    let mut it = Small::new();
    it.node("n0", 2);
    it.node("n1", 2);
    it.leaf("a", free());
    it.leaf("b", free());
    it.runs("r0", "b", 1, &["n0"]).preemptible = false;
    it.runs("r1", "b", 1, &["n1"]).preemptible = false;
    it.job("ja", "a", 2, 1);
    it.job("jb", "b", 2, 1);
    let waits = it.run(&[Stage::Consolidate]).waits;
    let why: Vec<Why> = waits.into_iter().map(|it| it.why).collect();
    assert_eq!(why, [Why::NobodyGivesWay, Why::AsAnother { job: 2 }]);
}

#[test]
fn a_job_that_may_be_ended_preempts_beyond_the_guarantee() {
    let mut it = Small::new();
    it.node("n0", 2);
    it.leaf("a", guaranteed(1000, 0));
    it.runs("kept", "a", 1, &["n0"]).preemptible = false;
    it.runs("low", "a", 1, &["n0"]);
    it.job("high", "a", 1, 1).priority = 100;
    became(&it.after(&[Stage::Preempt]), &[("low-0", "Releasing n0"), ("high-0", "Pipelined n0")]);
    it.input.jobs[2].preemptible = false;
    let outcome = it.run(&[Stage::Preempt]);
    let Why::OverGuarantee(line) = &outcome.waits[0].why else { panic!("{:?}", outcome.waits) };
    assert_eq!((line.held, line.asked, line.bound), (1000, 1000, 1000));
}

#[test]
fn no_more_jobs_are_looked_at_for_moving_than_may_be() {
    let mut it = Small::new();
    it.leaf("a", free());
    for name in ["n0", "n1", "n2"] {
        it.node(name, 2);
    }
    it.runs("old", "a", 1, &["n0"]);
    it.runs("fixed", "a", 1, &["n1"]).preemptible = false;
    // The newer one, which is tried first, does not leave a large enough gap.
    it.runs("young", "a", 1, &["n2"]);
    it.runs("beside", "a", 1, &["n2"]).preemptible = false;
    it.job("j", "a", 2, 1);
    it.settings.consolidation_victims = Some(1);
    assert!(it.run(&[Stage::Consolidate]).decisions.is_empty());
    it.settings.consolidation_victims = Some(2);
    became(
        &it.after(&[Stage::Consolidate]),
        &[("old-0", "Pipelined n1"), ("j-0", "Pipelined n0"), ("young-0", "Running n2")],
    );
}

#[test]
fn no_job_is_moved_if_too_few_devices_are_free() {
    let mut it = Small::new();
    it.node("n0", 2);
    it.leaf("a", free());
    share(it.job("r", "a", 0, 1), 500);
    sit(&mut it.input.jobs[0].tasks[0], "n0", &["d"]);
    it.job("j", "a", 2, 1);
    let outcome = it.run(&[Stage::Consolidate]);
    assert_eq!(outcome.waits[0].why, Why::NotEnoughFree { asked: 2000, free: 1500 });
}

#[test]
fn moving_comes_before_taking_back() {
    // The rest of a's guarantee is free on two nodes; b has borrowed a third device.
    let mut it = Small::new();
    it.node("n0", 2);
    it.node("n1", 2);
    it.leaf("a", guaranteed(2000, 0));
    it.leaf("b", guaranteed(0, 0));
    it.runs("b0", "b", 1, &["n0"]);
    it.runs("b1", "b", 1, &["n1"]);
    it.job("j", "a", 2, 1);
    let outcome = it.run(&Stage::CYCLE);
    let evicted = outcome.decisions.iter().any(|it| matches!(it.what, Change::Evict { .. }));
    assert!(!evicted, "{:?}", outcome.decisions);
    assert_eq!(it.run(&[Stage::Reclaim]).decisions.len(), 2, "by itself it would take one back");
}

#[test]
fn what_is_free_is_given_out_before_anything_is_taken_back() {
    let mut it = borrowed(1000, &["n0"]);
    it.node("n1", 1);
    it.job("j", "a", 1, 1);
    became(&it.after(&Stage::CYCLE), &[("b-n0-0", "Running n0"), ("j-0", "Bound n1")]);
}

#[test]
fn a_victim_that_comes_before_the_job_takes_its_place_back() {
    // Without any devices, the victim's project would be the more starved of the two.
    let mut it = Small::new();
    it.node("n0", 2);
    it.leaf("a", guaranteed(1000, 1));
    it.leaf("b", guaranteed(1000, 1));
    it.input.projects[2].priority = 200;
    it.runs("b0", "b", 2, &["n0"]);
    it.job("j", "a", 1, 1);
    // b requests two again and would exceed its guarantee with them, so a comes first.
    became(&it.after(&[Stage::Reclaim]), &[("b0-0", "Releasing n0"), ("j-0", "Pipelined n0")]);
    it.input.jobs.clear();
    it.runs("b0", "b", 1, &["n0"]);
    it.runs("b1", "b", 1, &["n0"]);
    it.job("j", "a", 1, 1);
    became(
        &it.after(&[Stage::Reclaim]),
        &[("b0-0", "Running n0"), ("b1-0", "Releasing n0"), ("j-0", "Pipelined n0")],
    );
}

#[test]
fn what_is_left_of_a_gang_goes_when_its_time_is_over() {
    let mut it = Small::new();
    it.node("n0", 4);
    it.leaf("a", free());
    let job = it.runs("g", "a", 1, &["n0", "n0"]);
    job.tasks[1].state = TaskState::Failed;
    let stale = [Stage::StaleGangs];
    assert!(it.run(&stale).decisions.is_empty(), "no time is given");
    it.settings.stale_grace = 0;
    assert_eq!(it.run(&stale).decisions.len(), 1, "at once");
    it.settings.stale_grace = 60_000;
    it.input.jobs[0].stale_since = Some(it.input.now - 60_000);
    became(&it.after(&stale), &[("g-0", "Releasing n0"), ("g-1", "Failed")]);
    it.settings.stale_grace = 60_001;
    assert!(it.run(&stale).decisions.is_empty());
    it.settings.stale_grace = -1;
    assert!(it.run(&stale).decisions.is_empty());
    it.settings.stale_grace = 0;
    it.input.jobs[0].tasks[1].state = TaskState::Succeeded;
    assert!(it.run(&stale).decisions.is_empty(), "one of them has done its work");
}

#[test]
fn a_job_of_which_a_set_does_not_run_may_give_way_too() {
    let mut it = borrowed(1000, &[]);
    it.node("n0", 1);
    let job = it.job("g", "b", 1, 2);
    job.gang.sets.push(TaskSet { name: "t".to_owned(), min: 0 });
    job.gang.sets[0].min = 1;
    job.tasks[1].set = "t".to_owned();
    sit(&mut job.tasks[0], "n0", &[]);
    it.job("j", "a", 1, 1);
    became(&it.after(&[Stage::Reclaim]), &[("g-0", "Releasing n0"), ("j-0", "Pipelined n0")]);
}

#[test]
fn sets_lose_first_what_they_have_most_beyond_what_must_run() {
    let mut it = borrowed(1000, &[]);
    it.node("n0", 5);
    let job = it.runs("g", "b", 1, &["n0"; 5]);
    job.gang.sets =
        vec![TaskSet { name: "p".to_owned(), min: 1 }, TaskSet { name: "q".to_owned(), min: 2 }];
    for (number, task) in job.tasks.iter_mut().enumerate() {
        task.set = if number < 2 { "p" } else { "q" }.to_owned();
    }
    it.job("j", "a", 1, 1);
    // 2 of 1 against 3 of 2.
    became(&it.after(&[Stage::Reclaim]), &[("g-1", "Releasing n0"), ("g-4", "Running n0")]);
}
