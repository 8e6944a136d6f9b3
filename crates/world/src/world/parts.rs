//! Parts of the GPUs, by model and by pool: which parts exist, how much of them is held, and how
//! much projects are guaranteed.

use std::collections::{BTreeMap, BTreeSet};

use gpool_model::plan::Fit;
use gpool_model::{
    Allocation, Amount, Device, Gang, GpuRequest, ModelPattern, Node, NodeName, PoolName, Project,
    ProjectName, Quota, ResourceKind, Resources, Slot,
};

use crate::ledger::NodeRow;
use crate::world::World;

/// A pool and a model of GPUs that the pool has.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct GpuClass {
    pub pool: PoolName,
    /// The driver's name for the model.
    pub model: String,
    pub is_of_instances: bool,
}

impl GpuClass {
    /// Whether GPUs of this class count for a quota of this kind.
    #[must_use]
    pub fn counts_as(&self, kind: &ResourceKind) -> bool {
        match kind {
            ResourceKind::Gpu => true,
            ResourceKind::GpuModel(pattern) => ModelPattern::new(pattern).matches(&self.model),
            ResourceKind::GpuPool(pool) => *pool == self.pool,
            _ => false,
        }
    }

    /// Whether the pool and model that a job asks for allow GPUs of this class.
    #[must_use]
    pub fn serves(&self, fit: &Fit) -> bool {
        self.is_of(&fit.gpus, fit.pool.as_ref())
    }

    fn is_of(&self, gpus: &GpuRequest, pool: Option<&PoolName>) -> bool {
        let models = &gpus.models;
        pool.is_none_or(|pool| *pool == self.pool)
            && self.is_of_instances == gpus.is_of_instances()
            && (models.is_empty() || models.iter().any(|model| model.matches(&self.model)))
    }
}

impl World {
    /// Kinds of resources that projects are guaranteed a number of, parts of the GPUs included.
    pub fn guaranteed_kinds(&self) -> impl Iterator<Item = &ResourceKind> {
        self.holdings.n_guarantees.keys()
    }

    /// Whether any project is guaranteed a number of this kind. Otherwise every project may use the
    /// whole capacity of the kind, up to its limit.
    #[must_use]
    pub fn promises(&self, kind: &ResourceKind) -> bool {
        *kind == ResourceKind::Gpu || self.holdings.n_guarantees.contains_key(kind)
    }

    /// The pools and models of all GPUs.
    pub fn gpu_classes(&self) -> impl Iterator<Item = &GpuClass> {
        self.holdings.classes.keys()
    }

    /// Whether any node that a job may use has GPUs of this class.
    #[must_use]
    pub fn has_class(&self, class: &GpuClass, fit: &Fit) -> bool {
        let nodes = self.nodes().iter().map(|row| &row.node);
        nodes.filter(|node| fit.may_be_on(node)).flat_map(classes).any(|it| it == *class)
    }

    /// Returns the models among which a job of several nodes has to choose, because all of its
    /// tasks get the same one: in the order of its request, then of their names. Empty if each
    /// alternative of the request is one model, and for jobs of one node.
    #[must_use]
    pub fn models_to_choose(
        &self,
        gpus: &GpuRequest,
        pool: Option<&PoolName>,
        gang: Gang,
    ) -> Vec<ModelPattern> {
        if gang.nodes < 2 || gpus.is_none() {
            return Vec::new();
        }
        let classes = self.gpu_classes().filter(|class| class.is_of(gpus, pool));
        let rank = |model: &str| gpus.models.iter().position(|it| it.matches(model)).unwrap_or(0);
        let models: BTreeSet<(usize, &str)> =
            classes.map(|class| (rank(&class.model), class.model.as_str())).collect();
        let ranks: BTreeSet<usize> = models.iter().map(|(rank, _)| *rank).collect();
        match models.len() > ranks.len() {
            true => models.into_iter().map(|(_, model)| ModelPattern::exactly(model)).collect(),
            false => Vec::new(),
        }
    }

    /// Returns a request with the size of its instances filled in: that of the largest matching
    /// instance in the pool, or in all pools.
    #[must_use]
    pub fn sized(&self, gpus: &GpuRequest, pool: Option<&PoolName>) -> GpuRequest {
        let nodes = self.nodes().iter().map(|row| &row.node);
        let nodes = nodes.filter(|node| pool.is_none_or(|pool| *pool == node.pool));
        let possible = nodes.clone().filter(|node| self.makes_instances(&node.pool));
        let possible: Vec<Device> = match gpus.is_of_instances() {
            true => possible.flat_map(|node| &node.devices).flat_map(possible_instances).collect(),
            false => Vec::new(),
        };
        gpus.among(nodes.flat_map(|node| &node.devices).chain(&possible))
    }

    /// Whether the server creates and destroys MIG instances of a pool by demand.
    #[must_use]
    pub fn makes_instances(&self, pool: &PoolName) -> bool {
        self.policy.of_pool(Some(pool)).mig_auto
    }

    /// Returns what an allocation books, including its GPUs by model and by pool.
    #[must_use]
    pub fn booked(&self, allocation: &Allocation) -> Resources {
        let mut booked = allocation.resources.clone();
        let charge = |slot: &Slot| slot.part.charge().get();
        self.add_parts(&mut booked, &allocation.node, allocation.held_slots(), charge);
        booked
    }

    /// Adds the parts that devices of a node count for by model and by pool, with `charge` for the
    /// amount of each slot.
    pub fn add_parts(
        &self,
        booked: &mut Resources,
        node: &NodeName,
        slots: &[Slot],
        charge: impl Fn(&Slot) -> u64,
    ) {
        let Some(NodeRow { node, .. }) = self.node(node) else { return };
        for slot in slots {
            let mut devices = node.devices.iter();
            if let Some(device) = devices.find(|device| device.uuid == slot.device) {
                let charge = charge(slot);
                booked.add(ResourceKind::GpuModel(device.model.clone()), charge);
                booked.add(ResourceKind::GpuPool(node.pool.clone()), charge);
            }
        }
    }

    /// Returns the guarantees of projects that set no quota for a part of the GPUs that other
    /// projects are guaranteed. They share the rest of the part: each gets its guarantee of all
    /// GPUs, or a proportional cut where the rest is less than the sum. Below a department that
    /// sets a quota for the part, the rest is the rest of that quota.
    #[must_use]
    pub fn left_of_part(&self, kind: &ResourceKind) -> BTreeMap<&ProjectName, u64> {
        let said = |it: &Project| it.quota(kind).guaranteed;
        let mut below = BTreeMap::<Option<&ProjectName>, Vec<&Project>>::new();
        for project in self.projects().values() {
            below.entry(project.parent.as_ref()).or_default().push(project);
        }
        let plain = |it: &Project| {
            let all = it.quota(&ResourceKind::Gpu).guaranteed.and_then(Amount::finite);
            it.quota(kind).limit.cut(all.unwrap_or(0))
        };
        let mut left = BTreeMap::new();
        let tops = self.installed().counted_as(kind);
        let owners = self.projects().values().filter(|it| below.contains_key(&Some(&it.name)));
        let owners = owners.filter_map(|it| Some((Some(&it.name), said(it)?.finite()?)));
        for (owner, cap) in owners.chain([(None, tops)]) {
            let (mut promised, mut silent) = (0_u64, Vec::new());
            let mut next: Vec<&Project> = below.get(&owner).cloned().unwrap_or_default();
            while let Some(project) = next.pop() {
                match (said(project), below.get(&Some(&project.name))) {
                    (Some(amount), _) => {
                        let amount = project.quota(kind).limit.cut(amount.finite().unwrap_or(0));
                        promised = promised.saturating_add(amount);
                    }
                    (None, Some(children)) => next.extend(children),
                    (None, None) => silent.push((&project.name, plain(project))),
                }
            }
            let rest = u128::from(cap.saturating_sub(promised));
            let asked: u128 = silent.iter().map(|(_, plain)| u128::from(*plain)).sum();
            for (name, plain) in silent {
                let part = match asked > rest {
                    true => u128::from(plain) * rest / asked,
                    false => u128::from(plain),
                };
                left.insert(name, u64::try_from(part).unwrap_or(plain));
            }
        }
        left
    }
}

/// An instance of each size that a device can have and jobs can request.
fn possible_instances(device: &Device) -> impl Iterator<Item = Device> {
    let instance = |size| device.possible_instance(size, device.uuid.clone());
    device.sizes_of_instances().map(instance)
}

/// The class of each GPU of a node.
pub(crate) fn classes(node: &Node) -> impl Iterator<Item = GpuClass> + '_ {
    let class = |device: &Device| GpuClass {
        pool: node.pool.clone(),
        model: device.model.clone(),
        is_of_instances: device.instance.is_some(),
    };
    node.devices.iter().map(class)
}

/// The kinds that a project is guaranteed a number of. For a part of the GPUs the guarantee must be
/// more than nothing. For any other kind it must be finite, because no quota means unlimited.
pub(crate) fn guaranteed_kinds(project: &Project) -> impl Iterator<Item = &ResourceKind> {
    let is_promised = |(kind, quota): &(&ResourceKind, Quota)| match kind.is_part_of_gpus() {
        true => quota.guaranteed.is_some_and(|it| it > Amount::NOTHING),
        false => quota.guaranteed.is_some_and(|it| !it.is_unlimited()),
    };
    project.quotas.iter().filter(is_promised).map(|(kind, _)| kind)
}
