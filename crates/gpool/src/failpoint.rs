//! Injects faults for tests. `GPOOL_FAILPOINT` is `NAME N FILE`: the N-th process that reaches the
//! point NAME is ended by SIGKILL. The file counts, since servers restart and shepherds fork from
//! one another. The point that `GPOOL_SLOWPOINT` names sleeps for a while, to let other events come
//! in between; the point that `GPOOL_STUCKPOINT` names blocks for good; the point that
//! `GPOOL_WRONGPOINT` names does the wrong thing. Both may name another action: `NAME=ACTION`, in
//! the words of the crate `fail`.

use std::fs::File;
use std::io::{Seek as _, Write as _};
use std::path::{Path, PathBuf};

use rustix::process::{Signal, getpid, kill_process};

/// The variable with the point that kills.
const VARIABLE: &str = "GPOOL_FAILPOINT";

/// Sets up the points that the environment names. Call it before anything else.
///
/// # Panics
/// If a variable is not valid: the test would prove nothing.
pub fn arm() {
    if let Ok(name) = std::env::var("GPOOL_SLOWPOINT") {
        fail::cfg(name, "sleep(50)").expect("this is an action");
    }
    for (variable, usual) in [("GPOOL_STUCKPOINT", "pause"), ("GPOOL_WRONGPOINT", "return")] {
        if let Ok(chosen) = std::env::var(variable) {
            let (name, action) = chosen.split_once('=').unwrap_or((&chosen, usual));
            fail::cfg(name, action).expect("this is an action");
        }
    }
    let Ok(chosen) = std::env::var(VARIABLE) else { return };
    let (name, rest) = chosen.split_once(' ').expect("a name, a number, a file");
    let (nth, file) = rest.split_once(' ').expect("a name, a number, a file");
    let (nth, file): (u64, _) = (nth.parse().expect("a number"), PathBuf::from(file));
    let hit = move || {
        if count(&file) == Some(nth) {
            end_here(&file);
        }
    };
    fail::cfg_callback(name, hit).expect("callbacks are always taken");
}

/// The number of processes that reached this point, this one included.
fn count(file: &Path) -> Option<u64> {
    let mut file = File::options().append(true).create(true).open(file).ok()?;
    file.write_all(b".").ok()?;
    // A file in append mode moves its position to the end after each write, whichever process
    // writes.
    file.stream_position().ok()
}

/// Records the name of this process and kills it.
fn end_here(file: &Path) {
    let own = std::fs::read_to_string("/proc/self/comm").unwrap_or_default();
    let said = File::options().append(true).create(true).open(file.with_extension("killed"));
    if let Ok(mut said) = said {
        // Without this line the test times out and fails.
        let _ = said.write_all(own.as_bytes());
    }
    let _ = kill_process(getpid(), Signal::KILL);
}
