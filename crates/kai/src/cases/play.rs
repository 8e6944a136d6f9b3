//! Plays a scenario and looks at what became of it.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    self as kai, Change, GpuAsk, Input, Outcome, Placement, PlacementAfter, Settings, SharedAfter,
    TaskState,
};

use super::build::{CaseError, build, scaled};
use super::file::{ExpectedTask, MaxActions, Scenario};

/// What became of a scenario.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Verdict {
    /// Differences from the expected result.
    pub differences: Vec<String>,
    /// Tasks that share a device and should not, or do not and should.
    pub devices: Vec<String>,
}

impl Verdict {
    /// Whether all is as expected, apart from the sharing of devices.
    pub fn passed(&self) -> bool {
        self.differences.is_empty()
    }
}

/// Plays a scenario.
///
/// # Errors
/// What of it is not understood.
pub fn play(scenario: &Scenario) -> Result<Verdict, CaseError> {
    let ready = build(scenario)?;
    let mut play = Play {
        scenario,
        settings: ready.settings,
        statuses: statuses(scenario),
        input: ready.input,
        verdict: Verdict::default(),
    };
    play.requested()?;
    if scenario.action == "cycle" {
        let until = scenario.rounds_until_match.unwrap_or(2);
        let after = scenario.rounds_after_match.unwrap_or(5);
        for cycle in 1..=until + after {
            play.cycle(cycle);
            if cycle >= until {
                let outcome = play.look();
                play.compare(&outcome, &format!("after cycle {cycle}: "))?;
            }
            if !play.verdict.differences.is_empty() {
                break;
            }
        }
    } else {
        let outcome = kai::cycle(&play.input, &play.settings);
        play.count(&outcome, "");
        play.update_statuses(&outcome);
        play.compare(&outcome, "")?;
    }
    Ok(play.verdict)
}

/// The name of a task, and its place in the file.
#[derive(Debug, Clone)]
struct Status {
    word: String,
    state: TaskState,
    node: Option<String>,
}

struct Play<'s> {
    scenario: &'s Scenario,
    settings: Settings,
    input: Input,
    statuses: Vec<Vec<Status>>,
    verdict: Verdict,
}

fn statuses(scenario: &Scenario) -> Vec<Vec<Status>> {
    let status = |task: &super::file::Task| Status {
        word: task.state.clone(),
        // Replaced when the task is looked at for the first time.
        state: TaskState::Failed,
        node: task.node.clone(),
    };
    scenario.jobs.iter().map(|job| job.tasks.iter().map(status).collect()).collect()
}

impl Play<'_> {
    /// Checks that the requests were read as they are meant.
    fn requested(&mut self) -> Result<(), CaseError> {
        for (job, statuses) in self.input.jobs.iter().zip(&mut self.statuses) {
            for (task, status) in job.tasks.iter().zip(statuses) {
                status.state = task.state;
            }
        }
        for job in &self.input.jobs {
            if let Some(expected) = self.scenario.expected.jobs.get(&job.name)
                && let Some(number) = &expected.gpus_requested
            {
                let sum = |of: fn(&GpuAsk) -> i64| -> i64 {
                    job.tasks.iter().map(|task| of(&task.request.gpu)).sum()
                };
                // A part of several devices is written down in either way.
                let expected = scaled(&job.name, number, 1000)?;
                if ![sum(asked), sum(asked_of_one)].contains(&expected) {
                    let asked = sum(asked);
                    let line = format!("job {}: it requests {asked} milli-GPUs", job.name);
                    self.verdict.differences.push(line);
                }
            }
        }
        Ok(())
    }

    /// One whole cycle, and what the world makes of it.
    fn cycle(&mut self, number: usize) {
        let outcome = kai::cycle(&self.input, &self.settings);
        self.count(&outcome, &format!("cycle {number}: "));
        self.update_statuses(&outcome);
        for (row, job) in self.input.jobs.iter_mut().enumerate() {
            for (column, task) in job.tasks.iter_mut().enumerate() {
                let after = &outcome.tasks[row][column];
                let status = &mut self.statuses[row][column];
                let stays = self.scenario.jobs[row].delete_when_releasing;
                match after.state {
                    TaskState::Releasing if stays => {
                        task.state = TaskState::Releasing;
                        task.placement = after.leaves.as_ref().map(|it| placement(it, number));
                    }
                    TaskState::Releasing | TaskState::Pipelined => {
                        (task.state, task.placement) = (TaskState::Pending, None);
                        *status = Status::of(TaskState::Pending, None);
                    }
                    TaskState::Bound => {
                        task.state = TaskState::Running;
                        task.placement = after.placement.as_ref().map(|it| placement(it, number));
                        let node = after.placement.as_ref().map(|it| it.node.clone());
                        *status = Status::of(TaskState::Running, node);
                        job.last_start = Some(self.input.now);
                    }
                    _ => {}
                }
            }
        }
    }

    /// The state as it is, without doing anything.
    fn look(&self) -> Outcome {
        let nothing = Settings { stages: Vec::new(), ..self.settings.clone() };
        kai::cycle(&self.input, &nothing)
    }

    fn count(&mut self, outcome: &Outcome, when: &str) {
        let Some(MaxActions { bind, evict, pipeline }) = self.scenario.expected.max_actions else {
            return;
        };
        let many = |pass: fn(&Change) -> bool| {
            outcome.decisions.iter().filter(|decision| pass(&decision.what)).count()
        };
        let counts = [
            ("start", bind, many(|it| matches!(it, Change::Bind(_)))),
            (
                "are ended or moved",
                evict,
                many(|it| matches!(it, Change::Evict { .. } | Change::Move { .. })),
            ),
            (
                "are promised a place",
                pipeline,
                many(|it| matches!(it, Change::Claim(_) | Change::Move { .. })),
            ),
        ];
        for (what, most, count) in counts {
            if count > most {
                self.verdict.differences.push(format!("{when}{count} {what}, at most {most} may"));
            }
        }
    }

    fn update_statuses(&mut self, outcome: &Outcome) {
        for (row, statuses) in self.statuses.iter_mut().enumerate() {
            for (column, status) in statuses.iter_mut().enumerate() {
                let after = &outcome.tasks[row][column];
                if after.state != status.state {
                    let placement = if after.state == TaskState::Releasing {
                        after.leaves.as_ref()
                    } else {
                        after.placement.as_ref()
                    };
                    *status = Status::of(after.state, placement.map(|it| it.node.clone()));
                }
            }
        }
    }

    fn compare(&mut self, outcome: &Outcome, when: &str) -> Result<(), CaseError> {
        let expected = &self.scenario.expected;
        let mut found = Vec::new();
        for (row, job) in self.input.jobs.iter().enumerate() {
            let whole = expected.jobs.get(&job.name);
            for (column, task) in job.tasks.iter().enumerate() {
                for expected in [whole, expected.tasks.get(&task.name)].into_iter().flatten() {
                    let line = self.statuses[row][column].against(expected);
                    found.extend(line.map(|line| format!("{when}{}: {line}", task.name)));
                }
            }
            if let Some(number) = whole.and_then(|it| it.gpus_accepted.as_ref()) {
                let held: i64 = outcome.tasks[row].iter().map(|task| task.charged.gpu).sum();
                if held != scaled(&job.name, number, 1000)? {
                    found.push(format!("{when}{}: {held} milli-GPUs are allocated", job.name));
                }
            }
        }
        for (row, node) in self.input.nodes.iter().enumerate() {
            let Some(expected) = expected.nodes.get(&node.name) else { continue };
            let after = outcome.nodes[row];
            for (what, number, count) in [
                ("idle", &expected.idle_gpus, after.idle),
                ("releasing", &expected.releasing_gpus, after.releasing),
            ] {
                if let Some(number) = number
                    && scaled(&node.name, number, 1)? != count
                {
                    let line = format!("{when}{}: {count} {what}, expected {number}", node.name);
                    found.push(line);
                }
            }
        }
        self.verdict.differences.extend(found);
        self.compare_devices(outcome, when);
        Ok(())
    }

    /// Equal labels are one device of a node, different ones different devices.
    fn compare_devices(&mut self, outcome: &Outcome, when: &str) {
        let expected = &self.scenario.expected;
        let mut label_of: BTreeMap<(String, SharedAfter), BTreeSet<String>> = BTreeMap::new();
        let mut device_of: BTreeMap<(String, String), BTreeSet<SharedAfter>> = BTreeMap::new();
        for (row, job) in self.input.jobs.iter().enumerate() {
            for (column, task) in job.tasks.iter().enumerate() {
                let named = expected.tasks.get(&task.name).or_else(|| expected.jobs.get(&job.name));
                let Some(labels) = named
                    .filter(|it| !it.skip_gpu_group_check)
                    .and_then(|it| it.gpu_groups.as_ref())
                else {
                    continue;
                };
                let after = &outcome.tasks[row][column];
                let Some(placement) = after.placement.as_ref().or(after.leaves.as_ref()) else {
                    continue;
                };
                if placement.shared.len() != labels.len() {
                    continue;
                }
                for (label, device) in labels.iter().zip(&placement.shared) {
                    let node = || placement.node.clone();
                    label_of.entry((node(), device.clone())).or_default().insert(label.clone());
                    device_of.entry((node(), label.clone())).or_default().insert(device.clone());
                }
            }
        }
        for ((node, _), labels) in label_of.iter().filter(|(_, labels)| labels.len() > 1) {
            let line = format!("{when}{node}: one device stands for {labels:?}");
            self.verdict.devices.push(line);
        }
        for ((node, label), devices) in device_of.iter().filter(|(_, it)| it.len() > 1) {
            let line = format!("{when}{node}: {label} stands for {} devices", devices.len());
            self.verdict.devices.push(line);
        }
    }
}

impl Status {
    fn of(state: TaskState, node: Option<String>) -> Self {
        let word = match state {
            TaskState::Pending => "Pending",
            TaskState::Gated => "Gated",
            TaskState::Bound => "Binding",
            TaskState::Running => "Running",
            TaskState::Pipelined => "Pipelined",
            TaskState::Releasing => "Releasing",
            TaskState::Succeeded => "Succeeded",
            TaskState::Failed => "Failed",
        };
        Self { word: word.to_owned(), state, node }
    }

    /// Returns the difference from the expected state.
    fn against(&self, expected: &ExpectedTask) -> Option<String> {
        let here = self.node.as_deref().unwrap_or("no node");
        let there = expected.node.as_deref();
        let same = self.word == expected.status
            && there.is_none_or(|there| self.node.as_deref().unwrap_or_default() == there);
        (!same).then(|| {
            let there = there.map(|there| format!(" on {there}")).unwrap_or_default();
            format!("{} on {here}, expected {}{there}", self.word, expected.status)
        })
    }
}

/// A place where others will find it in the next cycle.
pub(super) fn placement(after: &PlacementAfter, cycle: usize) -> Placement {
    let name = |device: &SharedAfter| match device {
        SharedAfter::Named(name) => name.clone(),
        SharedAfter::Fresh(number) => format!("cycle {cycle}, {number}"),
    };
    Placement {
        node: after.node.clone(),
        devices: after.devices,
        shared: after.shared.iter().map(name).collect(),
    }
}

/// Thousandths of GPUs that are asked for by number; memory and instances do not count.
fn asked(gpu: &GpuAsk) -> i64 {
    match gpu {
        GpuAsk::Whole(count) => count * 1000,
        GpuAsk::Share { milli, devices } => milli * devices,
        GpuAsk::None | GpuAsk::Memory { .. } | GpuAsk::Mig(_) | GpuAsk::Unbooked => 0,
    }
}

/// The same, of a part on several devices that on one of them.
fn asked_of_one(gpu: &GpuAsk) -> i64 {
    match gpu {
        GpuAsk::Share { milli, .. } => *milli,
        gpu => asked(gpu),
    }
}
