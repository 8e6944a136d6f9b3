//! Random clusters from a seed: invariants after any cycle, checked by counting again.

use std::collections::BTreeMap;

use gpool_kai::{
    self as kai, Change, DeviceMode, Devices, GpuAsk, Group, Input, Instances, Job, MigAsk, Node,
    Outcome, Placement, PlacementAfter, Project, Quota, Request, Settings, SharedAfter, Task,
    TaskSet, TaskState,
};

/// Pseudo-random numbers.
pub struct Dice(u64);

impl Dice {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    /// A number below the limit.
    pub fn below(&mut self, most: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % most.max(1)
    }

    fn small(&mut self, most: u64) -> i64 {
        i64::try_from(self.below(most)).unwrap()
    }

    fn pick<T: Clone>(&mut self, of: &[T]) -> T {
        of[usize::try_from(self.below(of.len() as u64)).unwrap()].clone()
    }

    pub fn shuffle<T>(&mut self, list: &mut [T]) {
        for last in (1..list.len()).rev() {
            let other = usize::try_from(self.below(last as u64 + 1)).unwrap();
            list.swap(last, other);
        }
    }
}

const GB: i64 = 1_000_000_000;

fn quota(dice: &mut Dice, unit: i64) -> Quota {
    let guaranteed = dice.pick(&[None, Some(0), Some(1), Some(2), Some(4)]);
    let limit = dice.pick(&[None, None, None, Some(3), Some(6)]);
    Quota {
        guaranteed: guaranteed.map(|it| it * unit),
        limit: limit.map(|it| it * unit),
        weight: dice.small(4) * 1000,
        usage: dice.small(3) * 200_000,
    }
}

fn projects(dice: &mut Dice) -> Vec<Project> {
    let free = Quota { guaranteed: None, limit: None, weight: 1000, usage: 0 };
    let mut projects: Vec<Project> = Vec::new();
    for number in 0..3 + dice.below(6) {
        let above = |it: &&Project| it.name.as_str() < "p3";
        let parents: Vec<String> =
            projects.iter().filter(above).map(|it| it.name.clone()).collect();
        let parent = (number > 1).then(|| dice.pick(&parents));
        projects.push(Project {
            name: format!("p{number}"),
            parent,
            priority: dice.small(2),
            created: dice.small(3),
            gpu: quota(dice, 1000),
            cpu: if dice.below(4) == 0 { quota(dice, 4000) } else { free },
            memory: free,
            min_run_preempt: None,
            min_run_reclaim: dice.pick(&[None, None, None, Some(120_000)]),
        });
    }
    projects
}

fn nodes(dice: &mut Dice) -> Vec<Node> {
    let count = 1 + dice.below(5);
    (0..count)
        .map(|number| Node {
            name: format!("n{number}"),
            cpu: 16_000,
            memory: 64 * GB,
            slots: dice.pick(&[4, 100]),
            devices: match dice.below(8) {
                0 => Vec::new(),
                1 => vec![Devices {
                    kind: "cut".to_owned(),
                    count: 1,
                    memory: Some(40 * GB),
                    mode: DeviceMode::Mixed(vec![Instances {
                        profile: "1g.10gb".to_owned(),
                        count: 4,
                        charge: 1000,
                    }]),
                }],
                2 => vec![
                    Devices {
                        kind: "old".to_owned(),
                        count: 2,
                        memory: Some(40 * GB),
                        mode: DeviceMode::Whole,
                    },
                    Devices {
                        kind: "new".to_owned(),
                        count: 2,
                        memory: Some(80 * GB),
                        mode: DeviceMode::Whole,
                    },
                ],
                _ => vec![Devices {
                    kind: "new".to_owned(),
                    count: 1 + dice.small(4),
                    memory: Some(80 * GB),
                    mode: DeviceMode::Whole,
                }],
            },
        })
        .collect()
}

fn gpu(dice: &mut Dice) -> GpuAsk {
    match dice.below(10) {
        0 => GpuAsk::None,
        1 | 2 => GpuAsk::Share {
            milli: dice.pick(&[200, 300, 500, 700]),
            devices: dice.pick(&[1, 1, 1, 2]),
        },
        3 => GpuAsk::Memory { bytes: dice.pick(&[10, 25, 50]) * GB, devices: 1 },
        4 => GpuAsk::Mig(vec![MigAsk { profile: "1g.10gb".to_owned(), count: 1, charge: 1000 }]),
        _ => GpuAsk::Whole(dice.pick(&[1, 1, 1, 2, 2, 4])),
    }
}

fn job(dice: &mut Dice, number: u64, projects: &[Project]) -> Job {
    let count = dice.pick(&[1, 1, 1, 2, 2, 3, 4]);
    let two = count > 1 && dice.below(4) == 0;
    let request = Request { gpu: gpu(dice), cpu: dice.pick(&[0, 1000, 4000]), memory: GB };
    let min = |dice: &mut Dice, most: u64| 1 + dice.small(most);
    let sets = if two {
        vec![
            TaskSet { name: "a".to_owned(), min: min(dice, count / 2) },
            TaskSet { name: "b".to_owned(), min: min(dice, count - count / 2) },
        ]
    } else {
        vec![TaskSet { name: "a".to_owned(), min: min(dice, count) }]
    };
    let tasks: Vec<Task> = (0..count)
        .map(|task| Task {
            name: format!("j{number}-{task}"),
            set: if two && task >= count / 2 { "b" } else { "a" }.to_owned(),
            state: TaskState::Pending,
            placement: None,
            request: request.clone(),
            site: None,
            priority: dice.pick(&[None, None, Some(1), Some(2)]),
            created: 0,
            nominated: None,
        })
        .collect();
    Job {
        name: format!("j{number}"),
        project: dice.pick(projects).name,
        priority: dice.pick(&[50, 50, 50, 75, 100]),
        preemptible: true,
        created: 0,
        gang: Group { name: String::new(), sets, groups: Vec::new() },
        last_start: None,
        stale_since: None,
        tasks,
    }
}

/// A cluster with running jobs, placed by a cycle with fewer projects' rules.
pub fn input(seed: u64) -> Input {
    let mut dice = Dice::new(seed);
    let projects = projects(&mut dice);
    let nodes = nodes(&mut dice);
    let mut input = Input { now: 1_000_000, nodes, projects, ..Input::default() };
    let count = 3 + dice.below(12);
    for number in 0..count {
        let mut job = job(&mut dice, number, &input.projects);
        job.created = dice.small(1000);
        input.jobs.push(job);
    }
    let free =
        Settings { quotas: false, stages: vec![kai::Stage::Allocate], ..Settings::default() };
    let outcome = kai::cycle(&input, &free);
    pass(&mut input, &outcome, 0);
    for job in &mut input.jobs {
        job.preemptible = dice.below(4) > 0;
        if job.tasks.iter().any(|task| task.state == TaskState::Running) {
            job.last_start = Some(input.now - dice.small(200_000));
        }
        let leaves = dice.below(10) == 0;
        for task in job.tasks.iter_mut().filter(|task| task.state == TaskState::Running) {
            if leaves && dice.below(2) == 0 {
                task.state = TaskState::Releasing;
            }
        }
    }
    for number in 0..2 + dice.below(8) {
        let mut job = job(&mut dice, 100 + number, &input.projects);
        job.preemptible = dice.below(4) > 0;
        job.created = 1000 + dice.small(1000);
        input.jobs.push(job);
    }
    input
}

/// Applies the result of a cycle: tasks that should start run, tasks that should end wait.
pub fn pass(input: &mut Input, outcome: &Outcome, cycle: usize) {
    for (job, after) in input.jobs.iter_mut().zip(&outcome.tasks) {
        for (task, after) in job.tasks.iter_mut().zip(after) {
            (task.state, task.placement) = match after.state {
                TaskState::Bound | TaskState::Running => {
                    let placement = after.placement.as_ref().map(|it| Placement {
                        node: it.node.clone(),
                        devices: it.devices,
                        shared: it.shared.iter().map(|it| format!("{cycle}{it:?}")).collect(),
                    });
                    (TaskState::Running, placement)
                }
                TaskState::Pipelined | TaskState::Releasing => (TaskState::Pending, None),
                state => (state, None),
            };
        }
    }
}

/// The resources in use on a node, counted again.
#[derive(Default)]
struct Used {
    cpu: i64,
    memory: i64,
    slots: i64,
    whole: BTreeMap<usize, i64>,
    instances: i64,
    shared: BTreeMap<(usize, SharedAfter), i64>,
}

impl Used {
    fn add(&mut self, node: &Node, placement: &PlacementAfter, request: &Request) {
        self.cpu += request.cpu;
        self.memory += request.memory;
        self.slots += 1;
        let memory = node.devices.get(placement.devices).and_then(|it| it.memory).unwrap_or(0);
        let mut share = |amount: i64, devices: i64| {
            assert_eq!(
                i64::try_from(placement.shared.len()).unwrap(),
                devices,
                "each on its device"
            );
            for device in &placement.shared {
                *self.shared.entry((placement.devices, device.clone())).or_default() += amount;
            }
        };
        match &request.gpu {
            GpuAsk::Whole(count) => *self.whole.entry(placement.devices).or_default() += count,
            GpuAsk::Share { milli, devices } => share(memory / 1000 * milli, *devices),
            GpuAsk::Memory { bytes, devices } => share(*bytes, *devices),
            GpuAsk::Mig(asked) => self.instances += asked[0].count,
            GpuAsk::None | GpuAsk::Unbooked => {}
        }
    }

    fn within(&self, node: &Node) {
        assert!(self.cpu <= node.cpu, "cores of {}", node.name);
        assert!(self.memory <= node.memory, "memory of {}", node.name);
        assert!(self.slots <= node.slots, "tasks on {}", node.name);
        for (row, devices) in node.devices.iter().enumerate() {
            let memory = devices.memory.unwrap_or(0);
            let shared = self.shared.iter().filter(|((at, _), _)| *at == row);
            let mut count = self.whole.get(&row).copied().unwrap_or(0);
            for (device, used) in shared {
                assert!(*used <= memory, "{device:?} of {}: {used} of {memory}", node.name);
                count += 1;
            }
            match &devices.mode {
                DeviceMode::Mixed(instances) => assert!(self.instances <= instances[0].count),
                _ => assert!(count <= devices.count, "devices of {}", node.name),
            }
        }
    }
}

/// Checks that no device is allocated twice, neither now nor after all evictions.
fn nothing_twice(input: &Input, outcome: &Outcome) {
    for node in &input.nodes {
        let (mut now, mut later) = (Used::default(), Used::default());
        for (job, after) in input.jobs.iter().zip(&outcome.tasks) {
            for (task, after) in job.tasks.iter().zip(after) {
                let placement = after.placement.as_ref().filter(|it| it.node == node.name);
                if let Some(placement) = placement {
                    later.add(node, placement, &task.request);
                    if after.state != TaskState::Pipelined {
                        now.add(node, placement, &task.request);
                    }
                }
                if let Some(placement) = after.leaves.as_ref().filter(|it| it.node == node.name) {
                    now.add(node, placement, &task.request);
                }
            }
        }
        now.within(node);
        later.within(node);
    }
}

/// Checks that every victim is evicted for a job that gets a placement.
fn every_victim_has_a_beneficiary(input: &Input, outcome: &Outcome) {
    for decision in &outcome.decisions {
        let (Change::Evict { stage, for_job } | Change::Move { stage, for_job, .. }) =
            &decision.what
        else {
            continue;
        };
        assert!(input.jobs[decision.job].preemptible || *stage == kai::Stage::StaleGangs);
        if *stage == kai::Stage::StaleGangs {
            assert_eq!(*for_job, decision.job);
            continue;
        }
        let gets = outcome.decisions.iter().any(|it| {
            it.job == *for_job && matches!(it.what, Change::Claim(_) | Change::Move { .. })
        });
        assert!(gets, "{} is evicted without a beneficiary", input.jobs[decision.job].name);
    }
}

/// Checks that each job with an allocation has its minimum of tasks.
fn gangs_are_whole(input: &Input, outcome: &Outcome) {
    for decision in &outcome.decisions {
        if !matches!(decision.what, Change::Bind(_) | Change::Claim(_) | Change::Move { .. }) {
            continue;
        }
        let job = &input.jobs[decision.job];
        for set in &job.gang.sets {
            let tasks = job.tasks.iter().zip(&outcome.tasks[decision.job]);
            let active = tasks.filter(|(task, after)| {
                task.set == set.name
                    && matches!(
                        after.state,
                        TaskState::Bound | TaskState::Running | TaskState::Pipelined
                    )
            });
            assert!(i64::try_from(active.count()).unwrap() >= set.min, "{} is cut", job.name);
        }
    }
}

/// Checks that no project newly exceeds its limits.
fn limits_hold(input: &Input, before: &Outcome, after: &Outcome) {
    for (row, project) in input.projects.iter().enumerate() {
        let (before, after) = (&before.projects[row], &after.projects[row]);
        for kind in kai::Kind::ALL {
            let quota = project.quota(kind);
            if let Some(limit) = quota.limit {
                let most = limit.max(before.allocated[kind]);
                assert!(after.allocated[kind] <= most, "{}: over its limit", project.name);
            }
            if let Some(guaranteed) = quota.guaranteed {
                let most = guaranteed.max(before.fixed[kind]);
                assert!(after.fixed[kind] <= most, "{}: over its guarantee", project.name);
            }
        }
    }
}

/// The cluster with every list in another order.
fn shuffled(input: &Input, seed: u64) -> Input {
    let mut dice = Dice::new(seed ^ 0xABCD);
    let mut other = input.clone();
    dice.shuffle(&mut other.projects);
    dice.shuffle(&mut other.nodes);
    dice.shuffle(&mut other.jobs);
    for job in &mut other.jobs {
        dice.shuffle(&mut job.tasks);
        dice.shuffle(&mut job.gang.sets);
    }
    other
}

/// The state of each task, by name.
pub fn by_name(input: &Input, outcome: &Outcome) -> BTreeMap<String, String> {
    let mut named = BTreeMap::new();
    for (job, after) in input.jobs.iter().zip(&outcome.tasks) {
        for (task, after) in job.tasks.iter().zip(after) {
            named.insert(task.name.clone(), format!("{after:?}"));
        }
    }
    named
}

fn check(seed: u64) -> usize {
    let mut input = input(seed);
    let mut changes = 0;
    for cycle in 1..4 {
        let nothing = Settings { stages: Vec::new(), ..Settings::default() };
        let before = kai::cycle(&input, &nothing);
        let outcome = kai::cycle(&input, &Settings::default());
        nothing_twice(&input, &outcome);
        every_victim_has_a_beneficiary(&input, &outcome);
        gangs_are_whole(&input, &outcome);
        limits_hold(&input, &before, &outcome);
        let other = shuffled(&input, seed);
        let again = kai::cycle(&other, &Settings::default());
        assert_eq!(by_name(&input, &outcome), by_name(&other, &again), "order of the lists");
        let slowly = Settings { shortcuts: false, ..Settings::default() };
        let slow = kai::cycle(&input, &slowly);
        assert_eq!(outcome.decisions, slow.decisions, "shortcuts");
        changes += outcome.decisions.len();
        pass(&mut input, &outcome, cycle);
    }
    changes
}

#[test]
fn rounds_keep_their_promises() {
    let mut changes = 0;
    for seed in 0..1000 {
        match std::panic::catch_unwind(|| check(seed)) {
            Ok(count) => changes += count,
            Err(cause) => {
                eprintln!("seed {seed}");
                std::panic::resume_unwind(cause);
            }
        }
    }
    assert!(changes > 2_500, "only {changes} changes: the clusters are too quiet");
}
