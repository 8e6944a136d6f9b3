//! Words that are not UTF-8: each is refused with one clear message, and nothing changes. Programs,
//! scripts and environments may hold any bytes.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;

use crate::harness::Cluster;

#[test]
fn words_that_are_not_utf8_are_refused() {
    let cluster = Cluster::new("none");
    let latin = OsStr::from_bytes(b"caf\xe9");
    for words in [
        &["submit".as_ref(), "--".as_ref(), "echo".as_ref(), latin][..],
        &["run".as_ref(), "--".as_ref(), latin],
        &["submit".as_ref(), latin],
        &["submit".as_ref(), "-J".as_ref(), latin, "--".as_ref(), "true".as_ref()],
        &["show".as_ref(), latin],
    ] {
        let ran = cluster.gpool(words);
        ran.refused(2, &["UTF-8"]);
    }
    assert!(cluster.all_ids().is_empty());
    // An environment and a script may hold any bytes.
    let mut command = cluster.command();
    command.env("BYTES", latin).args(["run", "--", "sh", "-c", "printf %s \"$BYTES\""]);
    assert_eq!(command.output().unwrap().stdout, b"caf\xe9");
    std::fs::write(cluster.work().join("latin.sh"), b"#!/bin/sh\nprintf 'caf\xe9'\n").unwrap();
    let id = cluster.submit(["latin.sh"]);
    assert_eq!(cluster.until_ended(&id).run.exit_code, Some(0));
    let out = cluster.command().args(["logs", &id]).output().unwrap().stdout;
    assert_eq!(out, b"caf\xe9");
    // So may the working directory: the command is refused or works.
    let folder = cluster.work().join(latin);
    std::fs::create_dir(&folder).unwrap();
    let mut command = cluster.command();
    command.current_dir(&folder).args(["run", "--", "true"]);
    let ran = crate::harness::Running::start(&mut command, None).end();
    ran.refused(2, &["UTF-8"]);
}
