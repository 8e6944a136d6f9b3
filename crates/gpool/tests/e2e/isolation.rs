//! Jobs can open only their own GPUs, if the server runs as root. The driver's library is a stub,
//! and its device nodes are made here: without a driver, opening one fails with another error than
//! that of a refusal.

use std::path::{Path, PathBuf};

use gpool_stub_nvml::{Cuda, Device, MigProfile};

use crate::checkpoint::{Rig, displaced};
use crate::harness::{Cluster, Gate, is_root, skip, until_so};
use crate::nvml::{Driver, cluster_of, device};

/// The major number of NVIDIA's driver.
const NVIDIA: u32 = 195;
/// The major number of the driver's nodes for MIG instances, in these tests.
const CAPS: u32 = 506;

/// Devices with minor numbers that are not their indexes.
fn devices() -> Vec<Device> {
    (0..3).map(|index| Device { minor: Some(12 - index), ..device(index) }).collect()
}

/// A cluster with isolated jobs; `None`, with a message, where that does not work.
fn cluster() -> Option<(Cluster, Driver)> {
    if !can_isolate() {
        return None;
    }
    let (cluster, driver) = cluster_of(devices());
    make_nodes(&cluster.path("work")).then_some((cluster, driver))
}

/// Whether jobs can be isolated here; prints a message if not.
fn can_isolate() -> bool {
    let can = gpool_sys::cgroup::Site::open(&format!("gpool-e2e-{}", std::process::id()));
    let found = can.can_filter_devices();
    can.close();
    if let Err(why) = &found {
        skip(why);
    }
    found.is_ok()
}

/// Makes the driver's nodes in a folder; `false`, with a message, if that is not possible.
fn make_nodes(folder: &Path) -> bool {
    use rustix::fs::{CWD, FileType, Mode, makedev, mknodat};
    let whole = [10, 11, 12, 255].map(|minor| (format!("nvidia{minor}"), makedev(NVIDIA, minor)));
    let caps = [21, 22, 31, 32].map(|minor| (format!("cap{minor}"), makedev(CAPS, minor)));
    for (name, device) in whole.into_iter().chain(caps) {
        let node = folder.join(name);
        let mode = Mode::from_raw_mode(0o666);
        if mknodat(CWD, &node, FileType::CharacterDevice, mode, device).is_err() {
            skip("device nodes can't be made here");
            return false;
        }
        let opened = std::fs::File::open(node).map_err(|error| error.kind());
        if opened.is_err_and(|kind| kind == std::io::ErrorKind::PermissionDenied) {
            skip("device nodes can't be opened here");
            return false;
        }
    }
    true
}

/// A line that writes the nodes that a process may open, except the one that all GPUs share.
fn line() -> String {
    let tries = "(exec 3< nvidia$n) 2>&1 | grep -q 'not permitted' || echo $n";
    format!("for n in 10 11 12 255; do {tries}; done | grep -vx 255 | tr '\\n' ' '; echo .")
}

#[test]
fn a_job_can_open_its_own_gpus_only() {
    let Some((cluster, _driver)) = cluster() else { return };
    let out = |flags: &[&str]| {
        let line = line();
        let words = [&["run", "-q"], flags, &["--", "sh", "-c", &line]].concat();
        cluster.gpool(words).ok()
    };
    assert_eq!(out(&["--gpus", "1"]), "12 .\n");
    assert_eq!(out(&["--gpus", "2"]), "11 12 .\n");
    assert_eq!(out(&["--gpus", "0.5"]), "12 .\n");
    assert_eq!(out(&[]), ".\n");
    let rest = "(exec 3< nvidia255) 2>&1 | grep -c 'not permitted'; exec 3< /dev/null; echo ok";
    let ran = cluster.gpool(["run", "-q", "--gpus", "1", "--", "sh", "-c", rest]);
    assert_eq!(ran.ok(), "0\nok\n", "other nodes can be opened");
    assert_eq!(cluster.gpu(0).enforcement.whole, "isolated");
}

#[test]
fn a_job_on_an_instance_can_open_the_nodes_of_its_instance_only() {
    let Some((mut cluster, mut driver)) = cluster() else { return };
    cluster.down(&[]);
    let divided = Device { mig: Some(true), mig_profiles: MigProfile::of_h100(), ..device(0) };
    driver.state.devices = vec![Device { minor: Some(12), ..divided }];
    driver.write();
    let list = cluster.path("proc").join("driver/nvidia-caps");
    std::fs::create_dir_all(&list).unwrap();
    let majors = format!("Character devices:\n195 nvidia\n{CAPS} nvidia-caps\n");
    std::fs::write(cluster.path("proc").join("devices"), majors).unwrap();
    let minors = "gpu12/gi1/access 21\ngpu12/gi1/ci0/access 22\n\
                  gpu12/gi2/access 31\ngpu12/gi2/ci0/access 32\n";
    std::fs::write(list.join("mig-minors"), minors).unwrap();
    let proc = cluster.path("proc").display().to_string();
    cluster.variables.push(("GPOOL_PROC_PATH".to_owned(), proc));
    cluster.up();
    for profile in ["3g.40gb", "2g.20gb", "1g.10gb"] {
        cluster.gpool(["mig", "create", "0", profile]).ok();
    }
    until_so("the instances are known", || cluster.client().gpus().unwrap().items.len() == 4);
    let out = |gpus: &str| {
        let tries = "(exec 3< $n) 2>&1 | grep -q 'not permitted' || echo $n";
        let all = "nvidia11 nvidia12 cap21 cap22 cap31 cap32";
        let line = format!("for n in {all}; do {tries}; done | tr '\\n' ' '");
        cluster.gpool(["run", "-q", "--gpus", gpus, "--", "sh", "-c", &line]).ok()
    };
    assert_eq!(out("3g.40gb"), "nvidia12 cap21 cap22 ");
    assert_eq!(out("2g.20gb"), "nvidia12 cap31 cap32 ");
    assert_eq!(out("0"), "");
    // The list does not have the third instance, so its job could open the others.
    let levels = |index: usize| cluster.gpu(index).enforcement.whole;
    assert_eq!([1, 2, 3].map(levels), ["isolated", "isolated", "capped"]);
    let report = cluster.gpool(["doctor"]).out;
    assert!(report.contains("lab1:1000,1001: MIG instances isolated"), "{report}");
    assert!(
        report.contains("lab1:1002: does not work: /proc/driver/nvidia-caps/mig-minors"),
        "{report}"
    );
    let flags = ["submit", "--gpus", "1g.10gb", "--enforce", "isolated", "--", "true"];
    cluster.gpool(flags).refused(4, &["\"isolated\"", "--enforce capped"]);
}

/// The folders of a process's control groups.
fn groups_of(pid: u32) -> Vec<PathBuf> {
    let own = std::fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap();
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap();
    let folders = [None, Some("devices")].into_iter();
    let folders = folders.filter_map(|it| gpool_sys::cgroup::home(&mounts, &own, it));
    folders.filter(|folder| folder.to_string_lossy().contains("gpool-")).collect()
}

#[test]
fn the_isolation_outlives_the_server_and_ends_with_the_job() {
    let Some((mut cluster, _driver)) = cluster() else { return };
    let gate = Gate::new(&cluster, "gate");
    let tries = format!("{}; {}", gate.line(), line());
    let id = cluster.sh(&["--gpus", "1"], &format!("echo $$; {tries}; {tries}"));
    until_so("it has begun", || cluster.stdout_of(&id).ends_with('\n'));
    let pid: u32 = cluster.stdout_of(&id).trim().parse().unwrap();
    let groups = groups_of(pid);
    assert!(!groups.is_empty(), "it has a control group");
    cluster.kill();
    gate.open();
    cluster.up();
    until_so("it has tried", || cluster.stdout_of(&id).matches(".\n").count() == 1);
    let beside = cluster.gpool(["exec", &id, "--", "sh", "-c", &line()]).ok();
    assert_eq!(beside, "12 .\n");
    gate.open();
    assert!(cluster.until_ended(&id).state.as_str() == "succeeded");
    assert_eq!(cluster.stdout_of(&id), format!("{pid}\n12 .\n12 .\n"));
    until_so("its groups are removed", || groups.iter().all(|group| !group.exists()));
}

#[test]
fn a_job_that_resumes_on_another_gpu_can_open_no_other() {
    if !can_isolate() {
        return;
    }
    let Some(rig) = Rig::pair("580.95.05", Cuda::default()) else { return };
    if !make_nodes(&rig.cluster.path("work")) {
        return;
    }
    let (mut program, other) = displaced(&rig);
    let opens = |id: &str| {
        let line = line();
        rig.cluster.gpool(["exec", "--no-pty", id, "--", "sh", "-c", &line]).ok()
    };
    assert_eq!(opens(&other.id), "12 .\n");
    rig.cluster.gpool(["resume", &program.id]).ok();
    assert!(rig.has_text(&mut program));
    assert_eq!(opens(&program.id), "11 .\n");
}

#[test]
fn an_admin_can_turn_isolation_off() {
    let Some((mut cluster, _driver)) = cluster() else { return };
    cluster.down(&[]);
    let config = cluster.path("gpool.toml");
    std::fs::write(&config, "isolate_gpus = false\n").unwrap();
    cluster.variables.push(("GPOOL_CONFIG".to_owned(), config.display().to_string()));
    cluster.up();
    let out = cluster.gpool(["run", "-q", "--gpus", "1", "--", "sh", "-c", &line()]).ok();
    assert_eq!(out, "10 11 12 .\n");
    assert_ne!(cluster.gpu(0).enforcement.whole, "isolated");
}

#[test]
fn the_doctor_shows_whether_gpus_are_isolated() {
    let cluster = Cluster::unstarted(&[]);
    let found = cluster.gpool(["doctor"]).out;
    let line = found.lines().find(|line| line.starts_with("device filter")).unwrap();
    let site = gpool_sys::cgroup::Site::open(&format!("gpool-e2e-doctor-{}", std::process::id()));
    let works = site.can_filter_devices().is_ok();
    site.close();
    assert_eq!(line.contains(" works"), works, "{line}");
    assert!(is_root() || !works, "{line}");
}
