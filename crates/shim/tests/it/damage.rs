//! Ledgers that are missing, damaged, truncated or removed.

use std::fs::{self, OpenOptions};
use std::io;
use std::mem::offset_of;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use gpool_ledger::layout::{Device, GRANTS_FILE, Grants, USAGE_FILE};
use gpool_ledger::{Ledger, UsageError};

use crate::rig::{GIB, Machine, OK, OUT_OF_MEMORY, compiled, counted, share};

/// Whether a new program is not limited at all.
fn is_open(machine: &Machine) -> bool {
    let Some(mut program) = machine.program("dlsym") else { return true };
    program.ready();
    program.code(&format!("alloc {}", 8 * GIB)) == OK
}

#[test]
fn without_a_ledger_nothing_is_limited() {
    let machine = Machine::new();
    assert!(is_open(&machine), "an empty folder");
    let Some(path) = compiled() else { return };
    let mut command = Command::new(path);
    command.arg("get-address");
    let mut program = machine.start(command);
    program.ready();
    assert_eq!(program.code(&format!("alloc {}", 8 * GIB)), OK);
    assert_eq!(program.code("synchronize"), OK);
}

#[test]
fn a_ledger_that_cannot_be_used_is_none() {
    for file in [GRANTS_FILE, USAGE_FILE] {
        let machine = Machine::new();
        let ledger = machine.ledger(GIB, GIB);
        let path = machine.path("ledger").join(file);
        assert!(!is_open(&machine));
        let whole = fs::read(&path).unwrap();
        fs::write(&path, &whole[..100]).unwrap();
        assert!(is_open(&machine), "{file} is too short");
        fs::write(&path, vec![0; whole.len()]).unwrap();
        assert!(is_open(&machine), "{file} is empty");
        let mut other = whole.clone();
        other[8] = 99;
        fs::write(&path, &other).unwrap();
        assert!(is_open(&machine), "{file} is of another version");
        fs::write(&path, &whole).unwrap();
        assert!(!is_open(&machine));
        fs::remove_file(&path).unwrap();
        assert!(is_open(&machine), "{file} is missing");
        drop(ledger);
    }
}

#[test]
fn a_removed_ledger_still_limits_running_processes() {
    let machine = Machine::new();
    let ledger = machine.ledger(GIB, GIB);
    let Some(mut program) = machine.program("dlsym") else { return };
    program.ready();
    let address = program.get(&format!("alloc {GIB}"));
    fs::remove_dir_all(machine.path("ledger")).unwrap();
    assert_eq!(program.code("alloc 1"), OUT_OF_MEMORY);
    assert_eq!(program.code(&format!("free {address}")), OK);
    assert_eq!(counted(&ledger), 0, "the agent has its file open");
}

#[test]
fn a_job_that_overwrites_its_usage_is_seen() {
    let machine = Machine::new();
    let ledger = machine.ledger(GIB, GIB);
    let path = machine.path("ledger").join(USAGE_FILE);
    let file = OpenOptions::new().write(true).open(&path).unwrap();
    file.write_all_at(&[0xff; 64], 0).unwrap();
    assert!(matches!(ledger.processes(), Err(UsageError::Damaged(_))));
}

#[test]
fn a_job_that_truncates_its_usage_does_not_harm_the_agent() {
    let machine = Machine::new();
    let ledger = machine.ledger(GIB, GIB);
    let Some(mut program) = machine.program("dlsym") else { return };
    program.ready();
    let path = machine.path("ledger").join(USAGE_FILE);
    OpenOptions::new().write(true).open(&path).unwrap().set_len(0).unwrap();
    assert!(matches!(ledger.processes(), Err(UsageError::Damaged(_))));
    assert!(ledger.take_back_dead().is_err());
    // The job itself ends by its next charge, and the driver frees its memory.
    program.send("alloc 1");
    assert!(!program.end());
    assert_eq!(machine.driver_memory(0), 0);
}

#[test]
fn wild_numbers_of_a_job_limit_only_the_job() {
    let machine = Machine::new();
    let ledger = machine.ledger(GIB, GIB);
    let Some(mut program) = machine.program("dlsym") else { return };
    program.ready();
    let address = program.get(&format!("alloc {GIB}"));
    let path = machine.path("ledger").join(USAGE_FILE);
    let file = OpenOptions::new().read(true).write(true).open(&path).unwrap();
    let mut bytes = fs::read(&path).unwrap();
    bytes[64..].fill(0xff);
    file.write_all_at(&bytes, 0).unwrap();
    assert_eq!(ledger.processes().unwrap().len(), 128);
    assert_eq!(program.code("alloc 1"), OUT_OF_MEMORY);
    assert_eq!(program.code(&format!("free {address}")), OK);
    assert_eq!(program.run("info")[0], OK);
    assert!(ledger.take_back_dead().unwrap().len() >= 127);
}

#[test]
fn a_ledger_that_processes_could_not_open_is_not_created() {
    let machine = Machine::new();
    let long = machine.path("ledger").join("x".repeat(100));
    fs::create_dir(&long).unwrap();
    let shares = vec![share(0, GIB, GIB); 17];
    let create = |folder: &Path, shares| Ledger::create(folder, shares, Duration::ZERO, None);
    let is_refused = |result: io::Result<Ledger>| {
        result.is_err_and(|error| error.kind() == io::ErrorKind::InvalidInput)
    };
    assert!(is_refused(create(&long, &shares[..1])));
    assert!(is_refused(create(Path::new("ledger"), &shares[..1])));
    assert!(is_refused(create(&machine.path("ledger"), &shares)));
    assert!(create(&machine.path("ledger"), &shares[..16]).is_ok());
}

#[test]
fn random_content_crashes_no_program() {
    let machine = Machine::new();
    let ledger = machine.ledger(GIB, GIB);
    let path = |name: &str| machine.path("ledger").join(name);
    let whole = [GRANTS_FILE, USAGE_FILE].map(|name| fs::read(path(name)).unwrap());
    let mut seed = 88_172_645_463_325_252_u64;
    let mut random = || {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed.to_ne_bytes()[3]
    };
    for round in 0..30 {
        for (name, whole) in [GRANTS_FILE, USAGE_FILE].into_iter().zip(&whole) {
            let mut bytes = whole.clone();
            // Magic, version and gate stay: a closed gate would stop the program.
            bytes[12..16].fill_with(&mut random);
            bytes[24..].fill_with(&mut random);
            // With names, the program finds no device of its own.
            if name == GRANTS_FILE && round >= 10 {
                let devices = bytes[offset_of!(Grants, devices)..].chunks_mut(size_of::<Device>());
                devices.for_each(|device| device[offset_of!(Device, named)..][..16].fill(0));
            }
            fs::write(path(name), &bytes).unwrap();
        }
        let Some(mut program) = machine.program("get-address") else { return };
        assert_eq!(program.code("init"), OK);
        let context = program.code("context 0");
        assert!(context == OK || round < 10, "{context}");
        if context != OK {
            continue;
        }
        for command in ["alloc 4096", "async 4096", "info", "total 0", "nvml 0", "synchronize"] {
            assert!([OK, OUT_OF_MEMORY].contains(&program.code(command)), "{command}");
        }
        assert!(program.end());
        ledger.processes().unwrap();
    }
}

#[test]
fn an_agent_does_not_open_a_damaged_ledger() {
    let machine = Machine::new();
    drop(machine.ledger(GIB, GIB));
    assert!(Ledger::open(&machine.path("ledger")).is_ok());
    let path = machine.path("ledger").join(GRANTS_FILE);
    let whole = fs::read(&path).unwrap();
    fs::write(&path, &whole[..whole.len() - 1]).unwrap();
    assert!(Ledger::open(&machine.path("ledger")).is_err());
    fs::write(&path, vec![0; whole.len()]).unwrap();
    assert!(Ledger::open(&machine.path("ledger")).is_err());
}

#[test]
fn more_processes_than_slots_get_no_memory_and_are_reported() {
    let machine = Machine::new();
    let ledger = machine.ledger(GIB, GIB);
    let path = machine.path("ledger").join(USAGE_FILE);
    // All slots belong to this test, which lives.
    let file = OpenOptions::new().write(true).open(&path).unwrap();
    let pid = std::process::id();
    let stat = fs::read_to_string("/proc/self/stat").unwrap();
    let start = stat.rsplit_once(')').unwrap().1.split_whitespace().nth(19).unwrap();
    let own = gpool_ledger::layout::identity(pid, start.parse().unwrap());
    for slot in 0..gpool_ledger::layout::SLOTS_MAX as u64 {
        file.write_all_at(&own.to_ne_bytes(), 64 + slot * 192).unwrap();
    }
    assert_eq!(ledger.processes().unwrap().len(), 128);
    assert!(!ledger.has_uncounted().unwrap());
    let Some(mut program) = machine.program("dlsym") else { return };
    program.ready();
    assert_eq!(program.code("alloc 1"), OUT_OF_MEMORY);
    assert!(ledger.has_uncounted().unwrap());
    file.write_all_at(&0_u64.to_ne_bytes(), 64 + 7 * 192).unwrap();
    assert_eq!(program.code("alloc 1"), OK, "a slot became free");
    assert_eq!(ledger.take_back_dead().unwrap(), []);
}
