//! Control groups: kill a whole tree at once (version 2, if writable) and limit it (controllers of
//! version 2, else version 1). Changes only groups that were made here, and enables controllers in
//! the own group.

use std::fs;

use gpool_sys::cgroup::{Controllers, Group, Limits, home};
use gpool_sys::cgroup_usage::GroupUsage;

const HYBRID: &str = "\
tmpfs /sys/fs/cgroup tmpfs rw 0 0
cgroup /sys/fs/cgroup/memory cgroup rw,relatime,memory 0 0
cgroup /sys/fs/cgroup/cpu,cpuacct cgroup rw,cpuacct,cpu 0 0
cgroup2 /sys/fs/cgroup/unified cgroup2 rw,relatime 0 0
";

#[test]
fn the_process_own_group_is_found_in_each_hierarchy() {
    let own = "4:memory:/nowhere/at all\n3:cpu,cpuacct:/\n0::/\n";
    assert_eq!(home(HYBRID, own, None), Some("/sys/fs/cgroup/unified/".into()));
    // A folder that does not exist here: the path is that of another mount namespace.
    assert_eq!(home(HYBRID, own, Some("memory")), Some("/sys/fs/cgroup/memory".into()));
    assert_eq!(home(HYBRID, own, Some("cpu")), Some("/sys/fs/cgroup/cpu,cpuacct/".into()));
    assert_eq!(home(HYBRID, own, Some("pids")), None);
    assert_eq!(home("", own, None), None);
    // The second agent of a process, after the first has moved it.
    let moved = "0::/system.slice/gpool-supervisor\n";
    let unmoved = "0::/system.slice\n";
    assert_eq!(home(HYBRID, moved, None), home(HYBRID, unmoved, None));
}

#[test]
fn limits_are_written_where_their_files_exist() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("t");
    fs::create_dir(&folder).unwrap();
    for file in ["memory.max", "cpu.max"] {
        fs::write(folder.join(file), "").unwrap();
    }
    let all = Controllers { memory: true, pids: true, cpu: true };
    let limits = Limits { memory: Some(7), pids: Some(8), cpu_milli: Some(1500) };
    let mut group = Group::default();
    group.limit_unified(&folder, all, limits);
    assert_eq!(group.limited(), Controllers { memory: true, pids: false, cpu: true });
    assert_eq!(fs::read_to_string(folder.join("memory.max")).unwrap(), "7");
    assert_eq!(fs::read_to_string(folder.join("cpu.max")).unwrap(), "150000 100000");
}

#[test]
fn oom_kills_are_counted_in_both_versions() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("memory.events"), "oom 3\noom_kill 2\n").unwrap();
    let text = "oom_kill_disable 0\nunder_oom 0\noom_kill 5\n";
    fs::write(dir.path().join("memory.oom_control"), text).unwrap();
    let mut group = Group::default();
    group.unified = Some(dir.path().into());
    assert_eq!(group.oom_kills(), 2);
    group = Group::default();
    group.memory_v1 = Some(dir.path().into());
    assert_eq!(group.oom_kills(), 5);
}

#[test]
fn usage_is_read_in_both_versions_and_absent_where_the_kernel_has_none() {
    let dir = tempfile::tempdir().unwrap();
    let mut group = Group::default();
    assert_eq!(group.usage(), GroupUsage::default());
    group.unified = Some(dir.path().into());
    assert_eq!(group.usage(), GroupUsage::default(), "no controller is enabled");
    let write = |file: &str, text: &str| fs::write(dir.path().join(file), text).unwrap();
    write("cpu.stat", "usage_usec 7500999\nuser_usec 5000999\nsystem_usec 2500000\n");
    write("memory.current", "100\n");
    write("memory.peak", "300\n");
    write("io.stat", "8:0 rbytes=10 wbytes=20 rios=1 wios=1\n259:1 rbytes=5 wbytes=0 rios=1\n");
    let expected = GroupUsage {
        user_ms: Some(5000),
        system_ms: Some(2500),
        memory: Some(100),
        memory_peak: Some(300),
        read_bytes: Some(15),
        written_bytes: Some(20),
    };
    assert_eq!(group.usage(), expected);
    write("memory.usage_in_bytes", "40\n");
    write("memory.max_usage_in_bytes", "50\n");
    group = Group::default();
    group.memory_v1 = Some(dir.path().into());
    let of_v1 = GroupUsage { memory: Some(40), memory_peak: Some(50), ..GroupUsage::default() };
    assert_eq!(group.usage(), of_v1);
}
