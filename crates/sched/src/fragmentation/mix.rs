//! The expected tasks: which demands are how frequent.

use std::collections::BTreeMap;

use super::free_part::TaskDemand;

/// The sum of all weights.
const ALL: u64 = 1_000_000;
/// The most frequent demands that together make up this part of all tasks are the popular ones.
const POPULAR_PERCENT: u64 = 95;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Weighed {
    /// The demand, without host memory.
    pub ask: TaskDemand,
    /// Millionths.
    pub weight: u64,
}

/// The expected tasks.
#[derive(Debug, Clone, Default)]
pub struct Mix {
    /// The frequent demands, the most frequent first. Their weights add up to a million, less
    /// rounding.
    pub popular: Vec<Weighed>,
    /// All demands for several devices, weighted by their part of all devices that are asked for.
    pub gangs: Vec<Weighed>,
    /// By number of the model: millionths of all devices asked for that tasks which do not take
    /// every model ask of this one. A task that takes several is divided in proportion to the
    /// capacity of each.
    pub bound: Vec<u64>,
}

impl Mix {
    /// Returns the mix of these tasks. `capacity` is the thousandths of devices of each model.
    #[must_use]
    pub fn of(tasks: &[TaskDemand], capacity: &[u64]) -> Self {
        Self::of_counts(tasks.iter().map(|ask| (*ask, 1)), capacity)
    }

    /// Returns the mix of tasks that are counted by demand.
    #[must_use]
    pub fn of_counts(asks: impl IntoIterator<Item = (TaskDemand, u64)>, capacity: &[u64]) -> Self {
        let mut counts = BTreeMap::<TaskDemand, u64>::new();
        for (ask, n) in asks {
            *counts.entry(TaskDemand { memory: 0, ..ask }).or_default() += n;
        }
        let mut counted: Vec<(TaskDemand, u64)> = counts.into_iter().collect();
        let n_tasks: u64 = counted.iter().map(|(_, n)| n).sum();
        let asked: u64 = counted.iter().map(|(ask, n)| ask.gpus() * n).sum();
        let of_asked = |amount: u64| amount.saturating_mul(ALL) / asked.max(1);
        let gangs = counted.iter().filter(|(ask, _)| ask.n_gpus > 1);
        let gangs =
            gangs.map(|(ask, n)| Weighed { ask: *ask, weight: of_asked(ask.gpus() * n) }).collect();
        let bound = bound(&counted, capacity).into_iter().map(of_asked).collect();
        counted.sort_by_key(|(ask, n)| (std::cmp::Reverse(*n), *ask));
        let mut sum = 0;
        let popular = counted.iter().take_while(|(_, n)| {
            let before = sum;
            sum += n;
            before * 100 < n_tasks * POPULAR_PERCENT
        });
        let popular: Vec<&(TaskDemand, u64)> = popular.collect();
        let n_popular: u64 = popular.iter().map(|(_, n)| n).sum();
        let weighed =
            popular.into_iter().map(|(ask, n)| Weighed { ask: *ask, weight: n * ALL / n_popular });
        Self { popular: weighed.collect(), gangs, bound }
    }
}

impl Mix {
    /// Returns the price of a thousandth of a device for a task that takes every model, by number
    /// of the model, in millionths. `capacity` is the thousandths of devices of each model.
    pub(crate) fn prices(&self, capacity: &[u64]) -> Vec<u64> {
        let total: u64 = capacity.iter().sum();
        let price = |(model, there): (usize, &u64)| {
            let bound = self.bound.get(model).copied().unwrap_or(0);
            let product = u128::from(bound) * u128::from(total) / u128::from(*there).max(1);
            u64::try_from(product).unwrap_or(u64::MAX)
        };
        capacity.iter().enumerate().map(price).collect()
    }
}

/// Returns the devices asked for by tasks that do not take every model, by number of the model.
fn bound(counted: &[(TaskDemand, u64)], capacity: &[u64]) -> Vec<u64> {
    let mut bound = vec![0; capacity.len()];
    let is_there = |(model, amount): &(usize, &u64)| **amount > 0 && *model < 64;
    let all = || capacity.iter().enumerate().filter(is_there);
    for (ask, n) in counted.iter().filter(|(ask, _)| ask.n_gpus > 0) {
        let taken = || all().filter(|(model, _)| ask.models >> model & 1 == 1);
        if taken().count() == all().count() {
            continue;
        }
        let there: u64 = taken().map(|(_, amount)| amount).sum();
        for (model, amount) in taken() {
            let part = u128::from(ask.gpus() * n) * u128::from(*amount) / u128::from(there.max(1));
            bound[model] += u64::try_from(part).unwrap_or(u64::MAX);
        }
    }
    bound
}
