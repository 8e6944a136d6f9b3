//! Properties of the library itself. `cargo bench --package gpool-shim` measures its cost.

use crate::rig::{GIB, Machine, OK};

#[test]
fn the_libraries_contain_no_panic() {
    let text = b"gpool shim: panic";
    for (name, library) in gpool_shim::libraries() {
        assert!(!library.windows(text.len()).any(|bytes| bytes == text), "{name}");
    }
}

#[test]
fn many_allocations_are_remembered() {
    let machine = Machine::new();
    let ledger = machine.ledger(GIB, GIB);
    let Some(mut program) = machine.program("dlsym") else { return };
    program.ready();
    let size = 4096;
    let addresses: Vec<i64> = (0..2000).map(|_| program.get(&format!("alloc {size}"))).collect();
    assert_eq!(crate::rig::counted(&ledger), 2000 * size);
    for address in addresses {
        assert_eq!(program.code(&format!("free {address}")), OK);
    }
    assert_eq!(crate::rig::counted(&ledger), 0);
}

#[test]
fn the_libraries_load_with_old_versions_of_glibc() {
    const MINOR_MAX: u32 = 17;
    for (name, library) in gpool_shim::libraries() {
        let text = String::from_utf8_lossy(library);
        let versions = text.split("GLIBC_2.").skip(1).map(|rest| {
            let digits = rest.split(|it: char| !it.is_ascii_digit()).next();
            digits.unwrap_or_default().parse::<u32>().unwrap()
        });
        let highest = versions.max().unwrap();
        assert!(highest <= MINOR_MAX, "{name} needs glibc 2.{highest}");
    }
}
