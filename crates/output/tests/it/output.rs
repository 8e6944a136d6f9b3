//! The output of one task, with files that its user may have replaced.

use std::io::{self, ErrorKind};
use std::os::unix::fs::symlink;
use std::path::Path;

use gpool_model::output::OutputStream;
use gpool_model::unit::Timestamp;
use gpool_output::Output;
use rustix::fs::{CWD, FileType, Mode, mknodat};

use crate::{file_of, me, task};

fn stdout_of(state_dir: &Path, owner: Option<u32>) -> Output {
    let streams = vec![OutputStream::Stdout];
    Output::new([state_dir.to_owned()].into(), task("7#1/0"), streams, owner)
}

fn text(output: &Output, at: u64) -> String {
    let mut bytes = vec![0; 100];
    let n_read = output.read_at(at, &mut bytes).unwrap();
    String::from_utf8(bytes[..n_read].to_vec()).unwrap()
}

#[test]
fn files_are_opened_once_they_exist() {
    let dir = tempfile::tempdir().unwrap();
    let mut output = stdout_of(dir.path(), None);
    output.refresh().unwrap();
    assert!(!output.is_written() && !output.has_folder());
    let path = file_of(dir.path(), task("7#1/0"), "stdout");
    output.refresh().unwrap();
    assert!(!output.is_written() && output.has_folder());
    std::fs::write(&path, "a\nb\nc\n").unwrap();
    output.refresh().unwrap();
    assert_eq!((text(&output, 0), text(&output, 4)), ("a\nb\nc\n".to_owned(), "c\n".to_owned()));
    assert_eq!((output.length(), output.last_lines(2).unwrap()), (6, 2));
    assert_eq!(output.owner().unwrap(), Some(me()));
    assert!(output.written_at().unwrap() > Timestamp::ZERO);
}

#[test]
fn the_last_lines_are_found() {
    let dir = tempfile::tempdir().unwrap();
    let path = file_of(dir.path(), task("7#1/0"), "stdout");
    let at = |text: &str, n_lines: u64| {
        std::fs::write(&path, text).unwrap();
        let mut output = stdout_of(dir.path(), None);
        output.refresh().unwrap();
        output.last_lines(n_lines).unwrap()
    };
    for (n_lines, position) in [(0, 6), (1, 4), (2, 2), (3, 0), (9, 0)] {
        assert_eq!(at("a\nb\nc\n", n_lines), position, "{n_lines}");
    }
    assert_eq!((at("a\nb\nc", 1), at("", 1)), (4, 0));
    // Lines are found across the pieces that are read at once.
    let long = format!("a\n{}\nb\n", "x".repeat(1 << 17));
    assert_eq!((at(&long, 1), at(&long, 2)), (long.len() as u64 - 2, 2));
}

#[test]
fn the_folder_of_an_older_agent_is_read_too() {
    let dir = tempfile::tempdir().unwrap();
    let dirs = [dir.path().join("nodes/n1"), dir.path().to_owned(), dir.path().join("nowhere")];
    std::fs::write(file_of(dir.path(), task("7#1/2"), "stdout"), "old\n").unwrap();
    let mut output = Output::new(dirs.into(), task("7#1/2"), vec![OutputStream::Stdout], None);
    output.refresh().unwrap();
    assert_eq!(text(&output, 0), "old\n");
}

#[test]
fn both_streams_are_merged_by_the_order_of_their_writing() {
    let dir = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        std::fs::write(file_of(dir.path(), task("7#1/0"), name), text).unwrap();
    };
    write("stdout", "one\nthree\n");
    write("stderr", "two\n");
    write("order", "4 0\n4 4\n");
    let both = OutputStream::BOTH.to_vec();
    let mut output = Output::new([dir.path().to_owned()].into(), task("7#1/0"), both, None);
    output.refresh().unwrap();
    assert_eq!(text(&output, 0), "one\ntwo\nthree\n");
    write("stderr", "two\nfour\n");
    output.refresh().unwrap();
    assert_eq!(text(&output, 14), "four\n");
}

#[test]
fn only_a_regular_file_of_the_owner_is_opened() {
    let dir = tempfile::tempdir().unwrap();
    let path = file_of(dir.path(), task("7#1/0"), "stdout");
    let refused = |what: &str| {
        let error: io::Error = stdout_of(dir.path(), None).refresh().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{what}");
    };
    std::fs::write(dir.path().join("secret"), "s").unwrap();
    symlink(dir.path().join("secret"), &path).unwrap();
    refused("a link");
    std::fs::remove_file(&path).unwrap();
    mknodat(CWD, &path, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
    refused("a pipe");
    std::fs::remove_file(&path).unwrap();
    std::fs::write(&path, "a\n").unwrap();
    stdout_of(dir.path(), Some(me())).refresh().unwrap();
    let error = stdout_of(dir.path(), Some(me() + 1)).refresh().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput, "a file of another user");
    let folder = path.parent().unwrap();
    std::fs::rename(folder, dir.path().join("elsewhere")).unwrap();
    symlink(dir.path().join("elsewhere"), folder).unwrap();
    refused("a link in place of the folder");
}
