//! Makes a store from a backup. Never deletes an existing store: refuses, or puts all its files
//! aside.

use std::path::{Path, PathBuf};
use std::{fs, io};

use gpool_model::{Revision, Term};
use rusqlite::Connection;

use crate::backup::copy_database;
use crate::blob_id::BlobId;
use crate::blobs::{BlobFiles, Blobs};
use crate::create::{self, Paths};
use crate::error::{OpenError, RestoreError};
use crate::head::Head;
use crate::lock::Lock;
use crate::mark::Mark;
use crate::{database, extra_files, file, verify};

// Agents refuse terms older than the newest one that they know, and a backup does not know that
// one. This is far more than any server's number of starts, and tiny compared to 2^64.
const FENCE_STEP: u64 = 1_000_000;

/// The action for an existing store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Existing {
    Refuse,
    /// Move its files into a new folder beside them, `aside-1` and so on.
    PutAside,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Restored {
    /// The last commit in it.
    pub revision: Revision,
    /// The newest term; higher than in the backup, so that agents follow.
    pub fence: Term,
    pub n_records: u64,
    pub n_blobs: u64,
    /// Files and folders of the backup from beside its store that were missing here.
    pub extra_files: Vec<PathBuf>,
    /// The folder with the files of the previous store.
    pub put_aside: Option<PathBuf>,
}

/// Makes the store in state folder `dir` from a backup. A plain database file works as well; its
/// blobs are read from the folder beside it.
///
/// # Errors
/// If a server holds the folder, a store exists, the backup is damaged, or a file can't be written.
/// The previous store still exists then, possibly under the name that `put_aside` would return.
pub fn restore(backup: &Path, dir: &Path, existing: Existing) -> Result<Restored, RestoreError> {
    if backup.is_dir() {
        let what = "it is a folder".to_owned();
        return Err(RestoreError::NotABackup { path: backup.to_owned(), what });
    }
    let report = verify::verify(backup).map_err(RestoreError::of_backup)?;
    if let Some(finding) = report.findings.first() {
        let what = finding.to_string();
        return Err(RestoreError::Damaged { path: backup.to_owned(), what });
    }
    let source = database::connect(backup).map_err(RestoreError::of_backup)?;
    let _lock = Lock::take(dir, true)?;
    let paths = Paths::of(dir);
    // The newest term that is known here; a damaged mark knows none.
    let seen = Mark::read(&paths.mark).ok().flatten().map_or(Term(0), |mark| mark.fence);
    let occupied = file::is_there(&paths.database) || paths.sign_of_a_store().is_some();
    if occupied && existing == Existing::Refuse {
        return Err(RestoreError::Exists { path: dir.to_owned() });
    }
    // Everything that can fail for lack of space comes before any move.
    let staged = Paths::of(&dir.join("restore.new"));
    remove_staged(&staged.dir).map_err(|error| write_error(dir, &error))?;
    file::create_private_dir(&staged.dir).map_err(|error| write_error(dir, &error))?;
    let head = stage_database(&source, &staged, seen)?;
    let n_blobs = stage_blobs(&source, backup, &staged)?;
    let staged_beside = staged.dir.join("beside");
    extra_files::stage(&source, &staged_beside).map_err(|error| write_error(dir, &error))?;
    let put_aside = if occupied { Some(put_aside(&paths)?) } else { None };
    let extra_files =
        extra_files::publish(&staged_beside, dir).map_err(|error| write_error(dir, &error))?;
    publish(&staged, &paths).map_err(|error| write_error(dir, &error))?;
    Ok(Restored {
        revision: head.revision,
        fence: head.fence,
        n_records: head.records.n_rows,
        n_blobs,
        extra_files,
        put_aside,
    })
}

fn write_error(dir: &Path, error: &dyn std::fmt::Display) -> RestoreError {
    RestoreError::Write { path: dir.to_owned(), what: error.to_string() }
}

/// Files of an interrupted restore are a copy of a backup, and never were a store.
fn remove_staged(dir: &Path) -> io::Result<()> {
    match fs::remove_dir_all(dir) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn stage_database(source: &Connection, staged: &Paths, seen: Term) -> Result<Head, RestoreError> {
    let path = &staged.database;
    let write =
        |error: rusqlite::Error| RestoreError::from(OpenError::sqlite("write", path, &error));
    let mut copy = create::fresh_database(path)?;
    copy_database(source, &mut copy).map_err(write)?;
    let only_in_backups = ["blob", "blob_key", "beside"];
    let drop = only_in_backups.map(|table| format!("DROP TABLE IF EXISTS {table};"));
    copy.execute_batch(&drop.concat()).map_err(write)?;
    let mut head = Head::read(&copy).map_err(write)?.map_err(|what| RestoreError::Damaged {
        path: path.clone(),
        what: format!("meta: {what}"),
    })?;
    head.store_id = file::random().map_err(|error| write_error(path, &error))?;
    head.fence = Term(head.fence.max(seen).0.saturating_add(FENCE_STEP));
    head.write(&copy).map_err(write)?;
    copy.close().map_err(|(_, error)| write(error))?;
    fs::File::open(path)
        .and_then(|file| file.sync_all())
        .map_err(|error| OpenError::io("write", path, error))?;
    create::create_mark(staged, &Mark::of(&head))?;
    Ok(head)
}

fn stage_blobs(source: &Connection, backup: &Path, staged: &Paths) -> Result<u64, RestoreError> {
    let mut n_blobs = 0;
    let mut failed = None;
    let mut blobs = None;
    verify::for_each_blob(source, |key, id, bytes| {
        // The names were checked with everything else.
        let Ok(id) = id.parse::<BlobId>() else { return Ok(()) };
        let put = match &mut blobs {
            Some(blobs) => Blobs::restore(blobs, &id, &bytes),
            empty => Blobs::open_in(&staged.blobs, Some(*key))
                .and_then(|opened| empty.insert(opened).restore(&id, &bytes)),
        };
        n_blobs += u64::from(put.is_ok());
        failed = failed.take().or(put.err());
        Ok(())
    })
    .map_err(|error| OpenError::sqlite("read", backup, &error))?;
    let beside = Paths::of(file::parent(backup)).blobs;
    if blobs.is_none() && failed.is_none() && file::is_there(&beside) {
        let files = BlobFiles::open(&beside)?;
        let blobs = Blobs::open_in(&staged.blobs, Some(files.key))?;
        for id in files.list()? {
            blobs.restore(&id, &files.get(&id)?)?;
            n_blobs += 1;
        }
    }
    failed.map_or(Ok(n_blobs), |error| Err(error.into()))
}

fn put_aside(paths: &Paths) -> Result<PathBuf, RestoreError> {
    let error = |error: io::Error| write_error(&paths.dir, &error);
    let mut number = 1_u64;
    let aside = loop {
        let aside = paths.dir.join(format!("aside-{number}"));
        if !file::is_there(&aside) {
            break aside;
        }
        number += 1;
    };
    file::create_private_dir(&aside).map_err(error)?;
    // The shared memory of the log has no content of its own, and is made again.
    for path in [&paths.database, &paths.log, &paths.mark, &paths.blobs] {
        if let Some(name) = path.file_name().filter(|_| file::is_there(path)) {
            fs::rename(path, aside.join(name)).map_err(error)?;
        }
    }
    file::sync_dir(&aside).and_then(|()| file::sync_dir(&paths.dir)).map_err(error)?;
    Ok(aside)
}

fn publish(staged: &Paths, paths: &Paths) -> io::Result<()> {
    if file::is_there(&staged.blobs) {
        file::publish(&staged.blobs, &paths.blobs)?;
    }
    // A crash before the last step leaves a mark without a database, which is never taken for a new
    // store.
    file::publish(&staged.mark, &paths.mark)?;
    let memory = paths.dir.join("store.db-shm");
    file::remove_if_there(&memory)?;
    file::publish(&staged.database, &paths.database)?;
    remove_staged(&staged.dir)
}
