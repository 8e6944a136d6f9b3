//! Writes the files of a manifest into a new folder of a node. The caller is the only user of the
//! folder until it is complete; then it belongs to the user of the job.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{
    DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _, lchown, symlink,
};
use std::path::Path;

use crate::manifest::{Kind, Manifest};
use crate::object::{ObjectId, PART};

/// Returns the bytes of an object.
pub type Fetch<'f> = dyn FnMut(&ObjectId) -> io::Result<Vec<u8>> + 'f;

/// Makes a folder with the files of a manifest, all of a user and group, or of this process.
///
/// # Errors
/// An object can't be fetched, or the disk refuses; a part of the folder may be there.
pub fn build(
    manifest: &Manifest,
    into: &Path,
    owner: Option<(u32, u32)>,
    fetch: &mut Fetch<'_>,
) -> io::Result<()> {
    DirBuilder::new().mode(0o700).create(into)?;
    for entry in manifest.entries() {
        let path = into.join(&entry.path);
        match &entry.kind {
            // Open to this process until its content is there.
            Kind::Folder(_) => folder(into, &path)?,
            Kind::File { mode, size, parts } => {
                parent(into, &path)?;
                let mut options = OpenOptions::new();
                let mut file = options.write(true).create_new(true).mode(0o600).open(&path)?;
                write_parts(&mut file, (*size, parts), fetch)?;
                file.set_permissions(Permissions::from_mode(*mode))?;
            }
            Kind::Link(target) => {
                parent(into, &path)?;
                symlink(target, &path)?;
            }
        }
    }
    if let Some((uid, gid)) = owner {
        give(into, Some(uid), Some(gid))?;
    }
    // The deepest come last.
    for entry in manifest.entries().iter().rev() {
        if let Kind::Folder(mode) = entry.kind {
            fs::set_permissions(into.join(&entry.path), Permissions::from_mode(mode))?;
        }
    }
    Ok(())
}

/// Writes the parts of a file, and checks their sizes.
pub(crate) fn write_parts(
    file: &mut File,
    (size, parts): (u64, &[ObjectId]),
    fetch: &mut Fetch<'_>,
) -> io::Result<()> {
    let mut left = size;
    for part in parts {
        let bytes = fetch(part)?;
        let expected = left.min(PART);
        if bytes.len() as u64 != expected {
            let what = format!("part {part} has {} bytes instead of {expected}", bytes.len());
            return Err(io::Error::new(io::ErrorKind::InvalidData, what));
        }
        file.write_all(&bytes)?;
        left -= expected;
    }
    Ok(())
}

fn parent(root: &Path, path: &Path) -> io::Result<()> {
    match path.parent() {
        Some(above) if above != root => folder(root, above),
        _ => Ok(()),
    }
}

/// Makes a folder and its missing parents. The manifest has no link above a path.
fn folder(root: &Path, path: &Path) -> io::Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    parent(root, path)?;
    DirBuilder::new().mode(0o755).create(path)
}

/// Gives a folder and its content to a user. Links are not followed.
fn give(path: &Path, uid: Option<u32>, gid: Option<u32>) -> io::Result<()> {
    if path.symlink_metadata()?.is_dir() {
        for entry in fs::read_dir(path)? {
            give(&entry?.path(), uid, gid)?;
        }
    }
    lchown(path, uid, gid)
}
