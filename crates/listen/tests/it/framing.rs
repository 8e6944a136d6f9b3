//! Malicious HTTP over the socket: ambiguous ends of requests and invalid headers. Each answer is a
//! problem or the end of the connection, and no bytes of a body are read as a request.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use serde_json::Value;

use crate::limits::SHORT;
use crate::rig::{ANA, Rig, raw};

/// Returns the whole answer to `bytes`, until the server closes the connection. The client keeps
/// its side open: the server drops the request of a client that has gone.
fn answers(socket: &Path, bytes: &[u8]) -> String {
    let mut stream = UnixStream::connect(socket).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    // The server may answer and close before it has read all.
    drop(stream.write_all(bytes));
    let mut answer = Vec::new();
    drop(stream.read_to_end(&mut answer));
    String::from_utf8_lossy(&answer).into_owned()
}

/// The statuses of the answers in there.
fn statuses(text: &str) -> Vec<u16> {
    let starts = text.match_indices("HTTP/1.");
    starts.filter_map(|(at, _)| text.get(at + 9..at + 12)?.parse().ok()).collect()
}

fn n_jobs(socket: &Path) -> u64 {
    let (_, _, body) =
        raw(socket, "GET /api/v1/jobs?state=all HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
    serde_json::from_str::<Value>(&body).unwrap()["total"].as_u64().unwrap()
}

const SUBMIT: &str = "POST /api/v1/jobs HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n";
const PIECES: &str = "16\r\n{\"command\":[\"pieces\"]}\r\n0\r\n\r\n";
const HIDDEN: &str = "POST /api/v1/jobs HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n\
                      content-length: 22\r\n\r\n{\"command\":[\"hidden\"]}";

#[test]
fn no_request_hides_in_the_body_of_another() {
    let mut rig = Rig::new();
    let socket = rig.patient_socket(ANA, SHORT);
    for (what, head) in [
        // By the length it is one request, by the chunks it is two.
        ("both", "content-length: 190\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n"),
        (
            "both, turned round",
            "transfer-encoding: chunked\r\ncontent-length: 190\r\n\r\n0\r\n\r\n",
        ),
        ("two lengths", "content-length: 0\r\ncontent-length: 190\r\n\r\n"),
        ("two lengths in one", "content-length: 0, 190\r\n\r\n"),
        ("a signed length", "content-length: +0\r\n\r\n"),
        ("a length in hexadecimal", "content-length: 0x0\r\n\r\n"),
        ("a length with a blank", "content-length : 0\r\n\r\n"),
        ("an empty length", "content-length: \r\n\r\n"),
        ("a length without end", "content-length: 99999999999999999999999\r\n\r\n"),
        ("chunked is not last", "transfer-encoding: chunked, identity\r\n\r\n0\r\n\r\n"),
        (
            "chunked twice",
            "transfer-encoding: chunked\r\ntransfer-encoding: identity\r\n\r\n0\r\n\r\n",
        ),
        ("something like chunked", "transfer-encoding: xchunked\r\n\r\n0\r\n\r\n"),
        ("a blank before the colon", "transfer-encoding : chunked\r\n\r\n0\r\n\r\n"),
        ("a folded line", "transfer-encoding:\r\n chunked\r\n\r\n0\r\n\r\n"),
        ("a bare line feed", "x: y\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n"),
        ("no number", "transfer-encoding: chunked\r\n\r\nzz\r\n\r\n"),
        ("a negative piece", "transfer-encoding: chunked\r\n\r\n-1\r\n\r\n"),
        ("a piece of 2^64", "transfer-encoding: chunked\r\n\r\n10000000000000000\r\n\r\n"),
        ("a piece without its end", "transfer-encoding: chunked\r\n\r\n1\r\n{0\r\n\r\n"),
    ] {
        let said = answers(&socket, format!("{SUBMIT}{head}{HIDDEN}").as_bytes());
        let found = statuses(&said);
        assert!(found.iter().all(|status| (400..500).contains(status)), "{what}: {said}");
        assert_eq!(n_jobs(&socket), 0, "{what}");
    }
    // As it should be, it is a job; and one after the other they are two.
    let said = answers(&socket, format!("{HIDDEN}{HIDDEN}").as_bytes());
    assert_eq!((statuses(&said), n_jobs(&socket)), (vec![201, 201], 2), "{said}");
    let said =
        answers(&socket, format!("{SUBMIT}transfer-encoding: chunked\r\n\r\n{PIECES}").as_bytes());
    assert_eq!((statuses(&said), n_jobs(&socket)), (vec![201], 3), "{said}");
}

#[test]
fn what_is_no_request_gets_no_answer_worth_having() {
    let mut rig = Rig::new();
    let socket = rig.patient_socket(ANA, SHORT);
    let long = format!("GET /{} HTTP/1.1\r\nhost: x\r\n\r\n", "a".repeat(200_000));
    let many = format!("GET / HTTP/1.1\r\n{}\r\n", "a: b\r\n".repeat(2_000));
    for bytes in [
        &b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"[..],
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET /healthz\r\n\r\n",
        b"GE\0T /healthz HTTP/1.1\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nhost: x\r\nno colon\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nhost: \0\r\n\r\n",
        b"GET /heal thz HTTP/1.1\r\nhost: x\r\n\r\n",
        long.as_bytes(),
        many.as_bytes(),
    ] {
        let said = answers(&socket, bytes);
        let shown = String::from_utf8_lossy(&bytes[..bytes.len().min(60)]);
        let found = statuses(&said);
        assert!(found.iter().all(|status| (400..500).contains(status)), "{shown}: {said}");
    }
    assert_eq!(raw(&socket, "GET /healthz HTTP/1.0\r\n\r\n").0, 200, "it still answers");
}

#[test]
fn a_target_means_its_path_whatever_else_it_says() {
    let mut rig = Rig::new();
    let socket = rig.socket(ANA);
    let ask = |line: &str| raw(&socket, &format!("{line}\r\nhost: x\r\nconnection: close\r\n\r\n"));
    assert_eq!(ask("GET http://elsewhere.example/healthz HTTP/1.1").0, 200);
    assert_eq!(ask("GET http://root@elsewhere.example:1/healthz HTTP/1.1").0, 200);
    assert_eq!(ask("HEAD /api/v1/status HTTP/1.1").2, "");
    for line in [
        "OPTIONS * HTTP/1.1",
        "CONNECT elsewhere.example:443 HTTP/1.1",
        "GET //healthz HTTP/1.1",
        "GET /healthz/ HTTP/1.1",
        "GET /API/v1/status HTTP/1.1",
        "GET /api/v1/jobs/../status HTTP/1.1",
        "TRACE /healthz HTTP/1.1",
        "X /healthz HTTP/1.1",
    ] {
        let (status, head, _) = ask(line);
        assert!([400, 404, 405].contains(&status), "{line}: {head}");
    }
    for path in ["/api/v1/jobs/%ff", "/api/v1/jobs/%ff/logs", "/api/v1/nodes/%c3%28"] {
        let (status, head, body) = ask(&format!("GET {path} HTTP/1.1"));
        assert!(head.contains("application/problem+json"), "{path}: {head}");
        assert!(body.contains("GP0101") && status == 400, "{path}: {body}");
    }
}

#[test]
fn headers_that_could_be_read_two_ways_are_refused() {
    let mut rig = Rig::new();
    let socket = rig.socket(ANA);
    for (extra, status, code) in [
        ("content-type: text/plain\r\n", 400, "GP0101"),
        ("idempotency-key: a\r\nidempotency-key: b\r\n", 400, "GP0101"),
        ("last-event-id: 1-1\r\nlast-event-id: 1-2\r\n", 400, "GP0101"),
        ("authorization: Bearer a\r\nauthorization: Bearer b\r\n", 400, "GP0101"),
        ("if-match: \"1\"\r\nif-match: \"2\"\r\n", 400, "GP0101"),
        ("content-encoding: gzip\r\n", 415, "GP0113"),
        ("content-encoding: identity, br\r\n", 415, "GP0113"),
        ("x-large: LARGE\r\n", 431, "GP0111"),
    ] {
        let extra = extra.replace("LARGE", &"x".repeat(17_000));
        let ask = format!(
            "{SUBMIT}{extra}connection: close\r\ncontent-length: 15\r\n\r\n{{\"command\":[\"\"]}}"
        );
        let (found, head, body) = raw(&socket, &ask);
        assert!(head.contains("application/problem+json"), "{extra:.40}: {head}");
        assert_eq!(found, status, "{extra:.40}: {body}");
        assert!(body.contains(code), "{extra:.40}: {body}");
    }
    assert_eq!(n_jobs(&socket), 0);
}
