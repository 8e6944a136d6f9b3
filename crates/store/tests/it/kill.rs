//! A committing process is killed at any moment: every commit reported as durable exists
//! afterwards.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc;

use gpool_store::{Committer, Store, StoreOptions, verify};

use crate::support::{State, Truth};

const CHILD: &str = "GPOOL_STORE_TEST_CHILD";

/// Not a test of its own but the child process of the test below. Commits for ever, and prints each
/// durable revision.
#[test]
fn child_commits_until_killed() {
    let Some(dir) = std::env::var_os(CHILD) else { return };
    let (store, loaded) = Store::open(Path::new(&dir), &StoreOptions::default()).unwrap();
    let mut truth = Truth::after(loaded.revision.0);
    assert!(truth.is_loaded(&loaded));
    // Limits the length of the queue.
    let (sender, told) = mpsc::sync_channel(64);
    let committer = Committer::spawn(
        store,
        Box::new(move |result| {
            let revision = result.unwrap();
            // Not by `println!`, which the test harness may hold back. In one write, so that a kill
            // leaves no half line.
            let line = format!("durable {revision}\n");
            std::io::stderr().write_all(line.as_bytes()).unwrap();
            sender.send(()).unwrap();
        }),
    )
    .unwrap();
    for n_submitted in 0_u64.. {
        committer.submit(truth.next()).unwrap();
        if n_submitted >= 32 {
            told.recv().unwrap();
        }
    }
}

#[test]
fn acknowledged_commits_survive_kills() {
    let state = State::new();
    let mut told = 0;
    // Different in each round, so that kills hit groups of all sizes, and checkpoints too.
    for n_lines in (1..24).map(|round| round * round * 7 % 900 + 1) {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "kill::child_commits_until_killed", "--nocapture"])
            .env(CHILD, &state.dir)
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let mut n_read = 0;
        let mut killed = false;
        for line in lines.map_while(Result::ok) {
            let Some(revision) = line.strip_prefix("durable ") else { continue };
            told = revision.parse().unwrap();
            n_read += 1;
            if n_read >= n_lines && !killed {
                child.kill().unwrap();
                killed = true;
            }
        }
        child.wait().unwrap();
        assert!(killed, "the child ended by itself");
        let report = verify(&state.dir).unwrap();
        assert_eq!(report.findings, []);
        let (store, loaded) = state.open();
        assert!(loaded.revision.0 >= told, "{told} was told, {} is there", loaded.revision);
        let truth = Truth::after(loaded.revision.0);
        assert!(truth.is_loaded(&loaded));
        assert!(truth.is_read(&store.reader().unwrap()));
    }
}
