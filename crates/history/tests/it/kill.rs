//! The writer is killed at any moment: each minute that it reported as written is there, and at
//! most the minute after it.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use gpool_history::{History, Settings};

use crate::support::{Place, append, minutes, start, wave};

const CHILD: &str = "GPOOL_HISTORY_TEST_CHILD";

/// Not a test of its own but the child process of the test below. Writes minutes for ever, and
/// prints each one.
#[test]
fn child_appends_until_killed() {
    let Some(path) = std::env::var_os(CHILD) else { return };
    let (mut history, recreated) = History::open(Path::new(&path), Settings::default()).unwrap();
    assert_eq!(recreated, None);
    let written = minutes(&history, "gpu0", 3000).iter().flatten().count() as u32;
    for n in written.. {
        let now = start().after(n);
        append(&mut history, now, "gpu0", wave(n));
        // In one write, so that a kill leaves no half line.
        std::io::stderr().write_all(format!("written {n}\n").as_bytes()).unwrap();
        history.maintain(now).unwrap();
    }
}

#[test]
fn a_kill_loses_no_reported_minute() {
    let place = Place::new();
    let mut told = 0;
    // Different in each round, so that kills hit appends and seals.
    for n_lines in [1, 2, 70, 3, 131, 64, 17, 200, 5, 90] {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "kill::child_appends_until_killed", "--nocapture"])
            .env(CHILD, place.path())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let mut n_read = 0;
        for line in lines.map_while(Result::ok) {
            let Some(n) = line.strip_prefix("written ") else { continue };
            told = n.parse().unwrap();
            n_read += 1;
            if n_read == n_lines {
                child.kill().unwrap();
            }
        }
        child.wait().unwrap();
        assert!(n_read >= n_lines, "the child ended by itself");
        let history = place.open();
        let found = minutes(&history, "gpu0", told + 3);
        for n in 0..=told {
            let value = found[n as usize].unwrap_or_else(|| panic!("minute {n} is lost"));
            assert!((value - wave(n)).abs() < 0.003, "minute {n}");
        }
        assert_eq!(found[told as usize + 2], None, "written after the kill");
    }
}
