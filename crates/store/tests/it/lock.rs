//! One server per state folder: checks the folder and locks `DIR/lock`. The kernel releases the
//! lock when its holder dies, for any reason. Opens nothing else.

use gpool_store::OpenError;
use gpool_store::testing::Lock;

#[test]
fn a_holder_that_lives_is_named_and_an_heir_of_a_dead_one_is_waited_for() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path().join("state");
    let first = Lock::take(&dir, true).unwrap();
    let own = std::process::id();
    let refused = Lock::take(&dir, true).err();
    assert!(matches!(refused, Some(OpenError::Held { pid: Some(pid), .. }) if pid == own));
    // As if the holder had been killed while it started another process.
    let mut ended = std::process::Command::new("true").spawn().unwrap();
    ended.wait().unwrap();
    std::fs::write(dir.join("lock"), format!("{}\n", ended.id())).unwrap();
    let heir = std::thread::spawn(move || drop(first));
    assert!(Lock::take(&dir, true).is_ok());
    heir.join().unwrap();
}
