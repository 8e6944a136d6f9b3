//! The features that work on this machine, for users to read: probed, not guessed.

use gpool_sys::capability::{Capabilities, LimitMechanism};
use gpool_sys::cgroup::Site;

#[test]
fn the_probe_leaves_no_group_behind_and_finds_pidfds() {
    let found = Capabilities::probe();
    assert!(found.pidfd && found.boot_id);
    let name = format!("gpool-probe-{}", std::process::id());
    let again = Site::open(&name);
    again.close();
    let folders = [again.unified, again.memory_v1, again.pids_v1, again.devices_v1];
    for folder in folders.into_iter().flatten() {
        assert!(!folder.exists(), "{}", folder.display());
    }
}

#[test]
fn a_machine_without_groups_has_warnings() {
    let found = Capabilities::with(&Site::default());
    assert_eq!(
        (found.kill, found.memory),
        (LimitMechanism::ProcessTree, LimitMechanism::ProcessLimit)
    );
    assert_eq!(found.warnings().len(), 4);
    assert!(found.devices.unwrap_err().contains("needs root"));
}
