//! What one user tries to take a server from the others, or from its admins. The server must be
//! root's.

use crate::harness::Cluster;
use crate::users::{NOBODY, as_nobody, as_user, cluster};

/// Submits as a user and gives the job's ID.
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
    assert_eq!(shown["items"][0]["held_by"], "admin", "{shown}");
    assert_eq!(shown["items"][0]["held_by_admin"], "root", "{shown}");
    let why = as_nobody(&cluster, &["why", &id]);
    assert!(why.out.contains("held by admin root; only an admin can resume it"), "{why:?}");
    assert_eq!(cluster.job(&id).state.as_str(), "paused");
    // The admin's word counts, and after it the owner's again.
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
    assert_eq!(as_nobody(&cluster, &["cancel", &id]).code, 0, "an owner may end it");
    cluster.gpool(["release", &element]).ok();
    cluster.until_is(&element, "running");
}
