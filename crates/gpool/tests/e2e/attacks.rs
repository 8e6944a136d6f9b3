//! What another user of the machine tries against a server and its users.

use std::io::{Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};

use crate::harness::{Cluster, Running, is_root, skip};
use crate::web::{ask_with, port};

/// The user `nobody`.
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
fn opening_the_dashboard_shows_nobody_the_code_and_only_its_user_can_use_it() {
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
        // Another user who has the code gets no session, and does not use it up.
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
    assert!(headers.contains("set-cookie: gpool="), "{headers}");
    let again = ask_with(port, "POST /login", host, "", &format!("\r\n{head}"));
    assert_eq!(again.0, 403, "it works once");
    // The next page replaces this one.
    assert_ne!(open().1, code);
}
