//! The features that work on this machine, for users to read: probed, not guessed.

use crate::cgroup::Site;
use crate::{child, pidfd, proc};

/// How a limit or guarantee is enforced here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LimitMechanism {
    /// By the kernel's control groups, version 2.
    CgroupV2,
    /// By the kernel's control groups, version 1.
    CgroupV1,
    /// By a limit on each process or user; weaker, since a job may have many processes.
    ProcessLimit,
    /// By finding the processes of a job and ending each.
    ProcessTree,
    No,
}

impl LimitMechanism {
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::CgroupV2 => "cgroup v2",
            Self::CgroupV1 => "cgroup v1",
            Self::ProcessLimit => "process limit",
            Self::ProcessTree => "process tree",
            Self::No => "no",
        }
    }
}

/// The features that an agent can use for jobs on this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Capabilities {
    /// Whether jobs can run as other users.
    pub other_users: bool,
    /// How all processes of a job are ended.
    pub kill: LimitMechanism,
    /// How host memory is limited.
    pub memory: LimitMechanism,
    /// How the number of processes is limited.
    pub processes: LimitMechanism,
    pub cpu: LimitMechanism,
    /// Whether a job can be prevented from opening other GPUs, and otherwise why not.
    pub devices: Result<(), String>,
    /// Whether processes can be referred to without races (Linux 5.3).
    pub pidfd: bool,
    /// Whether a reboot can be detected (`/proc/sys/kernel/random/boot_id`).
    pub boot_id: bool,
    /// Whether a job can be forked into its control group (Linux 5.7).
    pub born_in_cgroup: bool,
}

impl Capabilities {
    /// Probes this machine. Removes the control groups that it makes for that.
    #[must_use]
    pub fn probe() -> Self {
        let site = Site::open(&format!("gpool-probe-{}", std::process::id()));
        let found = Self::with(&site);
        site.close();
        found
    }

    /// The features with the control groups of a running agent.
    #[must_use]
    pub fn with(site: &Site) -> Self {
        let held = |v2: bool, v1: bool, else_held| match (v2, v1) {
            (true, _) => LimitMechanism::CgroupV2,
            (false, true) => LimitMechanism::CgroupV1,
            (false, false) => else_held,
        };
        Self {
            other_users: rustix::process::geteuid().is_root(),
            kill: held(site.unified.is_some(), false, LimitMechanism::ProcessTree),
            memory: held(
                site.controllers.memory,
                site.memory_v1.is_some(),
                LimitMechanism::ProcessLimit,
            ),
            processes: held(
                site.controllers.pids,
                site.pids_v1.is_some(),
                LimitMechanism::ProcessLimit,
            ),
            cpu: held(site.controllers.cpu, false, LimitMechanism::No),
            devices: site.can_filter_devices(),
            pidfd: matches!(pidfd::open(std::process::id()), Ok(Some(_))),
            boot_id: !proc::boot_id().is_empty(),
            born_in_cgroup: site.unified.is_some() && child::can_be_born_in_cgroup(),
        }
    }

    /// Warnings about missing features, a line each; [`Capabilities::devices`] has its own text.
    #[must_use]
    pub fn warnings(&self) -> Vec<&'static str> {
        let mut warnings = Vec::new();
        if self.kill != LimitMechanism::CgroupV2 {
            warnings.push(
                "no writable cgroup v2: gpool ends the processes of a job one by one, and some may \
                 survive if a shepherd is killed",
            );
        }
        if self.memory == LimitMechanism::ProcessLimit {
            warnings.push(
                "no memory cgroup: --mem limits each process of a job, not all of them together",
            );
        }
        if self.processes == LimitMechanism::ProcessLimit {
            warnings.push(
                "no pids cgroup: the number of processes is limited per user, and not for root",
            );
        }
        if self.cpu == LimitMechanism::No {
            warnings.push("no cpu controller: --cpus is counted, but not enforced");
        }
        if !self.pidfd {
            warnings.push("no pidfd (Linux before 5.3): gpool can't run jobs on this machine");
        }
        if !self.boot_id {
            warnings.push("no boot ID: gpool can't detect a restart of the machine");
        }
        warnings
    }
}
