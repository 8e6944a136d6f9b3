//! The API for jobs where the server is on another machine: a socket like that of a server. Each
//! connection is carried to the server, where it counts as one of the user of the job.

use std::fs::Permissions;
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use gpool_agent::UserRule;
use gpool_client::Client;
use gpool_link::{Connection, remote};
use gpool_wire::Problem;

/// How long a client may take for the first request of a connection that is refused.
const REQUEST: Duration = Duration::from_secs(5);
/// The most connections at once; further ones are closed.
const CONNECTIONS_MAX: usize = 256;

/// The path of the socket in the state folder of an agent.
#[must_use]
pub fn socket(state_dir: &Path) -> PathBuf {
    state_dir.join("api.sock")
}

/// Begins to listen. The caller holds the lock of the state folder: the socket of an earlier agent
/// is replaced.
///
/// # Errors
/// The socket can't be made.
pub fn listen(path: &Path, client: Arc<Mutex<Client>>, users: UserRule) -> io::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let listener = UnixListener::bind(path)?;
    // The kernel names the user of each connection.
    std::fs::set_permissions(path, Permissions::from_mode(0o666))?;
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
    std::thread::Builder::new().name("api".to_owned()).spawn(accept).map(drop)
}

/// Carries one connection, until both ends have ended it.
fn carry(stream: UnixStream, client: &Mutex<Client>, users: &UserRule) -> io::Result<()> {
    let uid = rustix::net::sockopt::socket_peercred(&stream)?.uid.as_raw();
    let client = client.lock().unwrap_or_else(PoisonError::into_inner).clone();
    match client.agent_api(&users.user_of(uid)) {
        Ok(server) => {
            let server = Connection { stream: server.stream, early: server.early };
            remote::join(Connection { stream, early: Vec::new() }, server)
        }
        Err(error) => refuse(&stream, &error.problem()),
    }
}

/// Answers the first request of a connection with the reason why there is none to the server.
fn refuse(mut stream: &UnixStream, problem: &Problem) -> io::Result<()> {
    let body = serde_json::to_string(problem)?;
    let answer = format!(
        "HTTP/1.1 {} -\r\ncontent-type: application/problem+json\r\ncontent-length: {}\r\n\
         connection: close\r\n\r\n{body}",
        problem.status,
        body.len()
    );
    // The request is read, or the client could lose the answer.
    stream.set_read_timeout(Some(REQUEST))?;
    let _ = stream.read(&mut [0; 16 * 1024])?;
    stream.write_all(answer.as_bytes())
}
