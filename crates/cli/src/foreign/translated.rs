//! Flags of another scheduler in the words of `gpool submit`, with what is to be said about them.

use super::flag::{Given, ignored};
use super::mail::Mail;
use crate::args::job_flags::JobFlags;
use crate::errors;
use crate::failure::{Failure, Result};

/// What flags of another scheduler come to.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Translated {
    /// Flags of `submit`, one a word, and where each comes from.
    pub words: Vec<(String, Option<String>)>,
    /// What may surprise, but does what was meant.
    pub remarks: Vec<String>,
    /// What does not do all that was meant.
    pub warnings: Vec<String>,
    /// Flags that do nothing.
    pub ignored: Vec<String>,
    /// Flags that say two different things.
    pub contradictions: Vec<String>,
    /// Whether errors go where output goes, unless they have a file of their own.
    pub joins_output: bool,
    /// Whether it is an array.
    pub is_array: bool,
    /// Directives in a place where nobody reads them.
    pub misplaced: Vec<String>,
    /// Whether it waits for all jobs of its user and name.
    pub singleton: bool,
    /// Whether it asks for a signal before its end, which it may do without one.
    pub signals: bool,
    /// The mail that is asked for.
    pub mail: Mail,
}

impl Translated {
    /// What is known from the flags alone: those that do nothing, and those that say two things.
    #[must_use]
    pub fn of(given: &[Given]) -> Self {
        Self { ignored: ignored(given), contradictions: contradictions(given), ..Self::default() }
    }

    /// Adds a flag with a value.
    pub fn flag(&mut self, flag: &str, value: &str, from: &Given) {
        self.words.push((format!("--{flag}={value}"), from.place.clone()));
    }

    /// Adds a priority or a project, which meant something else where it comes from: one that
    /// can't be had is lowered or left out.
    pub fn leniently(&mut self, flag: &str, value: &str, from: &Given) {
        self.flag(flag, value, from);
        self.switch("lenient", from);
    }

    /// Adds a flag without one.
    pub fn switch(&mut self, flag: &str, from: &Given) {
        self.words.push((format!("--{flag}"), from.place.clone()));
    }

    /// Takes over what is to be said of other flags, which stood in `place`, if that is to be said.
    pub fn join(&mut self, other: Self, place: &str) {
        if place.is_empty() {
            self.remarks.extend(other.remarks);
            self.warnings.extend(other.warnings);
            self.ignored.extend(other.ignored);
        } else {
            let placed = |text: String| format!("{place}: {text}");
            self.remarks.extend(other.remarks.into_iter().map(placed));
            self.warnings.extend(other.warnings.into_iter().map(placed));
            if !other.ignored.is_empty() {
                self.ignored.push(format!("{place}: {}", other.ignored.join(", ")));
            }
        }
        self.contradictions.extend(other.contradictions);
        self.misplaced.extend(other.misplaced);
        self.is_array |= other.is_array;
        self.joins_output |= other.joins_output;
        self.singleton |= other.singleton;
        self.signals |= other.signals;
        self.mail.or(other.mail);
    }

    /// Refuses what does nothing or says two things.
    ///
    /// # Errors
    /// There is such a flag.
    pub fn refuse_unclear(&self) -> Result<()> {
        let unclear = || self.ignored.iter().chain(&self.contradictions).chain(&self.misplaced);
        if unclear().next().is_none() {
            return Ok(());
        }
        let failure = Failure::new(errors::BAD_DIRECTIVE, "with --strict, each flag has to count");
        let failure = match self.ignored.is_empty() {
            true => failure,
            false => failure.why(format!("ignored: {}", self.ignored.join("; "))),
        };
        let others = self.contradictions.iter().chain(&self.misplaced);
        let failure = others.fold(failure, |failure, text| failure.why(text));
        Err(failure.tip("take them out, or submit without --strict"))
    }

    /// All that may surprise, and all that does not do what was meant.
    pub fn say(&self, remarks: &mut Vec<String>, warnings: &mut Vec<String>) {
        remarks.extend(self.remarks.iter().cloned());
        remarks.extend(self.contradictions.iter().cloned());
        remarks.extend(self.misplaced.iter().cloned());
        warnings.extend(self.warnings.iter().cloned());
        if !self.ignored.is_empty() {
            warnings.push(format!("ignored: {} (docs/using/compat.md)", self.ignored.join("; ")));
        }
    }

    /// The flags themselves: values of lists are joined, and of two that differ in one value the
    /// later wins.
    ///
    /// # Errors
    /// A value is not understood.
    pub fn flags(&self) -> Result<JobFlags> {
        let words: Vec<String> = self.words.iter().map(|(word, _)| word.clone()).collect();
        let failure = match JobFlags::read(&words) {
            Ok(all) => return Ok(all),
            Err(failure) => failure,
        };
        // Read again one by one, to name the place of the one that is not understood.
        for (word, place) in &self.words {
            let read = JobFlags::read(std::slice::from_ref(word));
            if let (Err(failure), Some(place)) = (read, place) {
                return Err(failure.at(errors::BAD_DIRECTIVE, place));
            }
        }
        Err(failure)
    }
}

/// Flags that were given twice, with different values.
fn contradictions(given: &[Given]) -> Vec<String> {
    let mut found = Vec::new();
    // Each of these is one of a list.
    let is_single = |given: &&Given| !["param", "notify-email"].contains(&given.flag.long);
    for (at, later) in given.iter().enumerate().filter(|(_, given)| is_single(given)) {
        let same = |earlier: &&Given| earlier.flag == later.flag && earlier.value != later.value;
        if let Some(earlier) = given[..at].iter().rev().find(same) {
            let flag = later.flag.written();
            let place = later.place.as_ref().map(|place| format!("{place}: ")).unwrap_or_default();
            let (first, last) = (&earlier.value, &later.value);
            found.push(format!("{place}{flag} {first} and {flag} {last}: the later is taken"));
        }
    }
    found
}
