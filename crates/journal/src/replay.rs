//! Does again what a store's journal tells, and compares: every plan, every other entry, and at the
//! end every record, byte for byte. Changes nothing.

use gpool_control::replay::{Differs, Replay};
use gpool_model::event::Journaled;
use gpool_model::{Event, JournalEntry, Policy, Record, Revision, Seq};
use gpool_store::{Loaded, Reader};

use crate::case::VERSION;
use crate::codec::{EntryMetadata, decode, journaled};
use crate::inspect::world_of;

/// Entries that are read at once.
const PAGE: u32 = 1000;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Replayed {
    /// Inputs of the server: requests, reports, starts, timers.
    pub n_events: u64,
    pub n_plans: u64,
    pub n_commits: u64,
    /// Records that were compared at the end.
    pub n_records: u64,
}

/// Why a journal was not replayed to its end.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReplayError {
    #[error("{0}")]
    Unread(String),
    /// The oldest entries are gone, and with them what the cluster began with.
    #[error("the journal begins with entry {first}: earlier entries were removed")]
    Cut { first: Seq },
    /// It was written before entries said which belong together.
    #[error("entry {seq} is from an earlier gpool, which did not store the data for a replay")]
    TooOld { seq: Seq },
    /// Another gpool decided, and may have decided otherwise.
    #[error("gpool {version} made the decisions from entry {seq} on, and this is gpool {VERSION}")]
    OtherVersion { seq: Seq, version: String },
    /// The place to begin with is none of this journal.
    #[error("the two are not from the same cluster, or the journal does not go back far enough")]
    OtherStore,
    /// The replayed plan differs from the journaled one.
    #[error("entry {}: the result differs from the recorded one", seq_of(.0))]
    Differs(Box<Differs>),
    /// All plans are the same, and a record is not.
    #[error("record {key}: the result differs from the recorded one")]
    Records { key: String, recorded: Option<String>, replayed: Option<String> },
}

/// The entry where things differ; of a commit or of records that are not there, none is known.
fn seq_of(differs: &Differs) -> String {
    match differs {
        Differs::Decision { seq, .. }
        | Differs::Planned { seq, .. }
        | Differs::Entry { seq, .. } => seq.to_string(),
        Differs::Revision { journaled, .. } => format!("of revision {journaled}"),
        Differs::Records { .. } => "of a start".to_owned(),
    }
}

/// An entry with what stands beside it.
struct ReplayEntry {
    entry: JournalEntry,
    metadata: EntryMetadata,
}

/// Replays the journal of a store from its beginning, or from where another store ended: a backup
/// that was made of it earlier. `tell` hears after each page how many of how many entries are done.
pub fn replay(
    reader: &Reader,
    from: Option<&Reader>,
    mut tell: impl FnMut(u64, u64),
) -> Result<Replayed, ReplayError> {
    let loaded = load(reader)?;
    let (mut replay, start) = match from {
        None => (None, Seq(0)),
        Some(from) => {
            let (replay, start) = begin_within(from, reader)?;
            (Some(replay), start)
        }
    };
    let mut done = Replayed::default();
    let mut commit: Vec<ReplayEntry> = Vec::new();
    let mut next = start.next();
    let n_entries = loaded.seq.0.saturating_sub(start.0);
    while next <= loaded.seq {
        let page = page(reader, next)?;
        let Some(last) = page.last().map(|line| line.entry.seq) else { break };
        let first = page[0].entry.seq;
        if first != next {
            return Err(ReplayError::Cut { first });
        }
        for line in page.into_iter().take_while(|line| line.entry.seq <= loaded.seq) {
            let is_new = commit
                .last()
                .is_some_and(|before| before.metadata.revision != line.metadata.revision);
            if is_new {
                again(&mut replay, &std::mem::take(&mut commit), &mut done)?;
            }
            commit.push(line);
        }
        next = last.next();
        tell(last.0.min(loaded.seq.0).saturating_sub(start.0), n_entries);
    }
    if !commit.is_empty() {
        again(&mut replay, &commit, &mut done)?;
    }
    let made = replay.map_or_else(Vec::new, |replay| replay.world().records());
    compare_records(&loaded, &made)?;
    done.n_records = made.len() as u64;
    Ok(done)
}

fn load(reader: &Reader) -> Result<Loaded, ReplayError> {
    reader.load().map_err(|error| ReplayError::Unread(error.to_string()))
}

fn page(reader: &Reader, from: Seq) -> Result<Vec<ReplayEntry>, ReplayError> {
    let entries = reader.journal(from, PAGE);
    let entries = entries.map_err(|error| ReplayError::Unread(error.to_string()))?;
    entries.iter().map(line).collect()
}

fn line(entry: &gpool_store::JournalEntry) -> Result<ReplayEntry, ReplayError> {
    let unread =
        |error: serde_json::Error| ReplayError::Unread(format!("journal {}: {error}", entry.seq));
    let metadata: EntryMetadata = serde_json::from_slice(&entry.body).map_err(unread)?;
    let body = journaled(&entry.body).map_err(unread)?;
    Ok(ReplayEntry {
        entry: JournalEntry { seq: entry.seq, time: entry.time, entry: body },
        metadata,
    })
}

/// Goes on from the records of an earlier copy, with what its server had learnt since it started.
fn begin_within(from: &Reader, reader: &Reader) -> Result<(Replay, Seq), ReplayError> {
    let loaded = load(from)?;
    // Both have the last entry of the earlier one.
    let last = |reader: &Reader| reader.journal(loaded.seq, 1).ok()?.into_iter().next();
    let (one, other) = (last(from), last(reader));
    if one.is_none() || one != other {
        return Err(ReplayError::OtherStore);
    }
    let mut since_start: Vec<JournalEntry> = Vec::new();
    let mut next = Seq(1);
    loop {
        let page = page(from, next)?;
        let Some(last) = page.last().map(|line| line.entry.seq) else { break };
        for line in page {
            if is_start(&line.entry) {
                since_start.clear();
                right_version(&line)?;
            }
            since_start.push(line.entry);
        }
        next = last.next();
    }
    let world = world_of(&loaded).map_err(ReplayError::Unread)?;
    Ok((Replay::within(world, &since_start), loaded.seq))
}

fn is_start(entry: &JournalEntry) -> bool {
    matches!(entry.entry, Journaled::Event(Event::ServerStarted { .. }))
}

fn right_version(line: &ReplayEntry) -> Result<(), ReplayError> {
    match &line.metadata.version {
        Some(version) if version != VERSION => {
            let (seq, version) = (line.entry.seq, version.clone());
            Err(ReplayError::OtherVersion { seq, version })
        }
        _ => Ok(()),
    }
}

/// Does one commit again.
fn again(
    replay: &mut Option<Replay>,
    commit: &[ReplayEntry],
    done: &mut Replayed,
) -> Result<(), ReplayError> {
    let Some(first) = commit.first() else { return Ok(()) };
    let seq = first.entry.seq;
    let revision = first.metadata.revision.ok_or(ReplayError::TooOld { seq })?;
    commit.iter().filter(|line| is_start(&line.entry)).try_for_each(right_version)?;
    let replay = match replay {
        Some(replay) => replay,
        None => {
            let policy: Option<Policy> = first.metadata.policy.clone();
            replay.insert(Replay::create(policy.ok_or(ReplayError::TooOld { seq })?))
        }
    };
    let entries: Vec<JournalEntry> = commit.iter().map(|line| line.entry.clone()).collect();
    for entry in &entries {
        match entry.entry {
            Journaled::Event(_) => done.n_events += 1,
            Journaled::Planned { .. } => done.n_plans += 1,
            Journaled::Kept { .. } => {}
        }
    }
    done.n_commits += 1;
    let made = replay.commit(revision, &entries);
    made.map(drop).map_err(|differs| ReplayError::Differs(Box::new(differs)))
}

/// Every record byte for byte.
fn compare_records(loaded: &Loaded, made: &[Record]) -> Result<(), ReplayError> {
    let unread = |error: &dyn std::fmt::Display| ReplayError::Unread(error.to_string());
    let mut recorded = Vec::with_capacity(loaded.records.len());
    for row in &loaded.records {
        let record = decode(row).map_err(|error| unread(&error))?;
        recorded.push((record.key(), text(&record)?));
    }
    recorded.sort();
    let made = made.iter().map(|record| Ok((record.key(), text(record)?)));
    let made = made.collect::<Result<Vec<_>, ReplayError>>()?;
    let Some((_, was, is)) = gpool_control::replay::first_other(&recorded, &made) else {
        return Ok(());
    };
    let key = was.into_iter().chain(is).map(|(key, _)| key).min();
    let key = key.map(|key| format!("{}/{}", key.kind, key.key)).unwrap_or_default();
    let text = |side: Option<&(gpool_model::record::RecordKey, String)>| {
        side.map(|(_, text)| text.clone())
    };
    Err(ReplayError::Records { key, recorded: text(was), replayed: text(is) })
}

fn text(record: &Record) -> Result<String, ReplayError> {
    serde_json::to_string(record).map_err(|error| ReplayError::Unread(error.to_string()))
}

/// The last commit of a store.
pub fn revision(reader: &Reader) -> Result<Revision, ReplayError> {
    Ok(load(reader)?.revision)
}
