//! Mail through a mail server, which `tests/mail/server.py` is.

use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

use serde_json::Value;

use crate::harness::{Cluster, Gate, skip, until, write_private};

/// Where `cargo xtask test` installs aiosmtpd.
const PYTHON: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/mail/bin/python");
const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/mail/server.py");

pub struct MailServer {
    child: Child,
    lines: std::io::Lines<BufReader<ChildStdout>>,
    pub port: u16,
}

impl MailServer {
    /// Starts one with a certificate, its key and a password, or without all of them.
    pub fn start(secured: &[&str]) -> Option<Self> {
        if !Path::new(PYTHON).exists() {
            assert!(std::env::var_os("CI").is_none(), "{PYTHON} is missing");
            skip("aiosmtpd is missing; cargo xtask test installs it");
            return None;
        }
        let mut command = Command::new(PYTHON);
        command.arg(SCRIPT).args(secured).env("PYTHONDONTWRITEBYTECODE", "1");
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let port = lines.next().unwrap().unwrap().parse().unwrap();
        Some(Self { child, lines, port })
    }

    pub fn message(&mut self) -> Value {
        serde_json::from_str(&self.lines.next().unwrap().unwrap()).unwrap()
    }
}

impl Drop for MailServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn cluster(settings: &str, variables: &[(&str, &str)]) -> Cluster {
    let mut cluster = Cluster::unstarted(&["--devices", "none"]);
    let config = cluster.path("gpool.toml");
    std::fs::write(&config, format!("mail_from = \"gpool@lab.example\"\n{settings}\n")).unwrap();
    let config = config.display().to_string();
    let all = [&[("GPOOL_CONFIG", config.as_str())], variables].concat();
    cluster.variables.extend(all.iter().map(|(key, value)| (key.to_string(), value.to_string())));
    cluster.up();
    cluster
}

#[test]
fn mail_goes_to_the_server_of_the_settings() {
    let Some(mut server) = MailServer::start(&[]) else { return };
    let cluster = cluster(&format!("mail_server = \"smtp://localhost:{}\"", server.port), &[]);
    let ran = cluster.gpool([
        "submit",
        "-J",
        "train",
        "--notify",
        "done@mailto:ana@example.org",
        "--",
        "true",
    ]);
    assert!(!ran.err.contains("can't send mail"), "{ran:?}");
    let message = server.message();
    assert_eq!(
        (message["from"].as_str(), message["user"].as_str()),
        (Some("gpool@lab.example"), None)
    );
    assert_eq!(message["to"], serde_json::json!(["ana@example.org"]));
    let text = message["text"].as_str().unwrap();
    assert!(text.contains("Subject: gpool: job 1 \"train\" succeeded"), "{text}");
    until("it is taken", || {
        (cluster.client().status().unwrap().notifications.taken == 1).then_some(())
    });
}

#[test]
fn a_warning_before_a_time_limit_comes_by_mail() {
    let Some(mut server) = MailServer::start(&[]) else { return };
    let cluster = cluster(&format!("mail_server = \"smtp://localhost:{}\"", server.port), &[]);
    let gate = Gate::new(&cluster, "gate");
    let flags = ["--time", "20s", "--notify", "near_limit@mailto:ana@example.org"];
    let id = cluster.sh(&flags, &gate.line());
    let message = server.message();
    let text = message["text"].as_str().unwrap();
    for words in ["left of 20s", &format!("gpool extend {id} +30m")] {
        assert!(text.contains(words), "{words}: {text}");
    }
    gate.open();
    cluster.until_ended(&id);
}

#[test]
fn a_mail_server_with_a_user_gets_the_password_only_over_tls() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        write_private(&folder.path().join(name), text);
        folder.path().join(name).display().to_string()
    };
    let signed = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let certificate = write("certificate.pem", &signed.cert.pem());
    let key = write("key.pem", &signed.signing_key.serialize_pem());
    let Some(mut server) = MailServer::start(&[&certificate, &key, "open sesame"]) else { return };
    let settings = |password: &str| {
        let file = write(password, &format!("{password}\n"));
        let at = format!("mail_server = \"smtp://ana@localhost:{}\"", server.port);
        format!("{at}\nmail_password_file = \"{file}\"")
    };
    let trusted = ("SSL_CERT_FILE", certificate.as_str());
    let with = |settings: &str, variables: &[(&str, &str)]| {
        let cluster = cluster(settings, variables);
        cluster.gpool(["submit", "--notify", "done@mailto:bo@example.org", "--", "true"]).ok();
        cluster
    };
    let failure = |cluster: &Cluster| {
        until("the failure is noted", || {
            cluster.client().notifications().unwrap().items.into_iter().find_map(|it| it.why)
        })
    };
    let wrong = with(&settings("wrong"), &[trusted]);
    let why = failure(&wrong);
    assert!(why.contains("535"), "{why}");
    // An unknown certificate: the password is not sent.
    let unknown = with(&settings("open sesame"), &[]);
    let why = failure(&unknown);
    assert!(why.contains("mail server") && !why.contains("535"), "{why}");
    let _right = with(&settings("open sesame"), &[trusted]);
    let message = server.message();
    assert_eq!((message["tls"].as_bool(), message["user"].as_str()), (Some(true), Some("ana")));
}

#[test]
fn a_wrong_setting_is_refused_at_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("gpool.toml");
    let cluster = Cluster::unstarted(&[]);
    let open = folder.path().join("open");
    std::fs::write(&open, "open sesame").unwrap();
    let shown = open.display();
    let readable =
        format!("mail_server = \"smtps://ana@mail.example.org\"\nmail_password_file = \"{shown}\"");
    for (text, words) in [
        (&*readable, "every user of this machine can read"),
        ("mail_server = \"mail.example.org\"", "smtps://user@mail.example.org"),
        ("mail_server = \"smtps://ana:secret@mail.example.org\"", "not a mail server"),
        ("mail_server = \"smtps://ana@mail.example.org\"", "needs mail_password_file"),
        (
            "mail_server = \"smtps://ana@mail.example.org\"\nmail_password_file = \"/nonexistent\"",
            "can't read /nonexistent",
        ),
    ] {
        std::fs::write(&config, text).unwrap();
        let mut command = cluster.command();
        command.env("GPOOL_CONFIG", &config).args(["up", "--foreground", "--devices", "none"]);
        let ran = crate::harness::Running::start(&mut command, None).end();
        assert!(ran.code != 0 && ran.err.contains(words), "{text}: {ran:?}");
    }
    // Settings that others can change.
    std::fs::write(&config, "").unwrap();
    std::fs::set_permissions(&config, std::fs::Permissions::from_mode(0o666)).unwrap();
    let mut command = cluster.command();
    command.env("GPOOL_CONFIG", &config).args(["up", "--foreground", "--devices", "none"]);
    let ran = crate::harness::Running::start(&mut command, None).end();
    assert!(ran.code != 0 && ran.err.contains("can change the settings"), "{ran:?}");
}
