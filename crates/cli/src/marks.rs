//! Marks rows of a watched list that have changed. Pure: the caller provides the time.

use std::collections::{BTreeMap, BTreeSet};

use gpool_model::Millis;
use gpool_wire::Time;

/// Time for which a changed row is marked.
const MARKED: Millis = Millis::from_secs(4);

/// The rows of a list as last read.
#[derive(Debug, Default)]
pub struct Marks {
    /// The contents of each row by its name; `None` before the first reading.
    last_rows: Option<BTreeMap<String, String>>,
    /// When each marked row changed.
    changed: BTreeMap<String, Time>,
}

impl Marks {
    /// Takes the rows by name, with the contents whose changes count. Returns the names of rows
    /// that are new or changed a short time ago.
    pub fn note(
        &mut self,
        rows: impl Iterator<Item = (String, String)>,
        now: Time,
    ) -> BTreeSet<String> {
        let rows: BTreeMap<String, String> = rows.collect();
        let before = self.last_rows.take();
        self.changed.retain(|name, at| rows.contains_key(name) && now.0.since(at.0) < MARKED);
        for (name, contents) in &rows {
            if before.as_ref().is_some_and(|before| before.get(name) != Some(contents)) {
                self.changed.insert(name.clone(), now);
            }
        }
        self.last_rows = Some(rows);
        self.changed.keys().cloned().collect()
    }
}
