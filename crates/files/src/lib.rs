//! Working folders and results of jobs, which travel without a shared file system: `--upload` and
//! `--download`.
//!
//! A file travels as parts, and each part is an [`ObjectId`]: a hash of its bytes. A [`Manifest`]
//! lists the paths of a folder with the parts of each file, and is an object itself.
//!
//! - [`walk`] reads a folder and makes its manifest. It follows no symbolic link.
//! - [`ObjectStore`] keeps objects by user: on the server for good, on a node as a cache.
//! - [`Results`] keeps the manifests of results by job, attempt and rank.
//! - [`bundle`] packs several objects into one request.
//! - [`tree`] writes the files of a manifest into a new folder, and [`fetch`] into a folder of a
//!   user, where it resumes and overwrites nothing silently.
//!
//! No manifest is trusted: [`Manifest::read`] is the only way to one, and refuses each path that
//! could leave its folder.

#![forbid(unsafe_code)]

pub mod bundle;
mod dirs;
pub mod fetch;
mod manifest;
mod object;
mod path;
mod results;
mod select;
mod store;
pub mod tree;
pub mod walk;

pub use manifest::{Entry, Kind, MANIFEST_MAX, Manifest, ManifestError};
pub use object::{BadObjectId, OBJECT_MAX, ObjectId, PART};
pub use path::check_path;
pub use results::{ResultKey, Results, StoredResult};
pub use select::{IGNORE_FILE, Patterns};
pub use store::{ObjectStore, StoreError, free_bytes, is_full};
