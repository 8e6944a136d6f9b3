//! Small clusters in short notation, for tests of single rules.

use std::collections::BTreeMap;

use gpool_kai::{
    self as kai, DeviceMode, Devices, GpuAsk, Group, Input, Job, Node, Outcome, Placement, Project,
    Quota, Request, Settings, Stage, Task, TaskSet, TaskState,
};

pub const GB: i64 = 1_000_000_000;
const NOW: i64 = 1_000_000_000;

/// A cluster with its settings.
pub struct Small {
    pub input: Input,
    pub settings: Settings,
}

/// A quota without a limit and without a guarantee.
pub fn free() -> Quota {
    Quota { guaranteed: None, limit: None, weight: 1000, usage: 0 }
}

/// A quota with a guarantee in thousandths and a weight.
pub fn guaranteed(milli: i64, weight: i64) -> Quota {
    Quota { guaranteed: Some(milli), limit: None, weight: weight * 1000, usage: 0 }
}

impl Small {
    pub fn new() -> Self {
        let input = Input { now: NOW, ..Input::default() };
        let mut it = Self { input, settings: Settings::default() };
        it.project("top", None, free());
        it
    }

    /// Adds a node with whole devices.
    pub fn node(&mut self, name: &str, gpus: i64) -> &mut Node {
        let devices = Devices {
            kind: "h100".to_owned(),
            count: gpus,
            memory: Some(80 * GB),
            mode: DeviceMode::Whole,
        };
        self.input.nodes.push(Node {
            name: name.to_owned(),
            cpu: 100_000,
            memory: 1000 * GB,
            slots: 100,
            devices: if gpus > 0 { vec![devices] } else { Vec::new() },
        });
        self.input.nodes.last_mut().unwrap()
    }

    pub fn project(&mut self, name: &str, parent: Option<&str>, gpu: Quota) -> &mut Project {
        let created = i64::try_from(self.input.projects.len()).unwrap();
        self.input.projects.push(Project {
            name: name.to_owned(),
            parent: parent.map(str::to_owned),
            priority: 100,
            created,
            gpu,
            cpu: free(),
            memory: free(),
            min_run_preempt: None,
            min_run_reclaim: None,
        });
        self.input.projects.last_mut().unwrap()
    }

    /// Adds a project below the project `top`.
    pub fn leaf(&mut self, name: &str, gpu: Quota) -> &mut Project {
        self.project(name, Some("top"), gpu)
    }

    /// Adds a job of one set with equal tasks, newer than all jobs before it.
    pub fn job(&mut self, name: &str, project: &str, gpus: i64, tasks: usize) -> &mut Job {
        let task = |number| Task {
            name: format!("{name}-{number}"),
            set: "s".to_owned(),
            state: TaskState::Pending,
            placement: None,
            request: Request {
                gpu: if gpus > 0 { GpuAsk::Whole(gpus) } else { GpuAsk::None },
                cpu: 1000,
                memory: GB,
            },
            site: None,
            priority: None,
            created: 0,
            nominated: None,
        };
        let created = i64::try_from(self.input.jobs.len()).unwrap();
        let min = i64::try_from(tasks).unwrap();
        self.input.jobs.push(Job {
            name: name.to_owned(),
            project: project.to_owned(),
            priority: 50,
            preemptible: true,
            created,
            gang: Group {
                name: String::new(),
                sets: vec![TaskSet { name: "s".to_owned(), min }],
                groups: Vec::new(),
            },
            last_start: None,
            stale_since: None,
            tasks: (0..tasks).map(task).collect(),
        });
        self.input.jobs.last_mut().unwrap()
    }

    /// Adds a running job with one task on each of these nodes.
    pub fn runs(&mut self, name: &str, project: &str, gpus: i64, on: &[&str]) -> &mut Job {
        let job = self.job(name, project, gpus, on.len());
        job.last_start = Some(NOW - 60_000);
        for (task, node) in job.tasks.iter_mut().zip(on) {
            sit(task, node, &[]);
        }
        job
    }

    pub fn run(&self, stages: &[Stage]) -> Outcome {
        kai::cycle(&self.input, &Settings { stages: stages.to_vec(), ..self.settings.clone() })
    }

    /// The state and node of each task after a cycle.
    pub fn after(&self, stages: &[Stage]) -> BTreeMap<String, String> {
        let outcome = self.run(stages);
        let mut named = BTreeMap::new();
        for (job, after) in self.input.jobs.iter().zip(&outcome.tasks) {
            for (task, after) in job.tasks.iter().zip(after) {
                let placement = after.placement.as_ref().or(after.leaves.as_ref());
                let on = placement.map(|it| format!(" {}", it.node)).unwrap_or_default();
                named.insert(task.name.clone(), format!("{:?}{on}", after.state));
            }
        }
        named
    }
}

/// Makes a task run.
pub fn sit(task: &mut Task, node: &str, shared: &[&str]) {
    task.state = TaskState::Running;
    let shared = shared.iter().map(|&it| it.to_owned()).collect();
    task.placement = Some(Placement { node: node.to_owned(), devices: 0, shared });
}

/// Makes all tasks of a job request a fraction of one device.
pub fn share(job: &mut Job, milli: i64) {
    for task in &mut job.tasks {
        task.request.gpu = GpuAsk::Share { milli, devices: 1 };
    }
}

/// Asserts the states of tasks.
#[track_caller]
pub fn became(after: &BTreeMap<String, String>, expected: &[(&str, &str)]) {
    for (task, expected) in expected {
        assert_eq!(after[*task], *expected, "{task}: {after:#?}");
    }
}
