//! The library's side of a process: its devices, its state, and the common part of all calls,
//! which hang, fail, wait or take long as the state file says.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use gpool_stub_state::{Live, Record, State, start_of, state_file};

use crate::code::{
    Code, INVALID_DEVICE, NO_DEVICE, NOT_INITIALIZED, OUT_OF_MEMORY, SUCCESS, UNKNOWN,
};
use crate::memory::Memory;

/// Whether calls neither look at the state file nor count memory.
pub(crate) static BARE: AtomicBool = AtomicBool::new(false);

static DRIVER: Mutex<Driver> =
    Mutex::new(Driver { session: None, phase: Phase::Running, is_locking: false, n_in_flight: 0 });
static CHANGED: Condvar = Condvar::new();

/// `CUprocessState`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    Running = 0,
    Locked = 1,
    Checkpointed = 2,
    Failed = 3,
}

/// The library's side of this process.
pub(crate) struct Driver {
    /// Present after `cuInit`.
    session: Option<Session>,
    pub(crate) phase: Phase,
    /// Whether new calls wait, because a lock waits for those in flight.
    pub(crate) is_locking: bool,
    pub(crate) n_in_flight: usize,
}

/// A process after `cuInit`.
pub(crate) struct Session {
    live: Live,
    start: u64,
    /// Devices in the state file's order, by the process's device numbers.
    visible: Vec<usize>,
    /// The device that holds the memory of each device of the file. A restore can change it.
    pub(crate) place: Vec<usize>,
    /// Bytes by device of the file, before `place`.
    pub(crate) used: Vec<u64>,
    pub(crate) memory: Memory,
    /// Whether memory was exported to or imported from another process.
    pub(crate) shares_memory: bool,
    pub(crate) uses_managed_memory: bool,
}

/// Answers a call that waits while the process is locked or checkpointed.
pub(crate) fn call(
    symbol: &str,
    answer: impl FnOnce(&mut Session, &State) -> Result<(), Code>,
) -> Code {
    let result = faults(symbol).and_then(|state| {
        let mut driver = enter();
        if let Some(ms) = state.cuda.slow_ms.get(symbol) {
            drop(driver);
            std::thread::sleep(Duration::from_millis(*ms));
            driver = self::driver();
        }
        let result = match &mut driver.session {
            Some(session) => answer(session, &state),
            None => Err(NOT_INITIALIZED),
        };
        driver.n_in_flight -= 1;
        CHANGED.notify_all();
        result
    });
    result.err().unwrap_or(SUCCESS)
}

/// Answers a synchronisation or a query: like other calls, except that real drivers crash if the
/// process is checkpointed. Driver 580.159 was seen to do so in `cuStreamQuery`, which a thread of
/// JAX calls from time to time.
pub(crate) fn synchronize(
    symbol: &str,
    answer: impl FnOnce(&mut Session, &State) -> Result<(), Code>,
) -> Code {
    let crashes = read().is_ok_and(|state| state.cuda.crash_on_sync);
    if crashes && driver().phase == Phase::Checkpointed {
        // SAFETY: the process ends here; no handler of the program shall save it.
        unsafe {
            libc::signal(libc::SIGSEGV, libc::SIG_DFL);
            libc::raise(libc::SIGSEGV);
        }
    }
    call(symbol, answer)
}

/// Waits until the process may use its devices, and counts a call in flight.
fn enter() -> MutexGuard<'static, Driver> {
    let mut driver = driver();
    while driver.phase != Phase::Running || driver.is_locking {
        driver = CHANGED.wait(driver).unwrap_or_else(PoisonError::into_inner);
    }
    driver.n_in_flight += 1;
    driver
}

/// Answers a call that never waits, such as questions about the machine.
pub(crate) fn ask(
    symbol: &str,
    answer: impl FnOnce(&mut Session, &State) -> Result<(), Code>,
) -> Code {
    let result = faults(symbol).and_then(|state| match &mut driver().session {
        Some(session) => answer(session, &state),
        None => Err(NOT_INITIALIZED),
    });
    result.err().unwrap_or(SUCCESS)
}

/// The state, after the faults that it has for a symbol.
pub(crate) fn faults(symbol: &str) -> Result<State, Code> {
    loop {
        let state = read()?;
        if !state.hang.contains(symbol) {
            return match state.errors.get(symbol) {
                Some(code) => Err(*code),
                None => Ok(state),
            };
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

pub(crate) fn driver() -> MutexGuard<'static, Driver> {
    DRIVER.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Waits for a change of the driver.
pub(crate) fn wait(
    driver: MutexGuard<'static, Driver>,
    timeout: Duration,
) -> MutexGuard<'static, Driver> {
    CHANGED.wait_timeout(driver, timeout).unwrap_or_else(PoisonError::into_inner).0
}

pub(crate) fn notify() {
    CHANGED.notify_all();
}

pub(crate) fn read() -> Result<State, Code> {
    let file = state_file().map_err(|_| UNKNOWN)?;
    State::read(&file).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => NO_DEVICE,
        _ => UNKNOWN,
    })
}

/// Prepares the process; returns the socket at which it answers checkpoint calls, the first time.
pub(crate) fn start() -> Result<Option<PathBuf>, Code> {
    let state = faults("cuInit")?;
    let file = state_file().map_err(|_| UNKNOWN)?;
    let mut driver = driver();
    if driver.session.is_some() {
        return Ok(None);
    }
    let visible = visible(&state);
    if visible.is_empty() {
        return Err(NO_DEVICE);
    }
    BARE.store(state.cuda.bare, Ordering::Relaxed);
    driver.session = Some(session(&state, &file, visible)?);
    let socket = Live::beside(&file).socket(std::process::id());
    Ok((!state.cuda.bare).then_some(socket))
}

fn session(state: &State, file: &Path, visible: Vec<usize>) -> Result<Session, Code> {
    let session = Session {
        live: Live::beside(file),
        start: start_of(std::process::id()).ok_or(UNKNOWN)?,
        visible,
        place: (0..state.devices.len()).collect(),
        used: vec![0; state.devices.len()],
        memory: Memory::new().map_err(|_| UNKNOWN)?,
        shares_memory: false,
        uses_managed_memory: false,
    };
    let locked = session.live.lock().map_err(|_| UNKNOWN)?;
    locked.write(&session.record()).map_err(|_| UNKNOWN)?;
    drop(locked);
    Ok(session)
}

/// The devices of `CUDA_VISIBLE_DEVICES`, up to the first unknown one, as the driver does.
fn visible(state: &State) -> Vec<usize> {
    let all = 0..state.devices.len();
    let Ok(wanted) = std::env::var("CUDA_VISIBLE_DEVICES") else { return all.collect() };
    let named = wanted.split(',').map_while(|word| {
        let word = word.trim();
        let by_number = word.parse().ok().filter(|ix| all.contains(ix));
        let by_uuid =
            || state.devices.iter().position(|it| !word.is_empty() && it.uuid.starts_with(word));
        by_number.or_else(by_uuid)
    });
    named.collect()
}

impl Driver {
    pub(crate) fn session(&mut self) -> Result<&mut Session, Code> {
        self.session.as_mut().ok_or(NOT_INITIALIZED)
    }
}

impl Session {
    /// The device of the file for a device number of the process.
    pub(crate) fn device(&self, ordinal: i32) -> Result<usize, Code> {
        let ix = usize::try_from(ordinal).map_err(|_| INVALID_DEVICE)?;
        self.visible.get(ix).copied().ok_or(INVALID_DEVICE)
    }

    pub(crate) fn n_devices(&self) -> usize {
        self.visible.len()
    }

    /// Takes bytes of a device, unless it has no more.
    pub(crate) fn take(&mut self, state: &State, device: usize, bytes: u64) -> Result<(), Code> {
        let mut used = self.used.clone();
        used[device] = used[device].checked_add(bytes).ok_or(OUT_OF_MEMORY)?;
        self.place_memory(state, &used, &self.place.clone())?;
        self.used = used;
        Ok(())
    }

    /// Gives bytes of a device back.
    pub(crate) fn give_back(&mut self, device: usize, bytes: u64) -> Result<(), Code> {
        self.used[device] -= bytes;
        self.write_record()
    }

    /// Writes the record of this process with this memory on these devices.
    pub(crate) fn place_memory(
        &self,
        state: &State,
        used: &[u64],
        place: &[usize],
    ) -> Result<(), Code> {
        let locked = self.live.lock().map_err(|_| UNKNOWN)?;
        let others = locked.records().map_err(|_| UNKNOWN)?;
        let others = others.iter().filter(|record| record.pid != std::process::id());
        let others: Vec<&Record> = others.collect();
        let record = self.record_of(used, place);
        for (ix, mine) in record.used.iter().enumerate().filter(|(_, mine)| **mine > 0) {
            let device = state.devices.get(ix).ok_or(INVALID_DEVICE)?;
            let theirs: u64 = others.iter().filter_map(|record| record.used.get(ix)).sum();
            if device.used + theirs + mine > device.memory.unwrap_or(u64::MAX) {
                return Err(OUT_OF_MEMORY);
            }
        }
        let own = std::process::id();
        for limit in locked.limits().iter().filter(|limit| limit.covers(own)) {
            let theirs: Vec<Record> = others.iter().copied().cloned().collect();
            let mine = record.used.get(limit.device).copied().unwrap_or(0);
            if mine > 0 && limit.used(&theirs) + mine > limit.hard {
                return Err(OUT_OF_MEMORY);
            }
        }
        locked.write(&record).map_err(|_| UNKNOWN)
    }

    pub(crate) fn write_record(&self) -> Result<(), Code> {
        let locked = self.live.lock().map_err(|_| UNKNOWN)?;
        locked.write(&self.record()).map_err(|_| UNKNOWN)
    }

    /// Reports no memory on any device, as after a checkpoint.
    pub(crate) fn write_empty_record(&self) -> Result<(), Code> {
        let locked = self.live.lock().map_err(|_| UNKNOWN)?;
        let record = self.record_of(&vec![0; self.used.len()], &self.place);
        locked.write(&record).map_err(|_| UNKNOWN)
    }

    /// Free bytes and all bytes of a device.
    pub(crate) fn free(&self, state: &State, device: usize) -> Result<(u64, u64), Code> {
        let ix = self.place[device];
        let it = state.devices.get(ix).ok_or(INVALID_DEVICE)?;
        let total = it.memory.unwrap_or(16 << 30);
        let records = self.live.records().map_err(|_| UNKNOWN)?;
        let live: u64 = records.iter().filter_map(|record| record.used.get(ix)).sum();
        let free = total.saturating_sub(it.used + live);
        Ok(match self.live.own_limit(ix).map_err(|_| UNKNOWN)? {
            Some((hard, used)) => (free.min(hard.saturating_sub(used)), total.min(hard)),
            None => (free, total),
        })
    }

    fn record(&self) -> Record {
        self.record_of(&self.used, &self.place)
    }

    fn record_of(&self, used: &[u64], place: &[usize]) -> Record {
        let mut placed = vec![0; used.len()];
        for (device, bytes) in used.iter().enumerate() {
            placed[place[device]] += bytes;
        }
        Record { pid: std::process::id(), start: self.start, used: placed }
    }
}
