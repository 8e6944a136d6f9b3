//! Jobs that share GPUs: booked within the memory, packed, and monitored.

use crate::harness::{Cluster, until_so};
use crate::notify::Endpoint;

#[test]
fn shares_are_packed_and_whole_devices_stay_free() {
    let cluster = Cluster::new("sim:2xH100-80G");
    let first = cluster.sh(&["--gpus", "0.5"], "sleep 1000");
    let second = cluster.sh(&["--shared", "--gpu-memory", "40G"], "sleep 1000");
    let whole = cluster.sh(&["--gpus", "1"], "sleep 1000");
    for (id, device) in [(&first, 0), (&second, 0), (&whole, 1)] {
        cluster.until_is(id, "running");
        assert_eq!(cluster.devices_of(id), [device], "job {id}");
    }
    assert_eq!(cluster.job(&second).request.gpus_text(), "1@40G");
    let gpu = cluster.gpu(0);
    let shares: Vec<_> = gpu.shares.iter().map(|it| (it.job.as_str(), it.part)).collect();
    assert_eq!(shares, [(first.as_str(), 0.5), (second.as_str(), 0.5)]);
    assert_eq!(gpu.memory_for_shares, 0);
    let table = cluster.gpool(["gpus"]).ok();
    assert!(table.contains(&format!("{first} (0.5), {second} (0.5)  you ")), "{table}");
    // All shares are booked, even if no process uses the devices.
    let third = cluster.sh(&["--gpus", "0.25"], "true");
    let why = cluster.gpool(["why", &third, "--json"]).json();
    assert_eq!(why["items"][0]["reasons"][0]["code"], "gpu_share_not_free", "{why}");
    cluster.gpool(["cancel", &first]).ok();
    let ended = cluster.until_ended(&third);
    assert_eq!((ended.run.exit_code, &ended.placement[0].devices[..]), (Some(0), &[0][..]));
}

#[test]
fn a_share_takes_the_part_of_its_victim_beside_another_job() {
    let cluster = Cluster::new("sim:1xH100-80G");
    let stays = cluster.sh(&["--gpus", "0.5"], "sleep 1000");
    cluster.until_is(&stays, "running");
    let leave = cluster.work().join("leave");
    let until_told = format!("trap '' TERM; until [ -e {} ]; do sleep 0.01; done", leave.display());
    let victim = cluster.sh(&["-g", "0.5", "--preemptible", "--grace", "5m"], &until_told);
    cluster.until_is(&victim, "running");
    let winner = cluster.sh(&["-g", "0.5", "--priority", "10"], "sleep 1000");
    cluster.until_is(&winner, "starting");
    let why = cluster.why(&winner);
    let awaits = |id: &str| why.contains(&format!("when your job {id} ("));
    assert!(awaits(&victim) && !awaits(&stays), "{why}");
    std::fs::write(&leave, "").unwrap();
    cluster.until_is(&winner, "running");
    cluster.until_is(&victim, "pending");
    cluster.until_is(&stays, "running");
    let gpu = cluster.gpu(0);
    let shares: Vec<_> = gpu.shares.iter().map(|it| it.job.as_str()).collect();
    assert_eq!(shares, [stays.as_str(), winner.as_str()]);
}

#[test]
fn a_share_shows_whether_its_node_can_move_it() {
    let cluster = Cluster::new("sim:2xH100-80G");
    let id = cluster.sh(&["--gpus", "0.5"], "sleep 1000");
    cluster.until_is(&id, "running");
    let share = cluster.gpu(0).shares.remove(0);
    assert_eq!((share.can_move, share.stays_why), (true, None));
    let page = cluster.gpool(["gpus", "0"]).ok();
    assert!(page.contains("; can move"), "{page}");
    let whole = cluster.sh(&["--gpus", "1"], "sleep 1000");
    cluster.until_is(&whole, "running");
    let share = cluster.gpu(0).shares.remove(0);
    assert!(!share.can_move);
    let why = share.stays_why.expect("it can't move");
    assert_eq!(why, "no other GPU of its model on the node has room");
    let page = cluster.gpool(["gpus", "0"]).ok();
    assert!(page.contains(&format!("; can't move: {why}")), "{page}");
}

#[test]
fn a_job_gets_the_size_of_its_share() {
    let cluster = Cluster::new("sim:2xH100-80G");
    let id = cluster.sh(
        &["--gpus", "2", "--gpu-share", "0.25"],
        "echo $GPOOL_GPUS $GPOOL_GPU_MEM $CUDA_VISIBLE_DEVICES | tr , ' ' | wc -w; \
         echo $GPOOL_GPU_MEM",
    );
    cluster.until_ended(&id);
    assert_eq!(cluster.stdout_of(&id), format!("4\n{}\n", 20_u64 << 30));
}

#[test]
fn a_limit_is_known_to_the_job_and_books_nothing() {
    let cluster = Cluster::new("sim:1xH100-80G");
    let id = cluster
        .sh(&["--gpus", "0.25:0.8"], "echo $GPOOL_GPU_MEM $GPOOL_GPU_MEM_LIMIT; exec sleep 1000");
    until_so("it has printed", || cluster.stdout_of(&id).ends_with('\n'));
    assert_eq!(cluster.stdout_of(&id), format!("{} {}\n", 20_u64 << 30, 64_u64 << 30));
    assert_eq!(cluster.job(&id).request.gpus_text(), "0.25:0.8");
    let gpu = cluster.gpu(0);
    let share = &gpu.shares[0];
    assert_eq!((share.part, share.memory, share.memory_limit), (0.25, 20 << 30, 64 << 30));
    assert_eq!(gpu.memory_for_shares, 60 << 30);
    let page = cluster.gpool(["gpus", "0"]).ok();
    assert!(page.contains("20 GiB (limit 64 GiB)"), "{page}");
    let other = cluster.sh(&["--gpu-memory", "60G:80G"], "true");
    assert_eq!(cluster.until_ended(&other).run.exit_code, Some(0));
}

#[test]
fn a_script_requests_a_limit_and_several_devices_have_their_own() {
    let cluster = Cluster::new("sim:3xH100-80G");
    let submit = |name: &str, gpus: &str| {
        let line = "echo $GPOOL_GPUS $GPOOL_GPU_MEM $GPOOL_GPU_MEM_LIMIT; exec sleep 1000";
        let script = format!("#!/bin/sh\n# GPOOL --gpus {gpus}\n{line}\n");
        std::fs::write(cluster.work().join(name), script).unwrap();
        let id = cluster.submit([name]);
        until_so("it has printed", || cluster.stdout_of(&id).ends_with('\n'));
        assert_eq!(cluster.job(&id).request.gpus_text(), gpus);
        id
    };
    let pair = submit("pair.sh", "2@0.5:0.8");
    let gib = |n: u64| n << 30;
    assert_eq!(cluster.stdout_of(&pair), format!("2 {} {}\n", gib(40), gib(64)));
    let small = submit("small.sh", "0.25:0.8");
    let gpus = [0, 1, 2].map(|ix| cluster.gpu(ix));
    let shares = gpus.iter().flat_map(|gpu| &gpu.shares);
    let of = |id: &str| -> Vec<_> {
        let own = shares.clone().filter(|it| it.job == id);
        own.map(|it| (it.part, it.memory, it.memory_limit)).collect()
    };
    assert_eq!(of(&pair), [(0.5, gib(40), gib(64)), (0.5, gib(40), gib(64))]);
    assert_eq!(of(&small), [(0.25, gib(20), gib(64))]);
}

#[test]
fn a_job_within_its_limit_is_not_over() {
    let cluster = Cluster::new("sim:1xH100-80G");
    let id = cluster.sh(&["--gpu-memory", "20G:40G"], "echo $$; exec sleep 1000");
    until_so("it has written its process ID", || cluster.stdout_of(&id).ends_with('\n'));
    let pid = cluster.stdout_of(&id);
    let use_memory = |size: &str| {
        cluster.gpool(["sim", "add-process", "0", "--pid", pid.trim(), "--memory", size]).ok();
    };
    use_memory("39G");
    until_so("it was sampled", || cluster.gpu(0).memory_used == Some(39 << 30));
    let share = cluster.gpu(0).shares.swap_remove(0);
    assert_eq!((&*share.enforcement, share.memory_over), ("monitored", None));
    cluster.gpool(["sim", "remove-process", "0", "--pid", pid.trim()]).ok();
    use_memory("41G");
    until_so("it is over", || cluster.gpu(0).shares[0].memory_over == Some(41 << 30));
}

#[test]
fn the_policy_decides_about_jobs_above_their_limit() {
    let cluster = Cluster::new("sim:1xH100-80G");
    let endpoint = Endpoint::new(|_| Some(204));
    let rule = format!("over_limit@{}", endpoint.url);
    // The process of this job uses more than its 20 GiB.
    let over = |flags: &[&str]| {
        let flags = [&["--gpu-memory", "20G", "--notify", &rule], flags].concat();
        let id = cluster.sh(&flags, "echo $$; exec sleep 1000");
        until_so("it has written its process ID", || cluster.stdout_of(&id).ends_with('\n'));
        let pid = cluster.stdout_of(&id).trim().to_owned();
        cluster.gpool(["sim", "add-process", "0", "--pid", &pid, "--memory", "41G"]).ok();
        (id, pid)
    };
    // A process of a job that has ended would keep others from the device.
    let remove = |pid: &str| cluster.gpool(["sim", "remove-process", "0", "--pid", pid]).ok();
    let events = |id: &str| cluster.gpool(["events", id]).ok();
    let words = "uses 41 GiB of lab1:0, its limit is 20 GiB";
    let (reported, _) = over(&[]);
    until_so("it is reported", || events(&reported).contains(words));
    cluster.gpool(["policy", "set", "pool.default.over_limit=warn"]).ok();
    let (warned, _) = over(&[]);
    let message = endpoint.until_got(1).remove(0).json();
    assert_eq!(
        (&message["type"], &message["data"]["id"]),
        (&"job.over_limit".into(), &warned.clone().into())
    );
    let memory = ["gpu_memory_used", "gpu_memory_limit"].map(|name| message["data"][name].as_u64());
    assert_eq!(memory, [Some(41 << 30), Some(20 << 30)]);
    until_so("it is reported", || events(&warned).contains(&format!("{words}; its owner")));
    for id in [&reported, &warned] {
        assert_eq!(cluster.until_is(id, "running").run.attempt, 1);
    }
    cluster.gpool(["policy", "set", "pool.default.over_limit=cancel"]).ok();
    let (cancelled, pid) = over(&["--kind", "notebook"]);
    let cancelled = cluster.until_ended(&cancelled);
    remove(&pid);
    assert_eq!(cancelled.state.as_str(), "cancelled");
    assert!(cancelled.run.cause_text.unwrap().contains("above their GPU memory limit"));
    cluster.gpool(["policy", "set", "pool.default.over_limit=requeue"]).ok();
    let (again, pid) = over(&[]);
    until_so("it is reported", || events(&again).contains("; it is requeued"));
    remove(&pid);
    until_so("it runs again", || cluster.job(&again).run.attempt == 2);
}

#[test]
fn a_job_that_uses_more_than_its_share_is_shown() {
    let cluster = Cluster::new("sim:1xH100-80G");
    let id = cluster.sh(&["--gpu-memory", "20G"], "echo $$; exec sleep 1000");
    cluster.until_is(&id, "running");
    until_so("it has written its process ID", || cluster.stdout_of(&id).ends_with('\n'));
    let pid = cluster.stdout_of(&id);
    let pid = pid.trim();
    let use_memory = |size: &str| {
        cluster.gpool(["sim", "add-process", "0", "--pid", pid, "--memory", size]).ok();
    };
    use_memory("19G");
    until_so("it was sampled", || cluster.gpu(0).memory_used == Some(19 << 30));
    let share = cluster.gpu(0).shares.swap_remove(0);
    assert_eq!((&*share.enforcement, share.memory_over), ("monitored", None));
    cluster.gpool(["sim", "remove-process", "0", "--pid", pid]).ok();
    use_memory("30G");
    until_so("it is over", || cluster.gpu(0).shares[0].memory_over == Some(30 << 30));
    let table = cluster.gpool(["gpus"]).ok();
    assert!(
        table.contains(&format!("job {id} uses 30 GiB of GPU 0, its limit is 20 GiB")),
        "{table}"
    );
    let page = cluster.gpool(["gpus", "0"]).ok();
    assert!(page.contains("monitored") && page.contains("more than its limit"), "{page}");
    // Other jobs can still use the rest.
    let other = cluster.sh(&["--gpu-memory", "60G"], "true");
    assert_eq!(cluster.until_ended(&other).run.exit_code, Some(0));
}

#[test]
fn a_share_survives_a_restart_and_is_still_monitored() {
    let mut cluster = Cluster::new("sim:1xH100-80G");
    let id = cluster.sh(&["--gpu-memory", "20G"], "echo $$; exec sleep 1000");
    cluster.until_is(&id, "running");
    until_so("it has written its process ID", || cluster.stdout_of(&id).ends_with('\n'));
    let pid = cluster.stdout_of(&id);
    cluster.kill();
    cluster.up();
    cluster.until_is(&id, "running");
    cluster.gpool(["sim", "add-process", "0", "--pid", pid.trim(), "--memory", "21G"]).ok();
    until_so("it is over", || cluster.gpu(0).shares[0].memory_over == Some(21 << 30));
    assert!(cluster.gpu(0).unmanaged.is_empty() && cluster.gpu(0).strays.is_empty());
}

#[test]
fn a_gpu_is_shared_only_with_the_jobs_that_its_jobs_accept() {
    let cluster = Cluster::new("sim:2xH100-80G");
    for project in ["vision", "audio", "text", "other"] {
        cluster.gpool(["project", "create", project, "--gpus", "0.5"]).ok();
    }
    let job = |project: &str, flags: &[&str]| {
        let flags = [&["--gpus", "0.25", "--project", project], flags].concat();
        cluster.sh(&flags, "exec sleep 1000")
    };
    let vision = job("vision", &["--share-with", "project"]);
    cluster.until_is(&vision, "running");
    assert_eq!(cluster.job(&vision).request.share_with.as_deref(), Some("project"));
    let [audio, more] = [job("audio", &[]), job("vision", &[])];
    for (id, device) in [(&vision, 0), (&audio, 1), (&more, 0)] {
        cluster.until_is(id, "running");
        assert_eq!(cluster.devices_of(id), [device], "job {id}");
    }
    let alone = job("audio", &["--share-with", "user"]);
    cluster.until_is(&alone, "running");
    assert_eq!(cluster.devices_of(&alone), [1], "it is of the same user");
    let text = job("text", &["--share-with", "project"]);
    let why = cluster.gpool(["why", &text, "--json"]).json();
    assert_eq!(why["items"][0]["reasons"][0]["code"], "share_not_allowed", "{why}");
    let page = cluster.gpool(["why", &text]).ok();
    assert!(page.contains("shares its GPU only with jobs of one project"), "{page}");
    // Its own rule can change while it waits.
    cluster.gpool(["edit", &text, "--share-with", "anyone"]).ok();
    cluster.until_is(&text, "running");
    assert_eq!(cluster.devices_of(&text), [1]);
    cluster.gpool(["policy", "set", "share_with=project"]).ok();
    let other = job("other", &[]);
    let why = cluster.gpool(["why", &other, "--json"]).json();
    assert_eq!(why["items"][0]["reasons"][0]["with"], "project", "{why}");
    let wrong = cluster.gpool(["submit", "--gpus", "0.5", "--share-with", "me", "true"]);
    wrong.refused(2, &["user, project, anyone"]);
}
