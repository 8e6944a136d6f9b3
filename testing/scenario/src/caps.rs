//! The lines with the caps of users, read and written: `cap all  running 2  gpus 4  pending 10`,
//! `cap ana  running 1`.

use std::fmt;
use std::str::FromStr as _;
use std::sync::Arc;

use gpool_model::policy::{Caps, UserCaps};
use gpool_model::{MilliCpu, MilliGpu, parse};

use crate::reader::Reader;
use crate::words::{ScenarioError, Words};

impl Reader {
    /// Reads the words after `cap`.
    pub fn cap(&mut self, words: &mut Words<'_>) -> Result<(), ScenarioError> {
        let user = words.need("a user, or all")?;
        let mut caps = Caps::default();
        while let Some(word) = words.next() {
            let mut count = || words.parse("a number", u64::from_str);
            match word {
                "running" => caps.running_jobs = Some(count()?),
                "pending" => caps.pending_jobs = Some(count()?),
                "gpus" => {
                    let cores = words.parse("a number of GPUs", parse::cpus)?;
                    caps.gpus = Some(MilliGpu::new(cores.get()));
                }
                word => return Err(words.unknown(word, "running, pending or gpus")),
            }
        }
        let all = &mut self.situation.policy.user_caps;
        match user {
            "all" => all.all = caps,
            user => drop(all.of.insert(Arc::from(user), caps)),
        }
        Ok(())
    }
}

/// Writes a line for all users, and one for each user with own caps.
pub(crate) fn caps(f: &mut fmt::Formatter<'_>, caps: &UserCaps) -> fmt::Result {
    if !caps.all.is_none() {
        line(f, "all", &caps.all)?;
    }
    let mut named = caps.of.iter().filter(|(user, _)| !user.contains(char::is_whitespace));
    named.try_for_each(|(user, caps)| line(f, user, caps))
}

fn line(f: &mut fmt::Formatter<'_>, user: &str, caps: &Caps) -> fmt::Result {
    write!(f, "cap {user}")?;
    if let Some(most) = caps.running_jobs {
        write!(f, "  running {most}")?;
    }
    if let Some(most) = caps.pending_jobs {
        write!(f, "  pending {most}")?;
    }
    if let Some(most) = caps.gpus {
        write!(f, "  gpus {}", MilliCpu::new(most.get()))?;
    }
    writeln!(f)
}
