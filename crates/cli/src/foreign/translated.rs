//! Flags of another scheduler, translated into flags of `gpool submit`, with messages about them.

use super::flag::{PassedFlag, ignored};
use super::mail::Mail;
use crate::args::job_flags::JobFlags;
use crate::errors;
use crate::failure::{Failure, Result};

/// The translation of another scheduler's flags.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Translated {
    /// Flags of `submit`, one per word, each with its source.
    pub words: Vec<(String, Option<String>)>,
    /// The flags that were translated.
    pub source: Vec<PassedFlag>,
    /// Notes about flags with a correct but surprising effect.
    pub remarks: Vec<String>,
    /// Warnings about flags that do less than was meant.
    pub warnings: Vec<String>,
    /// Flags without an effect.
    pub ignored: Vec<String>,
    /// Flags with two different values.
    pub contradictions: Vec<String>,
    /// Whether standard error joins standard output unless it has its own file.
    pub joins_output: bool,
    /// Whether the job is an array.
    pub is_array: bool,
    /// Directives in a place that is not read.
    pub misplaced: Vec<String>,
    /// Whether the job waits for all jobs with the same user and name.
    pub singleton: bool,
    /// Whether it requests a signal before its time limit, with or without a limit.
    pub signals: bool,
    /// The pools that it may run in; the first one that exists counts.
    pub pools: Vec<String>,
    pub mail: Mail,
}

impl Translated {
    /// Starts with the ignored and contradictory flags.
    #[must_use]
    pub fn of(given: &[PassedFlag]) -> Self {
        Self {
            source: given.to_vec(),
            ignored: ignored(given),
            contradictions: contradictions(given),
            ..Self::default()
        }
    }

    /// Adds a flag with a value.
    pub fn flag(&mut self, flag: &str, value: &str, from: &PassedFlag) {
        self.words.push((format!("--{flag}={value}"), from.place.clone()));
    }

    /// Adds a priority or a project. Its meaning differs between schedulers, so a value that is not
    /// allowed is lowered or dropped.
    pub fn leniently(&mut self, flag: &str, value: &str, from: &PassedFlag) {
        self.flag(flag, value, from);
        self.switch("lenient", from);
    }

    /// Adds a flag without a value.
    pub fn switch(&mut self, flag: &str, from: &PassedFlag) {
        self.words.push((format!("--{flag}"), from.place.clone()));
    }

    /// Adds the messages about other flags, prefixed with `place` if it is not empty.
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
        self.source.extend(other.source);
        self.contradictions.extend(other.contradictions);
        self.misplaced.extend(other.misplaced);
        self.is_array |= other.is_array;
        self.joins_output |= other.joins_output;
        self.singleton |= other.singleton;
        self.signals |= other.signals;
        self.mail.or(other.mail);
        if self.pools.is_empty() {
            self.pools = other.pools;
        }
    }

    /// Refuses flags without an effect or with two values.
    pub fn refuse_unclear(&self) -> Result<()> {
        let unclear = || self.ignored.iter().chain(&self.contradictions).chain(&self.misplaced);
        if unclear().next().is_none() {
            return Ok(());
        }
        let failure =
            Failure::new(errors::BAD_DIRECTIVE, "--strict refuses flags without an effect");
        let failure = match self.ignored.is_empty() {
            true => failure,
            false => failure.why(format!("ignored: {}", self.ignored.join("; "))),
        };
        let others = self.contradictions.iter().chain(&self.misplaced);
        let failure = others.fold(failure, |failure, text| failure.why(text));
        Err(failure.tip("remove them, or submit without --strict"))
    }

    /// Adds all notes and warnings to two lists.
    pub fn say(&self, remarks: &mut Vec<String>, warnings: &mut Vec<String>) {
        remarks.extend(self.remarks.iter().cloned());
        remarks.extend(self.contradictions.iter().cloned());
        remarks.extend(self.misplaced.iter().cloned());
        warnings.extend(self.warnings.iter().cloned());
        if !self.ignored.is_empty() {
            warnings.push(format!("ignored: {} (gpool help compat)", self.ignored.join("; ")));
        }
    }

    /// Parses the translated flags: lists are joined, and the later of two values wins.
    pub fn flags(&self) -> Result<JobFlags> {
        let words: Vec<String> = self.words.iter().map(|(word, _)| word.clone()).collect();
        let failure = match JobFlags::read(&words) {
            Ok(all) => return Ok(all),
            Err(failure) => failure,
        };
        // Parsed again one by one, to find the place of the invalid one.
        for (word, place) in &self.words {
            let read = JobFlags::read(std::slice::from_ref(word));
            if let (Err(failure), Some(place)) = (read, place) {
                return Err(failure.at(errors::BAD_DIRECTIVE, place));
            }
        }
        Err(failure)
    }
}

/// Flags that are given twice with different values.
fn contradictions(given: &[PassedFlag]) -> Vec<String> {
    let mut found = Vec::new();
    // Each occurrence of these is one item of a list.
    let is_single = |given: &&PassedFlag| !["param", "notify-email"].contains(&given.flag.long);
    for (at, later) in given.iter().enumerate().filter(|(_, given)| is_single(given)) {
        let same =
            |earlier: &&PassedFlag| earlier.flag == later.flag && earlier.value != later.value;
        if let Some(earlier) = given[..at].iter().rev().find(same) {
            let flag = later.flag.spelling();
            let place = later.place.as_ref().map(|place| format!("{place}: ")).unwrap_or_default();
            let (first, last) = (&earlier.value, &later.value);
            found.push(format!("{place}{flag} {first} and {flag} {last}: the later one counts"));
        }
    }
    found
}
