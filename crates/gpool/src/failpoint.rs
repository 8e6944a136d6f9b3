//! Kills this process where a test wants it: `GPOOL_FAILPOINT` is `NAME N FILE`, and the N-th time
//! that any process comes to the point of that name, that process is ended by SIGKILL. The file
//! counts, since servers are started again and shepherds are forked from one another. What comes to
//! the point that `GPOOL_SLOWPOINT` names stays there for a while, so that something else can come
//! in between; what comes to the one that `GPOOL_STUCKPOINT` names stays there for good, and what
//! comes to the one that `GPOOL_WRONGPOINT` names does the wrong thing.

use std::fs::File;
use std::io::{Seek as _, Write as _};
use std::path::{Path, PathBuf};

use rustix::process::{Signal, getpid, kill_process};

/// The variable that chooses the point.
const VARIABLE: &str = "GPOOL_FAILPOINT";

/// Sets the point up that the environment chooses, if it does; before anything else is done.
///
/// # Panics
/// If the variable makes no sense: the test would prove nothing.
pub fn arm() {
    if let Ok(name) = std::env::var("GPOOL_SLOWPOINT") {
        fail::cfg(name, "sleep(50)").expect("this is an action");
    }
    if let Ok(name) = std::env::var("GPOOL_STUCKPOINT") {
        fail::cfg(name, "pause").expect("this is an action");
    }
    if let Ok(name) = std::env::var("GPOOL_WRONGPOINT") {
        fail::cfg(name, "return").expect("this is an action");
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

/// How many have come here, this one included.
fn count(file: &Path) -> Option<u64> {
    let mut file = File::options().append(true).create(true).open(file).ok()?;
    file.write_all(b".").ok()?;
    // Appending moves the place to behind what was written, whoever else writes.
    file.stream_position().ok()
}

/// Says who it was, and dies.
fn end_here(file: &Path) {
    let own = std::fs::read_to_string("/proc/self/comm").unwrap_or_default();
    let said = File::options().append(true).create(true).open(file.with_extension("killed"));
    if let Ok(mut said) = said {
        // The test waits for it in vain otherwise, and says so.
        let _ = said.write_all(own.as_bytes());
    }
    let _ = kill_process(getpid(), Signal::KILL);
}
