//! Open-file-description locks: they belong to an open file. The kernel releases a lock when the
//! last copy of the descriptor is closed, also when a process is killed.

use std::fs::File;

use gpool_sys::lock::{is_held, try_lock};

#[test]
fn one_of_two_openers_has_the_lock_and_its_end_frees_it() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("lock");
    let first = File::create(&path).unwrap();
    let second = File::options().read(true).write(true).open(&path).unwrap();
    assert!(!is_held(&second).unwrap());
    assert!(try_lock(&first).unwrap());
    assert!(is_held(&second).unwrap());
    assert!(!try_lock(&second).unwrap());
    assert!(!is_held(&first).unwrap(), "its own lock does not count");
    drop(first);
    assert!(try_lock(&second).unwrap());
}
