//! In which ways a job can start. Where quotas name parts of the GPUs, by model or by pool, what a
//! job is charged for depends on which it gets; it is tried with those of one class after the
//! other, so that what is asked of quotas is known before a place is looked for.

use std::borrow::Cow;

use gpool_model::{Amount, ModelPattern, Placement, ResourceKind, Resources, Shape};
use gpool_world::{GpuClass, World};

use crate::projects::{Amounts, Projects};
use crate::shares::Row;

/// A way in which a job can start.
#[derive(Debug)]
pub(crate) struct Way<'a> {
    /// What it asks then.
    pub shape: Cow<'a, Shape>,
    /// What it is charged for then at most, by kind; empty where nobody is charged.
    pub charge: Amounts,
    /// The class of GPUs that it is kept to, by position; `None` is as it asks.
    pub class: Option<usize>,
    /// Whether it has GPUs of several classes together: what it is charged for depends on which.
    pub is_mixed: bool,
}

impl<'a> Way<'a> {
    /// As it asks, and nobody is charged.
    pub fn as_asked(shape: &'a Shape) -> Self {
        Self { shape: Cow::Borrowed(shape), charge: Vec::new(), class: None, is_mixed: false }
    }
}

impl Projects {
    /// In which ways a job can start that is charged to a project, the best first: with the models
    /// that it asks for first, then with what its project is guaranteed, then with what nobody is.
    pub fn ways<'s>(&self, world: &World, shape: &'s Shape, leaf: Row) -> Vec<Way<'s>> {
        let as_asked = || {
            let charge = self.charge(world, shape);
            Way { charge, ..Way::as_asked(shape) }
        };
        let fit = &shape.fit;
        if !self.counts_parts || fit.gpus.is_none() || !fit.at.is_empty() {
            return vec![as_asked()];
        }
        let counted = |class: &GpuClass| -> Vec<bool> {
            self.kinds().iter().map(|kind| class.counts_as(kind)).collect()
        };
        let classes: Vec<(usize, &GpuClass, Vec<bool>)> = world
            .gpu_classes()
            .enumerate()
            .filter(|(_, class)| class.serves(fit))
            .map(|(ix, class)| (ix, class, counted(class)))
            .collect();
        if classes.windows(2).all(|two| two[0].2 == two[1].2) {
            return vec![as_asked()];
        }
        let mut ways: Vec<((usize, u8), Way<'s>)> = Vec::new();
        for (ix, class, counts) in &classes {
            let charge = self.charge_if(shape, |at, _| counts[at]);
            let mut own = shape.clone();
            own.fit.pool = Some(class.pool.clone());
            own.fit.gpus.models = vec![ModelPattern::exactly(&class.model)];
            let rank = fit.gpus.models.iter().position(|model| model.matches(&class.model));
            let order = (rank.unwrap_or(0), self.whose(leaf, counts));
            let (shape, class) = (Cow::Owned(own), Some(*ix));
            ways.push((order, Way { shape, charge, class, is_mixed: false }));
        }
        ways.sort_by_key(|(order, _)| *order);
        let mut ways: Vec<Way<'s>> = ways.into_iter().map(|(_, way)| way).collect();
        // Devices of several classes together, if there is no other way.
        if fit.gang.n_tasks() > 1 || fit.gpus.n_devices() > 1 {
            ways.push(Way { is_mixed: true, ..as_asked() });
        }
        ways
    }

    /// What a job counts for that has those GPUs.
    pub fn charge_at(&self, world: &World, shape: &Shape, placements: &[Placement]) -> Amounts {
        let mut held = Resources::none();
        for place in placements {
            world.add_parts(&mut held, &place.node, &place.slots);
        }
        let mut charge = self.charge_if(shape, |_, _| false);
        for (amount, kind) in charge.iter_mut().zip(self.kinds()) {
            *amount = (*amount).max(held.counted_as(kind));
        }
        charge
    }

    /// Whose GPUs those of a class are: of the project, nobody's, or of others.
    fn whose(&self, leaf: Row, counts: &[bool]) -> u8 {
        let parts = self.kinds().iter().zip(counts).enumerate();
        let parts = parts.filter(|(_, (kind, counts))| kind.is_part_of_gpus() && **counts);
        let guaranteed = |at: usize| self.ledger.account(self.project(leaf), at).guaranteed;
        let all: Vec<Amount> = parts.map(|(at, _)| guaranteed(at)).collect();
        match () {
            () if all.iter().any(|it| *it > Amount::NOTHING && !it.is_unlimited()) => 0,
            () if all.iter().all(|it| it.is_unlimited()) => 1,
            () => 2,
        }
    }

    /// What one job of a shape counts for: of each part of the GPUs, as much as it could have of
    /// that.
    pub fn charge(&self, world: &World, shape: &Shape) -> Amounts {
        if self.counts_parts && !shape.fit.at.is_empty() {
            return self.charge_at(world, shape, &shape.fit.at);
        }
        let may_have = |_: usize, kind: &ResourceKind| {
            let mut classes = world.gpu_classes().filter(|class| class.serves(&shape.fit));
            classes.any(|class| class.counts_as(kind))
        };
        self.charge_if(shape, may_have)
    }

    /// The same where it counts for those parts of the GPUs.
    fn charge_if(&self, shape: &Shape, counts: impl Fn(usize, &ResourceKind) -> bool) -> Amounts {
        let fit = &shape.fit;
        let amount = |(at, kind): (usize, &ResourceKind)| match kind {
            ResourceKind::Gpu => fit.gpus.size().get(),
            ResourceKind::Cpu => fit.cpus.get(),
            ResourceKind::Memory => fit.memory.get(),
            ResourceKind::Tasks => u64::from(fit.at.is_empty()),
            ResourceKind::GpuModel(_) | ResourceKind::GpuPool(_) => match counts(at, kind) {
                true => fit.gpus.size().get(),
                false => 0,
            },
            ResourceKind::GpuMemory | ResourceKind::MigProfile(_) | ResourceKind::PauseMemory => 0,
        };
        let n_tasks = u64::from(fit.gang.n_tasks());
        self.kinds().iter().enumerate().map(|it| amount(it).saturating_mul(n_tasks)).collect()
    }
}
