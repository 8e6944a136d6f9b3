//! Writes situations as scenarios, so that a random case can be kept and read. Facts that scenarios
//! can't express, such as texts for people and commands, are left out.

use std::collections::BTreeSet;
use std::fmt::{self, Write as _};

use gpool_model::job::Holder;
use gpool_model::{
    Bytes, DependencyKind, Device, DeviceHealth, DeviceUuid, GpuTime, Job, JobSpec, Likeness, Link,
    MilliCpu, Node, Phase, PoolName, ResourceKind, Timestamp,
};

use crate::amount::{bytes, span};
use crate::caps::caps;
use crate::gang::shape_text;
use crate::guest::guests;
use crate::nodes::{memory_of, numbers, profile_of};
use crate::past::{like, past};
use crate::policy::policy;
use crate::project::project;
use crate::reserve::{drains, reservation};
use crate::situation::{Situation, bare_spec};
use crate::used::used;
use crate::{array, chosen, phase};

impl fmt::Display for Situation {
    /// Jobs are named `j` and their id, since names need not be unique.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        policy(f, &self.policy)?;
        caps(f, &self.policy.user_caps)?;
        for one in &self.nodes {
            node(f, one)?;
            drains(f, self.now, one)?;
        }
        let mut last_id = 0;
        for (spec, one) in &self.jobs {
            job(f, self, spec, one)?;
            if one.id.element.is_some() {
                writeln!(f)?;
                continue;
            }
            if spec.id.number.0 != last_id + 1 {
                write!(f, "  id {}", spec.id.number)?;
            }
            last_id = spec.id.number.0;
            writeln!(f)?;
        }
        guests(f, &self.nodes)?;
        self.projects_by_age().into_iter().try_for_each(|it| project(f, it))?;
        self.reservations.iter().try_for_each(|it| reservation(f, self, it))?;
        self.past_of_jobs().try_for_each(|runs| past(f, runs))?;
        self.used.iter().try_for_each(|it| used(f, it))
    }
}

fn node(f: &mut fmt::Formatter<'_>, node: &Node) -> fmt::Result {
    write!(f, "node {}", node.name)?;
    let kind = |device: &Device| {
        // A model is one word here; patterns match words, so they still match.
        let model = device.model.split_whitespace().collect::<Vec<_>>().join("-");
        let layout = layout(node, device);
        match memory_of(&model) == device.memory {
            true => format!("{model}{layout}"),
            false => format!("{model}@{}{layout}", bytes(device.memory)),
        }
    };
    let devices = node.devices.iter().filter(|device| device.instance.is_none());
    let devices: Vec<&Device> = devices.collect();
    for (at, group) in devices.chunk_by(|a, b| kind(a) == kind(b)).enumerate() {
        let plus = if at == 0 { "  " } else { " + " };
        write!(f, "{plus}{} x {}", group.len(), kind(group[0]))?;
    }
    let capacity = |kind| node.capacity.get(&kind);
    let cpus = MilliCpu::new(capacity(ResourceKind::Cpu));
    let memory = Bytes::new(capacity(ResourceKind::Memory));
    let tasks = capacity(ResourceKind::Tasks);
    if cpus != Situation::CPUS {
        write!(f, "  cpus {cpus}")?;
    }
    if memory != Situation::MEMORY {
        write!(f, "  mem {}", bytes(memory))?;
    }
    if tasks != u64::from(Situation::TASKS) {
        write!(f, "  tasks {tasks}")?;
    }
    for (word, kind) in [("plain", ResourceKind::PlainTasks), ("user", ResourceKind::UserTasks)] {
        match capacity(kind) {
            0 => {}
            part => write!(f, "  {word} {part}")?,
        }
    }
    if node.pool != PoolName::usual() {
        write!(f, "  pool {}", node.pool)?;
    }
    for label in gpool_model::label::texts(&node.all_labels()) {
        write!(f, "  label {label}")?;
    }
    if node.can_pause() {
        let is_real = node.devices.iter().any(|device| !device.pci_bus.is_empty());
        f.write_str(if is_real { "  checkpoints" } else { "  pauses" })?;
    }
    writeln!(f, "{}", if node.is_reachable() { "" } else { "  unreachable" })?;
    links(f, node)?;
    states(f, node)
}

/// Writes the states of the node's devices that are not as usual.
fn states(f: &mut fmt::Formatter<'_>, node: &Node) -> fmt::Result {
    for (device, number) in node.devices.iter().zip(numbers(node)) {
        let at = format!("gpu {}[{number}]", node.name);
        match &device.health {
            DeviceHealth::Healthy => {}
            DeviceHealth::Unhealthy { .. } => writeln!(f, "{at}  unhealthy")?,
            DeviceHealth::Lost => writeln!(f, "{at}  lost")?,
            DeviceHealth::Unknown { .. } => writeln!(f, "{at}  unknown")?,
        }
        for process in &device.unmanaged {
            match &process.user {
                Some(user) => writeln!(f, "{at}  unmanaged by {user}")?,
                None => writeln!(f, "{at}  unmanaged")?,
            }
        }
        if !node.allows(&device.uuid) {
            writeln!(f, "{at}  forbidden")?;
        }
        if device.is_divided() && layout(node, device).is_empty() {
            writeln!(f, "{at}  mig")?;
        }
        if device.has_stuck_guest() {
            writeln!(f, "{at}  occupied")?;
        }
    }
    Ok(())
}

/// Writes how a device is divided, after its model.
fn layout(node: &Node, device: &Device) -> String {
    let instances = node.devices.iter().filter_map(|it| {
        let instance = it.instance.as_ref().filter(|instance| instance.parent == device.index)?;
        let (profile, memory) = profile_of(it, instance);
        Some(match memory == it.memory {
            true => profile,
            false => format!("{profile}@{}", bytes(it.memory)),
        })
    });
    let instances: Vec<String> = instances.collect();
    if instances.is_empty() { String::new() } else { format!("/{}", instances.join("+")) }
}

/// Writes groups of devices with equal links, one line each.
fn links(f: &mut fmt::Formatter<'_>, node: &Node) -> fmt::Result {
    let link = |a: usize, b: usize| -> Link {
        let of = |from: &Device, to: &DeviceUuid| from.links.get(to).copied();
        let (a, b) = (&node.devices[a], &node.devices[b]);
        of(a, &b.uuid).or_else(|| of(b, &a.uuid)).unwrap_or(Link::System)
    };
    let (numbers, mut written) = (numbers(node), BTreeSet::new());
    for first in 0..node.devices.len() {
        for second in first + 1..node.devices.len() {
            let kind = link(first, second);
            if kind == Link::System || written.contains(&(first, second)) {
                continue;
            }
            let mut group = vec![first, second];
            for next in second + 1..node.devices.len() {
                if group.iter().all(|member| link(*member, next) == kind) {
                    group.push(next);
                }
            }
            for (at, one) in group.iter().enumerate() {
                written.extend(group[at + 1..].iter().map(|other| (*one, *other)));
            }
            let indexes = group.iter().map(|at| numbers[*at].to_string());
            let positions: Vec<String> = indexes.collect();
            let kind = match kind {
                Link::System => continue,
                Link::Numa => "numa".to_owned(),
                Link::HostBridge => "bridge".to_owned(),
                Link::Switch => "switch".to_owned(),
                Link::NvLink(count) => format!("nvlink {count}"),
            };
            writeln!(f, "link {}[{}]  {kind}", node.name, positions.join(","))?;
        }
    }
    Ok(())
}

fn job(
    f: &mut fmt::Formatter<'_>,
    situation: &Situation,
    spec: &JobSpec,
    job: &Job,
) -> fmt::Result {
    let age = |since: Timestamp| situation.now.since(since);
    let since = state(f, situation, spec, job)?;
    if job.id.element.is_some() {
        return Ok(());
    }
    if let Phase::Stopping { since: told, .. } = &job.phase
        && !age(*told).is_zero()
    {
        write!(f, "  told {}", span(age(*told)))?;
    }
    array::print(f, spec, job)?;
    if job.priority != 0 {
        write!(f, "  priority {}", job.priority)?;
    }
    room(f, spec)?;
    if !job.waited.is_zero() {
        write!(f, "  waited {}", span(job.waited))?;
    }
    if age(spec.submitted_at) != age(since).saturating_add(job.waited) {
        write!(f, "  submitted {}", span(age(spec.submitted_at)))?;
    }
    let bare = bare_spec(spec.id, "", &spec.gpus, spec.submitted_at);
    if spec.owner.uid != bare.owner.uid {
        write!(f, "  uid {}", spec.owner.uid)?;
    }
    for (word, at) in [("begin", spec.life.begin), ("deadline", spec.life.deadline)] {
        if let Some(at) = at.filter(|at| *at > situation.now) {
            write!(f, "  {word} {}", span(at.since(situation.now)))?;
        }
    }
    like(f, &Likeness::of(spec))?;
    if spec.project != bare.project {
        write!(f, "  project {}", spec.project)?;
    }
    if let Some(pool) = &spec.pool {
        write!(f, "  pool {pool}")?;
    }
    if let Some(with) = spec.share_with {
        write!(f, "  share-with {with}")?;
    }
    chosen::write(f, spec.nodes.as_deref())?;
    gives_way(f, situation, spec)?;
    let had = job.course.attained.saturating_sub(job.course.forgiven);
    let thousandths = had.get() / GpuTime::HOUR.div_floor(1000).get();
    if thousandths > 0 {
        write!(f, "  had {}", MilliCpu::new(thousandths))?;
    }
    if job.attempt.0 != 1 {
        write!(f, "  attempt {}", job.attempt)?;
    }
    after(f, situation, spec)
}

/// Writes the name, the devices, the phase and the allocations of a job; returns the begin of the
/// phase.
fn state(
    f: &mut fmt::Formatter<'_>,
    situation: &Situation,
    spec: &JobSpec,
    job: &Job,
) -> Result<Timestamp, fmt::Error> {
    let state = phase::word(&job.phase, spec);
    match job.id.element {
        None => {
            write!(f, "job j{}  {}  {state}", spec.id.number, shape_text(spec))?;
        }
        Some(index) => write!(f, "element j{} {index}  {state}", spec.id.number)?,
    }
    for allocation in job.phase.allocations() {
        write!(f, " {}", place(situation, allocation))?;
    }
    if let Phase::Held { by, .. } = &job.phase {
        f.write_str(match by {
            Holder::User => "",
            Holder::Admin => " by admin",
            Holder::Idle => " by idle",
            Holder::Scheduler => " by scheduler",
            Holder::Budget => " by budget",
        })?;
    }
    let since = since(job);
    let age = situation.now.since(since);
    if !age.is_zero() {
        write!(f, " {}", span(age))?;
    }
    if matches!(job.phase, Phase::Paused { .. }) && !job.ran(situation.now).is_zero() {
        write!(f, "  ran {}", span(job.ran(situation.now)))?;
    }
    Ok(since)
}

/// The begin of a job's phase.
fn since(job: &Job) -> Timestamp {
    match &job.phase {
        Phase::Held { since, .. }
        | Phase::Waiting { since }
        | Phase::Pending { since }
        | Phase::Underway { since }
        | Phase::Starting { since, .. }
        | Phase::Paused { since, .. } => *since,
        // Scenarios have no word for the time of a pause, so it shortens the run time.
        Phase::Running { started_at, .. } => started_at.after(job.course.paused),
        Phase::Stopping { started_at, since, .. } => started_at.unwrap_or(*since),
        Phase::Ended(end) => end.ended_at,
    }
}

/// Writes the requested cores and memory.
fn room(f: &mut fmt::Formatter<'_>, spec: &JobSpec) -> fmt::Result {
    if let Some(cpus) = spec.cpus {
        write!(f, "  cpus {cpus}")?;
    }
    if let Some(memory) = spec.memory {
        write!(f, "  mem {}", bytes(memory))?;
    }
    match spec.time_limit {
        Some(limit) => write!(f, "  limit {}", span(limit)),
        None => Ok(()),
    }
}

/// Writes the job that it joins, or whether and how it is preemptible.
fn gives_way(f: &mut fmt::Formatter<'_>, situation: &Situation, spec: &JobSpec) -> fmt::Result {
    let joined = spec.joins.as_ref();
    let joined =
        joined.and_then(|joins| situation.jobs.iter().find(|(other, _)| other.id == joins.job));
    match joined {
        Some((joined, _)) => write!(f, "  joins {}", joined.name),
        None if spec.life.preemptible == Some(true) => {
            f.write_str("  preemptible")?;
            if spec.life.exits.is_empty() {
                return Ok(());
            }
            let exits: Vec<&str> = spec.life.exits.iter().map(|it| it.as_str()).collect();
            write!(f, "  exits {}", exits.join(","))
        }
        None => Ok(()),
    }
}

/// Writes the dependencies. Ended jobs are not in a situation, so dependencies on them are left
/// out.
fn after(f: &mut fmt::Formatter<'_>, situation: &Situation, spec: &JobSpec) -> fmt::Result {
    let there = |job| situation.jobs.iter().any(|(other, _)| other.id == job);
    let live: Vec<String> = (spec.after.iter())
        .filter(|after| there(after.job))
        .map(|after| {
            let kind = match after.kind {
                DependencyKind::Ok => "",
                DependencyKind::Fail => "fail:",
                DependencyKind::End => "end:",
                DependencyKind::Each => "each:",
                DependencyKind::Start => "start:",
            };
            format!("{kind}j{}", after.job.number)
        })
        .collect();
    match live.is_empty() {
        true => Ok(()),
        false => write!(f, "  after {}", live.join(",")),
    }
}

fn place(situation: &Situation, allocation: &gpool_model::Allocation) -> String {
    let node = situation.nodes.iter().find(|node| node.name == allocation.node);
    let devices = node.map_or(&[][..], |node| &node.devices);
    let numbers = node.map(numbers).unwrap_or_default();
    let positions: Vec<String> = (allocation.slots.iter())
        .filter_map(|slot| devices.iter().position(|device| device.uuid == slot.device))
        .map(|position| numbers[position].to_string())
        .collect();
    let mut text = allocation.node.to_string();
    if !positions.is_empty() {
        // Writing to a string can't fail.
        let _ = write!(text, "[{}]", positions.join(","));
    }
    text
}
