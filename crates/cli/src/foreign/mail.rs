//! Translates the mail flags of other schedulers into `--notify`.

use gpool_wire::notify::{MAILTO, is_mail_address};

use super::flag::{PassedFlag, invalid};
use crate::failure::Result;
use crate::session::user_name;

/// Events of another scheduler, each with the words of `--notify` for it.
pub type Events = [(&'static str, &'static [&'static str])];

/// The events of `--mail-type`.
///
/// Source: the manual of sbatch, `--mail-type`.
pub static SLURM: &Events = &[
    ("NONE", &[]),
    ("BEGIN", &["start"]),
    ("END", &["end"]),
    ("FAIL", &["fail"]),
    ("TIME_LIMIT", &["timeout"]),
    ("TIME_LIMIT_90", &["near_limit"]),
    ("ALL", &["start", "end"]),
];

/// The events of `--notify-on`.
pub static GFLOW: &Events = &[
    ("job_started", &["start"]),
    ("job_completed", &["done"]),
    ("job_failed", &["fail"]),
    ("job_timeout", &["timeout"]),
    ("job_cancelled", &["cancel"]),
    ("job_on_hold", &["hold"]),
    ("all", &["all"]),
];

/// The mail that flags of another scheduler request. The events and the address may come from
/// different sources, such as the command line and a script.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Mail {
    /// `None` if no flag names events; empty for no mail.
    events: Option<Vec<&'static str>>,
    /// `None` means the caller at the server's machine.
    address: Option<String>,
}

impl Mail {
    /// Adds the events of a flag. Events that gpool does not have are added to `ignored`.
    pub fn on(&mut self, known: &Events, flag: &PassedFlag, ignored: &mut Vec<String>) {
        let mut events = Vec::new();
        for word in flag.value.split(',').map(str::trim).filter(|word| !word.is_empty()) {
            match known.iter().find(|(theirs, _)| theirs.eq_ignore_ascii_case(word)) {
                Some((_, ours)) => events.extend(*ours),
                None => ignored.push(format!("{}={word}", flag.flag.spelling())),
            }
        }
        self.events = Some(events);
    }

    /// Sets the address from a flag; a plain user name gets the server's machine as host.
    pub fn to(&mut self, flag: &PassedFlag) -> Result<()> {
        let address = local(flag.value.trim());
        if !is_mail_address(&address) {
            return Err(invalid(flag, "is not a mail address").tip("ana@example.org"));
        }
        self.address = Some(address);
        Ok(())
    }

    /// If there is an address but no event, requests mail at any end.
    pub fn at_any_end(&mut self) {
        if self.address.is_some() {
            self.events.get_or_insert_with(|| vec!["end"]);
        }
    }

    /// Fills in missing parts from another source.
    pub fn or(&mut self, other: Self) {
        self.events = self.events.take().or(other.events);
        self.address = self.address.take().or(other.address);
    }

    /// The value for `--notify`; `None` for no mail.
    #[must_use]
    pub fn rule(&self) -> Option<String> {
        let events = self.events.as_ref().filter(|events| !events.is_empty())?;
        let address = self.address.clone().unwrap_or_else(|| local(&user_name()));
        Some(format!("{}@{MAILTO}{address}", events.join(",")))
    }
}

fn local(name: &str) -> String {
    if name.contains('@') { name.to_owned() } else { format!("{name}@localhost") }
}
