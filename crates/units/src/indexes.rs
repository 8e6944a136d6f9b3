//! The indexes of an array in the users' syntax: `0-99:2`. Their size does not depend on the number
//! of indexes.

use std::fmt::{self, Write as _};
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::parse::ParseError;
use crate::positions::Positions;

/// Indexes with a constant step: 0, 2, 4 … 98 is `0-98:2`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Run {
    first: u32,
    last: u32,
    step: u32,
}

impl Run {
    /// Rounds `last` down to an index of the run.
    fn new(first: u32, last: u32, step: u32) -> Self {
        let last = first + (last - first) / step * step;
        Self { first, last, step: if last == first { 1 } else { step } }
    }

    fn len(self) -> u32 {
        (self.last - self.first) / self.step + 1
    }
}

/// The indexes of an array, ascending, each once, at least one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Indexes {
    // Invariant: each run begins above the last index of the one before.
    runs: Vec<Run>,
}

impl Indexes {
    /// The most elements of an array.
    pub const ELEMENTS_MAX: u32 = 1_000_000;
    const EXAMPLE: &'static str = "0-99, 0-99:2 or 1,3,7-9";

    /// The first `n` natural numbers; `None` for none or more than [`Self::ELEMENTS_MAX`].
    #[must_use]
    pub fn first_n(n: u32) -> Option<Self> {
        let last = n.checked_sub(1).filter(|_| n <= Self::ELEMENTS_MAX)?;
        Some(Self { runs: vec![Run::new(0, last, 1)] })
    }

    /// The number of indexes.
    #[must_use]
    pub fn len(&self) -> u32 {
        self.runs.iter().map(|run| run.len()).sum()
    }

    /// Always false: there is at least one.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// The smallest index.
    #[must_use]
    pub fn first(&self) -> u32 {
        self.runs.first().map_or(0, |run| run.first)
    }

    /// The largest index.
    #[must_use]
    pub fn last(&self) -> u32 {
        self.runs.last().map_or(0, |run| run.last)
    }

    /// The step between indexes if it is constant; else 1.
    #[must_use]
    pub fn step(&self) -> u32 {
        match self.runs[..] {
            [run] if run.len() > 1 => run.step,
            _ => 1,
        }
    }

    /// The index at a position.
    #[must_use]
    pub fn at(&self, position: u32) -> Option<u32> {
        let mut rest = position;
        for run in &self.runs {
            if rest < run.len() {
                return Some(run.first + rest * run.step);
            }
            rest -= run.len();
        }
        None
    }

    /// The position of an index.
    #[must_use]
    pub fn position(&self, index: u32) -> Option<u32> {
        let mut before = 0;
        for run in &self.runs {
            if index < run.first {
                return None;
            }
            if index <= run.last {
                let offset = index - run.first;
                return offset.is_multiple_of(run.step).then(|| before + offset / run.step);
            }
            before += run.len();
        }
        None
    }

    /// The indexes from `index` on, each after its position.
    pub fn from(&self, index: u32) -> impl Iterator<Item = (u32, u32)> + '_ {
        let mut before = 0;
        let runs = self.runs.iter().map(move |run| {
            let at = before;
            before += run.len();
            (at, *run)
        });
        let rest = runs.skip_while(move |(_, run)| run.last < index);
        rest.flat_map(|(before, run)| {
            (0..run.len()).map(move |at| (before + at, run.first + at * run.step))
        })
        .skip_while(move |(_, one)| *one < index)
    }

    /// The positions of all of them.
    #[must_use]
    pub fn positions(&self) -> Positions {
        Positions::first_n(self.len())
    }

    /// The indexes at the given positions; `None` if there is none.
    #[must_use]
    pub fn of(&self, positions: &Positions) -> Option<Self> {
        let indexes: Vec<u32> = positions.iter().filter_map(|at| self.at(at)).collect();
        (!indexes.is_empty()).then(|| Self { runs: runs_of(&indexes) })
    }
}

/// Runs of ascending numbers.
fn runs_of(indexes: &[u32]) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    for &index in indexes {
        match runs.last_mut() {
            Some(run) if run.first == run.last => {
                *run = Run { first: run.first, last: index, step: index - run.first };
            }
            Some(run) if index - run.last == run.step => run.last = index,
            _ => runs.push(Run { first: index, last: index, step: 1 }),
        }
    }
    // Two adjacent indexes by chance make no step.
    let apart = |run: Run| match run.len() {
        2 if run.step > 1 => {
            vec![Run::new(run.first, run.first, 1), Run::new(run.last, run.last, 1)]
        }
        _ => vec![run],
    };
    runs.into_iter().flat_map(apart).collect()
}

impl FromStr for Indexes {
    type Err = ParseError;

    /// Reads `0-99`, `0-99:2`, `7`, and lists of them.
    fn from_str(text: &str) -> Result<Self, ParseError> {
        let bad = |what, position| ParseError::new(what, text, position, Self::EXAMPLE);
        let mut runs: Vec<Run> = Vec::new();
        let mut at = 0;
        let mut n: u64 = 0;
        for part in text.split(',') {
            let run = read_run(part).map_err(|(what, offset)| bad(what, at + offset))?;
            n += u64::from(run.len());
            if n > u64::from(Self::ELEMENTS_MAX) {
                return Err(bad("a list of at most 1,000,000 array indexes", at));
            }
            runs.push(run);
            at += part.len() + 1;
        }
        let is_apart = |one: &Run, next: &Run| one.last < next.first;
        if !runs.is_sorted_by(is_apart) {
            let all = |run: &Run| (run.first..=run.last).step_by(run.step as usize);
            let mut indexes: Vec<u32> = runs.iter().flat_map(all).collect();
            indexes.sort_unstable();
            if let Some([twice, _]) = indexes.windows(2).find(|pair| pair[0] == pair[1]) {
                let (what, at) = ("a list of array indexes, each once", place_of(text, *twice));
                return Err(bad(what, at));
            }
            runs = runs_of(&indexes);
        }
        Ok(Self { runs })
    }
}

/// The byte where the second part that contains an index begins.
fn place_of(text: &str, index: u32) -> usize {
    let mut at = 0;
    let mut seen = false;
    for part in text.split(',') {
        let has = read_run(part).is_ok_and(|run| {
            (run.first..=run.last).contains(&index) && (index - run.first).is_multiple_of(run.step)
        });
        if has && seen {
            return at;
        }
        seen |= has;
        at += part.len() + 1;
    }
    0
}

/// Reads `7`, `0-99` or `0-99:2`; else the expected syntax and the byte of the error.
fn read_run(part: &str) -> Result<Run, (&'static str, usize)> {
    const WHAT: &str = "a list of array indexes";
    let number = |text: &str, at: usize| -> Result<u32, (&'static str, usize)> {
        if let Some(strange) = text.find(|c: char| !c.is_ascii_digit()) {
            return Err((WHAT, at + strange));
        }
        match text.parse::<u32>() {
            // One less than the largest, so that counts never overflow.
            Ok(number) if number < u32::MAX => Ok(number),
            Ok(_) => Err(("an array index below 4294967295", at)),
            Err(_) if text.is_empty() => Err((WHAT, at)),
            Err(_) => Err(("an array index below 4294967295", at)),
        }
    };
    let Some((first, rest)) = part.split_once('-') else {
        let only = number(part, 0)?;
        return Ok(Run::new(only, only, 1));
    };
    let second = first.len() + 1;
    let (last, step) = match rest.split_once(':') {
        None => (rest, 1),
        Some((last, step)) => (last, number(step, second + last.len() + 1)?),
    };
    let (first, last) = (number(first, 0)?, number(last, second)?);
    if step == 0 {
        return Err(("a range of array indexes with a step of at least 1", part.len() - 1));
    }
    if last < first {
        return Err(("a range of array indexes from a smaller to a larger one", second));
    }
    Ok(Run::new(first, last, step))
}

impl fmt::Display for Indexes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, run) in self.runs.iter().enumerate() {
            if at > 0 {
                f.write_char(',')?;
            }
            write!(f, "{}", run.first)?;
            if run.last > run.first {
                write!(f, "-{}", run.last)?;
            }
            if run.step > 1 {
                write!(f, ":{}", run.step)?;
            }
        }
        Ok(())
    }
}

impl Serialize for Indexes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Indexes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}
