//! Whether a job could ever run, and what could instead. Nothing here looks at what is free.

use std::collections::BTreeMap;

use gpool_model::gpu::short_model;
use gpool_model::refusal::LargestFit;
use gpool_model::{
    Bytes, Caller, GpuAmount, GpuRequest, JobSpec, MilliCpu, NewJob, ProjectName, Refusal,
    Resources, Share,
};
use gpool_world::{NodeRow, World};

/// Admission of many jobs: what has been asked before is not worked out again.
pub(crate) struct Admission<'a> {
    world: &'a World,
    by_resources: BTreeMap<(GpuRequest, Resources), Result<(), Refusal>>,
}

impl<'a> Admission<'a> {
    pub fn new(world: &'a World) -> Self {
        Self { world, by_resources: BTreeMap::new() }
    }

    /// Whether a job is acceptable by itself: who is charged, its priority, and whether some node
    /// could ever hold it.
    pub fn admit(&mut self, caller: &Caller, job: &NewJob) -> Result<(), Refusal> {
        self.check_project(&job.project)?;
        priority(self.world, caller, job.priority)?;
        if job.allow_unsatisfiable {
            return Ok(());
        }
        self.fits(&job.gpus, job.cpus, job.memory)
    }

    /// The same of a job that is there and is to ask for something else.
    pub fn admit_spec(&mut self, spec: &JobSpec) -> Result<(), Refusal> {
        self.check_project(&spec.project)?;
        if spec.allow_unsatisfiable {
            return Ok(());
        }
        self.fits(&spec.gpus, spec.cpus, spec.memory)
    }

    fn check_project(&self, name: &ProjectName) -> Result<(), Refusal> {
        if self.world.projects().contains_key(name) {
            return Ok(());
        }
        let projects = self.world.projects().keys().cloned().collect();
        Err(Refusal::NoSuchProject { name: name.clone(), projects })
    }

    fn fits(
        &mut self,
        gpus: &GpuRequest,
        cpus: Option<MilliCpu>,
        memory: Option<Bytes>,
    ) -> Result<(), Refusal> {
        let beside = Resources::none()
            .with_cpus(cpus.unwrap_or_default())
            .with_memory(memory.unwrap_or_default());
        let key = (gpus.clone(), beside);
        if let Some(known) = self.by_resources.get(&key) {
            return known.clone();
        }
        let answer = self.satisfiable(&key.0, &key.1);
        self.by_resources.insert(key, answer.clone());
        answer
    }

    fn satisfiable(&self, gpus: &GpuRequest, beside: &Resources) -> Result<(), Refusal> {
        let nodes: Vec<&NodeRow> = self.world.nodes_by_name().map(|(_, row)| row).collect();
        // Mostly the first node answers; to look at all of a large cluster takes a while.
        let holds = |row: &&NodeRow| {
            beside.first_short(&row.node.capacity).is_none()
                && most_of(row, gpus) >= gpus.n_devices()
        };
        if nodes.iter().any(holds) {
            return Ok(());
        }
        let with_gpus: Vec<&NodeRow> =
            nodes.iter().copied().filter(|row| most_of(row, gpus) >= gpus.n_devices()).collect();
        if with_gpus.is_empty() && !gpus.is_none() {
            return Err(impossible_gpus(&nodes, gpus));
        }
        let short = |row: &&NodeRow| beside.first_short(&row.node.capacity);
        let Some(kind) = with_gpus.iter().find_map(short) else {
            // No node has reported yet: only what asks for nothing can be taken.
            return Ok(());
        };
        let of_kind = |row: &&&NodeRow| row.node.capacity.get(&kind);
        // Nodes that have enough of it lack something else.
        let lacking = with_gpus.iter().rev().filter(|row| of_kind(row) < beside.get(&kind));
        let most = lacking.max_by_key(of_kind);
        Err(Refusal::ImpossibleResource {
            asked: beside.get(&kind),
            largest: most.map_or(0, |row| of_kind(&row)),
            node: most.map(|row| row.node.name.clone()),
            kind,
        })
    }
}

/// Users may not go before others by asking for it; admins may.
pub(crate) fn priority(world: &World, caller: &Caller, asked: i32) -> Result<(), Refusal> {
    let most = world.policy().user_priority_max;
    if caller.admin || asked <= most {
        return Ok(());
    }
    Err(Refusal::PriorityTooHigh { asked, most })
}

/// The most devices of the asked kind that one task could ever be given on a node: those of one
/// alternative of the request, allowed, and not divided.
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
    let divided = |device: &gpool_model::Device| device.mig.as_ref().is_some_and(|mig| mig.enabled);
    let devices = row.node.devices.iter();
    devices.filter(move |device| row.node.allows(&device.uuid) && !divided(device))
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
                n => format!("{} may use none of its {n}", row.node.name),
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
    Refusal::ImpossibleGpus {
        asked: asked.clone(),
        largest,
        nearest,
        models: models.into_iter().collect(),
        n_kept_back,
    }
}

/// Another request that a node could hold: as many devices of any kind, or with the most memory
/// that there is.
fn nearest(nodes: &[&NodeRow], asked: &GpuRequest, memory_max: Bytes) -> Option<GpuRequest> {
    let fits = |request: &GpuRequest| {
        let count = request.n_devices();
        count > 0 && nodes.iter().any(|row| most_of(row, request) >= count)
    };
    // Of a share that is too large, the nearest is a whole device.
    let is_too_large = matches!(asked.share(), Some(Share::Memory(memory)) if memory > memory_max);
    let amount = match asked.amount {
        GpuAmount::Shared { count, .. } if is_too_large => GpuAmount::Whole(count),
        amount => amount,
    };
    let any = GpuRequest { amount, ..GpuRequest::default() };
    let less = GpuRequest { amount, least_memory: Some(memory_max), models: Vec::new() };
    let less = Some(less).filter(|_| asked.least_memory.is_some());
    let alternatives = less.into_iter().chain(Some(any).filter(|any| any != asked));
    alternatives.into_iter().find(fits)
}
