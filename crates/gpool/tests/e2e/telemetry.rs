//! Files for dcgm-exporter, the trace of a job, and the log as JSON.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::net::UnixDatagram;
use std::path::Path;

use serde_json::Value;

use crate::harness::{Cluster, is_root, skip, until, until_so};

fn with_settings(devices: &str, settings: &dyn Fn(&Path) -> String) -> Cluster {
    let mut cluster = Cluster::unstarted(&["--devices", devices]);
    let file = cluster.path("gpool.toml");
    std::fs::write(&file, settings(&cluster.path(""))).unwrap();
    cluster.variables.push(("GPOOL_CONFIG".to_owned(), file.display().to_string()));
    cluster
}

#[test]
fn each_gpu_has_a_file_with_its_jobs_for_dcgm_exporter() {
    let settings = |folder: &Path| {
        format!("hpc_job_mapping_dir = {:?}\n", folder.join("hpc-jobs").display().to_string())
    };
    let mut cluster = with_settings("sim:2xH100-80G", &settings);
    cluster.up();
    let file = |index: &str| cluster.path("hpc-jobs").join(index);
    let first = cluster.sh(&["--gpus", "1"], "sleep 1000");
    let is = |index: &str, content: &str| {
        std::fs::read_to_string(file(index)).is_ok_and(|text| text == content)
    };
    until_so("the job has a file", || is("0", &format!("{first}\n")));
    assert!(!file("1").exists());
    let second = cluster.sh(&["--gpus", "1"], "sleep 1000");
    until_so("the other GPU has one too", || is("1", &format!("{second}\n")));
    cluster.gpool(["cancel", &first]).ok();
    until_so("the file ends with the job", || !file("0").exists());
    assert!(is("1", &format!("{second}\n")));
}

#[test]
fn the_log_can_be_json() {
    let settings = |_: &Path| "log_format = \"json\"\n".to_owned();
    let mut cluster = with_settings("none", &settings);
    cluster.up();
    let log = std::fs::read_to_string(cluster.path("server.log")).unwrap();
    let lines: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let started =
        lines.iter().find(|line| line["message"] == "server started").expect("it is said");
    assert_eq!(started["level"], "INFO");
    assert!(started["term"].is_string() && started["timestamp"].is_string(), "{started}");
}

#[test]
fn a_log_file_that_is_full_is_renamed() {
    let mut cluster = Cluster::unstarted(&["--devices", "none"]);
    let log = cluster.path("server.log");
    File::create(&log).unwrap().set_len(17 << 20).unwrap();
    cluster.up();
    let older = cluster.path("server.log.1");
    until_so("it is renamed", || older.exists());
    let n_bytes = || std::fs::metadata(&log).unwrap().len();
    cluster.kill();
    cluster.up();
    until_so("the new file has the next lines", || n_bytes() > 0);
    assert!(std::fs::metadata(&older).unwrap().len() > 17 << 20 && n_bytes() < 1 << 20);
}

#[test]
fn under_systemd_the_log_goes_to_the_journal() {
    let socket = Path::new("/run/systemd/journal/socket");
    if !is_root() || socket.exists() {
        return skip("the socket of the journal is not this test's");
    }
    std::fs::create_dir_all(socket.parent().unwrap()).unwrap();
    let journal = UnixDatagram::bind(socket).unwrap();
    let mut cluster = Cluster::unstarted(&["--devices", "none"]);
    let log = File::create(cluster.path("server.log")).unwrap().metadata().unwrap();
    let stream = format!("{}:{}", log.dev(), log.ino());
    cluster.variables.push(("JOURNAL_STREAM".to_owned(), stream));
    cluster.up();
    // Removed first: whatever fails below, no other test finds it.
    std::fs::remove_file(socket).unwrap();
    let mut entry = vec![0; 64 << 10];
    let started = until("it is logged", || {
        let n_bytes = journal.recv(&mut entry).unwrap();
        let text = String::from_utf8_lossy(&entry[..n_bytes]).into_owned();
        text.contains("server started").then_some(text)
    });
    // An entry has the name, length and value of each field.
    for field in ["MESSAGE\n", "PRIORITY\n", "gpool_server::run\n", "F_TERM\n", "gpool\n"] {
        assert!(started.contains(field), "{field}: {started:?}");
    }
    assert_eq!(cluster.log(), "", "nothing is written twice");
}

#[test]
fn a_job_gets_its_own_trace() {
    let receiver = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", receiver.local_addr().unwrap());
    let mut cluster = with_settings("sim:1xH100-80G", &|_| format!("traces = {url:?}\n"));
    cluster.variables.push(("TRACEPARENT".to_owned(), "00-of-the-submitter-01".to_owned()));
    cluster.up();
    let job = cluster.sh(&["--gpus", "1"], "echo $TRACEPARENT");
    cluster.until_ended(&job);
    let context = cluster.stdout_of(&job);
    let [version, trace, parent, flags] = context.trim().split('-').collect::<Vec<_>>()[..] else {
        panic!("{context}");
    };
    assert_eq!((version, flags), ("00", "01"));
    let root = loop {
        let spans = received(&receiver);
        if let Some(root) = spans.into_iter().find(|span| span["name"] == "job") {
            break root;
        }
    };
    assert_eq!((&root["traceId"], &root["spanId"]), (&trace.into(), &parent.into()), "{root}");
}

/// The spans of the next request.
fn received(receiver: &TcpListener) -> Vec<Value> {
    let (stream, _) = receiver.accept().unwrap();
    let mut request = BufReader::new(stream);
    let mut length = 0;
    let mut line = String::new();
    while request.read_line(&mut line).unwrap() > 2 {
        if let Some(number) = line.to_lowercase().strip_prefix("content-length:") {
            length = number.trim().parse().unwrap();
        }
        line.clear();
    }
    let mut body = vec![0; length];
    request.read_exact(&mut body).unwrap();
    let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{}";
    request.get_mut().write_all(answer).unwrap();
    let body: Value = serde_json::from_slice(&body).unwrap();
    body["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array().unwrap().clone()
}
