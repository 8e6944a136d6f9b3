//! A server with scripted answers: lost connections, invalid answers, silence.

#![allow(clippy::unwrap_used, reason = "a test that fails panics anyway")]

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use gpool_client::{Cause, Client, Error, JobsQuery, LogQuery, ServerPresence, socket};
use gpool_wire::JobCreate;

/// The answers, one for each connection: read a request, send these bytes, close.
type Script = Vec<String>;

struct Pretender {
    _folder: tempfile::TempDir,
    socket: PathBuf,
    requests: JoinHandle<Vec<String>>,
    gate: Option<Sender<()>>,
}

impl Pretender {
    fn new(script: Script) -> Self {
        let mut it = Self::gated(script);
        it.gate = None;
        it
    }

    /// A server that accepts connections but answers nothing until it is opened.
    fn gated(script: Script) -> Self {
        let (gate, opened) = channel::<()>();
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("api.sock");
        let listener = UnixListener::bind(&socket).unwrap();
        let requests = std::thread::spawn(move || {
            let mut requests = Vec::new();
            let _ = opened.recv();
            for answer in script {
                let (mut stream, _) = listener.accept().unwrap();
                requests.push(read_request(&mut BufReader::new(&mut stream)));
                stream.write_all(answer.as_bytes()).unwrap();
            }
            requests
        });
        Self { _folder: folder, socket, requests, gate: Some(gate) }
    }

    fn open(&self) {
        self.gate.as_ref().unwrap().send(()).unwrap();
    }

    fn client(&self) -> Client {
        Client::at(&self.socket)
    }

    /// The requests that it got, after all its answers.
    fn requests(mut self) -> Vec<String> {
        self.gate = None;
        self.requests.join().unwrap()
    }
}

fn read_request(stream: &mut impl BufRead) -> String {
    let mut request = String::new();
    while !request.ends_with("\r\n\r\n") {
        assert_ne!(stream.read_line(&mut request).unwrap(), 0, "cut off: {request}");
    }
    let length = request.to_lowercase().lines().find_map(|line| {
        line.strip_prefix("content-length: ").map(|digits| digits.parse::<usize>().unwrap())
    });
    let mut body = vec![0; length.unwrap_or(0)];
    stream.read_exact(&mut body).unwrap();
    request + &String::from_utf8(body).unwrap()
}

fn json(body: &str) -> String {
    let length = body.len();
    format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n{body}")
}

fn version() -> String {
    json(r#"{"apiVersion":"gpool/v1","name":"gpool","version":"9","pid":1,"new":"field"}"#)
}

/// A liveness socket that gives this answer to each check, and reports each check.
fn lives(server: &Pretender, answer: Option<&'static str>) -> Receiver<()> {
    let listener = UnixListener::bind(socket::liveness(&server.socket)).unwrap();
    let (tell, checks) = channel();
    std::thread::spawn(move || {
        let mut silent = Vec::new();
        while let Ok((mut stream, _)) = listener.accept() {
            match answer {
                Some(answer) => stream.write_all(answer.as_bytes()).unwrap(),
                None => silent.push(stream),
            }
            if tell.send(()).is_err() {
                return;
            }
        }
    });
    checks
}

const ALIVE: &str = r#"{"pid":7,"core_ms":2000,"store_ms":0,"new":1}"#;

#[test]
fn the_client_waits_for_a_slow_server_that_lives() {
    let server = Pretender::gated(vec![version()]);
    let checks = lives(&server, Some(ALIVE));
    let client = server.client();
    let asked = std::thread::spawn(move || client.version());
    // Two liveness checks mean more than three seconds without an answer.
    (0..2).for_each(|_| checks.recv().unwrap());
    server.open();
    assert_eq!(asked.join().unwrap().unwrap().version, "9");
}

#[test]
fn a_request_to_a_silent_server_fails() {
    for (answer, cause) in [
        (None, Cause::Hangs),
        (Some(r#"{"pid":7,"core_ms":61000,"store_ms":0}"#), Cause::Core(61)),
        (Some(r#"{"pid":7,"core_ms":70000,"store_ms":62000}"#), Cause::Disk(62)),
    ] {
        let server = Pretender::gated(vec![version(), version()]);
        let _checks = lives(&server, answer);
        let error = server.client().version().unwrap_err();
        let Error::Silent { silence, maybe_done } = error else { panic!("{error:?}") };
        assert_eq!((silence.cause, maybe_done), (cause, false));
        let job = JobCreate { command: vec!["true".to_owned()], ..JobCreate::default() };
        let error = server.client().submit(&job, Some("key")).unwrap_err();
        let problem = error.problem();
        assert_eq!((error.exit_code(), problem.code.as_str()), (3, "GP0309"), "{problem:?}");
        assert!(problem.why[0].contains("may still carry out"), "{problem:?}");
    }
}

#[test]
fn a_patient_client_reports_silence_and_continues_the_same_request() {
    let server = Pretender::gated(vec![version()]);
    let checks = lives(&server, None);
    let (tell, told) = channel();
    let client = server.client().telling(move |presence| tell.send(presence).unwrap());
    let asked = std::thread::spawn(move || client.version());
    (0..2).for_each(|_| checks.recv().unwrap());
    assert!(matches!(told.recv().unwrap(), ServerPresence::Silent(_)));
    server.open();
    assert_eq!(told.recv().unwrap(), ServerPresence::Back);
    assert_eq!(asked.join().unwrap().unwrap().version, "9");
    assert_eq!(server.requests().len(), 1);
}

#[test]
fn a_sent_request_may_have_been_done_even_if_no_server_answers_later() {
    let job = JobCreate { command: vec!["true".to_owned()], ..JobCreate::default() };
    // The server ends after one request, and its socket refuses connections.
    let server = Pretender::new(vec![String::new()]);
    let client = server.client().with_retries(Duration::from_millis(200));
    let error = client.submit(&job, Some("key")).unwrap_err();
    assert!(matches!(error, Error::Lost { .. }) && error.is_unsure(), "{error:?}");
    assert!(error.problem().why[0].contains("may have been carried out"), "{error:?}");
    // A request that never reached a server can't have been carried out.
    let error = client.submit(&job, Some("key")).unwrap_err();
    assert!(matches!(error, Error::Unreachable { .. }) && !error.is_unsure(), "{error:?}");
}

#[test]
fn a_retry_is_repeated_with_the_same_key() {
    let retried = r#"{"apiVersion":"gpool/v1","id":"9","n_elements":null,"is_new":true}"#;
    let server = Pretender::new(vec![String::new(), json(retried)]);
    assert_eq!(server.client().retry("5").unwrap().id, "9");
    let requests = server.requests();
    let key = |request: &String| {
        let line = request.lines().find(|line| line.starts_with("idempotency-key: "));
        line.map(str::to_owned)
    };
    assert!(key(&requests[0]).is_some() && key(&requests[0]) == key(&requests[1]), "{requests:?}");
}

#[test]
fn a_repeatable_request_is_repeated() {
    let server = Pretender::new(vec![String::new(), String::new(), version()]);
    assert_eq!(server.client().version().unwrap().version, "9");
    assert_eq!(server.requests().len(), 3);
}

#[test]
fn a_submission_is_repeated_only_with_a_key() {
    let job = JobCreate { command: vec!["true".to_owned()], ..JobCreate::default() };
    let server = Pretender::new(vec![String::new()]);
    let error = server.client().submit(&job, None).unwrap_err();
    assert!(matches!(error, Error::Lost { .. }), "{error:?}");
    assert_eq!(error.exit_code(), 3);
    assert_eq!(server.requests().len(), 1);

    let refusal = r#"{"code":"GP0704","status":409,"detail":"other"}"#;
    let answer =
        format!("HTTP/1.1 409 Conflict\r\ncontent-length: {}\r\n\r\n{refusal}", refusal.len());
    let server = Pretender::new(vec![String::new(), answer]);
    let error = server.client().submit(&job, Some("k 1")).unwrap_err();
    assert_eq!(error.exit_code(), 7, "{error:?}");
    let requests = server.requests();
    assert_eq!(requests[0], requests[1]);
    assert!(requests[0].to_lowercase().contains("idempotency-key: k%201"), "{}", requests[0]);
}

#[test]
fn a_lost_server_is_retried_for_a_limited_time() {
    let server = Pretender::new(vec![String::new()]);
    let client = server.client().with_retries(Duration::from_millis(1));
    let error = client.version().unwrap_err();
    assert!(error.is_away(), "{error:?}");
}

#[test]
fn silence_ends_at_the_time_limit() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("api.sock");
    let _listener = UnixListener::bind(&socket).unwrap();
    let client = Client::at(&socket).with_timeout(Some(Duration::from_millis(30)));
    let error = client.version().unwrap_err();
    assert!(matches!(error, Error::TimedOut), "{error:?}");
    assert_eq!(error.exit_code(), 8);
}

#[test]
fn answers_of_other_programs_are_refused() {
    for answer in [
        json("[]"),
        json("not json"),
        "HTTP/1.1 500 Oops\r\ncontent-length: 4\r\n\r\noops".to_owned(),
        "SSH-2.0-OpenSSH\r\n".to_owned(),
    ] {
        let server = Pretender::new(vec![answer.clone()]);
        let error = server.client().with_retries(Duration::ZERO).version().unwrap_err();
        assert_eq!(error.problem().code, "GP0306", "{answer}: {error:?}");
    }
}

#[test]
fn queries_and_paths_are_escaped() {
    let list = json(r#"{"apiVersion":"gpool/v1","items":[]}"#);
    let server = Pretender::new(vec![list]);
    let query = JobsQuery { name: Some("a b&state=all#x".to_owned()), ..JobsQuery::default() };
    assert!(server.client().jobs(&query).unwrap().items.is_empty());
    let request = server.requests().remove(0);
    assert!(request.starts_with("GET /api/v1/jobs?name=a%20b%26state%3Dall%23x HTTP/1.1\r\n"));
    let server = Pretender::new(vec![version()]);
    drop(server.client().job("../x?y"));
    assert!(server.requests().remove(0).starts_with("GET /api/v1/jobs/..%2Fx%3Fy HTTP/1.1\r\n"));
}

#[test]
fn followed_logs_resume_at_their_byte() {
    let head = |offset| {
        format!(
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ngpool-log-offset: {offset}\r\n\r\n"
        )
    };
    let cut = format!("{}5\r\nhello\r\n", head(10));
    let rest = format!("{}6\r\n world\r\n0\r\n\r\n", head(15));
    let server = Pretender::new(vec![cut, rest]);
    let query = LogQuery { follow: true, tail: Some(1), ..LogQuery::default() };
    let mut text = String::new();
    server.client().logs("7", &query).unwrap().read_to_string(&mut text).unwrap();
    assert_eq!(text, "hello world");
    let requests = server.requests();
    assert!(requests[0].contains("tail=1"), "{}", requests[0]);
    assert!(requests[1].contains("offset=15") && !requests[1].contains("tail"), "{}", requests[1]);
}
