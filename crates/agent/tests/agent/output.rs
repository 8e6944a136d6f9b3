//! Output: complete, in the requested place, never through a link or FIFO.

use std::os::unix::fs::symlink;
use std::path::Path;

use gpool_model::job::JobSpec;

use crate::harness::{Node, code, job, shell, until};

fn to(mut job: JobSpec, stdout: &Path) -> JobSpec {
    job.stdout = Some(stdout.to_str().unwrap().into());
    job
}

#[test]
fn output_and_errors_are_complete_and_separate() {
    let mut node = Node::new();
    let task = node.run(&shell(1, "seq 1 200000; echo wrong >&2; printf end"));
    assert_eq!(node.wait_for_end(task).exit, code(0));
    let expected: String = (1..=200_000).map(|n| format!("{n}\n")).collect::<String>() + "end";
    assert!(node.stdout(task) == expected, "all of it is there once the end is reported");
    assert_eq!(node.stderr(task), "wrong\n");
}

#[test]
fn output_can_be_read_while_the_job_runs() {
    let mut node = Node::new();
    let task = node.run(&shell(1, "echo begun; sleep 600"));
    node.wait_for_start(task);
    until("the line is there", || node.stdout(task) == "begun\n");
}

#[test]
fn output_of_a_process_that_outlived_the_job_is_kept_too() {
    let mut node = Node::new();
    let late = node.path("late");
    let script = format!("(sleep 0.1; echo late; touch {}) & sleep 0.5; exit 0", late.display());
    let task = node.run(&shell(1, &script));
    node.wait_for_end(task);
    assert_eq!(node.stdout(task), "late\n");
}

#[test]
fn output_beyond_the_limit_is_cut_and_noted() {
    let mut node = Node::with(&["none", "output_limit=1000"]);
    let task = node.run(&shell(1, "yes | head -c 5000; exit 3"));
    assert_eq!(node.wait_for_end(task).exit, code(3), "the job does not notice");
    let output = node.stdout(task);
    let (kept, note) = output.split_at(1000);
    assert_eq!(kept, "y\n".repeat(500));
    let said = "\n[gpool: output limit of 1000 B reached; further output is dropped]\n\
                [gpool: dropped 4000 bytes above the output limit of 1000 B]\n";
    assert_eq!(note, said);
}

#[test]
fn named_files_are_filled_in_and_shared() {
    let mut node = Node::new();
    let mut job = shell(7, "echo out; echo err >&2; echo out again");
    job.directory = node.folder.path().to_str().unwrap().to_owned();
    job.stdout = Some("%x-%j.txt".into());
    job.stderr = job.stdout.clone();
    let file = node.path("test-7.txt");
    std::fs::write(&file, "of an earlier job").unwrap();
    assert_eq!(node.finish(&job).exit, code(0));
    assert_eq!(std::fs::read_to_string(file).unwrap(), "out\nerr\nout again\n");
    assert!(!node.layout().stdout("7#1/0".parse().unwrap()).exists());
}

#[test]
fn input_is_empty_or_the_named_file() {
    let mut node = Node::new();
    let file = node.path("input");
    std::fs::write(&file, "hello").unwrap();
    assert_eq!(node.finish(&job(1, &["cat"])).exit, code(0));
    let mut named = job(2, &["cat"]);
    named.stdin = Some(file.to_str().unwrap().into());
    node.finish(&named);
    assert_eq!(node.stdout("2#1/0".parse().unwrap()), "hello");
    named = job(3, &["cat"]);
    named.stdin = Some("/no/such/file".into());
    let why = node.failure(&named);
    assert!(why.starts_with("can't open /no/such/file for standard input: No such"), "{why}");
}

#[test]
fn output_paths_that_cannot_be_written_are_named() {
    let mut node = Node::new();
    let why = node.failure(&to(job(2, &["true"]), Path::new("/tmp")));
    assert!(why.starts_with("can't open /tmp for output: Is a directory"), "{why}");
    let why = node.failure(&to(job(3, &["true"]), Path::new("/no/such/folder/file")));
    assert!(why.contains("No such file or directory"), "{why}");
    assert_eq!(node.finish(&to(job(4, &["true"]), Path::new("/dev/null"))).exit, code(0));
}

#[test]
fn a_fifo_is_refused_without_waiting() {
    let mut node = Node::new();
    let fifo = node.path("fifo");
    let made = std::process::Command::new("mkfifo").arg(&fifo).status().unwrap();
    assert!(made.success());
    let why = node.failure(&to(job(1, &["true"]), &fifo));
    assert!(
        why.ends_with("it is a FIFO without a reader or writer, or a device without a driver"),
        "{why}"
    );
    let reader = rustix::fs::open(
        &fifo,
        rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::NONBLOCK,
        rustix::fs::Mode::empty(),
    );
    let why = node.failure(&to(job(2, &["true"]), &fifo));
    assert!(why.ends_with("it is not a file or a character device"), "{why}");
    drop(reader);
}

#[test]
fn a_link_in_place_of_gpools_own_file_is_not_followed() {
    let mut node = Node::new();
    let victim = node.path("victim");
    std::fs::write(&victim, "precious").unwrap();
    let task = "1#1/0".parse().unwrap();
    std::fs::create_dir_all(node.layout().attempt(task)).unwrap();
    symlink(&victim, node.layout().stdout(task)).unwrap();
    assert_eq!(node.finish(&job(1, &["echo", "overwritten"])).exit, code(0));
    assert_eq!(std::fs::read_to_string(victim).unwrap(), "precious");
}
