//! A machine in memory: one task with processes, and faults on demand.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use gpool_checkpoint::{
    Aim, CallError, Deadlines, DeviceSnapshot, Drivers, Facts, Gate, Machine, Plan, ProcessState,
    ResidentProcess, SeenDevice, SeenProcess,
};

pub const GIB: u64 = 1 << 30;
pub const GPU: &str = "GPU-a0a0a0a0-a0a0-a0a0-a0a0-a0a0a0a0a0a0";

/// More GPUs of the same model, and one of another.
pub const OTHER: &str = "GPU-b0b0b0b0-b0b0-b0b0-b0b0-b0b0b0b0b0b0";
pub const THIRD: &str = "GPU-c0c0c0c0-c0c0-c0c0-c0c0-c0c0c0c0c0c0";
pub const OLDER: &str = "GPU-d0d0d0d0-d0d0-d0d0-d0d0-d0d0d0d0d0d0";

pub struct Fake {
    /// The state of each process, and its bytes.
    pub processes: BTreeMap<u32, (ProcessState, u64)>,
    /// Processes of others.
    pub strangers: Vec<u32>,
    pub free: u64,
    pub driver: String,
    pub is_mig: bool,
    pub has_mps: bool,
    pub facts: Facts,
    pub gate: Option<Gate>,
    pub is_gate_open: bool,
    /// Whether the gate knows that all processes are checkpointed.
    pub is_empty: bool,
    pub is_busy: bool,
    pub is_frozen: bool,
    pub can_freeze: bool,
    pub host_memory: u64,
    /// Errors by call and process.
    pub errors: BTreeMap<(&'static str, u32), i32>,
    /// Calls with a helper that is killed after the driver has done the work.
    pub killed: BTreeSet<(&'static str, u32)>,
    /// A process that appears with the first checkpoint.
    pub late: Option<u32>,
    /// Looks until the device has room.
    pub room_after: u32,
    /// Test allocations that fail.
    pub tight: u32,
    /// Looks until the agent has granted the memory.
    pub granted_after: u32,
    /// The device of each process, unless it is the first.
    pub at: BTreeMap<u32, String>,
    /// Processes that the driver restores on the old device, whatever the pairs are.
    pub stays: BTreeSet<u32>,
    /// Whether the driver was seen to move memory.
    pub moves: Option<bool>,
    /// The pairs of the last restore.
    pub pairs: Vec<(String, String)>,
    /// Whether the ledger can note a move.
    pub can_note: bool,
    /// The devices that the ledger has; none before the first restore.
    pub noted: Vec<String>,
    pub calls: Vec<String>,
}

impl Fake {
    pub fn new(pids: &[u32]) -> Self {
        Self {
            processes: pids.iter().map(|pid| (*pid, (ProcessState::Running, GIB))).collect(),
            strangers: Vec::new(),
            free: 16 * GIB,
            driver: "580.95.05".to_owned(),
            is_mig: false,
            has_mps: false,
            facts: Facts::default(),
            gate: Some(Gate::default()),
            is_gate_open: true,
            is_empty: false,
            is_busy: false,
            is_frozen: false,
            can_freeze: true,
            host_memory: 64 * GIB,
            errors: BTreeMap::new(),
            killed: BTreeSet::new(),
            late: None,
            room_after: 0,
            tight: 0,
            granted_after: 0,
            at: BTreeMap::new(),
            stays: BTreeSet::new(),
            moves: None,
            pairs: Vec::new(),
            can_note: true,
            noted: Vec::new(),
            calls: Vec::new(),
        }
    }

    pub fn states(&self) -> Vec<ProcessState> {
        self.processes.values().map(|(state, _)| *state).collect()
    }

    fn device_of(&self, pid: u32) -> &str {
        self.at.get(&pid).map_or(GPU, String::as_str)
    }

    fn act(
        &mut self,
        call: &'static str,
        pid: u32,
        from: ProcessState,
        to: ProcessState,
    ) -> Result<(), CallError> {
        assert!(!self.is_frozen, "the driver hangs on a stopped process");
        self.calls.push(format!("{call} {pid}"));
        let error = |code| CallError::Driver { symbol: call.to_owned(), code };
        if let Some(code) = self.errors.get(&(call, pid)) {
            if call == "restore" && *code == 2 {
                self.processes.get_mut(&pid).unwrap().0 = ProcessState::Failed;
            }
            return Err(error(*code));
        }
        let process = self.processes.get_mut(&pid).unwrap();
        if process.0 != from {
            return Err(error(401));
        }
        process.0 = to;
        match self.killed.remove(&(call, pid)) {
            true => Err(CallError::Helper { why: "was killed".to_owned() }),
            false => Ok(()),
        }
    }
}

impl Machine for Fake {
    fn look(&mut self) -> Result<DeviceSnapshot, CallError> {
        let is_listed = |state| matches!(state, ProcessState::Running | ProcessState::Locked);
        let ours = self.processes.iter().filter(|(_, (state, _))| is_listed(*state));
        let ours = ours.map(|(pid, (_, bytes))| (*pid, Some(*bytes)));
        let all = ours.chain(self.strangers.iter().map(|pid| (*pid, None)));
        let process = |(pid, memory)| SeenProcess { pid, memory, name: format!("p{pid}") };
        let free = match self.room_after {
            0 => self.free,
            _ => 0,
        };
        let all: Vec<SeenProcess> = all.map(process).collect();
        let at = |uuid: &str| {
            let is_here = |it: &&SeenProcess| self.device_of(it.pid) == uuid;
            all.iter().filter(is_here).cloned().collect()
        };
        let device = |uuid: &str, free| SeenDevice {
            uuid: uuid.to_owned(),
            free: Some(free),
            used: Some(0),
            is_mig: self.is_mig,
            has_mps: self.has_mps,
            processes: at(uuid),
        };
        let devices = vec![device(GPU, free), device(OTHER, 16 * GIB)];
        let gpus = [GPU, OTHER, THIRD].map(|uuid| (uuid.to_owned(), "H100".to_owned()));
        let mut gpus = BTreeMap::from(gpus);
        gpus.insert(OLDER.to_owned(), "A100".to_owned());
        Ok(DeviceSnapshot { driver: self.driver.clone(), devices, gpus })
    }

    fn own(&mut self, pid: u32) -> Option<u64> {
        self.processes.contains_key(&pid).then_some(1)
    }

    fn lives(&mut self, process: &ResidentProcess) -> bool {
        self.processes.contains_key(&process.pid)
    }

    fn state(&mut self, process: &ResidentProcess) -> Result<ProcessState, CallError> {
        assert!(!self.is_frozen, "the driver hangs on a stopped process");
        let state = self.processes.get(&process.pid).map(|(state, _)| *state);
        state.ok_or(CallError::Driver { symbol: "state".to_owned(), code: 3 })
    }

    fn lock(&mut self, process: &ResidentProcess) -> Result<(), CallError> {
        self.act("lock", process.pid, ProcessState::Running, ProcessState::Locked)
    }

    fn checkpoint(&mut self, process: &ResidentProcess) -> Result<(), CallError> {
        let all_locked = self.processes.values().all(|(state, _)| *state != ProcessState::Running);
        assert!(all_locked, "a checkpoint before all processes are locked");
        if let Some(pid) = self.late.take() {
            self.processes.insert(pid, (ProcessState::Running, GIB));
        }
        let pid = process.pid;
        self.act("checkpoint", pid, ProcessState::Locked, ProcessState::Checkpointed)
    }

    fn try_room(&mut self, devices: &[(String, u64)]) -> Result<(), CallError> {
        if devices.is_empty() || self.tight == 0 {
            return Ok(());
        }
        self.tight -= 1;
        Err(CallError::Driver { symbol: "cuMemAlloc_v2".to_owned(), code: 2 })
    }

    fn is_granted(&mut self) -> bool {
        let is_granted = self.granted_after == 0;
        self.granted_after = self.granted_after.saturating_sub(1);
        is_granted
    }

    fn restore(
        &mut self,
        process: &ResidentProcess,
        pairs: &[(String, String)],
    ) -> Result<(), CallError> {
        let pid = process.pid;
        self.act("restore", pid, ProcessState::Checkpointed, ProcessState::Locked)?;
        self.pairs.clone_from(&pairs.to_vec());
        let from = self.device_of(pid).to_owned();
        let to = pairs.iter().find(|(old, _)| *old == from).map(|(_, new)| new.clone());
        if let Some(to) = to.filter(|_| !self.stays.contains(&pid)) {
            self.at.insert(pid, to);
        }
        Ok(())
    }

    fn unlock(&mut self, process: &ResidentProcess) -> Result<(), CallError> {
        self.act("unlock", process.pid, ProcessState::Locked, ProcessState::Running)
    }

    fn facts(&mut self, _pid: u32) -> Facts {
        self.facts
    }

    fn host_memory(&mut self, _pids: &[u32]) -> u64 {
        self.host_memory
    }

    fn awaken(&mut self, pid: u32) {
        self.calls.push(format!("awaken {pid}"));
    }

    fn gate(&mut self, _processes: &[ResidentProcess]) -> Option<Gate> {
        self.gate
    }

    fn close_gate(&mut self) -> Result<(), String> {
        self.is_gate_open = false;
        match self.is_busy {
            true => Err("it waits for its GPU longer than a pause may take".to_owned()),
            false => Ok(()),
        }
    }

    fn emptied(&mut self) {
        assert!(!self.is_gate_open, "work could begin");
        assert!(self.states().iter().all(|state| *state == ProcessState::Checkpointed));
        self.is_empty = true;
    }

    fn open_gate(&mut self) {
        self.is_gate_open = true;
        self.is_empty = false;
    }

    fn freeze(&mut self) -> bool {
        self.calls.push("freeze".to_owned());
        self.is_frozen = self.can_freeze;
        self.can_freeze
    }

    fn thaw(&mut self) {
        self.calls.push("thaw".to_owned());
        self.is_frozen = false;
    }

    fn found(&mut self, processes: &[ResidentProcess]) {
        self.calls.push(format!("found {}", processes.len()));
    }

    fn waits(&mut self, why: &str) {
        self.calls.push(format!("waits: {why}"));
    }

    fn restores(&mut self) {}

    fn can_note_devices(&mut self) -> bool {
        self.can_note
    }

    fn note_devices(&mut self, devices: &[String]) {
        self.noted = devices.to_vec();
    }

    fn moves(&mut self, _driver: &str) -> Option<bool> {
        self.moves
    }

    fn note_moves(&mut self, _driver: &str, it_does: bool) {
        self.moves = Some(it_does);
    }

    fn wait(&mut self, _time: Duration) {
        self.room_after = self.room_after.saturating_sub(1);
    }
}

pub fn plan(aim: Aim, processes: Vec<ResidentProcess>) -> Plan {
    Plan {
        aim,
        shepherd: 1,
        devices: vec![GPU.to_owned()],
        is_shared: false,
        ignored: BTreeSet::from(["p900".to_owned()]),
        moves: BTreeMap::new(),
        record: None,
        processes,
        ledger: None,
        is_risk_accepted: false,
        runs_on: false,
        drivers: Drivers { cuda: "none".into(), nvml: "none".into() },
        deadlines: Deadlines::default(),
    }
}
