//! Shares that may grow are spread over free GPUs, and move together when a job needs one of them.

use crate::harness::{Cluster, until_so};

/// The devices that a job uses, and those that it booked, if they differ.
pub fn places(cluster: &Cluster, id: &str) -> (Vec<u32>, Option<Vec<u32>>) {
    let placed = cluster.job(id).placement.swap_remove(0);
    (placed.devices, placed.booked)
}

/// Starts two notebooks that share a GPU in the books.
pub fn notebooks(cluster: &Cluster) -> [String; 2] {
    let notebooks = [(), ()].map(|()| {
        let id = cluster.sh(&["--gpus", "0.5:1"], "echo $CUDA_VISIBLE_DEVICES; exec sleep 1000");
        cluster.until_is(&id, "running");
        id
    });
    until_so("the second one is spread", || places(cluster, &notebooks[1]).1.is_some());
    notebooks
}

#[test]
fn two_notebooks_burst_until_a_job_needs_a_gpu() {
    let cluster = Cluster::new("sim:2xH100-80G");
    let [first, second] = notebooks(&cluster);
    assert_eq!(places(&cluster, &first), (vec![0], None));
    assert_eq!(places(&cluster, &second), (vec![1], Some(vec![0])));
    let [uuid, other] = [cluster.gpu(1).uuid, cluster.gpu(0).uuid];
    until_so("it has started", || cluster.stdout_of(&second).ends_with('\n'));
    assert_eq!(cluster.stdout_of(&second).trim(), uuid);
    // The books show a free GPU.
    assert_eq!(cluster.gpu_state(1), "free");
    assert_eq!(cluster.gpu(1).guests[0].job, second);
    assert_eq!(cluster.gpu(0).shares[1].used, Some(1));
    let table = cluster.gpool(["gpus"]).ok();
    assert!(table.contains(&format!("{second} (guest)")), "{table}");
    let page = cluster.gpool(["gpus", "1"]).ok();
    assert!(page.contains(&format!("job {second}, which booked GPU 0")), "{page}");
    let page = cluster.gpool(["show", &second]).ok();
    assert!(page.contains("booked GPU 0"), "{page}");

    let whole = cluster.sh(&["--gpus", "1"], "echo $CUDA_VISIBLE_DEVICES; exec sleep 1000");
    cluster.until_is(&whole, "running");
    until_so("it has started", || cluster.stdout_of(&whole).ends_with('\n'));
    assert_eq!(cluster.stdout_of(&whole).trim(), uuid);
    until_so("the notebook has moved", || places(&cluster, &second) == (vec![0], None));
    assert_eq!(cluster.job(&second).placement[0].uuids, [other]);
    assert!(cluster.gpu(1).guests.is_empty());
    let why = cluster.gpool(["why", &second]).ok();
    assert!(why.contains(&format!("job {second} moved from GPU 1 to GPU 0 in ")), "{why}");
    assert!(why.contains(&format!("to make room for job {whole}")), "{why}");
    let events = cluster.gpool(["events", &whole]).ok();
    assert!(events.contains(&format!("gets room: job {second} moved from GPU 1 to GPU 0")));
    let all = cluster.gpool(["events", &second, "-o", "jsonl"]).ok();
    let moved = all.lines().find(|line| line.contains(r#""type":"moved""#)).expect("it moved");
    for fact in [r#""from":[1]"#, r#""to":[0]"#, &format!(r#""beneficiary":"{whole}""#)] {
        assert!(moved.contains(fact), "{moved}");
    }
    assert!(cluster.client().metrics().unwrap().contains("gpool_jobs_moved_total 1"));
    for id in [&first, &second] {
        assert_eq!(cluster.job(id).run.attempt, 1, "it was not restarted");
    }
}

#[test]
fn jobs_of_one_gpu_leave_a_guest_alone_while_other_gpus_are_free() {
    let cluster = Cluster::new("sim:4xH100-80G");
    let [_, second] = notebooks(&cluster);
    let is_guest = || places(&cluster, &second) == (vec![1], Some(vec![0]));
    until_so("the server knows the guest", || cluster.gpu(1).guests.len() == 1);
    for gpu in [2, 3] {
        let whole = cluster.sh(&["--gpus", "1"], "exec sleep 1000");
        cluster.until_is(&whole, "running");
        assert_eq!(places(&cluster, &whole).0, [gpu]);
        assert!(is_guest());
    }
    assert!(cluster.client().metrics().unwrap().contains("gpool_jobs_moved_total 0"));
    let last = cluster.sh(&["--gpus", "1"], "exec sleep 1000");
    cluster.until_is(&last, "running");
    assert_eq!(places(&cluster, &last).0, [1]);
    until_so("the guest has moved", || places(&cluster, &second) == (vec![0], None));
}

#[test]
fn guests_are_found_again_after_a_crash() {
    let mut cluster = Cluster::new("sim:2xH100-80G");
    let [_, second] = notebooks(&cluster);
    cluster.kill();
    cluster.up();
    until_so("it is a guest again", || places(&cluster, &second).1 == Some(vec![0]));
    let whole = cluster.sh(&["--gpus", "1"], "exec sleep 1000");
    cluster.until_is(&whole, "running");
    until_so("the notebook has moved", || places(&cluster, &second) == (vec![0], None));
}

#[test]
fn guests_leave_a_gpu_that_is_drained() {
    let cluster = Cluster::new("sim:2xH100-80G");
    let [_, second] = notebooks(&cluster);
    let node = cluster.gpu(1).node;
    let stream = cluster.start(["events"]);
    // It shows events from its connection on.
    until_so("the stream is open", || {
        cluster.sh(&[], "true");
        stream.has_said("job ")
    });
    cluster.gpool(["drain", &format!("{node}:1"), "--reason", "fan"]).ok();
    until_so("it has left", || places(&cluster, &second) == (vec![0], None));
    let why = "because GPU 1 is drained or reserved";
    until_so("it is explained", || cluster.gpool(["why", &second]).ok().contains(why));
    stream.until_says(&format!("job {second} moved from {node}:1 to {node}:0"));
}
