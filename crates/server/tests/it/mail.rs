//! Mail about jobs, handed to the sendmail of the server's machine. A user chooses the address and
//! the name of the job; the rest of a message is the server's.

use gpool_model::job::{JobState, Owner, Usage};
use gpool_model::notify::{JobNews, Late, NearLimit};
use gpool_model::{Attempt, Bytes, Millis, ProjectName, Timestamp};

use std::sync::Arc;
use std::time::Duration;

use gpool_model::notify::{Delivery, Sent};
use gpool_server::MailSettings;
use gpool_wire::NodeUse;

fn delivery(name: &str) -> Delivery {
    let news = JobNews {
        job: "12".parse().expect("an id"),
        attempt: Attempt(1),
        state: JobState::Failed,
        at: Timestamp::new(1),
        name: Arc::from(name),
        owner: Owner { uid: 7, gid: 7, user: "ana".into() },
        project: ProjectName::new("red"),
        gpus: Arc::from("2"),
        nodes: Vec::new(),
        submitted_at: Timestamp::new(1),
        started_at: None,
        ended_at: None,
        exit_code: Some(3),
        usage: Some(Usage {
            cpu_user: Millis::from_secs(5),
            memory_peak: Bytes::from_gib(1),
            memory_peak_together: Some(Bytes::from_gib(3)),
            read: Some(Bytes::from_gib(2)),
            ..Usage::default()
        }),
        idle_since: None,
        over_memory: None,
        near_limit: None,
        late: None,
    };
    let (id, url) = (Delivery::id_of(&news, 0), Arc::from("mailto:ana@example.org"));
    let due = Timestamp::new(2);
    Delivery { id, url, by_admin: false, news, n_attempts: 0, why: None, due, given_up: false }
}

fn gpu_use() -> Vec<NodeUse> {
    let of = |node: &str, busy: f64| NodeUse {
        node: node.to_owned(),
        gpu_hours: 4.0,
        gpu_utilization: Some(busy),
        gpus: Vec::new(),
    };
    vec![of("lab1", 0.93), of("lab2\nBcc: eve", 0.04)]
}

fn written(name: &str) -> String {
    let settings = MailSettings { from: Some("gpool@lab".to_owned()), ..MailSettings::default() };
    let message =
        settings.message(&delivery(name), gpu_use(), "ana@example.org").expect("a message");
    String::from_utf8(message.formatted()).expect("ASCII")
}

#[test]
fn a_message_says_what_became_of_the_job() {
    let text = written("train");
    for words in [
        "From: gpool <gpool@lab>\r\n",
        "To: ana@example.org\r\n",
        "Subject: gpool: job 12 \"train\" failed, exit 3\r\n",
        "Message-ID: <msg_12_1_failed_1_0@lab>\r\n",
        "Auto-Submitted: auto-generated\r\n",
        "\r\nproject    red\r\n",
        "\r\nCPU time   5 s\r\nmemory     at most 3 GiB\r\ndisk       read 2 GiB\r\n",
        "\r\nGPUs on lab1: busy 93 %\r\nGPUs on lab2?Bcc: eve: busy 4 %\r\n",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
}

fn written_with(change: impl FnOnce(&mut JobNews)) -> String {
    let settings = MailSettings { from: Some("gpool@lab".to_owned()), ..MailSettings::default() };
    let mut delivery = delivery("train");
    (delivery.news.exit_code, delivery.news.usage) = (None, None);
    change(&mut delivery.news);
    let message = settings.message(&delivery, Vec::new(), "ana@example.org").expect("a message");
    String::from_utf8(message.formatted()).expect("ASCII")
}

#[test]
fn a_warning_before_a_time_limit_names_the_rest_and_the_command() {
    let text = written_with(|news| {
        news.state = JobState::Running;
        let (limit, left) = (Millis::from_mins(120), Millis::from_mins(12));
        news.near_limit = Some(NearLimit { limit, left });
    });
    for words in ["running, 12m left of 2h00\r\n", "\r\ngpool extend 12 +30m\r\n"] {
        assert!(text.contains(words), "{words}: {text}");
    }
}

#[test]
fn a_missed_forecast_is_reported_with_the_reason_and_the_new_one() {
    let at = |secs| Timestamp::new(0).after(Millis::from_secs(secs));
    let text = written_with(|news| {
        news.state = JobState::Pending;
        news.late = Some(Box::new(Late {
            made_at: at(0),
            p90: at(60),
            reason: Some(Arc::from("no GPU is free")),
            new_p50: Some(at(120)),
            new_p90: Some(at(180)),
        }));
    });
    for words in [
        ", not started by 1970-01-01T00:01:00.000Z as forecast\r\nreason ",
        "\r\nreason     no GPU is free\r\n",
        "\r\nstart      likely by 1970-01-01T00:02:00.000Z, 90 % by ",
        "\r\ngpool why 12\r\n",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
}

#[test]
fn a_name_of_a_job_makes_no_header() {
    let text = written("x\r\nBcc: eve@example.org\r\n\r\nhello \u{1F600}");
    let head = text.split("\r\n\r\n").next().expect("a head");
    let is_bcc = |line: &str| line.to_ascii_lowercase().starts_with("bcc:");
    assert!(!head.lines().any(is_bcc), "{text}");
    let names = ["From", "To", "Subject", "Message-ID", "Auto-Submitted", "Content-Type"];
    let known = |line: &&str| names.iter().any(|name| line.starts_with(&format!("{name}:")));
    assert_eq!(head.lines().filter(known).count(), names.len(), "{head}");
    assert!(text.is_ascii());
}

#[test]
fn one_that_hangs_is_ended() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().expect("a folder");
    let program = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).expect("written");
        let mode = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(&path, mode).expect("executable");
        MailSettings { programs: vec![path], ..MailSettings::default() }
    };
    let send = |settings: &MailSettings, patience| {
        settings.send(&delivery("a"), Vec::new(), "ana@example.org", patience)
    };
    let hangs = program("hangs", "#!/bin/sh\nexec sleep 1000\n");
    let sent = send(&hangs, Duration::from_millis(50));
    assert!(matches!(sent, Sent::Failed { why } if why.contains("did not accept the message")));
    let long = Duration::from_secs(60);
    let fails = program("fails", "#!/bin/sh\ncat > /dev/null\necho no such user >&2\nexit 67\n");
    let sent = send(&fails, long);
    assert!(matches!(&sent, Sent::Failed { why } if why.contains("no such user")), "{sent:?}");
    let none = MailSettings { programs: Vec::new(), ..MailSettings::default() };
    assert!(matches!(send(&none, long), Sent::Failed { why } if why.contains("no sendmail")));
}
