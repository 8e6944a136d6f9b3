//! Checks everything that can be checked without the meaning of the bytes: SQLite's own structure,
//! all checksums, the digests, the whole chain, the mark, the blobs. Only reads, from a store in
//! use as well as from a backup. Other crates check the content.

use std::path::{Path, PathBuf};
use std::{fmt, io};

use gpool_model::{Revision, Seq, Term};
use rusqlite::Connection;

use crate::blob_id::{BlobId, Key};
use crate::blobs::{self, BlobFiles};
use crate::chain::{JOURNAL_COLUMNS, Walk, journal_row};
use crate::create::Paths;
use crate::error::OpenError;
use crate::hash::Digest;
use crate::head::Head;
use crate::load::{self, Disagreement};
use crate::mark::Mark;
use crate::{archive, database, elements, extra_files, file, schema};

/// The result of a check: counts and damage.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct VerifyReport {
    /// The database.
    pub path: PathBuf,
    /// The last commit.
    pub revision: Revision,
    /// The last entry of the journal.
    pub seq: Seq,
    /// The newest term.
    pub fence: Term,
    pub n_records: u64,
    /// How many entries the journal has.
    pub n_journal: u64,
    /// How many ended jobs there are.
    pub n_archive: u64,
    pub n_blobs: u64,
    /// All damage; empty if there is none.
    pub findings: Vec<Finding>,
}

/// One damaged part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    pub kind: FindingKind,
    /// The row, and its damage.
    pub what: String,
}

/// The parts of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum FindingKind {
    /// The structure of the database.
    Database,
    /// The row with the head of the store.
    Meta,
    /// Live records.
    Record,
    Journal,
    Archive,
    Mark,
    Blob,
    /// Files of a backup from beside its store.
    ExtraFile,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

impl VerifyReport {
    #[must_use]
    pub fn is_sound(&self) -> bool {
        self.findings.is_empty()
    }

    fn add(&mut self, kind: FindingKind, what: impl Into<String>) {
        self.findings.push(Finding { kind, what: what.into() });
    }

    /// Adds a finding for a table that can't be read to its end.
    fn stopped(&mut self, kind: FindingKind, table: &str, read: rusqlite::Result<()>) -> bool {
        let Err(error) = read else { return false };
        self.add(kind, format!("{table}: can't read the rest: {error}"));
        true
    }
}

/// Checks the store in a state folder, or a backup file.
///
/// # Errors
/// If it can't be opened at all.
pub fn verify(path: &Path) -> Result<VerifyReport, OpenError> {
    let database = database::database_of(path)?;
    // Before the database: commits go on meanwhile, and the mark must not be newer than it.
    let paths = (database != path).then(|| Paths::of(path));
    let mark = paths.as_ref().map(|paths| Mark::read(&paths.mark));
    let connection = database::connect(&database)?;
    let mut report = VerifyReport { path: database, ..VerifyReport::default() };
    let in_transaction = connection.execute_batch("BEGIN");
    if !report.stopped(FindingKind::Database, "database", in_transaction) {
        let read = check_structure(&connection, &mut report);
        report.stopped(FindingKind::Database, "database", read);
        let head = read_head(&connection, &mut report);
        check_records(&connection, head.as_ref(), &mut report);
        check_journal(&connection, head.as_ref(), &mut report);
        check_archive(&connection, head.as_ref(), &mut report);
        if let (Some(mark), Some(head)) = (mark, &head) {
            check_mark(&connection, mark, head, &mut report);
        }
    }
    match &paths {
        Some(paths) if file::is_there(&paths.blobs) => check_blob_files(&paths.blobs, &mut report),
        Some(_) => {}
        None => {
            let read = check_blob_table(&connection, &mut report);
            report.stopped(FindingKind::Blob, "blobs", read);
            check_extra_files(&connection, &mut report);
        }
    }
    Ok(report)
}

fn check_structure(connection: &Connection, report: &mut VerifyReport) -> rusqlite::Result<()> {
    let mut statement = connection.prepare("PRAGMA integrity_check")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let line: String = row.get(0)?;
        if line != "ok" {
            report.add(FindingKind::Database, line);
        }
    }
    Ok(())
}

fn read_head(connection: &Connection, report: &mut VerifyReport) -> Option<Head> {
    match Head::read(connection) {
        Ok(Ok(head)) => {
            report.revision = head.revision;
            report.seq = head.seq;
            report.fence = head.fence;
            return Some(head);
        }
        Ok(Err(what)) => report.add(FindingKind::Meta, format!("meta: {what}")),
        Err(error) => report.add(FindingKind::Meta, format!("meta: {error}")),
    }
    None
}

fn check_records(connection: &Connection, head: Option<&Head>, report: &mut VerifyReport) {
    let mut digest = Digest::default();
    let read = load::for_each_record(connection, |record, sound, checksum| {
        digest.add(checksum);
        if !sound {
            let what = format!("{}: its checksum differs", load::name_of(&record));
            report.add(FindingKind::Record, what);
        }
    });
    report.n_records = digest.n_rows;
    let stopped = report.stopped(FindingKind::Record, "record", read);
    if let Some(head) = head.filter(|head| !stopped && head.records != digest) {
        let what = load::digest_differs("record", digest, head.records);
        report.add(FindingKind::Record, what);
    }
}

fn check_journal(connection: &Connection, head: Option<&Head>, report: &mut VerifyReport) {
    let mut walk = match Walk::start(connection) {
        Ok(walk) => walk,
        Err(error) => return report.add(FindingKind::Journal, format!("journal_start: {error}")),
    };
    let mut step_through = || {
        let sql = format!("SELECT {JOURNAL_COLUMNS} FROM journal ORDER BY seq");
        let mut statement = connection.prepare(&sql)?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let (entry, chain) = journal_row(row)?;
            report.n_journal += 1;
            if let Err(what) = walk.step(&entry, chain) {
                report.add(FindingKind::Journal, what);
            }
        }
        Ok(())
    };
    let read = step_through();
    let stopped = report.stopped(FindingKind::Journal, "journal", read);
    if let Some(Err(what)) = head.filter(|_| !stopped).map(|head| walk.end(head)) {
        report.add(FindingKind::Journal, what);
    }
}

fn check_archive(connection: &Connection, head: Option<&Head>, report: &mut VerifyReport) {
    let mut digest = Digest::default();
    let read = archive::for_each(connection, |entry, sound, checksum| {
        digest.add(checksum);
        if !sound {
            let what = format!("archive {}: its checksum differs", entry.job);
            report.add(FindingKind::Archive, what);
        }
    });
    let read = read.and_then(|()| {
        elements::for_each(connection, |entry, sound, checksum| {
            digest.add(checksum);
            if !sound {
                let (job, element) = (entry.job, entry.element);
                let what = format!("element {job}.{element}: its checksum differs");
                report.add(FindingKind::Archive, what);
            }
        })
    });
    report.n_archive = digest.n_rows;
    let stopped = report.stopped(FindingKind::Archive, "archive", read);
    if let Some(head) = head.filter(|head| !stopped && head.archive != digest) {
        let what = load::digest_differs("archive", digest, head.archive);
        report.add(FindingKind::Archive, what);
    }
}

fn check_mark(
    connection: &Connection,
    mark: io::Result<Option<Mark>>,
    head: &Head,
    report: &mut VerifyReport,
) {
    let what = match mark {
        Err(error) => format!("mark: {error}"),
        Ok(None) if head.revision == Revision(0) => return,
        Ok(None) => "mark: missing".to_owned(),
        Ok(Some(mark)) => match load::compare_with_mark(connection, head, &mark) {
            Ok(None) => return,
            Ok(Some(Disagreement::OtherStore)) => "mark: belongs to another store".to_owned(),
            Ok(Some(Disagreement::Lost)) => format!(
                "mark: revision {} was committed, but the database ends at {}",
                mark.revision, head.revision
            ),
            Ok(Some(Disagreement::Diverged)) => {
                format!("mark: journal {} differs from the committed entry", mark.seq)
            }
            Err(error) => format!("mark: can't compare it: {error}"),
        },
    };
    report.add(FindingKind::Mark, what);
}

fn check_blob_files(dir: &Path, report: &mut VerifyReport) {
    let checked = BlobFiles::open(dir).and_then(|files| {
        for id in files.list()? {
            match files.get(&id) {
                // Removed meanwhile, as unused blobs are.
                Err(crate::BlobError::Missing(_)) => continue,
                Err(error) => report.add(FindingKind::Blob, error.to_string()),
                Ok(_) => {}
            }
            report.n_blobs += 1;
        }
        Ok(())
    });
    if let Err(error) = checked {
        report.add(FindingKind::Blob, error.to_string());
    }
}

fn check_blob_table(connection: &Connection, report: &mut VerifyReport) -> rusqlite::Result<()> {
    for_each_blob(connection, |key, id, bytes| {
        report.n_blobs += 1;
        let checked = match id.parse::<BlobId>() {
            Ok(id) => blobs::check(key, &id, &bytes).map_err(|error| error.to_string()),
            Err(error) => Err(error),
        };
        if let Err(what) = checked {
            report.add(FindingKind::Blob, what);
        }
        Ok(())
    })
}

fn check_extra_files(connection: &Connection, report: &mut VerifyReport) {
    let read = extra_files::for_each(connection, |it| {
        if !it.is_sound {
            report.add(FindingKind::ExtraFile, format!("{}: its checksum differs", it.name));
        }
        Ok(())
    });
    if let Err(error) = read {
        report.add(FindingKind::ExtraFile, format!("beside: can't read the rest: {error}"));
    }
}

/// Calls `each` for every blob of a backup: the key, the name, the bytes.
pub fn for_each_blob(
    connection: &Connection,
    mut each: impl FnMut(&Key, String, Vec<u8>) -> rusqlite::Result<()>,
) -> rusqlite::Result<()> {
    if !schema::has_table(connection, "blob")? {
        return Ok(());
    }
    let key: Key = connection.query_row("SELECT key FROM blob_key", [], |row| row.get(0))?;
    let mut statement = connection.prepare("SELECT id, bytes FROM blob")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        each(&key, row.get(0)?, row.get(1)?)?;
    }
    Ok(())
}
