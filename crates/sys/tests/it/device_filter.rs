//! Limits the device nodes that the processes of a control group can open. The tests use real
//! nodes of the kernel in place of a GPU's.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use gpool_sys::cgroup::{Group, Limits, Site};
use gpool_sys::device_filter::DeviceFilter;

/// The major number of memory devices, and minor numbers of nodes that everyone can open.
const MEMORY: u32 = 1;
const NULL: (u32, u32) = (MEMORY, 3);
const ZERO: (u32, u32) = (MEMORY, 5);

fn only<const N: usize>(allowed: [(u32, u32); N]) -> DeviceFilter {
    DeviceFilter { majors: [MEMORY].into(), allowed: allowed.into() }
}

/// A site for groups, if devices can be limited there; removed at the end.
struct Here(Site);

impl Here {
    fn new(test: &str) -> Option<Self> {
        let here = Self(Site::open(&format!("gpool-filter-{test}-{}", std::process::id())));
        match here.0.can_filter_devices() {
            Ok(()) => Some(here),
            Err(why) => {
                eprintln!("skipped: {why}");
                None
            }
        }
    }

    fn group(&self, filter: &DeviceFilter) -> Group {
        self.0.group("job", Limits::default(), Some(filter)).unwrap().unwrap()
    }

    /// Whether a new process in the group can run this line of a shell; panics if it fails with
    /// another error than `EPERM`.
    fn can(&self, line: &str) -> bool {
        let folders = [&self.0.unified, &self.0.devices_v1].into_iter().flatten();
        let files: Vec<PathBuf> = folders.map(|it| it.join("job/cgroup.procs")).collect();
        let enter = files.iter().map(|file| format!("echo 0 > {} && ", file.display()));
        let _alone = crate::descriptors();
        let ran = Command::new("sh")
            .args(["-c", &format!("{}{line}", enter.collect::<String>())])
            .env("LC_ALL", "C")
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&ran.stderr);
        let is_refused = said.contains("Operation not permitted");
        assert_eq!(ran.status.success(), !is_refused, "{line}: {said}");
        !is_refused
    }

    fn can_open(&self, path: &str) -> bool {
        self.can(&format!("exec 3< {path}"))
    }
}

impl Drop for Here {
    fn drop(&mut self) {
        self.0.existing("job").remove();
        self.0.close();
    }
}

#[test]
fn only_allowed_devices_of_a_major_number_can_be_opened() {
    let Some(here) = Here::new("open") else { return };
    let _group = here.group(&only([NULL]));
    assert!(here.can_open("/dev/null"));
    assert!(!here.can_open("/dev/zero"));
    // Of another major number, and no device at all.
    assert!(here.can_open("/dev/ptmx"));
    assert!(here.can_open("/proc/self/stat"));
    // Nor can a program of root make a node of its own.
    let folder = tempfile::tempdir().unwrap();
    let own = folder.path().join("own");
    assert!(!here.can(&format!("mknod {} c {} {}", own.display(), ZERO.0, ZERO.1)));
    assert!(here.can(&format!("mknod {} b {} {}", own.display(), ZERO.0, ZERO.1)));
}

#[test]
fn several_major_numbers_are_limited_at_once() {
    let Some(here) = Here::new("majors") else { return };
    // Terminals, and one that has no node here.
    let filter = DeviceFilter { majors: [MEMORY, 5, 4095].into(), allowed: [(5, 2)].into() };
    let _group = here.group(&filter);
    assert!(here.can_open("/dev/ptmx"));
    assert!(!here.can_open("/dev/null"));
}

#[test]
fn the_allowed_devices_of_a_group_can_change() {
    let Some(here) = Here::new("change") else { return };
    // Each call finds the program by the group alone: no descriptor of an earlier call is open.
    drop(here.group(&only([NULL])));
    for (allowed, null, zero) in [
        (BTreeSet::from([ZERO]), false, true),
        (BTreeSet::from([NULL, ZERO]), true, true),
        (BTreeSet::new(), false, false),
    ] {
        let filter = DeviceFilter { majors: [MEMORY].into(), allowed };
        here.0.existing("job").filter_devices(&filter).unwrap();
        assert_eq!((here.can_open("/dev/null"), here.can_open("/dev/zero")), (null, zero));
    }
}

#[test]
fn a_group_below_can_only_allow_less() {
    let Some(here) = Here::new("below") else { return };
    let Some(folder) = here.group(&only([NULL])).unified else {
        return eprintln!("skipped: groups of version 1 are not nested here");
    };
    let below = folder.join("below");
    std::fs::create_dir(&below).unwrap();
    only([NULL, ZERO]).apply(&below).unwrap();
    let enter = format!("echo 0 > {}/cgroup.procs", below.display());
    assert!(here.can(&format!("{enter} && exec 3< /dev/null")));
    assert!(!here.can(&format!("{enter} && exec 3< /dev/zero")));
    std::fs::remove_dir(below).unwrap();
}

#[test]
fn version_1_limits_devices_too() {
    let name = format!("gpool-filter-v1-{}", std::process::id());
    let own = std::fs::read_to_string("/proc/self/cgroup").unwrap();
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap();
    let Some(home) = gpool_sys::cgroup::home(&mounts, &own, Some("devices")) else {
        return eprintln!("skipped: no devices controller");
    };
    let folder = home.join(name);
    if std::fs::create_dir(&folder).is_err() {
        return eprintln!("skipped: no group can be made in {}", home.display());
    }
    let here = Here(Site { devices_v1: Some(folder), ..Site::default() });
    if let Err(why) = here.0.can_filter_devices() {
        return eprintln!("skipped: {why}");
    }
    drop(here.group(&only([NULL])));
    assert!(here.can_open("/dev/null") && here.can_open("/dev/ptmx"));
    assert!(!here.can_open("/dev/zero"));
    here.0.existing("job").filter_devices(&only([ZERO])).unwrap();
    assert!(!here.can_open("/dev/null"));
    assert!(here.can_open("/dev/zero"));
}

#[test]
fn a_filter_that_does_not_fit_changes_nothing() {
    let many = |n: u32| (0..n).map(|minor| (MEMORY, minor)).collect();
    let most = DeviceFilter::ALLOWED_MOST;
    let filter = DeviceFilter { majors: [MEMORY].into(), allowed: many(most + 1) };
    let refused = filter.apply(Path::new("/nowhere")).unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::InvalidInput);
    let Some(here) = Here::new("most") else { return };
    let _group = here.group(&DeviceFilter { majors: [MEMORY].into(), allowed: many(most) });
    assert!(here.0.existing("job").filter_devices(&filter).is_err());
    assert!(here.can_open("/dev/null"));
}

#[test]
fn where_no_group_can_limit_devices_the_reason_is_returned() {
    let why = Site::default().can_filter_devices().unwrap_err();
    assert!(why.contains("cgroup v2"), "{why}");
    let dir = tempfile::tempdir().unwrap();
    // A folder that is no control group.
    let site = Site { unified: Some(dir.path().to_owned()), ..Site::default() };
    assert!(site.can_filter_devices().is_err());
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "nothing is left");
}
