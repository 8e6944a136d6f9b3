//! Control groups: kill a whole tree at once (version 2, if writable) and limit it (controllers of
//! version 2, else version 1), also the devices that it can open. Changes only groups that were
//! made here, and enables controllers in the own group.

use std::fs::{self, File};
use std::io::{self, Read, Seek, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde::{Deserialize, Serialize};

use crate::device_filter::DeviceFilter;

/// The folders for new groups of this process, and the controllers that work there. Plain paths, so
/// that another process can use them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Site {
    /// A folder of version 2 with groups that can be killed.
    pub unified: Option<PathBuf>,
    /// Controllers of version 2 that work there.
    pub controllers: Controllers,
    /// A folder of version 1 that limits memory.
    pub memory_v1: Option<PathBuf>,
    /// A folder of version 1 that limits processes.
    pub pids_v1: Option<PathBuf>,
    /// A folder of version 1 that limits devices; only where no group of version 2 can be made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub devices_v1: Option<PathBuf>,
}

/// The limits that work.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Controllers {
    pub memory: bool,
    /// Processes and threads.
    pub pids: bool,
    pub cpu: bool,
}

/// The limits of one group; `None` is no limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of host memory.
    pub memory: Option<u64>,
    /// Processes and threads.
    pub pids: Option<u32>,
    /// Thousandths of a CPU core.
    pub cpu_milli: Option<u64>,
}

impl Site {
    /// Finds the folders below this process's own group that allow new groups, and makes a folder
    /// of that name in each. Missing ones are absent.
    #[must_use]
    pub fn open(name: &str) -> Self {
        let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
        let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        let mut site = Self::default();
        if let Some(home) = home(&mounts, &own, None) {
            (site.unified, site.controllers) = open_unified(&home, name);
        }
        let v1 = |controller: &str, file: &str| {
            let folder = home(&mounts, &own, Some(controller))?.join(name);
            make(&folder).ok()?;
            folder.join(file).exists().then_some(folder)
        };
        if !site.controllers.memory {
            site.memory_v1 = v1("memory", "memory.limit_in_bytes");
        }
        if !site.controllers.pids {
            site.pids_v1 = v1("pids", "pids.max");
        }
        if site.unified.is_none() {
            site.devices_v1 = v1("devices", "devices.deny");
        }
        site
    }

    /// Makes a group with limits. Limits that don't work here are skipped; [`Group::limited`]
    /// returns those that apply. `None` if no group can be made.
    ///
    /// # Errors
    /// If the device filter can't be applied; there is no group then.
    pub fn group(
        &self,
        name: &str,
        limits: Limits,
        devices: Option<&DeviceFilter>,
    ) -> io::Result<Option<Group>> {
        let mut group = self.limited(name, limits);
        let Some(devices) = devices else { return Ok(group.is_somewhere().then_some(group)) };
        if let Some(folder) = self.devices_v1.as_ref().map(|folder| folder.join(name))
            && make(&folder).is_ok()
        {
            group.devices_v1 = Some(folder);
        }
        match group.filter_devices(devices) {
            Ok(()) => Ok(Some(group)),
            Err(error) => {
                group.remove();
                Err(error)
            }
        }
    }

    /// Whether a group's devices can be limited here; otherwise the reason, for users.
    pub fn can_filter_devices(&self) -> Result<(), String> {
        let none = DeviceFilter { majors: [0].into(), ..DeviceFilter::default() };
        let made = self.group("probe-devices", Limits::default(), Some(&none));
        let group = made.map_err(|error| error.to_string())?;
        group.iter().for_each(Group::remove);
        Ok(())
    }

    fn limited(&self, name: &str, limits: Limits) -> Group {
        let mut group = Group::default();
        if let Some(folder) = self.unified.as_ref().map(|unified| unified.join(name))
            && make(&folder).is_ok()
        {
            group.limit_unified(&folder, self.controllers, limits);
            group.handle = File::open(&folder).ok().map(OwnedFd::from);
            group.unified = Some(folder);
        }
        if let (Some(memory), Some(folder)) = (limits.memory, &self.memory_v1) {
            let folder = folder.join(name);
            if make(&folder).is_ok()
                && write(&folder.join("memory.limit_in_bytes"), &memory.to_string()).is_ok()
            {
                // Otherwise the job could use swap without limit. The file needs swap accounting.
                let _ = write(&folder.join("memory.memsw.limit_in_bytes"), &memory.to_string());
                group.limited.memory = true;
                group.memory_v1 = Some(folder);
            }
        }
        if let (Some(pids), Some(folder)) = (limits.pids, &self.pids_v1) {
            let folder = folder.join(name);
            if make(&folder).is_ok() && write(&folder.join("pids.max"), &pids.to_string()).is_ok() {
                group.limited.pids = true;
                group.pids_v1 = Some(folder);
            }
        }
        group
    }

    /// A group that this or another process made earlier.
    #[must_use]
    pub fn existing(&self, name: &str) -> Group {
        let there = |folder: &Option<PathBuf>| {
            folder.as_ref().map(|folder| folder.join(name)).filter(|folder| folder.exists())
        };
        Group {
            unified: there(&self.unified),
            memory_v1: there(&self.memory_v1),
            pids_v1: there(&self.pids_v1),
            devices_v1: there(&self.devices_v1),
            ..Group::default()
        }
    }

    /// The names of all groups here, made by any process.
    #[must_use]
    pub fn groups(&self) -> Vec<String> {
        let mut names = std::collections::BTreeSet::new();
        for folder in self.folders() {
            let entries = fs::read_dir(folder).into_iter().flatten().flatten();
            let folders = entries.filter(|entry| entry.file_type().is_ok_and(|it| it.is_dir()));
            names.extend(folders.filter_map(|entry| entry.file_name().into_string().ok()));
        }
        names.into_iter().collect()
    }

    /// Removes the folders of this site if they are empty.
    pub fn close(&self) {
        for folder in self.folders() {
            let _ = fs::remove_dir(folder);
        }
    }

    fn folders(&self) -> impl Iterator<Item = &PathBuf> {
        let all = [&self.unified, &self.memory_v1, &self.pids_v1, &self.devices_v1];
        all.into_iter().flatten()
    }
}

/// One group: a tree of processes.
#[derive(Debug, Default)]
pub struct Group {
    /// The folder in version 2.
    pub unified: Option<PathBuf>,
    handle: Option<OwnedFd>,
    /// The folder for memory in version 1.
    pub memory_v1: Option<PathBuf>,
    pids_v1: Option<PathBuf>,
    devices_v1: Option<PathBuf>,
    limited: Controllers,
}

impl Group {
    #[must_use]
    pub fn limited(&self) -> Controllers {
        self.limited
    }

    /// The descriptor with which [`crate::child::fork`] forks into the group.
    #[must_use]
    pub fn handle(&self) -> Option<BorrowedFd<'_>> {
        self.handle.as_ref().map(AsFd::as_fd)
    }

    /// Moves this process into the version 1 parts, and into the version 2 part unless it was
    /// forked into it.
    ///
    /// # Errors
    /// If a part refuses; its limit would not apply.
    pub fn enter(&self, born_in_unified: bool) -> io::Result<()> {
        let unified = self.unified.as_ref().filter(|_| !born_in_unified);
        for folder in unified.into_iter().chain(self.folders_v1()) {
            write(&folder.join("cgroup.procs"), "0")?;
        }
        Ok(())
    }

    /// Kills every process in the group, new ones included; `false` if that is not supported here.
    #[must_use]
    pub fn kill(&self) -> bool {
        let Some(folder) = &self.unified else { return false };
        write(&folder.join("cgroup.kill"), "1").is_ok()
    }

    /// Whether all processes in the group can be stopped at once.
    #[must_use]
    pub fn can_freeze(&self) -> bool {
        self.unified.as_ref().is_some_and(|folder| folder.join("cgroup.freeze").exists())
    }

    /// Stops every process in the group, new ones included; `false` if that took longer than
    /// `most`.
    #[must_use]
    pub fn freeze(&self, most: Duration) -> bool {
        let Some(folder) = &self.unified else { return false };
        let Ok(events) = File::open(folder.join("cgroup.events")) else { return false };
        write(&folder.join("cgroup.freeze"), "1").is_ok() && says(events, "frozen 1", most)
    }

    /// Lets every process in the group go on.
    pub fn thaw(&self) {
        if let Some(folder) = &self.unified {
            // A group that can't be thawed was not frozen either.
            let _ = write(&folder.join("cgroup.freeze"), "0");
        }
    }

    /// Whether the group has processes. Only version 2 can tell.
    #[must_use]
    pub fn is_populated(&self) -> bool {
        let events = self.unified.as_ref().map(|folder| folder.join("cgroup.events"));
        let text = events.and_then(|events| fs::read_to_string(events).ok());
        text.is_some_and(|text| text.contains("populated 1"))
    }

    /// The number of its processes that the kernel killed for lack of memory.
    #[must_use]
    pub fn oom_kills(&self) -> u64 {
        let files = [
            self.unified.as_ref().map(|folder| folder.join("memory.events")),
            self.memory_v1.as_ref().map(|folder| folder.join("memory.oom_control")),
        ];
        let count = |path: &PathBuf| -> Option<u64> {
            let text = fs::read_to_string(path).ok()?;
            text.lines().find_map(|line| line.strip_prefix("oom_kill "))?.trim().parse().ok()
        };
        files.iter().flatten().filter_map(count).sum()
    }

    /// Limits the devices that its processes can open, or changes that limit. Open descriptors are
    /// not affected.
    ///
    /// # Errors
    /// If no control group here can limit devices.
    pub fn filter_devices(&self, filter: &DeviceFilter) -> io::Result<()> {
        match (&self.unified, &self.devices_v1) {
            (Some(folder), _) => filter.apply(folder),
            (None, Some(folder)) => filter.apply_v1(folder),
            (None, None) => Err(io::Error::new(
                io::ErrorKind::Unsupported,
                "it needs root and a writable cgroup v2 (Linux 5.14) or devices controller of v1",
            )),
        }
    }

    /// Removes the group, which must be empty.
    pub fn remove(&self) {
        for folder in self.unified.iter().chain(self.folders_v1()) {
            let _ = fs::remove_dir(folder);
        }
    }

    fn folders_v1(&self) -> impl Iterator<Item = &PathBuf> {
        [&self.memory_v1, &self.pids_v1, &self.devices_v1].into_iter().flatten()
    }

    fn is_somewhere(&self) -> bool {
        self.unified.is_some() || self.folders_v1().next().is_some()
    }

    /// Writes the limits into a folder of version 2, where its controllers have files.
    pub fn limit_unified(&mut self, folder: &Path, has: Controllers, limits: Limits) {
        if let Some(memory) = limits.memory.filter(|_| has.memory) {
            self.limited.memory = write(&folder.join("memory.max"), &memory.to_string()).is_ok();
            let _ = write(&folder.join("memory.swap.max"), "0");
            // A job that has lost a process is useless: kill all of them.
            let _ = write(&folder.join("memory.oom.group"), "1");
        }
        if let Some(pids) = limits.pids.filter(|_| has.pids) {
            self.limited.pids = write(&folder.join("pids.max"), &pids.to_string()).is_ok();
        }
        if let Some(milli) = limits.cpu_milli.filter(|_| has.cpu) {
            // Microseconds in each tenth of a second; the kernel's minimum is a thousand.
            let quota = milli.saturating_mul(100).max(1000);
            self.limited.cpu = write(&folder.join("cpu.max"), &format!("{quota} 100000")).is_ok();
        }
    }
}

/// Waits until a group's events contain a text; `false` if that took too long.
fn says(mut events: File, what: &str, most: Duration) -> bool {
    let give_up = Instant::now() + most;
    loop {
        let mut text = String::new();
        if events.rewind().and_then(|()| events.read_to_string(&mut text)).is_err() {
            return false;
        }
        if text.contains(what) {
            return true;
        }
        let left = give_up.saturating_duration_since(Instant::now());
        let Ok(left) = Timespec::try_from(left) else { return false };
        // The kernel reports each change since the last read.
        match poll(&mut [PollFd::new(&events, PollFlags::PRI)], Some(&left)) {
            Ok(0) => return false,
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(_) => return false,
        }
    }
}

/// The group below its own into which a process moves so that sibling groups can have limits.
const SUPERVISOR: &str = "gpool-supervisor";

/// The folder of this process's group: of version 2, or of a controller of version 1.
pub fn home(mounts: &str, own: &str, controller: Option<&str>) -> Option<PathBuf> {
    let mount = mounts.lines().find_map(|line| {
        let mut fields = line.split(' ');
        let (path, kind, options) = (fields.nth(1)?, fields.next()?, fields.next()?);
        let fits = match controller {
            None => kind == "cgroup2",
            Some(name) => kind == "cgroup" && options.split(',').any(|option| option == name),
        };
        fits.then_some(path)
    })?;
    let group = own.lines().find_map(|line| {
        let mut fields = line.splitn(3, ':');
        let (number, controllers, path) = (fields.next()?, fields.next()?, fields.next()?);
        let fits = match controller {
            None => number == "0",
            Some(name) => controllers.split(',').any(|controller| controller == name),
        };
        fits.then_some(path)
    })?;
    // Another agent in this process has moved it there; that agent's groups are beside it.
    let group = group.strip_suffix(&format!("/{SUPERVISOR}")).unwrap_or(group);
    let home = Path::new(mount).join(group.trim_start_matches('/'));
    // In a container the path may be the host's.
    if home.is_dir() { Some(home) } else { Some(PathBuf::from(mount)) }
}

fn open_unified(home: &Path, name: &str) -> (Option<PathBuf>, Controllers) {
    let folder = home.join(name);
    if make(&folder).is_err() || !folder.join("cgroup.kill").exists() {
        let _ = fs::remove_dir(&folder);
        return (None, Controllers::default());
    }
    hand_down(home);
    hand_down(&folder);
    let probe = folder.join("probe");
    if make(&probe).is_err() {
        return (None, Controllers::default());
    }
    let has = |file: &str| probe.join(file).exists();
    let controllers =
        Controllers { memory: has("memory.max"), pids: has("pids.max"), cpu: has("cpu.max") };
    let _ = fs::remove_dir(&probe);
    (Some(folder), controllers)
}

/// Enables a folder's controllers for the groups below it. The kernel refuses this while the folder
/// has processes. If this process is the only one, as in its own service, it moves down.
fn hand_down(folder: &Path) {
    let available = fs::read_to_string(folder.join("cgroup.controllers")).unwrap_or_default();
    let switch = folder.join("cgroup.subtree_control");
    // The driver of the devices may limit their memory by `dmem`; `io` only counts.
    for controller in ["memory", "pids", "cpu", "dmem", "io"] {
        if !available.split_whitespace().any(|name| name == controller) {
            continue;
        }
        let refused = write(&switch, &format!("+{controller}")).is_err();
        if refused && is_alone(folder) {
            let supervisor = folder.join(SUPERVISOR);
            if make(&supervisor).is_ok() && write(&supervisor.join("cgroup.procs"), "0").is_ok() {
                let _ = write(&switch, &format!("+{controller}"));
            }
        }
    }
}

fn is_alone(folder: &Path) -> bool {
    let processes = fs::read_to_string(folder.join("cgroup.procs")).unwrap_or_default();
    processes.trim() == std::process::id().to_string()
}

fn make(folder: &Path) -> io::Result<()> {
    match fs::create_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        other => other,
    }
}

/// Writes without creating: a missing file means that the limit does not exist here.
fn write(path: &Path, text: &str) -> io::Result<()> {
    File::options().write(true).open(path)?.write_all(text.as_bytes())
}
