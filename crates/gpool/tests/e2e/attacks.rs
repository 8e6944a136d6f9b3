//! What another user of the machine tries against a server and its users.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};

use rustix::process::Signal;

use crate::harness::{Cluster, Running, is_root, skip, until_so};
use crate::web::{Browser, ask, ask_with, port};

/// The user ID for another user.
pub const OTHER: u32 = 65_534;

/// What a server on a loopback port answers to another user of this machine.
pub fn asked_by_other(port: u16, request: &str) -> String {
    let script = format!("exec 3<>/dev/tcp/127.0.0.1/{port}; cat >&3; cat <&3");
    let mut command = Command::new("bash");
    command.args(["-c", &script]).uid(OTHER).gid(OTHER).current_dir("/");
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    child.stdout.take().unwrap().read_to_string(&mut answer).unwrap();
    child.wait().unwrap();
    answer
}

#[test]
fn opening_the_dashboard_shows_no_other_user_the_code() {
    let cluster = Cluster::new("sim:1xH100-80G");
    let port = port(&cluster);
    // A browser that notes what every user could read of its command line.
    let (browser, seen) = (cluster.path("browser"), cluster.path("seen"));
    let script = format!("#!/bin/sh\ntr '\\0' ' ' </proc/$$/cmdline >{}\n", seen.display());
    std::fs::write(&browser, script).unwrap();
    std::fs::set_permissions(&browser, std::fs::Permissions::from_mode(0o755)).unwrap();
    let runtime = cluster.path("runtime");
    std::fs::create_dir(&runtime).unwrap();
    let open = || {
        let mut command = cluster.command();
        command.env("BROWSER", &browser).env("XDG_RUNTIME_DIR", &runtime).arg("open");
        assert_eq!(Running::start(&mut command, None).end().ok(), "");
        let page = runtime.join("gpool/open.html");
        let mode = std::fs::metadata(&page).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let text = std::fs::read_to_string(&page).unwrap();
        let value = |before: &str| {
            let rest = text.split(before).nth(1).expect("the form");
            rest.split('"').next().unwrap().to_owned()
        };
        (value("action=\""), value("name=\"code\" value=\""))
    };
    let (action, code) = open();
    let seen = std::fs::read_to_string(&seen).unwrap();
    assert!(seen.contains("open.html") && !seen.contains(&code), "{seen}");

    let host = action.strip_prefix("http://").unwrap();
    let host = host.strip_suffix(&format!(":{port}/login")).unwrap();
    let form = format!("code={code}");
    let head = format!(
        "content-type: application/x-www-form-urlencoded\r\norigin: null\r\n\
         sec-fetch-site: cross-site\r\ncontent-length: {}\r\n\r\n{form}",
        form.len()
    );
    if is_root() {
        // Another user with the code gets no session, and does not use it up.
        let request =
            format!("POST /login HTTP/1.1\r\nhost: {host}:{port}\r\nconnection: close\r\n{head}");
        let answer = asked_by_other(port, &request);
        assert!(answer.contains("403") && answer.contains("another user"), "{answer}");
        let link = format!(
            "GET /login/{code} HTTP/1.1\r\nhost: {host}:{port}\r\n\
                            connection: close\r\n\r\n"
        );
        assert!(asked_by_other(port, &link).contains("Not your link"));
    } else {
        skip("only root can act as another user");
    }
    let (status, headers, page) = ask_with(port, "POST /login", host, "", &format!("\r\n{head}"));
    assert!(status == 200 && page.contains("You are signed in"), "{status} {page}");
    let cookie = headers.lines().find_map(|line| line.strip_prefix("set-cookie: ")).unwrap();
    let cookie = cookie.split(';').next().unwrap();
    assert!(cookie.starts_with("gpool="), "{headers}");
    assert_eq!(ask(port, "GET /queue", host, cookie).0, 200);
    if is_root() {
        // Cookies of a host go to all its ports, so another user may get one.
        let request = format!(
            "GET /queue HTTP/1.1\r\nhost: {host}:{port}\r\ncookie: {cookie}\r\n\
             connection: close\r\n\r\n"
        );
        let answer = asked_by_other(port, &request);
        assert!(answer.starts_with("HTTP/1.1 401"), "{answer}");
    }
    let again = ask_with(port, "POST /login", host, "", &format!("\r\n{head}"));
    assert_eq!(again.0, 403, "it works once");
    // The next page replaces this one.
    assert_ne!(open().1, code);
}

#[test]
fn two_host_names_are_refused() {
    let cluster = Cluster::new("sim:1xH100-80G");
    let port = port(&cluster);
    // A proxy and a server could each look at another one.
    let more = format!("\r\nhost: evil.example:{port}\r\n\r\n");
    assert_eq!(ask_with(port, "GET /wall", "127.0.0.1", "", &more).0, 421);
    let other = "GET http://evil.example/wall";
    assert_eq!(ask_with(port, other, "127.0.0.1", "", "\r\n\r\n").0, 421);
    let mut socket = std::os::unix::net::UnixStream::connect(cluster.socket()).unwrap();
    let request = "GET /api/v1/me HTTP/1.1\r\nhost: a\r\nhost: b\r\nconnection: close\r\n\r\n";
    socket.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    socket.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 400") && answer.contains("more than once"), "{answer}");
}

#[test]
fn ending_sessions_ends_their_event_streams() {
    let cluster = Cluster::new("sim:1xH100-80G");
    let browser = Browser::new(&cluster);
    let stream = || {
        let mut stream = TcpStream::connect(("127.0.0.1", browser.port)).unwrap();
        let request = format!(
            "GET /events HTTP/1.1\r\nhost: {}:{}\r\ncookie: {}\r\nconnection: close\r\n\r\n",
            browser.host, browser.port, browser.cookie
        );
        stream.write_all(request.as_bytes()).unwrap();
        let mut line = String::new();
        let mut lines = BufReader::new(stream);
        lines.read_line(&mut line).unwrap();
        (line, lines)
    };
    let (line, mut lines) = stream();
    assert_eq!(line, "HTTP/1.1 200 OK\r\n");
    assert_eq!(cluster.gpool(["sessions", "end", "--all", "--json"]).json()["n_sessions"], 1);
    // It ends without another change of the cluster.
    let mut rest = String::new();
    lines.read_to_string(&mut rest).unwrap();
    assert!(rest.ends_with("0\r\n\r\n") || rest.contains("text/event-stream"), "{rest}");
    assert_eq!(browser.get("/queue").0, 401);
    assert!(stream().0.starts_with("HTTP/1.1 401"));
}

#[test]
fn the_audit_log_is_followed_and_its_hashes_are_checked() {
    let mut cluster = Cluster::new("sim:2xH100-80G");
    let follow =
        || Running::start(cluster.command().args(["audit", "--follow", "-o", "jsonl"]), None);
    cluster.gpool(["drain", "lab1:0", "--reason", "a-fan"]).ok();
    let watcher = follow();
    // It may still connect, so changes are made until it has one.
    let mut n = 0;
    until_so("it prints a change", || {
        n += 1;
        cluster.gpool(["policy", "set", &format!("escalate_after={n}h")]).ok();
        watcher.has_said("PATCH /policies")
    });
    watcher.signal(Signal::INT);
    let said = watcher.end().out;
    assert!(!said.contains("a-fan"), "{said}");
    for line in said.lines() {
        let entry: serde_json::Value = serde_json::from_str(line).unwrap();
        assert_eq!(
            (entry["action"].as_str(), entry["chain"].as_str().map(str::len)),
            (Some("PATCH /policies"), Some(64))
        );
    }
    cluster.down(&[]);
    let verified = |words: &str| {
        let ran = cluster.gpool(["verify", cluster.state().to_str().unwrap()]);
        assert!(ran.out.contains(words), "{ran:?}");
    };
    verified("is sound");
    let path = cluster.state().join("audit/admin.jsonl");
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text.replacen("a-fan", "a-cat", 1)).unwrap();
    verified("audit/admin.jsonl:1");
}
