//! One user has many messages to hosts that never answer; another user's messages still arrive.

use std::io::Read as _;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::json;

use crate::harness::{Cluster, is_root, skip, until_so};
use crate::http::Http;
use crate::notify::Endpoint;
use crate::users::{NOBODY, SOMEBODY, as_user, unstarted};

/// Hosts that accept connections and never answer: addresses of the loopback network.
struct Silent {
    urls: Vec<String>,
    /// The number of connections so far.
    n_made: Arc<AtomicUsize>,
}

impl Silent {
    fn new(n_hosts: u8) -> Self {
        let n_made = Arc::new(AtomicUsize::new(0));
        let urls = (0..n_hosts).map(|host| {
            let listener = TcpListener::bind(format!("127.0.7.{}:0", host + 1)).unwrap();
            let url = format!("http://{}/hook", listener.local_addr().unwrap());
            let n_made = Arc::clone(&n_made);
            std::thread::spawn(move || {
                for mut stream in listener.incoming().flatten() {
                    n_made.fetch_add(1, Ordering::SeqCst);
                    // Held until the client closes it.
                    std::thread::spawn(
                        move || while stream.read(&mut [0; 64]).is_ok_and(|n| n > 0) {},
                    );
                }
            });
            url
        });
        Self { urls: urls.collect(), n_made }
    }

    fn n_made(&self) -> usize {
        self.n_made.load(Ordering::SeqCst)
    }
}

/// A server of root with these settings in its `gpool.toml`.
fn cluster(config: impl Fn(&Cluster) -> String) -> Option<Cluster> {
    if !is_root() {
        skip("only root can act as several users");
        return None;
    }
    let mut cluster = unstarted();
    let file = cluster.path("gpool.toml");
    std::fs::write(&file, config(&cluster)).unwrap();
    cluster.variables.push(("GPOOL_CONFIG".to_owned(), file.display().to_string()));
    cluster.up();
    Some(cluster)
}

/// Users may name loopback addresses.
fn with_loopback(_: &Cluster) -> String {
    "notify_allow = [\"127.0.0.0/8\"]\n".to_owned()
}

/// A sendmail that hangs for some addresses, and writes a line into `slow` for each.
fn with_slow_sendmail(cluster: &Cluster) -> String {
    let program = cluster.path("sendmail");
    let (slow, mail) = (cluster.path("slow"), cluster.path("mail"));
    let (slow, mail) = (slow.display(), mail.display());
    let script = format!(
        "#!/bin/sh\ncase \"$*\" in *slow*) echo $$ >> {slow}; exec sleep 1000;; esac\n\
         cat > {mail}.new; mv {mail}.new {mail}\n"
    );
    std::fs::write(&program, script).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    format!("sendmail = \"{}\"\nmail_from = \"gpool@lab.example\"\n", program.display())
}

/// Adds a held job of a user; its cancellation is notified.
fn add(cluster: &Cluster, uid: u32, urls: &[&str]) {
    let notify: Vec<_> = urls.iter().map(|url| format!("cancel@{url}")).collect();
    let job = json!({"command": ["true"], "directory": "/", "hold": true, "notify": notify});
    let answer = Http::of_user(cluster, uid).post("/api/v1/jobs", &job);
    assert_eq!(answer.status, 201, "{answer:?}");
}

fn cancel_all(cluster: &Cluster, uid: u32) {
    assert_eq!(as_user(cluster, uid, &["cancel", "all"]).code, 0);
}

#[test]
fn messages_to_hosts_that_never_answer_delay_no_other_user() {
    let Some(cluster) = cluster(with_loopback) else { return };
    let silent = Silent::new(40);
    let quick = Endpoint::new(|_| Some(200));
    // 75 jobs with 8 addresses each: 600 messages, 15 to each host.
    let urls: Vec<&str> = silent.urls.iter().map(String::as_str).cycle().take(600).collect();
    for eight in urls.chunks(8) {
        add(&cluster, NOBODY, eight);
    }
    cancel_all(&cluster, NOBODY);
    let waiting = || cluster.client().status().unwrap().notifications.waiting;
    until_so("they are on their way", || silent.n_made() >= 4);
    let n_before = silent.n_made();
    add(&cluster, SOMEBODY, &[&quick.url]);
    cancel_all(&cluster, SOMEBODY);
    until_so("the other user's message arrives", || quick.got().len() == 1);
    // Sequentially, 600 connections of 10 seconds each would come first.
    assert!(silent.n_made() < n_before + 40, "{} then {}", n_before, silent.n_made());
    // It leaves the outbox once its answer has come; none of the others was answered.
    until_so("only the others wait", || waiting() == 600);
}

#[test]
fn mail_that_hangs_delays_no_other_user() {
    let Some(cluster) = cluster(with_slow_sendmail) else { return };
    let n_hung = || {
        let text = std::fs::read_to_string(cluster.path("slow")).unwrap_or_default();
        text.lines().count()
    };
    for job in 0..20 {
        let urls: Vec<String> =
            (0..8).map(|n| format!("mailto:slow{job}-{n}@example.org")).collect();
        add(&cluster, NOBODY, &urls.iter().map(String::as_str).collect::<Vec<_>>());
    }
    cancel_all(&cluster, NOBODY);
    until_so("sendmail hangs", || n_hung() >= 2);
    let n_before = n_hung();
    add(&cluster, SOMEBODY, &["mailto:ana@example.org"]);
    cancel_all(&cluster, SOMEBODY);
    until_so("the other user has mail", || cluster.path("mail").exists());
    assert!(n_hung() < n_before + 20, "{n_before} then {}", n_hung());
}

#[test]
fn a_silent_host_is_tried_few_times_and_not_for_each_message() {
    let Some(cluster) = cluster(with_loopback) else { return };
    let silent = Silent::new(1);
    for _ in 0..25 {
        let urls: Vec<String> = (0..8).map(|n| format!("{}/{n}", silent.urls[0])).collect();
        add(&cluster, NOBODY, &urls.iter().map(String::as_str).collect::<Vec<_>>());
    }
    cancel_all(&cluster, NOBODY);
    // After the first failure, all messages to the host have failed.
    until_so("each has failed", || {
        let all = Http::of_user(&cluster, NOBODY).get("/api/v1/notifications").json();
        let items = all["items"].as_array().unwrap();
        items.len() == 200 && items.iter().all(|item| item["why"].is_string())
    });
    assert!(silent.n_made() <= 20, "{} connections for 200 messages", silent.n_made());
}
