//! The caller's side of checkpoints: another process is addressed by its process ID.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;

use gpool_stub_state::{Live, state_file};

use crate::code::{Code, INVALID_VALUE, NOT_INITIALIZED, SUCCESS, UNKNOWN, give};

/// `CUcheckpointLockArgs`.
#[repr(C)]
struct LockArguments {
    timeout_ms: u32,
    reserved: [u32; 15],
}

/// `CUcheckpointRestoreArgs`.
#[repr(C)]
struct RestoreArguments {
    pairs: *const [[u8; 16]; 2],
    n_pairs: u32,
    reserved: [u32; 13],
}

/// Sends a request to a process and returns the value of the reply.
fn request(pid: i32, symbol: &str, number: u32, rest: &[u8]) -> Result<u32, Code> {
    let pid = u32::try_from(pid).map_err(|_| INVALID_VALUE)?;
    let file = state_file().map_err(|_| UNKNOWN)?;
    let socket = Live::beside(&file).socket(pid);
    // A process that has not initialised CUDA has no socket.
    let mut stream = UnixStream::connect(socket).map_err(|_| NOT_INITIALIZED)?;
    let mut line = String::new();
    let mut exchange = || {
        writeln!(stream, "{symbol} {number}")?;
        stream.write_all(rest)?;
        BufReader::new(&stream).read_line(&mut line)
    };
    // Also the reply of a process that dies meanwhile.
    exchange().map_err(|_| UNKNOWN)?;
    let (code, value) = line.trim().split_once(' ').ok_or(UNKNOWN)?;
    match code.parse() {
        Ok(SUCCESS) => value.parse().map_err(|_| UNKNOWN),
        Ok(code) => Err(code),
        Err(_) => Err(UNKNOWN),
    }
}

fn plain(pid: i32, symbol: &str) -> Code {
    request(pid, symbol, 0, &[]).err().unwrap_or(SUCCESS)
}

#[unsafe(no_mangle)]
extern "C" fn cuCheckpointProcessGetState(pid: i32, state: Option<&mut u32>) -> Code {
    let found = request(pid, "cuCheckpointProcessGetState", 0, &[]);
    found.and_then(|found| give(state, found)).err().unwrap_or(SUCCESS)
}

#[unsafe(no_mangle)]
extern "C" fn cuCheckpointProcessGetRestoreThreadId(pid: i32, tid: Option<&mut u32>) -> Code {
    let found = request(pid, "cuCheckpointProcessGetRestoreThreadId", 0, &[]);
    found.and_then(|found| give(tid, found)).err().unwrap_or(SUCCESS)
}

#[unsafe(no_mangle)]
extern "C" fn cuCheckpointProcessLock(pid: i32, arguments: Option<&LockArguments>) -> Code {
    let timeout = arguments.map_or(0, |arguments| arguments.timeout_ms);
    request(pid, "cuCheckpointProcessLock", timeout, &[]).err().unwrap_or(SUCCESS)
}

#[unsafe(no_mangle)]
extern "C" fn cuCheckpointProcessCheckpoint(pid: i32, _arguments: usize) -> Code {
    plain(pid, "cuCheckpointProcessCheckpoint")
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuCheckpointProcessRestore(
    pid: i32,
    arguments: Option<&RestoreArguments>,
) -> Code {
    let mut pairs: &[[[u8; 16]; 2]] = &[];
    if let Some(arguments) = arguments.filter(|it| it.n_pairs > 0 && !it.pairs.is_null()) {
        // SAFETY: not null, and the caller passes this number of pairs.
        pairs = unsafe { std::slice::from_raw_parts(arguments.pairs, arguments.n_pairs as usize) };
    }
    let Ok(n_pairs) = u32::try_from(pairs.len()) else { return INVALID_VALUE };
    let bytes = pairs.as_flattened().as_flattened();
    request(pid, "cuCheckpointProcessRestore", n_pairs, bytes).err().unwrap_or(SUCCESS)
}

#[unsafe(no_mangle)]
extern "C" fn cuCheckpointProcessUnlock(pid: i32, _arguments: usize) -> Code {
    plain(pid, "cuCheckpointProcessUnlock")
}
