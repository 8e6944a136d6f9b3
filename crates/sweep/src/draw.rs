//! The trials of a grid and of random draws, one row of values for each.

use std::collections::HashSet;

use gpool_wire::ParamTable;

use crate::fault::Fault;
use crate::parameter::Parameter;
use crate::sweep::{Method, Sweep};

/// Draws of a trial that no other trial may have, before the draw ends.
const TRIES: usize = 1000;

impl Sweep {
    /// Returns the trials of a sweep that needs no driver. The same seed makes the same trials.
    ///
    /// # Errors
    /// See [`Sweep::check`].
    pub fn trials(&self, seed: u64) -> Result<ParamTable, Fault> {
        self.check()?;
        let most = self.n_trials.map_or(usize::MAX, |n| n as usize);
        let rows = match self.method() {
            Method::Grid => self.grid(most),
            Method::Random | Method::Bayes => self.random(most, seed),
        };
        let names = self.parameters.iter().map(|parameter| parameter.name.clone());
        Ok(ParamTable { names: names.collect(), rows })
    }

    /// Every combination; the last parameter changes fastest.
    fn grid(&self, most: usize) -> Vec<Vec<String>> {
        let axes: Vec<Vec<String>> =
            self.parameters.iter().filter_map(|it| it.domain.values()).collect();
        let n: usize = axes.iter().map(Vec::len).product();
        let row = |at: usize| {
            let mut rest = at;
            let mut row: Vec<String> = axes
                .iter()
                .rev()
                .filter_map(|axis| {
                    let value = axis.get(rest % axis.len())?.clone();
                    rest /= axis.len();
                    Some(value)
                })
                .collect();
            row.reverse();
            row
        };
        (0..n.min(most)).map(row).collect()
    }

    /// Trials that differ from each other: fewer than wanted if there are no more.
    fn random(&self, most: usize, seed: u64) -> Vec<Vec<String>> {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut sizes = self.parameters.iter().map(|it| it.domain.n_values());
        let n_all = sizes.try_fold(1.0, |n, size| Some(n * size?));
        // All of them, in random order: draws would rarely find the last ones.
        if n_all.is_some_and(|n| n <= most as f64 * 2.0) {
            let is_listed = |it: &Parameter| it.domain.values().is_some();
            if self.parameters.iter().all(is_listed) {
                let mut rows = self.grid(usize::MAX);
                random.shuffle(&mut rows);
                rows.truncate(most);
                return rows;
            }
        }
        let (mut rows, mut seen) = (Vec::new(), HashSet::new());
        while rows.len() < most {
            let mut draw =
                || self.parameters.iter().map(|it| it.domain.draw(&mut random)).collect::<Vec<_>>();
            let row = (0..TRIES).map(|_| draw()).find(|row| !seen.contains(row));
            let Some(row) = row else { break };
            seen.insert(row.clone());
            rows.push(row);
        }
        rows
    }
}
