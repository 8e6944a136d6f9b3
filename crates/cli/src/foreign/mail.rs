//! Mail as other schedulers ask for it, in the words of `--notify`.

use gpool_wire::notify::{MAILTO, is_mail_address};

use super::flag::{Given, invalid};
use crate::failure::Result;
use crate::session::user_name;

/// Events of another scheduler: its word, and the words of `--notify` for the same.
pub type Events = [(&'static str, &'static [&'static str])];

/// Those of `--mail-type`.
///
/// Source: the manual of sbatch, `--mail-type`.
pub static SLURM: &Events = &[
    ("NONE", &[]),
    ("BEGIN", &["start"]),
    ("END", &["end"]),
    ("FAIL", &["fail"]),
    ("TIME_LIMIT", &["timeout"]),
    ("ALL", &["start", "end"]),
];

/// Those of `--notify-on`.
pub static GFLOW: &Events = &[
    ("job_started", &["start"]),
    ("job_completed", &["done"]),
    ("job_failed", &["fail"]),
    ("job_timeout", &["timeout"]),
    ("job_cancelled", &["cancel"]),
    ("job_on_hold", &["hold"]),
    ("all", &["all"]),
];

/// Mail that flags of another scheduler ask for. One place may name the events and another the
/// address: a flag of the command line and a line of the script.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Mail {
    /// `None` where no flag names any; empty for no mail.
    events: Option<Vec<&'static str>>,
    /// `None` for the caller at the server's machine.
    address: Option<String>,
}

impl Mail {
    /// Takes the events of a flag. Those that gpool does not tell of are `ignored`.
    pub fn on(&mut self, known: &Events, flag: &Given, ignored: &mut Vec<String>) {
        let mut events = Vec::new();
        for word in flag.value.split(',').map(str::trim).filter(|word| !word.is_empty()) {
            match known.iter().find(|(theirs, _)| theirs.eq_ignore_ascii_case(word)) {
                Some((_, ours)) => events.extend(*ours),
                None => ignored.push(format!("{}={word}", flag.flag.written())),
            }
        }
        self.events = Some(events);
    }

    /// Takes the address of a flag; a user's name alone is one of the server's machine.
    ///
    /// # Errors
    /// It is none.
    pub fn to(&mut self, flag: &Given) -> Result<()> {
        let address = local(flag.value.trim());
        if !is_mail_address(&address) {
            return Err(invalid(flag, "is no mail address").tip("ana@example.org"));
        }
        self.address = Some(address);
        Ok(())
    }

    /// With an address, and no events named, mail is sent at any end.
    pub fn at_any_end(&mut self) {
        if self.address.is_some() {
            self.events.get_or_insert_with(|| vec!["end"]);
        }
    }

    /// Takes what this leaves out from another place.
    pub fn or(&mut self, other: Self) {
        self.events = self.events.take().or(other.events);
        self.address = self.address.take().or(other.address);
    }

    /// The value of `--notify` for it; `None` for no mail.
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
