//! Writes a file about each plan that broke an invariant, to find the fault later.

use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

use crate::case::Case;

/// No more are kept: a fault that lasts makes the same one again and again.
pub const KEPT_MOST: usize = 20;

/// Writes the case of a bad plan, one file for each revision, unless there are many already. Only
/// the server's user can read it: it shows jobs of all users.
pub fn dump(folder: &Path, case: &Case) -> std::io::Result<()> {
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    if std::fs::read_dir(folder)?.count() >= KEPT_MOST {
        return Ok(());
    }
    let path = folder.join(format!("{}.json", case.revision));
    let mut options = std::fs::File::options();
    let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(path)?;
    file.write_all(&case.file())
}
