//! Services under load: their number of replicas, and how the gateway reaches them.

use std::fs;
use std::thread::{self, JoinHandle};

use gpool_wire::Job;
use rustix::process::Signal;

use crate::harness::{Cluster, Machine, until, until_so};
use crate::services::{Services, get};

/// Requests that are answered once there is a file `enough`.
fn wait_for_answers(port: u16, n: u32) -> Vec<JoinHandle<u16>> {
    (0..n).map(|_| thread::spawn(move || get(port, "/wait").unwrap().0)).collect()
}

#[test]
fn a_step_to_four_times_the_load_gives_four_replicas_and_no_more() {
    let services = Services::new();
    let flags = ["--replicas=1..8", "--target=1", "--window=10s", "--ready=/health"];
    services.serve(&flags, "1").ok();
    services.until_ready(1);
    let mut answers = wait_for_answers(services.port, 1);
    // The average over a whole window is that of one request.
    until_so("a load of one request", || {
        let status = services.status();
        let reason = status["reason"].as_str().unwrap_or_default();
        reason.starts_with("1.0 requests at once in the stable window of 10.0 s")
    });
    let first = services.jobs("replica");
    assert_eq!(first.len(), 1);
    answers.extend(wait_for_answers(services.port, 3));
    services.until_ready(4);
    let replicas = services.jobs("replica");
    let since: Vec<&Job> = replicas.iter().filter(|job| job.id != first[0].id).collect();
    assert_eq!(since.len(), 3, "{replicas:?}");
    let note = |job: &&Job| job.request.note.clone().unwrap_or_default();
    let notes: Vec<String> = since.iter().map(note).collect();
    assert!(notes.iter().all(|it| it.contains("requests at once in the")), "{notes:?}");
    assert!(notes.iter().any(|it| it.contains("panic window of 0.5 s, target 1")), "{notes:?}");
    // A whole window with this load asks for no others.
    until_so("a load of four requests", || {
        let status = services.status();
        let reason = status["reason"].as_str().unwrap_or_default();
        reason.starts_with("4.0 requests at once in the stable window of 10.0 s")
    });
    assert_eq!((services.jobs("replica").len(), services.n_in("ready")), (4, 4));
    fs::write(services.cluster.work().join("enough"), "").unwrap();
    let statuses = answers.into_iter().map(|it| it.join().unwrap());
    assert_eq!(statuses.collect::<Vec<_>>(), [200; 4]);
}

#[test]
fn held_requests_start_a_replica_where_their_time_is_the_load_and_tokens_are_counted() {
    let services = Services::new();
    let scale = ["--scale-by=queue-time", "--target=50", "--max-concurrency=1"];
    let flags = ["--replicas=1..2", "--window=2s", "--ready=/health"];
    services.serve(&[&scale[..], &flags].concat(), "1").ok();
    services.until_ready(1);
    let first = services.jobs("replica")[0].id.clone();
    let answers = wait_for_answers(services.port, 2);
    services.until_ready(2);
    let second = services.jobs("replica").into_iter().find(|job| job.id != first).unwrap();
    let note = second.request.note.unwrap_or_default();
    assert!(note.contains("requests are held") && note.contains("target 50"), "{note}");
    until_so("both requests have a replica", || {
        let status = services.status();
        status["n_in_flight"] == 2 && status["n_held"] == 0
    });
    fs::write(services.cluster.work().join("enough"), "").unwrap();
    assert!(answers.into_iter().all(|it| it.join().unwrap() == 200));
    assert_eq!(services.get("/tokens").unwrap().0, 200);
    let rate = until("tokens", || services.status()["figures"]["tokens_s"].as_f64());
    assert!((100.0..=6000.0).contains(&rate), "{rate}");
    let gateway = services.jobs("gateway")[0].id.clone();
    let metrics = || services.cluster.job(&gateway).usage.metrics;
    until_so("the metric of the gateway", || metrics().contains_key("tokens_s"));
}

#[test]
fn replicas_that_listen_for_other_machines_are_reached_without_the_server() {
    let cluster = Cluster::with(&["--devices", "none", "--listen", "127.0.0.1:0"]);
    let services = Services::on(cluster);
    let mut machine = Machine::new(&services.cluster, "lab2", "sim:2xA100-80G");
    machine.join("lab2");
    let command = ["--", "python3", "server.py", "{port}", "1", "{host}"];
    services.serve_command(&["--replicas=2", "--ready=/health"], &command).ok();
    services.until_ready(2);
    let placed = services.jobs("replica").into_iter().map(|job| job.placement[0].node.clone());
    assert_eq!(placed.collect::<Vec<_>>(), ["lab2", "lab2"]);
    services.cluster.signal_server(Signal::STOP);
    assert!((0..10).all(|_| services.get("/").unwrap().0 == 200));
    services.cluster.signal_server(Signal::CONT);
}
