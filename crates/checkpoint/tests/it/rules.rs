//! Processes, devices and drivers that can't be paused.

use std::fmt::Write as _;

use gpool_checkpoint::testing::{
    branch, headroom_in, n_uvm_mappings, refusal_of_driver, uuid_bytes,
};
use gpool_checkpoint::{Aim, Facts, Gate, pause};

use crate::fake::{Fake, GIB, GPU, plan};

/// Pauses a task of one or two processes after a change of the machine; nothing may be called if
/// that is refused.
fn refusal(n_processes: u32, change: impl FnOnce(&mut Fake)) -> Option<String> {
    let mut fake = Fake::new(&(0..n_processes).map(|ix| 7 + ix).collect::<Vec<_>>());
    change(&mut fake);
    let why = pause(&mut fake, &plan(Aim::Pause, vec![])).err().map(|not| not.why);
    assert!(why.is_none() || fake.calls.is_empty(), "{:?}", fake.calls);
    why
}

#[test]
fn each_hazard_has_its_refusal() {
    assert_eq!(refusal(2, |_| {}), None);
    let nccl = Facts { has_nccl: true, ..Facts::default() };
    let uvm = Facts { n_uvm_mappings: 2, ..Facts::default() };
    let shares = Gate { shares_memory: true, ..Gate::default() };
    let managed = Gate { has_managed_memory: true, ..Gate::default() };
    type Change = Box<dyn FnOnce(&mut Fake)>;
    let cases: [(u32, Change, &str); 12] = [
        (1, Box::new(|it| it.is_mig = true), "MIG"),
        (1, Box::new(|it| it.has_mps = true), "MPS"),
        (1, Box::new(|it| it.gate = None), "--exits pause,requeue"),
        (1, Box::new(move |it| it.facts = uvm), "managed memory"),
        (1, Box::new(move |it| it.gate = Some(managed)), "managed memory"),
        (1, Box::new(move |it| it.gate = Some(shares)), "share GPU memory"),
        (2, Box::new(move |it| it.facts = nccl), "ranks"),
        (1, Box::new(|it| it.host_memory = GIB), "host memory"),
        (1, Box::new(|it| it.driver = "565.57.01".to_owned()), "570 or later"),
        (1, Box::new(|it| it.driver = "610.57.04".to_owned()), "crashes"),
        (1, Box::new(|it| it.driver = "next".to_owned()), "not known"),
        (
            1,
            Box::new(move |it| {
                it.facts = nccl;
                it.driver = "595.71.05".to_owned();
            }),
            "NCCL",
        ),
    ];
    for (n_processes, change, words) in cases {
        let why = refusal(n_processes, change).unwrap_or_default();
        assert!(why.contains(words), "{words}: {why}");
    }
    let single = refusal(1, move |it| it.facts = nccl);
    assert_eq!(single, None, "one rank with driver 580");
    let new = |it: &mut Fake| {
        it.gate = Some(shares);
        it.driver = "610.43.03".to_owned();
    };
    assert_eq!(refusal(1, new), None, "shared memory since 610");
}

#[test]
fn drivers_are_told_by_their_branch() {
    assert_eq!(branch("580.95.05"), Some(580));
    assert_eq!(refusal_of_driver("580.95.05"), None);
    assert_eq!(refusal_of_driver("615.71.09"), None);
}

#[test]
fn the_texts_of_the_kernel_are_read() {
    let mut maps = String::new();
    for name in ["/dev/nvidia0", "/dev/nvidia-uvm", "/usr/lib/libcuda.so.1", "/dev/nvidia-uvm"] {
        writeln!(maps, "7f0000000000-7f0000001000 rw-s 00000000 00:05 9   {name}").unwrap();
    }
    assert_eq!(n_uvm_mappings(&maps), 2);
}

#[test]
fn the_tightest_group_counts_and_the_file_cache_can_be_freed() {
    let folder = tempfile::tempdir().unwrap();
    let inner = folder.path().join("inner");
    std::fs::create_dir(&inner).unwrap();
    assert_eq!(headroom_in(&inner), None);
    let write = |at: &std::path::Path, file: &str, text: &str| {
        std::fs::write(at.join(file), text).unwrap();
    };
    write(&inner, "memory.max", "max\n");
    write(&inner, "memory.current", "50\n");
    write(folder.path(), "memory.max", "1000\n");
    write(folder.path(), "memory.current", "900\n");
    assert_eq!(headroom_in(&inner), Some(100));
    write(folder.path(), "memory.stat", "anon 700\ninactive_file 150\nactive_file 50\n");
    assert_eq!(headroom_in(&inner), Some(300));
}

#[test]
fn uuids_become_bytes() {
    assert_eq!(uuid_bytes(GPU), Some([0xa0; 16]));
    for wrong in ["MIG-a0a0a0a0-a0a0-a0a0-a0a0-a0a0a0a0a0a0", "GPU-a0", ""] {
        assert_eq!(uuid_bytes(wrong), None);
    }
}
