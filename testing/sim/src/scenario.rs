//! A run as a text that plays again without any random number.
//!
//! ```text
//! # Whatever helps to understand it.
//! gpool-sim 1
//! server batch 2
//! node devices 2 model 1 cpus 64 tasks 64
//! submit jobs 2 gpus 1 limit 60 key 1
//! commit
//! order
//! ```
//!
//! First the version of the format, then the server and each node, then what happens, a line each:
//! a word and named numbers ([`Kind`](crate::Kind) has them all). A number that is 0 may be left
//! out. What follows a `#` is a comment. At the end everything comes to rest and is checked.

use std::fmt;
use std::str::FromStr;

use crate::happening::Happening;
use crate::swarm::{Cluster, NodeShape};

/// A cluster and all that happens to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scenario {
    /// The machines.
    pub cluster: Cluster,
    /// What happens, in order.
    pub happenings: Vec<Happening>,
}

const FIRST: &str = "gpool-sim 1";
const OF_NODE: [&str; 12] = [
    "devices", "model", "mixed", "cpus", "tasks", "moves", "lends", "pauses", "remaps", "fast",
    "slow", "late",
];

impl fmt::Display for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let leases = if self.cluster.leases { " leases 1" } else { "" };
        writeln!(f, "{FIRST}\nserver batch {}{leases}", self.cluster.batch)?;
        for node in &self.cluster.nodes {
            let [mixed, moves, lends] = [node.mixed, node.moves, node.lends].map(u64::from);
            let [pauses, remaps, late] = [node.pauses, node.remaps, node.joins_late].map(u64::from);
            let NodeShape { devices, model, cpus, tasks, fast, slow, .. } = *node;
            let numbers = [
                devices, model, mixed, cpus, tasks, moves, lends, pauses, remaps, fast, slow, late,
            ];
            f.write_str("node")?;
            for (name, number) in OF_NODE.iter().zip(numbers).filter(|(_, number)| *number != 0) {
                write!(f, " {name} {number}")?;
            }
            writeln!(f)?;
        }
        self.happenings.iter().try_for_each(|happening| writeln!(f, "{happening}"))
    }
}

impl FromStr for Scenario {
    type Err = String;

    /// Reads one; an error names the line.
    fn from_str(text: &str) -> Result<Self, String> {
        let cluster = Cluster { nodes: Vec::new(), batch: 1, leases: false };
        let mut scenario = Self { cluster, happenings: Vec::new() };
        let mut is_first = true;
        for (number, line) in (1..).zip(text.lines()) {
            let line = line.split('#').next().unwrap_or_default().trim();
            if line.is_empty() {
                continue;
            }
            let at = |why: String| format!("line {number}: {why}");
            if std::mem::take(&mut is_first) {
                if line != FIRST {
                    return Err(at(format!("a scenario begins with {FIRST:?}")));
                }
                continue;
            }
            match line.split_once(' ').unwrap_or((line, "")) {
                ("server", rest) => {
                    let [batch, leases] = numbers(rest, ["batch", "leases"]).map_err(at)?;
                    scenario.cluster.batch = batch.max(1);
                    scenario.cluster.leases = leases != 0;
                }
                ("node", rest) => {
                    let read = numbers(rest, OF_NODE).map_err(at)?;
                    let [devices, model, mixed, cpus, tasks, moves, lends, pauses, remaps, ..] =
                        read;
                    let [.., fast, slow, late] = read;
                    let [mixed, moves, lends, pauses, remaps, joins_late] =
                        [mixed, moves, lends, pauses, remaps, late].map(|number| number != 0);
                    scenario.cluster.nodes.push(NodeShape {
                        devices,
                        model,
                        mixed,
                        cpus,
                        tasks,
                        moves,
                        lends,
                        pauses,
                        remaps,
                        fast,
                        slow,
                        joins_late,
                    });
                }
                _ => scenario.happenings.push(line.parse().map_err(at)?),
            }
        }
        if scenario.cluster.nodes.is_empty() {
            return Err(
                "there is no node; add a line like \"node devices 1 cpus 8 tasks 8\"".into()
            );
        }
        Ok(scenario)
    }
}

fn numbers<const N: usize>(text: &str, names: [&str; N]) -> Result<[u64; N], String> {
    let mut read = [0; N];
    let mut words = text.split_whitespace();
    while let Some(name) = words.next() {
        let at = names.iter().position(|known| *known == name);
        let at = at.ok_or_else(|| format!("{name:?} is none of: {}", names.join(" ")))?;
        let number = words.next().and_then(|number| number.parse().ok());
        // As many as a machine may have; more are a mistake.
        let number = number.filter(|number| *number <= 10_000);
        read[at] =
            number.ok_or_else(|| format!("after {name:?} there must be a number to 10000"))?;
    }
    Ok(read)
}
