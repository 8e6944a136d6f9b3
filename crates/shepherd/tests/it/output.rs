//! A task's output on its way from a pipe to a file of gpool's own, and the order of the two
//! streams.
//!
//! The program writes to a pipe and not to the file, although that costs a copy. A file's size
//! can't be limited without harm to the job (a resource limit ends it, and counts for all its
//! files), and a full disk would fail the job's writes. With a pipe the job can always write; bytes
//! that are not kept are counted and reported. The program gets files that the user names directly.

use rustix::pipe::{PipeFlags, pipe_with};

use std::fs::File;

use gpool_model::Bytes;
use gpool_shepherd::testing::{Order, OutputWriter, Progress, Stream, Target};

fn kept(limit: u64, writes: &[&[u8]]) -> String {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("out");
    let (read, write) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK).unwrap();
    let mut stream = Stream::new(0, read, Target::new(path.clone(), None), Bytes::new(limit));
    let (mut buffer, mut order) = ([0; 4], Order::default());
    for bytes in writes {
        rustix::io::write(&write, bytes).unwrap();
        assert_eq!(stream.take(&mut buffer, &mut |_| {}, &mut order), Progress::Open);
    }
    drop(write);
    stream.finish(&mut buffer, &mut |_| {}, &mut order);
    std::fs::read_to_string(path).unwrap()
}

#[test]
fn output_is_kept_up_to_the_limit_and_the_rest_is_counted() {
    assert_eq!(kept(10, &[b"hello ", b"you!"]), "hello you!");
    assert_eq!(
        kept(10, &[b"hello ", b"you!?", b"more"]),
        "hello you!\n[gpool: output limit of 10 B reached; further output is dropped]\n\
         [gpool: dropped 5 bytes above the output limit of 10 B]\n"
    );
}

#[test]
fn a_job_that_writes_nothing_gets_no_file() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("out");
    let (read, write) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK).unwrap();
    drop(write);
    let target = Target::new(path.clone(), None);
    let stream = Stream::new(0, read, target, Bytes::from_gib(1));
    stream.finish(&mut [0; 4], &mut |_| {}, &mut Order::default());
    assert!(!path.exists());
}

#[test]
fn output_lost_to_a_full_disk_is_noted_once_there_is_room() {
    let full = File::options().write(true).open("/dev/full").unwrap();
    let mut order = Order::default();
    let mut kept = OutputWriter::new(0, Target::open(full), Bytes::new(100));
    kept.write(b"hello", &mut order);
    kept.write(b"you", &mut order);
    assert_eq!((kept.lost, kept.room), (8, 100));
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("out");
    kept.file = Target::new(path.clone(), None);
    kept.write(b"again", &mut order);
    kept.close(&mut order);
    let text = std::fs::read_to_string(path).unwrap();
    assert!(text.starts_with("\n[gpool: 8 bytes of output could not be written: No space"));
    assert!(text.ends_with("]\nagain"), "{text}");
}

#[test]
fn the_order_of_both_streams_is_kept_once_both_are_written() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    let mut order = Order::new(Target::new(path("order"), None));
    let mut streams: Vec<OutputWriter> = ["stdout", "stderr"]
        .into_iter()
        .enumerate()
        .map(|(which, name)| OutputWriter::new(which, Target::new(path(name), None), Bytes::new(6)))
        .collect();
    streams[1].write(b"error", &mut order);
    streams[1].write(b"!", &mut order);
    assert!(!path("order").exists(), "one stream needs none");
    streams[0].write(b"out", &mut order);
    streams[0].write(b"put", &mut order);
    // Beyond the limit.
    streams[1].write(b"more", &mut order);
    for stream in &mut streams {
        stream.close(&mut order);
    }
    assert_eq!(std::fs::read_to_string(path("order")).unwrap(), "0 6\n6 6\n");
    assert_eq!(std::fs::read_to_string(path("stdout")).unwrap(), "output");
    let errors = std::fs::read_to_string(path("stderr")).unwrap();
    assert!(errors.starts_with("error!\n[gpool: output limit"), "{errors}");
}
