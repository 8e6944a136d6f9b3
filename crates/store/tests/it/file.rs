//! Private, durable files and folders. Does not know their content.

use std::{fs, io};

use gpool_store::testing::{is_there, publish};

#[test]
fn publishing_overwrites_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let (new, taken) = (dir.path().join("new"), dir.path().join("taken"));
    fs::write(&new, "new").unwrap();
    fs::write(&taken, "old").unwrap();
    let error = publish(&new, &taken).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
    assert_eq!(fs::read(&taken).unwrap(), b"old");
    publish(&new, &dir.path().join("free")).unwrap();
    assert!(!is_there(&new));
}
