//! Checks whether the files at the store's paths are still the open ones. A removed or replaced
//! file accepts writes as before, but all of them are lost when it is closed.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use crate::create::Paths;
use crate::error::CommitError;

/// The files of an open store, by device and inode. Cheap to clone and to check.
#[derive(Debug, Clone)]
pub struct StoreFiles {
    files: Arc<[OpenFile]>,
}

#[derive(Debug)]
struct OpenFile {
    path: PathBuf,
    // Empty until the file exists: SQLite makes the log with the first commit.
    is: OnceLock<(u64, u64)>,
}

impl StoreFiles {
    pub(crate) fn of(paths: &Paths) -> Self {
        let seen = |path: &PathBuf| {
            let is = identity(path).ok().map_or_else(OnceLock::new, OnceLock::from);
            OpenFile { path: path.clone(), is }
        };
        Self { files: [&paths.database, &paths.mark, &paths.log].map(seen).into() }
    }

    /// Checks that each file is the open one. Takes a few microseconds.
    ///
    /// # Errors
    /// The file that is missing or was replaced.
    pub fn check(&self) -> Result<(), CommitError> {
        for OpenFile { path, is } in &*self.files {
            let found = identity(path);
            match (is.get(), found) {
                (Some(is), Ok(found)) if *is == found => {}
                // Another thread may have recorded it meanwhile.
                (None, Ok(found)) if *is.get_or_init(|| found) == found => {}
                (None, Err(error)) if error.kind() == io::ErrorKind::NotFound => {}
                (_, Err(error)) if !is_absent(&error) => {
                    return Err(CommitError::Io(format!("{}: {error}", path.display())));
                }
                _ => return Err(CommitError::Replaced(path.clone())),
            }
        }
        Ok(())
    }
}

fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

fn identity(path: &Path) -> io::Result<(u64, u64)> {
    path.symlink_metadata().map(|about| (about.dev(), about.ino()))
}
