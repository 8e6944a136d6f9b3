//! The liveness check: a socket beside that of the API on which a thread of its own answers. It
//! reads nothing and waits for nothing, so it answers while the core or the API is stuck, and is
//! silent only if the whole process is.

use std::io::Write as _;
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use gpool_model::Revision;
use gpool_wire::live::{Liveness, SUFFIX};
use rustix::net::Shutdown;

/// Pause after the kernel could not give a connection (no file descriptors).
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// What the core is busy with, written by its thread alone.
#[derive(Debug, Default)]
pub struct Pulse {
    /// When this process first looked at the clock. Times are milliseconds since then, plus one: 0
    /// is no time.
    began: OnceLock<Instant>,
    step_since: AtomicU64,
    /// The newest revision that is durable, and since when an older one is waited for.
    durable: AtomicU64,
    commit_since: AtomicU64,
}

impl Pulse {
    fn now(&self) -> u64 {
        let since = self.began.get_or_init(Instant::now).elapsed();
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX).saturating_add(1)
    }

    /// Counts as one step of the core.
    pub fn step<T>(&self, step: impl FnOnce() -> T) -> T {
        self.step_since.store(self.now(), Ordering::Relaxed);
        let done = step();
        self.step_since.store(0, Ordering::Relaxed);
        done
    }

    /// Records the newest revision and the newest durable one.
    pub fn commits(&self, newest: Revision, durable: Revision) {
        let has_moved = self.durable.swap(durable.0, Ordering::Relaxed) != durable.0;
        let waits = durable < newest;
        if !waits {
            self.commit_since.store(0, Ordering::Relaxed);
        } else if has_moved || self.commit_since.load(Ordering::Relaxed) == 0 {
            self.commit_since.store(self.now(), Ordering::Relaxed);
        }
    }

    /// The present moment of the core, for the liveness check.
    pub fn liveness(&self) -> Liveness {
        let now = self.now();
        let since = |at: &AtomicU64| match at.load(Ordering::Relaxed) {
            0 => 0,
            at => now.saturating_sub(at),
        };
        Liveness {
            pid: std::process::id(),
            core_ms: since(&self.step_since),
            store_ms: since(&self.commit_since),
        }
    }
}

/// The thread that answers; it ends when this is dropped.
pub struct Live {
    listener: Arc<UnixListener>,
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    path: PathBuf,
}

impl Live {
    /// Listens beside the API. What an earlier server left there is replaced: the API's socket is
    /// this server's already.
    pub fn listen_near(
        api: &Path,
        pulse: impl Fn() -> Liveness + Send + 'static,
    ) -> anyhow::Result<Self> {
        let mut path = api.as_os_str().to_owned();
        path.push(SUFFIX);
        let path = PathBuf::from(path);
        match path.symlink_metadata() {
            Ok(about) if about.file_type().is_socket() => std::fs::remove_file(&path)
                .with_context(|| format!("can't replace {}", path.display()))?,
            Ok(_) => bail!("{} exists and is not a socket: move it away", path.display()),
            // There is none.
            Err(_) => {}
        }
        let listener = UnixListener::bind(&path)
            .with_context(|| format!("can't listen on {}", path.display()))?;
        let mode = std::fs::Permissions::from_mode(0o666);
        std::fs::set_permissions(&path, mode)
            .with_context(|| format!("can't open {} to other users", path.display()))?;
        let (listener, ends) = (Arc::new(listener), Arc::new(AtomicBool::new(false)));
        let (accepts, has_to_end) = (Arc::clone(&listener), Arc::clone(&ends));
        let work = move || {
            while !has_to_end.load(Ordering::Relaxed) {
                match accepts.accept() {
                    Ok((stream, _)) => answer(&stream, &pulse()),
                    Err(_) => std::thread::sleep(ACCEPT_PAUSE),
                }
            }
        };
        let thread = std::thread::Builder::new().name("live".to_owned()).spawn(work);
        let thread = Some(thread.context("can't start a thread")?);
        Ok(Self { listener, ends, thread, path })
    }
}

/// Never waits for a peer that does not read: the answer fits into an empty socket buffer.
fn answer(mut stream: &UnixStream, liveness: &Liveness) {
    let line = serde_json::to_string(liveness).expect("it is plain data");
    if stream.set_nonblocking(true).is_ok() {
        let _ = stream.write_all(format!("{line}\n").as_bytes());
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        drop(std::fs::remove_file(&self.path));
        // Wakes the thread from its wait for a connection.
        let _ = rustix::net::shutdown(&*self.listener, Shutdown::Both);
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}

/// What `pulse` tells at each moment.
pub fn of(pulse: Arc<Pulse>) -> impl Fn() -> Liveness + Send + 'static {
    move || pulse.liveness()
}
