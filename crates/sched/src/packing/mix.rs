//! What tasks ask, and how often.

use std::collections::BTreeMap;

use super::fgd::fragment;
use super::left::{Ask, Left};

/// How much the tasks are worth that a mix is made of.
const ALL: u64 = 1_000_000;
/// Of a mix, those are looked at that are asked for most, until they are so many of all tasks.
const POPULAR_PERCENT: u64 = 95;

/// A request, and how often it is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Weighed {
    /// What is asked; host memory is not looked at.
    pub ask: Ask,
    /// Of a million.
    pub weight: u64,
}

/// What tasks ask, and how often.
#[derive(Debug, Clone, Default)]
pub struct Mix {
    /// The popular ones, the most popular first; their weights are a million together, but for
    /// what rounding takes.
    pub popular: Vec<Weighed>,
    /// Of all tasks, those of several devices: the request without host memory, and which part of
    /// all that is asked of devices they ask, of a million.
    pub gangs: Vec<Weighed>,
    /// By number of the model: which part of all that is asked of devices is asked by those who
    /// take few models, of a million. Who takes several is divided by how many of each there are.
    pub bound: Vec<u64>,
}

impl Mix {
    /// Expected thousandths of devices of which the next task can use nothing, times a million.
    #[must_use]
    pub fn fragment(&self, left: &Left) -> u64 {
        fragment(left, self)
    }

    /// The mix of these tasks, on a cluster that has so much of each model, in thousandths of
    /// devices.
    #[must_use]
    pub fn of(tasks: &[Ask], capacity: &[u64]) -> Self {
        Self::of_counts(tasks.iter().map(|ask| (*ask, 1)), capacity)
    }

    /// The same where it is known how many there are of each.
    pub(crate) fn of_counts(asks: impl IntoIterator<Item = (Ask, u64)>, capacity: &[u64]) -> Self {
        let mut counts = BTreeMap::<Ask, u64>::new();
        for (ask, n) in asks {
            *counts.entry(Ask { memory: 0, ..ask }).or_default() += n;
        }
        let mut counted: Vec<(Ask, u64)> = counts.into_iter().collect();
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
        let popular: Vec<&(Ask, u64)> = popular.collect();
        let n_popular: u64 = popular.iter().map(|(_, n)| n).sum();
        let weighed =
            popular.into_iter().map(|(ask, n)| Weighed { ask: *ask, weight: n * ALL / n_popular });
        Self { popular: weighed.collect(), gangs, bound }
    }
}

impl Mix {
    /// By number of the model, what a thousandth of a device costs who could do without it, in
    /// millionths, on a cluster that has so much of each.
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

/// By number of the model, what is asked by those who do not take all of them.
fn bound(counted: &[(Ask, u64)], capacity: &[u64]) -> Vec<u64> {
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
