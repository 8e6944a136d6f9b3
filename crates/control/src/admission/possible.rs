//! Checks whether nodes could ever run a request, and finds the largest part that they could.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use gpool_model::enforcement::Enforcement;
use gpool_model::mig_layout::MigSize;
use gpool_model::pattern::short_model;
use gpool_model::plan::Fit;
use gpool_model::refusal::LargestFit;
use gpool_model::{
    Bytes, DeviceUuid, GpuAmount, GpuRequest, MilliCpu, ModelPattern, Refusal, Resources, Share,
    Topology,
};
use gpool_world::NodeRow;

/// Checks whether nodes could run a job with devices of one of these models, or, without any, of
/// the models that it names.
pub(super) fn satisfiable_on(
    nodes: &[&NodeRow],
    fit: &Fit,
    models: Vec<ModelPattern>,
) -> Result<(), Refusal> {
    let gpus = &*fit.gpus_on_node(1);
    let beside = &host_resources(fit);
    // The first node usually answers; a look at all nodes of a large cluster takes a while.
    let mut n_missing = fit.gang.nodes;
    let mut rows = nodes.iter();
    while n_missing > 0
        && let Some(row) = rows.next()
    {
        n_missing = n_missing.saturating_sub(times_on(row, fit, most_of(row, gpus)));
    }
    if n_missing == 0 {
        // All tasks get devices of one model.
        let is_one = models.is_empty() && fit.gpus.models.len() < 2;
        let of_one_model = of_models(fit, models);
        return match is_one || n_able(&of_one_model, nodes) >= fit.gang.nodes {
            true => Ok(()),
            false => Err(too_few_nodes(&of_one_model, &fit.gpus, nodes)),
        };
    }
    if n_missing < fit.gang.nodes {
        return Err(too_few_nodes(&of_models(fit, models), &fit.gpus, nodes));
    }
    let with_gpus: Vec<&NodeRow> =
        nodes.iter().copied().filter(|row| most_of(row, gpus) >= gpus.n_devices()).collect();
    if with_gpus.is_empty() && !gpus.is_none() {
        return Err(impossible_gpus(nodes, gpus));
    }
    let short = |row: &&NodeRow| beside.first_short(&row.node.capacity);
    let Some(kind) = with_gpus.iter().find_map(short) else {
        // No node has reported yet: only a job that asks for nothing can be accepted.
        return Ok(());
    };
    let of_kind = |row: &&&NodeRow| row.node.capacity.get(&kind);
    // Nodes with enough of it lack something else.
    let lacking = with_gpus.iter().rev().filter(|row| of_kind(row) < beside.get(&kind));
    let most = lacking.max_by_key(of_kind);
    Err(Refusal::ImpossibleResource {
        asked: beside.get(&kind),
        largest: most.map_or(0, |row| of_kind(&row)),
        node: most.map(|row| row.node.name.clone()),
        kind,
    })
}

/// Checks whether nodes have enough devices for the whole devices that all parts of a job ask for.
pub(super) fn together(nodes: &[&NodeRow], fits: &[&Fit]) -> Result<(), Refusal> {
    let is_whole = |fit: &&Fit| matches!(fit.gpus.amount, GpuAmount::Whole(n) if n > 0);
    let whole: Vec<&Fit> = fits.iter().copied().filter(is_whole).collect();
    if whole.is_empty() {
        return Ok(());
    }
    let n_devices = |fit: &Fit| u64::from(fit.gpus.n_devices()) * u64::from(fit.gang.n_tasks());
    let n_requested: u64 = whole.iter().map(|fit| n_devices(fit)).sum();
    let serves = |row: &NodeRow, device| {
        whole.iter().any(|fit| fit.may_be_on(&row.node) && fit.gpus.rank_of(device).is_some())
    };
    let devices = nodes.iter().flat_map(|row| usable_ever(row).filter(|it| serves(row, it)));
    match devices.count() as u64 {
        n_devices if n_devices < n_requested => {
            Err(Refusal::PartsTogether { n_requested, n_devices })
        }
        _ => Ok(()),
    }
}

/// The nodes by the value of a topology's label.
pub(super) fn domains<'n>(nodes: &[&'n NodeRow], topology: &Topology) -> Vec<Vec<&'n NodeRow>> {
    let mut domains = BTreeMap::<&str, Vec<&NodeRow>>::new();
    for row in nodes {
        if let Some(value) = row.node.topology_value(topology) {
            domains.entry(value).or_default().push(row);
        }
    }
    domains.into_values().collect()
}

/// Whether the nodes of some domain could run a job; else the refusal of the largest domain.
pub(super) fn in_some_domain(
    mut domains: Vec<Vec<&NodeRow>>,
    check: impl Fn(&[&NodeRow]) -> Result<(), Refusal>,
) -> Result<(), Refusal> {
    domains.sort_by_key(|nodes| Reverse(nodes.len()));
    let mut answers = domains.iter().map(|nodes| check(nodes));
    let first = answers.next().unwrap_or(Ok(()));
    if first.is_ok() || answers.any(|answer| answer.is_ok()) { Ok(()) } else { first }
}

/// Returns a node with the instances that its devices would have if all of them were of one
/// alternative of the request.
pub(super) fn with_possible_instances(row: &NodeRow, gpus: &GpuRequest) -> NodeRow {
    let mut more = Vec::new();
    let node = &row.node;
    for device in node.devices.iter().filter(|it| it.is_divided() && node.allows(&it.uuid)) {
        let mut most = BTreeMap::<usize, (u32, &MigSize)>::new();
        for size in device.sizes_of_instances() {
            let instance = device.possible_instance(size, device.uuid.clone());
            if let Some(rank) = gpus.rank_of(&instance) {
                let known = most.entry(rank).or_insert((0, size));
                *known = if size.n_max > known.0 { (size.n_max, size) } else { *known };
            }
        }
        for (rank, (n_max, size)) in most {
            let here = node.instances_of(&device.uuid);
            let n_here = here.filter(|it| gpus.rank_of(it) == Some(rank)).count();
            let n_here = u32::try_from(n_here).unwrap_or(u32::MAX);
            more.extend((n_here..n_max).map(|n| {
                let uuid = DeviceUuid::new(format!("{}/{}/{n}", device.uuid, size.profile));
                device.possible_instance(size, uuid)
            }));
        }
    }
    let mut row = row.clone();
    row.node.devices.extend(more);
    row
}

/// How many times a node could run the tasks for one node, with this many devices.
fn times_on(row: &NodeRow, fit: &Fit, n_devices: u32) -> u32 {
    let most = fit.most_on(&row.node);
    let by_devices = n_devices.checked_div(fit.n_devices_on_node()).unwrap_or(most).min(most);
    let beside = host_resources(fit);
    let by_rest = beside.iter().filter_map(|(kind, n)| row.node.capacity.get(kind).checked_div(n));
    let n_tasks = if fit.gpus.is_none() { row.node.plain_tasks() } else { row.node.tasks() };
    let by_tasks = n_tasks.checked_div(u64::from(fit.gang.tasks_per_node)).filter(|_| n_tasks > 0);
    let by_rest = by_rest.chain(by_tasks).min().unwrap_or(u64::MAX);
    u32::try_from(by_rest).unwrap_or(u32::MAX).min(by_devices)
}

/// Returns what all tasks of a job on one node ask for besides devices.
fn host_resources(fit: &Fit) -> Resources {
    let n_tasks = u64::from(fit.gang.tasks_per_node);
    Resources::none()
        .with_cpus(fit.cpus.checked_mul(n_tasks).unwrap_or(MilliCpu::MAX))
        .with_memory(fit.memory.checked_mul(n_tasks).unwrap_or(Bytes::MAX))
}

/// How many times nodes could run all tasks of a job for one node, with devices of one model of the
/// request: the model with the highest count.
fn n_able(fit: &Fit, nodes: &[&NodeRow]) -> u32 {
    let of_rank = |rank: usize| {
        let times = nodes.iter().map(|row| {
            let devices = usable_ever(row).filter(|it| fit.gpus.rank_of(it) == Some(rank));
            times_on(row, fit, u32::try_from(devices.count()).unwrap_or(u32::MAX))
        });
        times.fold(0, u32::saturating_add)
    };
    (0..fit.gpus.models.len().max(1)).map(of_rank).max().unwrap_or(0)
}

/// Returns the request with these models, if there are any.
fn of_models(fit: &Fit, models: Vec<ModelPattern>) -> Fit {
    let mut own = fit.clone();
    if !models.is_empty() {
        own.gpus.models = models;
    }
    own
}

/// Returns the refusal of a job that needs more nodes than could run a part of it.
fn too_few_nodes(fit: &Fit, asked: &GpuRequest, nodes: &[&NodeRow]) -> Refusal {
    let able = n_able(fit, nodes);
    // With the number of able nodes, the largest part of the request that still fits.
    let fits = |count: &u32| {
        let less = Fit { gpus: fit.gpus.of_count(*count), ..fit.clone() };
        n_able(&less, nodes) >= fit.gang.nodes
    };
    let largest = (1..fit.gpus.n_devices()).rev().find(fits);
    Refusal::TooFewNodes { asked: asked.clone(), gang: fit.gang, able, largest }
}

/// The most devices that one task could ever get on a node: they match one alternative of the
/// request, are allowed, and are not divided.
fn most_of(row: &NodeRow, gpus: &GpuRequest) -> u32 {
    let mut by_rank = BTreeMap::<usize, u32>::new();
    for device in usable_ever(row) {
        if let Some(rank) = gpus.rank_of(device) {
            *by_rank.entry(rank).or_default() += 1;
        }
    }
    by_rank.into_values().max().unwrap_or(0)
}

fn usable_ever(row: &NodeRow) -> impl Iterator<Item = &gpool_model::Device> {
    let devices = row.node.devices.iter();
    devices.filter(move |device| row.node.allows(&device.uuid) && !device.is_divided())
}

fn impossible_gpus(nodes: &[&NodeRow], asked: &GpuRequest) -> Refusal {
    let mut models = BTreeMap::<String, u32>::new();
    let mut memory_max = Bytes::ZERO;
    for row in nodes {
        let mut here = BTreeMap::<String, u32>::new();
        for device in usable_ever(row) {
            *here.entry(short_model(&device.model)).or_default() += 1;
            memory_max = memory_max.max(device.memory);
        }
        for (model, count) in here {
            let most = models.entry(model).or_default();
            *most = (*most).max(count);
        }
    }
    if models.is_empty() {
        let whys: Vec<String> = nodes
            .iter()
            .map(|row| match row.node.devices.len() {
                0 => format!("{} has none ({})", row.node.name, row.node.facts.devices_from),
                n => format!("{}: all its {n} GPUs are closed for new jobs", row.node.name),
            })
            .collect();
        return Refusal::NoGpus { asked: asked.clone(), why: whys.join("; ") };
    }
    let best = nodes.iter().rev().max_by_key(|row| most_of(row, asked));
    let largest = best.filter(|row| most_of(row, asked) > 0).map(|row| LargestFit {
        n_devices: most_of(row, asked),
        node: row.node.name.clone(),
        n_in_cluster: nodes.iter().map(|row| most_of(row, asked)).sum(),
    });
    let nearest = nearest(nodes, asked, memory_max);
    let kept_back = nodes.iter().flat_map(|row| {
        let devices = row.node.devices.iter();
        devices.filter(|device| !row.node.allows(&device.uuid) && asked.rank_of(device).is_some())
    });
    let n_kept_back = u32::try_from(kept_back.count()).unwrap_or(u32::MAX);
    // Each level is tried: a request needs several devices of the same level.
    let at = |enforce| GpuRequest { enforce, ..asked.clone() };
    let levels = Enforcement::ALL.into_iter().rev().filter(|level| *level < asked.enforce);
    let strongest = levels.into_iter().find(|level| fits(nodes, &at(*level)));
    Refusal::ImpossibleGpus {
        strongest,
        asked: asked.clone(),
        largest,
        nearest,
        models: models.into_iter().collect(),
        n_kept_back,
    }
}

/// Whether a node has the devices of a request.
fn fits(nodes: &[&NodeRow], request: &GpuRequest) -> bool {
    let count = request.n_devices();
    count > 0 && nodes.iter().any(|row| most_of(row, request) >= count)
}

/// Returns another request that a node could run: the same number of devices of any kind, or of the
/// largest memory.
fn nearest(nodes: &[&NodeRow], asked: &GpuRequest, memory_max: Bytes) -> Option<GpuRequest> {
    let fits = |request: &GpuRequest| fits(nodes, request);
    // For a share that is too large, the nearest request is a whole device.
    let is_too_large =
        matches!(asked.share(), Some(Share::Memory { request, .. }) if request > memory_max);
    let amount = match asked.amount {
        GpuAmount::Shared { count, .. } if is_too_large => GpuAmount::Whole(count),
        amount => amount,
    };
    let any = GpuRequest { amount, ..asked.clone() }.of_any_kind();
    let less = GpuRequest { least_memory: Some(memory_max), models: Vec::new(), ..asked.clone() };
    let less = Some(less).filter(|_| asked.least_memory.is_some());
    let alternatives = less.into_iter().chain(Some(any).filter(|any| any != asked));
    alternatives.into_iter().find(fits)
}
