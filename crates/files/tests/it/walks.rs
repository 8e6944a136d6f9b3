//! Folders are read without following links, with ignore files and patterns.

use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::Path;

use gpool_files::walk::{self, Purpose, WalkError};
use gpool_files::{Manifest, PART, Patterns};

fn write(root: &Path, path: &str, text: &str) {
    let path = root.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

fn paths(manifest: &Manifest) -> Vec<&str> {
    manifest.entries().iter().map(|entry| entry.path.as_str()).collect()
}

fn uploaded(root: &Path) -> Manifest {
    walk::folder(root, u64::MAX).unwrap().manifest
}

#[test]
fn ignore_files_apply_to_their_folders() {
    let root = tempfile::tempdir().unwrap();
    let root = root.path();
    for path in ["train.py", "data/a.bin", "data/keep.bin", "deep/er/x.log", "deep/y.tmp", "y.tmp"]
    {
        write(root, path, path);
    }
    write(root, ".git/config", "secret");
    write(root, "sub/.git/config", "secret");
    write(root, ".gpoolignore", "# a comment\n*.log\n/data/*\n!/data/keep.bin\n");
    write(root, "deep/.gpoolignore", "*.tmp\n");
    let found = uploaded(root);
    let expected = [
        ".gpoolignore",
        "data",
        "data/keep.bin",
        "deep",
        "deep/.gpoolignore",
        "deep/er",
        "sub",
        "train.py",
        "y.tmp",
    ];
    assert_eq!(paths(&found), expected);
    assert_eq!(uploaded(root).bytes(), found.bytes(), "equal folders have equal manifests");
}

#[test]
fn links_that_leave_and_special_files_do_not_travel() {
    let root = tempfile::tempdir().unwrap();
    let root = root.path();
    write(root, "a/x", "1");
    for (target, name) in
        [("/etc/passwd", "out"), ("../..", "up"), ("a", "in"), ("a/../../b", "mixed")]
    {
        symlink(target, root.join(name)).unwrap();
    }
    let _socket = UnixListener::bind(root.join("socket")).unwrap();
    let found = uploaded(root);
    assert_eq!(paths(&found), ["a", "a/x", "in"]);
    let left_out = found.left_out().join("\n");
    for name in ["out: the symbolic link leaves", "up: the", "mixed: the", "socket: it is no file"]
    {
        assert!(left_out.contains(name), "{left_out}");
    }
}

#[test]
fn a_name_that_is_not_utf_8_is_refused() {
    let root = tempfile::tempdir().unwrap();
    fs::write(root.path().join(std::ffi::OsStr::from_bytes(b"a\xff")), "x").unwrap();
    let error = walk::folder(root.path(), u64::MAX).unwrap_err();
    assert!(matches!(error, WalkError::NotText { .. }), "{error}");
    assert!(error.to_string().contains("not UTF-8"), "{error}");
}

#[test]
fn a_folder_that_is_too_large_names_its_largest_part() {
    let root = tempfile::tempdir().unwrap();
    write(root.path(), "small/a", "12345");
    write(root.path(), "large/deep/a", &"x".repeat(90));
    write(root.path(), "large/b", &"x".repeat(10));
    let error = walk::folder(root.path(), 50).unwrap_err();
    let WalkError::TooLarge { largest, n_bytes, .. } = error else { panic!("{error}") };
    assert_eq!((largest, n_bytes), (("large".to_owned(), 100), 105));
    assert!(walk::folder(root.path(), 105).is_ok());
}

#[test]
fn a_file_that_changes_after_the_walk_is_noticed() {
    let root = tempfile::tempdir().unwrap();
    let text = "y".repeat(usize::try_from(PART).unwrap() + 5);
    write(root.path(), "a", &text);
    let walked = walk::folder(root.path(), u64::MAX).unwrap();
    let parts: Vec<_> = walked.manifest.parts().copied().collect();
    assert_eq!(parts.len(), 2);
    assert_eq!(walked.read(&parts[1]).unwrap(), b"yyyyy");
    write(root.path(), "a", "other");
    let error = walked.read(&parts[0]).unwrap_err();
    assert!(error.to_string().contains("changed while it was read"), "{error}");
}

#[test]
fn results_are_those_that_match() {
    let root = tempfile::tempdir().unwrap();
    let root = root.path();
    for path in ["out/a.csv", "out/b.txt", "out/deep/c.csv", "model/w.bin", "model/x/y", "log.csv"]
    {
        write(root, path, "1");
    }
    let purpose = Purpose::Results { uid: rustix_uid(), in_container: false };
    let of = |patterns: &[&str]| {
        let patterns: Vec<String> = patterns.iter().map(|it| (*it).to_owned()).collect();
        let patterns = Patterns::new(&patterns).unwrap();
        let found = walk::results(root, &patterns, purpose, u64::MAX).unwrap().manifest;
        paths(&found).join(" ")
    };
    assert_eq!(of(&["out/*.csv"]), "out/a.csv");
    assert_eq!(of(&["out/**/*.csv"]), "out/a.csv out/deep/c.csv");
    assert_eq!(of(&["model/", "log.csv"]), "log.csv model model/w.bin model/x model/x/y");
    assert_eq!(of(&["./model/x"]), "model/x model/x/y");
    assert_eq!(of(&["csv"]), "", "a name matches at the top only");
    assert_eq!(of(&["."]).split(' ').count(), 10);
    assert_eq!(of(&["!out", "#x"]), "", "these characters have no meaning");
    for bad in ["../x", "/etc/*", "a/../b", ""] {
        assert!(Patterns::new(&[bad.to_owned()]).is_err(), "{bad:?}");
    }
}

#[test]
fn results_of_other_users_and_too_many_bytes_are_left_out() {
    let root = tempfile::tempdir().unwrap();
    write(root.path(), "a", "12345");
    write(root.path(), "b", "12345");
    fs::set_permissions(root.path().join("b"), PermissionsExt::from_mode(0o600)).unwrap();
    let patterns = Patterns::new(&[".".to_owned()]).unwrap();
    let other = Purpose::Results { uid: rustix_uid() + 1, in_container: false };
    let found = walk::results(root.path(), &patterns, other, u64::MAX).unwrap().manifest;
    assert_eq!((found.n_files(), found.left_out().len()), (0, 2));
    let in_container = Purpose::Results { uid: rustix_uid() + 1, in_container: true };
    fs::hard_link(root.path().join("b"), root.path().join("c")).unwrap();
    let found = walk::results(root.path(), &patterns, in_container, u64::MAX).unwrap().manifest;
    assert_eq!(paths(&found), ["a"], "a file with two names may be that of another user");
    let own = Purpose::Results { uid: rustix_uid(), in_container: false };
    let found = walk::results(root.path(), &patterns, own, 7).unwrap().manifest;
    assert_eq!((paths(&found), found.left_out().len()), (vec!["a"], 2));
}

fn rustix_uid() -> u32 {
    rustix::process::geteuid().as_raw()
}
