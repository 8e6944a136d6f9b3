//! The owner and program of a process, from `/proc`. A process may end while it is read: then
//! nothing is known of it, which is no error.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// The identity of a process in `/proc`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Identity {
    /// The owner's name, or the user ID if it has no name.
    pub(crate) user: Option<String>,
    /// The program.
    pub(crate) name: Option<String>,
    /// The start time, in ticks since boot: distinguishes two processes with the same ID.
    pub(crate) started: Option<u64>,
}

/// Looks processes up.
pub(crate) struct Lookup {
    proc: PathBuf,
    passwd: PathBuf,
    /// Names by user ID; they do not change while the agent runs.
    users: HashMap<u32, String>,
}

impl Lookup {
    pub(crate) fn new() -> Self {
        Self::at(Path::new("/proc"), Path::new("/etc/passwd"))
    }

    fn at(proc: &Path, passwd: &Path) -> Self {
        Self { proc: proc.into(), passwd: passwd.into(), users: HashMap::new() }
    }

    pub(crate) fn identify(&mut self, pid: u32) -> Identity {
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

    fn user(&mut self, uid: u32) -> String {
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

#[cfg(test)]
#[allow(clippy::unwrap_used)] // A test may end by a panic.
mod tests {
    use super::*;

    #[test]
    fn a_process_has_owner_program_and_start_time() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("7");
        std::fs::create_dir(&folder).unwrap();
        std::fs::write(folder.join("status"), "Name:\tx\nUid:\t1007\t0\t0\t0\n").unwrap();
        std::fs::write(folder.join("comm"), "a (b) c\n").unwrap();
        let fields = (4..=52).map(|n| n.to_string()).collect::<Vec<_>>().join(" ");
        std::fs::write(folder.join("stat"), format!("7 (a (b) c) S {fields}")).unwrap();
        let passwd = dir.path().join("passwd");
        std::fs::write(&passwd, "root:x:0:0::/:/bin/sh\nalice:x:1007:1::/:/bin/sh\n").unwrap();
        let mut lookup = Lookup::at(dir.path(), &passwd);
        let expected = Identity {
            user: Some("alice".into()),
            name: Some("a (b) c".into()),
            started: Some(22),
        };
        assert_eq!(lookup.identify(7), expected);
        assert_eq!(lookup.user(4242), "4242", "no name, so the number");
    }

    #[test]
    fn a_process_that_vanished_is_unknown() {
        let dir = tempfile::tempdir().unwrap();
        let mut lookup = Lookup::at(dir.path(), &dir.path().join("passwd"));
        assert_eq!(lookup.identify(1), Identity::default());
    }

    #[test]
    fn this_process_is_found_in_the_real_proc() {
        let me = Lookup::new().identify(std::process::id());
        assert!(me.user.is_some() && me.name.is_some() && me.started.is_some(), "{me:?}");
    }
}
