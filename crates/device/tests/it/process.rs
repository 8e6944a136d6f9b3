//! The owner and program of a process, from `/proc`. A process may end while it is read: then
//! nothing is known of it, which is no error.

use gpool_device::testing::{Identity, Lookup};

#[test]
fn a_process_has_owner_program_and_start_time() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("7");
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(folder.join("status"), "Name:\tx\nUid:\t1007\t0\t0\t0\n").unwrap();
    std::fs::write(folder.join("comm"), "a (b) c\n").unwrap();
    let fields = (4..=52).map(|n| n.to_string()).collect::<Vec<_>>().join(" ");
    std::fs::write(folder.join("stat"), format!("7 (a (b) c) S {fields}")).unwrap();
    let passwd = dir.path().join("passwd");
    std::fs::write(&passwd, "root:x:0:0::/:/bin/sh\nalice:x:1007:1::/:/bin/sh\n").unwrap();
    let mut lookup = Lookup::at(dir.path(), &passwd);
    let expected =
        Identity { user: Some("alice".into()), name: Some("a (b) c".into()), started: Some(22) };
    assert_eq!(lookup.identify(7), expected);
    assert_eq!(lookup.user(4242), "4242", "no name, so the number");
}

#[test]
fn a_process_that_vanished_is_unknown() {
    let dir = tempfile::tempdir().unwrap();
    let mut lookup = Lookup::at(dir.path(), &dir.path().join("passwd"));
    assert_eq!(lookup.identify(1), Identity::default());
}

#[test]
fn this_process_is_found_in_the_real_proc() {
    let me = Lookup::new().identify(std::process::id());
    assert!(me.user.is_some() && me.name.is_some() && me.started.is_some(), "{me:?}");
}
