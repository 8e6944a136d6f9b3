//! The device memory of live processes: one small file each, in a folder beside the state file. A
//! dead process has no memory, whatever its file says, as with the real driver.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use crate::limits::{self, Limit};

/// The folder of live processes.
#[derive(Debug, Clone)]
pub struct Live {
    folder: PathBuf,
}

/// The folder while no other process changes it.
pub struct Locked<'a> {
    live: &'a Live,
    /// The kernel releases the lock when the file is closed, also by the death of the process.
    _lock: File,
}

/// The device memory of one process.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Record {
    /// Its process ID.
    pub pid: u32,
    /// Its start time in clock ticks, so that a reused process ID is recognised.
    pub start: u64,
    /// Bytes by the device's index in the state file.
    pub used: Vec<u64>,
}

impl Live {
    /// The folder that belongs to a state file.
    #[must_use]
    pub fn beside(state_file: &Path) -> Self {
        Self { folder: state_file.with_extension("live") }
    }

    /// The socket on which a process answers checkpoint calls.
    #[must_use]
    pub fn socket(&self, pid: u32) -> PathBuf {
        self.folder.join(format!("{pid}.sock"))
    }

    fn limits_file(&self) -> PathBuf {
        self.folder.join("limits")
    }

    /// Waits until no other process changes the folder.
    ///
    /// # Errors
    /// If the folder can't be created or locked.
    pub fn lock(&self) -> io::Result<Locked<'_>> {
        fs::create_dir_all(&self.folder)?;
        let lock = File::create(self.folder.join("lock"))?;
        lock.lock()?;
        Ok(Locked { live: self, _lock: lock })
    }

    /// The records of live processes.
    ///
    /// # Errors
    /// If the folder can't be locked or read.
    pub fn records(&self) -> io::Result<Vec<Record>> {
        if self.folder.exists() { self.lock()?.records() } else { Ok(Vec::new()) }
    }

    /// The lowest hard limit of this process's cgroups on a device, and the memory that counts
    /// against it.
    ///
    /// # Errors
    /// If the folder can't be locked or read.
    pub fn own_limit(&self, device: usize) -> io::Result<Option<(u64, u64)>> {
        if !self.limits_file().exists() {
            return Ok(None);
        }
        let locked = self.lock()?;
        let mut limits = locked.limits();
        limits.retain(|limit| limit.device == device && limit.covers(std::process::id()));
        let records = locked.records()?;
        let lowest = limits.iter().min_by_key(|limit| limit.hard);
        Ok(lowest.map(|limit| (limit.hard, limit.used(&records))))
    }
}

impl Locked<'_> {
    /// The records of live processes; removes those of dead ones.
    ///
    /// # Errors
    /// If the folder can't be read.
    pub fn records(&self) -> io::Result<Vec<Record>> {
        let mut records = Vec::new();
        for entry in fs::read_dir(&self.live.folder)? {
            let path = entry?.path();
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            let Ok(pid) = name.parse() else { continue };
            match Record::parse(pid, &fs::read_to_string(&path)?) {
                Some(record) if start_of(pid) == Some(record.start) => records.push(record),
                _ => {
                    fs::remove_file(&path)?;
                    let _ = fs::remove_file(self.live.socket(pid));
                }
            }
        }
        records.sort_by_key(|record| record.pid);
        Ok(records)
    }

    /// The limits of cgroups.
    #[must_use]
    pub fn limits(&self) -> Vec<Limit> {
        limits::read(&self.live.limits_file())
    }

    /// Replaces the limits of cgroups.
    ///
    /// # Errors
    /// If the file can't be written.
    pub fn write_limits(&self, limits: &[Limit]) -> io::Result<()> {
        limits::write(&self.live.limits_file(), limits)
    }

    /// Writes the record of a process.
    ///
    /// # Errors
    /// If the file can't be written.
    pub fn write(&self, record: &Record) -> io::Result<()> {
        let used: Vec<String> = record.used.iter().map(u64::to_string).collect();
        let text = format!("{} {}\n", record.start, used.join(" "));
        // Atomic: a process that is killed while it writes must not leave half a record.
        let draft = self.live.folder.join("draft");
        fs::write(&draft, text)?;
        fs::rename(draft, self.live.folder.join(record.pid.to_string()))
    }
}

impl Limit {
    /// Bytes of the processes in the cgroup.
    #[must_use]
    pub fn used(&self, records: &[Record]) -> u64 {
        let covered = records.iter().filter(|record| self.covers(record.pid));
        covered.filter_map(|record| record.used.get(self.device)).sum()
    }
}

impl Record {
    fn parse(pid: u32, text: &str) -> Option<Self> {
        let mut numbers = text.split_whitespace().map(str::parse);
        let start = numbers.next()?.ok()?;
        let used = numbers.collect::<Result<Vec<u64>, _>>().ok()?;
        Some(Self { pid, start, used })
    }
}

/// The start time of a process in clock ticks since boot; `None` if it has ended.
#[must_use]
pub fn start_of(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name is in parentheses and may contain anything.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    let state = fields.next()?;
    let is_dead = matches!(state, "Z" | "X");
    // Field 22; the state is field 3.
    fields.nth(18).and_then(|field| field.parse().ok()).filter(|_| !is_dead)
}
