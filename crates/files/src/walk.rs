//! Reads a folder and makes its manifest. It opens each path inside its folder and follows no
//! symbolic link: the folder may change meanwhile, and its owner may be hostile.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::{self, Seek as _, SeekFrom};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Dir, FileType, OFlags, readlinkat, statat};
use thiserror::Error;

use crate::dirs;
use crate::manifest::{Entry, Kind, Manifest, ManifestError, permissions};
use crate::object::{ObjectId, PART};
use crate::path::{check_path, stays_inside};
use crate::select::{PathChoice, Patterns, Selection};

/// The deepest folder.
const DEPTH_MAX: usize = 128;
/// The most reasons in a manifest.
const LEFT_OUT_MAX: usize = 200;

/// Why a folder can't be read.
#[derive(Debug, Error)]
pub enum WalkError {
    /// A path can't be read.
    #[error("can't read {path}: {error}", path = path.display())]
    Io {
        /// The path.
        path: PathBuf,
        /// The error of the system.
        #[source]
        error: io::Error,
    },
    /// A name is not UTF-8.
    #[error("the name {name:?} in {folder} is not UTF-8", folder = folder.display())]
    NotText {
        /// The folder.
        folder: PathBuf,
        /// The name, with replacements.
        name: String,
    },
    /// The ignore file can't be used.
    #[error("{why}")]
    Ignore {
        /// The sentence.
        why: String,
    },
    /// The files have too many bytes together.
    #[error("the folder has more than {most} bytes")]
    TooLarge {
        /// The limit.
        most: u64,
        /// The largest folder, or file, at the top, and its bytes.
        largest: (String, u64),
        /// All bytes.
        n_bytes: u64,
    },
    /// The list of its files is not allowed.
    #[error(transparent)]
    Manifest(#[from] ManifestError),
}

/// Where to read a part: a path, and the position in its file.
#[derive(Debug, Clone)]
struct PartPlace {
    path: String,
    offset: u64,
    length: usize,
}

/// A folder that was read.
#[derive(Debug)]
pub struct Walked {
    /// Its manifest.
    pub manifest: Manifest,
    root: PathBuf,
    parts: HashMap<ObjectId, PartPlace>,
}

/// What a walk does with files that it may not take, and with too many of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// The folder of a user, read as that user: unreadable files are errors.
    Upload,
    /// The results of a job, read by an agent that may be root: the files must belong to this
    /// user, or have one name only, in a container with other users. The rest is left out.
    Results {
        /// The user of the job.
        uid: u32,
        /// Whether the job ran in a container.
        in_container: bool,
    },
}

/// Reads a folder without the files that its ignore files name.
///
/// # Errors
/// See [`WalkError`].
pub fn folder(root: &Path, most: u64) -> Result<Walked, WalkError> {
    walk(root, Selection::AllBut(Vec::new()), Purpose::Upload, most)
}

/// Reads the paths of a folder that match.
///
/// # Errors
/// See [`WalkError`].
pub fn results(
    root: &Path,
    patterns: &Patterns,
    purpose: Purpose,
    most: u64,
) -> Result<Walked, WalkError> {
    walk(root, Selection::Matching(patterns), purpose, most)
}

fn walk(
    root: &Path,
    selection: Selection<'_>,
    purpose: Purpose,
    most: u64,
) -> Result<Walked, WalkError> {
    let mut walker = Walker {
        root,
        selection,
        purpose,
        most,
        n_bytes: 0,
        by_top: BTreeMap::new(),
        entries: Vec::new(),
        left_out: Vec::new(),
        n_left_out: 0,
        parts: HashMap::new(),
        buffer: vec![0; usize::try_from(PART).unwrap_or(usize::MAX)],
    };
    let open = std::fs::File::open(root).map_err(|error| walker.io("", error))?;
    walker.folder(&open.into(), "", 0)?;
    if walker.n_bytes > most {
        let largest = walker.by_top.into_iter().max_by_key(|(_, n_bytes)| *n_bytes);
        let largest = largest.unwrap_or_default();
        return Err(WalkError::TooLarge { most, largest, n_bytes: walker.n_bytes });
    }
    if walker.n_left_out > LEFT_OUT_MAX {
        let n_more = walker.n_left_out - LEFT_OUT_MAX;
        walker.left_out.push(format!("{n_more} more paths"));
    }
    let manifest = Manifest::new(walker.entries, walker.left_out)?;
    Ok(Walked { manifest, root: root.to_owned(), parts: walker.parts })
}

impl Walked {
    /// Reads the bytes of a part again.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidData`] if the file has changed since the walk, or it can't be read.
    pub fn read(&self, part: &ObjectId) -> io::Result<Vec<u8>> {
        let Some(place) = self.parts.get(part) else {
            return Err(io::ErrorKind::NotFound.into());
        };
        let mut folder: OwnedFd = File::open(&self.root)?.into();
        let mut names = place.path.split('/').peekable();
        let mut bytes = vec![0; place.length];
        while let Some(name) = names.next() {
            if names.peek().is_some() {
                folder = dirs::open_in(&folder, name, OFlags::DIRECTORY)?;
                continue;
            }
            let mut file = File::from(dirs::open_in(&folder, name, OFlags::empty())?);
            file.seek(SeekFrom::Start(place.offset))?;
            let n_read = dirs::read_full(&mut file, &mut bytes)?;
            bytes.truncate(n_read);
        }
        if ObjectId::of(&bytes) == *part {
            return Ok(bytes);
        }
        let what = format!("{} changed while it was read", self.root.join(&place.path).display());
        Err(io::Error::new(io::ErrorKind::InvalidData, what))
    }
}

struct Walker<'p> {
    root: &'p Path,
    selection: Selection<'p>,
    purpose: Purpose,
    most: u64,
    n_bytes: u64,
    /// The bytes below each name of the folder.
    by_top: BTreeMap<String, u64>,
    entries: Vec<Entry>,
    left_out: Vec<String>,
    n_left_out: usize,
    parts: HashMap<ObjectId, PartPlace>,
    buffer: Vec<u8>,
}

impl Walker<'_> {
    fn io(&self, path: &str, error: io::Error) -> WalkError {
        let path = if path.is_empty() { self.root.to_owned() } else { self.root.join(path) };
        WalkError::Io { path, error }
    }

    /// Notes that a path does not travel.
    fn leave_out(&mut self, path: &str, why: &str) {
        self.n_left_out += 1;
        if self.left_out.len() < LEFT_OUT_MAX {
            self.left_out.push(format!("{path}: {why}"));
        }
    }

    /// An error for a user's own folder; results leave the path out.
    fn unreadable(&mut self, path: &str, error: io::Error) -> Result<(), WalkError> {
        match self.purpose {
            Purpose::Upload => Err(self.io(path, error)),
            Purpose::Results { .. } => {
                self.leave_out(path, &error.to_string());
                Ok(())
            }
        }
    }

    fn folder(&mut self, folder: &OwnedFd, path: &str, depth: usize) -> Result<(), WalkError> {
        let has_rules = self.selection.enter(self.root, path);
        let has_rules = has_rules.map_err(|why| WalkError::Ignore { why })?;
        let names = names(folder).map_err(|error| self.io(path, error))?;
        for name in names {
            let Ok(name) = String::from_utf8(name) else {
                self.not_text(path)?;
                continue;
            };
            let below = if path.is_empty() { name.clone() } else { format!("{path}/{name}") };
            self.path(folder, &name, &below, depth)?;
        }
        if has_rules {
            self.selection.leave();
        }
        Ok(())
    }

    fn not_text(&mut self, folder: &str) -> Result<(), WalkError> {
        let names = std::fs::read_dir(self.root.join(folder)).into_iter().flatten().flatten();
        let mut names = names.map(|entry| entry.file_name());
        let name = names.find(|name| name.to_str().is_none()).unwrap_or_default();
        let name = name.to_string_lossy().into_owned();
        match self.purpose {
            Purpose::Upload => Err(WalkError::NotText { folder: self.root.join(folder), name }),
            Purpose::Results { .. } => {
                self.leave_out(&format!("{folder}/{name}"), "its name is not UTF-8");
                Ok(())
            }
        }
    }

    fn path(
        &mut self,
        folder: &OwnedFd,
        name: &str,
        path: &str,
        depth: usize,
    ) -> Result<(), WalkError> {
        let about = match statat(folder, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(about) => about,
            // It was removed meanwhile.
            Err(rustix::io::Errno::NOENT) => return Ok(()),
            Err(error) => return self.unreadable(path, error.into()),
        };
        let kind = FileType::from_raw_mode(about.st_mode);
        let choice = self.selection.choose(path, kind.is_dir());
        if choice == PathChoice::Skip {
            return Ok(());
        }
        if let Err(why) = check_path(path) {
            self.leave_out(path, &why);
            return Ok(());
        }
        if kind.is_dir() {
            if depth >= DEPTH_MAX {
                self.leave_out(path, "it is more than 128 folders deep");
                return Ok(());
            }
            let open = match dirs::open_in(folder, name, OFlags::DIRECTORY) {
                Ok(open) => open,
                Err(error) => return self.unreadable(path, error),
            };
            if choice == PathChoice::Take {
                let kind = Kind::Folder(permissions(about.st_mode));
                self.entries.push(Entry { path: path.to_owned(), kind });
            }
            return self.folder(&open, path, depth + 1);
        }
        if kind.is_symlink() {
            let target = readlinkat(folder, name, Vec::new()).ok();
            let target = target.and_then(|target| target.into_string().ok()).unwrap_or_default();
            if stays_inside(path, &target) {
                self.entries.push(Entry { path: path.to_owned(), kind: Kind::Link(target) });
            } else {
                self.leave_out(path, "the symbolic link leaves the folder");
            }
            return Ok(());
        }
        if !kind.is_file() {
            self.leave_out(path, "it is no file, folder or symbolic link");
            return Ok(());
        }
        match dirs::open_in(folder, name, OFlags::empty()) {
            Ok(open) => self.file(File::from(open), path),
            Err(error) => self.unreadable(path, error),
        }
    }

    fn file(&mut self, mut file: File, path: &str) -> Result<(), WalkError> {
        let about = match file.metadata() {
            Ok(about) => about,
            Err(error) => return self.unreadable(path, error),
        };
        if let Purpose::Results { uid, in_container } = self.purpose
            && about.uid() != uid
            && !(in_container && about.nlink() == 1)
        {
            self.leave_out(path, "it belongs to another user");
            return Ok(());
        }
        let top = path.split('/').next().unwrap_or(path).to_owned();
        *self.by_top.entry(top).or_default() += about.len();
        self.n_bytes = self.n_bytes.saturating_add(about.len());
        if self.n_bytes > self.most {
            if self.purpose != Purpose::Upload {
                self.n_bytes -= about.len();
                self.leave_out(path, "the results have too many bytes (results_max)");
            }
            // An upload is refused with the sizes of all folders, so the walk goes on.
            return Ok(());
        }
        let (mut parts, mut size) = (Vec::new(), 0);
        loop {
            let n_read = match dirs::read_full(&mut file, &mut self.buffer) {
                Ok(0) => break,
                Ok(n_read) => n_read,
                Err(error) => return self.unreadable(path, error),
            };
            let part = ObjectId::of(&self.buffer[..n_read]);
            let place = PartPlace { path: path.to_owned(), offset: size, length: n_read };
            self.parts.entry(part).or_insert(place);
            parts.push(part);
            size += n_read as u64;
            // A file that grows without end has an end here.
            if n_read < self.buffer.len() || size > self.most {
                break;
            }
        }
        let kind = Kind::File { mode: permissions(about.mode()), size, parts };
        self.entries.push(Entry { path: path.to_owned(), kind });
        Ok(())
    }
}

/// The names in a folder, in order.
fn names(folder: &OwnedFd) -> io::Result<Vec<Vec<u8>>> {
    let mut names = Vec::new();
    for entry in Dir::read_from(folder.as_fd())? {
        let name = entry?.file_name().to_bytes().to_vec();
        if name != b"." && name != b".." {
            names.push(name);
        }
    }
    names.sort_unstable();
    Ok(names)
}
