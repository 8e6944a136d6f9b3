//! Checks the content of a store beyond its checksums: reads its records as a server would and
//! checks them against the invariants. Reads only.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::resume_unwind;

use gpool_model::record::EndedJob;
use gpool_model::{Job, JobNumber, JobSpec, Outcome, Phase};
use gpool_store::{ArchiveFilter, Loaded, Reader, Record};
use gpool_world::{Snapshot, World};

use crate::codec::{self, DecodeError};
use crate::now;

/// Ended jobs that are read at once.
const PAGE: u32 = 1000;

/// Everything that is wrong with the content of a store, a line each.
#[must_use]
pub fn contradictions(reader: &Reader) -> Vec<String> {
    let mut found = Vec::new();
    // Read before the live jobs: a server may use the store meanwhile, and archived jobs stay.
    let ended = match ended(reader, &mut found) {
        Ok(ended) => ended,
        Err(why) => return vec![why],
    };
    let with_elements = match reader.arrays_of_elements() {
        Ok(arrays) => arrays,
        Err(error) => return vec![error.to_string()],
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
            found.extend(both.map(|number| format!("job {number} is both current and archived")));
            if let Err(why) = check_elements(reader, &world, &with_elements, &mut found) {
                found.push(why);
            }
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

/// Checks that the archive has exactly the elements that each array counts as ended. A server may
/// run meanwhile, so elements of a live array that ended after it was read are skipped.
fn check_elements(
    reader: &Reader,
    world: &World,
    with_elements: &[JobNumber],
    found: &mut Vec<String>,
) -> Result<(), String> {
    for number in with_elements {
        let row = reader.archived(*number).map_err(|error| error.to_string())?;
        let ended = row.as_ref().and_then(|row| codec::decode_ended(row).ok());
        match (world.array(*number), ended) {
            (Some(_), _) => {}
            (None, Some(EndedJob { spec, job })) if spec.array.is_some() => {
                check_array(reader, &spec, &job, true, found)?;
            }
            // Told above.
            (None, None) if row.is_some() => {}
            (None, _) => {
                found.push(format!("elements of job {number} are archived, and it is not an array"))
            }
        }
    }
    let arrays = world.job_rows().filter(|row| row.job.array.is_some());
    arrays.into_iter().try_for_each(|row| check_array(reader, &row.spec, &row.job, false, found))
}

/// One array beside its elements that ended.
fn check_array(
    reader: &Reader,
    spec: &JobSpec,
    job: &Job,
    has_ended: bool,
    found: &mut Vec<String>,
) -> Result<(), String> {
    let (Some(asked), Some(array)) = (&spec.array, &job.array) else { return Ok(()) };
    let mut rows = BTreeMap::new();
    let mut next = Some(0);
    while let Some(from) = next {
        let some = reader.elements(job.id.number, from, PAGE).map_err(|error| error.to_string())?;
        next = some.last().and_then(|last| last.element.checked_add(1));
        rows.extend(some.into_iter().map(|row| (row.element, (row.attempt, row.state))));
    }
    for (outcome, positions) in &array.ended {
        let state = outcome.state();
        let is_there = |position: &u32| {
            let attempt = array.attempt_of(*position).0;
            let row = asked.indexes.at(*position).and_then(|index| rows.get(&index));
            match row.filter(|(of, _)| *of >= attempt) {
                // A later one ended while this was read.
                Some((of, _)) if *of > attempt => !has_ended,
                Some((_, there)) => there == state.as_str(),
                // What never started has none.
                None => *outcome == Outcome::Cancelled,
            }
        };
        let n_there = positions.iter().filter(is_there).count();
        if n_there != positions.iter().count() {
            let (id, n) = (job.id, positions.len());
            let elements = if n == 1 { "element" } else { "elements" };
            found.push(format!("array {id}: {n} {elements} {state}, and {n_there} found so"));
        }
    }
    let strangers = rows.keys().filter(|index| asked.indexes.position(**index).is_none());
    for index in strangers {
        found.push(format!(
            "element {}.{index} is archived, and its array does not have it",
            job.id
        ));
    }
    Ok(())
}

pub fn world_of(loaded: &Loaded) -> Result<World, String> {
    let records = decode_all(&loaded.records).map_err(|error| error.to_string())?;
    World::load(loaded.revision, records).map_err(|error| error.to_string())
}

/// Decodes records on all cores: with many jobs, that is most of the time of a start.
fn decode_all(rows: &[Record]) -> Result<Vec<gpool_model::Record>, DecodeError> {
    /// Fewer are not worth a thread.
    const PART_LEAST: usize = 1000;
    let n_cores = std::thread::available_parallelism().map_or(1, usize::from);
    let n_each = rows.len().div_ceil(n_cores).max(PART_LEAST);
    let decode = |rows: &[Record]| rows.iter().map(codec::decode).collect::<Result<Vec<_>, _>>();
    std::thread::scope(|scope| {
        let mut parts = rows.chunks(n_each);
        let first = parts.next().unwrap_or_default();
        let others: Vec<_> = parts.map(|rows| scope.spawn(move || decode(rows))).collect();
        let mut all = decode(first)?;
        all.reserve_exact(rows.len() - all.len());
        for part in others {
            all.extend(part.join().unwrap_or_else(|panic| resume_unwind(panic))?);
        }
        Ok(all)
    })
}
