//! The secrets of users, encrypted in a folder of the state folder: a file for each. A file begins
//! with a line about the secret, which the encryption authenticates; random bytes and the encrypted
//! value follow. The key is in a file of its own, which no backup contains.

use std::fs::{DirBuilder, File};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use gpool_model::Timestamp;
use gpool_wire::secret::SECRETS_MAX;
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::access::random;

/// The folder in the state folder.
pub const FOLDER: &str = "secrets";
/// The file with the key in the state folder.
pub const KEY_FILE: &str = "secrets.key";
/// Ends the name of a file that is being written. No name of a secret begins with a dot.
const NEW: &str = ".new";

/// The secrets of all users.
pub struct Secrets {
    state_dir: PathBuf,
    /// Held by the one change that writes files.
    writing: Mutex<()>,
}

/// A secret without its value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SecretHead {
    pub name: String,
    /// The user that it belongs to.
    pub uid: u32,
    /// The name of the user when it was set.
    pub user: String,
    pub set_at: Timestamp,
    /// The size of the value in bytes.
    pub bytes: u64,
}

/// A secret of a list: its name and user, and its head if its value can be read.
pub struct ListedSecret {
    pub name: String,
    pub uid: u32,
    pub head: Result<SecretHead, ReadError>,
}

/// Why a secret can't be read.
#[derive(Debug, Error)]
pub enum ReadError {
    #[error("the user has no secret {0}")]
    Missing(String),
    #[error(
        "the secret {name} can't be decrypted: {} is damaged, or {KEY_FILE} is not the key that \
         it was set with; set the secret again",
        path.display()
    )]
    Damaged { name: String, path: PathBuf },
    #[error("can't read {}: {error}", path.display())]
    Io {
        path: PathBuf,
        #[source]
        error: io::Error,
    },
}

/// Why a secret can't be set.
#[derive(Debug, Error)]
pub enum SetError {
    #[error("you have {SECRETS_MAX} secrets, the maximum")]
    TooMany,
    #[error("can't write in {}: {error}", path.display())]
    Io {
        path: PathBuf,
        #[source]
        error: io::Error,
    },
}

impl Secrets {
    /// The secrets of a state folder. The first one makes the folder and the key.
    #[must_use]
    pub fn new(state_dir: &Path) -> Self {
        Self { state_dir: state_dir.to_owned(), writing: Mutex::default() }
    }

    fn folder(&self) -> PathBuf {
        self.state_dir.join(FOLDER)
    }

    fn path(&self, uid: u32, name: &str) -> PathBuf {
        self.folder().join(format!("{uid}.{name}"))
    }

    /// Whether a user has a secret of this name; its value may be damaged.
    #[must_use]
    pub fn has(&self, uid: u32, name: &str) -> bool {
        self.path(uid, name).exists()
    }

    /// Sets a secret, durably. A crash leaves the old or the new value.
    ///
    /// # Errors
    /// The user has too many, or a file can't be written; the old value is unchanged then.
    pub fn set(&self, head: &SecretHead, value: &[u8]) -> Result<(), SetError> {
        let path = self.path(head.uid, &head.name);
        let failed = |error| SetError::Io { path: self.folder(), error };
        let _writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        if !path.exists() && self.names(Some(head.uid)).map_err(failed)?.len() >= SECRETS_MAX {
            return Err(SetError::TooMany);
        }
        let write = || {
            self.make_folder()?;
            let sealed = seal(&self.make_key()?, head, value)?;
            replace(&self.folder().join(NEW), &path, &sealed)
        };
        write().map_err(failed)
    }

    /// Removes a secret, durably; `false` if there was none.
    ///
    /// # Errors
    /// The file can't be removed.
    pub fn remove(&self, uid: u32, name: &str) -> io::Result<bool> {
        let _writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        match std::fs::remove_file(self.path(uid, name)) {
            Ok(()) => File::open(self.folder())?.sync_all().map(|()| true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Returns the value of a secret.
    ///
    /// # Errors
    /// There is none, or it can't be read.
    pub fn get(&self, uid: u32, name: &str) -> Result<Vec<u8>, ReadError> {
        self.open(uid, name).map(|(_, value)| value)
    }

    /// Lists the secrets of a user, or of all users, by user and name.
    ///
    /// # Errors
    /// The folder can't be read.
    pub fn list(&self, uid: Option<u32>) -> io::Result<Vec<ListedSecret>> {
        let listed = |(uid, name): (u32, String)| {
            let head = self.open(uid, &name).map(|(head, _)| head);
            ListedSecret { name, uid, head }
        };
        Ok(self.names(uid)?.into_iter().map(listed).collect())
    }

    fn names(&self, of: Option<u32>) -> io::Result<Vec<(u32, String)>> {
        let entries = match std::fs::read_dir(self.folder()) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries?,
        };
        let mut names = Vec::new();
        for entry in entries {
            let name = entry?.file_name();
            let parts = name.to_str().and_then(|name| name.split_once('.'));
            if let Some((uid, name)) = parts
                && let Ok(uid) = uid.parse::<u32>()
                && of.is_none_or(|of| of == uid)
            {
                names.push((uid, name.to_owned()));
            }
        }
        names.sort_unstable();
        Ok(names)
    }

    fn open(&self, uid: u32, name: &str) -> Result<(SecretHead, Vec<u8>), ReadError> {
        let path = self.path(uid, name);
        let sealed = match std::fs::read(&path) {
            Ok(sealed) => sealed,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(ReadError::Missing(name.to_owned()));
            }
            Err(error) => return Err(ReadError::Io { path, error }),
        };
        let key = match self.key() {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(ReadError::Io { path: self.state_dir.join(KEY_FILE), error });
            }
            key => key.ok(),
        };
        let opened = key.and_then(|key| unseal(&key, sealed));
        match opened.filter(|(head, _)| head.uid == uid && head.name == name) {
            Some(opened) => Ok(opened),
            None => Err(ReadError::Damaged { name: name.to_owned(), path }),
        }
    }

    fn make_folder(&self) -> io::Result<()> {
        match DirBuilder::new().mode(0o700).create(self.folder()) {
            Ok(()) => File::open(&self.state_dir)?.sync_all(),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Returns the key, as its file has it now.
    fn key(&self) -> io::Result<LessSafeKey> {
        let path = self.state_dir.join(KEY_FILE);
        let bytes = BASE64_URL_SAFE_NO_PAD.decode(std::fs::read_to_string(&path)?.trim());
        let key = bytes.ok().and_then(|it| UnboundKey::new(&CHACHA20_POLY1305, &it).ok());
        let damaged = || io::Error::other(format!("{} is no key of secrets", path.display()));
        key.map(LessSafeKey::new).ok_or_else(damaged)
    }

    /// The same; makes the key if there is none.
    fn make_key(&self) -> io::Result<LessSafeKey> {
        match self.key() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            key => return key,
        }
        let path = self.state_dir.join(KEY_FILE);
        let text = format!("{}\n", BASE64_URL_SAFE_NO_PAD.encode(random::<32>()));
        replace(&self.state_dir.join(format!("{KEY_FILE}{NEW}")), &path, text.as_bytes())?;
        self.key()
    }
}

/// The bytes of the file of a secret.
fn seal(key: &LessSafeKey, head: &SecretHead, value: &[u8]) -> io::Result<Vec<u8>> {
    let mut bytes = serde_json::to_vec(head)?;
    bytes.push(b'\n');
    let nonce = random::<NONCE_LEN>();
    let mut sealed = value.to_vec();
    let (about, nonce_of_key) = (Aad::from(&bytes), Nonce::assume_unique_for_key(nonce));
    key.seal_in_place_append_tag(nonce_of_key, about, &mut sealed)
        .map_err(|_| io::Error::other("the value can't be encrypted"))?;
    bytes.extend(nonce);
    bytes.extend(sealed);
    Ok(bytes)
}

/// The secret in a file; `None` if the file is damaged, or of another key.
fn unseal(key: &LessSafeKey, mut bytes: Vec<u8>) -> Option<(SecretHead, Vec<u8>)> {
    let length = bytes.iter().position(|byte| *byte == b'\n')? + 1;
    let (about, rest) = bytes.split_at_mut(length);
    let (nonce, sealed) = rest.split_at_mut_checked(NONCE_LEN)?;
    let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
    let value = key.open_in_place(nonce, Aad::from(&*about), sealed).ok()?;
    let head = serde_json::from_slice(about).ok()?;
    Some((head, value.to_vec()))
}

/// Replaces a file that only its owner can read, durably.
fn replace(new: &Path, path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut options = File::options();
    let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(new)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    std::fs::rename(new, path)?;
    match path.parent() {
        Some(folder) => File::open(folder)?.sync_all(),
        None => Ok(()),
    }
}
