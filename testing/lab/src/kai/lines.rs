//! A case of the quota scheduler as a situation of the scheduler that runs jobs, in its lines of
//! text, as far as that has what the case uses.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fmt::Write as _;

use gpool_model::mig::Profile;
use gpool_model::{Bytes, Instance};

use super::case::{self, Case, DeviceMode, GpuAsk, TaskState};

/// What a case uses that the scheduler does not have, or has otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Missing {
    /// A job of several kinds of tasks.
    Parts,
    /// MIG instances of several profiles for one task, or nodes whose devices are single instances
    /// beside others.
    Instances,
    /// Nodes that a job names.
    NamedNodes,
    /// Tasks that may not start yet.
    Gated,
    /// Rules that decide which jobs run are switched off, and the result differs by more than the
    /// node.
    Switches,
    /// The answer of KAI's rules: only those of the public scenarios are recorded.
    Answer,
    /// Jobs that hold more than their nodes have.
    Overbooked,
    /// Amounts finer than a thousandth of a GPU, or names that can't be written.
    Unwritable,
}

impl Missing {
    /// In words, as the reason why it is not played.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::Parts => "a job of several kinds of tasks",
            Self::Instances => "MIG instances of several profiles",
            Self::NamedNodes => "a job that names its nodes",
            Self::Gated => "tasks that may not start yet",
            Self::Switches => "disabled rules",
            Self::Answer => "no recorded answer",
            Self::Overbooked => "jobs that use more than the capacity",
            Self::Unwritable => "an amount or a name that a scenario can't express",
        }
    }
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.words())
    }
}

/// A case as text, and what its jobs may grow by.
pub struct Written {
    pub lines: String,
    /// By how many tasks beyond those that must run, by name of the job.
    pub extras: BTreeMap<String, usize>,
}

/// Returns the lines of a case. Tasks beyond the minimum of a job are jobs of their own that join
/// it, as for any job that grows. `gone` are jobs that do not come back after an eviction.
///
/// # Errors
/// A feature of the case that the live scheduler lacks.
pub fn lines(case: &Case, gone: &BTreeSet<&str>) -> Result<Written, Missing> {
    let mut text = String::new();
    for project in &case.projects {
        text.push_str(&line_of_project(project)?);
    }
    for node in &case.nodes {
        text.push_str(&line_of_node(node)?);
    }
    let mut places = Places::default();
    let mut extras = BTreeMap::new();
    // Those that run come first: their devices are taken.
    let mut jobs: Vec<&case::Job> = case.jobs.iter().collect();
    jobs.sort_by_key(|job| (job.created, &job.name));
    for job in jobs {
        if !is_booked(job) {
            text.push_str(&lines_of_unmanaged(case, job, &mut places)?);
            continue;
        }
        let comes_back = !gone.contains(job.name.as_str());
        let (lines, n_extra) = lines_of_job(case, (job, comes_back), &mut places)?;
        text.push_str(&lines);
        if n_extra > 0 {
            extras.insert(job.name.clone(), n_extra);
        }
    }
    Ok(Written { lines: text, extras })
}

fn name(name: &str) -> Result<&str, Missing> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let fits = !name.is_empty() && name.chars().all(is_plain);
    if fits { Ok(name) } else { Err(Missing::Unwritable) }
}

/// Thousandths as they are read.
fn number(thousandths: i64) -> Result<String, Missing> {
    match u64::try_from(thousandths) {
        Ok(n) => Ok(gpool_model::MilliCpu::new(n).to_string()),
        Err(_) => Err(Missing::Unwritable),
    }
}

/// Bytes as they are read.
fn memory(bytes: i64) -> Result<String, Missing> {
    let bytes = u64::try_from(bytes).map_err(|_| Missing::Unwritable)?;
    Ok(format!("{bytes}B"))
}

fn line_of_project(project: &case::Project) -> Result<String, Missing> {
    let mut text = format!("project {}", name(&project.name)?);
    if let Some(parent) = &project.parent {
        let _ = write!(text, "  in {}", name(parent)?);
    }
    let guaranteed = project.gpu.guaranteed.map_or(Ok("unlimited".to_owned()), number)?;
    let _ = write!(text, "  gpus {guaranteed}");
    if let Some(limit) = project.gpu.limit {
        let _ = write!(text, "  limit {}", number(limit)?);
    }
    let _ = write!(text, "  weight {}", number(project.gpu.weight)?);
    let (cpu, mem) = (&project.cpu, &project.memory);
    let others = [
        ("cpus", cpu.guaranteed.map(number)),
        ("cpus-limit", cpu.limit.map(number)),
        ("mem", mem.guaranteed.map(memory)),
        ("mem-limit", mem.limit.map(memory)),
    ];
    for (word, said) in others {
        if let Some(said) = said {
            let _ = write!(text, "  {word} {}", said?);
        }
    }
    let _ = writeln!(text, "  priority {}", project.priority.clamp(-1000, 1000));
    Ok(text)
}

fn line_of_node(node: &case::Node) -> Result<String, Missing> {
    let mut text = format!("node {}", name(&node.name)?);
    let mut divided = String::new();
    for devices in &node.devices {
        match &devices.mode {
            DeviceMode::Whole => {
                let each = devices.memory.map_or(Ok("80G".to_owned()), memory)?;
                let _ = write!(text, "  {} x gpu@{each}", devices.count);
            }
            DeviceMode::Single => {
                let _ = write!(text, "  {} x {DIVIDED}/{SINGLE}", devices.count);
            }
            DeviceMode::Mixed(_) => {
                let layouts = layouts(node)?;
                let all = layouts.iter().map(|it| format!("1 x {DIVIDED}/{}", it.join("+")));
                // Devices without instances.
                let bare = (0..devices.count).map(|_| format!("1 x {DIVIDED}"));
                let kinds: Vec<String> = all.chain(bare).collect();
                let _ = write!(text, "  {}", kinds.join(" + "));
                let first = i64::try_from(layouts.len()).unwrap_or(i64::MAX);
                for ix in first..first.saturating_add(devices.count) {
                    let _ = writeln!(divided, "gpu {}[{ix}]  mig", node.name);
                }
            }
        }
    }
    let _ = write!(text, "  cpus {}  mem {}", number(node.cpu)?, memory(node.memory)?);
    let _ = writeln!(text, "  tasks {}", node.slots.clamp(0, 100_000));
    Ok(text + &divided)
}

/// A device that is divided: what the cases say of its memory has nothing to do with its instances.
const DIVIDED: &str = "gpu@80G";
/// A device that is all of one instance.
const SINGLE: &str = "7g.80gb";

/// The instances of a node, on as few devices as hold them.
fn layouts(node: &case::Node) -> Result<Vec<Vec<String>>, Missing> {
    let mut layouts: Vec<Vec<String>> = Vec::new();
    let is_one = |layout: &[String]| {
        Profile::layout(layout.iter().map(String::as_str), Bytes::from_gib(80)).is_ok()
    };
    for devices in &node.devices {
        let DeviceMode::Mixed(instances) = &devices.mode else { continue };
        for instance in instances.iter().flat_map(|it| (0..it.count).map(|_| &it.profile)) {
            if !is_one(std::slice::from_ref(instance)) {
                return Err(Missing::Unwritable);
            }
            match layouts.last_mut() {
                Some(last)
                    if is_one(&[last.as_slice(), std::slice::from_ref(instance)].concat()) =>
                {
                    last.push(instance.clone());
                }
                _ => layouts.push(vec![instance.clone()]),
            }
        }
    }
    Ok(layouts)
}

/// The allocated devices of each node, and the tasks that share them.
#[derive(Default)]
struct Places {
    taken: BTreeMap<String, Vec<Option<String>>>,
    /// Instances, by node and index.
    taken_instances: BTreeSet<(String, u32)>,
}

impl Places {
    /// Instances of such profiles for a task that runs there, the lowest first.
    fn take_instances(
        &mut self,
        node: &case::Node,
        count: i64,
        is_meant: impl Fn(&str) -> bool,
    ) -> Option<Vec<u32>> {
        let layouts = (0..).zip(layouts(node).ok()?);
        let all = layouts.flat_map(|(parent, layout)| {
            let places = (0..).zip(layout);
            places.map(move |(place, profile)| (Instance::index(parent, place), profile))
        });
        let mut own = Vec::new();
        for (index, _) in all.filter(|(_, profile)| is_meant(profile)) {
            let is_enough = i64::try_from(own.len()).is_ok_and(|n| n >= count);
            if !is_enough && self.taken_instances.insert((node.name.clone(), index)) {
                own.push(index);
            }
        }
        i64::try_from(own.len()).is_ok_and(|n| n == count).then_some(own)
    }

    /// Devices for a task that runs there: whole ones, or the shared one of a name.
    fn take(&mut self, node: &case::Node, ask: &GpuAsk, shared: &[String]) -> Option<Vec<usize>> {
        let n_devices = node.devices.iter().map(|devices| devices.count).sum::<i64>();
        let n_devices = usize::try_from(n_devices).ok()?;
        let taken = self.taken.entry(node.name.clone()).or_default();
        let wanted: Vec<Option<String>> = match ask {
            GpuAsk::Whole(count) => vec![None; usize::try_from(*count).ok()?],
            GpuAsk::Share { devices, .. } | GpuAsk::Memory { devices, .. } => {
                let names = shared.iter().cloned().map(Some);
                let rest = (0..).map(|nth: u32| Some(format!("unnamed {nth}")));
                names.chain(rest).take(usize::try_from(*devices).ok()?).collect()
            }
            _ => Vec::new(),
        };
        let mut places = Vec::new();
        for wanted in wanted {
            let known = wanted.is_some().then(|| taken.iter().position(|it| *it == wanted));
            let place = match known.flatten() {
                Some(place) => place,
                None => {
                    taken.push(Some(wanted.unwrap_or_else(|| format!("whole {}", taken.len()))));
                    taken.len() - 1
                }
            };
            places.push(place);
        }
        (taken.len() <= n_devices).then_some(places)
    }
}

fn gpus(case: &Case, ask: &GpuAsk) -> Result<String, Missing> {
    match ask {
        GpuAsk::None => Ok("0".to_owned()),
        GpuAsk::Whole(count) if has_single(case)? => Ok(format!("{SINGLE}:{count}")),
        GpuAsk::Whole(count) => Ok(count.to_string()),
        GpuAsk::Share { milli, devices: 1 } => number(*milli),
        GpuAsk::Share { milli, devices } => Ok(format!("{devices}@{}", number(*milli)?)),
        GpuAsk::Memory { bytes, devices } => Ok(format!("{devices}@{}", memory(*bytes)?)),
        GpuAsk::Mig(asked) => match &asked[..] {
            [one] => Ok(format!("{}:{}", one.profile, one.count)),
            _ => Err(Missing::Instances),
        },
        GpuAsk::Unbooked => Err(Missing::Instances),
    }
}

/// Whether every device is all of one instance: then whole ones are asked for as that.
fn has_single(case: &Case) -> Result<bool, Missing> {
    let devices = || case.nodes.iter().flat_map(|node| &node.devices);
    let is_single = |it: &case::Devices| it.mode == DeviceMode::Single;
    match (devices().any(is_single), devices().all(is_single)) {
        (true, false) => Err(Missing::Instances),
        (any, _) => Ok(any),
    }
}

/// Whether a job books the devices that it uses. Otherwise it is refused, or runs as unmanaged.
pub fn is_booked(job: &case::Job) -> bool {
    job.tasks.iter().all(|task| task.request.gpu != GpuAsk::Unbooked)
}

/// What runs without being booked uses an instance of its node each.
fn lines_of_unmanaged(
    case: &Case,
    job: &case::Job,
    places: &mut Places,
) -> Result<String, Missing> {
    let mut text = String::new();
    for placement in job.tasks.iter().filter_map(|task| task.placement.as_ref()) {
        let node = case.nodes.iter().find(|node| node.name == placement.node);
        let node = node.ok_or(Missing::Overbooked)?;
        let used = places.take_instances(node, 1, |_| true).ok_or(Missing::Overbooked)?;
        let _ = writeln!(text, "gpu {}[{}]  unmanaged", name(&node.name)?, used[0]);
    }
    Ok(text)
}

/// Returns the lines of a job, and the number of tasks by which it may grow. Ended tasks are left
/// out, and tasks with a claim wait: the victims' own lines say that they leave. Sets of tasks with
/// equal requests are one, with the sum of their minimums.
fn lines_of_job(
    case: &Case,
    (job, comes_back): (&case::Job, bool),
    places: &mut Places,
) -> Result<(String, usize), Missing> {
    let Some(first) = job.tasks.first() else { return Err(Missing::Parts) };
    if job.tasks.iter().any(|task| task.request != first.request) {
        return Err(Missing::Parts);
    }
    if job.tasks.iter().any(|task| task.names_nodes) {
        return Err(Missing::NamedNodes);
    }
    let (mut n_tasks, mut running, mut leaving) = (0_usize, Vec::new(), Vec::new());
    for task in &job.tasks {
        match task.state {
            TaskState::Pending | TaskState::Pipelined => {}
            TaskState::Running | TaskState::Bound => {
                running.push(place_of(case, task, places)?);
            }
            TaskState::Releasing => leaving.push(place_of(case, task, places)?),
            TaskState::Succeeded | TaskState::Failed => continue,
            TaskState::Gated => return Err(Missing::Gated),
        }
        n_tasks += 1;
    }
    let least = least(job);
    // As old as its place among the others says: ages of equal jobs are equal there.
    let age = case.now.saturating_sub(job.created).max(0) / 1000;
    let own = name(&job.name)?;
    let asked = gpus(case, &first.request.gpu)?;
    if running.is_empty() && leaving.is_empty() && !has_least(job, is_alive) {
        // Too much of it has ended.
        return Ok((String::new(), 0));
    }
    let gang = if least > 1 { format!(" tasks {least}") } else { String::new() };
    // Those of one node stand one after the other.
    running.sort();
    leaving.sort();
    let (rest, state) = (rest_of_line(job, first)?, format!("pending {age}s"));
    let preemptible = if job.preemptible { "  preemptible" } else { "" };
    if is_in_part(job) {
        // What there is of it leaves, as a job of its own; if none of it is lost it waits again.
        running.append(&mut leaving);
        running.sort();
        let n_left =
            if running.len() > 1 { format!(" tasks {}", running.len()) } else { String::new() };
        let places = running.join(" ");
        let mut text = format!("job {own}.left  {asked}{n_left}  stopping {places} 60s{rest}\n");
        if has_least(job, is_alive) && comes_back {
            let _ = writeln!(text, "job {own}  {asked}{gang}  {state}{rest}{preemptible}");
        }
        return Ok((text, n_tasks.saturating_sub(least)));
    }
    let state = match (running.is_empty(), leaving.is_empty(), comes_back) {
        (false, ..) => format!("running {} 60s", running[..least].join(" ")),
        (true, true, _) => state,
        (true, false, true) => format!("requeuing {} 60s", leaving.join(" ")),
        (true, false, false) => format!("stopping {} 60s", leaving.join(" ")),
    };
    let mut text = format!("job {own}  {asked}{gang}  {state}{rest}{preemptible}\n");
    for (nth, place) in (1..).zip(running.iter().skip(least)) {
        let _ = writeln!(text, "job {own}.{nth}  {asked}  running {place} 60s{rest}  joins {own}");
    }
    Ok((text, n_tasks - least))
}

/// How many tasks must run at once.
fn least(job: &case::Job) -> usize {
    let least: i64 = sets(&job.gang).iter().map(|set| set.min).sum();
    usize::try_from(least).unwrap_or(usize::MAX).max(1)
}

/// Whether of each set as many tasks as must run are in such a state.
fn has_least(job: &case::Job, test: impl Fn(TaskState) -> bool) -> bool {
    let n_that = |set: &str| {
        let own = job.tasks.iter().filter(|task| task.set == set && test(task.state));
        i64::try_from(own.count()).unwrap_or(i64::MAX)
    };
    sets(&job.gang).iter().all(|set| n_that(&set.name) >= set.min)
        && job.tasks.iter().any(|task| test(task.state))
}

fn is_alive(state: TaskState) -> bool {
    !matches!(state, TaskState::Succeeded | TaskState::Failed)
}

/// Whether of a job that must run as a whole only some tasks run, or leave.
pub fn is_in_part(job: &case::Job) -> bool {
    let runs = |state| matches!(state, TaskState::Running | TaskState::Bound);
    let leaves = |state| state == TaskState::Releasing;
    let n_that =
        |test: &dyn Fn(TaskState) -> bool| job.tasks.iter().filter(|task| test(task.state)).count();
    match (n_that(&runs), n_that(&leaves)) {
        (0, 0) => false,
        (_, 0) => !has_least(job, runs),
        (0, n_leave) => (n_leave, least(job)) != (n_that(&is_alive), n_that(&is_alive)),
        _ => true,
    }
}

/// All sets of tasks of a group and of those in it.
fn sets(group: &case::Group) -> Vec<&case::TaskSet> {
    group.sets.iter().chain(group.groups.iter().flat_map(sets)).collect()
}

/// Where a task runs: `n1[0,1]`.
fn place_of(case: &Case, task: &case::Task, places: &mut Places) -> Result<String, Missing> {
    let placement = task.placement.as_ref().ok_or(Missing::Unwritable)?;
    let node = case.nodes.iter().find(|node| node.name == placement.node);
    let node = node.ok_or(Missing::Overbooked)?;
    let devices: Vec<String> = match &task.request.gpu {
        GpuAsk::Mig(asked) => {
            let [asked] = &asked[..] else { return Err(Missing::Instances) };
            let is_meant = |profile: &str| profile == asked.profile;
            let instances = places.take_instances(node, asked.count, is_meant);
            let instances = instances.ok_or(Missing::Overbooked)?;
            instances.iter().map(ToString::to_string).collect()
        }
        ask => {
            let devices = places.take(node, ask, &placement.shared).ok_or(Missing::Overbooked)?;
            let of_single =
                |ix: &usize| Instance::index(u32::try_from(*ix).unwrap_or(u32::MAX), 0).to_string();
            match has_single(case)? {
                true => devices.iter().map(of_single).collect(),
                false => devices.iter().map(ToString::to_string).collect(),
            }
        }
    };
    let on = if devices.is_empty() { String::new() } else { format!("[{}]", devices.join(",")) };
    Ok(format!("{}{on}", name(&node.name)?))
}

/// Returns the rest of a job's line, after its request and state.
fn rest_of_line(job: &case::Job, task: &case::Task) -> Result<String, Missing> {
    let mut text = format!("  project {}", name(&job.project)?);
    if job.priority != 0 {
        let _ = write!(text, "  priority {}", job.priority.clamp(-1000, 1000));
    }
    if task.request.cpu > 0 {
        let _ = write!(text, "  cpus {}", number(task.request.cpu)?);
    }
    if task.request.memory > 0 {
        let _ = write!(text, "  mem {}", memory(task.request.memory)?);
    }
    Ok(text)
}
