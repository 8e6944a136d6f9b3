//! The order of jobs and projects (scheduling.md A4 to A6): a test for each rule that the public
//! scenarios hardly cover.

use gpool_kai::{Group, Quota, Stage, TaskSet, TaskState, Why};

use crate::small::{Small, became, free, guaranteed, sit};

const ALLOCATE: &[Stage] = &[Stage::Allocate];

/// Two projects that both request the only device.
fn two(a: Quota, b: Quota) -> Small {
    let mut it = Small::new();
    it.node("n0", 1);
    it.leaf("a", a);
    it.leaf("b", b);
    it.job("ja", "a", 1, 1);
    it.job("jb", "b", 1, 1);
    it
}

#[test]
fn a_project_within_its_guarantee_comes_first() {
    let it = two(guaranteed(0, 1), guaranteed(1000, 0));
    became(&it.after(ALLOCATE), &[("ja-0", "Pending"), ("jb-0", "Bound n0")]);
}

#[test]
fn a_project_of_higher_priority_comes_first_among_the_starved() {
    let mut it = two(guaranteed(1000, 1), guaranteed(1000, 1));
    it.input.projects[2].priority = 200;
    became(&it.after(ALLOCATE), &[("ja-0", "Pending"), ("jb-0", "Bound n0")]);
}

#[test]
fn the_starved_come_before_priority() {
    let mut it = two(guaranteed(1000, 1), guaranteed(0, 1));
    it.input.projects[2].priority = 200;
    became(&it.after(ALLOCATE), &[("ja-0", "Bound n0"), ("jb-0", "Pending")]);
}

#[test]
fn a_project_over_its_share_of_everything_comes_last() {
    let mut it = Small::new();
    it.node("n0", 4);
    // Project a exceeds its share of all three resources. Its request alone is within its
    // guarantee, so without this rule it would be starved like b, and it is older.
    let a = it.leaf("a", guaranteed(4000, 0));
    a.cpu = Quota { guaranteed: Some(2000), limit: None, weight: 0, usage: 0 };
    a.memory = Quota { guaranteed: Some(2_000_000_000), limit: None, weight: 0, usage: 0 };
    let b = it.leaf("b", guaranteed(0, 0));
    b.priority = 1;
    it.runs("ra", "a", 1, &["n0", "n0", "n0"]);
    it.job("ja", "a", 1, 1);
    it.job("jb", "b", 1, 1);
    let fair = it.run(&[]).projects[1].fair;
    assert_eq!((fair.gpu, fair.cpu), (4000, 2000), "not over its part of GPUs");
    became(&it.after(ALLOCATE), &[("ja-0", "Bound n0"), ("jb-0", "Pending")]);
    it.input.projects[1].gpu = guaranteed(2000, 0);
    became(&it.after(ALLOCATE), &[("ja-0", "Pending"), ("jb-0", "Bound n0")]);
}

#[test]
fn a_project_without_a_part_of_what_it_asks_for_comes_after_one_with() {
    // Neither is starved; a is older, but has no share of GPUs.
    let mut it = two(guaranteed(0, 0), guaranteed(0, 1));
    became(&it.after(ALLOCATE), &[("jb-0", "Bound n0")]);
    it.input.projects[1].gpu = guaranteed(0, 1);
    it.input.projects[2].gpu = guaranteed(0, 0);
    became(&it.after(ALLOCATE), &[("ja-0", "Bound n0")]);
}

#[test]
fn the_smaller_part_comes_first() {
    let mut it = Small::new();
    it.node("n0", 3);
    it.leaf("a", guaranteed(2000, 0));
    it.leaf("b", guaranteed(4000, 0));
    it.runs("ra", "a", 1, &["n0"]);
    it.runs("rb", "b", 1, &["n0"]);
    // With its next job a would have its whole share, b half of its share.
    it.job("ja", "a", 1, 1);
    it.job("jb", "b", 1, 1);
    became(&it.after(ALLOCATE), &[("ja-0", "Pending"), ("jb-0", "Bound n0")]);
}

#[test]
fn of_equal_parts_with_the_job_the_one_that_has_less_comes_first() {
    let mut it = Small::new();
    it.node("n0", 3);
    it.leaf("a", guaranteed(4000, 0));
    it.leaf("b", guaranteed(4000, 0));
    it.runs("ra", "a", 1, &["n0"]);
    // With their jobs both would have two of four; a has one already.
    it.job("ja", "a", 1, 1);
    it.job("jb", "b", 2, 1);
    became(&it.after(ALLOCATE), &[("ja-0", "Pending"), ("jb-0", "Bound n0")]);
}

#[test]
fn the_smaller_bound_comes_first_among_equals() {
    // Both request no GPUs: their ratio is the same with and without the job.
    let mut it = Small::new();
    it.node("n0", 1).slots = 1;
    it.leaf("a", guaranteed(2000, 0));
    it.leaf("b", guaranteed(1000, 0));
    it.job("ja", "a", 0, 1);
    it.job("jb", "b", 0, 1);
    became(&it.after(ALLOCATE), &[("ja-0", "Pending"), ("jb-0", "Bound n0")]);
}

#[test]
fn without_a_part_what_it_would_have_counts_a_thousandfold() {
    // Both have no share of GPUs and request one: a has one already and comes last.
    let mut it = two(guaranteed(0, 0), guaranteed(0, 0));
    it.input.nodes[0].devices[0].count = 2;
    it.runs("ra", "a", 1, &["n0"]);
    became(&it.after(ALLOCATE), &[("ja-0", "Pending"), ("jb-0", "Bound n0")]);
}

#[test]
fn any_part_at_all_comes_before_none() {
    // The share of b is so small that its job would exceed it two thousand times.
    let mut it = Small::new();
    it.node("n0", 2);
    it.leaf("a", guaranteed(0, 0));
    it.leaf("b", guaranteed(1, 0));
    it.job("ja", "a", 1, 1);
    it.job("jb", "b", 2, 1);
    became(&it.after(ALLOCATE), &[("ja-0", "Pending"), ("jb-0", "Bound n0")]);
}

#[test]
fn without_a_part_gpus_count_one_by_one_and_cores_by_thousandths() {
    let mut it = Small::new();
    it.node("n0", 1).slots = 1;
    let nothing = Quota { guaranteed: Some(0), limit: None, weight: 0, usage: 0 };
    it.leaf("b", free()).cpu = nothing;
    it.leaf("a", nothing);
    it.job("jb", "b", 0, 1);
    it.job("ja", "a", 1, 1);
    // A thousand times one GPU against a thousand times a thousand of a core.
    became(&it.after(ALLOCATE), &[("jb-0", "Pending"), ("ja-0", "Bound n0")]);
}

#[test]
fn a_project_without_a_bound_is_measured_by_all_there_is() {
    // Project a would have one of four, b one of two.
    let mut it = Small::new();
    it.node("n0", 1);
    it.node("n1", 3);
    it.leaf("a", guaranteed(2000, 0));
    it.leaf("b", free());
    it.project("other", None, free());
    it.runs("held", "other", 3, &["n1"]);
    it.job("ja", "a", 1, 1);
    it.job("jb", "b", 1, 1);
    became(&it.after(ALLOCATE), &[("ja-0", "Pending"), ("jb-0", "Bound n0")]);
}

#[test]
fn jobs_below_what_must_run_at_once_come_before_those_that_grow() {
    let mut it = Small::new();
    it.node("n0", 2);
    it.leaf("a", free());
    let old = it.job("old", "a", 1, 2);
    old.gang.sets[0].min = 1;
    sit(&mut old.tasks[0], "n0", &[]);
    it.job("new", "a", 1, 1);
    became(&it.after(ALLOCATE), &[("old-1", "Pending"), ("new-0", "Bound n0")]);
    it.input.jobs[1].priority = 10;
    became(&it.after(ALLOCATE), &[("old-1", "Bound n0"), ("new-0", "Pending")]);
}

#[test]
fn extra_tasks_take_turns_between_jobs() {
    let mut it = Small::new();
    it.node("n0", 4);
    it.leaf("a", free());
    for name in ["x", "y"] {
        it.job(name, "a", 1, 4).gang.sets[0].min = 1;
    }
    // Both start at once; then x exceeds its minimum, while y just reaches it.
    let after = it.after(ALLOCATE);
    let count = |job: &str| {
        after.iter().filter(|(name, it)| name.starts_with(job) && *it == "Bound n0").count()
    };
    assert_eq!((count("x"), count("y")), (2, 2), "{after:#?}");
}

#[test]
fn tasks_are_placed_by_name_as_text() {
    let mut it = Small::new();
    it.node("n0", 3);
    it.leaf("a", free());
    it.job("j", "a", 1, 11).gang.sets[0].min = 1;
    became(
        &it.after(ALLOCATE),
        &[("j-0", "Bound n0"), ("j-1", "Bound n0"), ("j-10", "Bound n0"), ("j-2", "Pending")],
    );
}

#[test]
fn tasks_with_a_rank_come_first_by_rank() {
    let mut it = Small::new();
    it.node("n0", 2);
    it.leaf("a", free());
    let job = it.job("j", "a", 1, 4);
    job.gang.sets[0].min = 1;
    job.tasks[2].priority = Some(-5);
    job.tasks[3].priority = Some(1);
    became(
        &it.after(ALLOCATE),
        &[("j-0", "Pending"), ("j-1", "Pending"), ("j-2", "Bound n0"), ("j-3", "Bound n0")],
    );
}

/// A job with sets `p` and `q`, with their minimums and their numbers of running tasks.
fn sets(min: (i64, i64), running: (usize, usize), free: i64) -> Small {
    let mut it = Small::new();
    let all = i64::try_from(running.0 + running.1).unwrap();
    it.node("n0", all + free);
    it.leaf("a", guaranteed(99_000, 0));
    let job = it.job("j", "a", 1, 8);
    job.gang.sets = vec![
        TaskSet { name: "p".to_owned(), min: min.0 },
        TaskSet { name: "q".to_owned(), min: min.1 },
    ];
    for (number, task) in job.tasks.iter_mut().enumerate() {
        let (set, first) = if number < 4 { ("p", 0) } else { ("q", 4) };
        task.set = set.to_owned();
        let runs = if set == "p" { running.0 } else { running.1 };
        if number - first < runs {
            sit(task, "n0", &[]);
        }
    }
    it
}

#[test]
fn the_set_that_has_grown_least_grows_next() {
    // 2 of 1 against 3 of 2: the second has grown less.
    let it = sets((1, 2), (2, 3), 1);
    became(&it.after(ALLOCATE), &[("j-2", "Pending"), ("j-7", "Bound n0")]);
    // 2 of 1 against 4 of 2: equal, so the name decides.
    let it = sets((1, 1), (2, 2), 1);
    became(&it.after(ALLOCATE), &[("j-2", "Bound n0"), ("j-6", "Pending")]);
}

#[test]
fn a_set_that_lacks_some_is_filled_before_any_grows() {
    let it = sets((1, 3), (1, 1), 2);
    became(&it.after(ALLOCATE), &[("j-1", "Pending"), ("j-5", "Bound n0"), ("j-6", "Bound n0")]);
    // Two are missing and one device is free, so nothing starts.
    let it = sets((1, 3), (1, 1), 1);
    became(&it.after(ALLOCATE), &[("j-1", "Pending"), ("j-5", "Pending")]);
}

#[test]
fn parts_of_parts_start_together_or_not_at_all() {
    let set = |name: &str| TaskSet { name: name.to_owned(), min: 1 };
    let mut it = Small::new();
    it.node("n0", 3);
    it.leaf("a", free());
    let job = it.job("j", "a", 1, 4);
    job.gang = Group {
        name: "root".to_owned(),
        sets: vec![set("s0")],
        groups: vec![Group {
            name: "outer".to_owned(),
            sets: vec![set("s1")],
            groups: vec![Group {
                name: "inner".to_owned(),
                sets: vec![set("s2")],
                groups: vec![Group {
                    name: "core".to_owned(),
                    sets: vec![set("s3")],
                    groups: vec![],
                }],
            }],
        }],
    };
    for (number, task) in job.tasks.iter_mut().enumerate() {
        task.set = format!("s{number}");
    }
    assert!(it.run(ALLOCATE).decisions.is_empty(), "one of four would have no place");
    it.input.nodes[0].devices[0].count = 4;
    assert_eq!(it.run(ALLOCATE).decisions.len(), 4);
}

#[test]
fn a_claiming_task_counts_as_a_member() {
    let mut it = Small::new();
    it.node("n0", 4);
    it.leaf("a", free());
    it.runs("leaving", "a", 1, &["n0"]).tasks[0].state = TaskState::Releasing;
    let job = it.job("j", "a", 1, 4);
    job.gang.sets[0].min = 2;
    sit(&mut job.tasks[0], "n0", &[]);
    sit(&mut job.tasks[1], "n0", &[]);
    job.tasks[1].state = TaskState::Pipelined;
    // No minimum is missing, so it grows one by one until the node is full.
    became(&it.after(ALLOCATE), &[("j-2", "Bound n0"), ("j-3", "Bound n0")]);
    it.input.nodes[0].devices[0].count = 3;
    became(&it.after(ALLOCATE), &[("j-2", "Bound n0"), ("j-3", "Pending")]);
}

#[test]
fn a_leaving_task_does_not_count_as_a_member() {
    let mut it = Small::new();
    it.node("n0", 4);
    it.leaf("a", free());
    let job = it.job("j", "a", 1, 2);
    sit(&mut job.tasks[0], "n0", &[]);
    job.tasks[0].state = TaskState::Releasing;
    became(&it.after(ALLOCATE), &[("j-1", "Pending")]);
    it.input.jobs[0].gang.sets[0].min = 1;
    became(&it.after(ALLOCATE), &[("j-1", "Bound n0")]);
}

#[test]
fn a_leaving_task_is_not_charged() {
    let mut it = Small::new();
    it.node("n0", 2);
    it.leaf("a", Quota { limit: Some(1000), ..free() });
    it.runs("old", "a", 1, &["n0"]).tasks[0].state = TaskState::Releasing;
    it.job("new", "a", 1, 1);
    became(&it.after(ALLOCATE), &[("new-0", "Bound n0")]);
}

#[test]
fn a_stage_looks_at_no_more_jobs_of_a_project_than_it_may() {
    let mut it = Small::new();
    it.node("n0", 4);
    it.leaf("a", free());
    it.leaf("b", free());
    for job in ["a0", "a1", "a2"] {
        it.job(job, "a", 1, 1);
    }
    it.job("b0", "b", 1, 1);
    it.settings.depth = Some(1);
    became(&it.after(ALLOCATE), &[("a0-0", "Bound n0"), ("a1-0", "Pending"), ("b0-0", "Bound n0")]);
}

#[test]
fn a_limit_of_any_project_above_keeps_a_job_and_is_named() {
    let mut it = Small::new();
    it.node("n0", 4);
    it.input.projects[0].gpu.limit = Some(1000);
    it.leaf("a", free());
    it.job("j", "a", 2, 1);
    let outcome = it.run(ALLOCATE);
    let Why::OverLimit(line) = &outcome.waits[0].why else { panic!("{:?}", outcome.waits) };
    assert_eq!((line.project, line.held, line.asked, line.bound), (0, 0, 2000, 1000));
}

#[test]
fn what_may_not_be_taken_back_stays_within_the_guarantee() {
    let mut it = Small::new();
    it.node("n0", 4);
    it.leaf("a", guaranteed(1000, 1));
    it.runs("r", "a", 1, &["n0"]).preemptible = false;
    it.job("j", "a", 1, 1).preemptible = false;
    it.job("k", "a", 1, 1);
    let outcome = it.run(ALLOCATE);
    let Why::OverGuarantee(line) = &outcome.waits[0].why else { panic!("{:?}", outcome.waits) };
    assert_eq!((line.held, line.asked, line.bound), (1000, 1000, 1000));
    became(&it.after(ALLOCATE), &[("j-0", "Pending"), ("k-0", "Bound n0")]);
}

#[test]
fn a_job_that_is_skipped_has_a_reason() {
    let mut it = Small::new();
    it.node("n0", 4);
    it.leaf("a", free());
    it.project("lost", Some("nowhere"), free());
    it.project("ring", Some("gnir"), free());
    it.project("gnir", Some("ring"), free());
    it.job("inner", "top", 1, 1);
    it.job("unknown", "b", 1, 1);
    it.job("lost", "lost", 1, 1);
    it.job("ring", "ring", 1, 1);
    it.job("short", "a", 1, 2).gang.sets[0].min = 3;
    let waits = it.run(ALLOCATE).waits;
    // Sorted by the name of the job.
    let why: Vec<(usize, Why)> = waits.into_iter().map(|it| (it.job, it.why)).collect();
    assert_eq!(
        why,
        [
            (0, Why::NoProject),
            (2, Why::NoProject),
            (3, Why::NoProject),
            (4, Why::TooFewTasks),
            (1, Why::NoProject),
        ]
    );
}
