//! The store: one server at a time, damage found and nothing overwritten, backups.

use crate::harness::Cluster;

/// A server that must not start on this cluster's folders ends with that.
fn refuses_to_start(cluster: &Cluster, words: &[&str]) {
    let ran = cluster.gpool(["up", "--foreground", "--devices", "none"]);
    assert_ne!(ran.code, 0, "{ran:?}");
    assert!(ran.err.contains("error:") && !ran.err.contains("panicked"), "{ran:?}");
    assert!(words.iter().any(|word| ran.err.contains(word)), "{words:?} not in {ran:?}");
}

#[test]
fn one_state_folder_has_one_server() {
    let cluster = Cluster::new("none");
    let id = cluster.submit(["--hold", "--", "true"]);
    let other = cluster.path("other.sock");
    let other = other.to_str().unwrap();
    let ran = cluster.gpool(["up", "--devices", "none", "--socket", other]);
    assert_ne!(ran.code, 0, "{ran:?}");
    assert!(ran.err.contains("error:") && ran.err.contains("in use by process"), "{ran:?}");
    let ran = cluster.gpool(["up", "--foreground", "--devices", "none", "--socket", other]);
    assert_ne!(ran.code, 0, "{ran:?}");
    let pid = cluster.server_pid().to_string();
    assert!(ran.err.contains(&pid), "it says who: {ran:?}");
    // Nor has one socket two.
    let folder = cluster.path("other-state");
    let words = ["up", "--foreground", "--devices", "none", "--state-dir"];
    let ran = cluster.gpool(words.iter().copied().chain([folder.to_str().unwrap()]));
    assert_ne!(ran.code, 0, "{ran:?}");
    assert!(ran.err.contains("runs already"), "{ran:?}");
    assert_eq!(cluster.job(&id).state.as_str(), "held");
}

#[test]
fn a_damaged_store_is_refused_and_left_alone() {
    let mut cluster = Cluster::new("none");
    for _ in 0..50 {
        cluster.submit(["--hold", "--", "true"]);
    }
    cluster.down(&[]);
    assert!(cluster.gpool(["verify"]).ok().contains("sound"));
    let file = cluster.state().join("store.db");
    let whole = std::fs::read(&file).unwrap();
    assert!(whole.len() > 8192);
    let all_zero = vec![0; whole.len()];
    let garbage = vec![b'#'; whole.len()];
    let mut flipped = whole.clone();
    // In every place: pages that are free now still hold what once stood there.
    for job in places(&whole, b"\"true\"") {
        flipped[job + 1] ^= 1;
    }
    assert!(flipped != whole);
    for (what, bytes) in [
        ("flipped bits", &flipped[..]),
        ("cut in half", &whole[..whole.len() / 2]),
        ("cut to nothing", &[][..]),
        ("zeros", &all_zero),
        ("garbage", &garbage),
    ] {
        std::fs::write(&file, bytes).unwrap();
        let ran = cluster.gpool(["up", "--foreground", "--devices", "none"]);
        assert_eq!(ran.code, 1, "{what}: {ran:?}");
        assert!(ran.err.contains("error:") && !ran.err.contains("panicked"), "{what}: {ran:?}");
        assert_eq!(std::fs::read(&file).unwrap(), bytes, "{what}: it was written to");
        let ran = cluster.gpool(["verify"]);
        assert_ne!(ran.code, 0, "{what}: {ran:?}");
    }
    // Gone altogether, beside all that says it was there.
    std::fs::remove_file(&file).unwrap();
    refuses_to_start(&cluster, &["store", "mark"]);
    std::fs::write(&file, &whole).unwrap();
    cluster.up();
    assert_eq!(cluster.all_ids().len(), 50);
}

fn places<'a>(bytes: &'a [u8], needle: &'a [u8]) -> impl Iterator<Item = usize> + 'a {
    let windows = bytes.windows(needle.len()).enumerate();
    windows.filter(move |(_, window)| *window == needle).map(|(at, _)| at)
}

#[test]
fn a_backup_is_made_while_it_runs_and_used_elsewhere() {
    let cluster = Cluster::new("none");
    let id = cluster.sh(&["-e", "KEPT=yes"], "echo $KEPT; exit 3");
    cluster.until_ended(&id);
    let held = cluster.submit(["--hold", "-e", "KEPT=yes", "--", "sh", "-c", "echo $KEPT"]);
    let file = cluster.path("backup");
    let path = file.to_str().unwrap();
    cluster.gpool(["backup", path]).ok();
    cluster.gpool(["backup", path]).refused(1, &["backup"]);
    assert!(cluster.gpool(["verify", path]).ok().contains("sound"));
    // Numbers that were given out after the backup must not come again.
    let later: u64 = cluster.submit(["--hold", "--", "true"]).parse().unwrap();
    let mut other = Cluster::unstarted(&["--devices", "none"]);
    other.gpool(["restore", path]).ok();
    other.up();
    assert_eq!(other.job(&id).exit_code, Some(3));
    assert_eq!(other.job(&held).state.as_str(), "held");
    let next: u64 = other.submit(["--hold", "--", "true"]).parse().unwrap();
    assert!(next > later, "number {next} may have been given out before ({later})");
    other.gpool(["release", &held]).ok();
    other.until_ended(&held);
    assert_eq!(other.stdout_of(&held), "yes\n");
    // Nothing is overwritten, and nothing in use.
    let ran = other.gpool(["restore", path]);
    ran.refused(1, &[other.state().to_str().unwrap()]);
    // A damaged backup is no backup.
    let mut bytes = std::fs::read(&file).unwrap();
    for at in places(&bytes.clone(), b"\"default\"") {
        bytes[at + 1] ^= 1;
    }
    assert!(bytes != std::fs::read(&file).unwrap());
    std::fs::write(&file, bytes).unwrap();
    assert_ne!(cluster.gpool(["verify", path]).code, 0);
    let third = Cluster::unstarted(&[]);
    let ran = third.gpool(["restore", path]);
    ran.refused(1, &[path]);
    assert!(!third.state().join("store.db").exists());
}
