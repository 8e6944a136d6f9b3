//! The folder of a run, and the files in it that gpool writes.

use std::os::unix::fs::MetadataExt as _;
use std::sync::atomic::{AtomicBool, Ordering};

use std::io::Write as _;

use gpool_shepherd::testing::make_output;

#[test]
fn an_output_file_belongs_to_its_user_as_soon_as_it_exists() {
    const NOBODY: u32 = 65534;
    if !rustix::process::geteuid().is_root() {
        return eprintln!("skipped: only root can give files away");
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("stdout");
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut owners = std::collections::BTreeSet::new();
            while !is_over.load(Ordering::Relaxed) {
                owners.extend(path.symlink_metadata().ok().map(|about| about.uid()));
            }
            owners
        });
        for _ in 0..2_000 {
            make_output(&path, Some((NOBODY, NOBODY))).unwrap();
            std::fs::remove_file(&path).unwrap();
        }
        is_over.store(true, Ordering::Relaxed);
        let owners = reader.join().unwrap();
        assert!(owners.iter().all(|owner| *owner == NOBODY), "{owners:?}");
    });
}

#[test]
fn a_file_in_place_of_the_output_is_replaced_and_not_opened() {
    use std::os::unix::fs::symlink;
    let folder = tempfile::tempdir().unwrap();
    let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    let precious = folder.path().join("precious");
    std::fs::write(&precious, "as it was").unwrap();
    let path = folder.path().join("stdout");
    for name in ["stdout", "stdout.new"] {
        symlink(&precious, folder.path().join(name)).unwrap();
    }
    make_output(&path, Some((uid, gid))).unwrap().write_all(b"written").unwrap();
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "written");
    assert_eq!(std::fs::read_to_string(&precious).unwrap(), "as it was");
}
