//! Paths and names that come with a request, and files that a job may have put where the server
//! looks for its output: nothing outside its folder is read, and nothing is waited for.

use std::io::Read;
use std::os::unix::fs::symlink;

use gpool_client::{LogQuery, LogStream};
use gpool_wire::JobCreate;

use crate::rig::{Rig, me, raw, request};

/// Ways to write a path that leads elsewhere.
const ELSEWHERE: [&str; 32] = [
    "..",
    "../",
    "../..",
    "../../../../../../etc/passwd",
    "..%2f..%2f..%2fetc%2fpasswd",
    "..%2F..%2Fetc%2Fpasswd",
    "%2e%2e/%2e%2e/etc/passwd",
    "%2e%2e%2f%2e%2e%2fetc%2fpasswd",
    "%252e%252e%252fetc%252fpasswd",
    "..%252f..%252fetc%252fpasswd",
    "..%5c..%5cetc%5cpasswd",
    "..\\..\\etc\\passwd",
    "....//....//etc/passwd",
    "..;/..;/etc/passwd",
    "..%00/etc/passwd",
    "1%00",
    "1%00.txt",
    "1%2f..%2f2",
    "1/../2",
    "1%2f1",
    "%2fetc%2fpasswd",
    "//etc/passwd",
    "/etc/passwd",
    "file:%2f%2f%2fetc%2fpasswd",
    "%c0%ae%c0%ae%c0%afetc%c0%afpasswd",
    "%e0%80%ae%e0%80%ae/etc/passwd",
    "%uff0e%uff0e/etc/passwd",
    "\u{ff0e}\u{ff0e}/etc/passwd",
    "~root",
    "%7eroot",
    "-1",
    "1;id",
];

#[test]
fn no_path_in_a_request_leads_elsewhere() {
    let mut rig = Rig::new();
    let client = rig.client(me());
    let sleep = JobCreate { command: vec!["sleep".to_owned()], ..JobCreate::default() };
    client.submit(&sleep, None).unwrap();
    std::fs::write(rig.log("1", "stdout"), "of one\n").unwrap();
    std::fs::write(rig.folder.path().join("state/secret"), "root:").unwrap();
    let socket = rig.socket(me());
    for pattern in ELSEWHERE {
        let places = [
            ("GET", format!("/api/v1/jobs/{pattern}")),
            ("GET", format!("/api/v1/jobs/{pattern}/logs")),
            ("GET", format!("/api/v1/jobs/{pattern}/why")),
            ("PATCH", format!("/api/v1/jobs/{pattern}")),
            ("POST", format!("/api/v1/jobs/{pattern}/cancel")),
            ("POST", format!("/api/v1/jobs/{pattern}/hold")),
            ("POST", format!("/api/v1/jobs/{pattern}/release")),
            ("POST", format!("/api/v1/jobs/{pattern}/signal")),
            ("GET", format!("/api/v1/nodes/{pattern}")),
            ("GET", format!("/api/v1/jobs/1/logs?stream={pattern}")),
            ("GET", format!("/api/v1/jobs/1/logs?attempt={pattern}")),
            ("GET", format!("/api/v1/jobs?cursor={pattern}")),
            ("GET", format!("/{pattern}")),
        ];
        for (method, path) in places {
            let body = match (method, path.rsplit('/').next().unwrap_or_default()) {
                ("PATCH", _) => r#"{"note":"n"}"#,
                (_, "signal") => r#"{"signal":"USR1"}"#,
                _ => "",
            };
            let (status, head, body) = raw(&socket, &request(method, &path, body));
            assert!((400..500).contains(&status), "{method} {path}: {head} {body}");
            assert!(!body.contains("root:") && !body.contains("of one"), "{path}: {body}");
        }
    }
    assert_eq!(client.job("1").unwrap().state.as_str(), "running", "nothing was done to it");
}

#[test]
fn an_answer_with_output_is_text_and_nothing_else() {
    let mut rig = Rig::new();
    let client = rig.client(me());
    let sleep = JobCreate { command: vec!["sleep".to_owned()], ..JobCreate::default() };
    client.submit(&sleep, None).unwrap();
    std::fs::write(rig.log("1", "stdout"), "<script>alert(1)</script>").unwrap();
    let socket = rig.socket(me());
    let (status, head, _) = raw(&socket, &request("GET", "/api/v1/jobs/1/logs", ""));
    assert_eq!(status, 200);
    assert!(head.contains("content-type: text/plain; charset=utf-8"), "{head}");
    assert!(head.contains("x-content-type-options: nosniff"), "{head}");
}

fn failing(rig: &mut Rig, stream: LogStream) -> bool {
    let query = LogQuery { stream, ..LogQuery::default() };
    let client = rig.client(me()).with_retries(std::time::Duration::ZERO);
    let read = client.logs("1", &query).map(|mut logs| {
        let mut text = String::new();
        logs.read_to_string(&mut text).map(|_| text)
    });
    match read {
        Err(_) | Ok(Err(_)) => true,
        Ok(Ok(text)) => panic!("{text:?} was read"),
    }
}

#[test]
fn what_is_no_file_of_the_jobs_user_is_not_read() {
    let mut rig = Rig::new();
    let client = rig.client(me());
    let sleep = JobCreate { command: vec!["sleep".to_owned()], ..JobCreate::default() };
    client.submit(&sleep, None).unwrap();
    // A folder, and the whole folder of the run by a link.
    std::fs::create_dir_all(rig.log("1", "stdout")).unwrap();
    assert!(failing(&mut rig, LogStream::Stdout));
    let run = rig.log("1", "stdout").parent().unwrap().to_owned();
    std::fs::remove_dir_all(&run).unwrap();
    let trap = rig.folder.path().join("trap");
    std::fs::create_dir(&trap).unwrap();
    std::fs::write(trap.join("stdout"), "hush").unwrap();
    symlink(&trap, &run).unwrap();
    assert!(failing(&mut rig, LogStream::Stdout));
    std::fs::remove_file(&run).unwrap();
    // A hard link to another user's file; only root can prepare that here.
    let theirs = rig.folder.path().join("theirs");
    std::fs::write(&theirs, "hush").unwrap();
    let given = std::os::unix::fs::chown(&theirs, Some(me() + 1), None);
    if given.is_err() {
        eprintln!("SKIPPED in part: only root can make a file that belongs to another");
        return;
    }
    std::fs::hard_link(&theirs, rig.log("1", "stderr")).unwrap();
    assert!(failing(&mut rig, LogStream::Stderr));
}

#[test]
fn the_last_lines_of_a_file_without_end_are_looked_for_near_its_end() {
    let mut rig = Rig::new();
    let client = rig.client(me());
    let sleep = JobCreate { command: vec!["sleep".to_owned()], ..JobCreate::default() };
    client.submit(&sleep, None).unwrap();
    let path = rig.log("1", "stdout");
    let file = std::fs::File::create(&path).unwrap();
    // The file is sparse: it takes no disk space.
    let length = 1 << 43;
    if let Err(error) = file.set_len(length) {
        eprintln!("SKIPPED: this file system takes no large file: {error}");
        return;
    }
    let query = LogQuery { tail: Some(1), ..LogQuery::default() };
    let mut logs = client.logs("1", &query).unwrap();
    let mut n_read = 0;
    let mut buffer = vec![0; 1 << 20];
    while let Ok(n @ 1..) = logs.read(&mut buffer) {
        n_read += n;
    }
    assert_eq!(n_read, 64 << 20);
}
