//! What one user may take: requests, connections, jobs, and time. Others do not notice, and memory
//! stays bounded.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use gpool_client::{Client, Error};
use gpool_model::job::JobState;
use gpool_wire::event::EventKind;
use gpool_wire::{Event, JobCreate};

use crate::rig::{ANA, BO, OWNER, Rig, me, raw, request};
use gpool_listen::testing::Patience;
use gpool_server::Limits;

/// Time limits of a tenth of the real ones, or less.
pub const SHORT: Patience = Patience {
    headers: Duration::from_millis(300),
    body: Duration::from_millis(500),
    answer: Duration::from_millis(500),
    account: Duration::from_millis(500),
};

fn job(program: &str) -> JobCreate {
    JobCreate { command: vec![program.to_owned()], ..JobCreate::default() }
}

fn code(error: &Error) -> String {
    error.problem().code
}

/// Reads until the server closes; how long it took, and what came.
fn rest(stream: &mut UnixStream) -> String {
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let mut bytes = Vec::new();
    match stream.read_to_end(&mut bytes) {
        Err(error) if error.kind() == ErrorKind::WouldBlock => panic!("it is not closed"),
        // Closed while something was on its way.
        _ => String::from_utf8_lossy(&bytes).into_owned(),
    }
}

#[test]
fn one_user_may_have_so_many_jobs_and_others_as_many() {
    let mut rig = Rig::with(Limits { jobs: 3, ..Limits::default() });
    let (ana, bo) = (rig.client(ANA), rig.client(BO));
    let held = JobCreate { hold: true, ..job("sleep") };
    let first = ana.submit(&held, Some("k")).unwrap().id;
    let two = "{\"command\":[\"sleep\"],\"hold\":true}\n".repeat(2);
    ana.submit_many(&mut two.as_bytes(), None).unwrap();
    for refused in [
        ana.submit(&held, None).unwrap_err(),
        ana.submit_many(&mut two.as_bytes(), None).unwrap_err(),
    ] {
        assert_eq!(code(&refused), "GP0505", "{refused}");
        assert_eq!(refused.exit_code(), 7);
        assert!(refused.problem().detail.contains('3'), "{refused}");
    }
    // A repeated request is answered, not refused.
    assert_eq!(ana.submit(&held, Some("k")).unwrap().id, first);
    bo.submit(&held, None).unwrap();
    ana.cancel(&[first]).unwrap();
    ana.submit(&held, None).unwrap();
    assert_eq!(code(&ana.submit(&held, None).unwrap_err()), "GP0505");
}

/// Each run of a job counts, also of elements and retries, and each new file.
#[test]
fn new_jobs_count_for_all_that_they_may_store() {
    let changes = gpool_model::Bytes::from_mib(1);
    let mut rig = Rig::with(Limits { changes, ..Limits::default() });
    let (ana, bo, olga) = (rig.client(ANA), rig.client(BO), rig.client(OWNER));
    let held = JobCreate { hold: true, ..job("sleep") };
    let many = |n: usize| "{\"command\":[\"sleep\"],\"hold\":true}\n".repeat(n);
    let array = JobCreate { array: Some("0-199".to_owned()), ..held.clone() };
    let retry = serde_json::from_value(serde_json::json!({"most": 200})).unwrap();
    let retries = JobCreate { retry: Some(retry), ..held.clone() };
    for refused in [
        ana.submit(&array, None).unwrap_err(),
        ana.submit(&retries, None).unwrap_err(),
        ana.submit_many(&mut many(200).as_bytes(), None).unwrap_err(),
    ] {
        assert_eq!(code(&refused), "GP0523", "{refused}");
        assert!(refused.to_string().contains("more than 1 MiB in an hour"), "{refused}");
    }
    let refused = ana.submit(&array, None).unwrap_err().problem();
    assert_eq!(refused.tries[0], "split it");
    // A refused request takes nothing, nor does a question.
    for _ in 0..3 {
        ana.forecast_many(&mut many(100).as_bytes()).unwrap();
    }
    let made = ana.submit_many(&mut many(98).as_bytes(), Some("k")).unwrap();
    assert_eq!(made.n_jobs, 98);
    let refused = ana.submit_many(&mut many(10).as_bytes(), None).unwrap_err();
    assert!(code(&refused) == "GP0523" && refused.problem().tries[0].starts_with("wait "));
    // The answer to an earlier request is no change.
    assert!(ana.submit_many(&mut many(98).as_bytes(), Some("k")).unwrap().repeated);
    // The same file counts once.
    let script = |letter: &str| {
        let text = format!("#!/bin/sh\n#{}\n", letter.repeat(700 << 10));
        let script = serde_json::json!({"name": "x.sh", "text": text});
        let script = Some(serde_json::from_value(script).unwrap());
        JobCreate { script, command: Vec::new(), ..held.clone() }
    };
    for letter in ["a", "a", "a", "a", "b"] {
        bo.submit(&script(letter), None).unwrap();
    }
    assert_eq!(code(&bo.submit(&script("c"), None).unwrap_err()), "GP0523");
    olga.submit_many(&mut many(300).as_bytes(), None).unwrap();
}

/// Each task of a job that is queued again runs again.
#[test]
fn a_requeue_counts_for_each_task() {
    let mut rig =
        Rig::with(Limits { changes: gpool_model::Bytes::from_mib(1), ..Limits::default() });
    let (socket, ana) = (rig.socket(ANA), rig.client(ANA));
    let array = JobCreate { array: Some("0-29".to_owned()), ..job("sleep") };
    let made = ana.submit(&array, None).unwrap();
    let requeue = || {
        rig.until("all run", || {
            let found = ana.job(&made.id).unwrap();
            found.array.is_some_and(|it| it.n_by_state.get("running") == Some(&30))
        });
        raw(&socket, &request("POST", &format!("/api/v1/jobs/{}/requeue", made.id), ""))
    };
    // 600 KiB each of 2 MiB: one run each would be refused after 60 requests.
    let refused = (0..6).map(|_| requeue()).find(|(status, ..)| *status == 429);
    assert!(refused.is_some_and(|(_, _, body)| body.contains("GP0523")));
}

/// Each job that is evicted for another one runs again, at the expense of the other one's owner.
#[test]
fn evictions_count_for_the_owner_of_the_beneficiary() {
    let mut rig =
        Rig::with(Limits { changes: gpool_model::Bytes::from_mib(1), ..Limits::default() });
    let (ana, bo) = (rig.client(ANA), rig.client(BO));
    let array = JobCreate {
        array: Some("0-19".to_owned()),
        gpu_share: Some("0.1".to_owned()),
        preemptible: Some(true),
        priority: Some(-5),
        ..job("sleep")
    };
    let victims = ana.submit(&array, None).unwrap();
    let urgent = JobCreate { gpus: Some("2".to_owned()), ..job("sleep") };
    let evict = || {
        rig.until("all run", || {
            let found = ana.job(&victims.id).unwrap();
            found.array.is_some_and(|it| it.n_by_state.get("running") == Some(&20))
        });
        let made = bo.submit(&urgent, None)?;
        rig.until("it has both devices", || bo.job(&made.id).unwrap().state == JobState::Running);
        bo.cancel(std::slice::from_ref(&made.id))
    };
    // 400 KiB each of 2 MiB: the submissions alone would be 20 KiB each.
    let refused = (0..8).find_map(|_| evict().err()).unwrap();
    assert_eq!(code(&refused), "GP0523", "{refused}");
    ana.submit(&JobCreate { hold: true, ..job("sleep") }, None).unwrap();
}

/// A retry that is sent again with its key is no change.
#[test]
fn a_repeated_retry_counts_once() {
    let mut rig =
        Rig::with(Limits { changes: gpool_model::Bytes::from_mib(1), ..Limits::default() });
    let (socket, ana) = (rig.socket(ANA), rig.client(ANA));
    let made = ana.submit(&JobCreate { hold: true, ..job("sleep") }, None).unwrap();
    ana.cancel(std::slice::from_ref(&made.id)).unwrap();
    let again = |key: &str| {
        let retry = request("POST", &format!("/api/v1/jobs/{}/retry?hold=true", made.id), "");
        let (line, rest) = retry.split_once("\r\n").unwrap();
        raw(&socket, &format!("{line}\r\nidempotency-key: {key}\r\n{rest}"))
    };
    for _ in 0..200 {
        let (status, _, body) = again("k");
        assert_eq!(status, 200, "{body}");
    }
    let n_held = ana.jobs(&gpool_client::JobsQuery::default()).unwrap().items.len();
    assert_eq!(n_held, 1);
    let refused = (0..200).map(|n| again(&format!("k{n}"))).find(|(status, ..)| *status != 200);
    assert!(
        refused.is_some_and(|(_, _, body)| body.contains("GP0523")),
        "each is a job of its own"
    );
}

#[test]
fn too_many_requests_are_answered_so_and_the_client_waits() {
    let mut rig = Rig::with(Limits { requests: 5, ..Limits::default() });
    let (socket, other) = (rig.socket(ANA), rig.socket(BO));
    let ask = |socket| raw(socket, &request("GET", "/healthz", ""));
    let answers: Vec<_> = (0..40).map(|_| ask(&socket)).collect();
    let (_, head, body) = answers.iter().find(|(status, ..)| *status == 429).unwrap();
    assert!(head.contains("retry-after: 1") && body.contains("GP0112"), "{head} {body}");
    assert_eq!(ask(&other).0, 200, "others are not held up");
    // It is refused now; a client tries again by itself, and submits once.
    let client = Client::at(&socket).with_timeout(Some(Duration::from_secs(20)));
    assert_eq!(client.submit(&job("true"), None).unwrap().id, "1");
    let at_once = Client::at(&socket).with_retries(Duration::ZERO);
    let mut asked = (0..100).map(|_| at_once.version());
    let refused = asked.find_map(Result::err).unwrap();
    assert_eq!(code(&refused), "GP0112", "{refused}");
}

#[test]
fn connections_over_the_network_beyond_the_limit_are_closed_and_counted() {
    let mut rig = Rig::with(Limits { connections: 4, ..Limits::default() });
    let port = rig.network();
    let socket = rig.folder.path().join("beside-the-network.sock");
    let connect = |_| TcpStream::connect(("127.0.0.1", port)).unwrap();
    let open: Vec<TcpStream> = (0..4).map(connect).collect();
    assert_eq!(connect(4).read(&mut [0; 8]).unwrap_or(0), 0, "the fifth is closed");
    let (_, _, metrics) = raw(&socket, &request("GET", "/metrics", ""));
    assert!(metrics.contains("\ngpool_closed_connections_total 1\n"), "{metrics}");
    drop(open);
}

#[test]
fn connections_beyond_the_limit_are_told_so() {
    let mut rig = Rig::with(Limits { connections: 4, ..Limits::default() });
    let (socket, other) = (rig.socket(ANA), rig.socket(BO));
    let answered = |_| {
        let mut stream = UnixStream::connect(&socket).unwrap();
        stream.write_all(b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n").unwrap();
        stream.read_exact(&mut [0; 12]).unwrap();
        stream
    };
    let open: Vec<UnixStream> = (0..4).map(answered).collect();
    let mut last = String::new();
    rig.until("one is refused", || {
        let (status, head, body) = raw(&socket, &request("GET", "/healthz", ""));
        last = format!("{head} {body}");
        status == 429
    });
    assert!(last.contains("retry-after: 1") && last.contains("GP0109"), "{last}");
    assert_eq!(raw(&other, &request("GET", "/healthz", "")).0, 200);
    drop(open);
    rig.until("there is room", || raw(&socket, &request("GET", "/healthz", "")).0 == 200);
}

#[test]
fn half_a_request_is_answered_with_a_time_out() {
    let mut rig = Rig::new();
    let socket = rig.patient_socket(ANA, SHORT);
    let mut half = UnixStream::connect(&socket).unwrap();
    half.write_all(b"GET /healthz HTTP/1.1\r\nhost: x\r\nx-slow: ").unwrap();
    let said = rest(&mut half);
    assert!(said.starts_with("HTTP/1.1 408") && said.contains("GP0110"), "{said:?}");
    // A silent connection is closed without an answer: a request may be on its way.
    let mut silent = UnixStream::connect(&socket).unwrap();
    assert_eq!(rest(&mut silent), "");
    let mut kept = UnixStream::connect(&socket).unwrap();
    kept.write_all(b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n").unwrap();
    let said = rest(&mut kept);
    assert_eq!(said.matches("HTTP/1.1").count(), 1, "{said}");
}

#[test]
fn a_body_that_trickles_is_given_up() {
    let mut rig = Rig::new();
    let socket = rig.patient_socket(ANA, SHORT);
    for path in ["/api/v1/jobs", "/api/v1/jobs/bulk", "/api/v1/jobs/cancel"] {
        let mut stream = UnixStream::connect(&socket).unwrap();
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n\
             content-length: 100000\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).unwrap();
        let mut writer = stream.try_clone().unwrap();
        let trickles = std::thread::spawn(move || {
            // Each byte comes well within the time that one may take.
            while writer.write_all(b" ").is_ok() {
                std::thread::sleep(Duration::from_millis(20));
            }
        });
        let mut line = String::new();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        BufReader::new(&stream).read_line(&mut line).unwrap();
        assert!(line.starts_with("HTTP/1.1 408"), "{path}: {line:?}");
        drop(stream.shutdown(std::net::Shutdown::Both));
        trickles.join().unwrap();
    }
}

#[test]
fn a_watcher_that_does_not_read_is_let_go_and_goes_on_later() {
    let changes = gpool_model::Bytes::from_gib(1);
    let mut rig = Rig::with(Limits { changes, ..Limits::default() });
    let client = rig.client(ANA);
    let slow = rig.patient_socket(ANA, SHORT);
    let mut stream = UnixStream::connect(&slow).unwrap();
    stream.write_all(b"GET /api/v1/events HTTP/1.1\r\nhost: x\r\n\r\n").unwrap();
    let mut one = [0];
    stream.read_exact(&mut one).unwrap();
    let lines = "{\"command\":[\"true\"]}\n".repeat(5000);
    client.submit_many(&mut lines.as_bytes(), None).unwrap();
    rig.until("all have ended", || client.status().unwrap().jobs_ended == 5000);
    // The server has closed the connection: buffered bytes come, then the end.
    let ended = Instant::now() + SHORT.answer * 2;
    rig.until("it was let go", || Instant::now() > ended);
    let said = rest(&mut stream);
    let ids = said.lines().filter_map(|line| line.strip_prefix("id: "));
    let ids: Vec<&str> = ids.collect();
    assert!(!ids.is_empty() && ids.len() < 10_000, "{}", ids.len());
    // The last that came whole is where it goes on, without a gap.
    let last = ids[ids.len() - 2];
    let number = |id: &str| id.split_once('-').unwrap().1.parse::<u64>().unwrap();
    let next = client.events(Some(last.to_owned())).unwrap().next().unwrap().unwrap();
    assert_eq!(number(&next.id), number(last) + 1);
    let is_job = |event: &Event| matches!(&event.kind, EventKind::JobState { .. });
    assert!(is_job(&next), "{next:?}");
    assert_eq!(client.job("5000").unwrap().state, JobState::Succeeded);
}

#[test]
fn a_reader_of_a_log_that_took_a_pause_goes_on() {
    let mut rig = Rig::new();
    let client = rig.client(me());
    client.submit(&job("sleep"), None).unwrap();
    let all: String = (0..400_000).map(|n| format!("{n}\n")).collect();
    std::fs::write(rig.log("1", "stdout"), &all).unwrap();
    let slow = Client::at(&rig.patient_socket(me(), SHORT));
    let mut logs = slow.logs("1", &gpool_client::LogQuery::default()).unwrap();
    let mut text = vec![0; 1000];
    logs.read_exact(&mut text).unwrap();
    let ended = Instant::now() + SHORT.answer * 2;
    rig.until("it was let go", || Instant::now() > ended);
    logs.read_to_end(&mut text).unwrap();
    assert!(text == all.as_bytes(), "{} of {} bytes", text.len(), all.len());
}

#[test]
fn a_thousand_half_open_connections_keep_nobody_waiting() {
    let mut rig = Rig::new();
    let (crowd, other) = (rig.socket(ANA), rig.client(BO));
    let half = |n: usize| {
        let mut stream = UnixStream::connect(&crowd).unwrap();
        // Those beyond the limit may be closed already.
        drop(stream.write_all(&b"POST /api/v1/jobs HTTP/1.1\r\nhost: x\r\nx: "[..10 + n % 30]));
        stream
    };
    let crowd: Vec<UnixStream> = (0..1000).map(half).collect();
    for _ in 0..20 {
        other.submit(&job("true"), None).unwrap();
    }
    rig.until("all ran", || other.status().unwrap().jobs_ended == 20);
    drop(crowd);
}
