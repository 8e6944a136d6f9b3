//! The files of a server that agents use to launch jobs, and to send their results.

use std::io;
use std::sync::Arc;

use gpool_identity::secrets::{ReadError, Secrets};
use gpool_model::job::BlobId;
use gpool_store::{BlobError, Blobs};

use crate::files::{FileStore, object_name};

/// The files of the server that agents use to launch jobs, and to send their results.
#[derive(Clone)]
pub struct LaunchFiles {
    pub blobs: Arc<Blobs>,
    pub secrets: Arc<Secrets>,
    /// The working folders and results of jobs.
    pub folders: Arc<FileStore>,
}

impl LaunchFiles {
    /// Returns the content of a blob, or of an object of a working folder.
    ///
    /// # Errors
    /// As for [`gpool_link::ServerInbox::blob`].
    pub fn blob(&self, id: &BlobId) -> io::Result<Vec<u8>> {
        if let Some((uid, object)) = object_name(&id.0) {
            return self.folders.read(uid, &object);
        }
        let id = id.0.parse().map_err(io::Error::other)?;
        let blobs = &self.blobs;
        blobs.get(&id).map_err(|error| match error {
            // In both cases the job is held, and users can release it when the file exists again.
            BlobError::Missing(_) | BlobError::Damaged(_) => {
                let path = blobs.path(&id).display().to_string();
                io::Error::new(io::ErrorKind::NotFound, path)
            }
            other => io::Error::other(other),
        })
    }

    /// Returns the value of a secret of a user.
    ///
    /// # Errors
    /// As for [`gpool_link::ServerInbox::secret`].
    pub fn secret(&self, uid: u32, name: &str) -> io::Result<Vec<u8>> {
        self.secrets.get(uid, name).map_err(|error| match error {
            // The job is held, and users can release it once the secret is set.
            ReadError::Missing(_) | ReadError::Damaged { .. } => {
                io::Error::new(io::ErrorKind::NotFound, error.to_string())
            }
            ReadError::Io { .. } => io::Error::other(error),
        })
    }
}
