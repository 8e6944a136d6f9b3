//! One device of the driver: its handle, its fixed properties, and its faults so far.

use gpool_device::testing::{host_memory, numa_of};
use gpool_model::Bytes;

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
