//! The lines with policies, read and written:
//! `policy  preset fair  order priority,age  escalate 24h  strategy pack  planned 2  share users`,
//! and for a pool with its own policy `pool batch  preset fifo  planned all`.

use std::fmt;
use std::str::FromStr as _;

use gpool_model::{
    DeviceStrategy, OrderKey, PlannedStarts, Policy, PoolName, ShareBetween, ShareWith, parse,
};

use crate::amount::span;
use crate::reader::Reader;
use crate::words::{ScenarioError, Words};

const WORDS_OF_ORDER: &str = "preset, order, escalate, strategy, planned, levels, min-run, \
                              share-with, consolidate or stay-put";
const WORDS: &str = "preset, order, escalate, strategy, planned, share, lend-nothing, \
                     reserved-only, levels, min-run, share-with, consolidate, stay-put, \
                     half-life or use-weight";

impl Reader {
    /// Reads the words after `policy`; a preset replaces everything before it.
    pub fn policy(&mut self, words: &mut Words<'_>) -> Result<(), ScenarioError> {
        let policy = &mut self.situation.policy;
        while let Some(word) = words.next() {
            match word {
                word if of_order(policy, word, words)? => {}
                "share" => {
                    let between = |word: &str| known(word, &ShareBetween::ALL);
                    policy.share_between = words.parse("who shares", between)?;
                }
                "half-life" => {
                    policy.use_half_life = words.parse("a length of time", parse::span)?;
                }
                "use-weight" => {
                    let set = policy.set("use_weight", words.need("a number up to 10")?);
                    set.map_err(|error| words.error(error.to_string()))?;
                }
                "lend-nothing" => policy.lend = false,
                "reserved-only" => policy.reserved_only = true,
                word => return Err(words.unknown(word, WORDS)),
            }
        }
        policy.align_pools();
        Ok(())
    }

    /// Reads the words after `pool`.
    pub fn pool(&mut self, words: &mut Words<'_>) -> Result<(), ScenarioError> {
        let pool = PoolName::new(words.need("a pool")?);
        let policy = &mut self.situation.policy;
        let mut own = policy.with_order_of(policy);
        while let Some(word) = words.next() {
            if !of_order(&mut own, word, words)? {
                return Err(words.unknown(word, WORDS_OF_ORDER));
            }
        }
        policy.pools.insert(pool, own);
        policy.align_pools();
        Ok(())
    }
}

/// Reads a word about the order and the placement of jobs; false if it is another word.
fn of_order(policy: &mut Policy, word: &str, words: &mut Words<'_>) -> Result<bool, ScenarioError> {
    match word {
        "preset" => {
            let pools = std::mem::take(&mut policy.pools);
            *policy = Policy { pools, ..words.parse("a preset", Policy::from_preset)? };
        }
        "order" => policy.order = words.parse("keys of the order", order_keys)?,
        "escalate" => policy.escalate_after = words.parse("a length of time", parse::span)?,
        "strategy" => {
            let strategy = |word: &str| known(word, &DeviceStrategy::ALL);
            policy.device_strategy = words.parse("a strategy", strategy)?;
        }
        "planned" => {
            policy.planned_starts =
                words.parse("a number of planned starts, or all", planned_starts)?;
        }
        "levels" => {
            let set = policy.set("attained_levels", words.need("GPU-hours by commas")?);
            set.map_err(|error| words.error(error.to_string()))?;
        }
        "consolidate" => policy.consolidate = true,
        "stay-put" => policy.consolidate = false,
        "share-with" => policy.share_with = words.parse("jobs", ShareWith::from_str)?,
        "min-run" => policy.min_run = words.parse("a length of time", parse::span)?,
        _ => return Ok(false),
    }
    Ok(true)
}

/// Finds the value of a word in a list.
fn known<T: Copy>(word: &str, all: &[(&'static str, T)]) -> Result<T, String> {
    let found = all.iter().find(|(name, _)| *name == word);
    let names = || all.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
    found.map(|(_, it)| *it).ok_or_else(|| format!("expected {}", names()))
}

/// Parses `priority,age`; `id` if only the job's id decides.
fn order_keys(text: &str) -> Result<Vec<OrderKey>, String> {
    match text {
        "id" => Ok(Vec::new()),
        keys => keys.split(',').map(order_key).collect(),
    }
}

/// Parses `2`; `all` if every waiting job has a planned start.
fn planned_starts(text: &str) -> Result<PlannedStarts, std::num::ParseIntError> {
    match text {
        "all" => Ok(PlannedStarts::All),
        count => count.parse().map(PlannedStarts::AtMost),
    }
}

fn order_key(word: &str) -> Result<OrderKey, String> {
    known(word, &OrderKey::ALL).map_err(|expected| format!("unknown key {word:?}, {expected}"))
}

/// Writes the line of a policy, and those of pools with their own.
pub(crate) fn policy(f: &mut fmt::Formatter<'_>, policy: &Policy) -> fmt::Result {
    let usual = Policy::fair();
    f.write_str("policy")?;
    order(f, policy, &usual)?;
    if policy.share_between != ShareBetween::Projects {
        write!(f, "  share {}", policy.share_between.as_str())?;
    }
    if policy.use_half_life != usual.use_half_life {
        write!(f, "  half-life {}", span(policy.use_half_life))?;
    }
    if let Some(weight) = unusual(policy, &usual, "use_weight") {
        write!(f, "  use-weight {weight}")?;
    }
    f.write_str(if policy.lend { "" } else { "  lend-nothing" })?;
    f.write_str(if policy.reserved_only { "  reserved-only" } else { "" })?;
    writeln!(f)?;
    for (pool, own) in &policy.pools {
        write!(f, "pool {pool}")?;
        order(f, own, policy)?;
        writeln!(f)?;
    }
    Ok(())
}

/// Writes the order and the placement of jobs as far as they differ from `usual`.
fn order(f: &mut fmt::Formatter<'_>, policy: &Policy, usual: &Policy) -> fmt::Result {
    let mut keys: Vec<&str> = policy.order.iter().map(|key| key.as_str()).collect();
    if keys.is_empty() {
        keys.push("id");
    }
    let (strategy, _) = DeviceStrategy::ALL
        .into_iter()
        .find(|(_, strategy)| *strategy == policy.device_strategy)
        .expect("every strategy is in the list of all");
    let escalate = span(policy.escalate_after);
    write!(f, "  order {}  escalate {escalate}  strategy {strategy}", keys.join(","))?;
    match policy.planned_starts {
        same if same == usual.planned_starts => {}
        PlannedStarts::AtMost(most) => write!(f, "  planned {most}")?,
        PlannedStarts::All => f.write_str("  planned all")?,
    }
    if let Some(levels) = unusual(policy, usual, "attained_levels") {
        write!(f, "  levels {levels}")?;
    }
    if policy.min_run != usual.min_run {
        write!(f, "  min-run {}", span(policy.min_run))?;
    }
    if policy.share_with != usual.share_with {
        write!(f, "  share-with {}", policy.share_with)?;
    }
    if policy.consolidate != usual.consolidate {
        f.write_str(if policy.consolidate { "  consolidate" } else { "  stay-put" })?;
    }
    Ok(())
}

/// The value of a setting if it differs from `usual`.
fn unusual(policy: &Policy, usual: &Policy, key: &str) -> Option<String> {
    let value = |policy: &Policy| policy.settings().into_iter().find(|(it, _)| *it == key);
    let (_, text) = value(policy).filter(|it| Some(it) != value(usual).as_ref())?;
    Some(text)
}
