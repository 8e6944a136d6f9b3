//! Many viewers at once, and output that is larger than the memory.

use std::fs::File;
use std::io::{BufRead as _, Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::FileExt as _;

use crate::harness::{Cluster, until, until_so};
use crate::http::Http;
use crate::recovery::stdout_file;
use crate::security_crowd::most_resident_mib;
use crate::users::{NOBODY, cluster};
use crate::web::{Browser, ask_with, port};

/// Starts a server on which each user may have four connections.
fn with_four() -> Cluster {
    let mut cluster = Cluster::unstarted(&["--devices", "none"]);
    let settings = cluster.path("gpool.toml");
    std::fs::write(&settings, "user_connections_max = 4\n").unwrap();
    cluster.variables.push(("GPOOL_CONFIG".to_owned(), settings.display().to_string()));
    cluster.up();
    cluster
}

#[test]
fn a_thousand_event_streams_take_little_memory_and_jobs_go_on() {
    let Some(cluster) = cluster() else { return };
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let most = getrlimit(Resource::Nofile).maximum;
    setrlimit(Resource::Nofile, Rlimit { current: most, maximum: most }).unwrap();
    let users = (0..4).map(|n| Http::of_user(&cluster, NOBODY - n)).collect::<Vec<_>>();
    let streams = users.iter().flat_map(|http| (0..250).map(|_| http.events(None)));
    let mut streams: Vec<_> = streams.collect();
    // The usual limit of a user is 256, and others have theirs.
    let more: Vec<_> = (0..6).map(|_| users[0].events(None)).collect();
    let refused = users[0].get("/api/v1/status");
    assert_eq!((refused.status, refused.problem_code()), (429, "GP0109".to_owned()));
    assert!(refused.body.contains("256") && refused.header("retry-after").is_some(), "{refused:?}");
    drop(more);
    until_so("there is room again", || users[0].get("/api/v1/status").status == 200);

    let job = cluster.submit(["--", "true"]);
    cluster.until_ended(&job);
    let job = format!("\"job\":\"{job}\"");
    for stream in &mut streams {
        until("the job is in the stream", || {
            let mut line = String::new();
            assert!(stream.read_line(&mut line).unwrap() > 0, "the stream has ended");
            line.contains(&job).then_some(())
        });
    }
    let most = most_resident_mib(cluster.server_pid());
    assert!(most < 250, "{most} MiB");
}

#[test]
fn pages_of_a_user_above_the_limit_update_without_a_stream() {
    let cluster = with_four();
    let browser = Browser::new(&cluster);
    let stream = || {
        let mut stream = TcpStream::connect(("127.0.0.1", browser.port)).unwrap();
        let (host, cookie) = (&browser.host, &browser.cookie);
        let head = format!("host: {host}:{}\r\ncookie: {cookie}\r\n\r\n", browser.port);
        stream.write_all(format!("GET /events HTTP/1.1\r\n{head}").as_bytes()).unwrap();
        let mut status = [0; 12];
        stream.read_exact(&mut status).unwrap();
        assert_eq!(&status, b"HTTP/1.1 200");
        stream
    };
    let streams: Vec<_> = (0..4).map(|_| stream()).collect();
    let (code, page) = browser.get("/events");
    assert!(code == 429 && page.contains("you have 4 open connections"), "{code} {page}");
    assert_eq!(browser.get("/queue").0, 200);
    drop(streams);
    until_so("there is room again", || Http::new(&cluster).get("/api/v1/status").status == 200);
    stream();
}

#[test]
fn a_browser_above_the_limit_of_all_is_answered_and_not_left_waiting() {
    let cluster = Cluster::new("none");
    let port = port(&cluster);
    let connect = || TcpStream::connect(("127.0.0.1", port)).unwrap();
    let mut open: Vec<TcpStream> = (0..512).map(|_| connect()).collect();
    let refused = until("one is refused", || {
        let mut answer = String::new();
        let mut stream = connect();
        stream.set_read_timeout(Some(std::time::Duration::from_millis(500))).unwrap();
        // The others may not be counted yet.
        let _ = stream.read_to_string(&mut answer);
        open.push(stream);
        answer.starts_with("HTTP/1.1 503").then_some(answer)
    });
    assert!(refused.contains("Too many browsers") && refused.contains("retry-after"), "{refused}");
    drop(open);
    until_so("there is room again", || {
        let (code, ..) = ask_with(port, "GET /healthz", "127.0.0.1", "", "\r\n\r\n");
        code == 200
    });
}

#[test]
fn a_log_of_five_gigabytes_opens_at_its_end_in_little_memory() {
    let cluster = Cluster::new("none");
    let job = cluster.sh(&[], "echo first; sleep 1000");
    until_so("its log exists", || cluster.gpool(["logs", &job]).out == "first\n");
    let file = File::options().write(true).open(stdout_file(&cluster, &job)).unwrap();
    // It is sparse: it takes no disk space.
    let lines: String = (0..300).map(|n| format!("line {n} is near the end\n")).collect();
    file.write_all_at(lines.as_bytes(), 5 << 30).unwrap();
    let browser = Browser::new(&cluster);
    let before = most_resident_mib(cluster.server_pid());
    let (code, page) = browser.get(&format!("/jobs/{job}?stream=stdout"));
    assert_eq!(code, 200);
    assert!(page.contains("line 299 is near the end") && page.contains("line 150 is"), "{page}");
    assert!(!page.contains("line 99 is") && page.len() < 300_000, "{}", page.len());
    // A single line without an end is cut, and only its end is in memory.
    file.write_all_at(b"the last line", 6 << 30).unwrap();
    let (code, page) = browser.get(&format!("/jobs/{job}?stream=stdout"));
    assert!(code == 200 && page.contains("the last line"), "{code}");
    let more = most_resident_mib(cluster.server_pid()) - before;
    assert!(more < 40, "{more} MiB");
    let end = cluster.gpool(["logs", &job, "--tail", "1"]).ok();
    assert!(end.ends_with("the last line"), "{} bytes", end.len());
}
