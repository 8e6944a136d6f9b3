//! Results come into a folder of a user: nothing is overwritten silently, and a fetch goes on.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use gpool_files::fetch::{conflicts, write};
use gpool_files::walk::{Walked, folder};
use gpool_files::{ObjectId, PART};

/// A folder with a long file, a script and a link.
fn source() -> (tempfile::TempDir, Walked) {
    let root = tempfile::tempdir().unwrap();
    fs::create_dir(root.path().join("out")).unwrap();
    let length = usize::try_from(PART).unwrap() + 100;
    let long: Vec<u8> = (0..length).map(|n| u8::try_from(n % 251).unwrap()).collect();
    fs::write(root.path().join("out/long"), long).unwrap();
    fs::write(root.path().join("run.sh"), "#!/bin/sh\n").unwrap();
    fs::set_permissions(root.path().join("run.sh"), PermissionsExt::from_mode(0o755)).unwrap();
    symlink("out/long", root.path().join("last")).unwrap();
    let walked = folder(root.path(), u64::MAX).unwrap();
    (root, walked)
}

fn read(path: &Path) -> Vec<u8> {
    fs::read(path).unwrap()
}

#[test]
fn a_fetched_folder_equals_its_source() {
    let (root, walked) = source();
    let to = tempfile::tempdir().unwrap();
    let into = to.path().join("new/folder");
    let fetched = write(&walked.manifest, &into, &mut |id| walked.read(id)).unwrap();
    assert_eq!((fetched.n_written, fetched.n_same), (3, 0));
    for path in ["out/long", "run.sh", "last"] {
        assert_eq!(read(&into.join(path)), read(&root.path().join(path)), "{path}");
    }
    let mode = fs::metadata(into.join("run.sh")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o755);
    assert!(conflicts(&walked.manifest, &into).unwrap().is_empty());
    let again = write(&walked.manifest, &into, &mut |_| Err(io::ErrorKind::Other.into())).unwrap();
    assert_eq!((again.n_written, again.n_same), (0, 3), "nothing is fetched again");
}

#[test]
fn an_interrupted_fetch_goes_on_with_the_next_part() {
    let (_root, walked) = source();
    let to = tempfile::tempdir().unwrap();
    let mut n_asked: HashMap<ObjectId, u32> = HashMap::new();
    let mut n_left = 1;
    let mut cut = |id: &ObjectId| {
        *n_asked.entry(*id).or_default() += 1;
        if n_left == 0 {
            return Err(io::ErrorKind::ConnectionReset.into());
        }
        n_left -= 1;
        walked.read(id)
    };
    write(&walked.manifest, to.path(), &mut cut).unwrap_err();
    assert!(!to.path().join("out/long").exists(), "a file is complete or absent");
    let mut whole = |id: &ObjectId| {
        *n_asked.entry(*id).or_default() += 1;
        walked.read(id)
    };
    write(&walked.manifest, to.path(), &mut whole).unwrap();
    let first = walked.manifest.parts().next().unwrap();
    assert_eq!(n_asked[first], 1, "the first part came before the cut");
    let left = fs::read_dir(to.path().join("out")).unwrap().count();
    assert_eq!(left, 1, "no partial file is left");
}

#[test]
fn other_content_is_named_and_only_replaced_on_request() {
    let (_root, walked) = source();
    let to = tempfile::tempdir().unwrap();
    fs::create_dir(to.path().join("out")).unwrap();
    fs::write(to.path().join("out/long"), "mine").unwrap();
    symlink("elsewhere", to.path().join("last")).unwrap();
    let found = conflicts(&walked.manifest, to.path()).unwrap();
    assert_eq!(found, [to.path().join("last"), to.path().join("out/long")]);
    write(&walked.manifest, to.path(), &mut |id| walked.read(id)).unwrap();
    assert!(conflicts(&walked.manifest, to.path()).unwrap().is_empty());
}

#[test]
fn nothing_is_written_through_a_link() {
    let (_root, walked) = source();
    let (to, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    symlink(other.path(), to.path().join("out")).unwrap();
    let found = conflicts(&walked.manifest, to.path()).unwrap();
    assert!(found.contains(&to.path().join("out/long")), "{found:?}");
    // The folder of the results takes the place of the link.
    write(&walked.manifest, to.path(), &mut |id| walked.read(id)).unwrap();
    assert_eq!(fs::read_dir(other.path()).unwrap().count(), 0);
}
