//! Attempts of a user to exhaust a real server: its memory, and its attention to others.

use std::io::Write as _;
use std::os::unix::net::UnixStream;

use crate::harness::{Cluster, until_so};
use crate::http::{Http, next_event};

/// The memory of a process in KiB; zero for a zombie.
fn resident_kib(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or("0 kB");
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

const JSON: (&str, &str) = ("Content-Type", "application/json");

#[test]
fn a_compressed_body_is_refused_and_never_unpacked() {
    let cluster = Cluster::new("none");
    let http = Http::new(&cluster);
    http.get("/api/v1/status");
    let before = resident_kib(cluster.server_pid());
    // The header of a gzip stream; the rest would be a gigabyte of zeros.
    let bomb = [&[0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3][..], &vec![0xaa; 1_000_000]].concat();
    for kind in ["gzip", "deflate", "br", "zstd", "gzip, gzip"] {
        let headers = [JSON, ("Content-Encoding", kind)];
        for path in ["/api/v1/jobs", "/api/v1/jobs/bulk", "/api/v1/jobs/cancel"] {
            let answer = http.send("POST", path, &headers, &bomb);
            assert_eq!((answer.status, answer.problem_code()), (415, "GP0113".to_owned()));
        }
    }
    // Without the header it is invalid JSON.
    assert_eq!(http.send("POST", "/api/v1/jobs", &[JSON], &bomb).status, 400);
    let grown = resident_kib(cluster.server_pid()).saturating_sub(before);
    assert!(grown < 64 << 10, "{grown} KiB");
    assert!(cluster.all_ids().is_empty());
}

#[test]
fn a_line_that_is_larger_than_their_memory_goes_through_in_pieces() {
    let mut cluster = Cluster::unstarted(&["--devices", "none"]);
    cluster.up();
    // It needs no disk space: a hole in the file reads as zeros.
    let line = "echo begin; until [ -s \"$GPOOL_DIR/stdout\" ]; do :; done; \
                truncate -s 256M \"$GPOOL_DIR/stdout\"; echo end";
    let id = cluster.sh(&[], line);
    assert_eq!(cluster.until_ended(&id).run.exit_code, Some(0));
    let before = resident_kib(cluster.server_pid());
    let mut command = cluster.command();
    command.args(["logs", "-f", &id]).stdout(std::process::Stdio::piped());
    let mut child = command.spawn().unwrap();
    let (mut out, mut n_read, mut most) = (child.stdout.take().unwrap(), 0_u64, 0);
    let mut block = vec![0; 1 << 20];
    while let Ok(n @ 1..) = std::io::Read::read(&mut out, &mut block) {
        n_read += n as u64;
        if n_read % (16 << 20) < 1 << 20 {
            most = most.max(resident_kib(cluster.server_pid())).max(resident_kib(child.id()));
        }
    }
    assert!(child.wait().unwrap().success());
    assert!(n_read >= 256 << 20, "{n_read}");
    assert!(most < before.max(32 << 10) + (64 << 10), "{most} KiB, {before} before");
}

#[test]
fn a_request_that_is_too_long_gets_a_clear_error() {
    let cluster = Cluster::new("none");
    for length in [20_000, 90_000] {
        let name = "x".repeat(length);
        cluster.gpool(["queue", "--user", &name]).refused(2, &["headers", "GP0111"]);
    }
    cluster.gpool(["help", "GP0111"]).ok();
}

#[test]
fn a_crowd_of_half_requests_delays_no_other_user_and_takes_no_memory() {
    let cluster = Cluster::new("none");
    let http = Http::new(&cluster);
    http.get("/api/v1/status");
    let before = resident_kib(cluster.server_pid());
    let mut crowd = Vec::new();
    for n in 0..1000_usize {
        let Ok(mut stream) = UnixStream::connect(cluster.socket()) else { break };
        let head = format!("POST /api/v1/jobs HTTP/1.1\r\nHost: x\r\nX: {}", "y".repeat(n));
        // Connections above the limit may be closed already.
        let _ = stream.write_all(head.as_bytes());
        crowd.push(stream);
    }
    let most = resident_kib(cluster.server_pid());
    assert!(most < before + (64 << 10), "{most} KiB, {before} before");
    // This user holds all connections, so other users are served; once they are closed, this one
    // too.
    until_so("connections are accepted again", || cluster.client().ready().is_ok());
    drop(crowd);
    let id = cluster.submit(["--", "true"]);
    assert_eq!(cluster.until_ended(&id).run.exit_code, Some(0));
}

#[test]
fn limits_are_set_in_the_settings_and_shown_in_errors() {
    let mut cluster = Cluster::unstarted(&["--devices", "none"]);
    let settings = cluster.path("gpool.toml");
    std::fs::write(&settings, "user_jobs_max = 2\nuser_requests_per_second = 20\n").unwrap();
    let path = settings.to_str().unwrap().to_owned();
    cluster.variables.push(("GPOOL_CONFIG".to_owned(), path));
    cluster.up();
    let mut events = Http::new(&cluster).events(None);
    cluster.submit(["--hold", "--", "true"]);
    cluster.submit(["--hold", "--", "true"]);
    let refused = cluster.gpool(["submit", "--hold", "--", "true"]);
    refused.refused(7, &["2 jobs that have not ended", "GP0505", "gpool queue"]);
    cluster.gpool(["help", "GP0505"]).ok();
    // The command waits until it may retry; nothing is lost or done twice.
    let http = Http::new(&cluster);
    let is_limited = (0..100_000).any(|_| http.get("/healthz").status == 429);
    assert!(is_limited, "without a pause between requests");
    cluster.gpool(["cancel", "1"]).ok();
    cluster.submit(["--hold", "--", "true"]);
    assert_eq!(cluster.client().status().unwrap().jobs["held"], 2);
    let mut last = None;
    while last.as_deref() != Some("3") {
        last = next_event(&mut events).1["job"].as_str().map(str::to_owned);
    }
}

#[test]
fn an_array_is_not_taken_for_an_object_and_changes_nothing() {
    let cluster = Cluster::new("none");
    let http = Http::new(&cluster);
    let set = br#"{"running_jobs":1,"pending_jobs":2,"gpus":1}"#;
    assert_eq!(http.send("PATCH", "/api/v1/users/bob", &[JSON], set).status, 200);
    let before = http.get("/api/v1/users/bob").json();
    // The fields of the caps in their order: each null would remove one.
    for body in ["[null,null,null]", "[null]", "[]", r#"{"gpus":[null]}"#] {
        let answer = http.send("PATCH", "/api/v1/users/bob", &[JSON], body.as_bytes());
        assert_eq!((answer.status, answer.problem_code()), (400, "GP0101".to_owned()), "{body}");
        let problem = answer.json();
        assert!(problem["detail"].as_str().unwrap().ends_with("it is an array"), "{problem}");
    }
    assert_eq!(http.get("/api/v1/users/bob").json(), before);
    assert!(cluster.all_ids().is_empty());
    let projects = cluster.path("projects.toml");
    std::fs::write(&projects, "[projects]\nred = [\"red\", 4]\n").unwrap();
    cluster
        .gpool(["project", "apply", "--yes", projects.to_str().unwrap()])
        .refused(2, &["projects.toml:2", "projects.red: it is an array"]);
}
