//! Actions on jobs: cancel, signal, edit, time limits.

use gpool_wire::{JobCreate, JobPatch};

use crate::harness::{Cluster, Ran, until_so};

/// A shell script that starts children which ignore SIGTERM, one of them in its own session, and
/// that writes a line when each has started.
const STUBBORN: &str = r#"
trap '' TERM
setsid sh -c "trap '' TERM; echo s; while :; do sleep 1000; done" &
sh -c "trap '' TERM; echo c; while :; do sleep 1000; done" &
echo p
while :; do sleep 1000; done"#;

fn until_all_there(cluster: &Cluster, id: &str) {
    until_so("all processes are there", || {
        cluster.until_is(id, "running");
        cluster.stdout_of(id).lines().count() == 3
    });
}

/// The number of processes that have the job's ID in their environment.
fn processes_of_job(cluster: &Cluster, id: &str) -> usize {
    let wanted = format!("GPOOL_JOB_ID={id}");
    let is_of_job = |pid: &&u32| {
        let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|entry| entry == wanted.as_bytes())
    };
    cluster.processes().iter().filter(is_of_job).count()
}

#[test]
fn cancel_ends_a_tree_that_ignores_it() {
    let cluster = Cluster::new("sim:1xH100-80G");
    let id = cluster.sh(&["--gpus", "1", "--grace", "1s"], STUBBORN);
    until_all_there(&cluster, &id);
    assert!(processes_of_job(&cluster, &id) >= 3);
    let out = cluster.gpool(["cancel", &id]).ok();
    assert!(out.contains(&format!("job {id} stopping")), "{out}");
    let job = cluster.until_ended(&id);
    assert_eq!((job.state.as_str(), job.run.exit_code), ("cancelled", Some(137)));
    assert_eq!(processes_of_job(&cluster, &id), 0);
    cluster.gpool(["cancel", &id]).refused(7, &["ended", &id]);
    // Its GPU is free again.
    assert_eq!(cluster.gpool(["run", "--gpus", "1", "--", "true"]).code, 0);
}

#[test]
fn a_time_limit_ends_the_whole_tree() {
    let cluster = Cluster::new("none");
    let id = cluster.sh(&["--time", "2s", "--grace", "1s"], STUBBORN);
    let job = cluster.until_ended(&id);
    assert_eq!(job.state.as_str(), "timed_out");
    assert_eq!(processes_of_job(&cluster, &id), 0);
}

#[test]
fn processes_that_a_job_leaves_end_with_it() {
    let cluster = Cluster::new("none");
    let id = cluster.sh(&[], "setsid sleep 1000 & sleep 1000 & exit 3");
    let job = cluster.until_ended(&id);
    assert_eq!(job.run.exit_code, Some(3));
    until_so("nothing is left", || processes_of_job(&cluster, &id) == 0);
}

#[test]
fn a_pending_job_is_cancelled_at_once() {
    let cluster = Cluster::new("sim:1xH100-80G");
    cluster.sh(&["--gpus", "1"], "sleep 1000");
    let id = cluster.sh(&["--gpus", "1"], "true");
    cluster.gpool(["cancel", &id]).ok();
    let job = cluster.job(&id);
    assert_eq!((job.state.as_str(), job.run.started_at), ("cancelled", None));
    // `all` cancels all of the user's jobs; if there are none, that is no failure.
    cluster.gpool(["cancel", "all"]).ok();
    cluster.until_ended("1");
    let ran = cluster.gpool(["cancel", "all"]);
    assert_eq!((ran.code, ran.out.as_str()), (0, ""), "{ran:?}");
}

#[test]
fn a_signal_reaches_the_job() {
    let cluster = Cluster::new("none");
    let line = "trap 'echo got; exit 6' USR1; echo ready; while :; do sleep 0.1; done";
    let id = cluster.sh(&[], line);
    until_so("it listens", || {
        cluster.until_is(&id, "running");
        cluster.stdout_of(&id) == "ready\n"
    });
    cluster.gpool(["signal", "USR1", &id]).ok();
    assert_eq!(cluster.until_ended(&id).run.exit_code, Some(6));
    assert_eq!(cluster.stdout_of(&id), "ready\ngot\n");
    cluster.gpool(["signal", "USR1", &id]).refused(7, &["ended"]);
    cluster.gpool(["signal", "BANG", &id]).refused(2, &["BANG"]);
}

#[test]
fn a_change_made_on_an_old_version_is_refused() {
    let cluster = Cluster::new("none");
    let id = cluster.submit(["--hold", "--", "true"]);
    cluster.gpool(["edit", &id, "--priority", "-3", "--note", "later"]).ok();
    let job = cluster.job(&id);
    assert_eq!((job.request.priority_number(), job.request.note.as_deref()), (-3, Some("later")));
    let patch = |note: &str| {
        JobPatch::from(JobCreate { note: Some(note.to_owned()), ..Default::default() })
    };
    let client = cluster.client();
    client.edit(&id, &patch("mine"), Some(job.version)).unwrap();
    let error = client.edit(&id, &patch("theirs"), Some(job.version)).unwrap_err().problem();
    assert_eq!((error.status, error.code.as_str()), (412, "GP0703"), "{error:?}");
    assert_eq!(cluster.job(&id).request.note.as_deref(), Some("mine"));
    cluster.gpool(["edit", &id]).refused(2, &["there is nothing to change"]);
}

#[test]
fn two_clients_that_cancel_and_edit_at_once_do_no_harm() {
    let cluster = Cluster::new("none");
    let ids: Vec<String> = (0..10).map(|_| cluster.submit(["--hold", "--", "true"])).collect();
    for id in &ids {
        let version = cluster.job(id).version;
        let (client, other) = (cluster.client(), cluster.client());
        let (one, two) = (id.clone(), id.clone());
        let cancels = std::thread::spawn(move || client.cancel(&[one]).is_ok());
        let edits = std::thread::spawn(move || {
            let patch = JobPatch::from(JobCreate { priority: Some(-1), ..Default::default() });
            other.edit(&two, &patch, Some(version)).map_err(|error| error.problem().status)
        });
        assert!(cancels.join().unwrap(), "job {id} can always be cancelled");
        match edits.join().unwrap() {
            Ok(_) => {}
            Err(status) => assert!([409, 412].contains(&status), "{status}"),
        }
        assert_eq!(cluster.job(id).state.as_str(), "cancelled");
    }
    // If many clients cancel one job, exactly one succeeds.
    let id = cluster.submit(["--hold", "--", "true"]);
    let cancel = |id: String, client: gpool_client::Client| {
        std::thread::spawn(move || client.cancel(&[id]).is_ok())
    };
    let all: Vec<_> = (0..8).map(|_| cancel(id.clone(), cluster.client())).collect();
    let n_done = all.into_iter().map(|it| it.join().unwrap()).filter(|it| *it);
    assert_eq!(n_done.count(), 1);
}

#[test]
fn a_reference_names_jobs_in_many_ways() {
    let cluster = Cluster::new("none");
    for name in ["a", "b", "c"] {
        cluster.submit(["--hold", "-J", name, "--", "true"]);
    }
    let shown = |reference: &str| {
        let items = cluster.gpool(["show", reference, "--json"]).json()["items"].clone();
        let ids = items.as_array().unwrap().iter();
        ids.map(|item| item["id"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(shown("b"), ["2"]);
    assert_eq!(shown("@"), ["3"]);
    assert_eq!(shown("@~2"), ["1"]);
    assert_eq!(shown("2-3"), ["2", "3"]);
    assert_eq!(shown("3,1"), ["3", "1"]);
    cluster.submit(["--hold", "-J", "b", "--", "true"]);
    cluster.gpool(["cancel", "b"]).refused(2, &["2", "4"]);
}

/// Checks the result of a verb that fails for some jobs: standard output, and one error with a line
/// for each refused job.
#[track_caller]
fn in_part(ran: &Ran, code: i32, out: &str, words: &[&str]) {
    assert_eq!((ran.code, ran.out.as_str()), (code, out), "{ran:?}");
    assert_eq!(ran.err.matches("error:").count(), 1, "{ran:?}");
    for word in words {
        assert!(ran.err.contains(word), "{word:?} is not in {ran:?}");
    }
}

#[test]
fn a_refused_job_does_not_affect_the_others() {
    let cluster = Cluster::new("none");
    let ended = cluster.sh(&[], "true");
    cluster.until_ended(&ended);
    let ids: Vec<String> = (0..6).map(|_| cluster.submit(["--hold", "--", "true"])).collect();
    assert_eq!((ended.as_str(), ids[0].as_str()), ("1", "2"));
    let ran = cluster.gpool(["release", "2", "1", "--at", "now+9h"]);
    in_part(&ran, 7, "job 2 held\n", &["can't release 1 of 2 jobs", "job 1"]);
    let ran = cluster.gpool(["prio", "-7", "1", "2", "99", "no-such-name"]);
    in_part(&ran, 6, "", &["can't change 3 of 4 jobs", "job 1", "99", "no-such-name"]);
    assert_eq!(cluster.job("2").request.priority_number(), -7);
    // Other jobs in a range are skipped, which is no failure.
    let ran = cluster.gpool(["cancel", "3", "99", "4", "1-2", "name", "@~1"]);
    let out = "job 2 cancelled\njob 3 cancelled\njob 4 cancelled\njob 6 cancelled\n";
    in_part(&ran, 6, out, &["can't cancel 2 of 6 jobs", "99", "\"name\""]);
    let ran = cluster.gpool(["--json", "cancel", "5", "2", "1"]);
    assert_eq!((ran.code, ran.out.contains("\"5\"")), (7, true), "{ran:?}");
    let error: serde_json::Value = serde_json::from_str(&ran.err).unwrap();
    let refused = &error["error"]["refused"];
    assert_eq!(refused.as_array().map(Vec::len), Some(2), "{error}");
    assert_eq!(refused[0]["code"], "GP0701", "{error}");
    // As in Slurm, an ended job is no error.
    assert_eq!(cluster.gpool(["shim", "scancel", "7", "1"]).ok(), "");
    assert_eq!(cluster.job("7").state.as_str(), "cancelled");
    let ran = cluster.gpool(["wait", "1", "99"]);
    in_part(&ran, 6, "", &["can't wait for 1 of 2 jobs", "job 1 succeeded", "99"]);
    let ran = cluster.gpool(["show", "99", "1", "-o", "jsonl"]);
    assert_eq!((ran.code, ran.out.lines().count()), (6, 1), "{ran:?}");
    let ran = cluster.gpool(["retry", "99", "1"]);
    in_part(&ran, 6, "job 1 runs again as job 8\n", &["can't retry 1 of 2 jobs", "99"]);
}

#[test]
fn all_means_the_jobs_that_the_verb_applies_to() {
    let cluster = Cluster::new("sim:1xH100-80G");
    let runs = cluster.sh(&["--gpus", "1"], "sleep 1000");
    cluster.until_is(&runs, "running");
    let waits = cluster.sh(&["--gpus", "1"], "true");
    let ran = cluster.gpool(["hold", "all"]);
    assert_eq!((ran.code, ran.out), (0, format!("job {waits} held\n")));
    assert!(ran.err.contains("1 job passed over: 1 running"), "{}", ran.err);
    // A job that is named explicitly is not skipped.
    let held = format!("job {waits} held\n");
    in_part(&cluster.gpool(["hold", &runs, &waits]), 7, &held, &["hold", &runs]);
    in_part(&cluster.gpool(["hold", &runs, "1-2"]), 7, &held, &["hold", &runs]);
    let ran = cluster.gpool(["signal", "CONT", "1-2"]);
    assert_eq!((ran.code, ran.out), (0, format!("job {runs} was sent SIGCONT\n")));
    assert_eq!(cluster.gpool(["release", "all"]).ok(), format!("job {waits} pending\n"));
    cluster.gpool(["release", "all"]).refused(7, &["no job to release", "1 pending, 1 running"]);
}
