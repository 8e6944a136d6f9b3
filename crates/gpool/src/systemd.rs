//! Server and agent as systemd services: their units, and the notifications to systemd. Nothing
//! here is needed without systemd.

use std::path::{Path, PathBuf};
use std::time::Duration;

use gpool_client::Client;
use sd_notify::NotifyState;

/// A program that systemd can run, with its command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Daemon<'a> {
    Server,
    /// The agent of a server on another machine, with its flags.
    Agent(&'a [String]),
}

impl Daemon<'_> {
    /// The name of the unit.
    #[must_use]
    pub fn unit_name(self) -> &'static str {
        match self {
            Self::Server => "gpool.service",
            Self::Agent(_) => "gpool-agent.service",
        }
    }

    /// The verb that writes the unit.
    #[must_use]
    pub fn verb(self) -> &'static str {
        match self {
            Self::Server => "up",
            Self::Agent(_) => "agent",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServiceScope {
    /// A user's own service; it needs no root.
    User,
    /// The service of the machine; it runs jobs of every user.
    System,
}

impl ServiceScope {
    /// The usual scope of the caller.
    #[must_use]
    pub fn usual() -> Self {
        if rustix::process::geteuid().is_root() { Self::System } else { Self::User }
    }

    /// The path of a unit; `None` for a user without a home.
    #[must_use]
    pub fn path(self, daemon: Daemon<'_>) -> Option<PathBuf> {
        let folder = match self {
            Self::System => PathBuf::from("/etc/systemd/system"),
            Self::User => {
                let set = |name| std::env::var_os(name).filter(|it| !it.is_empty());
                let home = || Some(PathBuf::from(set("HOME")?).join(".config"));
                set("XDG_CONFIG_HOME").map(PathBuf::from).or_else(home)?.join("systemd/user")
            }
        };
        Some(folder.join(daemon.unit_name()))
    }

    /// The path of the unit that a package of gpool brings, which one at [`Self::path`] overrides.
    #[must_use]
    pub fn packaged_path(self, daemon: Daemon<'_>) -> Option<PathBuf> {
        let folder = Path::new("/usr/lib/systemd/system");
        (self == Self::System).then(|| folder.join(daemon.unit_name()))
    }

    /// The path of the unit that systemd uses; `None` if there is none.
    #[must_use]
    pub fn present_path(self, daemon: Daemon<'_>) -> Option<PathBuf> {
        let paths = [self.path(daemon), self.packaged_path(daemon)];
        paths.into_iter().flatten().find(|path| path.exists())
    }

    /// The command `systemctl` with the flags of the scope.
    #[must_use]
    pub fn systemctl(self) -> &'static [&'static str] {
        match self {
            Self::User => &["systemctl", "--user"],
            Self::System => &["systemctl"],
        }
    }
}

/// The part that all units share. Jobs are children of the service and inherit its confinement, so
/// the unit sets nothing that could restrict a job: no private folders, no read-only system, no
/// system call filter. The program itself protects users from each other.
const SERVICE: &str = "\
# It says when it works.
Type=notify
NotifyAccess=main
TimeoutStartSec=180
# Jobs and their shepherds go on when it stops, and it takes them over when it is back.
KillMode=process
Restart=on-failure
RestartSec=2
# It makes a group for each job below its own; a job that runs out of memory is no reason to stop.
Delegate=yes
OOMPolicy=continue
TasksMax=infinity
LimitNOFILE=524288
";

/// The text of the unit that starts this program.
#[must_use]
pub fn unit(daemon: Daemon<'_>, scope: ServiceScope, program: &Path) -> String {
    let quoted = |word: &str| format!("\"{}\"", escaped(word));
    let mut line = format!("{} {}", quoted(&program.display().to_string()), daemon.verb());
    let (of, own) = match daemon {
        Daemon::Server => {
            line.push_str(" --foreground");
            let own = "# It says regularly that it still answers.\nWatchdogSec=120\n";
            ("gives GPUs to jobs", own)
        }
        Daemon::Agent(flags) => {
            flags.iter().for_each(|flag| line.push_str(&format!(" {}", quoted(flag))));
            let own = "# The machine is no node any more: another start is no help.\n\
                       RestartPreventExitStatus=5\n";
            ("runs the jobs of a server on another machine", own)
        }
    };
    let verb = daemon.verb();
    let (after, install, folders) = match scope {
        ServiceScope::System => (
            "After=local-fs.target remote-fs.target network-online.target \
             nvidia-persistenced.service\nWants=network-online.target\n",
            "multi-user.target",
            "# /run/gpool holds the socket, /var/lib/gpool what must not be forgotten.\n\
             RuntimeDirectory=gpool\nRuntimeDirectoryMode=0755\nRuntimeDirectoryPreserve=yes\n\
             StateDirectory=gpool\nStateDirectoryMode=0711\n\
             Environment=GPOOL_SOCKET=/run/gpool/api.sock GPOOL_STATE_DIR=/var/lib/gpool\n\
             # Jobs of users end before the server does, where memory runs out.\n\
             OOMScoreAdjust=-900\n",
        ),
        ServiceScope::User => (
            "",
            "default.target",
            "RuntimeDirectory=gpool\nRuntimeDirectoryMode=0700\nRuntimeDirectoryPreserve=yes\n",
        ),
    };
    format!(
        "# Written by gpool {verb} --systemd.\n\
         [Unit]\nDescription=gpool {of}\n{after}\n\
         [Service]\n{SERVICE}{own}ExecStart={line}\n{folders}\n\
         [Install]\nWantedBy={install}\n"
    )
}

/// A path, escaped for quotes in a unit.
fn escaped(path: &str) -> String {
    let mut text = String::new();
    for c in path.chars() {
        match c {
            '"' | '\\' => text.extend(['\\', c]),
            '%' | '$' => text.extend([c, c]),
            c => text.push(c),
        }
    }
    text
}

/// Tells systemd, if it started this process, that the server answers; then keeps the watchdog
/// alive while the server answers.
pub fn ready(socket: &Path) {
    let pid = std::process::id();
    let status = format!("answers on {}", socket.display());
    tell(&[NotifyState::MainPid(pid), NotifyState::Status(&status), NotifyState::Ready]);
    let Some(every) = sd_notify::watchdog_enabled() else { return };
    let client = Client::at(socket).with_retries(Duration::ZERO).with_timeout(Some(every / 2));
    let watch = move || {
        loop {
            std::thread::sleep(every / 3);
            // Asks as a client would, so a server that hangs fails the check.
            if client.ready().is_ok() {
                tell(&[NotifyState::Watchdog]);
            }
        }
    };
    // Without the thread, the watchdog of systemd restarts the server after a while, which ends no
    // job.
    drop(std::thread::Builder::new().name("watchdog".to_owned()).spawn(watch));
}

/// Tells systemd, if it started this process, that the agent works.
pub fn agent_ready() {
    tell(&[NotifyState::MainPid(std::process::id()), NotifyState::Ready]);
}

/// Tells systemd that the server stops.
pub fn stopping() {
    tell(&[NotifyState::Stopping]);
}

fn tell(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        tracing::warn!(%error, "can't notify systemd");
    }
}
