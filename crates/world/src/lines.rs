//! The lines in which jobs wait: one for each project, or each user of it where users are told
//! apart. A line has the first job of each of its shapes, in the order in which they are
//! considered, and what all of it asks for; both are kept as jobs come and go, so that a cycle
//! costs what it looks at and not what waits.

use std::collections::{BTreeMap, BTreeSet, btree_set};

use gpool_model::{
    GpuAmount, JobId, MilliGpu, Millis, Policy, PoolName, ResourceKind, Shape, Timestamp,
};

use crate::order::Rank;
use crate::row::{FitIx, ProjectIx, ShapeIx};

/// Whose line it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct LineKey {
    /// The project.
    pub project_ix: ProjectIx,
    /// The user, where users are told apart.
    pub uid: Option<u32>,
}

/// A job that is the first of its shape, or of those of it that have waited for long.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Head {
    /// Its place in the order.
    pub rank: Rank,
    /// Its shape.
    pub shape_ix: ShapeIx,
    /// What its shape asks of nodes.
    pub fit_ix: FitIx,
    /// Whether it has waited for long.
    pub is_escalated: bool,
    /// Its priority.
    pub priority: i32,
    /// Whether it makes another job larger.
    pub joins: bool,
    /// Whether what it gets may be taken back.
    pub preemptible: bool,
    /// How much of devices it asks for, all its tasks together.
    pub gpus: MilliGpu,
    /// Of how many GPUs of one node it needs all; nothing where it shares them or has instances.
    pub n_whole: usize,
    /// For how long it holds what it gets, at most; `None` is for ever.
    pub takes: Option<Millis>,
}

impl Head {
    /// Which job it is.
    #[must_use]
    pub fn job(&self) -> JobId {
        self.rank.job()
    }
}

/// One line.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Line {
    heads: BTreeSet<Head>,
    /// How many heads need so many devices of one node.
    n_by_whole: BTreeMap<usize, u64>,
    least_whole: usize,
    n_preemptible: u64,
    first: Option<(i32, bool)>,
    asked: Asked,
}

impl Line {
    /// The heads, in order.
    pub fn heads(&self) -> btree_set::Iter<'_, Head> {
        self.heads.iter()
    }

    /// Each of the heads needs at least so many devices of one node, all of each.
    #[must_use]
    pub fn least_whole(&self) -> usize {
        self.least_whole
    }

    /// Whether what any of the heads gets may be taken back.
    #[must_use]
    pub fn any_preemptible(&self) -> bool {
        self.n_preemptible > 0
    }

    /// Which priority the first has, and whether it makes another job larger.
    #[must_use]
    pub fn first(&self) -> Option<(i32, bool)> {
        self.first
    }

    fn insert(&mut self, head: Head) {
        *self.n_by_whole.entry(head.n_whole).or_default() += 1;
        self.n_preemptible += u64::from(head.preemptible);
        self.heads.insert(head);
        self.note();
    }

    /// Keeps at hand what every cycle asks.
    fn note(&mut self) {
        self.least_whole = self.n_by_whole.keys().next().copied().unwrap_or(0);
        self.first = self.heads.first().map(|head| (head.priority, head.joins));
    }

    fn remove(&mut self, head: &Head) {
        assert!(self.heads.remove(head), "who stands in a line leaves it once");
        self.n_preemptible -= u64::from(head.preemptible);
        let n_heads = self.n_by_whole.entry(head.n_whole).or_default();
        *n_heads -= 1;
        if *n_heads == 0 {
            self.n_by_whole.remove(&head.n_whole);
        }
        self.note();
    }

    fn clear(&mut self) {
        self.heads.clear();
        self.n_by_whole.clear();
        self.n_preemptible = 0;
        self.note();
    }

    /// What all of it asks for.
    #[must_use]
    pub fn asked(&self) -> &Asked {
        &self.asked
    }
}

/// What jobs ask for that wait.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Asked {
    n_jobs: u64,
    // Wide enough that no sum is cut off, so that what was added can be taken away again.
    gpus: u128,
    cpus: u128,
    memory: u128,
    tasks: u128,
    /// How many ask for less than a device, by how much.
    shares: BTreeMap<MilliGpu, u64>,
}

impl Asked {
    /// How much of a kind; of a part of the GPUs `None`, as it depends on which they get.
    #[must_use]
    pub fn of(&self, kind: &ResourceKind) -> Option<u64> {
        let sum = match kind {
            ResourceKind::Gpu => self.gpus,
            ResourceKind::Cpu => self.cpus,
            ResourceKind::Memory => self.memory,
            ResourceKind::Tasks => self.tasks,
            ResourceKind::GpuModel(_) | ResourceKind::GpuPool(_) => return None,
            ResourceKind::GpuMemory
            | ResourceKind::PlainTasks
            | ResourceKind::UserTasks
            | ResourceKind::MigProfile(_)
            | ResourceKind::PauseMemory
            | ResourceKind::Node => 0,
        };
        Some(u64::try_from(sum).unwrap_or(u64::MAX))
    }

    /// The least that one of them asks for, of those that ask for less than a device.
    #[must_use]
    pub fn smallest_share(&self) -> Option<MilliGpu> {
        self.shares.keys().next().copied()
    }

    fn change(&mut self, shape: &Shape, before: u64, after: u64) {
        let fit = &shape.fit;
        let n_tasks = u128::from(fit.gang.n_tasks());
        let each = |amount: u64| u128::from(amount) * n_tasks;
        let gpus = fit.gpus_together();
        let parts = [
            (&mut self.gpus, u128::from(gpus.get())),
            (&mut self.cpus, each(fit.cpus.get())),
            (&mut self.memory, each(fit.memory.get())),
            (&mut self.tasks, each(u64::from(fit.at.is_empty()))),
        ];
        for (sum, each) in parts {
            *sum = *sum + each * u128::from(after) - each * u128::from(before);
        }
        self.n_jobs = self.n_jobs + after - before;
        if !gpus.is_zero() && gpus < MilliGpu::DEVICE {
            let n_jobs = self.shares.entry(gpus).or_default();
            *n_jobs = *n_jobs + after - before;
            if *n_jobs == 0 {
                self.shares.remove(&gpus);
            }
        }
    }
}

/// All lines in which somebody waits.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Lines {
    /// Of jobs about which the policy of a pool decides, each pool's apart, as they stand in an
    /// order of their own; and of all others.
    by_domain: BTreeMap<Option<PoolName>, BTreeMap<LineKey, Line>>,
}

/// Which of all lines.
pub(crate) type DomainLine<'a> = (Option<&'a PoolName>, LineKey);

impl Lines {
    pub fn all(&self) -> impl Iterator<Item = (Option<&PoolName>, LineKey, &Line)> {
        let domains = self.by_domain.iter();
        domains.flat_map(|(domain, lines)| {
            lines.iter().map(move |(key, line)| (domain.as_ref(), *key, line))
        })
    }

    pub fn of(&self, domain: Option<&PoolName>) -> impl Iterator<Item = (LineKey, &Line)> {
        let lines = self.by_domain.get(&domain.cloned());
        lines.into_iter().flatten().map(|(key, line)| (*key, line))
    }

    pub fn insert(&mut self, key: DomainLine<'_>, head: Head) {
        self.line(key).insert(head);
    }

    pub fn remove(&mut self, key: DomainLine<'_>, head: &Head) {
        self.line(key).remove(head);
        self.close(key);
    }

    /// Of a shape so many jobs waited, and so many do now.
    pub fn ask(&mut self, key: DomainLine<'_>, shape: &Shape, before: u64, after: u64) {
        self.line(key).asked.change(shape, before, after);
        self.close(key);
    }

    /// Forgets the order of all, which is another one now.
    pub fn clear_heads(&mut self) {
        self.by_domain.values_mut().flat_map(BTreeMap::values_mut).for_each(Line::clear);
    }

    fn line(&mut self, (domain, key): DomainLine<'_>) -> &mut Line {
        self.by_domain.entry(domain.cloned()).or_default().entry(key).or_default()
    }

    fn close(&mut self, (domain, key): DomainLine<'_>) {
        let domain = domain.cloned();
        let Some(lines) = self.by_domain.get_mut(&domain) else { return };
        if lines.get(&key).is_some_and(|line| *line == Line::default()) {
            lines.remove(&key);
        }
        if lines.is_empty() {
            self.by_domain.remove(&domain);
        }
    }
}

/// A job as the head of its shape, under a policy.
pub(crate) fn head(
    policy: &Policy,
    shape: &Shape,
    (shape_ix, fit_ix): (ShapeIx, FitIx),
    is_escalated: bool,
    (submitted_at, job): (Timestamp, JobId),
) -> Head {
    Head {
        rank: Rank::of(policy, shape, is_escalated, submitted_at, job),
        shape_ix,
        fit_ix,
        is_escalated,
        priority: shape.priority,
        joins: shape.joins,
        preemptible: shape.preemptible,
        gpus: shape.fit.gpus_together(),
        n_whole: match shape.fit.gpus.amount {
            GpuAmount::Whole(_) => {
                usize::try_from(shape.fit.n_devices_on_node()).unwrap_or(usize::MAX)
            }
            GpuAmount::Shared { .. } | GpuAmount::Instances { .. } => 0,
        },
        takes: shape.takes,
    }
}
