//! Kinds of jobs, and jobs that do not use their GPUs.

use crate::checkpoint::Rig;
use crate::harness::{Cluster, until_so};
use crate::notify::Endpoint;
use crate::web::{ask, port};

#[test]
fn a_job_has_a_kind_and_a_time_after_which_it_is_idle() {
    let cluster = Cluster::new("sim:1xH100-80G");
    let of = |flags: &[&str]| {
        let words = [&["--hold", "--gpus", "1"], flags, &["--", "true"]].concat();
        let job = cluster.job(&cluster.submit(words));
        (job.request.kind_word().to_owned(), job.request.idle_after_seconds())
    };
    let is = |kind: &str, after: Option<f64>| (kind.to_owned(), after);
    assert_eq!(of(&[]), is("train", None));
    assert_eq!(of(&["--kind", "notebook"]), is("notebook", Some(1800.0)));
    assert_eq!(of(&["--kind", "shell"]), is("notebook", Some(1800.0)));
    assert_eq!(of(&["--kind", "serve", "--idle-after", "2h"]), is("serve", Some(7200.0)));
    assert_eq!(of(&["--kind", "notebook", "--idle-after", "off"]), is("notebook", None));
    let script = "#!/bin/sh\n# GPOOL --gpus 1 --kind data --idle-after 5m --array 0-1\ntrue\n";
    std::fs::write(cluster.work().join("job.sh"), script).unwrap();
    let id = cluster.submit(["--hold", "job.sh"]);
    let job = cluster.job(&format!("{id}.1"));
    assert_eq!((job.request.kind_word(), job.request.idle_after_seconds()), ("data", Some(300.0)));
    cluster.gpool(["edit", &id, "--kind", "notebook", "--idle-after", "1h"]).ok();
    let job = cluster.job(&id);
    let kind = (job.request.kind_word(), job.request.idle_after_seconds());
    assert_eq!(kind, ("notebook", Some(3600.0)));
    let shown = cluster.gpool(["show", &id]).ok();
    assert!(shown.contains("notebook") && shown.contains("1h"), "{shown}");
    let listed = cluster.gpool(["queue", "--filter", "kind=notebook", "--json"]).json();
    let items = listed["items"].as_array().unwrap();
    assert!(
        !items.is_empty() && items.iter().all(|it| it["request"]["kind"] == "notebook"),
        "{listed}"
    );
}

fn utilize(cluster: &Cluster, device: usize, percent: u32) {
    cluster.gpool(["sim", "utilize", &device.to_string(), &percent.to_string()]).ok();
}

/// A notebook that has used its GPU, and then does not.
fn idle_notebook(cluster: &Cluster, flags: &[&str]) -> String {
    let common = ["--gpus", "1", "--kind", "notebook", "--idle-after", "1s"];
    let id = cluster.sh(&[&common[..], flags].concat(), "sleep 1000");
    cluster.until_is(&id, "running");
    let device = usize::try_from(cluster.devices_of(&id)[0]).unwrap();
    utilize(cluster, device, 50);
    until_so("the agent sees the use", || cluster.gpu(device).utilization == Some(0.5));
    assert_eq!(cluster.job(&id).run.idle_since, None);
    utilize(cluster, device, 0);
    id
}

fn until_idle(cluster: &Cluster, id: &str) {
    until_so("it is idle", || cluster.job(id).run.idle_since.is_some());
}

#[test]
fn an_idle_job_is_shown_until_it_uses_its_gpu_again() {
    let mut cluster = Cluster::new("sim:1xH100-80G");
    let id = idle_notebook(&cluster, &[]);
    until_idle(&cluster, &id);
    let gpu = cluster.gpu(0);
    assert_eq!((gpu.idle.len(), &gpu.idle[0].job), (1, &id));
    assert_eq!(cluster.gpu_state(0), "held_idle");
    for list in [&["gpus"][..], &["top", "--once"], &["queue"]] {
        let shown = cluster.gpool(list).ok();
        let words = if list == ["queue"] { "0 of them busy" } else { "held idle" };
        assert!(shown.contains(words), "{shown}");
    }
    let (_, _, wall) = ask(port(&cluster), "GET /wall", "localhost", "");
    assert!(wall.contains("<b>0</b> busy") && wall.contains("<b>1</b> held idle"), "{wall}");
    let metrics = cluster.client().metrics().unwrap();
    let of_gpu = |line: &&str| line.starts_with("gpool_gpu_state{") && line.ends_with(" 1.0");
    let states: Vec<&str> = metrics.lines().filter(of_gpu).collect();
    assert!(states.len() == 1 && states[0].contains(r#"state="held_idle""#), "{states:?}");
    assert!(cluster.gpool(["gpus", "0"]).ok().contains("no use since"));
    assert!(cluster.why(&id).contains("no GPU use since"));
    assert!(cluster.gpool(["show", &id]).ok().contains("no GPU use since"));
    // A new agent has seen no use yet, so the job counts as starting.
    cluster.kill();
    cluster.up();
    until_so("it is not idle", || cluster.job(&id).run.idle_since.is_none());
    utilize(&cluster, 0, 50);
    until_so("the agent sees the use", || cluster.gpu(0).utilization == Some(0.5));
    utilize(&cluster, 0, 0);
    until_idle(&cluster, &id);
    utilize(&cluster, 0, 10);
    until_so("it is active", || cluster.job(&id).run.idle_since.is_none());
    assert_eq!((cluster.gpu(0).idle, cluster.gpu_state(0)), (vec![], "busy".to_owned()));
    for event in ["is idle: no GPU use for", "uses its GPUs again"] {
        until_so(event, || cluster.gpool(["events", &id]).ok().contains(event));
    }
    // Copies and allocations are use too.
    utilize(&cluster, 0, 0);
    until_idle(&cluster, &id);
    cluster.gpool(["sim", "use-memory", "0", "1G"]).ok();
    until_so("it allocated", || cluster.job(&id).run.idle_since.is_none());
}

#[test]
fn a_job_that_has_not_used_its_gpu_yet_is_starting_and_other_kinds_are_idle_later() {
    let cluster = Cluster::new("sim:3xH100-80G");
    let idle = idle_notebook(&cluster, &[]);
    let soon = ["--gpus", "1", "--kind", "notebook", "--idle-after", "1s"];
    let starting = cluster.sh(&soon, "sleep 1000");
    let train = cluster.sh(&["--gpus", "1"], "sleep 1000");
    until_so("its agent shows it as idle after half an hour", || {
        let claims = std::fs::read_dir(cluster.state().join("tasks")).unwrap();
        let read = |claim: std::io::Result<std::fs::DirEntry>| {
            std::fs::read_to_string(claim.unwrap().path()).unwrap_or_default()
        };
        claims.map(read).any(|claim| claim.contains("\"idle_after\":1800000"))
    });
    until_idle(&cluster, &idle);
    for id in [starting, train] {
        assert_eq!(cluster.job(&id).run.idle_since, None);
    }
}

#[test]
fn the_policy_decides_about_idle_jobs() {
    let cluster = Cluster::new("sim:3xH100-80G");
    cluster.gpool(["policy", "set", "idle=nothing"]).refused(2, &["report", "demote"]);
    cluster.gpool(["policy", "set", "idle=demote"]).ok();
    let demoted = idle_notebook(&cluster, &["--no-preemptible"]);
    until_so("it is preemptible", || cluster.job(&demoted).request.preemptible == Some(true));
    let event = "it is preemptible from now on";
    until_so(event, || cluster.gpool(["events", &demoted]).ok().contains(event));
    cluster.until_is(&demoted, "running");
    cluster.gpool(["policy", "set", "idle=cancel"]).ok();
    let notebook = idle_notebook(&cluster, &[]);
    until_idle(&cluster, &notebook);
    let batch = idle_notebook(&cluster, &["--kind", "train"]);
    let ended = cluster.until_ended(&batch);
    assert_eq!(ended.state.as_str(), "cancelled");
    assert!(ended.run.cause_text.unwrap().contains("the policy for idle jobs"));
    assert_eq!(cluster.until_is(&notebook, "running").run.attempt, 1, "a notebook goes on");
    cluster.gpool(["policy", "set", "idle=requeue"]).ok();
    let batch = idle_notebook(&cluster, &["--kind", "data"]);
    until_so("it runs again", || cluster.job(&batch).run.attempt == 2);
}

#[test]
fn an_idle_job_that_frees_its_gpu_itself_gets_it_back_when_it_asks() {
    let cluster = Cluster::new("sim:1xH100-80G");
    cluster.gpool(["policy", "set", "idle=release"]).ok();
    let gpool = env!("CARGO_BIN_EXE_gpool");
    let line = format!(
        "until grep release $GPOOL_DIR/gpus; do sleep 0.05; done; {gpool} yield || exit 3
        until [ -e go ]; do sleep 0.05; done; {gpool} yield --end || exit 4"
    );
    let flags = ["--gpus", "1", "--kind", "notebook", "--idle-after", "1s", "--yields"];
    let id = cluster.sh(&flags, &line);
    cluster.until_is(&id, "running");
    utilize(&cluster, 0, 50);
    until_so("the agent sees the use", || cluster.gpu(0).utilization == Some(0.5));
    utilize(&cluster, 0, 0);
    until_so("its GPU is free", || cluster.job(&id).run.freed);
    assert!(cluster.why(&id).contains("the policy for idle jobs"));
    assert!(cluster.gpool(["events", &id]).ok().contains("its GPUs are released"));
    let other = cluster.sh(&["-g", "1"], "true");
    assert_eq!(cluster.until_ended(&other).run.exit_code, Some(0));
    std::fs::write(cluster.work().join("go"), "").unwrap();
    assert_eq!(cluster.until_ended(&id).run.exit_code, Some(0));
}

#[test]
fn a_policy_that_no_node_can_carry_out_is_noted() {
    let set = |cluster: &Cluster, words: &[&str]| {
        let ran = cluster.gpool([&["policy", "set"], words].concat());
        let said = ran.err.clone();
        ran.ok();
        said
    };
    let cluster = Cluster::new("sim:1xH100-80G");
    assert_eq!(set(&cluster, &["idle=warn"]), "");
    let only = "only jobs with --yields release theirs";
    for words in [&["idle=release", "--dry-run"][..], &["idle=release"]] {
        let said = set(&cluster, words);
        assert!(said.contains(only) && said.contains("have no driver that programs"), "{said}");
    }
    set(&cluster, &["idle=report"]);
    // Only the nodes of the pool count.
    assert!(set(&cluster, &["pool.default.idle=release"]).contains(only));
    let said = set(&cluster, &["pool.default.idle=report", "pool.batch.idle=release"]);
    assert!(said.contains("no node is in pool batch yet") && !said.contains(only), "{said}");
    let notes = |driver: &str| {
        let rig = Rig::new(driver)?;
        assert_eq!(rig.cluster.client().policy().unwrap().notes, [""; 0]);
        Some(set(&rig.cluster, &["idle=release"]))
    };
    let Some(old) = notes("565.57.01") else { return };
    assert!(old.contains("its GPU driver can't pause jobs") && old.contains(only), "{old}");
    assert_eq!(notes("580.95.05").unwrap(), "");
}

#[test]
fn the_owner_of_an_idle_job_gets_a_message_as_its_pool_says() {
    let cluster = Cluster::new("sim:1xH100-80G");
    cluster.gpool(["policy", "set", "idle=cancel", "pool.default.idle=warn"]).ok();
    let endpoint = Endpoint::new(|_| Some(204));
    let rule = format!("idle,cancel@{}", endpoint.url);
    let id = idle_notebook(&cluster, &["--kind", "train", "--notify", &rule]);
    let message = endpoint.until_got(1).remove(0).json();
    assert_eq!(
        (&message["type"], &message["data"]["id"]),
        (&"job.idle".into(), &id.clone().into())
    );
    cluster.until_is(&id, "running");
    let shown = cluster.client().policy().unwrap().settings;
    assert_eq!(shown["pool.default.idle"], "warn");
}
