//! The target's side of checkpoints: a thread answers other processes at a socket. It handles one
//! request at a time, so the question for the state waits for an operation, as in the real driver.

use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::time::{Duration, Instant};

use gpool_stub_state::State;

use crate::code::{
    Code, ILLEGAL_STATE, INVALID_VALUE, NOT_READY, NOT_SUPPORTED, OPERATING_SYSTEM, OUT_OF_MEMORY,
    UNKNOWN,
};
use crate::driver::{Driver, Phase, driver, faults, notify, wait};
use crate::uuid::uuid_bytes;

/// The first driver that can restore on another device.
const MOVES_SINCE: u32 = 580;
/// The first driver that can checkpoint memory that processes share.
const SHARED_SINCE: u32 = 610;
/// The length of a UUID in a request.
const UUID_BYTES: usize = 16;

/// Listens for requests on a thread of its own.
pub(crate) fn serve(socket: &Path) -> io::Result<()> {
    let _ = std::fs::remove_file(socket);
    let listener = UnixListener::bind(socket)?;
    let name = "cuda checkpoint".to_owned();
    std::thread::Builder::new().name(name).spawn(move || {
        for stream in listener.incoming().flatten() {
            // A caller that is gone has lost its answer, and the operation is complete.
            let _ = answer(&stream);
        }
    })?;
    Ok(())
}

/// A request is a line `symbol number`, then as many pairs of UUIDs as the number says; the reply
/// is a line `code value`.
fn answer(stream: &UnixStream) -> io::Result<()> {
    let mut input = BufReader::new(stream);
    let mut line = String::new();
    input.read_line(&mut line)?;
    let (symbol, number) = line.trim().split_once(' ').unwrap_or((&line, "0"));
    let number: u32 = number.parse().unwrap_or_default();
    let mut pairs = Vec::new();
    if symbol == "cuCheckpointProcessRestore" {
        for _ in 0..number {
            let mut pair = [[0; UUID_BYTES]; 2];
            for uuid in &mut pair {
                io::Read::read_exact(&mut input, uuid)?;
            }
            pairs.push(pair);
        }
    }
    let result = operate(symbol, number, &pairs);
    let (code, value) = match result {
        Ok(value) => (0, value),
        Err(code) => (code, 0),
    };
    writeln!(&mut &*stream, "{code} {value}")
}

fn operate(symbol: &str, number: u32, pairs: &[[[u8; UUID_BYTES]; 2]]) -> Result<u32, Code> {
    let restores = symbol == "cuCheckpointProcessRestore";
    if restores && driver().phase == Phase::Failed {
        return Err(OPERATING_SYSTEM);
    }
    let state = match faults(symbol) {
        Err(OUT_OF_MEMORY) if restores => {
            driver().phase = Phase::Failed;
            return Err(OUT_OF_MEMORY);
        }
        other => other?,
    };
    if let Some(ms) = state.cuda.slow_ms.get(symbol) {
        std::thread::sleep(Duration::from_millis(*ms));
    }
    match symbol {
        "cuCheckpointProcessGetState" => return Ok(driver().phase as u32),
        // SAFETY: a system call without arguments.
        "cuCheckpointProcessGetRestoreThreadId" => {
            return u32::try_from(unsafe { libc::gettid() }).map_err(|_| UNKNOWN);
        }
        "cuCheckpointProcessLock" => lock(Duration::from_millis(number.into()))?,
        "cuCheckpointProcessCheckpoint" => checkpoint(&state)?,
        "cuCheckpointProcessRestore" => restore(&state, pairs)?,
        "cuCheckpointProcessUnlock" => {
            let mut driver = driver();
            expect(&driver, Phase::Locked)?;
            driver.phase = Phase::Running;
        }
        _ => return Err(NOT_SUPPORTED),
    }
    notify();
    Ok(0)
}

fn expect(driver: &Driver, phase: Phase) -> Result<(), Code> {
    if driver.phase == phase { Ok(()) } else { Err(ILLEGAL_STATE) }
}

/// Waits for the calls in flight; a timeout of zero is none.
fn lock(timeout: Duration) -> Result<(), Code> {
    let begin = Instant::now();
    let mut driver = driver();
    expect(&driver, Phase::Running)?;
    driver.is_locking = true;
    while driver.n_in_flight > 0 {
        if !timeout.is_zero() && begin.elapsed() >= timeout {
            driver.is_locking = false;
            notify();
            return Err(NOT_READY);
        }
        driver = wait(driver, Duration::from_millis(5));
    }
    driver.is_locking = false;
    driver.phase = Phase::Locked;
    Ok(())
}

fn checkpoint(state: &State) -> Result<(), Code> {
    let mut driver = driver();
    expect(&driver, Phase::Locked)?;
    let session = driver.session()?;
    let is_refused = session.uses_managed_memory
        || (session.shares_memory && major(&state.driver) < SHARED_SINCE)
        || session.place.iter().any(|ix| state.devices[*ix].mig == Some(true));
    if is_refused {
        return Err(NOT_SUPPORTED);
    }
    session.memory.heap.save().map_err(|_| UNKNOWN)?;
    session.write_empty_record()?;
    driver.phase = Phase::Checkpointed;
    Ok(())
}

/// Restores on the devices of the pairs. Too little free memory fails for ever, as on real drivers.
fn restore(state: &State, pairs: &[[[u8; UUID_BYTES]; 2]]) -> Result<(), Code> {
    let mut driver = driver();
    expect(&driver, Phase::Checkpointed)?;
    let session = driver.session()?;
    let mut place = session.place.clone();
    if !pairs.is_empty() {
        let to = permutation(state, pairs)?;
        if !state.cuda.move_is_ignored {
            for ix in &mut place {
                *ix = to[*ix];
            }
        }
    }
    if let Err(code) = session.place_memory(state, &session.used.clone(), &place) {
        if code == OUT_OF_MEMORY {
            driver.phase = Phase::Failed;
        }
        return Err(code);
    }
    session.place = place;
    session.memory.heap.restore().map_err(|_| UNKNOWN)?;
    driver.phase = Phase::Locked;
    Ok(())
}

/// The new device of each device. The pairs must name every device of the machine, whatever the
/// process sees, once on each side, and keep its model.
fn permutation(state: &State, pairs: &[[[u8; UUID_BYTES]; 2]]) -> Result<Vec<usize>, Code> {
    if major(&state.driver) < MOVES_SINCE {
        return Err(NOT_SUPPORTED);
    }
    let n = state.devices.len();
    let ix_of = |uuid: &[u8; UUID_BYTES]| {
        state.devices.iter().position(|it| uuid_bytes(&it.uuid) == *uuid).ok_or(INVALID_VALUE)
    };
    let mut to = vec![None; n];
    for [old, new] in pairs {
        let (old, new) = (ix_of(old)?, ix_of(new)?);
        let is_taken = to[old].is_some() || to.contains(&Some(new));
        if is_taken || state.devices[old].name != state.devices[new].name {
            return Err(INVALID_VALUE);
        }
        to[old] = Some(new);
    }
    to.into_iter().collect::<Option<Vec<usize>>>().ok_or(INVALID_VALUE)
}

/// The branch of a driver version: 580 of 580.95.05.
pub(crate) fn major(driver: &str) -> u32 {
    driver.split('.').next().and_then(|branch| branch.parse().ok()).unwrap_or(u32::MAX)
}
