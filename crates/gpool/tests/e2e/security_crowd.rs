//! One user must not be able to take the server from the others: the memory that many dependencies,
//! lists and requests of one user cost, and the progress of other users meanwhile.

use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::json;

use crate::harness::Cluster;
use crate::http::Http;
use crate::users::{NOBODY, SOMEBODY, as_user, cluster};

/// The peak memory of a process, in MiB.
pub fn most_resident_mib(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() / 1024
}

const JSONL: [(&str, &str); 1] = [("Content-Type", "application/jsonl")];

/// Submits lines, and returns the status of the answer.
fn bulk(http: &Http, lines: &str) -> u16 {
    http.send("POST", "/api/v1/jobs/bulk", &JSONL, lines.as_bytes()).status
}

/// Submits `n_held` held jobs, and `n_jobs` jobs that each wait for all of them.
fn wait_for_held(http: &Http, n_jobs: usize, n_held: usize) -> u16 {
    assert_eq!(bulk(http, &"{\"command\":[\"true\"],\"hold\":true}\n".repeat(n_held)), 201);
    bulk(http, &waiting(n_held).repeat(n_jobs))
}

/// The line of a job that waits for the first `n_held` jobs.
fn waiting(n_held: usize) -> String {
    let after: Vec<String> = (1..=n_held).map(|id| format!("end:{id}")).collect();
    format!("{}\n", json!({"command": ["true"], "after": after}))
}

/// Requests of the attacker, many at once, while another user works.
fn read_and_work(cluster: &Cluster) {
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for path in ["/api/v1/jobs?limit=10000", "/api/v1/jobs/1001/why"].repeat(8) {
            let http = Http::of_user(cluster, NOBODY);
            let is_over = &is_over;
            scope.spawn(move || {
                while !is_over.load(Ordering::Relaxed) {
                    let answer = http.bytes(path);
                    assert!(answer.len() <= 9 << 20, "{path}: {}", answer.len());
                }
            });
        }
        for _ in 0..5 {
            let id = as_user(cluster, SOMEBODY, &["submit", "--", "true"]).ok();
            assert_eq!(as_user(cluster, SOMEBODY, &["wait", id.trim()]).code, 0);
            as_user(cluster, SOMEBODY, &["queue", "--user", "65533"]).ok();
        }
        is_over.store(true, Ordering::Relaxed);
    });
}

#[test]
fn many_dependencies_of_one_user_are_refused_and_take_no_memory() {
    let Some(cluster) = cluster() else { return };
    let http = Http::of_user(&cluster, NOBODY);
    // A million are refused at once; the allowed number is accepted.
    assert_eq!(wait_for_held(&http, 1000, 1000), 429);
    assert_eq!(bulk(&http, &waiting(1000).repeat(100)), 201);
    let refused = as_user(&cluster, NOBODY, &["submit", "--after", "1", "--", "true"]);
    refused.refused(7, &["100000 dependencies", "your jobs have 100000", "GP0522"]);
    as_user(&cluster, SOMEBODY, &["help", "GP0522"]).ok();
    read_and_work(&cluster);
    as_user(&cluster, NOBODY, &["cancel", "all"]).ok();
    as_user(&cluster, NOBODY, &["submit", "--", "true"]).ok();
    let most = most_resident_mib(cluster.server_pid());
    assert!(most < 250, "{most} MiB");
}

#[test]
fn a_million_dependencies_where_they_are_allowed_take_little_memory() {
    if cluster().is_none() {
        return;
    }
    let mut cluster = Cluster::unstarted(&["--devices", "none"]);
    let settings = cluster.path("gpool.toml");
    std::fs::write(&settings, "user_dependencies_max = 100000000\n").unwrap();
    let path = settings.to_str().unwrap().to_owned();
    cluster.variables.push(("GPOOL_CONFIG".to_owned(), path));
    cluster.up();
    let http = Http::new(&cluster);
    // In several submissions, since a single one of many megabytes uses memory itself.
    assert_eq!(wait_for_held(&http, 100, 1000), 201);
    assert!((0..9).all(|_| bulk(&http, &waiting(1000).repeat(100)) == 201));
    let page = http.get("/api/v1/jobs?limit=10000");
    let page = page.json();
    let items = page["items"].as_array().unwrap();
    let last = items.last().unwrap();
    assert_eq!(
        (last["wait"]["reasons"].as_array().unwrap().len(), &last["wait"]["n_more_reasons"]),
        (8, &992.into())
    );
    // The list is large, but it can be read completely, page by page.
    let queue = cluster.gpool(["queue", "-n", "0", "-o", "name"]).ok();
    assert_eq!(queue.lines().count(), 2000);
    let why = cluster.why("1001");
    assert!(why.contains("It waits for 996 more jobs."), "{why}");
    let most = most_resident_mib(cluster.server_pid());
    assert!(most < 250, "{most} MiB");
}
