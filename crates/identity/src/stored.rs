//! State in a small file of the state folder: read at the start, and replaced as a whole by each
//! change.

use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::Context as _;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::watch;

use crate::replace::{replace, reserve};

/// The content of a file as it is held in memory, perhaps with an index.
pub trait State: From<Self::File> + AsRef<Self::File> {
    /// The content as it is stored.
    type File: Clone + Default + PartialEq + Serialize + DeserializeOwned;
}

/// A file with its content.
pub struct StoredFile<T> {
    path: PathBuf,
    /// The file has the same content. Readers never wait for the disk.
    state: Mutex<Arc<T>>,
    /// Held by the one change that writes the file.
    writing: Mutex<()>,
    changes: watch::Sender<u64>,
}

impl<T: State> StoredFile<T> {
    /// Opens a file; without one, the content is the default.
    ///
    /// # Errors
    /// It can't be read. `way_out` says what to do with a damaged file.
    pub fn open(path: PathBuf, way_out: &str) -> anyhow::Result<Self> {
        let shown = path.display();
        let content: T::File = match std::fs::read(&path) {
            Ok(bytes) => serde_json::from_slice(&bytes)
                .with_context(|| format!("{shown} is damaged: {way_out}"))?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => T::File::default(),
            Err(error) => return Err(error).with_context(|| format!("can't read {shown}")),
        };
        reserve(&path);
        let state = Mutex::new(Arc::new(content.into()));
        Ok(Self { path, state, writing: Mutex::default(), changes: watch::Sender::new(0) })
    }

    /// Returns a receiver that changes with the content.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    pub fn state(&self) -> Arc<T> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Changes the content: writes it, then takes it over. Waits for other changes and the disk.
    ///
    /// # Errors
    /// Those of `change`, or the file can't be written; nothing was changed then.
    pub fn change<R, E: From<io::Error>>(
        &self,
        change: impl FnOnce(&mut T::File) -> Result<R, E>,
    ) -> Result<R, E> {
        let _writing: MutexGuard<'_, ()> =
            self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let before = self.state();
        let mut content = (*before).as_ref().clone();
        let done = change(&mut content)?;
        if content != *(*before).as_ref() {
            self.store(content)?;
        }
        Ok(done)
    }

    fn store(&self, content: T::File) -> io::Result<()> {
        // A revoked token must not come back after a power failure.
        replace(&self.path, &serde_json::to_vec(&content)?)?;
        let state = Arc::new(content.into());
        *self.state.lock().unwrap_or_else(PoisonError::into_inner) = state;
        self.changes.send_modify(|n_changes| *n_changes += 1);
        Ok(())
    }
}
