//! Information about processes from `/proc`. A process may end while it is read; that is no error,
//! and the result is empty.

use std::path::Path;

use gpool_sys::proc::*;

#[test]
fn a_name_with_parentheses_and_spaces_is_skipped_whole() {
    let fields = (6..=52).map(|n| n.to_string()).collect::<Vec<_>>().join(" ");
    let line = format!("7 (a) S 9 (b) S 1 7 {fields}");
    let stat = parse_stat(line.as_bytes()).unwrap();
    let expected = Stat { state: b'S', parent: 1, group: 7, session: 6, started: 22 };
    assert_eq!(stat, expected);
    assert_eq!(parse_stat(b"7 (a"), None);
    assert_eq!(parse_stat(b""), None);
}

#[test]
fn a_child_is_found_with_its_parent_and_variables() {
    let mut child = std::process::Command::new("sleep").arg("60").env("MARK", "x").spawn().unwrap();
    let me = std::process::id();
    assert!(descendants(me).contains(&child.id()));
    assert!(children(me).iter().any(|(pid, _)| *pid == child.id()));
    // Some kernels do not have it.
    let list = format!("/proc/{me}/task/{me}/children");
    let is_listed = Path::new(&list).exists();
    assert!(children_now(me).contains(&child.id()) || !is_listed);
    assert_eq!(nearest_ancestor(child.id(), &|pid| pid == me), Some(me));
    assert_eq!(nearest_ancestor(child.id(), &|_| false), None);
    // The program's environment appears some time after the process.
    let give_up = std::time::Instant::now() + std::time::Duration::from_secs(30);
    while !started_with(child.id(), b"MARK=x") {
        assert!(std::time::Instant::now() < give_up, "the variable is never seen");
        std::thread::yield_now();
    }
    assert!(!started_with(child.id(), b"MARK="));
    assert_eq!(variable_at_start(child.id(), "MARK"), Some(b"x".to_vec()));
    assert_eq!(variable_at_start(child.id(), "MAR"), None);
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(stat(child.id()), None);
}

#[test]
fn threads_are_counted() {
    let (end, gate) = std::sync::mpsc::channel::<()>();
    let before = n_threads().unwrap();
    assert!(before >= 1);
    let thread = std::thread::spawn(move || gate.recv());
    assert!(n_threads().unwrap() >= 2);
    drop(end);
    let _ = thread.join().unwrap();
}
