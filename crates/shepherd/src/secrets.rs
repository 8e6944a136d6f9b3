//! Secrets as files of this node, for as long as a task or a pull needs them: a folder for each in
//! one folder, which is a file system in memory where this process may mount one. The mount ends
//! with the last folder in it.

use std::fs::{DirBuilder, File};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, fchown, lchown};
use std::path::Path;

use rustix::fs::{FlockOperation, FsWord};
use rustix::mount::{MountFlags, UnmountFlags};

use crate::layout::Layout;

/// Source: `TMPFS_MAGIC` in statfs(2).
const IN_MEMORY: FsWord = 0x0102_1994;
/// The folders belong to users, so they could fill it.
const OPTIONS: &std::ffi::CStr = c"mode=0711,size=256m,nr_inodes=65536";

/// A secret: its name, which is that of its file, and its value.
pub type NamedSecret = (String, Vec<u8>);

/// Writes secrets into a new folder of this name, for its owner alone; `None` is this process.
///
/// # Errors
/// The folder or a file can't be written; nothing is left then. The text is for people.
pub fn write(
    layout: &Layout,
    name: &str,
    owner: Option<(u32, u32)>,
    secrets: &[NamedSecret],
) -> Result<(), String> {
    let written = (|| {
        let _lock = lock(layout)?;
        let base = layout.secrets();
        make_base(&base)?;
        let folder = base.join(name);
        remove_folder(&folder)?;
        let written = fill(&folder, owner, secrets);
        if written.is_err() {
            // The first error is the one to report.
            let _ = remove_folder(&folder).and_then(|()| release(&base));
        }
        written
    })();
    written.map_err(|error| {
        format!("can't write its secrets in {}: {error}", layout.secrets().display())
    })
}

/// Removes the folder of this name; there may be none.
///
/// # Errors
/// It can't be removed.
pub fn remove(layout: &Layout, name: &str) -> io::Result<()> {
    let base = layout.secrets();
    if !base.exists() {
        return Ok(());
    }
    let _lock = lock(layout)?;
    remove_folder(&base.join(name))?;
    release(&base)
}

/// Removes the folders that killed processes left: all that are not `used`, by their names.
///
/// # Errors
/// One can't be removed.
pub fn sweep(layout: &Layout, used: impl Fn(&str) -> bool) -> io::Result<()> {
    let base = layout.secrets();
    if !base.exists() {
        return Ok(());
    }
    let _lock = lock(layout)?;
    for entry in std::fs::read_dir(&base)? {
        let name = entry?.file_name();
        if !name.to_str().is_some_and(&used) {
            remove_folder(&base.join(name))?;
        }
    }
    release(&base)
}

/// Held while folders are made or removed: the mount must not end under a new folder.
fn lock(layout: &Layout) -> io::Result<File> {
    let mut options = File::options();
    options.write(true).create(true).truncate(false).mode(0o600);
    let file = options.open(layout.secrets_lock())?;
    rustix::io::retry_on_intr(|| rustix::fs::flock(&file, FlockOperation::LockExclusive))?;
    Ok(file)
}

fn make_base(base: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(0o711).create(base) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    if rustix::fs::statfs(base)?.f_type != IN_MEMORY && rustix::process::geteuid().is_root() {
        let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
        // Within a container, root may not mount: then the files are on the disk.
        let _ = rustix::mount::mount("gpool", base, "tmpfs", flags, OPTIONS);
    }
    Ok(())
}

fn fill(folder: &Path, owner: Option<(u32, u32)>, secrets: &[NamedSecret]) -> io::Result<()> {
    DirBuilder::new().mode(0o700).create(folder)?;
    for (name, value) in secrets {
        let mut options = File::options();
        let mut file = options.write(true).create_new(true).mode(0o400).open(folder.join(name))?;
        file.write_all(value)?;
        if let Some((uid, gid)) = owner {
            fchown(&file, Some(uid), Some(gid))?;
        }
    }
    // Last: before, no other process can change the folder.
    owner.map_or(Ok(()), |(uid, gid)| lchown(folder, Some(uid), Some(gid)))
}

fn remove_folder(folder: &Path) -> io::Result<()> {
    match std::fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Ends the mount if nothing is in it.
fn release(base: &Path) -> io::Result<()> {
    if std::fs::read_dir(base)?.next().is_none() {
        // There may be no mount, or a process may still use it.
        let _ = rustix::mount::unmount(base, UnmountFlags::NOFOLLOW);
        let _ = std::fs::remove_dir(base);
    }
    Ok(())
}
