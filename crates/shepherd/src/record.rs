//! The claim of a task: a file that exists once the task may have been launched, and is locked
//! while its shepherd lives. Each line has a checksum. Nothing is synced: the page cache survives
//! the death of every process, and the boot ID shows a reboot.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use gpool_model::agent::{TaskEnd, Terms};
use gpool_model::id::{DeviceUuid, Generation, TaskId};
use gpool_model::job::ExitStatus;
use gpool_model::unit::{Millis, Timestamp};
use gpool_model::{Sharer, Slot};
use gpool_node::converge::Seats;
use gpool_sys::cgroup::Site;
use gpool_sys::{clock, lock};
use rustix::fs::{CWD, FallocateFlags, RenameFlags};
use serde::{Deserialize, Serialize};

use crate::layout::Layout;

/// Bytes that a claim gets when it is made; most need less.
const RESERVE: u64 = 8192;

/// The first line: the claimant and the task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claimant {
    pub task: TaskId,
    pub generation: Generation,
    /// The shepherd's process id.
    pub shepherd: u32,
    /// A time in ticks since boot, not before the shepherd's start: no process of the task is
    /// older.
    pub shepherd_started: u64,
    /// The process that forked the shepherd, and that adopts the job's processes when the shepherd
    /// dies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nursery: Option<u32>,
    /// The boot that the process IDs belong to.
    pub boot_id: String,
    /// The user that the task runs as.
    pub uid: u32,
    /// The place of its control group.
    pub site: Site,
    /// The task's parts of devices, where it is.
    #[serde(default)]
    pub slots: Vec<Slot>,
    /// The devices that the server booked for it, by slot.
    #[serde(default)]
    pub booked: Vec<DeviceUuid>,
    /// The job, as others on its devices see it, if it has shares.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sharer: Option<Sharer>,
    /// How long it does not use its devices before it counts as idle; `None` if it never does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle_after: Option<Millis>,
    /// The group of its user, if it has a container that the engine removes by name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub container_gid: Option<u32>,
    /// Whether its shepherd can move it between devices of a real driver.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub can_move: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClaimLine {
    Claimed(Claimant),
    Started {
        pid: u32,
        at: Timestamp,
    },
    Changed {
        generation: Generation,
        terms: Terms,
    },
    Halted {
        generation: Generation,
        is_paused: bool,
        /// Whether the node keeps the task off its devices, or brings it back.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        is_away: bool,
        /// Whether GPU memory of the task was ever restored.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        is_restored: bool,
    },
    /// The task left its devices, to go to others.
    Detached,
    /// The task came to these devices, by slot.
    Attached {
        devices: Vec<DeviceUuid>,
        /// Those that the server booked for it now; none if that did not change.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        booked: Vec<DeviceUuid>,
    },
    /// All processes that the killed claimant left have ended.
    Swept,
    /// How the killed claimant ended.
    Killed {
        by: ExitStatus,
    },
    Ended(TaskEnd),
}

/// A claim that this process holds.
#[derive(Debug)]
pub struct Claim {
    file: File,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimRecord {
    pub claimant: Claimant,
    /// The program's process ID and start time.
    pub started: Option<(u32, Timestamp)>,
    /// The last time limit, and the generation of its order.
    pub changed: Option<(Generation, Terms)>,
    /// Whether its processes were last paused (`true`) or resumed, and the generation of that
    /// order.
    pub halted: Option<(Generation, bool)>,
    /// Whether it left its devices, to go to others.
    pub is_detached: bool,
    /// Whether the node kept it off its devices last, or brought it back.
    pub is_away: bool,
    /// Whether GPU memory of the task was ever restored.
    pub is_restored: bool,
    /// Whether the claimant was killed, and all processes that it left have ended.
    pub is_swept: bool,
    /// How the killed claimant ended.
    pub killed: Option<ExitStatus>,
    pub ended: Option<TaskEnd>,
}

impl ClaimRecord {
    pub fn is_paused(&self) -> bool {
        self.halted.is_some_and(|(_, is_paused)| is_paused)
    }

    /// Whether its memory is off its devices, or still being restored.
    pub fn is_off(&self) -> bool {
        self.is_paused() || self.is_detached || self.is_away
    }

    /// The generation of the last order that was noted.
    pub fn generation(&self) -> Generation {
        let changed = self.changed.as_ref().map(|(generation, _)| *generation);
        let halted = self.halted.map(|(generation, _)| generation);
        changed.max(halted).unwrap_or(self.claimant.generation)
    }

    pub fn read(bytes: &[u8]) -> Option<Self> {
        // Bytes that are not valid text fail the line's checksum.
        let text = String::from_utf8_lossy(bytes);
        let mut record: Option<Self> = None;
        for line in text.split_inclusive('\n').map_while(parse) {
            match (line, &mut record) {
                (ClaimLine::Claimed(claimant), None) => {
                    let (started, changed, halted, ended) = (None, None, None, None);
                    let (is_detached, is_away) = (false, false);
                    let (is_restored, is_swept) = (false, false);
                    record = Some(Self {
                        claimant,
                        started,
                        changed,
                        halted,
                        is_detached,
                        is_away,
                        is_restored,
                        is_swept,
                        killed: None,
                        ended,
                    });
                }
                (ClaimLine::Started { pid, at }, Some(record)) => record.started = Some((pid, at)),
                (ClaimLine::Changed { generation, terms }, Some(record)) => {
                    terms.resize(&mut record.claimant.slots);
                    record.changed = Some((generation, terms));
                }
                (
                    ClaimLine::Halted { generation, is_paused, is_away, is_restored },
                    Some(record),
                ) => {
                    record.halted = Some((generation, is_paused));
                    record.is_away = is_away;
                    record.is_restored |= is_restored;
                }
                (ClaimLine::Detached, Some(record)) => record.is_detached = true,
                (ClaimLine::Attached { devices, booked }, Some(record)) => {
                    record.is_detached = false;
                    let mut seats = record.claimant.seats();
                    seats.come_to(&devices, &booked);
                    (record.claimant.slots, record.claimant.booked) = (seats.slots, seats.booked);
                }
                (ClaimLine::Swept, Some(record)) => record.is_swept = true,
                (ClaimLine::Killed { by }, Some(record)) => record.killed = Some(by),
                // Only the first end counts.
                (ClaimLine::Ended(end), Some(record)) if record.ended.is_none() => {
                    record.ended = Some(end);
                }
                _ => break,
            }
        }
        record
    }
}

impl Claimant {
    /// Returns a claimant for this process.
    pub fn this_process(task: TaskId, generation: Generation, uid: u32, boot_id: &str) -> Self {
        let shepherd = std::process::id();
        let shepherd_started = clock::boot_ticks();
        let (boot_id, site) = (boot_id.to_owned(), Site::default());
        let (slots, booked) = (Vec::new(), Vec::new());
        Self {
            task,
            generation,
            shepherd,
            shepherd_started,
            nursery: None,
            boot_id,
            uid,
            site,
            slots,
            booked,
            sharer: None,
            idle_after: None,
            container_gid: None,
            can_move: false,
        }
    }

    pub fn seats(&self) -> Seats {
        let (slots, booked) = (self.slots.clone(), self.booked.clone());
        Seats { slots, booked, sharer: self.sharer.clone(), is_pinned: !self.can_move }
    }
}

impl Claim {
    /// Claims a task; `None` if any process has ever claimed it. The file appears locked and with
    /// its first line, so every visible claim has an owner.
    pub fn take(layout: &Layout, claimant: Claimant) -> io::Result<Option<Self>> {
        Self::make(layout, claimant.task, &[ClaimLine::Claimed(claimant)])
    }

    /// Claims a task that must not be launched, and notes its end in the same step; `false` if any
    /// process has ever claimed it.
    pub fn take_ended(layout: &Layout, claimant: Claimant, end: &TaskEnd) -> io::Result<bool> {
        let task = claimant.task;
        let lines = [ClaimLine::Claimed(claimant), ClaimLine::Ended(end.clone())];
        Ok(Self::make(layout, task, &lines)?.is_some())
    }

    fn make(layout: &Layout, task: TaskId, lines: &[ClaimLine]) -> io::Result<Option<Self>> {
        let path = layout.claim(task);
        let new = layout.tasks().join(format!(".new-{}", std::process::id()));
        // Only for the agent's user: every process that can open the file can lock it, and would
        // look like the claimant.
        let options = || {
            let mut options = File::options();
            options.read(true).append(true).create_new(true).mode(0o600);
            options
        };
        let file = match options().open(&new) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                // Left by a killed process that had the same ID; no living process has it.
                std::fs::remove_file(&new)?;
                options().open(&new)?
            }
            other => other?,
        };
        // Space for the whole record, so that the end of the task can be noted on a full disk.
        // Without it the task still runs.
        let _ = rustix::fs::fallocate(&file, FallocateFlags::KEEP_SIZE, 0, RESERVE);
        let mut claim = Self { file };
        fail::fail_point!("claim-new");
        let renamed = lock::try_lock(&claim.file)
            .and_then(|_| lines.iter().try_for_each(|line| claim.append(line)))
            .and_then(|()| {
                fail::fail_point!("claim-written");
                rename_new(&new, &path)
            });
        fail::fail_point!("claim-named");
        match renamed {
            // A shepherd may have slept from its start on while another one ran the task and its
            // claim was put away. That happened before this claim got its name, or the rename would
            // have failed.
            Ok(true) if layout.record(task).exists() => {
                std::fs::remove_file(&path)?;
                Ok(None)
            }
            Ok(true) => Ok(Some(claim)),
            Ok(false) => {
                std::fs::remove_file(&new)?;
                Ok(None)
            }
            Err(error) => {
                // The first error is the one to report.
                let _ = std::fs::remove_file(&new);
                Err(error)
            }
        }
    }

    /// Notes that the program was started.
    pub fn started(&mut self, pid: u32, at: Timestamp) -> io::Result<()> {
        self.append(&ClaimLine::Started { pid, at })
    }

    pub fn changed(&mut self, generation: Generation, terms: Terms) -> io::Result<()> {
        self.append(&ClaimLine::Changed { generation, terms })
    }

    /// Notes that the task's processes were paused or resumed, and whether GPU memory of the task
    /// was ever restored.
    pub fn halted(&mut self, line: &ClaimLine) -> io::Result<()> {
        self.append(line)
    }

    /// Notes that the task left its devices.
    pub fn detached(&mut self) -> io::Result<()> {
        self.append(&ClaimLine::Detached)
    }

    /// Notes the devices that the task came to, and those that are booked for it if that changed.
    pub fn attached(&mut self, devices: &[DeviceUuid], booked: &[DeviceUuid]) -> io::Result<()> {
        self.append(&ClaimLine::Attached { devices: devices.to_vec(), booked: booked.to_vec() })
    }

    pub fn ended(&mut self, end: &TaskEnd) -> io::Result<()> {
        self.append(&ClaimLine::Ended(end.clone()))?;
        // The rest of the space for the record is free again. It is no fault if it stays.
        let _ = self.file.metadata().and_then(|about| self.file.set_len(about.len()));
        Ok(())
    }

    /// Writes everything to the disk: for a shepherd that has no agent to report to.
    pub fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn append(&mut self, line: &ClaimLine) -> io::Result<()> {
        let json = serde_json::to_string(line).map_err(io::Error::other)?;
        self.file.write_all(with_checksum(&json).as_bytes())
    }
}

/// Renames a file if the new name is free; `false` if it is taken.
pub fn rename_new(from: &Path, to: &Path) -> io::Result<bool> {
    match rustix::fs::renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        Ok(()) => Ok(true),
        Err(rustix::io::Errno::EXIST) => Ok(false),
        // The file system can't do this; a hard link also fails if the name is taken.
        Err(rustix::io::Errno::INVAL) => match std::fs::hard_link(from, to) {
            Ok(()) => std::fs::remove_file(from).map(|()| true),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
            Err(error) => Err(error),
        },
        Err(error) => Err(error.into()),
    }
}

/// A claim of any process, opened for reading.
#[derive(Debug)]
pub struct ClaimFile {
    file: File,
}

impl ClaimFile {
    /// Opens the claim of a task, also if it was put away; `None` if it was never claimed.
    pub fn open(layout: &Layout, task: TaskId) -> io::Result<Option<Self>> {
        // In this order: claims move from the first place to the second.
        for path in [layout.claim(task), layout.record(task)] {
            match File::options().read(true).append(true).open(path) {
                Ok(file) => return Ok(Some(Self { file })),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }

    /// Whether its claimant lives.
    pub fn is_held(&self) -> io::Result<bool> {
        lock::is_held(&self.file)
    }

    /// Reads the claim up to the first broken line; `None` without a valid first line.
    pub fn read(&self) -> io::Result<Option<ClaimRecord>> {
        let mut file = &self.file;
        io::Seek::rewind(&mut file)?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        Ok(ClaimRecord::read(&bytes))
    }

    /// Notes that all processes of a killed claimant have ended, and how it ended itself.
    pub fn swept(self, by: Option<ExitStatus>) -> io::Result<()> {
        let mut claim = Claim { file: self.file };
        claim.append(&ClaimLine::Swept)?;
        by.map_or(Ok(()), |by| claim.append(&ClaimLine::Killed { by }))
    }

    /// Notes the end in place of a claimant that is gone.
    pub fn ended(self, end: &TaskEnd) -> io::Result<()> {
        Claim { file: self.file }.ended(end)
    }
}

/// A line as it is in the file.
pub fn with_checksum(json: &str) -> String {
    format!("{:016x} {json}\n", checksum(json.as_bytes()))
}

fn parse(line: &str) -> Option<ClaimLine> {
    let (sum, json) = line.strip_suffix('\n')?.split_once(' ')?;
    let sum = u64::from_str_radix(sum, 16).ok()?;
    (sum == checksum(json.as_bytes())).then(|| serde_json::from_str(json).ok())?
}

/// FNV-1a: it only needs to detect lines that are cut or mixed up.
pub fn checksum(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}
