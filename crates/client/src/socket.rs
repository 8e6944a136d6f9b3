//! The path of a server's socket: for commands that look for a server, and for `gpool up`, which
//! starts one. Makes no folders.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use gpool_wire::live;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

use crate::contexts::{self, Contexts};
use crate::error::Error;
use crate::remote::{Address, Remote};

/// The socket of the machine's server.
pub const MACHINE_SOCKET: &str = "/run/gpool/api.sock";

/// Most bytes in the path of a socket. Source: `sun_path` in `unix(7)`, without the final zero.
pub const PATH_MAX: usize = 107;

/// Longest time to wait for a connection. A stopped server accepts none once its queue is full.
pub(crate) const CONNECT_PATIENCE: Duration = Duration::from_secs(3);
/// The same for finding a server.
const FIND_PATIENCE: Duration = Duration::from_millis(200);

/// Connects to a socket.
///
/// # Errors
/// `WouldBlock` if the server accepts no connection in time; otherwise the system's error.
pub fn connect(path: &Path, patience: Duration) -> io::Result<UnixStream> {
    let address = SocketAddrUnix::new(path)?;
    let (family, kind, flags) = (AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC);
    let socket = rustix::net::socket_with(family, kind, flags, None)?;
    set_socket_timeout(&socket, Timeout::Send, Some(patience))?;
    rustix::net::connect(&socket, &address)?;
    set_socket_timeout(&socket, Timeout::Send, None)?;
    Ok(UnixStream::from(socket))
}

/// The liveness socket of the server with this API socket.
#[must_use]
pub fn liveness(api: &Path) -> PathBuf {
    let mut name = api.as_os_str().to_owned();
    name.push(live::SUFFIX);
    PathBuf::from(name)
}

/// A socket to use, or the usual ones to try.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ServerLocation {
    /// Named explicitly; no other is tried.
    Named(PathBuf),
    /// On the network.
    Remote(Box<Remote>),
    /// The user's own, then the machine's.
    Usual {
        /// The user's own; for root, the machine's.
        own: PathBuf,
        /// The machine's.
        machine: PathBuf,
    },
}

/// The way to a server.
#[derive(Debug, Clone)]
pub(crate) enum Way {
    /// By its socket.
    Socket(PathBuf),
    /// Over the network.
    Remote(Arc<Remote>),
}

/// The environment that decides where to look.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Surroundings {
    /// `GPOOL_SERVER`.
    pub server: Option<OsString>,
    /// `GPOOL_SOCKET`.
    pub socket: Option<OsString>,
    /// `--context`.
    pub context_flag: Option<String>,
    /// `GPOOL_CONTEXT`.
    pub context: Option<String>,
    /// `GPOOL_TOKEN`.
    pub token: Option<String>,
    /// The file with the contexts.
    pub contexts: Option<PathBuf>,
    /// `XDG_RUNTIME_DIR`.
    pub runtime_dir: Option<OsString>,
    /// The user.
    pub uid: u32,
}

impl Surroundings {
    /// The environment of this process.
    #[must_use]
    pub fn of_this_process() -> Self {
        let named = |name| env::var_os(name).filter(|value| !value.is_empty());
        let text = |name| env::var(name).ok().filter(|value| !value.is_empty());
        Self {
            context_flag: None,
            context: text("GPOOL_CONTEXT"),
            token: text("GPOOL_TOKEN"),
            contexts: contexts::usual_path(),
            server: named("GPOOL_SERVER"),
            socket: named("GPOOL_SOCKET"),
            runtime_dir: named("XDG_RUNTIME_DIR"),
            uid: rustix::process::geteuid().as_raw(),
        }
    }

    /// The socket of the user's own server, whether it runs or not. For root it is the machine's.
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

    /// Decides where to look: `--server`, `--context`, `GPOOL_SERVER`, `GPOOL_CONTEXT`,
    /// `GPOOL_SOCKET`, the current context, or the usual sockets.
    ///
    /// # Errors
    /// [`Error::SocketPath`] for a path that is too long, and for a name that is no server;
    /// [`Error::Context`] if there is no such context.
    pub fn place(&self, flag: Option<&str>) -> Result<ServerLocation, Error> {
        match self.remote(flag)? {
            Some(remote) => Ok(ServerLocation::Remote(Box::new(remote))),
            None => self.local_place(flag),
        }
    }

    /// Decides where to look on this machine.
    ///
    /// # Errors
    /// [`Error::SocketPath`] as for [`Surroundings::place`].
    pub fn local_place(&self, flag: Option<&str>) -> Result<ServerLocation, Error> {
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
            Some(path) => check_length(&path).map(|()| ServerLocation::Named(path)),
            None => {
                let own = self.own_socket();
                check_length(&own)?;
                Ok(ServerLocation::Usual { own, machine: PathBuf::from(MACHINE_SOCKET) })
            }
        }
    }

    /// The server on the network, if one is meant.
    fn remote(&self, flag: Option<&str>) -> Result<Option<Remote>, Error> {
        let read = || self.contexts.as_deref().map_or(Ok(Contexts::default()), Contexts::read);
        let at = |text: &str| -> Result<Option<Remote>, Error> {
            if !text.starts_with("https://") {
                return Ok(None);
            }
            let address = Address::read(text).map_err(|why| Error::Context { why })?;
            read()?.at(address, self.token.clone()).map(Some)
        };
        let server = self.server.as_ref().and_then(|server| server.to_str());
        match (flag, &self.context_flag, server, &self.context, &self.socket) {
            (Some(flag), ..) => at(flag),
            (None, Some(name), ..) => read()?.find(name),
            (None, None, Some(server), ..) => at(server),
            (None, None, None, Some(name), _) => read()?.find(name),
            (None, None, None, None, Some(_)) => Ok(None),
            (None, None, None, None, None) => {
                let contexts = read()?;
                contexts.current.as_deref().map_or(Ok(None), |name| contexts.find(name))
            }
        }
    }
}

fn not_a_socket(server: &std::ffi::OsStr) -> Error {
    let why = format!("{server:?} is neither unix:/path/api.sock nor https://host:7443");
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

/// Checks that the kernel accepts a socket's path.
///
/// # Errors
/// [`Error::SocketPath`] if it has more than 107 bytes.
pub fn check_length(path: &Path) -> Result<(), Error> {
    let n_bytes = path.as_os_str().as_bytes().len();
    if n_bytes <= PATH_MAX {
        return Ok(());
    }
    let why = format!(
        "{} has {n_bytes} bytes, and the kernel allows {PATH_MAX}; set GPOOL_SOCKET to a shorter \
         path",
        path.display()
    );
    Err(Error::SocketPath { why })
}

/// Checks that the folder of the user's own socket belongs to the user alone, if it is not a
/// system-made folder. A missing folder is no error: it has no socket.
///
/// # Errors
/// [`Error::SocketNotOurs`] if another user owns it or may write to it.
pub fn check_folder(folder: &Path, uid: u32) -> Result<(), Error> {
    // Links are not followed, since another user may have made them.
    let found = match fs::symlink_metadata(folder) {
        Ok(found) => found,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => {
            return Err(Error::SocketNotOurs { folder: folder.to_owned(), why: error.to_string() });
        }
    };
    let why = if found.uid() != uid {
        format!("user {} owns it, and you are {uid}", found.uid())
    } else if !found.is_dir() {
        "it is not a folder".to_owned()
    } else if found.mode() & 0o777 != 0o700 {
        format!("its mode is {:03o}, and must be 700", found.mode() & 0o777)
    } else {
        return Ok(());
    };
    Err(Error::SocketNotOurs { folder: folder.to_owned(), why })
}

/// Returns a path of another user in a world-writable folder on the way to `path`: that user
/// controls everything in it. Links on the way are checked and followed.
#[must_use]
pub fn stranger_on(path: &Path, uid: u32) -> Option<Stranger> {
    // If the path does not exist yet, its nearest existing ancestor.
    let whole = path.ancestors().find_map(|entry| fs::canonicalize(entry).ok());
    let ways = [Some(path.to_owned()), whole.filter(|whole| whole != path)];
    ways.into_iter().flatten().find_map(|way| {
        way.ancestors().find_map(|entry| {
            let found = fs::symlink_metadata(entry).ok()?;
            let folder = fs::metadata(entry.parent()?).ok()?;
            let is_open = folder.mode() & 0o002 != 0;
            let is_theirs = found.uid() != uid && found.uid() != 0;
            (is_open && is_theirs).then(|| Stranger { path: entry.to_owned(), uid: found.uid() })
        })
    })
}

/// A path of another user in a world-writable folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stranger {
    /// The path.
    pub path: PathBuf,
    /// The user.
    pub uid: u32,
}

/// Finds the socket of a server that accepts connections.
///
/// If another user has made the folder of the user's own socket, that socket is skipped and the
/// machine's is used.
///
/// # Errors
/// [`Error::Unreachable`] with each socket that was tried, [`Error::MayNotConnect`],
/// [`Error::SocketNotOurs`] if the user's own folder is open to others.
pub(crate) fn find(place: &ServerLocation, uid: u32) -> Result<Way, Error> {
    let (own, machine) = match place {
        // Only this one is tried; the request itself shows whether it answers.
        ServerLocation::Named(path) => return Ok(Way::Socket(path.clone())),
        ServerLocation::Remote(remote) => return Ok(Way::Remote(Arc::new(Remote::clone(remote)))),
        ServerLocation::Usual { own, machine } => (own, machine),
    };
    find_usual(own, machine, uid).map(Way::Socket)
}

fn find_usual(own: &Path, machine: &Path, uid: u32) -> Result<PathBuf, Error> {
    let mut tried = Vec::new();
    if own != machine {
        match skipped(own, uid)? {
            Some(why) => tried.push((own.to_owned(), why)),
            None => match connect(own, FIND_PATIENCE) {
                Ok(stream) if is_trusted(&stream, uid) => return Ok(own.to_owned()),
                Ok(_) => tried.push((own.to_owned(), "another user listens on it".to_owned())),
                // The server is there but accepts no connections; the request reports that.
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(own.to_owned()),
                Err(error) => tried.push((own.to_owned(), in_words(&error))),
            },
        }
    }
    match connect(machine, FIND_PATIENCE) {
        Ok(_) => return Ok(machine.to_owned()),
        Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(machine.to_owned()),
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            return Err(Error::MayNotConnect { socket: machine.to_owned() });
        }
        Err(error) => tried.push((machine.to_owned(), in_words(&error))),
    }
    Err(Error::Unreachable { tried })
}

/// Why the user's own socket is skipped: another user made its folder.
///
/// # Errors
/// [`Error::SocketNotOurs`] if the folder belongs to the user and is open to others.
pub fn skipped(own: &Path, uid: u32) -> Result<Option<String>, Error> {
    let Some(folder) = own.parent().filter(|folder| folder.starts_with("/tmp")) else {
        return Ok(stranger_on(own, uid).map(|it| it.in_words()));
    };
    match check_folder(folder, uid) {
        Ok(()) => Ok(None),
        Err(error) => match stranger_on(folder, uid) {
            Some(stranger) => Ok(Some(stranger.in_words())),
            None => Err(error),
        },
    }
}

impl Stranger {
    /// The reason for skipping the path, for users.
    #[must_use]
    pub fn in_words(&self) -> String {
        format!("skipped: user {} created {}", self.uid, self.path.display())
    }
}

/// Whether the listener is trusted: a process of the user or of root.
fn is_trusted(stream: &UnixStream, uid: u32) -> bool {
    let peer = rustix::net::sockopt::socket_peercred(stream);
    peer.is_ok_and(|peer| peer.uid.as_raw() == uid || peer.uid.is_root())
}

/// The reason of a failed connection, for users.
pub(crate) fn in_words(error: &std::io::Error) -> String {
    match error.kind() {
        ErrorKind::NotFound => "there is no such socket".to_owned(),
        ErrorKind::ConnectionRefused => {
            "no process listens there (its server has ended)".to_owned()
        }
        ErrorKind::PermissionDenied => "you may not connect to it".to_owned(),
        ErrorKind::WouldBlock => "its server accepts no connections".to_owned(),
        _ => error.to_string(),
    }
}
