//! Mail about jobs, handed to the sendmail of the server's machine. A user chooses the address and
//! the name of the job; the rest of a message is the server's.

use gpool_model::budget::{BudgetStep, MonthSpending, Payer};
use gpool_model::job::{JobState, Owner, Usage};
use gpool_model::notify::{JobNews, Late, NearLimit, News};
use gpool_model::payer_news::{BudgetReached, Digest, PayerEvent, PayerNews, Waits, WastefulJob};
use gpool_model::xid::JobXid;
use gpool_model::{
    Attempt, Bytes, GpuTime, MilliGpu, Millis, Money, NodeName, ProjectName, Timestamp,
};

use std::sync::Arc;
use std::time::Duration;

use gpool_model::notify::{Delivery, Sent};
use gpool_server::{MailSettings, chat_text};
use gpool_wire::{MessageData, NodeUse};

fn news(name: &str) -> JobNews {
    JobNews {
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
        xids: Vec::new(),
        idle_since: None,
        over_memory: None,
        near_limit: None,
        late: None,
    }
}

fn delivery(news: impl Into<News>) -> Delivery {
    let news = news.into();
    let (id, url) = (Delivery::id_of(&news, 0), Arc::from("mailto:ana@example.org"));
    let due_at = Timestamp::new(2);
    Delivery { id, url, by_admin: false, news, n_attempts: 0, why: None, due_at, given_up: false }
}

fn mail(delivery: &Delivery, gpu_use: Vec<NodeUse>) -> String {
    let settings = MailSettings { from: Some("gpool@lab".to_owned()), ..MailSettings::default() };
    let message = settings.message(delivery, gpu_use, "ana@example.org").expect("a message");
    String::from_utf8(message.formatted()).expect("ASCII")
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
    mail(&delivery(news(name)), gpu_use())
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
    let mut news = JobNews { exit_code: None, usage: None, ..news("train") };
    change(&mut news);
    mail(&delivery(news), Vec::new())
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
fn the_end_of_a_job_names_the_errors_of_its_gpus() {
    let text = written_with(|news| {
        let node = NodeName::new("lab1");
        news.xids = vec![JobXid { node, device: 3, xid: 79, count: 2 }];
    });
    let line = "\r\nXid 79 on lab1:3, 2 times: the GPU has fallen off the bus";
    assert!(text.contains(line), "{text}");
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

/// Four hours of GPUs after a Monday 08:00 in UTC, and a month's budget.
fn digest(payer: Payer, name: Option<&str>) -> Digest {
    let hours = |n| GpuTime::of(MilliGpu::DEVICE, Millis::from_hours(n));
    let money = |text: &str| Money::parse(text).expect("valid");
    let month = MonthSpending {
        payer: payer.clone(),
        month: Timestamp::new(1_761_955_200_000),
        spent: money("812.4"),
        budget: money("1000"),
        currency: Arc::from("EUR"),
    };
    Digest {
        payer,
        from: Timestamp::new(1_762_761_600_000),
        to: Timestamp::new(1_763_366_400_000),
        allocated: hours(168),
        busy: Some(hours(120)),
        idle: Some(hours(40)),
        cost: Some(money("336")),
        currency: Arc::from("EUR"),
        month: Some(month),
        n_ended: 42,
        n_failed: 3,
        waits: Some(Waits { median: Millis::from_mins(4), longest: Millis::from_mins(190) }),
        wasteful: vec![WastefulJob {
            job: "1842".parse().expect("an id"),
            name: name.map(Arc::from),
            user: Arc::from("ana"),
            held: hours(12),
            idle: hours(9),
            unused: vec![Arc::from("it used at most 10 GiB of 80 GiB of GPU memory")],
            enough: vec![Arc::from("--gpu-memory 12G"), Arc::from("--time 2h")],
        }],
    }
}

fn payer_news(payer: Payer, event: PayerEvent) -> News {
    let owner = Owner { uid: 7, gid: 7, user: "ana".into() };
    PayerNews { payer, owner, at: Timestamp::new(1_763_366_400_123), event }.into()
}

fn chat(news: &News) -> String {
    String::from_utf8(chat_text(&MessageData::from(news))).expect("JSON")
}

#[test]
fn a_digest_is_the_same_text_in_mail_as_for_the_command_and_one_line_in_a_chat() {
    let user = Payer::User("ana@lab.org".into());
    let digest = digest(user.clone(), Some("train\r\nBcc: eve@example.org"));
    let text = gpool_wire::Digest::from(&digest).text();
    let expected = "\
user       ana@lab.org
from       Mon 10 Nov 08:00 UTC
to         Mon 17 Nov 08:00 UTC
GPU hours  168.0 allocated, 120.0 busy (75 %), 40.0 held idle
cost       336.00 EUR
month      812.40 of 1000.00 EUR of the budget
jobs       42 jobs ended, 3 failed
waits      median 4m, longest 3h10

Jobs with the most unused GPU time:
- job 1842 \"train??Bcc: eve@example.org\" of ana: 9.0 of 12.0 GPU hours idle
  it used at most 10 GiB of 80 GiB of GPU memory
  enough: --gpu-memory 12G --time 2h
";
    assert_eq!(text, expected);
    let news = payer_news(user, PayerEvent::Digest(Box::new(digest)));
    let written = mail(&delivery(news.clone()), Vec::new());
    let (head, body) = written.split_once("\r\n\r\n").expect("a head");
    let id = "Message-ID: <msg_user_ana%40lab.org_digest_1763366400123_0@lab>\r\n";
    assert!(head.contains(id) && !head.contains("Bcc"), "{head}");
    let headline = "gpool: user ana@lab.org until Mon 17 Nov 08:00 UTC: 168.0 GPU hours, 75 % \
                    busy, 336.00 EUR, 42 jobs ended, 3 failed";
    let subject: String = head.split("\r\n ").collect::<Vec<_>>().join(" ");
    assert!(subject.contains(&format!("Subject: {headline}\r\n")), "{subject}");
    let command = "gpool digest --user ana@lab.org\ngpool waste\n";
    // Quoted-printable breaks long lines.
    let body = body.replace("=\r\n", "").replace("\r\n", "\n");
    assert!(body.contains(&format!("{expected}\n{command}")), "{body}");
    assert_eq!(chat(&news), format!("{{\"text\":\"{headline}\"}}"));
}

#[test]
fn a_digest_of_a_project_without_measurements_or_prices_is_short() {
    let project = Payer::Project(ProjectName::new("nlp"));
    let digest = Digest {
        busy: None,
        idle: None,
        cost: None,
        month: None,
        waits: None,
        n_ended: 1,
        n_failed: 0,
        ..digest(project, None)
    };
    let text = gpool_wire::Digest::from(&digest).text();
    for words in [
        "project    nlp\n",
        "GPU hours  168.0 allocated\njobs       1 job ended, 0 failed\n\n",
        "- job 1842 of ana: 9.0 of 12.0 GPU hours idle\n",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
}

#[test]
fn a_budget_is_reported_with_its_amounts() {
    let payer = Payer::Project(ProjectName::new("nlp"));
    let of = |step| {
        let spending = digest(payer.clone(), None).month.expect("it has a budget");
        payer_news(payer.clone(), PayerEvent::Budget(BudgetReached { step, spending }))
    };
    let most = "project nlp has used 80 % of the budget of this month: 812.40 of 1000.00 EUR";
    let written = mail(&delivery(of(BudgetStep::Most)), Vec::new()).replace("\r\n ", " ");
    assert!(written.contains(&format!("Subject: gpool: {most}\r\n")), "{written}");
    assert!(written.contains("\r\ngpool budget\r\n"), "{written}");
    assert_eq!(chat(&of(BudgetStep::Most)), format!("{{\"text\":\"gpool: {most}\"}}"));
    assert!(chat(&of(BudgetStep::All)).contains("project nlp has used up the budget"));
    let data = serde_json::to_value(MessageData::from(&of(BudgetStep::All))).expect("JSON");
    let expected = serde_json::json!({
        "kind": "project", "name": "nlp", "percent": 100, "since": "2025-11-01T00:00:00.000Z",
        "currency": "EUR", "budget": 1000.0, "spent": 812.4,
    });
    assert_eq!(data, expected);
}

#[test]
fn a_chat_gets_the_command_that_answers_the_news() {
    let (limit, left) = (Millis::from_mins(120), Millis::from_mins(12));
    let near_limit = Some(NearLimit { limit, left });
    let state = JobState::Running;
    let near = JobNews { state, near_limit, exit_code: None, usage: None, ..news("<!channel>") };
    let text = "gpool: job 12 \\\"&lt;!channel&gt;\\\" running, 12m left of 2h00 · ana · \
                project red · 2 GPUs · gpool extend 12 +30m";
    assert_eq!(chat(&near.into()), format!("{{\"text\":\"{text}\"}}"));
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
        settings.send(&delivery(news("a")), Vec::new(), "ana@example.org", patience)
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
