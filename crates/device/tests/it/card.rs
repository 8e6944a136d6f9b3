//! One device of the driver: its handle, its fixed properties, and its faults so far.

use gpool_device::testing::{host_memory, nodes_in, numa_of};
use gpool_model::Bytes;
use gpool_model::device::InstanceNodes;

#[test]
fn the_numa_node_is_found_by_the_kernels_form_of_the_bus() {
    let dir = tempfile::tempdir().unwrap();
    for (bus, node) in [("0000:1b:00.0", "1\n"), ("0000:02:00.0", "-1\n")] {
        std::fs::create_dir(dir.path().join(bus)).unwrap();
        std::fs::write(dir.path().join(bus).join("numa_node"), node).unwrap();
    }
    assert_eq!(numa_of(dir.path(), "00000000:1B:00.0"), Some(1));
    assert_eq!(numa_of(dir.path(), "00000000:02:00.0"), None);
    assert_eq!(numa_of(dir.path(), "00000000:03:00.0"), None);
}

#[test]
fn a_device_that_shares_the_hosts_memory_reports_all_of_it() {
    let meminfo = "MemTotal:       16384 kB\nMemFree:  1 kB\n";
    assert_eq!(host_memory(meminfo), Some(Bytes::from_mib(16)));
    assert_eq!(host_memory(""), None);
}

#[test]
fn the_nodes_of_an_instance_are_those_of_its_gpu_instance_and_compute_instance() {
    let devices = "Character devices:\n195 nvidia\n506 nvidia-caps\n510 nvidia-caps-imex\n";
    let minors = "config 1\nmonitor 2\ngpu1/gi2/access 30\ngpu1/gi2/ci0/access 31\n\
                  gpu1/gi20/access 40\ngpu1/gi20/ci0/access x\n";
    let found = InstanceNodes { major: 506, gpu_instance: 30, compute_instance: 31 };
    assert_eq!(nodes_in(devices, minors, [1, 2, 0]), Some(found));
    for place in [[0, 2, 0], [1, 3, 0], [1, 2, 1], [1, 20, 0]] {
        assert_eq!(nodes_in(devices, minors, place), None);
    }
    assert_eq!(nodes_in("195 nvidia\n", minors, [1, 2, 0]), None);
    assert_eq!(nodes_in("", "", [1, 2, 0]), None);
}
