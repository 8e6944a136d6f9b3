//! A disk that is full or can't be written. These tests need their own file system, so root.

use std::path::Path;
use std::process::Command;

use serde_json::json;

use crate::harness::{Cluster, Gate, is_root, kill_9, skip, until_so};
use crate::http::Http;

/// Mounts a small file system on the state folder; `false` if that is not permitted.
pub fn mount_small(cluster: &Cluster, options: &str) -> bool {
    let state = cluster.state();
    std::fs::create_dir(&state).unwrap();
    mount_at(&state, options)
}

/// Mounts a small file system, or prints why not. The harness unmounts only the folders that it
/// knows.
pub fn mount_at(folder: &Path, options: &str) -> bool {
    if !is_root() {
        skip("only root can mount a small file system");
        return false;
    }
    let done = mount(&["-t", "tmpfs", "-o", options, "tmpfs"], folder);
    if !done {
        skip("a file system can't be mounted here");
    }
    done
}

fn mount(words: &[&str], at: &Path) -> bool {
    Command::new("mount").args(words).arg(at).status().is_ok_and(|status| status.success())
}

/// Fills the rest of a file system.
pub fn fill(file: &Path) {
    use std::io::Write as _;
    let mut file = std::fs::File::create(file).unwrap();
    let block = [0_u8; 4096];
    while file.write_all(&block).is_ok() {}
}

/// Checks that every view shows that the store can't be written, with these words; `None`: that no
/// view shows it.
fn alarm_says(cluster: &Cluster, words: Option<&str>) {
    let http = Http::new(cluster);
    let status = http.get("/api/v1/status").json()["store_fault"].clone();
    // A text is answered for a second.
    let gauge = format!("gpool_store_writable{{}} {}", u8::from(words.is_none()));
    until_so("the metrics say so", || http.get("/metrics").body.contains(&gauge));
    let doctor = cluster.gpool(["doctor"]);
    let page = cluster.gpool(["status"]).ok();
    match words {
        Some(words) => {
            assert!(status.as_str().is_some_and(|why| why.contains(words)), "{status}");
            assert!(doctor.code == 1 && doctor.out.contains(words), "{doctor:?}");
            assert!(page.contains(words), "{page}");
        }
        None => assert!(status.is_null(), "{status}"),
    }
}

/// Submits until a job is refused; returns the acknowledged IDs.
fn submit_until_refused(cluster: &Cluster, words: &[&str]) -> Vec<String> {
    // The store's files may have some free space; after these jobs it is certainly full.
    let mut acknowledged = Vec::new();
    let refused = loop {
        let ran = cluster.gpool(["submit", "--hold", "--", "true"]);
        if ran.code != 0 {
            break ran;
        }
        acknowledged.push(ran.out.trim().to_owned());
        assert!(acknowledged.len() < 5000, "it is never refused");
    };
    refused.refused(1, words);
    let body = json!({"command": ["true"], "hold": true});
    let answer = Http::new(cluster).post("/api/v1/jobs", &body);
    assert_eq!((answer.status, answer.problem_code().as_str()), (507, "GP0907"));
    acknowledged
}

fn all_held(cluster: &Cluster, ids: &[String]) {
    for id in ids {
        assert_eq!(cluster.job(id).state.as_str(), "held");
    }
}

#[test]
fn a_full_disk_refuses_new_jobs_and_hurts_none_that_run() {
    let mut cluster = Cluster::unstarted(&["--devices", "none"]);
    if !mount_small(&cluster, "size=4m,mode=711") {
        return;
    }
    cluster.up();
    let gate = Gate::new(&cluster, "gate");
    let line = format!("echo begun; {}; echo done; exit 5", gate.line());
    let id = cluster.sh(&[], &line);
    until_so("it has begun", || cluster.stdout_of(&id) == "begun\n");
    // Its start must be stored before there is no room for it.
    cluster.until_is(&id, "running");
    let pid = cluster.server_pid();
    let ballast = cluster.state().join("ballast");
    fill(&ballast);
    alarm_says(&cluster, Some("no space left"));
    let words = ["no space left", "GP0907", "accepted jobs are stored"];
    let acknowledged = submit_until_refused(&cluster, &words);
    assert_eq!(cluster.server_pid(), pid);
    alarm_says(&cluster, Some("no space left"));
    // Everything known can still be read.
    assert_eq!(cluster.job(&id).state.as_str(), "running");
    all_held(&cluster, &acknowledged);
    gate.open();
    let out = cluster.state().join("jobs").join(&id).join("1/stdout");
    until_so("it has ended", || cluster.processes().len() <= 2 || !out.exists());
    std::fs::remove_file(&ballast).unwrap();
    // Without a restart.
    until_so("jobs are accepted again", || cluster.gpool(["submit", "--", "true"]).code == 0);
    assert_eq!(cluster.server_pid(), pid);
    alarm_says(&cluster, None);
    assert_eq!(cluster.until_ended(&id).run.exit_code, Some(5));
    let log = cluster.stdout_of(&id);
    let is_honest = log == "begun\ndone\n" || log.contains("[gpool:");
    assert!(is_honest, "{log:?}");
    all_held(&cluster, &acknowledged);
    assert_eq!(cluster.gpool(["run", "--", "sh", "-c", "exit 4"]).code, 4);
    cluster.down(&[]);
    assert!(cluster.gpool(["verify"]).ok().contains("sound"));
}

#[test]
fn a_server_that_starts_on_a_full_disk_answers_and_recovers_when_there_is_room() {
    let mut cluster = Cluster::unstarted(&["--devices", "none"]);
    if !mount_small(&cluster, "size=4m,mode=711") {
        return;
    }
    cluster.up();
    let gate = Gate::new(&cluster, "gate");
    let line = format!("echo begun; {}; echo done; exit 5", gate.line());
    let (id, ended) = (cluster.sh(&[], &line), cluster.sh(&[], &line));
    for id in [&id, &ended] {
        until_so("it has begun", || cluster.stdout_of(id) == "begun\n");
    }
    let ballast = cluster.state().join("ballast");
    fill(&ballast);
    let words = ["no space left", "GP0907"];
    let mut acknowledged = submit_until_refused(&cluster, &words);
    // Once killed and once stopped: each leaves different files behind.
    for round in 0..2 {
        match round {
            0 => cluster.kill(),
            _ => drop(cluster.down(&[])),
        }
        fill(&cluster.state().join(format!("ballast-{round}")));
        cluster.up();
        acknowledged.extend(submit_until_refused(&cluster, &words));
        alarm_says(&cluster, Some("no space left"));
        let queue = cluster.gpool(["queue"]).ok();
        assert!(queue.contains("running"), "{queue}");
        assert_eq!(cluster.job(&id).state.as_str(), "running");
        all_held(&cluster, &acknowledged);
    }
    let pid = cluster.server_pid();
    gate.open();
    for name in ["ballast", "ballast-0", "ballast-1"] {
        std::fs::remove_file(cluster.state().join(name)).unwrap();
    }
    // Without a restart, and the state of running jobs is known.
    until_so("jobs are accepted again", || cluster.gpool(["submit", "--", "true"]).code == 0);
    gate.open();
    for id in [&id, &ended] {
        assert_eq!(cluster.until_ended(id).run.exit_code, Some(5));
    }
    assert_eq!(cluster.server_pid(), pid);
    alarm_says(&cluster, None);
    all_held(&cluster, &acknowledged);
    let went_on = cluster.client().recovery().unwrap().jobs;
    assert_eq!(went_on.len(), 2, "{went_on:?}");
    assert_eq!(cluster.gpool(["run", "--", "sh", "-c", "exit 4"]).code, 4);
    cluster.down(&[]);
    assert!(cluster.gpool(["verify"]).ok().contains("sound"));
}

#[test]
fn a_read_only_folder_is_reported_without_a_crash() {
    let mut cluster = Cluster::unstarted(&["--devices", "none"]);
    if !mount_small(&cluster, "size=64m,mode=711") {
        return;
    }
    cluster.up();
    let held = cluster.submit(["--hold", "--", "true"]);
    cluster.down(&[]);
    assert!(mount(&["-o", "remount,ro"], &cluster.state()));
    let ran = cluster.gpool(["up", "--foreground", "--devices", "none"]);
    assert_eq!(ran.code, 1, "{ran:?}");
    let state = cluster.state();
    assert!(ran.err.contains("error:") && ran.err.contains(state.to_str().unwrap()), "{ran:?}");
    assert!(ran.err.to_lowercase().contains("read-only"), "{ran:?}");
    let ran = cluster.gpool(["up", "--devices", "none"]);
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(mount(&["-o", "remount,rw"], &cluster.state()));
    cluster.up();
    assert_eq!(cluster.job(&held).state.as_str(), "held");
}

#[test]
fn output_on_a_full_disk_affects_no_job_and_is_noted() {
    let mut cluster = Cluster::unstarted(&["--devices", "none"]);
    // Only the output is on the small file system.
    let jobs = cluster.state().join("jobs");
    std::fs::create_dir_all(&jobs).unwrap();
    if !mount_at(&jobs, "size=1m,mode=711") {
        return;
    }
    cluster.up();
    let gate = Gate::new(&cluster, "gate");
    let written = cluster.path("written");
    let (wait, touch) = (gate.line(), format!("touch {}", written.display()));
    let line =
        format!("echo begun; {wait}; yes | head -c 3000000; {touch}; {wait}; echo after; exit 5");
    let id = cluster.sh(&[], &line);
    until_so("it has begun", || cluster.stdout_of(&id) == "begun\n");
    let ballast = jobs.join("ballast");
    std::fs::write(&ballast, vec![0; 512 << 10]).unwrap();
    gate.open();
    // The job writes three times as much as fits, and is not delayed.
    until_so("all is written", || written.exists());
    let free = rustix::fs::statvfs(&jobs).unwrap();
    assert!(free.f_bavail * free.f_frsize < 64 << 10, "a part is left for the store");
    assert_eq!(cluster.job(&id).state.as_str(), "running");
    // The store has room and works.
    let held = cluster.submit(["--hold", "--", "true"]);
    alarm_says(&cluster, None);
    let other = cluster.sh(&[], "echo lost; exit 4");
    assert_eq!(cluster.until_ended(&other).run.exit_code, Some(4));
    std::fs::remove_file(&ballast).unwrap();
    gate.open();
    let job = cluster.until_ended(&id);
    assert_eq!((job.state.as_str(), job.run.exit_code), ("failed", Some(5)));
    let log = cluster.stdout_of(&id);
    assert!(
        log.contains(" bytes of output could not be written: less than 64 KiB are free"),
        "the lost output is not noted"
    );
    assert!(log.starts_with("begun\n") && log.ends_with("after\n"));
    assert_eq!(cluster.job(&held).state.as_str(), "held");
}

/// A file system on a file, which fails like a disk: the kernel makes it read-only while files on
/// it are open.
fn failing_disk(cluster: &Cluster) -> Option<std::path::PathBuf> {
    if !is_root() {
        skip("only root can mount a disk that fails");
        return None;
    }
    let image = cluster.path("image");
    std::fs::File::create(&image).unwrap().set_len(32 << 20).unwrap();
    std::fs::create_dir(cluster.state()).unwrap();
    let made = Command::new("mkfs.ext4").arg("-q").arg(&image).status();
    let is_made = made.is_ok_and(|status| status.success());
    let image = image.to_str().unwrap();
    if !is_made || !mount(&["-o", "loop,errors=remount-ro", image], &cluster.state()) {
        skip("no mkfs.ext4, or no loop devices");
        return None;
    }
    // Finds its loop device.
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap();
    let state = cluster.state();
    let device = mounts.lines().find_map(|line| {
        let mut words = line.split(' ');
        let device = Path::new(words.next()?).file_name()?.to_owned();
        (Path::new(words.next()?) == state).then_some(device)
    });
    let trigger = Path::new("/sys/fs/ext4").join(device.unwrap()).join("trigger_fs_error");
    if !trigger.exists() {
        skip("this kernel can't make a disk fail");
        return None;
    }
    Some(trigger)
}

#[test]
fn a_disk_that_fails_is_reported_and_affects_no_job() {
    let mut cluster = Cluster::unstarted(&["--devices", "none"]);
    let Some(trigger) = failing_disk(&cluster) else { return };
    cluster.up();
    let gate = Gate::new(&cluster, "gate");
    let done = cluster.path("done");
    let id = cluster.sh(&[], &format!("{}; echo 5 > {}; exit 5", gate.line(), done.display()));
    cluster.until_is(&id, "running");
    let shepherd = cluster.shepherd(&id);
    let held = cluster.submit(["--hold", "--", "true"]);
    std::fs::write(trigger, "1").unwrap();
    let words = ["read-only", "GP0907", "accepted jobs are stored"];
    let mut acknowledged = submit_until_refused(&cluster, &words);
    acknowledged.push(held);
    alarm_says(&cluster, Some("read-only"));
    assert_eq!(cluster.job(&id).state.as_str(), "running");
    all_held(&cluster, &acknowledged);
    // The job runs to its end. The end can't be stored: the disk never accepts it.
    gate.open();
    until_so("the job is done", || done.exists());
    // A restart of the machine ends all processes too.
    cluster.kill();
    kill_9(shepherd);
    until_so("no process is left", || cluster.processes().is_empty());
    remount(&cluster);
    cluster.up();
    all_held(&cluster, &acknowledged);
    let state = cluster.until_ended(&id).state;
    assert!(["failed", "lost"].contains(&state.as_str()), "{state:?}");
    alarm_says(&cluster, None);
    cluster.down(&[]);
    assert!(cluster.gpool(["verify"]).ok().contains("sound"));
}

/// Unmounts the disk and mounts it again, with the durable data.
fn remount(cluster: &Cluster) {
    until_so("it is unmounted", || {
        let done = Command::new("umount").arg(cluster.state()).output();
        done.is_ok_and(|output| output.status.success())
    });
    let image = cluster.path("image");
    // It repairs the damage of the failure; its exit code reports that.
    let _ = Command::new("fsck.ext4").arg("-p").arg(&image).output();
    assert!(mount(&["-o", "loop", image.to_str().unwrap()], &cluster.state()));
}
