//! The list of the paths of a folder, with the parts of each file.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::object::{OBJECT_MAX, ObjectId, PART};
use crate::path::{check_path, prefix, stays_inside};

/// The most bytes of a manifest: some 50,000 paths.
pub const MANIFEST_MAX: usize = OBJECT_MAX;
/// The version of the form.
const VERSION: u32 = 1;
/// Permissions are read, write and execute; the other bits of a mode do not travel.
const MODE: u32 = 0o777;

/// The paths of a folder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    version: u32,
    /// Each path once, in the order of the paths.
    entries: Vec<Entry>,
    /// Paths that are not part of it, each with the reason, for people.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    left_out: Vec<String>,
}

/// One path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// Relative to the folder.
    pub path: String,
    /// The object at the path.
    pub kind: Kind,
}

/// The object at a path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A folder with its permissions.
    Folder(u32),
    /// A file.
    File {
        /// Its permissions.
        mode: u32,
        /// Its size in bytes.
        size: u64,
        /// Its content, in order.
        parts: Vec<ObjectId>,
    },
    /// A symbolic link with its target, which stays in the folder.
    Link(String),
}

/// Why bytes are no manifest.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ManifestError {
    /// It is too large.
    #[error("the list of files has {n_bytes} bytes; at most {MANIFEST_MAX} are allowed")]
    TooLong {
        /// Its size.
        n_bytes: usize,
    },
    /// It has another form.
    #[error("the list of files can't be read: {why}")]
    Form {
        /// The reason.
        why: String,
    },
    /// A path may not be there.
    #[error("{why}")]
    Path {
        /// The sentence.
        why: String,
    },
}

impl Manifest {
    /// Makes a manifest of entries in any order.
    ///
    /// # Errors
    /// A path, or the list as a whole, is not allowed.
    pub fn new(mut entries: Vec<Entry>, left_out: Vec<String>) -> Result<Self, ManifestError> {
        entries.sort_by(|a, b| a.path.cmp(&b.path));
        let manifest = Self { version: VERSION, entries, left_out };
        manifest.check()?;
        match manifest.bytes().len() {
            n_bytes if n_bytes > MANIFEST_MAX => Err(ManifestError::TooLong { n_bytes }),
            _ => Ok(manifest),
        }
    }

    /// Reads and checks a manifest. Its author is not trusted.
    ///
    /// # Errors
    /// See [`ManifestError`].
    pub fn read(bytes: &[u8]) -> Result<Self, ManifestError> {
        if bytes.len() > MANIFEST_MAX {
            return Err(ManifestError::TooLong { n_bytes: bytes.len() });
        }
        let manifest: Self = serde_json::from_slice(bytes)
            .map_err(|error| ManifestError::Form { why: form(&error) })?;
        manifest.check()?;
        Ok(manifest)
    }

    /// Its bytes as an object; equal folders have equal bytes.
    #[must_use]
    pub fn bytes(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("a manifest is plain data")
    }

    /// Its paths in order. A folder comes before its content.
    #[must_use]
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// The paths that are not part of it, with the reasons.
    #[must_use]
    pub fn left_out(&self) -> &[String] {
        &self.left_out
    }

    /// The objects of its files, in order.
    pub fn parts(&self) -> impl Iterator<Item = &ObjectId> {
        self.files().flat_map(|(_, parts)| parts)
    }

    /// The bytes of all files together.
    #[must_use]
    pub fn n_bytes(&self) -> u64 {
        self.files().fold(0, |sum, (size, _)| sum.saturating_add(size))
    }

    /// The number of files.
    #[must_use]
    pub fn n_files(&self) -> usize {
        self.files().count()
    }

    fn files(&self) -> impl Iterator<Item = (u64, &[ObjectId])> {
        self.entries.iter().filter_map(|entry| match &entry.kind {
            Kind::File { size, parts, .. } => Some((*size, parts.as_slice())),
            Kind::Folder(_) | Kind::Link(_) => None,
        })
    }

    fn check(&self) -> Result<(), ManifestError> {
        if self.version != VERSION {
            let why = format!("its version is {}, and this program knows {VERSION}", self.version);
            return Err(ManifestError::Form { why });
        }
        let bad = |why: String| Err(ManifestError::Path { why });
        let mut is_folder: BTreeMap<&str, bool> = BTreeMap::new();
        let mut last: Option<&str> = None;
        for Entry { path, kind } in &self.entries {
            check_path(path).map_err(|why| ManifestError::Path { why })?;
            if last.is_some_and(|last| last >= path.as_str()) {
                let path = prefix(path);
                return bad(format!("the path {path:?} is there twice, or not in order"));
            }
            last = Some(path);
            // In the order of paths, a folder comes before its content.
            let mut above = path.as_str();
            while let Some((folder, _)) = above.rsplit_once('/') {
                above = folder;
                if is_folder.get(above) == Some(&false) {
                    let (path, above) = (prefix(path), prefix(above));
                    return bad(format!("{path:?} is inside {above:?}, which is no folder"));
                }
            }
            let why = match kind {
                Kind::Folder(mode) | Kind::File { mode, .. } if mode & !MODE != 0 => {
                    Some(format!("the permissions {mode:o} of {:?} are not allowed", prefix(path)))
                }
                Kind::File { size, parts, .. } if size.div_ceil(PART) != parts.len() as u64 => {
                    Some(format!("{:?} has {size} bytes in {} parts", prefix(path), parts.len()))
                }
                Kind::Link(target) if !stays_inside(path, target) => {
                    let (path, target) = (prefix(path), prefix(target));
                    Some(format!("the symbolic link {path:?} leaves the folder: {target:?}"))
                }
                Kind::Folder(_) | Kind::File { .. } | Kind::Link(_) => None,
            };
            if let Some(why) = why {
                return bad(why);
            }
            is_folder.insert(path, matches!(kind, Kind::Folder(_)));
        }
        Ok(())
    }
}

/// The start of a message about the form: it may repeat parts of the bytes.
fn form(error: &serde_json::Error) -> String {
    error.to_string().chars().filter(|c| !c.is_control()).take(120).collect()
}

/// Permissions that travel.
pub(crate) fn permissions(mode: u32) -> u32 {
    mode & MODE
}
