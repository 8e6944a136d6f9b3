//! Whether what a store holds makes sense, beyond being what was written: its records are read as
//! a server would read them and held against the invariants. Changes nothing.

use std::collections::BTreeSet;

use gpool_model::job::BlobId;
use gpool_model::{JobNumber, Phase, Record};
use gpool_store::{ArchiveFilter, Loaded, Reader};
use gpool_world::{Snapshot, World};

use crate::codec;
use crate::core::now;

/// Ended jobs that are read at once.
const PAGE: u32 = 1000;

/// Everything that is wrong with the content of a store, a line each.
#[must_use]
pub fn contradictions(reader: &Reader) -> Vec<String> {
    let mut found = Vec::new();
    // Read before the living: a server may use the store, and what has ended stays so.
    let ended = match ended(reader, &mut found) {
        Ok(ended) => ended,
        Err(why) => return vec![why],
    };
    let world = match reader.load() {
        Ok(loaded) => world_of(&loaded),
        Err(error) => return vec![error.to_string()],
    };
    match world {
        Ok(mut world) => {
            let now = now();
            world.advance(now);
            let violations = gpool_verify::check(&Snapshot { world: &world, now });
            found.extend(violations.iter().map(ToString::to_string));
            let live = world.jobs().keys().map(|id| id.number);
            let both = live.filter(|number| ended.contains(number));
            found.extend(both.map(|number| format!("job {number} both lives and has ended")));
        }
        Err(why) => found.push(why),
    }
    found
}

/// The jobs of the archive, each looked at.
fn ended(reader: &Reader, found: &mut Vec<String>) -> Result<BTreeSet<JobNumber>, String> {
    let mut ended = BTreeSet::new();
    let mut filter = ArchiveFilter { limit: PAGE, ..ArchiveFilter::default() };
    loop {
        let rows = reader.archive(&filter).map_err(|error| error.to_string())?;
        let Some(last) = rows.last() else { return Ok(ended) };
        filter.before = Some(last.job);
        for row in &rows {
            ended.insert(row.job);
            match codec::decode_ended(row) {
                Err(error) => found.push(error.to_string()),
                Ok(ended) if !matches!(ended.job.phase, Phase::Ended(_)) => {
                    found.push(format!("job {} is archived and has not ended", row.job));
                }
                Ok(_) => {}
            }
        }
    }
}

/// Names of the blobs that live jobs need.
#[must_use]
pub fn blobs_of(loaded: &Loaded) -> BTreeSet<BlobId> {
    let records = loaded.records.iter().filter_map(|row| codec::decode(row).ok());
    let specs = records.filter_map(|record| match record {
        Record::JobSpec(spec) => Some(spec),
        _ => None,
    });
    specs.flat_map(|spec| spec.blobs().cloned().collect::<Vec<_>>()).collect()
}

pub(crate) fn world_of(loaded: &Loaded) -> Result<World, String> {
    let records = loaded.records.iter().map(codec::decode).collect::<Result<Vec<_>, _>>();
    let records = records.map_err(|error| error.to_string())?;
    World::load(loaded.revision, records).map_err(|error| error.to_string())
}
