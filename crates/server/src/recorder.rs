//! Looks at devices and waiting jobs every few seconds, and writes GPU time minute by minute.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use gpool_control::project_tree;
use gpool_history::UNMANAGED;
use gpool_model::device::Lending;
use gpool_model::pattern::short_model;
use gpool_model::{
    Allocation, Device, JobId, NodeName, Phase, Project, Refusal, ResourceKind, TaskId,
};
use gpool_protocol::recent::TaskMetric;
use gpool_wire::live_usage::LiveUsage;
use gpool_world::{JobRow, NodeRow, World};
use tokio::time::MissedTickBehavior;

use crate::clock::now;
use crate::handle::{Age, CoreHandle};
use gpool_insight::usage::hosts::{Readings, Running};
use gpool_insight::usage::minutes::{
    DeviceReading, HeldPart, JobReading, Minutes, UsageSnapshot, WaitingJobs,
};
use gpool_insight::usage::this_minute;

/// Pause between two looks at the devices.
const PAUSE: Duration = Duration::from_secs(5);
/// A longer gap counts only this much: its rest is not known.
const GAP_MAX: Duration = Duration::from_secs(15);

/// Looks at the devices and writes each minute when it is over, until the server stops.
pub async fn keep(handle: CoreHandle) {
    let mut timer = tokio::time::interval(PAUSE);
    timer.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let (mut minutes, mut store, mut last) = (Minutes::default(), None, Instant::now());
    let (mut readings, mut heard) = (Readings::default(), now());
    loop {
        timer.tick().await;
        let (mut look, running) = match look(&handle).await {
            Ok(look) => look,
            Err(Refusal::ShuttingDown) => return,
            // The next look may work.
            Err(_) => continue,
        };
        let metrics = handle.metrics(None, std::mem::replace(&mut heard, now())).await;
        look.jobs = jobs(&handle, &mut readings, &running, metrics);
        let passed = last.elapsed().min(GAP_MAX);
        last = Instant::now();
        handle.shared.insight.lives.tally.looked(passed, &look);
        let passed_ms = u64::try_from(passed.as_millis()).unwrap_or(0);
        let Some(minute) = minutes.add(this_minute(), passed_ms, &look) else { continue };
        let shared = Arc::clone(&handle.shared);
        let write = move || {
            shared.insight.usage.write(&mut store, &minute);
            store
        };
        store = tokio::task::spawn_blocking(write).await.unwrap_or_default();
    }
}

/// The use of hosts of some running jobs, and the metrics that jobs reported, also those of jobs
/// that have ended since.
fn jobs(
    handle: &CoreHandle,
    readings: &mut Readings,
    running: &[Running],
    metrics: Vec<TaskMetric>,
) -> Vec<JobReading> {
    let mut seen = BTreeMap::<JobId, JobReading>::new();
    for it in readings.turn(running) {
        let used = |(task, node): &(TaskId, NodeName)| handle.agent(node)?.aged_usage(*task);
        let used: Vec<_> = it.tasks.iter().filter_map(used).collect();
        let age = used.iter().map(|(age, _)| *age).max().unwrap_or_default();
        let used: Vec<_> = used.into_iter().map(|(_, usage)| usage).collect();
        let at_s = now().get() as f64 / 1000.0 - age.as_secs_f64();
        let host = readings.read(&it, at_s, LiveUsage::of_tasks(&used).unwrap_or_default());
        if let Some(host) = host {
            seen.entry(it.job).or_default().host = host;
        }
    }
    for TaskMetric { task, name, points } in metrics {
        if let Some((_, value)) = points.last() {
            seen.entry(task.job).or_default().metrics.push((name, task.rank, *value));
        }
    }
    seen.into_iter().map(|(job, seen)| JobReading { job: job.to_string(), ..seen }).collect()
}

/// All devices with their holders and last samples, all jobs that wait for capacity, and those that
/// run.
pub async fn look(handle: &CoreHandle) -> Result<(UsageSnapshot, Vec<Running>), Refusal> {
    let uid = handle.info().uid;
    let (samples, lending) = (handle.samples(), handle.lending());
    let all = move |view: &crate::View<'_>| {
        let mut devices = Vec::new();
        for (_, row) in view.world.nodes_by_name() {
            for (ix, device) in row.node.devices.iter().enumerate() {
                let mut it = DeviceReading {
                    device: device.uuid.to_string(),
                    model: short_model(&device.model),
                    node: row.node.name.to_string(),
                    pool: row.node.pool.to_string(),
                    sample: samples.get(&device.uuid).cloned().unwrap_or_default(),
                    held: held(view.world, row, ix, lending.get(&device.uuid)),
                };
                let sample = &it.sample;
                for held in it.held.iter_mut().filter(|held| held.milli == 1000) {
                    held.busy_percent = sample.utilization_percent;
                    held.useful_permille = sample.detail.sm_active_permille;
                    held.memory = sample.memory_used.map(|bytes| bytes.get());
                }
                if it.held.is_empty() {
                    it.held = unmanaged(device, sample.utilization_percent);
                }
                devices.push(it);
            }
        }
        let (waiting, guaranteed) = (waiting(view.world), guaranteed(view.world));
        let prices = view.world.policy().prices.clone();
        let look = UsageSnapshot { devices, waiting, guaranteed, jobs: Vec::new(), prices };
        (look, running(view.world))
    };
    handle.look(uid, Age::New, all).await
}

/// The running jobs, in the order of their IDs.
fn running(world: &World) -> Vec<Running> {
    let one = |row: &JobRow| {
        let Phase::Running { allocations, .. } = &row.job.phase else { return None };
        let task = |it: &Allocation| (it.task, it.node.clone());
        let tasks: Vec<_> = allocations.iter().map(task).collect();
        Some(Running { job: row.job.id, attempt: tasks.first()?.0.attempt, tasks })
    };
    world.holding().filter_map(one).collect()
}

fn held(world: &World, row: &NodeRow, ix: usize, lending: Option<&Lending>) -> Vec<HeldPart> {
    let device = &row.node.devices[ix];
    let by = row.devices[ix].holders.iter().filter_map(|task| {
        let job = world.job(task.job)?;
        let mut allocations = job.job.phase.allocations().iter();
        let allocation = allocations.find(|allocation| allocation.task == *task)?;
        let slot = allocation.slots.iter().find(|slot| slot.device == device.uuid)?;
        Some(HeldPart {
            job: Some(task.job.to_string()),
            project: job.spec.project.to_string(),
            user: job.spec.owner.user.to_string(),
            kind: job.spec.kind().to_string(),
            milli: slot.part.charge().get(),
            busy_percent: lending.and_then(|it| it.compute_percent.get(task).copied()),
            useful_permille: None,
            memory: None,
        })
    });
    by.collect()
}

/// The jobs that wait for capacity, by group.
fn waiting(world: &World) -> Vec<WaitingJobs> {
    let mut models = BTreeMap::<&str, String>::new();
    for device in world.nodes().iter().flat_map(|row| &row.node.devices) {
        models.entry(&device.model).or_insert_with(|| short_model(&device.model));
    }
    let mut groups = BTreeMap::<_, u64>::new();
    for (_, queue) in world.shapes() {
        let gpus = &queue.shape.fit.gpus;
        let each = queue.shape.fit.gpus_together().get();
        if each == 0 {
            continue;
        }
        let accepts = |model: &&str| {
            gpus.models.is_empty() || gpus.models.iter().any(|pattern| pattern.matches(model))
        };
        let found: BTreeSet<&String> =
            models.iter().filter(|(model, _)| accepts(model)).map(|(_, short)| short).collect();
        let model = if found.len() == 1 { found.first().map_or("", |it| it) } else { "" };
        for (_, id) in queue.fresh.iter().chain(&queue.escalated) {
            let Some(row) = world.job(*id) else { continue };
            let spec = &row.spec;
            let group = (&spec.project, &spec.owner.user, model, spec.kind(), &spec.pool);
            let milli = groups.entry(group).or_default();
            *milli = each.saturating_mul(queue.n_of(*id)).saturating_add(*milli);
        }
    }
    let one = |((project, user, model, kind, pool), milli): ((_, _, &str, _, &Option<_>), u64)| {
        WaitingJobs {
            project: ToString::to_string(project),
            user: ToString::to_string(user),
            model: model.to_owned(),
            kind: ToString::to_string(&kind),
            pool: pool.as_ref().map(ToString::to_string).unwrap_or_default(),
            milli,
        }
    };
    groups.into_iter().map(one).collect()
}

/// The guaranteed GPUs of each project. A department has the part that its projects are not
/// guaranteed.
fn guaranteed(world: &World) -> Vec<(String, u64)> {
    let projects = world.projects();
    let children = project_tree::children(projects);
    let of = |project: &Project| {
        project_tree::guaranteed(projects, &children, project, &ResourceKind::Gpu).finite()
    };
    let own = |project: &Project| {
        let below = children.get(&project.name).into_iter().flatten();
        let below: Option<u64> = below.filter_map(|name| projects.get(name)).map(of).sum();
        Some(of(project)?.saturating_sub(below?))
    };
    let all = projects.values().filter_map(|it| Some((it.name.to_string(), own(it)?)));
    all.filter(|(_, milli)| *milli > 0).collect()
}

/// The users of processes that gpool did not start, with equal parts of the device.
fn unmanaged(device: &Device, busy_percent: Option<u32>) -> Vec<HeldPart> {
    let users = device.unmanaged.iter().map(|it| it.user.clone().unwrap_or_default());
    let users: BTreeSet<String> = users.collect();
    let milli = 1000 / u64::try_from(users.len().max(1)).unwrap_or(1);
    let of = |user| HeldPart {
        job: None,
        project: String::new(),
        user,
        kind: UNMANAGED.to_owned(),
        milli,
        busy_percent,
        useful_permille: None,
        memory: None,
    };
    users.into_iter().map(of).collect()
}
