//! The API for jobs of a node whose server is on another machine: a socket like that of a server.
//! Each connection is carried to the server, where it counts as one of the user of the job.

use std::fs::Permissions;
use std::io::{self, ErrorKind};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use gpool_agent::UserRule;
use gpool_client::Client;
use gpool_link::{Connection, remote};

/// The most connections at once; further ones are closed.
const CONNECTIONS_MAX: usize = 256;

/// Begins to listen in the state folder of an agent; returns the path of the socket.
///
/// # Errors
/// The socket can't be made.
pub fn listen(
    state_dir: &Path,
    client: Arc<Mutex<Client>>,
    users: UserRule,
) -> io::Result<PathBuf> {
    let path = state_dir.join("api.sock");
    match std::fs::remove_file(&path) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        // That of an earlier agent, which has ended: this one holds the lock of the folder.
        _ => {}
    }
    let listener = UnixListener::bind(&path)?;
    // The kernel names the user of each connection.
    std::fs::set_permissions(&path, Permissions::from_mode(0o666))?;
    let n_open = Arc::new(AtomicUsize::new(0));
    let users = Arc::new(users);
    let accept = move || {
        for stream in listener.incoming().flatten() {
            if n_open.load(Ordering::Relaxed) >= CONNECTIONS_MAX {
                continue;
            }
            n_open.fetch_add(1, Ordering::Relaxed);
            let (client, users, n_open) = (client.clone(), users.clone(), n_open.clone());
            let carry = move || {
                if let Err(error) = carry(stream, &client, &users) {
                    tracing::info!(%error, "a job has no connection to the server");
                }
                n_open.fetch_sub(1, Ordering::Relaxed);
            };
            // Without a thread, the connection is closed.
            drop(std::thread::Builder::new().name("api".to_owned()).spawn(carry));
        }
    };
    std::thread::Builder::new().name("api".to_owned()).spawn(accept)?;
    Ok(path)
}

/// Carries one connection, until both ends have ended it.
fn carry(stream: UnixStream, client: &Mutex<Client>, users: &UserRule) -> io::Result<()> {
    let uid = rustix::net::sockopt::socket_peercred(&stream)?.uid.as_raw();
    let client = client.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let server = client.agent_api(&users.user_of(uid)).map_err(io::Error::other)?;
    let server = Connection { stream: server.stream, early: server.early };
    remote::join(Connection { stream, early: Vec::new() }, server)
}
