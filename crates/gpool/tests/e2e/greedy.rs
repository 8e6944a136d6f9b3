//! Attempts of one user to take the server from other users or from its admins. The server must run
//! as root.

use crate::harness::{Cluster, until_so};
use crate::users::{NOBODY, SOMEBODY, as_nobody, as_user, cluster};

/// Submits as a user and returns the job's ID.
fn submit_as(cluster: &Cluster, uid: u32, words: &[&str]) -> String {
    let words = [&["submit", "--quiet"], words].concat();
    let ran = as_user(cluster, uid, &words);
    assert_eq!(ran.code, 0, "{ran:?}");
    ran.out.trim().to_owned()
}

#[test]
fn an_owner_does_not_start_a_job_that_an_admin_paused() {
    let Some(cluster) = cluster() else { return };
    let id = submit_as(&cluster, NOBODY, &["--gpus", "1", "--", "sleep", "1000"]);
    cluster.until_is(&id, "running");
    cluster.gpool(["pause", &id]).ok();
    cluster.until_is(&id, "paused");
    for words in
        [&["requeue", &id][..], &["requeue", "--hold", &id], &["resume", &id], &["release", &id]]
    {
        as_nobody(&cluster, words).refused(5, &["GP0511", "held by admin root"]);
    }
    let shown = as_nobody(&cluster, &["show", &id, "--json"]).json();
    assert_eq!(shown["items"][0]["wait"]["held_by"], "admin", "{shown}");
    assert_eq!(shown["items"][0]["wait"]["held_by_admin"], "root", "{shown}");
    let why = as_nobody(&cluster, &["why", &id]);
    assert!(why.out.contains("held by admin root; only an admin can"), "{why:?}");
    assert_eq!(cluster.job(&id).state.as_str(), "paused");
    // The admin resumes it; after that, the owner may act on it again.
    cluster.gpool(["resume", &id]).ok();
    cluster.until_is(&id, "running");
    assert_eq!(as_nobody(&cluster, &["cancel", &id]).code, 0);
}

#[test]
fn an_owner_does_not_start_a_job_that_an_admin_requeued_with_a_hold() {
    let Some(cluster) = cluster() else { return };
    let id = submit_as(&cluster, NOBODY, &["--gpus", "1", "--", "sleep", "1000"]);
    let array = submit_as(&cluster, NOBODY, &["--array", "0-1", "--", "sleep", "1000"]);
    cluster.until_is(&id, "running");
    let element = format!("{array}.0");
    cluster.until_is(&element, "running");
    cluster.gpool(["requeue", "--hold", &id, &element]).ok();
    cluster.until_is(&id, "held");
    cluster.until_is(&element, "held");
    for id in [&id, &element] {
        as_nobody(&cluster, &["release", id]).refused(5, &["GP0511"]);
    }
    let queue = as_nobody(&cluster, &["queue"]);
    assert!(queue.out.contains("held by admin root"), "{queue:?}");
    let why = as_nobody(&cluster, &["why", &id]);
    assert!(why.out.contains("held by admin root; only an admin can release it"), "{why:?}");
    assert_eq!(as_nobody(&cluster, &["cancel", &id]).code, 0, "the owner may cancel it");
    cluster.gpool(["release", &element]).ok();
    cluster.until_is(&element, "running");
}

/// A server of root with this number of task slots on its node.
fn with_slots(slots: u32) -> Option<Cluster> {
    let mut cluster = cluster()?;
    cluster.down(&["--now"]);
    let config = cluster.path("gpool.toml");
    std::fs::write(&config, format!("node_tasks_max = {slots}\n")).unwrap();
    cluster.variables.push(("GPOOL_CONFIG".to_owned(), config.to_str().unwrap().to_owned()));
    cluster.up();
    Some(cluster)
}

fn n_running(cluster: &Cluster, array: &str) -> u64 {
    cluster.job(array).array.unwrap().n_in(&[gpool_model::job::JobState::Running])
}

#[test]
fn one_user_fills_neither_the_node_nor_the_slots_of_jobs_with_gpus() {
    // Five slots are reserved for jobs with GPUs, and one user may have 32.
    let Some(cluster) = with_slots(40) else { return };
    let array = submit_as(&cluster, NOBODY, &["--array", "0-99", "--", "sleep", "1000"]);
    until_so("the user has reached the limit", || n_running(&cluster, &array) == 32);
    let why = as_nobody(&cluster, &["why", &array]);
    assert!(
        why.out.contains("You have 32 of 40 task slots, and the limit for one user is 32"),
        "{why:?}"
    );
    assert!(why.out.lines().count() < 40, "{why:?}");
    // Another user gets the remaining slots for jobs without GPUs, and root runs beside both with
    // GPUs.
    let other = submit_as(&cluster, SOMEBODY, &["--array", "0-99", "--", "sleep", "1000"]);
    until_so("another user has the rest", || n_running(&cluster, &other) == 3);
    let why = as_user(&cluster, SOMEBODY, &["why", &other]);
    let words = "Jobs without GPUs use 35 of 40 task slots of lab1; the other 5 are for jobs";
    assert!(why.out.contains(words), "{why:?}");
    let first = cluster.submit(["--gpus", "1", "--", "sleep", "1000"]);
    let second = submit_as(&cluster, SOMEBODY, &["--gpus", "1", "--", "sleep", "1000"]);
    cluster.until_is(&first, "running");
    cluster.until_is(&second, "running");
    assert_eq!((n_running(&cluster, &array), n_running(&cluster, &other)), (32, 3));
}

#[test]
fn a_borrower_is_evicted_in_the_time_that_the_cluster_allows() {
    let Some(cluster) = cluster() else { return };
    cluster.gpool(["project", "create", "red", "--gpus", "2"]).ok();
    cluster.gpool(["project", "create", "blue", "--gpus", "0"]).ok();
    let line = "trap '' USR1 TERM; while :; do sleep 1; done";
    let words = ["submit", "--project", "blue", "--gpus", "2", "--checkpointable=USR1@24h"];
    let words = [&words[..], &["--grace", "1h", "--", "sh", "-c", line]].concat();
    let ran = as_user(&cluster, SOMEBODY, &words);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.err.contains("gets 10m"), "the cap, and whose it is: {ran:?}");
    assert!(ran.err.contains("save_time_max of project blue or of the policy"), "{ran:?}");
    let borrower = ran.out.trim().to_owned();
    cluster.until_is(&borrower, "running");
    cluster.gpool(["policy", "set", "save_time_max=1m"]).ok();
    let owner = ["--project", "red", "--gpus", "2", "--", "sleep", "1000"];
    let owner = submit_as(&cluster, NOBODY, &owner);
    cluster.until_is(&borrower, "stopping");
    let why = as_nobody(&cluster, &["why", &owner]);
    let words = format!("job {borrower} of 65533 (project blue) has released GPUs 0,1 of lab1");
    let page = why.out.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(page.contains(&words), "{page}");
    let why = as_nobody(&cluster, &["why", &owner, "--json"]).json();
    let until = why.to_string();
    assert!(until.contains("preemption_grace"), "{until}");
    let quota = as_nobody(&cluster, &["quota"]);
    let words =
        format!("job {borrower} of 65533 (blue) returns GPUs lab1:0,1 to job {owner} of red, at ");
    assert!(quota.out.contains(&words), "{quota:?}");
}
