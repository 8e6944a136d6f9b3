//! Resource flavors: the GPU classes that a job can start with. If quotas name models or pools, the
//! charge of a job depends on its GPUs. A cycle tries one class after the other, so that the charge
//! is known before the search for a place.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use gpool_model::plan::Fit;
use gpool_model::{
    Amount, ModelPattern, NodeFilter, Placement, PoolName, ResourceKind, Resources, Shape,
};
use gpool_world::{GpuClass, World};

use super::{Amounts, Projects};
use crate::capacity::Capacity;
use crate::fairshare::TreeIx;
use crate::topology::in_domains;

/// A flavor that a job can start with.
#[derive(Debug)]
pub(crate) struct Flavor<'a> {
    /// The job's shape, limited to the class.
    pub shape: Cow<'a, Shape>,
    /// Its charge at most, by kind; empty if no project is charged.
    pub charge: Amounts,
    /// The class of GPUs, by position; `None` is any that the job requests.
    pub class: Option<usize>,
    /// The domain of its topology, by position; `None` is any.
    pub domain: Option<usize>,
    /// Whether it has GPUs of several classes together: the charge depends on the place.
    pub is_mixed: bool,
}

impl<'a> Flavor<'a> {
    /// Returns the flavor with all requested GPUs, without a charge.
    pub fn uncharged(world: &World, shape: &'a Shape) -> Self {
        let shape = of_one_model(world, shape);
        Self { shape, charge: Vec::new(), class: None, domain: None, is_mixed: false }
    }
}

impl<'a> Flavor<'a> {
    /// The same in each domain of the job's topology, the first one to try first.
    pub fn in_domains(self, world: &World, capacity: &Capacity<'_>) -> Vec<Self> {
        let Self { shape, charge, class, is_mixed, .. } = self;
        let limit =
            |(domain, shape)| Self { shape, charge: charge.clone(), class, domain, is_mixed };
        in_domains(world, capacity, shape).into_iter().map(limit).collect()
    }
}

/// Names the models of a job of several nodes one by one, so that all tasks get the same model even
/// if the request names none, or a pattern that matches several models.
pub(crate) fn of_one_model<'a>(world: &World, shape: &'a Shape) -> Cow<'a, Shape> {
    let fit = &shape.fit;
    let models = world.models_to_choose(&fit.gpus, fit.pool.as_ref(), fit.gang);
    if models.is_empty() || !fit.at.is_empty() {
        return Cow::Borrowed(shape);
    }
    let mut own = shape.clone();
    own.fit.gpus.models = models;
    Cow::Owned(own)
}

/// The pool, the models and the nodes of a request.
type Where = (Option<PoolName>, Vec<ModelPattern>, Option<Arc<NodeFilter>>);

/// The classes of GPUs, with the kinds that each counts for.
#[derive(Debug, Clone)]
pub(crate) struct Classes {
    /// Classes, and by kind whether it counts for that.
    all: Vec<(GpuClass, Vec<bool>)>,
    /// Whether any counted kind is a model or pool of GPUs, so that classes count for a charge.
    pub are_counted: bool,
    /// By the placement part of pending requests: the classes that serve them, by position.
    serving: BTreeMap<Where, Vec<usize>>,
}

impl Classes {
    pub fn of(world: &World, kinds: &[ResourceKind]) -> Self {
        let are_counted = kinds.iter().any(ResourceKind::is_part_of_gpus);
        let counts = |class: &GpuClass| kinds.iter().map(|kind| class.counts_as(kind)).collect();
        let classes = world.gpu_classes().filter(|_| are_counted);
        let all = classes.map(|class| (class.clone(), counts(class))).collect();
        let mut classes = Self { all, are_counted, serving: BTreeMap::new() };
        for (_, queue) in world.shapes().filter(|_| are_counted) {
            let fit = &queue.shape.fit;
            let at = Self::place(fit);
            if !classes.serving.contains_key(&at) {
                let mut serving = classes.all_serving(fit);
                if fit.nodes.is_some() {
                    serving.retain(|ix| world.has_class(&classes.all[*ix].0, fit));
                }
                classes.serving.insert(at, serving);
            }
        }
        classes
    }

    fn place(fit: &Fit) -> Where {
        (fit.pool.clone(), fit.gpus.models.clone(), fit.nodes.clone())
    }

    fn all_serving(&self, fit: &Fit) -> Vec<usize> {
        let all = self.all.iter().enumerate();
        all.filter(|(_, (class, _))| class.serves(fit)).map(|(ix, _)| ix).collect()
    }

    /// The classes that serve a fit, by position.
    fn serving(&self, fit: &Fit) -> Vec<usize> {
        let known = self.serving.get(&Self::place(fit));
        known.cloned().unwrap_or_else(|| self.all_serving(fit))
    }
}

impl Projects {
    /// Returns the flavors of a job that is charged to a project, the best first: models that it
    /// requests first, then GPUs that its project is guaranteed, then GPUs that no project is.
    pub fn flavors<'s>(&self, world: &World, shape: &'s Shape, leaf: TreeIx) -> Vec<Flavor<'s>> {
        let as_asked = || {
            let charge = self.charge(world, shape);
            Flavor { charge, ..Flavor::uncharged(world, shape) }
        };
        let fit = &shape.fit;
        if !self.classes.are_counted || fit.gpus.is_none() || !fit.at.is_empty() {
            return vec![as_asked()];
        }
        let classes = self.classes.serving(fit);
        let counts = |ix: usize| &self.classes.all[ix].1;
        if classes.windows(2).all(|two| counts(two[0]) == counts(two[1])) {
            return vec![as_asked()];
        }
        let mut flavors: Vec<((usize, u8), Flavor<'s>)> = Vec::new();
        for ix in classes {
            let (class, counts) = &self.classes.all[ix];
            let charge = self.charge_if(shape, |at| counts[at]);
            let mut own = shape.clone();
            own.fit.pool = Some(class.pool.clone());
            own.fit.gpus.models = vec![ModelPattern::exactly(&class.model)];
            let rank = fit.gpus.models.iter().position(|model| model.matches(&class.model));
            let order = (rank.unwrap_or(0), self.rank_for(world, leaf, counts));
            let (shape, class) = (Cow::Owned(own), Some(ix));
            flavors.push((order, Flavor { shape, charge, class, domain: None, is_mixed: false }));
        }
        flavors.sort_by_key(|(order, _)| *order);
        let mut flavors: Vec<Flavor<'s>> = flavors.into_iter().map(|(_, flavor)| flavor).collect();
        // Devices of several classes together are the last choice.
        if fit.gang.n_tasks() > 1 || fit.gpus.n_devices() > 1 {
            flavors.push(Flavor { is_mixed: true, ..as_asked() });
        }
        flavors
    }

    /// Limits a request for GPUs of several classes to one pool after the other: with all models,
    /// and with the models that its project may have all of.
    pub fn narrower(&self, world: &World, shape: &Shape, leaf: TreeIx) -> Vec<Shape> {
        let classes = self.classes.serving(&shape.fit);
        let classes = || classes.iter().map(|ix| &self.classes.all[*ix]);
        let pools: BTreeSet<&PoolName> = classes().map(|(class, _)| &class.pool).collect();
        let in_pool = |pool: &PoolName| {
            let mut all = shape.clone();
            all.fit.pool = Some(pool.clone());
            let mut open = all.clone();
            let may_have = |counts: &[bool]| {
                let charge = self.charge_if(shape, |at| counts[at]);
                self.refuses(leaf, &charge, shape.preemptible, &[]).is_none()
            };
            let own = classes().filter(|(class, counts)| class.pool == *pool && may_have(counts));
            let mut models: Vec<&str> = own.map(|(class, _)| class.model.as_str()).collect();
            // In the order of the request.
            let rank = |model: &str| shape.fit.gpus.models.iter().position(|it| it.matches(model));
            models.sort_by_key(|model| rank(model));
            open.fit.gpus.models = models.into_iter().map(ModelPattern::exactly).collect();
            let has_any = !open.fit.gpus.models.is_empty();
            [Some(all), Some(open).filter(|_| has_any)]
                .map(|narrower| Some(of_one_model(world, &narrower?).into_owned()))
        };
        pools.into_iter().flat_map(in_pool).flatten().collect()
    }

    /// Returns the charge of a job at these places.
    pub fn charge_at(&self, world: &World, shape: &Shape, placements: &[Placement]) -> Amounts {
        let gpus = &shape.fit.gpus;
        let each = gpus.size().get() / u64::from(gpus.n_devices().max(1));
        let mut held = Resources::none();
        for place in placements {
            // The requested part of each device, whatever a share by memory is there.
            world.add_parts(&mut held, &place.node, &place.slots, |_| each);
        }
        let mut charge = self.charge_if(shape, |_| false);
        for (amount, kind) in charge.iter_mut().zip(&self.kinds) {
            *amount = (*amount).max(held.counted_as(kind));
        }
        charge
    }

    /// The rank of a class for a project: guaranteed to it or to one above it, guaranteed to no
    /// project, or guaranteed to others.
    fn rank_for(&self, world: &World, leaf: TreeIx, counts: &[bool]) -> u8 {
        let parts = self.kinds.iter().zip(counts);
        let parts = parts.filter(|(kind, counts)| kind.is_part_of_gpus() && **counts);
        let mut parts = parts.map(|(kind, _)| kind).filter(|kind| world.promises(kind)).peekable();
        let is_own = |kind: &ResourceKind| {
            let mut path = world.upwards(&self.names[leaf.ix()]);
            path.any(|it| {
                let guaranteed = it.quotas.get(kind).and_then(|it| it.guaranteed);
                guaranteed.is_some_and(|it| it > Amount::NOTHING)
            })
        };
        match (parts.peek().is_none(), parts.any(is_own)) {
            (_, true) => 0,
            (true, _) => 1,
            (false, false) => 2,
        }
    }

    /// Returns the charge of one job of a shape: for each model and pool of GPUs, the most that it
    /// could have of that.
    pub fn charge(&self, world: &World, shape: &Shape) -> Amounts {
        if !self.classes.are_counted {
            return self.charge_if(shape, |_| false);
        }
        if !shape.fit.at.is_empty() {
            return self.charge_at(world, shape, &shape.fit.at);
        }
        let classes = self.classes.serving(&shape.fit);
        self.charge_if(shape, |at| classes.iter().any(|ix| self.classes.all[*ix].1[at]))
    }

    /// The charge, if it counts for these models and pools, by the position of their kinds.
    fn charge_if(&self, shape: &Shape, counts: impl Fn(usize) -> bool) -> Amounts {
        let fit = &shape.fit;
        let amount = |(at, kind): (usize, &ResourceKind)| match kind {
            ResourceKind::Gpu => fit.gpus.size().get(),
            ResourceKind::Cpu => fit.cpus.get(),
            ResourceKind::Memory => fit.memory.get(),
            ResourceKind::Tasks => u64::from(fit.at.is_empty()),
            ResourceKind::GpuModel(_) | ResourceKind::GpuPool(_) => match counts(at) {
                true => fit.gpus.size().get(),
                false => 0,
            },
            ResourceKind::GpuMemory
            | ResourceKind::PlainTasks
            | ResourceKind::UserTasks
            | ResourceKind::MigProfile(_)
            | ResourceKind::PauseMemory
            | ResourceKind::Node => 0,
        };
        let n_tasks = u64::from(fit.gang.n_tasks());
        self.kinds.iter().enumerate().map(|it| amount(it).saturating_mul(n_tasks)).collect()
    }
}
