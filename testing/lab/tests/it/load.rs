//! A load on the API: clients that each keep one connection open and send the next request after
//! each answer. It writes HTTP itself, since the work of a client library would be measured too.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;

use gpool_lab::bench::load::{Ask, carry};
use std::os::unix::net::UnixListener;

/// A server that answers every request with `answer`.
fn answering(folder: &Path, answer: &'static str) -> std::path::PathBuf {
    let path = folder.join("s");
    let listener = UnixListener::bind(&path).expect("a short path");
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || {
                let mut reader = BufReader::new(stream);
                let mut line = String::new();
                while reader.read_line(&mut line).is_ok_and(|n| n > 0) {
                    if line == "\r\n" && reader.get_mut().write_all(answer.as_bytes()).is_err() {
                        return;
                    }
                    line.clear();
                }
            });
        }
    });
    path
}

#[test]
fn every_request_is_answered_once() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let socket = answering(folder.path(), "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    let carried = carry(&socket, Ask::Health, 4, 100).expect("all are answered");
    assert!(carried.per_s > 0.0 && carried.own_cores >= 0.0, "{carried:?}");
}

#[test]
fn a_refusal_is_said() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let socket = answering(folder.path(), "HTTP/1.1 503 No\r\ncontent-length: 4\r\n\r\nbusy");
    let failure = carry(&socket, Ask::Health, 2, 10).expect_err("it is refused");
    assert!(format!("{failure:?}").contains("503"), "{failure:?}");
}
