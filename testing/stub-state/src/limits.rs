//! Memory limits of cgroups, as drivers since 615 have them. They are kept beside the records of
//! live processes.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The limits of the processes in one cgroup on one device, in bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limit {
    /// The device's index in the state file.
    pub device: usize,
    /// Guaranteed memory.
    pub soft: u64,
    /// The most memory.
    pub hard: u64,
    /// The folder of the cgroup.
    pub cgroup: PathBuf,
}

impl Limit {
    /// Whether a process is in the cgroup, or in one below it.
    #[must_use]
    pub fn covers(&self, pid: u32) -> bool {
        cgroup_of(pid).is_some_and(|cgroup| cgroup.starts_with(&self.cgroup))
    }

    fn parse(line: &str) -> Option<Self> {
        let mut words = line.splitn(4, ' ');
        Some(Self {
            device: words.next()?.parse().ok()?,
            soft: words.next()?.parse().ok()?,
            hard: words.next()?.parse().ok()?,
            cgroup: PathBuf::from(words.next()?),
        })
    }
}

/// Reads the limits; those of removed cgroups are gone.
pub(crate) fn read(file: &Path) -> Vec<Limit> {
    let text = fs::read_to_string(file).unwrap_or_default();
    text.lines().filter_map(Limit::parse).filter(|limit| limit.cgroup.is_dir()).collect()
}

pub(crate) fn write(file: &Path, limits: &[Limit]) -> io::Result<()> {
    let line =
        |it: &Limit| format!("{} {} {} {}\n", it.device, it.soft, it.hard, it.cgroup.display());
    let draft = file.with_extension("draft");
    fs::write(&draft, limits.iter().map(line).collect::<String>())?;
    fs::rename(draft, file)
}

/// The folder of a process's cgroup, where cgroup v2 is mounted.
#[must_use]
pub fn cgroup_of(pid: u32) -> Option<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mounts").ok()?;
    let mount = mounts.lines().find_map(|line| {
        let mut words = line.split(' ').skip(1);
        let folder = words.next()?;
        (words.next()? == "cgroup2").then_some(folder)
    })?;
    let own = fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?;
    let path = own.lines().find_map(|line| line.strip_prefix("0::"))?;
    Some(Path::new(mount).join(path.trim_start_matches('/')))
}
