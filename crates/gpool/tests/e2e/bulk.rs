//! Many jobs in one request: all or none.

use std::fmt::Write as _;

use crate::harness::{Cluster, until_so};

#[test]
fn ids_are_printed_a_line_each() {
    let cluster = Cluster::new("sim:2xH100-80G");
    let lines =
        b"{\"command\":[\"true\"],\"gpus\":\"1\",\"name\":\"a\"}\n\n{\"command\":[\"false\"]}\n";
    let ran = cluster.gpool_reading(["submit", "--from-jsonl", "-"], lines);
    assert_eq!(ran.ok(), "1\n2\n");
    assert_eq!(cluster.until_ended("1").name, "a");
    assert_eq!(cluster.until_ended("2").run.exit_code, Some(1));
    let file = cluster.work().join("jobs.jsonl");
    std::fs::write(&file, "{\"command\":[\"sh\",\"-c\",\"exit 9\"]}").unwrap();
    // Flags set the fields that lines leave out.
    let words = ["submit", "--from-jsonl", "jobs.jsonl", "-J", "of-the-flag", "--gpus", "2"];
    assert_eq!(cluster.gpool(words).ok(), "3\n");
    let job = cluster.until_ended("3");
    assert_eq!((job.name.as_str(), job.request.gpus_text()), ("of-the-flag", "2"));
    assert_eq!(job.run.exit_code, Some(9));
}

#[test]
fn a_thousand_jobs_all_run() {
    let cluster = Cluster::new("none");
    let text = "{\"command\":[\"true\"]}\n".repeat(1000);
    let out = cluster.gpool_reading(["submit", "--from-jsonl", "-"], text.as_bytes()).ok();
    let expected = (1..=1000).fold(String::new(), |mut text, id| {
        let _ = writeln!(text, "{id}");
        text
    });
    assert_eq!(out, expected);
    let ran = cluster.gpool(["wait", "all"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    until_so("all have ended", || cluster.client().status().unwrap().jobs_ended == 1000);
    let bad = cluster.gpool(["queue", "--state", "failed,lost,cancelled", "-o", "name"]).ok();
    assert_eq!(bad, "");
}

#[test]
fn a_million_jobs_are_taken_or_refused_in_bounded_memory() {
    let cluster = Cluster::new("sim:1xH100-80G");
    // More jobs than a submission may have: the message names the remedy, and nothing changes.
    let line = "{\"command\":[\"true\"],\"hold\":true}\n";
    let too_many = line.repeat(1_000_001);
    let ran = cluster.gpool_reading(["submit", "--from-jsonl", "-"], too_many.as_bytes());
    ran.refused(2, &["1000000 jobs", "split it"]);
    assert!(cluster.all_ids().is_empty());
    // Too many bytes: refused at the bound, without reading the rest.
    let line = format!("{{\"command\":[\"true\",\"{}\"]}}\n", "x".repeat(100_000));
    let long = line.repeat(700);
    cluster.gpool_reading(["submit", "--from-jsonl", "-"], long.as_bytes()).refused(2, &["64 MiB"]);
    assert!(cluster.all_ids().is_empty());
    // A generous bound, to find memory that grows with each byte that is sent.
    let peak = peak_kib(cluster.server_pid());
    assert!(peak < 1024 * 1024, "the server's memory peaked at {peak} KiB");
    assert_eq!(cluster.submit(["--", "true"]), "1");
}

fn peak_kib(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}
