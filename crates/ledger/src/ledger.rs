//! The agent's side of a ledger.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt, chown};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};

use thiserror::Error;

use crate::ask::QuestionSocket;
use crate::grants::{self, Gate, Mapped, Share};
use crate::layout::{DEVICES_MAX, FOLDER_MAX, GRANTS_FILE, Grants, SOCKET_FILE, USAGE_FILE};
use crate::usage::{self, CudaProcess, UsageError};

/// The time between two looks at calls in flight.
const POLL: Duration = Duration::from_millis(1);

/// The ledger of a job on this node.
pub struct Ledger {
    folder: PathBuf,
    grants: Mapped,
    usage: File,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Owner {
    pub uid: u32,
    pub gid: u32,
}

#[derive(Debug, Error)]
pub enum OpenError {
    /// A file is missing or can't be mapped.
    #[error("the ledger can't be opened")]
    File(#[from] io::Error),
    /// The agent's own file is incomplete or of another version.
    #[error("the ledger is incomplete or of another version")]
    Foreign,
}

impl Ledger {
    /// Creates the ledger in an existing folder that the job's user can enter. `owner` is the job's
    /// user, if the agent runs as another one; then only the agent can write limits.
    ///
    /// # Errors
    /// If there are too many devices, the path is too long, or a file can't be created.
    pub fn create(
        folder: &Path,
        shares: &[Share],
        answer_within: Duration,
        owner: Option<Owner>,
    ) -> io::Result<Self> {
        let refused = |why: String| Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        if shares.len() > DEVICES_MAX {
            let n_devices = shares.len();
            return refused(format!("a ledger has at most {DEVICES_MAX} devices, not {n_devices}"));
        }
        if !folder.is_absolute() || folder.as_os_str().len() > FOLDER_MAX {
            let folder = folder.display();
            return refused(format!("{folder} is not absolute, or longer than {FOLDER_MAX} bytes"));
        }
        let new = |name: &str, mode| {
            let mut options = OpenOptions::new();
            options.read(true).write(true).create_new(true).mode(mode);
            options.open(folder.join(name))
        };
        let file = new(GRANTS_FILE, 0o644)?;
        file.set_permissions(fs::Permissions::from_mode(0o644))?;
        file.set_len(size_of::<Grants>() as u64)?;
        let usage = new(USAGE_FILE, 0o600)?;
        usage::create(&usage)?;
        if let Some(owner) = owner {
            chown(folder.join(USAGE_FILE), Some(owner.uid), Some(owner.gid))?;
        }
        let grants = Mapped::new(&file)?;
        grants.fill(shares, u32::try_from(answer_within.as_millis()).unwrap_or(u32::MAX));
        Ok(Self { folder: folder.to_owned(), grants, usage })
    }

    /// Opens the ledger of a job that runs, after a restart of the agent.
    ///
    /// # Errors
    /// If it is missing or was not made by this version.
    pub fn open(folder: &Path) -> Result<Self, OpenError> {
        let open = |name: &str| {
            let path = folder.join(name);
            OpenOptions::new().read(true).write(true).custom_flags(libc::O_NOFOLLOW).open(path)
        };
        let file = open(GRANTS_FILE)?;
        if file.metadata()?.len() != size_of::<Grants>() as u64 {
            return Err(OpenError::Foreign);
        }
        let grants = Mapped::new(&file)?;
        if !grants.is_whole() {
            return Err(OpenError::Foreign);
        }
        Ok(Self { folder: folder.to_owned(), grants, usage: open(USAGE_FILE)? })
    }

    /// Listens for questions. An older socket is replaced.
    ///
    /// # Errors
    /// If the socket can't be created, for example because the path of the folder is too long.
    pub fn listen(&self, owner: Option<Owner>) -> io::Result<QuestionSocket> {
        let path = self.folder.join(SOCKET_FILE);
        let draft = self.folder.join("socket.new");
        let _ = fs::remove_file(&draft);
        let listener = UnixListener::bind(&draft)?;
        fs::set_permissions(&draft, fs::Permissions::from_mode(0o600))?;
        if let Some(owner) = owner {
            chown(&draft, Some(owner.uid), Some(owner.gid))?;
        }
        fs::rename(draft, path)?;
        QuestionSocket::new(listener)
    }

    /// The devices with their limits.
    #[must_use]
    pub fn shares(&self) -> Vec<Share> {
        self.grants.shares()
    }

    /// Sets how long a process waits for memory within the job's request while that is lent, or no
    /// agent answers.
    pub fn wait_for_request(&self, time: Duration) {
        self.grants.set_request_wait(u32::try_from(time.as_millis()).unwrap_or(u32::MAX));
    }

    /// Lets the job use `bytes` of a device without asking, up to its limit. Less than it uses
    /// takes nothing away, but no allocation succeeds until it is below.
    pub fn grant(&self, device: usize, bytes: u64) {
        if let Some(device) = self.grants.device(device) {
            device.granted.store(bytes.min(device.limit.load(SeqCst)), SeqCst);
        }
    }

    /// Changes the request and the limit of the job on a device, and reduces the grant to the
    /// limit.
    pub fn resize(&self, device: usize, request: u64, limit: u64) {
        if let Some(device) = self.grants.device(device) {
            device.request.store(request, SeqCst);
            device.limit.store(limit, SeqCst);
            device.granted.fetch_min(limit, SeqCst);
        }
    }

    /// Notes the new device of a job that a restore moves. Running processes keep their place in
    /// the ledger. New ones find the device by the name in their environment.
    pub fn moved(&self, device: usize, uuid: [u8; 16]) {
        if let Some(device) = self.grants.all().nth(device) {
            grants::write_uuid(&device.uuid, uuid);
        }
    }

    /// Adds devices without limits to a new ledger, so that the job can be moved.
    pub fn add_unlimited(&self, uuids: &[[u8; 16]]) {
        self.grants.add_unlimited(uuids);
    }

    /// Whether new processes of the job find its new device after a move. An earlier version of the
    /// ledger does not tell them.
    #[must_use]
    pub fn can_move(&self) -> bool {
        self.grants.has_names()
    }

    /// The processes of the job that use CUDA, dead ones included.
    ///
    /// # Errors
    /// If the job damaged the file.
    pub fn processes(&self) -> Result<Vec<CudaProcess>, UsageError> {
        Ok(usage::read(&self.usage)?.0)
    }

    /// Clears the slots of dead processes, so that their memory counts no more, and returns them.
    ///
    /// # Errors
    /// If the job damaged the file.
    pub fn take_back_dead(&self) -> Result<Vec<CudaProcess>, UsageError> {
        let mut dead = self.processes()?;
        dead.retain(|process| !process.lives());
        for process in &dead {
            usage::clear(&self.usage, process)?;
        }
        Ok(dead)
    }

    #[must_use]
    pub fn gate(&self) -> Gate {
        self.grants.gate()
    }

    /// Sets the gate. Opening it wakes the waiting threads.
    pub fn set_gate(&self, gate: Gate) {
        self.grants.set_gate(gate);
    }

    /// Says whether the driver has checkpointed all processes. Queries then succeed at a gate that
    /// is not open, since all work has ended; otherwise they wait. [`Self::set_gate`] resets it.
    pub fn set_empty(&self, is_empty: bool) {
        self.grants.set_empty(is_empty);
    }

    /// Waits until no live process is in a synchronisation or query. With a gate that is not open,
    /// none can begin after that. Returns whether it is so before the deadline.
    ///
    /// # Errors
    /// If the job damaged the file.
    pub fn wait_until_idle(&self, timeout: Duration) -> Result<bool, UsageError> {
        let begin = Instant::now();
        loop {
            let processes = self.processes()?;
            let is_busy = |process: &CudaProcess| process.n_in_flight > 0 && process.lives();
            if !processes.iter().any(is_busy) {
                return Ok(true);
            }
            if begin.elapsed() >= timeout {
                return Ok(false);
            }
            std::thread::sleep(POLL);
        }
    }

    /// Live threads that wait at the gate.
    ///
    /// # Errors
    /// If the job damaged the file.
    pub fn n_waiting(&self) -> Result<u32, UsageError> {
        let processes = self.processes()?;
        let waiting = processes.iter().filter(|it| it.n_waiting > 0 && it.lives());
        Ok(waiting.fold(0, |sum, it| sum.saturating_add(it.n_waiting)))
    }

    /// Whether a process found no slot: the ledger can't count it, and the gate can't stop it.
    ///
    /// # Errors
    /// If the job damaged the file.
    pub fn has_uncounted(&self) -> Result<bool, UsageError> {
        Ok(usage::read(&self.usage)?.1)
    }
}
