//! The servers that this user has signed in to: a file with a token each.

use std::collections::BTreeMap;
use std::env;
use std::fs::{self, DirBuilder, File};
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::remote::{Address, Remote, Trust};

/// The context that stands for the servers of this machine.
pub const LOCAL: &str = "local";

/// All contexts of a user.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Contexts {
    /// The one that commands use; `None` means the servers of this machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current: Option<String>,
    /// The contexts by name.
    #[serde(default)]
    pub contexts: BTreeMap<String, Context>,
}

/// One server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Context {
    /// Its address: `https://lab1:7443`.
    pub server: String,
    /// The token.
    pub token: String,
    /// The certificate of its authority, in base64; without it the system's are trusted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub authority: Option<String>,
}

impl Context {
    /// The context of a server.
    #[must_use]
    pub fn new(remote: &Remote) -> Self {
        let authority = match &remote.trust {
            Trust::System => None,
            Trust::Authority(text) => Some(text.clone()),
        };
        Self { server: remote.address.to_string(), token: remote.token.clone(), authority }
    }

    /// The server.
    ///
    /// # Errors
    /// Its address is not valid.
    pub fn remote(&self) -> Result<Remote, Error> {
        let address = Address::read(&self.server).map_err(|why| Error::Context { why })?;
        let trust = self.authority.clone().map_or(Trust::System, Trust::Authority);
        Ok(Remote::new(address, self.token.clone(), trust))
    }
}

/// The usual path of the file; `None` without a home folder.
#[must_use]
pub fn usual_path() -> Option<PathBuf> {
    let set = |name| env::var_os(name).filter(|path| !path.is_empty()).map(PathBuf::from);
    let folder = set("XDG_CONFIG_HOME").or_else(|| Some(set("HOME")?.join(".config")));
    folder.map(|folder| folder.join("gpool/contexts.toml"))
}

impl Contexts {
    /// Reads the file; without one there are no contexts.
    ///
    /// # Errors
    /// [`Error::Context`] if other users can read it, or it can't be understood.
    pub fn read(path: &Path) -> Result<Self, Error> {
        let bad = |why: String| Error::Context { why: format!("{}: {why}", path.display()) };
        let text = match fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Self::default()),
            Err(error) => return Err(bad(error.to_string())),
        };
        let about = fs::metadata(path).map_err(|error| bad(error.to_string()))?;
        if about.mode() & 0o077 != 0 {
            let mode = about.mode() & 0o777;
            return Err(bad(format!(
                "it has tokens, and its mode is {mode:03o}; run chmod 600 on it"
            )));
        }
        toml::from_str(&text).map_err(|error| bad(error.message().to_owned()))
    }

    /// Writes the file, for its user alone.
    ///
    /// # Errors
    /// [`Error::Context`] if it can't be written.
    pub fn write(&self, path: &Path) -> Result<(), Error> {
        self.try_write(path)
            .map_err(|error| Error::Context { why: format!("{}: {error}", path.display()) })
    }

    fn try_write(&self, path: &Path) -> std::io::Result<()> {
        let text = toml::to_string(self).map_err(std::io::Error::other)?;
        if let Some(folder) = path.parent() {
            DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        }
        let new = path.with_extension("toml.new");
        // An older one may have another mode.
        drop(fs::remove_file(&new));
        let mut options = File::options();
        let mut file = options.write(true).create_new(true).mode(0o600).open(&new)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(new, path)
    }

    /// The server of a context; `None` for the servers of this machine.
    ///
    /// # Errors
    /// There is no such context.
    pub fn find(&self, name: &str) -> Result<Option<Remote>, Error> {
        if name == LOCAL {
            return Ok(None);
        }
        match self.contexts.get(name) {
            Some(context) => context.remote().map(Some),
            None => Err(Error::Context { why: format!("there is no context {name:?}") }),
        }
    }

    /// The server with an address, with the token of this process if it has one.
    ///
    /// # Errors
    /// No context has the address, and there is no token.
    pub fn at(&self, address: Address, token: Option<String>) -> Result<Remote, Error> {
        let text = address.to_string();
        let known = self.contexts.values().find(|context| context.server == text);
        match (known.map(Context::remote).transpose()?, token) {
            (Some(remote), None) => Ok(remote),
            (Some(remote), Some(token)) => Ok(Remote { token, ..remote }),
            (None, Some(token)) => Ok(Remote::new(address, token, Trust::System)),
            (None, None) => Err(Error::Context { why: format!("no context is for {text}") }),
        }
    }
}
