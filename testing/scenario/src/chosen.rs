//! Node filters of jobs: `on n1,n2`, `not-on n3`, `where rack=3`, `topology same-rack`,
//! `exclusive`.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use gpool_model::{NodeFilter, NodeName, NodeRule, PoolName, ShareWith, Topology, hostlist};
use gpool_world::World;

use crate::words::{ScenarioError, Words};

/// Reads the value after one of these words.
pub(crate) fn read(
    word: &str,
    filter: &mut NodeFilter,
    words: &mut Words<'_>,
) -> Result<(), ScenarioError> {
    match word {
        "on" => filter.include = nodes(words)?,
        "exclusive" => filter.exclusive = true,
        "topology" => filter.topology = Some(words.parse("a topology", Topology::parse)?),
        "not-on" => filter.exclude = nodes(words)?,
        _ => {
            filter.rules.insert(words.parse("a rule", NodeRule::parse)?);
        }
    }
    Ok(())
}

fn nodes(words: &mut Words<'_>) -> Result<BTreeSet<NodeName>, ScenarioError> {
    Ok(words.parse("nodes", hostlist::nodes)?.into_iter().collect())
}

/// Writes a filter in the form that is read.
pub(crate) fn write(f: &mut fmt::Formatter<'_>, filter: Option<&NodeFilter>) -> fmt::Result {
    let Some(NodeFilter { include, exclude, rules, topology, exclusive }) = filter else {
        return Ok(());
    };
    for (word, names) in [("on", include), ("not-on", exclude)] {
        let names: Vec<&str> = names.iter().map(NodeName::as_str).collect();
        if !names.is_empty() {
            write!(f, "  {word} {}", names.join(","))?;
        }
    }
    rules.iter().try_for_each(|rule| write!(f, "  where {rule}"))?;
    if let Some(topology) = topology {
        write!(f, "  topology {}", topology.to_string().replace(' ', "-"))?;
    }
    f.write_str(if *exclusive { "  exclusive" } else { "" })
}

/// A pool for some of the jobs, if there is another one than the default pool.
pub(crate) fn random_pool(world: &World, number: u32) -> Option<PoolName> {
    let pools = world.nodes().iter().map(|row| &row.node.pool);
    let other = pools.filter(|pool| **pool != PoolName::usual()).min();
    other.filter(|_| number.is_multiple_of(3)).cloned()
}

/// A node filter for some of the jobs, chosen by a number: some of the nodes, all but one, or those
/// with a label.
pub(crate) fn random(world: &World, number: u32) -> Option<Arc<NodeFilter>> {
    let number = usize::try_from(number.wrapping_mul(0x9e37_79b9) >> 20).unwrap_or(0);
    let names: Vec<&NodeName> = world.nodes_by_name().map(|(_, row)| &row.node.name).collect();
    let one = (*names.get(number / 16 % names.len().max(1))?).clone();
    let mut filter = NodeFilter::default();
    match number % 16 {
        0 => {
            filter.include.insert(one);
        }
        1 => filter.include.extend([one, (*names[names.len() - 1]).clone()]),
        2 => {
            filter.exclude.insert(one);
        }
        3 | 4 => {
            let rules = ["rack=r0", "rack!=r0", "ssd", "!ssd", "rack=r1|h100"];
            let rule = NodeRule::parse(rules[number / 16 % rules.len()]);
            filter.rules.insert(rule.expect("the rules of the list are valid"));
        }
        5 => filter.exclusive = true,
        6 | 7 => filter.topology = Topology::parse("same-rack").ok(),
        8 => filter.topology = Topology::parse("prefer same-rack").ok(),
        _ => {}
    }
    filter.unless_default()
}

/// Selects the jobs that some jobs accept on their GPUs.
pub(crate) fn share_with(number: u32) -> Option<ShareWith> {
    match number / 7 % 5 {
        0 => Some(ShareWith::User),
        1 => Some(ShareWith::Project),
        _ => None,
    }
}
