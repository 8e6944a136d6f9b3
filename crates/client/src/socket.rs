//! Where a server's socket is: for commands that look for one, and for `gpool up`, which makes
//! one. It makes no folders.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use crate::error::Error;

/// The socket of the machine's server.
pub const MACHINE_SOCKET: &str = "/run/gpool/api.sock";

/// Most bytes in the path of a socket.
/// Source: `sun_path` in `unix(7)`, ending zero left out.
pub const PATH_MAX: usize = 107;

/// A socket, and what named it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// Somebody named it; no other is tried.
    Named(PathBuf),
    /// The user's own, then the machine's.
    Usual {
        /// The user's own; for root, the machine's.
        own: PathBuf,
        /// The machine's.
        machine: PathBuf,
    },
}

/// The surroundings that decide where to look.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Surroundings {
    /// `GPOOL_SERVER`.
    pub server: Option<OsString>,
    /// `GPOOL_SOCKET`.
    pub socket: Option<OsString>,
    /// `XDG_RUNTIME_DIR`.
    pub runtime_dir: Option<OsString>,
    /// Who asks.
    pub uid: u32,
}

impl Surroundings {
    /// Those of this process.
    #[must_use]
    pub fn of_this_process() -> Self {
        let named = |name| env::var_os(name).filter(|value| !value.is_empty());
        Self {
            server: named("GPOOL_SERVER"),
            socket: named("GPOOL_SOCKET"),
            runtime_dir: named("XDG_RUNTIME_DIR"),
            uid: rustix::process::geteuid().as_raw(),
        }
    }

    /// The socket of a server of this user's own, whether there is one or not. Root's is the
    /// machine's.
    #[must_use]
    pub fn own_socket(&self) -> PathBuf {
        if self.uid == 0 {
            return PathBuf::from(MACHINE_SOCKET);
        }
        let runtime_dir = self.runtime_dir.as_ref().map(Path::new);
        match runtime_dir.filter(|folder| folder.is_absolute()) {
            Some(folder) => folder.join("gpool/api.sock"),
            None => PathBuf::from(format!("/tmp/gpool-{}/api.sock", self.uid)),
        }
    }

    /// Where to look: a flag, `GPOOL_SERVER`, `GPOOL_SOCKET`, else the usual places.
    ///
    /// # Errors
    /// [`Error::SocketPath`] for a path that is too long, and for a server that is no socket.
    pub fn place(&self, flag: Option<&str>) -> Result<Place, Error> {
        let named = match (flag, &self.server, &self.socket) {
            (Some(flag), _, _) => Some(socket_of(flag)?),
            (None, Some(server), _) => {
                let text = server.to_str().ok_or_else(|| not_a_socket(server))?;
                Some(socket_of(text)?)
            }
            (None, None, Some(socket)) => Some(PathBuf::from(socket)),
            (None, None, None) => None,
        };
        match named {
            Some(path) => check_length(&path).map(|()| Place::Named(path)),
            None => {
                let own = self.own_socket();
                check_length(&own)?;
                Ok(Place::Usual { own, machine: PathBuf::from(MACHINE_SOCKET) })
            }
        }
    }
}

fn not_a_socket(server: &std::ffi::OsStr) -> Error {
    let why = format!("{server:?} is no local socket; this version takes unix:/path/api.sock");
    Error::SocketPath { why }
}

fn socket_of(server: &str) -> Result<PathBuf, Error> {
    match server.strip_prefix("unix:") {
        Some(path) => Ok(PathBuf::from(path.strip_prefix("//").unwrap_or(path))),
        None if server.contains("://") || !server.contains('/') => {
            Err(not_a_socket(server.as_ref()))
        }
        None => Ok(PathBuf::from(server)),
    }
}

/// Checks that the kernel takes a socket's path.
///
/// # Errors
/// [`Error::SocketPath`] over 107 bytes.
pub fn check_length(path: &Path) -> Result<(), Error> {
    let n_bytes = path.as_os_str().as_bytes().len();
    if n_bytes <= PATH_MAX {
        return Ok(());
    }
    let why = format!(
        "{} has {n_bytes} bytes, and the kernel takes {PATH_MAX}; set GPOOL_SOCKET to a shorter \
         path",
        path.display()
    );
    Err(Error::SocketPath { why })
}

/// Checks that the folder of the user's own socket is theirs alone, where it is not one that the
/// system made for them. One that is missing is no error: there is no socket in it.
///
/// # Errors
/// [`Error::SocketNotOurs`] if somebody else owns it or may write to it.
pub fn check_folder(folder: &Path, uid: u32) -> Result<(), Error> {
    let not_ours = |why: String| Error::SocketNotOurs { folder: folder.to_owned(), why };
    // Not through a link, which somebody else may have put there.
    let found = match fs::symlink_metadata(folder) {
        Ok(found) => found,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(not_ours(error.to_string())),
    };
    if !found.is_dir() {
        return Err(not_ours("it is no folder".to_owned()));
    }
    if found.uid() != uid {
        return Err(not_ours(format!("user {} owns it, and you are {uid}", found.uid())));
    }
    match found.mode() & 0o777 {
        0o700 => Ok(()),
        mode => Err(not_ours(format!("its mode is {mode:03o} and should be 700"))),
    }
}

/// The socket on which somebody answers.
///
/// # Errors
/// [`Error::Unreachable`] with each socket that was tried, [`Error::MayNotConnect`],
/// [`Error::SocketNotOurs`].
pub(crate) fn find(place: &Place, uid: u32) -> Result<PathBuf, Error> {
    let (own, machine) = match place {
        // Whoever names a socket means that one; the request itself finds out whether it answers.
        Place::Named(path) => return Ok(path.clone()),
        Place::Usual { own, machine } => (own, machine),
    };
    let mut tried = Vec::new();
    if own != machine {
        if let Some(folder) = own.parent().filter(|folder| folder.starts_with("/tmp")) {
            check_folder(folder, uid)?;
        }
        match UnixStream::connect(own) {
            Ok(_) => return Ok(own.clone()),
            Err(error) => tried.push((own.clone(), in_words(&error))),
        }
    }
    match UnixStream::connect(machine) {
        Ok(_) => return Ok(machine.clone()),
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            return Err(Error::MayNotConnect { socket: machine.clone() });
        }
        Err(error) => tried.push((machine.clone(), in_words(&error))),
    }
    Err(Error::Unreachable { tried })
}

/// What a failure to connect means.
pub(crate) fn in_words(error: &std::io::Error) -> String {
    match error.kind() {
        ErrorKind::NotFound => "there is no such socket".to_owned(),
        ErrorKind::ConnectionRefused => "nobody listens (its server has ended)".to_owned(),
        ErrorKind::PermissionDenied => "you may not connect to it".to_owned(),
        _ => error.to_string(),
    }
}
