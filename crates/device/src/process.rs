//! The owner and program of a process, from `/proc`. A process may end while it is read: then
//! nothing is known of it, which is no error.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// The identity of a process in `/proc`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Identity {
    /// The owner's name, or the user ID if it has no name.
    pub user: Option<String>,
    /// The program.
    pub name: Option<String>,
    /// The start time, in ticks since boot: distinguishes two processes with the same ID.
    pub started: Option<u64>,
}

pub struct Lookup {
    proc: PathBuf,
    passwd: PathBuf,
    /// Names by user ID; they do not change while the agent runs.
    users: HashMap<u32, String>,
}

impl Default for Lookup {
    fn default() -> Self {
        Self::new()
    }
}

impl Lookup {
    /// Looks at this machine.
    pub fn new() -> Self {
        Self::at(Path::new("/proc"), Path::new("/etc/passwd"))
    }

    /// Looks at other files than those of this machine.
    pub fn at(proc: &Path, passwd: &Path) -> Self {
        Self { proc: proc.into(), passwd: passwd.into(), users: HashMap::new() }
    }

    pub fn identify(&mut self, pid: u32) -> Identity {
        let folder = self.proc.join(pid.to_string());
        let status = std::fs::read(folder.join("status")).unwrap_or_default();
        let uid = line(&String::from_utf8_lossy(&status), "Uid:");
        let name = std::fs::read(folder.join("comm")).ok();
        let stat = std::fs::read(folder.join("stat")).unwrap_or_default();
        Identity {
            user: uid.map(|uid| self.user(uid)),
            name: name.map(|name| String::from_utf8_lossy(&name).trim_end().to_string()),
            started: start_ticks(&String::from_utf8_lossy(&stat)),
        }
    }

    /// The name of a user, or else the number.
    pub fn user(&mut self, uid: u32) -> String {
        if let Some(name) = self.users.get(&uid) {
            return name.clone();
        }
        let passwd = std::fs::read(&self.passwd).unwrap_or_default();
        let name = String::from_utf8_lossy(&passwd)
            .lines()
            .find_map(|line| {
                let mut fields = line.split(':');
                let name = fields.next()?;
                (fields.nth(1)?.parse() == Ok(uid)).then(|| name.to_string())
            })
            .unwrap_or_else(|| uid.to_string());
        self.users.insert(uid, name.clone());
        name
    }
}

/// The first number of a line of `/proc/PID/status`.
fn line(status: &str, key: &str) -> Option<u32> {
    let values = status.lines().find_map(|line| line.strip_prefix(key))?;
    values.split_whitespace().next()?.parse().ok()
}

/// Field 22 of `/proc/PID/stat`; the program's name before it may hold spaces and parentheses.
fn start_ticks(stat: &str) -> Option<u64> {
    let (_, after_name) = stat.rsplit_once(')')?;
    after_name.split_whitespace().nth(19)?.parse().ok()
}
