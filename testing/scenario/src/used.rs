//! The lines with recent usage, read and written: `used 12.5  uid 1001  project nlp`, in GPU-hours.

use std::fmt;
use std::str::FromStr as _;

use gpool_model::{GpuTime, MilliCpu, ProjectName, Used, parse};

use crate::reader::Reader;
use crate::situation::OWN_UID;
use crate::words::{ScenarioError, Words};

const MILLI_HOUR: GpuTime = GpuTime::HOUR.div_floor(1000);

impl Reader {
    /// Reads the words after `used`.
    pub fn used(&mut self, words: &mut Words<'_>) -> Result<(), ScenarioError> {
        let amount = words.parse("a number of GPU-hours", |word| {
            let hours = parse::gpus(word).map_err(|error| error.to_string())?;
            MILLI_HOUR.checked_mul(hours.get()).ok_or_else(|| "that is too much".to_owned())
        })?;
        let (mut uid, mut project) = (OWN_UID, ProjectName::new("default"));
        while let Some(word) = words.next() {
            match word {
                "uid" => uid = words.parse("a user id", u32::from_str)?,
                "project" => project = ProjectName::new(words.need("a project")?),
                word => return Err(words.unknown(word, "uid or project")),
            }
        }
        self.situation.used.retain(|other| (other.uid, &other.project) != (uid, &project));
        self.situation.used.push(Used { project, uid, amount, at: self.situation.now });
        Ok(())
    }
}

/// Writes the line with the recent usage of one user in a project.
pub(crate) fn used(f: &mut fmt::Formatter<'_>, used: &Used) -> fmt::Result {
    write!(f, "used {}", MilliCpu::new(used.amount.get() / MILLI_HOUR.get()))?;
    if used.uid != OWN_UID {
        write!(f, "  uid {}", used.uid)?;
    }
    if used.project.as_str() != "default" {
        write!(f, "  project {}", used.project)?;
    }
    writeln!(f)
}
