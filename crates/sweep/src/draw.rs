//! The trials of a grid and of random draws, one row of values for each.

use std::collections::HashSet;

use gpool_model::Indexes;
use gpool_wire::ParamTable;

use crate::parameter::Parameter;
use crate::{Fault, Method, Sweep};

/// Draws of a trial that no other trial may have, before the draw ends.
const TRIES: usize = 1000;

/// The number of combinations of a grid.
///
/// # Errors
/// A range has no steps, or the grid has more trials than an array can have elements.
pub fn n_combinations(parameters: &[Parameter]) -> Result<u64, Fault> {
    let mut n = 1u64;
    for parameter in parameters {
        let name = &parameter.name;
        let Some(values) = parameter.domain.values() else {
            let what = format!("the range of {name} has no steps for a grid, or too many");
            let advice = format!("--param {name}=0..1:0.1, or --method random --trials 50");
            return Err(Fault::new(what, advice));
        };
        n = n.saturating_mul(values.len() as u64);
    }
    match n <= u64::from(Indexes::ELEMENTS_MAX) {
        true => Ok(n),
        false => {
            let what =
                format!("the grid has {n} trials; an array can have {}", Indexes::ELEMENTS_MAX);
            Err(Fault::new(what, "--method random --trials 50"))
        }
    }
}

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
        let sizes = self.parameters.iter().map(|it| it.domain.n_values());
        let n_all = sizes.fold(Some(1.0), |n, size| Some(n? * size?));
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
