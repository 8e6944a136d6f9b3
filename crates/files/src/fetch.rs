//! Writes results into a folder of a user: complete files are skipped, an interrupted file goes on,
//! and nothing is overwritten silently.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Seek as _, SeekFrom};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use crate::dirs;
use crate::manifest::{Kind, Manifest};
use crate::object::{ObjectId, PART};
use crate::tree::{Fetch, write_parts};

/// The number of files that a fetch wrote, and that were there already.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Fetched {
    /// Files and links that were written.
    pub n_written: usize,
    /// Files and links that had this content already.
    pub n_same: usize,
}

/// Returns the paths that exist with another content; [`write()`] would replace them.
///
/// # Errors
/// A path can't be read.
pub fn conflicts(manifest: &Manifest, into: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in manifest.entries() {
        let path = into.join(&entry.path);
        if blocked(into, &path) {
            found.push(path);
            continue;
        }
        let Ok(about) = path.symlink_metadata() else { continue };
        let is_same = match &entry.kind {
            Kind::Folder(_) => about.is_dir(),
            kind => is_same(&path, kind)?,
        };
        if !is_same {
            found.push(path);
        }
    }
    Ok(found)
}

/// Whether a parent of a path is there and is no folder, or a link, which would lead elsewhere.
fn blocked(root: &Path, path: &Path) -> bool {
    let above = path.ancestors().skip(1).take_while(|above| *above != root);
    above.filter_map(|it| it.symlink_metadata().ok()).any(|about| !about.is_dir())
}

fn is_same(path: &Path, kind: &Kind) -> io::Result<bool> {
    match kind {
        Kind::Folder(_) => Ok(path.symlink_metadata()?.is_dir()),
        Kind::Link(target) => Ok(fs::read_link(path).is_ok_and(|it| it.as_os_str() == &**target)),
        Kind::File { size, parts, .. } => {
            let about = path.symlink_metadata()?;
            if !about.is_file() || about.len() != *size {
                return Ok(false);
            }
            Ok(n_complete(&mut File::open(path)?, parts)? == parts.len())
        }
    }
}

/// The number of parts at the start of a file that are right.
fn n_complete(file: &mut File, parts: &[ObjectId]) -> io::Result<usize> {
    let mut buffer = vec![0; usize::try_from(PART).unwrap_or(usize::MAX)];
    for (n, part) in parts.iter().enumerate() {
        let n_read = dirs::read_full(file, &mut buffer)?;
        if ObjectId::of(&buffer[..n_read]) != *part {
            return Ok(n);
        }
    }
    Ok(parts.len())
}

/// Writes the files of a manifest, in place of those of the same paths. Each file is complete or
/// absent; an interrupted one goes on with the next part.
///
/// # Errors
/// An object can't be fetched, or the disk refuses; earlier files stay.
pub fn write(manifest: &Manifest, into: &Path, fetch: &mut Fetch<'_>) -> io::Result<Fetched> {
    let mut fetched = Fetched::default();
    fs::create_dir_all(into)?;
    for entry in manifest.entries() {
        let path = into.join(&entry.path);
        if blocked(into, &path) {
            let what = format!("{} is not below folders only", path.display());
            return Err(io::Error::new(io::ErrorKind::NotADirectory, what));
        }
        let about = path.symlink_metadata().ok();
        if about.is_some() && is_same(&path, &entry.kind)? {
            fetched.n_same += usize::from(!matches!(entry.kind, Kind::Folder(_)));
            continue;
        }
        fs::create_dir_all(path.parent().unwrap_or(into))?;
        match &entry.kind {
            Kind::Folder(_) => {
                remove(&path)?;
                fs::create_dir(&path)?;
                continue;
            }
            Kind::File { mode, size, parts } => {
                let partial = file(&path, (*size, parts), fetch)?;
                fs::set_permissions(&partial, Permissions::from_mode(mode | 0o600))?;
                remove_folder(&path)?;
                fs::rename(&partial, &path)?;
            }
            Kind::Link(target) => {
                remove(&path)?;
                symlink(target, &path)?;
            }
        }
        fetched.n_written += 1;
    }
    Ok(fetched)
}

/// Writes a file beside its path; parts of an earlier try stay. Returns its path.
fn file(
    path: &Path,
    (size, parts): (u64, &[ObjectId]),
    fetch: &mut Fetch<'_>,
) -> io::Result<PathBuf> {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    // The name of the file may be as long as names can be.
    let partial = path.with_file_name(format!(".gpool-part-{:.16}", ObjectId::of(name.as_bytes())));
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(0o600);
    options.custom_flags(rustix::fs::OFlags::NOFOLLOW.bits().cast_signed());
    let mut file = options.open(&partial)?;
    let n_there = n_complete(&mut file, parts)?;
    let start = (n_there as u64 * PART).min(size);
    file.set_len(start)?;
    file.seek(SeekFrom::Start(start))?;
    write_parts(&mut file, (size - start, &parts[n_there..]), fetch)?;
    file.sync_all()?;
    Ok(partial)
}

/// Removes a file or an empty folder at a path.
fn remove(path: &Path) -> io::Result<()> {
    remove_folder(path)?;
    dirs::remove(path)
}

fn remove_folder(path: &Path) -> io::Result<()> {
    match path.symlink_metadata() {
        Ok(about) if about.is_dir() => fs::remove_dir(path),
        _ => Ok(()),
    }
}
