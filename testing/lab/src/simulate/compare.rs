//! One policy against the first one, pair by pair: the same job, or the same seed.

use gpool_cli::render::words::count;
use gpool_trace::interval::Mean;
use serde_json::{Value, json};

use crate::render::grid::Grid;

/// A comparison of a policy with the first one.
#[derive(Debug, Clone)]
pub struct Comparison {
    /// The first policy.
    pub first: String,
    /// The policy that is compared with it.
    pub policy: String,
    /// The number of pairs.
    pub n_pairs: usize,
    /// The mean values of the first policy and of the other.
    pub means: (f64, f64),
    /// The mean difference.
    pub difference: Mean,
    /// The standard deviation of the differences; `None` if there is one pair, or pairs are not
    /// independent.
    pub deviation: Option<f64>,
}

/// The names in a comparison.
#[derive(Debug, Clone, Copy)]
pub struct Words {
    /// The end of the keys of values, e.g. `_s` for seconds.
    pub unit: &'static str,
    /// The column of the compared value.
    pub value: &'static str,
    /// The results for a smaller and for a larger value.
    pub results: (&'static str, &'static str),
    /// One of a pair.
    pub pairs: &'static str,
    /// A block of the confidence interval.
    pub block: &'static str,
    /// With fewer blocks the interval is unreliable.
    pub n_blocks_min: usize,
}

impl Comparison {
    /// The values for programs.
    #[must_use]
    pub fn json(&self, words: Words) -> Value {
        let Words { unit, block, .. } = words;
        json!({
            "policy": self.policy,
            "compared_with": self.first,
            "pairs": self.n_pairs,
            (format!("{block}s")): self.difference.n_blocks,
            (format!("mean{unit}")): self.means.1,
            (format!("mean_of_first{unit}")): self.means.0,
            (format!("difference{unit}")): self.difference.mean,
            (format!("interval{unit}")): self.difference.interval.map(<[f64; 2]>::from),
            (format!("deviation{unit}")): self.deviation,
            "correlation": self.difference.correlation,
            "result": self.result(words),
        })
    }

    /// The comparison in a word.
    #[must_use]
    pub fn result(&self, words: Words) -> &'static str {
        match self.difference {
            it if !it.is_told() => "not significant",
            it if it.mean < 0.0 => words.results.0,
            _ => words.results.1,
        }
    }
}

/// The table for the terminal; `text` formats a value.
#[must_use]
pub fn grid(all: &[Comparison], words: Words, text: impl Fn(f64) -> String) -> Option<Grid> {
    let first = &all.first()?.first;
    let Words { value, pairs, block, .. } = words;
    let signed =
        |value: f64| format!("{}{}", if value < 0.0 { '-' } else { '+' }, text(value.abs()));
    let blocks = format!("{}S", block.to_uppercase());
    let head = ["POLICY", "DIFFERENCE", "95% INTERVAL", &blocks, "RESULT"];
    let row = |it: &Comparison| {
        let interval = it.difference.interval;
        vec![
            it.policy.clone(),
            signed(it.difference.mean),
            interval.map_or("-".to_owned(), |(low, high)| {
                format!("{} to {}", signed(low), signed(high))
            }),
            it.difference.n_blocks.to_string(),
            it.result(words).to_owned(),
        ]
    };
    Some(Grid {
        head: head.map(str::to_owned).to_vec(),
        rows: all.iter().map(row).collect(),
        note: format!(
            "DIFFERENCE    {value} minus that of {first}, for the same {pairs}s\n\
             95% INTERVAL  confidence interval of DIFFERENCE; each {block} counts once\n"
        ),
    })
}

/// Why the confidence intervals are unreliable.
#[must_use]
pub fn warnings(all: &[Comparison], words: Words) -> Vec<String> {
    let n_least = words.n_blocks_min;
    let few = all.iter().map(|it| it.difference.n_blocks).filter(|n| *n < n_least).min();
    let few = few.map(|n| {
        let n = count(n as u64, words.block);
        format!("confidence intervals of {n} are unreliable: {n_least} are needed")
    });
    few.into_iter().collect()
}
