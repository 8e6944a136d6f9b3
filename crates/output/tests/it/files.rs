//! Answers to questions about the files of jobs.

use std::path::Path;
use std::sync::mpsc::channel;

use gpool_model::output::OutputStream;
use gpool_model::unit::Timestamp;
use gpool_output::JobFiles;
use gpool_protocol::{FileAnswer, FileQuestion, OutputPart, OutputRequest, OutputStart};

use crate::{file_of, me, task};

fn answer(files: &JobFiles, question: FileQuestion) -> FileAnswer {
    let (sender, receiver) = channel();
    files.answer(question, Box::new(move |answer| sender.send(answer).unwrap())).unwrap();
    receiver.recv().unwrap()
}

fn request(start: OutputStart) -> OutputRequest {
    let (task, streams) = (task("7#1/0"), vec![OutputStream::Stdout]);
    OutputRequest { task, streams, owner: Some(me()), start, since: None }
}

fn part(files: &JobFiles, request: OutputRequest) -> OutputPart {
    match answer(files, FileQuestion::Output(request)) {
        FileAnswer::Output(part) => part,
        other => panic!("{other:?}"),
    }
}

fn bytes(offset: u64, text: &str) -> OutputPart {
    OutputPart::Bytes { offset, bytes: text.as_bytes().to_vec() }
}

fn files_of(state_dir: &Path) -> JobFiles {
    JobFiles::new([state_dir.to_owned()].into())
}

#[test]
fn parts_say_why_there_is_no_output() {
    let dir = tempfile::tempdir().unwrap();
    let files = files_of(dir.path());
    let from_start = || request(OutputStart::Byte(0));
    assert_eq!(part(&files, from_start()), OutputPart::Missing);
    let path = file_of(dir.path(), task("7#1/0"), "stdout");
    assert_eq!(part(&files, from_start()), OutputPart::Unwritten);
    std::fs::write(&path, "a\nb\nc\n").unwrap();
    assert_eq!(part(&files, from_start()), bytes(0, "a\nb\nc\n"));
    assert_eq!(part(&files, request(OutputStart::LastLines(2))), bytes(2, "b\nc\n"));
    assert_eq!(part(&files, request(OutputStart::Byte(9))), bytes(6, ""));
    let since = |since| OutputRequest { since: Some(since), ..from_start() };
    assert_eq!(part(&files, since(Timestamp::new(u64::MAX))), OutputPart::TooOld);
    assert_eq!(part(&files, since(Timestamp::ZERO)), bytes(0, "a\nb\nc\n"));
    let other = OutputRequest { owner: Some(me() + 1), ..from_start() };
    assert_eq!(part(&files, other), OutputPart::NotRegular);
}

#[test]
fn a_reader_that_continues_gets_all_bytes_of_the_file_that_it_began_with() {
    let dir = tempfile::tempdir().unwrap();
    let files = files_of(dir.path());
    let path = file_of(dir.path(), task("7#1/0"), "stdout");
    let long = "0123456789abcdef".repeat(40_000);
    std::fs::write(&path, &long).unwrap();
    let (mut read, mut n_parts) = (Vec::new(), 0);
    loop {
        let start = OutputStart::Byte(read.len() as u64);
        let OutputPart::Bytes { offset, bytes } = part(&files, request(start)) else { panic!() };
        assert_eq!(offset, read.len() as u64);
        if bytes.is_empty() {
            break;
        }
        read.extend(bytes);
        n_parts += 1;
        // The job moves its file away; a later reader sees the new one.
        std::fs::rename(&path, dir.path().join("moved")).ok();
        std::fs::write(&path, "new").unwrap();
    }
    assert!(read == long.as_bytes() && n_parts > 1, "{n_parts} parts, {} bytes", read.len());
    assert_eq!(part(&files, request(OutputStart::Byte(0))), bytes(0, "new"));
}

#[test]
fn files_are_named_listed_and_removed() {
    let dir = tempfile::tempdir().unwrap();
    let files = files_of(dir.path());
    let path = file_of(dir.path(), task("7#1/0"), "stderr");
    std::fs::write(&path, "a").unwrap();
    let paths = answer(&files, FileQuestion::OutputPaths { task: task("7#1/0") });
    let stderr = Some(path.display().to_string());
    assert_eq!(paths, FileAnswer::OutputPaths { stdout: None, stderr });
    let jobs = vec!["7".parse().unwrap(), "8".parse().unwrap()];
    let before = Timestamp::new(u64::MAX / 4);
    let old = answer(&files, FileQuestion::OldJobs { before });
    assert_eq!(old, FileAnswer::OldJobs(jobs[..1].to_vec()));
    let removed = answer(&files, FileQuestion::RemoveJobs { jobs });
    assert_eq!(removed, FileAnswer::RemovedJobs(1));
    assert!(!path.exists());
}
