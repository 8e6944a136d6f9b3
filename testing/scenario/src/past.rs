//! The lines with earlier run times, read and written:
//! `past train-  10m,20m,1h  uid 1001  project nlp`.

use std::fmt;
use std::str::FromStr as _;

use gpool_model::{Likeness, PastRuns, ProjectName, parse};

use crate::amount::span;
use crate::reader::Reader;
use crate::situation::{OWN_UID, Situation};
use crate::words::{ScenarioError, Words};

/// The default stem of the names of jobs.
pub(crate) const OWN_STEM: &str = "j";

impl Reader {
    /// Reads the words after `past`.
    pub fn past(&mut self, words: &mut Words<'_>) -> Result<(), ScenarioError> {
        let stem = words.parse("a name without digits", |word| {
            match word.contains(|letter: char| letter.is_ascii_digit()) {
                true => Err("digits do not count"),
                false => Ok(word.to_owned()),
            }
        })?;
        let lengths = words.parse("lengths of time: 10m,20m", |word| {
            word.split(',').map(parse::span).collect::<Result<Vec<_>, _>>()
        })?;
        let mut like = Likeness { uid: OWN_UID, project: ProjectName::new("default"), stem };
        while let Some(word) = words.next() {
            match word {
                "uid" => like.uid = words.parse("a user id", u32::from_str)?,
                "project" => like.project = ProjectName::new(words.need("a project")?),
                word => return Err(words.unknown(word, "uid or project")),
            }
        }
        let mut runs = PastRuns::none(like);
        for length in lengths {
            runs.add(length, self.situation.now);
        }
        self.situation.past.retain(|other| other.like != runs.like);
        self.situation.past.push(runs);
        Ok(())
    }
}

/// Whether a stem can be written as one word.
fn is_word(stem: &str) -> bool {
    !stem.is_empty() && !stem.contains(char::is_whitespace)
}

/// Writes the line with the run times of one kind of jobs.
pub(crate) fn past(f: &mut fmt::Formatter<'_>, runs: &PastRuns) -> fmt::Result {
    let PastRuns { like, lengths, .. } = runs;
    if !is_word(&like.stem) || lengths.is_empty() {
        return Ok(());
    }
    let lengths: Vec<String> = lengths.iter().map(|length| span(*length)).collect();
    write!(f, "past {}  {}", like.stem, lengths.join(","))?;
    if like.uid != OWN_UID {
        write!(f, "  uid {}", like.uid)?;
    }
    if like.project.as_str() != "default" {
        write!(f, "  project {}", like.project)?;
    }
    writeln!(f)
}

/// Writes the stem of a job if its name in the scenario has another one.
pub(crate) fn like(f: &mut fmt::Formatter<'_>, like: &Likeness) -> fmt::Result {
    if like.stem == OWN_STEM || !is_word(&like.stem) {
        return Ok(());
    }
    write!(f, "  like {}", like.stem)
}

impl Situation {
    /// The recorded run times of kinds that the jobs here have.
    pub(crate) fn past_of_jobs(&self) -> impl Iterator<Item = &PastRuns> {
        let is_here =
            |runs: &&PastRuns| self.jobs.iter().any(|(spec, _)| Likeness::of(spec) == runs.like);
        self.past.iter().filter(is_here)
    }
}
