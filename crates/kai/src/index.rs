//! An input made ready for a cycle: rows sorted by content and told apart by their position,
//! requests and sites that are equal kept once. Nothing here changes during a cycle.

pub(crate) mod charge;

use std::collections::{BTreeMap, BTreeSet};

use crate::index::charge::{total, waiting_charge};
use crate::input::{
    Amounts, DeviceMode, GpuAsk, Group, Input, Instances, Job, Project, Request, Task,
};

/// The unit of device memory, in bytes.
const MEMORY_STEP: i64 = 100_000_000;

/// A project.
#[derive(Debug)]
pub(crate) struct ProjectRow {
    /// Its row in the input.
    pub given: usize,
    pub parent: Option<usize>,
    pub children: Vec<usize>,
    pub priority: i64,
    pub created: i64,
    pub min_run_preempt: Option<i64>,
    pub min_run_reclaim: Option<i64>,
    /// How far it is from the top.
    pub depth: usize,
}

/// A node.
#[derive(Debug)]
pub(crate) struct NodeRow {
    pub given: usize,
    pub cpu: i64,
    pub memory: i64,
    pub slots: i64,
    /// Whether it has devices of any kind.
    pub devices: bool,
    /// Its places.
    pub places: std::ops::Range<usize>,
}

/// The devices of a node that are alike; a node without devices is one place without devices.
#[derive(Debug)]
pub(crate) struct PlaceRow {
    pub node: usize,
    /// Which list of devices of its node it is.
    pub devices: usize,
    /// Whether it is the first of its node: tasks without GPUs go there.
    pub first: bool,
    pub count: i64,
    /// The memory of each device, if it is known.
    pub memory: Option<i64>,
    /// What a device holds where shares are counted: its memory, or thousandths.
    pub room: i64,
    pub mode: Mode,
    pub instances: Vec<Instances>,
}

/// How the devices of a place are given out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    Whole,
    Single,
    Mixed,
}

/// A job.
#[derive(Debug)]
pub(crate) struct JobRow {
    pub given: usize,
    /// Its project, if that is a leaf of the tree.
    pub project: Option<usize>,
    pub priority: i64,
    pub preemptible: bool,
    /// Its place among all jobs by age, then name.
    pub rank: usize,
    pub last_start: Option<i64>,
    pub stale_since: Option<i64>,
    pub sets: std::ops::Range<usize>,
    pub tasks: std::ops::Range<usize>,
    /// Its parts, where it has more than one set.
    pub parts: Option<Part>,
}

/// A part of a job, by sets.
#[derive(Debug)]
pub(crate) struct Part {
    pub sets: Vec<usize>,
    pub parts: Vec<Self>,
}

/// Tasks of a job with a minimum that must run at once; sorted by name.
#[derive(Debug)]
pub(crate) struct SetRow {
    pub min: i64,
    /// Its tasks in their order.
    pub tasks: Vec<usize>,
}

/// A task; those of a job follow each other in their order.
#[derive(Debug)]
pub(crate) struct TaskRow {
    /// Its row among the tasks of its job in the input.
    pub given: usize,
    pub job: usize,
    pub set: usize,
    pub ask: usize,
    pub nominated: Option<usize>,
}

/// What tasks ask for, kept once.
#[derive(Debug)]
pub(crate) struct AskRow {
    pub request: Request,
    /// Where they may go, a row of the sites.
    pub site: Option<usize>,
    /// Their charge while they wait.
    pub charge: Amounts,
}

/// Everything that does not change during a cycle.
#[derive(Debug)]
pub(crate) struct Index {
    pub projects: Vec<ProjectRow>,
    pub tops: Vec<usize>,
    pub nodes: Vec<NodeRow>,
    pub places: Vec<PlaceRow>,
    pub jobs: Vec<JobRow>,
    pub sets: Vec<SetRow>,
    pub tasks: Vec<TaskRow>,
    pub asks: Vec<AskRow>,
    /// The places with devices that are allocated by instance.
    pub mixed: Vec<usize>,
    /// The jobs of each project.
    pub jobs_of: Vec<Vec<usize>>,
    /// For each site, whether a place belongs to it.
    pub sites: Vec<Vec<bool>>,
    /// What a task is charged does not depend on where it is.
    pub charges_alike: bool,
    /// What there is in all.
    pub total: Amounts,
    pub now: i64,
}

impl Index {
    pub(crate) fn of(input: &Input, task_priority: bool) -> Self {
        let projects = projects(&input.projects);
        let (nodes, places) = nodes(input);
        let mut index = Self {
            tops: (0..projects.len()).filter(|&row| projects[row].parent.is_none()).collect(),
            projects,
            total: total(&nodes, &places),
            mixed: (0..places.len()).filter(|&row| places[row].mode == Mode::Mixed).collect(),
            jobs_of: Vec::new(),
            nodes,
            places,
            jobs: Vec::with_capacity(input.jobs.len()),
            sets: Vec::new(),
            tasks: Vec::new(),
            asks: Vec::new(),
            sites: Vec::new(),
            charges_alike: true,
            now: input.now,
        };
        let sites = index.intern_sites(input);
        let smallest = index.places.iter().filter_map(|place| place.memory).min();
        let mut asks = BTreeMap::new();
        let mut by_name: Vec<usize> = (0..input.jobs.len()).collect();
        by_name.sort_by(|&a, &b| input.jobs[a].name.cmp(&input.jobs[b].name));
        for given in by_name {
            let job = &input.jobs[given];
            index.push_job(input, given, job, task_priority, |index, task| {
                let site = task.site.and_then(|row| sites.get(row).copied());
                *asks.entry((task.request.clone(), site)).or_insert_with(|| {
                    let charge = waiting_charge(&task.request, smallest);
                    index.asks.push(AskRow { request: task.request.clone(), site, charge });
                    index.asks.len() - 1
                })
            });
        }
        let by_memory = |ask: &AskRow| matches!(ask.request.gpu, GpuAsk::Memory { .. });
        index.charges_alike = !index.asks.iter().any(by_memory);
        index.rank_jobs(input);
        index.jobs_of = vec![Vec::new(); index.projects.len()];
        for (row, job) in index.jobs.iter().enumerate() {
            if let Some(project) = job.project {
                index.jobs_of[project].push(row);
            }
        }
        index
    }

    /// A project and all above it, from below.
    pub(crate) fn upward(&self, project: usize) -> impl Iterator<Item = usize> + '_ {
        std::iter::successors(Some(project), |&row| self.projects[row].parent)
    }

    fn intern_sites(&mut self, input: &Input) -> Vec<usize> {
        let mut known: BTreeMap<Vec<bool>, usize> = BTreeMap::new();
        input
            .sites
            .iter()
            .map(|site| {
                let set = |names: &Option<Vec<String>>| {
                    names.as_ref().map(|it| it.iter().cloned().collect::<BTreeSet<String>>())
                };
                let (nodes, kinds) = (set(&site.nodes), set(&site.kinds));
                let belongs: Vec<bool> = self
                    .places
                    .iter()
                    .map(|place| {
                        let node = &input.nodes[self.nodes[place.node].given];
                        let kind = node.devices.get(place.devices).map(|it| it.kind.as_str());
                        let node_fits =
                            nodes.as_ref().is_none_or(|names| names.contains(&node.name));
                        let kind_fits = kinds
                            .as_ref()
                            .is_none_or(|kinds| kind.is_some_and(|kind| kinds.contains(kind)));
                        node_fits && kind_fits
                    })
                    .collect();
                let next = self.sites.len();
                *known.entry(belongs).or_insert_with_key(|belongs| {
                    self.sites.push(belongs.clone());
                    next
                })
            })
            .collect()
    }

    fn push_job(
        &mut self,
        input: &Input,
        given: usize,
        job: &Job,
        task_priority: bool,
        mut ask_of: impl FnMut(&mut Self, &Task) -> usize,
    ) {
        let row = self.jobs.len();
        let first_set = self.sets.len();
        let mut names = Vec::new();
        set_names(&job.gang, &mut names);
        // A task of no known set must not run together with any other, but it may run.
        names.extend(job.tasks.iter().map(|task| (task.set.as_str(), 0)));
        names.sort_by_key(|&(name, min)| (name, std::cmp::Reverse(min)));
        names.dedup_by_key(|(name, _)| *name);
        self.sets.extend(names.iter().map(|&(_, min)| SetRow { min, tasks: Vec::new() }));
        let first_task = self.tasks.len();
        let mut order: Vec<usize> = (0..job.tasks.len()).collect();
        order.sort_by(|&a, &b| {
            task_key(job, a, task_priority).cmp(&task_key(job, b, task_priority))
        });
        for given in order {
            let task = &job.tasks[given];
            let named = names.binary_search_by(|(name, _)| (*name).cmp(&task.set));
            let Ok(set) = named else { continue };
            let ask = ask_of(self, task);
            let nominated = task.nominated.as_ref().and_then(|name| self.node(input, name));
            self.sets[first_set + set].tasks.push(self.tasks.len());
            self.tasks.push(TaskRow { given, job: row, set: first_set + set, ask, nominated });
        }
        let parts = (names.len() > 1).then(|| {
            let mut parts = part(&job.gang, &names, first_set);
            let known = |row: &usize| holds(&parts, *row);
            let unknown: Vec<usize> =
                (first_set..self.sets.len()).filter(|row| !known(row)).collect();
            parts.sets.extend(unknown);
            parts
        });
        self.jobs.push(JobRow {
            given,
            project: self.leaf(input, &job.project),
            priority: job.priority,
            preemptible: job.preemptible,
            rank: 0,
            last_start: job.last_start,
            stale_since: job.stale_since,
            sets: first_set..self.sets.len(),
            tasks: first_task..self.tasks.len(),
            parts,
        });
    }

    /// The node of that name.
    pub(crate) fn node(&self, input: &Input, name: &str) -> Option<usize> {
        self.nodes.binary_search_by(|row| input.nodes[row.given].name.as_str().cmp(name)).ok()
    }

    /// The project of that name, if jobs may be in it.
    fn leaf(&self, input: &Input, name: &str) -> Option<usize> {
        let found = self
            .projects
            .binary_search_by(|row| input.projects[row.given].name.as_str().cmp(name))
            .ok()?;
        let row = &self.projects[found];
        (row.children.is_empty() && row.depth < usize::MAX).then_some(found)
    }

    fn rank_jobs(&mut self, input: &Input) {
        let mut order: Vec<usize> = (0..self.jobs.len()).collect();
        order.sort_by_key(|&row| (input.jobs[self.jobs[row].given].created, row));
        for (rank, row) in order.into_iter().enumerate() {
            self.jobs[row].rank = rank;
        }
    }
}

/// Returns the projects by name, as a tree. A project with a circle among its ancestors, or a
/// missing ancestor, has no parent and no depth.
fn projects(given: &[Project]) -> Vec<ProjectRow> {
    let mut order: Vec<usize> = (0..given.len()).collect();
    order.sort_by(|&a, &b| given[a].name.cmp(&given[b].name));
    let find = |name: &str| order.binary_search_by(|&row| given[row].name.as_str().cmp(name)).ok();
    let parents: Vec<Option<Option<usize>>> = order
        .iter()
        .map(|&row| match &given[row].parent {
            None => Some(None),
            Some(name) => find(name).map(Some),
        })
        .collect();
    let depth = |row: usize| {
        let mut at = row;
        for depth in 0..parents.len() {
            match parents[at] {
                None => return usize::MAX,
                Some(None) => return depth,
                Some(Some(parent)) => at = parent,
            }
        }
        usize::MAX
    };
    let mut rows: Vec<ProjectRow> = order
        .iter()
        .enumerate()
        .map(|(row, &index)| {
            let project = &given[index];
            let depth = depth(row);
            ProjectRow {
                given: index,
                parent: if depth == usize::MAX { None } else { parents[row].flatten() },
                children: Vec::new(),
                priority: project.priority,
                created: project.created,
                min_run_preempt: project.min_run_preempt,
                min_run_reclaim: project.min_run_reclaim,
                depth,
            }
        })
        .collect();
    for row in 0..rows.len() {
        if let Some(parent) = rows[row].parent {
            rows[parent].children.push(row);
        }
    }
    rows
}

fn nodes(input: &Input) -> (Vec<NodeRow>, Vec<PlaceRow>) {
    let mut order: Vec<usize> = (0..input.nodes.len()).collect();
    order.sort_by(|&a, &b| input.nodes[a].name.cmp(&input.nodes[b].name));
    let mut rows = Vec::with_capacity(order.len());
    let mut places = Vec::with_capacity(order.len());
    for (row, given) in order.into_iter().enumerate() {
        let node = &input.nodes[given];
        let start = places.len();
        for (devices, it) in node.devices.iter().enumerate() {
            let memory = it.memory.map(|bytes| bytes - bytes % MEMORY_STEP).filter(|&it| it > 0);
            let (mode, count, instances) = match &it.mode {
                DeviceMode::Whole => (Mode::Whole, it.count, Vec::new()),
                DeviceMode::Single => (Mode::Single, it.count, Vec::new()),
                DeviceMode::Mixed(instances) => (Mode::Mixed, 0, instances.clone()),
            };
            places.push(PlaceRow {
                node: row,
                devices,
                first: devices == 0,
                count,
                memory,
                room: memory.unwrap_or(1000),
                mode,
                instances,
            });
        }
        if node.devices.is_empty() {
            places.push(PlaceRow {
                node: row,
                devices: 0,
                first: true,
                count: 0,
                memory: None,
                room: 1000,
                mode: Mode::Whole,
                instances: Vec::new(),
            });
        }
        rows.push(NodeRow {
            given,
            cpu: node.cpu,
            memory: node.memory,
            slots: node.slots,
            devices: places[start..]
                .iter()
                .any(|place| place.count > 0 || !place.instances.is_empty()),
            places: start..places.len(),
        });
    }
    (rows, places)
}

fn set_names<'a>(group: &'a Group, into: &mut Vec<(&'a str, i64)>) {
    into.extend(group.sets.iter().map(|set| (set.name.as_str(), set.min)));
    for group in &group.groups {
        set_names(group, into);
    }
}

fn part(group: &Group, names: &[(&str, i64)], first: usize) -> Part {
    let mut order: Vec<usize> = (0..group.groups.len()).collect();
    order.sort_by(|&a, &b| group.groups[a].name.cmp(&group.groups[b].name));
    Part {
        sets: group
            .sets
            .iter()
            .filter_map(|set| names.iter().position(|(name, _)| *name == set.name))
            .map(|row| first + row)
            .collect(),
        parts: order.into_iter().map(|it| part(&group.groups[it], names, first)).collect(),
    }
}

/// Whether a set is in a part.
fn holds(part: &Part, set: usize) -> bool {
    part.sets.contains(&set) || part.parts.iter().any(|part| holds(part, set))
}

/// By what the tasks of a job are ordered.
fn task_key(job: &Job, row: usize, by_priority: bool) -> (bool, i64, i64, &str) {
    let task = &job.tasks[row];
    let priority = task.priority.filter(|_| by_priority);
    let rank = priority.map_or(0, |it| it.saturating_neg());
    (priority.is_none(), rank, task.created, task.name.as_str())
}
