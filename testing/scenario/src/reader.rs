//! The state of the parser; each kind of line has its own file.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use gpool_model::{JobId, Millis, Owner, Timestamp};

use crate::situation::Situation;
use crate::words::{ScenarioError, Words};

/// The part of a scenario read so far.
pub(crate) struct Reader {
    pub situation: Situation,
    pub ids: BTreeMap<String, JobId>,
    pub last_id: u64,
}

impl Reader {
    /// Reads devices of one node by position: `lab1[0,2-3]`; `lab1` names none.
    pub fn devices_of(&self, words: &mut Words<'_>) -> Result<(usize, Vec<usize>), ScenarioError> {
        let word = words.need("devices of a node, like lab1[0,2-3]")?;
        let (name, list) = match word.strip_suffix(']').and_then(|word| word.split_once('[')) {
            Some((name, list)) => (name, Some(list)),
            None => (word, None),
        };
        let nodes = &self.situation.nodes;
        let Some(node) = nodes.iter().position(|node| node.name.as_str() == name) else {
            return Err(words.error(format!("no node {name} stands above")));
        };
        let mut positions = BTreeSet::new();
        for part in list.into_iter().flat_map(|list| list.split(',')) {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let bad = || words.error(format!("{part:?} is no device of node {name}"));
            let first: u32 = first.parse().map_err(|_| bad())?;
            let last: u32 = last.parse().map_err(|_| bad())?;
            let devices = nodes[node].devices.iter().enumerate();
            let meant = devices.filter(|(_, device)| (first..=last).contains(&device.index));
            let meant: Vec<usize> = meant.map(|(position, _)| position).collect();
            let n_meant = u64::from(last).checked_sub(first.into()).map(|n| n + 1);
            if n_meant != Some(meant.len() as u64) {
                return Err(bad());
            }
            positions.extend(meant);
        }
        Ok((node, positions.into_iter().collect()))
    }
}

/// The user with this id.
pub(crate) fn owner(uid: u32) -> Owner {
    Owner { uid, gid: uid, user: Arc::from(format!("u{uid}")) }
}

pub(crate) fn before(now: Timestamp, age: Millis) -> Timestamp {
    Timestamp::new(now.get().saturating_sub(age.get()))
}
