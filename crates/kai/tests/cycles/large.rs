//! Checks cycles on larger clusters. With `GPOOL_FIGURES` set it also uses clusters of a thousand
//! nodes; it prints the time of each cycle, for runs of this test alone.

use std::time::Instant;

use gpool_kai::{
    self as kai, DeviceMode, Devices, GpuAsk, Group, Input, Job, Node, Placement, Project, Quota,
    Request, Settings, Stage, Task, TaskSet, TaskState,
};

use crate::random::Dice;

const GB: i64 = 1_000_000_000;

/// Nodes with eight devices, and departments with twenty projects each.
fn index(nodes: usize, projects: usize) -> Input {
    let free = Quota { guaranteed: None, limit: None, weight: 1000, usage: 0 };
    let each = i64::try_from(nodes * 8 * 1000 / projects).unwrap();
    let project = |name: String, parent: Option<String>, guaranteed: i64| Project {
        name,
        parent,
        priority: 100,
        created: 0,
        gpu: Quota { guaranteed: Some(guaranteed), limit: None, weight: 1000, usage: 0 },
        cpu: free,
        memory: free,
        min_run_preempt: None,
        min_run_reclaim: None,
    };
    let mut input = Input { now: 1_000_000_000, ..Input::default() };
    for department in 0..projects.div_ceil(20) {
        input.projects.push(project(format!("d{department:04}"), None, each * 20));
    }
    for leaf in 0..projects {
        let department = format!("d{:04}", leaf / 20);
        input.projects.push(project(format!("p{leaf:04}"), Some(department), each));
    }
    input.nodes.extend((0..nodes).map(|number| Node {
        name: format!("n{number:05}"),
        cpu: 128_000,
        memory: 1000 * GB,
        slots: 100,
        devices: vec![Devices {
            kind: "h100".to_owned(),
            count: 8,
            memory: Some(80 * GB),
            mode: DeviceMode::Whole,
        }],
    }));
    input
}

fn job(number: usize, project: usize, gpus: i64, tasks: usize) -> Job {
    let task = |task| Task {
        name: format!("j{number:06}-{task}"),
        set: String::new(),
        state: TaskState::Pending,
        placement: None,
        request: Request { gpu: GpuAsk::Whole(gpus), cpu: 4000, memory: 10 * GB },
        site: None,
        priority: None,
        created: 0,
        nominated: None,
    };
    Job {
        name: format!("j{number:06}"),
        project: format!("p{project:04}"),
        priority: 50,
        preemptible: true,
        created: i64::try_from(number).unwrap(),
        gang: Group {
            name: String::new(),
            sets: vec![TaskSet { name: String::new(), min: i64::try_from(tasks).unwrap() }],
            groups: Vec::new(),
        },
        last_start: None,
        stale_since: None,
        tasks: (0..tasks).map(task).collect(),
    }
}

/// Adds jobs with one device each until a part of every node is busy; they belong to the first
/// `owners` projects.
fn fill(input: &mut Input, each: usize, owners: usize, dice: &mut Dice) {
    for node in 0..input.nodes.len() {
        for _ in 0..each {
            let owner = usize::try_from(dice.below(owners as u64)).unwrap();
            let mut job = job(input.jobs.len(), owner, 1, 1);
            job.tasks[0].state = TaskState::Running;
            let node = input.nodes[node].name.clone();
            job.tasks[0].placement = Some(Placement { node, devices: 0, shared: Vec::new() });
            input.jobs.push(job);
        }
    }
}

fn wait(input: &mut Input, count: usize, from: usize, to: usize, gpus: i64, tasks: usize) {
    for number in 0..count {
        let project = from + number % (to - from);
        input.jobs.push(job(input.jobs.len(), project, gpus, tasks));
    }
}

/// Runs a cycle, prints its time, and returns the number of changed tasks.
fn time(what: &str, input: &Input, stages: &[Stage]) -> usize {
    let settings = Settings { stages: stages.to_vec(), ..Settings::default() };
    let begin = Instant::now();
    let outcome = kai::cycle(input, &settings);
    let took = begin.elapsed();
    println!("{what:60} {took:9.1?}  {} decisions", outcome.decisions.len());
    outcome.decisions.len()
}

#[test]
fn larger_clusters() {
    let mut sizes = vec![(100, 100)];
    if std::env::var_os("GPOOL_FIGURES").is_some() {
        sizes.extend([(1000, 200), (1000, 1000)]);
    }
    for (nodes, projects) in sizes {
        full(nodes, projects);
        holes(nodes, projects);
    }
}

/// A cluster that half of the projects fill.
fn full(nodes: usize, projects: usize) {
    let mut dice = Dice::new(1);
    let name = |what: &str| format!("{nodes} nodes, {projects} projects: full, {what}");
    let mut full = index(nodes, projects);
    fill(&mut full, 8, projects / 2, &mut dice);
    assert_eq!(time(&name("no job waits, no stage"), &full, &[]), 0);
    assert_eq!(time(&name("no job waits"), &full, &Stage::CYCLE), 0);

    let mut over = full.clone();
    wait(&mut over, 2000, 0, 20, 1, 1);
    for stage in Stage::CYCLE {
        let changes = time(&name(&format!("2000 wait, {stage:?}")), &over, &[stage]);
        assert!(changes == 0 || stage == Stage::Reclaim);
    }
    for (count, gpus) in [(1, 1), (1, 8), (200, 1)] {
        let mut back = full.clone();
        wait(&mut back, count, projects / 2, projects, i64::try_from(gpus).unwrap(), 1);
        let changes =
            time(&name(&format!("{count} x {gpus} taken back")), &back, &[Stage::Reclaim]);
        assert_eq!(changes, count * (gpus + 1), "as many leave as are asked for");
    }

    let mut stuck = full;
    for project in &mut stuck.projects {
        project.gpu.guaranteed = Some(i64::try_from(nodes).unwrap() * 8000);
    }
    wait(&mut stuck, 1000, 0, projects, 1, 1);
    assert_eq!(time(&name("1000 may take nothing back"), &stuck, &[Stage::Reclaim]), 0);
}

/// A cluster with free devices, in one piece or fragmented.
fn holes(nodes: usize, projects: usize) {
    let mut dice = Dice::new(2);
    let name = |what: &str| format!("{nodes} nodes, {projects} projects: {what}");
    let mut holes = index(nodes, projects);
    fill(&mut holes, 7, projects, &mut dice);
    wait(&mut holes, 20, 0, projects, 4, 1);
    let changes = time(&name("1 free each, 20 x 4 wait"), &holes, &[Stage::Consolidate]);
    assert!(changes >= 20 * 4, "three moved and one promised for each: {changes}");

    let mut empty = index(nodes, projects);
    wait(&mut empty, nodes * 10, 0, projects, 1, 1);
    let changes = time(&name("empty, ten wait for each node"), &empty, &[Stage::Allocate]);
    assert_eq!(changes, nodes * 8);
}
