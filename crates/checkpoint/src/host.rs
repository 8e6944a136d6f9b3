//! The real machine: the driver through helper processes, `/proc`, control groups, and the job's
//! ledger.

use std::io::BufRead;
use std::path::{Path, PathBuf};
use std::time::Duration;

use gpool_ledger::Ledger;
use gpool_sys::{cgroup, pidfd, proc};
use rustix::process::Signal;

use crate::call::{Call, CallError, CallOutcome, DeviceSnapshot, OUT_OF_MEMORY, ProcessState};
use crate::driver::uuid_bytes;
use crate::helper::ask;
use crate::machine::{Facts, Gate, Machine};
use crate::plan::{Plan, ResidentProcess, Say, print};
use crate::record;

/// The program of this process, whatever happened to its file since.
const PROGRAM: &str = "/proc/self/exe";
/// The time for calls that passed the gate to reach the driver.
const SETTLE: Duration = Duration::from_millis(200);
/// Names of threads that PyTorch starts for NCCL.
const NCCL_THREADS: [&str; 2] = ["pt_nccl_watchdg", "pt_nccl_heartbt"];

/// This machine with the processes of a plan.
pub(crate) struct Host<'a> {
    plan: &'a Plan,
    ledger: Option<Ledger>,
}

impl<'a> Host<'a> {
    pub(crate) fn new(plan: &'a Plan) -> Self {
        // A job with a damaged ledger is treated as one without.
        let ledger = plan.ledger.as_ref().and_then(|folder| Ledger::open(folder).ok());
        Self { plan, ledger }
    }

    fn ask(&self, call: Call, deadline: Duration) -> Result<CallOutcome, CallError> {
        ask(Path::new(PROGRAM), &self.plan.drivers.request(call), deadline)
    }

    /// Makes a call about a process, unless its ID is another's by now.
    fn call(
        &mut self,
        of: &ResidentProcess,
        call: Call,
        deadline: Duration,
    ) -> Result<CallOutcome, CallError> {
        if !self.lives(of) {
            let why = format!("found no process {}", of.pid);
            return Err(CallError::Helper { why });
        }
        self.ask(call, deadline)
    }
}

impl Machine for Host<'_> {
    fn look(&mut self) -> Result<DeviceSnapshot, CallError> {
        let mut devices = self.plan.devices.clone();
        let from = self.plan.moves.keys().filter(|it| !self.plan.devices.contains(it));
        devices.extend(from.cloned());
        let call = Call::Look(devices);
        // A device that the memory leaves may be gone.
        let missing = |look: &DeviceSnapshot| {
            let is_listed = |uuid: &&String| look.devices.iter().any(|seen| seen.uuid == **uuid);
            self.plan.devices.iter().find(|uuid| !is_listed(uuid))
        };
        match self.ask(call, self.plan.deadlines.call())? {
            CallOutcome::Looked(look) => match missing(&look) {
                Some(uuid) => {
                    let why = format!("the driver does not list {uuid}");
                    Err(CallError::NoList { why })
                }
                None => Ok(look),
            },
            _ => Err(CallError::NoList { why: "the answer is of another question".to_owned() }),
        }
    }

    fn own(&mut self, pid: u32) -> Option<u64> {
        let (me, shepherd) = (std::process::id(), self.plan.shepherd);
        let above = proc::nearest_ancestor(pid, &|it| it == me || it == shepherd);
        (above == Some(shepherd)).then(|| proc::stat(pid).map(|stat| stat.started))?
    }

    fn lives(&mut self, process: &ResidentProcess) -> bool {
        proc::stat(process.pid).is_some_and(|stat| {
            stat.started == process.started && !matches!(stat.state, b'Z' | b'X')
        })
    }

    fn state(&mut self, process: &ResidentProcess) -> Result<ProcessState, CallError> {
        // The driver answers once the operation under way has ended.
        let deadline = self.plan.deadlines.copy(process.bytes());
        match self.call(process, Call::State(process.pid), deadline)? {
            CallOutcome::State(state) => Ok(state),
            _ => Err(CallError::Helper { why: "answered another question".to_owned() }),
        }
    }

    fn lock(&mut self, process: &ResidentProcess) -> Result<(), CallError> {
        let deadlines = self.plan.deadlines;
        let call = Call::Lock { pid: process.pid, timeout_ms: deadlines.lock_ms };
        self.call(process, call, deadlines.lock()).map(drop)
    }

    fn checkpoint(&mut self, process: &ResidentProcess) -> Result<(), CallError> {
        let deadline = self.plan.deadlines.copy(process.bytes());
        self.call(process, Call::Checkpoint(process.pid), deadline).map(drop)
    }

    fn try_room(&mut self, devices: &[(String, u64)]) -> Result<(), CallError> {
        let call = Call::TryRoom(devices.to_vec());
        match self.ask(call, self.plan.deadlines.call()) {
            Err(error) if error.is(OUT_OF_MEMORY) => Err(error),
            _ => Ok(()),
        }
    }

    fn is_granted(&mut self) -> bool {
        let Some(ledger) = &self.ledger else { return true };
        let Ok(processes) = ledger.processes() else { return true };
        ledger.shares().iter().enumerate().all(|(ix, share)| {
            let used = processes.iter().filter_map(|process| process.used.get(ix));
            used.fold(0u64, |sum, used| sum.saturating_add(*used)) <= share.granted
        })
    }

    fn restore(
        &mut self,
        process: &ResidentProcess,
        pairs: &[(String, String)],
    ) -> Result<(), CallError> {
        // From now on calls that the checkpoint interrupted can begin new work.
        if let Some(ledger) = &self.ledger {
            ledger.set_empty(false);
        }
        let deadline = self.plan.deadlines.copy(process.bytes());
        let call = Call::Restore { pid: process.pid, pairs: pairs.to_vec() };
        self.call(process, call, deadline).map(drop)
    }

    fn unlock(&mut self, process: &ResidentProcess) -> Result<(), CallError> {
        let call = Call::Unlock(process.pid);
        self.call(process, call, self.plan.deadlines.call()).map(drop)
    }

    fn facts(&mut self, pid: u32) -> Facts {
        let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
        let threads = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten();
        let name = |thread: std::fs::DirEntry| std::fs::read_to_string(thread.path().join("comm"));
        let mut names = threads.flatten().filter_map(|thread| name(thread).ok());
        Facts {
            n_uvm_mappings: n_uvm_mappings(&maps),
            has_nccl: names.any(|name| NCCL_THREADS.contains(&name.trim_end())),
        }
    }

    fn host_memory(&mut self, pids: &[u32]) -> u64 {
        let meminfo = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
        let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
        let kib = line.and_then(|rest| rest.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok());
        let available = kib.map_or(0, |kib| kib.saturating_mul(1024));
        pids.iter().filter_map(|pid| headroom(*pid)).fold(available, u64::min)
    }

    fn awaken(&mut self, pid: u32) {
        if proc::stat(pid).is_none_or(|stat| stat.state != b'T') {
            return;
        }
        let Ok(Some(process)) = pidfd::open(pid) else { return };
        // Checked after opening: the process ID may have been reused before.
        if self.own(pid).is_some() {
            let _ = pidfd::signal(process, Signal::CONT.as_raw());
        }
    }

    fn gate(&mut self, processes: &[ResidentProcess]) -> Option<Gate> {
        let ledger = self.ledger.as_ref()?;
        let known = ledger.processes().ok()?;
        let is_known = |it: &ResidentProcess| known.iter().any(|known| known.pid == it.pid);
        // A process without the library in front of the driver does not wait at the gate.
        if ledger.has_uncounted().ok()? || !processes.iter().all(is_known) {
            return None;
        }
        Some(Gate {
            shares_memory: known.iter().any(|it| it.shares_memory),
            has_managed_memory: known.iter().any(|it| it.has_managed_memory),
        })
    }

    fn close_gate(&mut self) -> Result<(), String> {
        let Some(ledger) = &self.ledger else { return Ok(()) };
        ledger.set_gate(match self.plan.runs_on {
            true => gpool_ledger::Gate::Released,
            false => gpool_ledger::Gate::Pausing,
        });
        let timeout = Duration::from_millis(self.plan.deadlines.lock_ms.into());
        // In a damaged ledger nothing waits, and the job has lost its protection.
        if !ledger.wait_until_idle(timeout).unwrap_or(true) {
            return Err("it waits for its GPU longer than a pause may take".to_owned());
        }
        if self.plan.runs_on {
            // A thread that passed the gate just before would wait in the driver, where no one sees
            // it: it gets the time to enter the driver before the lock.
            std::thread::sleep(SETTLE);
            if ledger.n_waiting().unwrap_or(0) > 0 {
                return Err("it uses its GPU again".to_owned());
            }
        }
        Ok(())
    }

    fn emptied(&mut self) {
        if let Some(ledger) = &self.ledger {
            ledger.set_empty(true);
        }
    }

    fn open_gate(&mut self) {
        if let Some(ledger) = &self.ledger {
            ledger.set_gate(gpool_ledger::Gate::Open);
        }
    }

    fn can_note_devices(&mut self) -> bool {
        self.ledger.as_ref().is_none_or(Ledger::can_move)
    }

    fn note_devices(&mut self, devices: &[String]) {
        let Some(ledger) = &self.ledger else { return };
        for (ix, uuid) in devices.iter().enumerate() {
            if let Some(uuid) = uuid_bytes(uuid) {
                ledger.moved(ix, uuid);
            }
        }
    }

    fn freeze(&mut self) -> bool {
        print(&Say::Freeze);
        is_agreed()
    }

    fn thaw(&mut self) {
        print(&Say::Thaw);
        // Without a shepherd, nothing can be frozen for long.
        is_agreed();
    }

    fn found(&mut self, processes: &[ResidentProcess]) {
        print(&Say::Found(processes.to_vec()));
    }

    fn waits(&mut self, why: &str) {
        print(&Say::Waits(why.to_owned()));
    }

    fn restores(&mut self) {
        print(&Say::Restores);
        is_agreed();
    }

    fn moves(&mut self, driver: &str) -> Option<bool> {
        record::read(self.plan.record.as_deref()?, driver)
    }

    fn note_moves(&mut self, driver: &str, it_does: bool) {
        if let Some(file) = &self.plan.record {
            record::write(file, driver, it_does);
        }
    }

    fn wait(&mut self, time: Duration) {
        std::thread::sleep(time);
    }
}

/// Waits for the shepherd's answer.
fn is_agreed() -> bool {
    let mut line = String::new();
    std::io::stdin().lock().read_line(&mut line).is_ok() && line.trim() == "yes"
}

/// The number of mappings of the device of managed memory.
#[must_use]
pub fn n_uvm_mappings(maps: &str) -> usize {
    maps.lines().filter(|line| line.trim_end().ends_with("/dev/nvidia-uvm")).count()
}

/// Bytes that the control groups of a process still allow; `None` if none limits it.
fn headroom(pid: u32) -> Option<u64> {
    let mounts = std::fs::read_to_string("/proc/self/mounts").ok()?;
    let own = std::fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?;
    let folders = [None, Some("memory")].map(|it| cgroup::home(&mounts, &own, it));
    folders.into_iter().flatten().filter_map(|folder| headroom_in(&folder)).min()
}

/// Bytes that a control group and those above it still allow. The cache of files can be freed.
#[must_use]
pub fn headroom_in(folder: &Path) -> Option<u64> {
    let number = |folder: &Path, file: &str| -> Option<u64> {
        std::fs::read_to_string(folder.join(file)).ok()?.trim().parse().ok()
    };
    let left = |folder: &Path| {
        let most =
            number(folder, "memory.max").or_else(|| number(folder, "memory.limit_in_bytes"))?;
        let used =
            number(folder, "memory.current").or_else(|| number(folder, "memory.usage_in_bytes"))?;
        Some(most.saturating_sub(used.saturating_sub(file_cache(folder))))
    };
    folder.ancestors().filter_map(left).min()
}

fn file_cache(folder: &Path) -> u64 {
    let stat = PathBuf::from(folder).join("memory.stat");
    let text = std::fs::read_to_string(stat).unwrap_or_default();
    let bytes = |line: &str| -> Option<u64> {
        let (name, bytes) = line.split_once(' ')?;
        matches!(name, "inactive_file" | "active_file").then(|| bytes.parse().ok())?
    };
    text.lines().filter_map(bytes).sum()
}
