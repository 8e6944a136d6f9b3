//! A shepherd is killed where there are no control groups, while its job has a process that has
//! forked twice, has its own session, and has cleared its environment.

use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

use gpool_stub_nvml::Process;

use crate::harness::{Cluster, is_root, kill_9, skip, until, until_so};
use crate::nvml;
use crate::users::{as_nobody, unstarted};

/// Whether this process can remove control groups for others.
fn can_ungroup() -> bool {
    let words = ["--mount", "umount", "--all", "--types", "cgroup2"];
    let can =
        is_root() && Command::new("unshare").args(words).status().is_ok_and(|it| it.success());
    if !can {
        skip("only root can remove control groups");
    }
    can
}

/// A folder of the cluster that every user can write to.
fn open_folder(cluster: &Cluster) -> std::path::PathBuf {
    let folder = cluster.path("open");
    std::fs::create_dir(&folder).unwrap();
    std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o777)).unwrap();
    folder
}

fn escape(file: &std::path::Path) -> String {
    format!(
        "(setsid env -i /bin/sh -c 'trap \"\" TERM HUP; echo $$ > {}; while :; do /bin/sleep 1; \
         done' > /dev/null 2>&1 &); exec sleep 1000",
        file.display()
    )
}

fn pid_in(file: &std::path::Path) -> u32 {
    until("the process has escaped", || {
        std::fs::read_to_string(file).ok()?.strip_suffix('\n')?.parse::<u32>().ok()
    })
}

fn lives(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z'))
}

fn parent(pid: u32) -> u32 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    stat.rsplit_once(") ").unwrap().1.split(' ').nth(1).unwrap().parse().unwrap()
}

#[test]
fn an_escaped_process_is_ended_with_its_shepherd() {
    if !can_ungroup() {
        return;
    }
    let mut cluster = unstarted();
    cluster.is_without_groups = true;
    cluster.up();
    let folder = open_folder(&cluster);
    for n_restarts in 0..2 {
        let file = folder.join(format!("pid-{n_restarts}"));
        let words = ["submit", "--gpus", "2", "--", "sh", "-c", &escape(&file)];
        let id = as_nobody(&cluster, &words).ok().trim().to_owned();
        cluster.until_is(&id, "running");
        let escaped = pid_in(&file);
        let shepherd = cluster.shepherd(&id);
        until_so("it is its shepherd's child", || parent(escaped) == shepherd);
        if n_restarts == 1 {
            cluster.kill();
            cluster.up();
        }
        kill_9(shepherd);
        let job = cluster.until_ended(&id);
        assert!(!lives(escaped), "lost, and a process of it lives: {job:?}");
        assert_eq!((job.state.as_str(), job.run.cause.as_deref()), ("lost", Some("shepherd_lost")));
        let text = job.run.cause_text.unwrap();
        assert!(text.ends_with("gpool ended its processes"), "after {n_restarts} restarts: {text}");
        // Its GPUs are shown as free, and can be used.
        assert_eq!(cluster.gpool(["run", "--gpus", "2", "--", "sh", "-c", "exit 3"]).code, 3);
    }
}

#[test]
fn each_lost_job_names_its_shepherd_and_the_signal_also_an_array() {
    let cluster = Cluster::new("none");
    let single = cluster.sh(&[], "sleep 1000");
    let array = cluster.submit(["--array", "0-1", "--", "sleep", "1000"]);
    let [first, second] = [0, 1].map(|index| format!("{array}.{index}"));
    for id in [&single, &first, &second] {
        cluster.until_is(id, "running");
    }
    let says = |id: &str, shepherd: u32| {
        let job = cluster.until_ended(id);
        assert_eq!((job.state.as_str(), job.run.cause.as_deref()), ("lost", Some("shepherd_lost")));
        let text = job.run.cause_text.unwrap();
        let words = format!("was killed (process {shepherd}, signal 9 KILL)");
        assert!(text.contains(&words), "{id}: {text}");
    };
    for id in [&single, &first] {
        let shepherd = cluster.shepherd(id);
        kill_9(shepherd);
        says(id, shepherd);
        if *id == first {
            cluster.gpool(["cancel", &second]).ok();
            says(&array, shepherd);
        }
    }
}

#[test]
fn a_process_that_can_not_be_found_keeps_its_gpu_and_is_named() {
    if !can_ungroup() {
        return;
    }
    let (mut cluster, mut driver) = nvml::cluster();
    cluster.down(&["--now"]);
    cluster.is_without_groups = true;
    cluster.up();
    cluster.until_gpu_is(0, "free");
    let folder = open_folder(&cluster);
    let file = folder.join("pid");
    let n_gpus = cluster.client().gpus().unwrap().items.len().to_string();
    let id = cluster.sh(&["--gpus", &n_gpus], &escape(&file));
    cluster.until_is(&id, "running");
    let (escaped, shepherd) = (pid_in(&file), cluster.shepherd(&id));
    let process = Process { pid: escaped, memory: Some(7 << 30) };
    driver.state.devices[0].processes.get_or_insert_default().push(process);
    driver.write();
    let nursery = parent(shepherd);
    kill_9(nursery);
    until_so("the nursery is gone", || parent(shepherd) != nursery);
    kill_9(shepherd);
    let job = cluster.until_ended(&id);
    assert_eq!(job.state.as_str(), "lost");
    // It was never free in between.
    assert_eq!(cluster.gpu_state(0), "unmanaged");
    let shown = cluster.gpool(["show", &id]).ok();
    assert!(shown.contains("some of its processes may still run"), "{shown}");
    let gpu = cluster.gpool(["gpus", "0"]).ok();
    assert!(gpu.contains(&escaped.to_string()) && gpu.contains("root"), "{gpu}");
    let next = cluster.sh(&["--gpus", &n_gpus], "exit 3");
    let why = cluster.why(&next);
    let process = format!("pid {escaped}) uses GPU 0");
    assert!(why.contains("your process outside gpool") && why.contains(&process), "{why}");
    assert!(lives(escaped));
    kill_9(escaped);
    driver.state.devices[0].processes.get_or_insert_default().clear();
    driver.write();
    assert_eq!(cluster.until_ended(&next).run.exit_code, Some(3));
}
