//! Importing a gflow queue: from a server that answers like gflow 0.4.18, and from gflow itself if
//! it is installed.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use crate::harness::{Cluster, Running, skip};

/// A substitute for gflow: its jobs, and the requests to it.
struct Gflow {
    url: String,
    jobs: Arc<Mutex<Vec<Value>>>,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Gflow {
    fn with(jobs: Vec<Value>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let jobs = Arc::new(Mutex::new(jobs));
        let asked = Arc::new(Mutex::new(Vec::new()));
        let (of_thread, log) = (jobs.clone(), asked.clone());
        // The thread ends with the test process.
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let _ = stream.map(|stream| answer(stream, &of_thread, &log));
            }
        });
        Self { url, jobs, asked }
    }

    fn state(&self, id: u64) -> String {
        let jobs = self.jobs.lock().unwrap();
        jobs.iter().find(|job| job["id"] == id).unwrap()["state"].as_str().unwrap().to_owned()
    }
}

fn answer(mut stream: TcpStream, jobs: &Mutex<Vec<Value>>, log: &Mutex<Vec<String>>) {
    let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
    let Some(Ok(first)) = lines.next() else { return };
    for line in lines.by_ref() {
        if line.unwrap_or_default().is_empty() {
            break;
        }
    }
    let path = first.split(' ').nth(1).unwrap_or_default().to_owned();
    let mut jobs = jobs.lock().unwrap();
    let parts: Vec<&str> = path.split('/').collect();
    let (status, body) = match (first.split(' ').next(), parts.as_slice()) {
        (Some("GET"), ["", "jobs"]) => (200, json!(*jobs).to_string()),
        (Some("POST"), ["", "jobs", id, verb]) => {
            log.lock().unwrap().push(format!("{verb} {id}"));
            (act(&mut jobs, id.parse().unwrap(), verb), "null".to_owned())
        }
        _ => (404, "null".to_owned()),
    };
    let head = format!(
        "HTTP/1.1 {status} X\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        body.len()
    );
    let _ = stream.write_all(format!("{head}{body}").as_bytes());
}

/// As in gflow: only queued jobs can be held, and dependents of a cancelled job are cancelled too.
fn act(jobs: &mut [Value], id: u64, verb: &str) -> u16 {
    let Some(job) = jobs.iter_mut().find(|job| job["id"] == id) else { return 404 };
    match (verb, job["state"].as_str()) {
        ("hold", Some("Queued")) => job["state"] = "Hold".into(),
        ("cancel", Some("Queued" | "Hold" | "Running")) => {
            job["state"] = "Cancelled".into();
            for other in jobs.iter_mut() {
                if other["depends_on_ids"].as_array().unwrap().contains(&id.into()) {
                    other["state"] = "Cancelled".into();
                }
            }
        }
        _ => return 409,
    }
    200
}

fn job(id: u64, state: &str, more: Value) -> Value {
    let mut job = json!({
        "id": id, "script": null, "command": format!("echo {id}"), "gpus": 0, "conda_env": null,
        "run_dir": "/tmp", "priority": 10, "depends_on": null, "depends_on_ids": [],
        "dependency_mode": null, "auto_cancel_on_dependency_failure": true, "task_id": null,
        "gpu_sharing_mode": "Exclusive", "gpu_memory_limit_mb": null, "time_limit": null,
        "memory_limit_mb": null, "submitted_by": me(), "redone_from": null, "max_retries": 0,
        "parameters": {}, "group_id": null, "max_concurrent": null,
        "run_name": format!("gjob-{id}"), "project": null, "state": state, "gpu_ids": null,
        "submitted_at": {"secs_since_epoch": 1_795_186_131, "nanos_since_epoch": id},
        "started_at": null, "finished_at": null, "reason": null, "scheduled_at": null
    });
    for (key, value) in more.as_object().unwrap() {
        job[key] = value.clone();
    }
    job
}

fn me() -> String {
    let uid = rustix::process::geteuid().as_raw();
    let passwd = std::fs::read_to_string("/etc/passwd").unwrap();
    let is_mine = |line: &&str| line.split(':').nth(2) == Some(&uid.to_string());
    let line = passwd.lines().find(is_mine).map_or("", |line| line);
    line.split(':').next().unwrap_or_default().to_owned()
}

fn import(cluster: &Cluster, gflow: &Gflow, more: &[&str]) -> crate::harness::Ran {
    let words = ["import", "gflow", "--url", &gflow.url].into_iter().chain(more.iter().copied());
    cluster.gpool(words)
}

#[test]
fn a_queue_of_gflow_is_imported() {
    let cluster = Cluster::new("sim:2xH100-80G");
    let gflow = Gflow::with(vec![
        job(1, "Running", json!({"gpus": 1})),
        job(
            2,
            "Queued",
            json!({
                "gpus": 2, "run_name": "gjob-2-big", "time_limit": {"secs": 3600, "nanos": 0},
                "memory_limit_mb": 64, "project": "vision", "priority": 5,
            }),
        ),
        job(3, "Queued", json!({"depends_on_ids": [2], "dependency_mode": "All"})),
        job(4, "Hold", json!({"command": "echo {lr}", "parameters": {"lr": "0.1"}})),
        job(5, "Queued", json!({"depends_on_ids": [1]})),
        job(6, "Queued", json!({"submitted_by": "somebody-else"})),
        job(7, "Finished", json!({})),
        job(
            8,
            "Queued",
            json!({"depends_on_ids": [7], "task_id": 4, "command": "echo $GFLOW_ARRAY_TASK_ID"}),
        ),
        job(9, "Queued", json!({"script": "/nonexistent/x.sh", "command": null})),
        job(10, "Queued", json!({"gpus": 99})),
    ]);
    let dry = import(&cluster, &gflow, &["--dry-run"]).ok();
    assert!(dry.contains("gflow job 2: would come\n"), "{dry}");
    assert!(cluster.all_ids().is_empty() && gflow.asked.lock().unwrap().is_empty());

    let out = import(&cluster, &gflow, &[]).ok();
    let lines: Vec<&str> = out.lines().collect();
    assert_eq!(lines.len(), 9, "{out}");
    assert!(lines[0].contains("unmanaged"), "{out}");
    assert_eq!(lines[1], "gflow job 2 is job 1: taken over");
    assert_eq!(lines[3], "gflow job 4 is job 3: taken over, held");
    assert!(lines[4].contains("waits for job 1, which runs there"), "{out}");
    assert!(lines[5].contains("somebody-else"), "{out}");
    assert_eq!(lines[6], "gflow job 8 is job 4: taken over");
    assert!(lines[7].contains("there is no script") && lines[8].contains("99"), "{out}");

    let big = cluster.until_ended("1");
    assert_eq!((&*big.name, big.request.gpus_text(), &*big.project), ("big", "2", "default"));
    assert_eq!(
        (big.request.time_seconds(), big.request.mem_bytes(), big.request.priority_number()),
        (Some(3600.0), Some(64 << 20), -5)
    );
    assert!(big.request.note.unwrap().ends_with("from gflow job 2"));
    assert_eq!(cluster.job("2").request.after, ["ok:1"]);
    cluster.until_is("2", "succeeded");
    assert_eq!(cluster.stdout_of("2"), "3\n");
    assert_eq!(cluster.job("3").state.as_str(), "held");
    assert_eq!(cluster.job("3").request.command[2], "echo 0.1");
    cluster.until_ended("4");
    assert_eq!(cluster.stdout_of("4"), "4\n", "the task ID in gflow");
    for (id, state) in [
        (1, "Running"),
        (2, "Cancelled"),
        (3, "Cancelled"),
        (4, "Cancelled"),
        (5, "Queued"),
        (6, "Queued"),
        (8, "Cancelled"),
        (9, "Queued"),
        (10, "Queued"),
    ] {
        assert_eq!(gflow.state(id), state, "{id}");
    }
    import(&cluster, &gflow, &[]).ok();
    assert_eq!(cluster.all_ids().len(), 4, "a repeated import does nothing twice");
}

#[test]
fn an_interrupted_import_continues() {
    let cluster = Cluster::new("none");
    // The job appears twice: as it was before an import, and as that import left it.
    let gflow = Gflow::with(vec![job(1, "Queued", json!({}))]);
    import(&cluster, &gflow, &[]).ok();
    cluster.until_ended("1");
    gflow.jobs.lock().unwrap()[0]["state"] = "Queued".into();
    let out = import(&cluster, &gflow, &[]);
    assert_eq!(cluster.all_ids(), ["1"], "the key is known: {out:?}");
    // The import was killed after cancelling the job there and before releasing it here.
    let note = "imported from gflow job 2";
    let id = cluster.submit(["--hold", "--note", note, "--", "true"]);
    gflow.jobs.lock().unwrap().push(job(2, "Cancelled", json!({})));
    gflow.jobs.lock().unwrap().remove(0);
    let out = import(&cluster, &gflow, &[]).ok();
    assert!(out.contains("completes an earlier import"), "{out}");
    cluster.until_is(&id, "succeeded");
}

#[test]
fn other_programs_are_refused() {
    let cluster = Cluster::new("none");
    let at = |url: &str| cluster.gpool(["import", "gflow", "--url", url]);
    at("http://127.0.0.1:1").refused(1, &["does not answer", "gflowd status"]);
    at("ftp://x").refused(2, &["is not an address"]);
    let gflow = Gflow::with(vec![json!({"id": "x"})]);
    import(&cluster, &gflow, &[]).refused(1, &["not a known version of gflow"]);
    let named = cluster.path("gflow.toml");
    std::fs::write(&named, "[daemon\n").unwrap();
    let words = ["import", "gflow", "--config", named.to_str().unwrap()];
    cluster.gpool(words).refused(2, &["gflow.toml"]);
}

#[test]
fn settings_of_gflow_are_shown_and_written() {
    let cluster = Cluster::new("none");
    let gflow = Gflow::with(Vec::new());
    let port = gflow.url.rsplit(':').next().unwrap().to_owned();
    let config = cluster.path("gflow.toml");
    let text = format!(
        "timezone = \"UTC\"\n[daemon]\nhost = \"127.0.0.1\"\nport = {port}\ngpus = [0, 2]\n\
         gpu_allocation_strategy = \"random\"\n[quota.default_user]\nmax_running_jobs = 3\n\
         [shoes]\n"
    );
    std::fs::write(&config, text).unwrap();
    let made = cluster.path("gpool.toml");
    let words = ["import", "gflow", "--config", config.to_str().unwrap(), "--write"];
    let run = || cluster.gpool(words.into_iter().chain([made.to_str().unwrap()]));
    let ran = run();
    for words in
        ["daemon.gpus: gpus in", "quota: ", "shoes: gpool has no such setting", "nothing to import"]
    {
        assert!(ran.err.contains(words), "{words}: {ran:?}");
    }
    let written = std::fs::read_to_string(&made).unwrap();
    assert!(written.ends_with("gpus = \"0,2\"\nstrategy = \"random\"\n"), "{written}");
    assert!(gpool::config::Config::parse(&written, "gpool.toml").is_ok());
    run().refused(1, &["gpool.toml"]);
}

#[test]
fn a_running_gflow_is_imported() {
    let Some(gflowd) = std::env::var_os("GPOOL_TEST_GFLOW").map(std::path::PathBuf::from) else {
        return skip("no gflow: GPOOL_TEST_GFLOW names no folder with its commands");
    };
    let cluster = Cluster::new("sim:1xH100-80G");
    let home = cluster.path("gflow");
    std::fs::create_dir_all(home.join(".config/gflow")).unwrap();
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let config = home.join(".config/gflow/gflow.toml");
    let text =
        format!("[daemon]\nhost = \"127.0.0.1\"\nport = {port}\n[executor]\ntype = \"process\"\n");
    std::fs::write(&config, text).unwrap();
    let command = |name: &str| {
        let mut command = std::process::Command::new(gflowd.join(name));
        command.env_clear().env("HOME", &home).env("PATH", "/usr/bin:/bin").env("USER", me());
        command.current_dir(cluster.work());
        command
    };
    let daemon = Running::start(&mut command("gflowd"), None);
    let url = format!("http://127.0.0.1:{port}");
    let submit = |line: &str| Running::start(command("gbatch").args(line.split(' ')), None).end();
    crate::harness::until_so("gflow answers", || submit("--gpus 1 -n one echo taken").code == 0);
    submit("--gpus 1 -d 1 -p 20 -t 1:00:00 echo after").ok();
    let out = cluster.gpool(["import", "gflow", "--url", &url]).ok();
    daemon.signal(rustix::process::Signal::KILL);
    daemon.end();
    assert_eq!(out, "gflow job 1 is job 1: taken over\ngflow job 2 is job 2: taken over\n");
    let second = cluster.job("2");
    assert_eq!(
        (second.request.time_seconds(), second.request.priority_number()),
        (Some(3600.0), 10)
    );
    assert_eq!(
        (&*cluster.job("1").name, second.request.after.as_slice()),
        ("one", &["ok:1".to_owned()][..])
    );
}
