//! The state of a cluster as a situation of `kai`. Devices that are alike and may be given out
//! stand in one list of their node; those that may not are there only as far as they are held.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use gpool_model::plan::Fit;
use gpool_model::used::always;
use gpool_model::{
    Allocation, AllocationState, Amount, Attempt, GpuAmount, GpuRequest, GpuTime, JobId, JobSpec,
    MilliGpu, NodeFilter, Phase, Policy, PoolName, Project, ProjectName, Quota, Resources, Share,
    Timestamp,
};
use gpool_model::{Device, ResourceKind};
use gpool_world::{Head, JobRow, ProjectIx, ShapeIx, Snapshot, World};

use super::plain::PlainSlots;
use super::{DEPTH, claims};
use crate::board::Board;
use crate::caps::Users;
use crate::elements::Elements;
use crate::kai::{
    self, DeviceMode, Devices, GpuAsk, Group, Placement, Request, Site, Situation, Task, TaskSet,
    TaskState,
};
use crate::order::Heads;
use crate::usable::unusable;
use crate::used::in_millionths;
use crate::waiting::Waiting;

/// The tasks of a job are one set.
const SET: &str = "tasks";

/// A situation, and what its rows stand for.
pub(super) struct Sketch<'a> {
    pub situation: Situation,
    /// By row of its jobs.
    pub jobs: Vec<Source<'a>>,
    /// By row of its nodes: the position on the board, and its lists of devices by position.
    pub nodes: Vec<(usize, Vec<Vec<usize>>)>,
    /// What waits before anything was decided: for others of its array, or of its user.
    pub waiting: Waiting,
}

/// What a job of a situation is.
#[derive(Clone, Copy)]
pub(super) enum Source<'a> {
    /// One that holds something.
    Holds(&'a JobRow),
    /// One that could start, and as which attempt.
    Waits { job: JobId, attempt: Attempt, row: &'a JobRow, shape_ix: ShapeIx },
}

/// Devices of a node that a task may be given alike.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct List {
    kind: String,
    memory: u64,
    devices: Vec<usize>,
    is_open: bool,
}

impl<'a> Sketch<'a> {
    pub fn of(snapshot: &Snapshot<'a>, policy: &Policy, board: &Board<'_>) -> Self {
        let mut maker = Maker::new(snapshot, policy, board);
        for row in snapshot.world.holding() {
            maker.holds(row);
        }
        maker.waiting(policy);
        maker.finish()
    }
}

/// The request of a job, its pool and the nodes that it may use.
type Where = (GpuRequest, Option<PoolName>, Option<Arc<NodeFilter>>);

struct Maker<'a, 'b> {
    snapshot: Snapshot<'a>,
    board: &'b Board<'b>,
    /// By position on the board.
    lists: Vec<Vec<List>>,
    /// Kinds of devices that may be given out, with one of each.
    open: BTreeMap<String, &'a Device>,
    /// By request, pool and nodes: its row among the sites.
    sites: BTreeMap<Where, usize>,
    sketch: Sketch<'a>,
}

impl<'a, 'b> Maker<'a, 'b> {
    fn new(snapshot: &Snapshot<'a>, policy: &Policy, board: &'b Board<'b>) -> Self {
        let Snapshot { world, now } = *snapshot;
        let reserved = reserved(world, now);
        let mut open = BTreeMap::new();
        let mut lists = Vec::with_capacity(board.nodes.len());
        for (_, row) in world.nodes_by_name() {
            let mut here = Vec::<List>::new();
            for (ix, device) in row.node.devices.iter().enumerate() {
                let is_open = row.node.takes_work()
                    && unusable(row, ix).is_none()
                    && !reserved.contains(&(row.node.name.as_str(), device.uuid.as_str()));
                let kind = format!("{} {}", device.model, device.memory.get());
                if is_open {
                    open.entry(kind.clone()).or_insert(device);
                }
                let kind = if is_open { kind } else { format!("closed {kind}") };
                match here.iter_mut().find(|list| list.kind == kind) {
                    Some(list) => list.devices.push(ix),
                    None => {
                        let (memory, devices) = (device.memory.get(), vec![ix]);
                        here.push(List { kind, memory, devices, is_open });
                    }
                }
            }
            lists.push(here);
        }
        let situation = Situation {
            now: signed(now.get()),
            projects: projects(snapshot, policy),
            ..Situation::default()
        };
        let sketch =
            Sketch { situation, jobs: Vec::new(), nodes: Vec::new(), waiting: Waiting::default() };
        Self { snapshot: *snapshot, board, lists, open, sites: BTreeMap::new(), sketch }
    }

    /// A job that has, or claims, or leaves a place.
    fn holds(&mut self, row: &'a JobRow) {
        let mut tasks = Vec::new();
        for allocation in row.job.phase.allocations() {
            self.held(row, allocation, &mut tasks);
        }
        let last_start = match &row.job.phase {
            Phase::Starting { since, .. } => Some(*since),
            Phase::Running { started_at, .. } => Some(*started_at),
            _ => None,
        };
        // Where it may go if it is moved.
        let is_bound = row.spec.pool.is_some() || row.spec.nodes.is_some();
        let site = is_bound.then(|| self.site(&row.spec));
        tasks.iter_mut().for_each(|task| task.site = site);
        let min = count(tasks.len());
        let mut job = job(&row.spec, row.job.id, row.job.priority, min);
        job.last_start = last_start.map(|at| signed(at.get()));
        job.tasks = tasks;
        self.push(job, Source::Holds(row));
    }

    fn held(&self, row: &JobRow, allocation: &Allocation, tasks: &mut Vec<Task>) {
        let world = self.snapshot.world;
        let Some(board_ix) = self.board.position(world, &allocation.node) else { return };
        let node = &self.board.nodes[board_ix].row;
        let leaves = matches!(allocation.state, AllocationState::Releasing { .. });
        // Whoever leaves a closed node makes room for nobody.
        if leaves && !node.node.takes_work() {
            return;
        }
        let mut by_list = BTreeMap::<usize, Vec<&str>>::new();
        for slot in &allocation.slots {
            let devices = &node.node.devices;
            let Some(ix) = devices.iter().position(|it| it.uuid == slot.device) else { continue };
            let own = |list: &List| list.devices.contains(&ix);
            let Some(list) = self.lists[board_ix].iter().position(own) else { continue };
            // What somebody is to have after it is his already.
            let is_claimed = || node.devices[ix].holders.iter().any(|task| claims(world, *task));
            if !leaves || (self.lists[board_ix][list].is_open && !is_claimed()) {
                by_list.entry(list).or_default().push(slot.device.as_str());
            }
        }
        if by_list.is_empty() && (allocation.slots.is_empty() || leaves) {
            by_list.insert(0, Vec::new());
        }
        let state = match (&allocation.state, &row.job.phase) {
            _ if leaves => TaskState::Releasing,
            (AllocationState::Running, _) => TaskState::Running,
            _ => TaskState::Bound,
        };
        let mut beside = Some(&allocation.resources);
        for (list, devices) in by_list {
            let (cpu, memory) = beside.take().map_or((0, 0), beside_devices);
            let gpu = ask(&row.spec.gpus, devices.len());
            let shared = match row.spec.gpus.share() {
                None => Vec::new(),
                Some(_) => devices.into_iter().map(str::to_owned).collect(),
            };
            let node = allocation.node.to_string();
            tasks.push(Task {
                name: format!("{:06}", tasks.len()),
                set: SET.to_owned(),
                state,
                placement: Some(Placement { node, devices: list, shared }),
                request: Request { gpu, cpu, memory },
                site: None,
                priority: None,
                created: signed(row.spec.submitted_at.get()),
                nominated: None,
            });
        }
    }

    /// The jobs that could start, of each project so many as are looked at.
    fn waiting(&mut self, policy: &Policy) {
        let world = self.snapshot.world;
        let mut heads = BTreeMap::<ProjectIx, Heads<'_>>::new();
        // By these rules nobody is paused, and nobody who is goes on.
        let is_paused = |head: &Head| !world.shape(head.shape_ix).shape.fit.at.is_empty();
        for (_, key, line) in world.lines() {
            heads.entry(key.project_ix).or_default().add(line);
        }
        let (mut users, mut elements) = (Users::default(), Elements::default());
        let mut plain = PlainSlots::of(self.board);
        for heads in heads.values_mut() {
            heads.open(|_| false);
            let mut n_taken = 0;
            while n_taken < DEPTH
                && let Some(head) = heads.first().map(|(head, _)| *head)
            {
                heads.advance();
                if is_paused(&head) {
                    continue;
                }
                let Some(row) = world.job(head.job()) else { continue };
                let shape = &world.shape(head.shape_ix).shape;
                if let Some(reason) = users.quota(world, policy, shape) {
                    self.sketch.waiting.of_shape(head.shape_ix, &reason);
                    continue;
                }
                if let Some(reason) = plain.short(self.board, &shape.fit) {
                    self.sketch.waiting.of_shape(head.shape_ix, &reason);
                    continue;
                }
                if let Some(reason) = elements.full(world, row.job.id) {
                    let n_left = elements.n_left(row);
                    let array = row.job.id.number;
                    self.sketch.waiting.of_array(head.shape_ix, array, n_left, reason);
                    heads.push_next(world, policy, &head);
                    continue;
                }
                let (job, attempt) = elements.next(row);
                self.waits(row, (job, attempt), head.shape_ix);
                users.started(world, policy, shape);
                plain.take(&shape.fit);
                n_taken += 1;
                match elements.take(row) {
                    true => heads.push_again(head),
                    false => heads.push_next(world, policy, &head),
                }
            }
        }
    }

    fn waits(&mut self, row: &'a JobRow, (id, attempt): (JobId, Attempt), shape_ix: ShapeIx) {
        let gang = row.spec.gang;
        let n_tasks = i64::from(gang.tasks_per_node);
        let beside = Resources::none()
            .with_cpus(row.spec.cpus.unwrap_or_default())
            .with_memory(row.spec.memory.unwrap_or_default());
        let (cpu, memory) = beside_devices(&beside);
        let fit = &self.snapshot.world.shape(shape_ix).shape.fit;
        let n_devices = usize::try_from(fit.n_devices_on_node()).unwrap_or(usize::MAX);
        let mut job = job(&row.spec, id, row.job.priority, i64::from(gang.nodes));
        let request = Request {
            gpu: ask(&row.spec.gpus, n_devices),
            cpu: cpu.saturating_mul(n_tasks),
            memory: memory.saturating_mul(n_tasks),
        };
        let site = Some(self.site(&row.spec));
        // What a node gets is one task here.
        let task = |number: u32| Task {
            name: format!("{number:06}"),
            set: SET.to_owned(),
            state: TaskState::Pending,
            placement: None,
            request: request.clone(),
            site,
            priority: None,
            created: signed(row.spec.submitted_at.get()),
            nominated: None,
        };
        job.tasks = (0..gang.nodes).map(task).collect();
        self.push(job, Source::Waits { job: id, attempt, row, shape_ix });
    }

    /// Where such work may go.
    fn site(&mut self, spec: &JobSpec) -> usize {
        let JobSpec { gpus, pool, nodes, .. } = spec;
        let key = (gpus.clone(), pool.clone(), nodes.clone());
        if let Some(row) = self.sites.get(&key) {
            return *row;
        }
        let fit = &Fit::of(spec);
        let open = self.board.nodes.iter().filter(|node| node.takes(fit));
        let fits = |(_, device): &(&String, &&Device)| gpus.rank_of(device).is_some();
        let kinds = self.open.iter().filter(fits).map(|(kind, _)| kind.clone()).collect();
        let row = self.sketch.situation.sites.len();
        self.sketch.situation.sites.push(Site {
            nodes: Some(open.map(|node| node.name().to_string()).collect()),
            kinds: (!gpus.is_none()).then_some(kinds),
        });
        self.sites.insert(key, row);
        row
    }

    fn push(&mut self, job: kai::Job, source: Source<'a>) {
        self.sketch.situation.jobs.push(job);
        self.sketch.jobs.push(source);
    }

    fn finish(mut self) -> Sketch<'a> {
        // What may not be given out counts as far as it is held.
        let mut held = BTreeMap::<(&str, usize), BTreeSet<&str>>::new();
        let mut whole = BTreeMap::<(&str, usize), i64>::new();
        for task in self.sketch.situation.jobs.iter().flat_map(|job| &job.tasks) {
            let Some(at) = &task.placement else { continue };
            let key = (at.node.as_str(), at.devices);
            held.entry(key).or_default().extend(at.shared.iter().map(String::as_str));
            if let GpuAsk::Whole(n) = task.request.gpu {
                *whole.entry(key).or_default() += n;
            }
        }
        let mut nodes = Vec::with_capacity(self.board.nodes.len());
        for (board_ix, lists) in self.lists.iter().enumerate() {
            let node = &self.board.nodes[board_ix].row.node;
            let name = node.name.as_str();
            let devices = lists.iter().enumerate().map(|(at, list)| {
                let n_shared = held.get(&(name, at)).map_or(0, BTreeSet::len);
                let n_whole = whole.get(&(name, at)).copied().unwrap_or(0);
                let count = match list.is_open {
                    true => count(list.devices.len()),
                    false => n_whole + count(n_shared),
                };
                let memory = Some(signed(list.memory)).filter(|memory| *memory > 0);
                Devices { kind: list.kind.clone(), count, memory, mode: DeviceMode::Whole }
            });
            let amount = |kind| signed(node.capacity.get(&kind));
            nodes.push(kai::Node {
                name: name.to_owned(),
                cpu: amount(ResourceKind::Cpu),
                memory: amount(ResourceKind::Memory),
                slots: amount(ResourceKind::Tasks),
                devices: devices.collect(),
            });
            let positions = lists.iter().map(|list| list.devices.clone()).collect();
            self.sketch.nodes.push((board_ix, positions));
        }
        self.sketch.situation.nodes = nodes;
        self.sketch
    }
}

/// Devices that somebody is to have alone, now or later: by node and device.
fn reserved(world: &World, now: Timestamp) -> BTreeSet<(&str, &str)> {
    let mut reserved = BTreeSet::new();
    for by in world.reservations().values().filter(|by| !by.is_over(now)) {
        for (_, row) in world.nodes_by_name() {
            let name = &row.node.name;
            let devices =
                row.node.devices.iter().filter(|device| {
                    by.what.has_node(name) || by.what.has_device(name, &device.uuid)
                });
            reserved.extend(devices.map(|device| (name.as_str(), device.uuid.as_str())));
        }
    }
    reserved
}

fn job(spec: &JobSpec, id: JobId, priority: i32, min: i64) -> kai::Job {
    let element = id.element.map_or(0, |element| u64::from(element) + 1);
    kai::Job {
        // Ties are settled by names.
        name: format!("{:020}.{element:010}", id.number.0),
        project: spec.project.to_string(),
        // Of one priority those that make others larger come last, and go first.
        priority: i64::from(priority) * 2 + i64::from(spec.joins.is_none()),
        preemptible: spec.life.preemptible == Some(true),
        created: signed(spec.submitted_at.get()),
        gang: Group {
            name: String::new(),
            sets: vec![TaskSet { name: SET.to_owned(), min }],
            groups: Vec::new(),
        },
        last_start: None,
        stale_since: None,
        tasks: Vec::new(),
    }
}

fn ask(gpus: &GpuRequest, n_devices: usize) -> GpuAsk {
    let devices = count(n_devices);
    match gpus.amount {
        _ if devices == 0 => GpuAsk::None,
        // Instances are kinds of devices of their own here, and each counts as a whole one.
        GpuAmount::Whole(_) | GpuAmount::Instances { .. } => GpuAsk::Whole(devices),
        GpuAmount::Shared { share: Share::Part(part), .. } => {
            GpuAsk::Share { milli: signed(part.get()), devices }
        }
        GpuAmount::Shared { share: Share::Memory(bytes), .. } => {
            GpuAsk::Memory { bytes: signed(bytes.get()), devices }
        }
    }
}

/// CPU cores and memory.
fn beside_devices(resources: &Resources) -> (i64, i64) {
    let amount = |kind| signed(resources.get(&kind));
    (amount(ResourceKind::Cpu), amount(ResourceKind::Memory))
}

fn count(n: usize) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

fn signed(amount: u64) -> i64 {
    i64::try_from(amount).unwrap_or(i64::MAX)
}

/// The tree of projects; those that have jobs and no record any more have no bounds.
fn projects(snapshot: &Snapshot<'_>, policy: &Policy) -> Vec<kai::Project> {
    let world = snapshot.world;
    let used = used(snapshot, policy);
    let mut all: BTreeMap<&ProjectName, Project> =
        world.projects().iter().map(|(name, it)| (name, it.clone())).collect();
    for row in world.project_rows().iter().filter(|row| row.n_jobs > 0) {
        all.entry(&row.name).or_insert_with(|| Project::open(row.name.clone()));
    }
    let mut children = BTreeMap::<&ProjectName, Vec<&Project>>::new();
    for it in all.values() {
        children.extend(it.parent.as_ref().map(|parent| (parent, Vec::new())));
    }
    for it in all.values() {
        if let Some(below) = it.parent.as_ref().and_then(|parent| children.get_mut(parent)) {
            below.push(it);
        }
    }
    let quota = |it: &Project, kind: &ResourceKind| {
        let Quota { limit, weight, .. } = it.quota(kind);
        kai::Quota {
            guaranteed: guaranteed(&children, it, kind, 0).finite().map(signed),
            limit: limit.finite().map(signed),
            weight: i64::from(weight.thousandths()),
            usage: match kind {
                ResourceKind::Gpu => used.get(&it.name).copied().map_or(0, i64::from),
                _ => 0,
            },
        }
    };
    let project = |it: &Project| kai::Project {
        name: it.name.to_string(),
        parent: it.parent.as_ref().map(ToString::to_string),
        priority: i64::from(it.priority),
        created: signed(it.created_at.get()),
        gpu: quota(it, &ResourceKind::Gpu),
        cpu: quota(it, &ResourceKind::Cpu),
        memory: quota(it, &ResourceKind::Memory),
        min_run_preempt: it.min_runtime.preempt.map(|length| signed(length.get())),
        min_run_reclaim: it.min_runtime.reclaim.map(|length| signed(length.get())),
    };
    all.values().map(project).collect()
}

/// What was used lately, by each project and all below it, in millionths of what could have been.
fn used(snapshot: &Snapshot<'_>, policy: &Policy) -> BTreeMap<ProjectName, u32> {
    let Snapshot { world, now } = *snapshot;
    let mut used = BTreeMap::<ProjectName, GpuTime>::new();
    let rows = world.project_rows().iter().enumerate().filter(|_| policy.use_weight > 0);
    for (ix, row) in rows {
        let here = world.used_in(ProjectIx(ix), now);
        let parent = |it: &ProjectName| world.projects().get(it)?.parent.clone();
        let upwards = std::iter::successors(Some(row.name.clone()), parent);
        for name in upwards.take(world.projects().len().max(1)) {
            let sum = used.entry(name).or_default();
            *sum = sum.saturating_add(here);
        }
    }
    let gpus = MilliGpu::new(world.capacity().get(&ResourceKind::Gpu));
    let all = always(gpus, policy.use_half_life);
    used.into_iter().map(|(name, used)| (name, in_millionths(used, all))).collect()
}

/// What a project is guaranteed; a department that says nothing, what those below it are.
fn guaranteed(
    children: &BTreeMap<&ProjectName, Vec<&Project>>,
    it: &Project,
    kind: &ResourceKind,
    depth: usize,
) -> Amount {
    if let Some(written) = it.quota(kind).guaranteed {
        return written;
    }
    match children.get(&it.name) {
        _ if *kind != ResourceKind::Gpu => Amount::UNLIMITED,
        // No command makes a circle of projects.
        Some(below) if depth <= children.len() => below
            .iter()
            .map(|it| guaranteed(children, it, kind, depth + 1))
            .fold(Amount::NOTHING, Amount::plus),
        _ => Amount::NOTHING,
    }
}
