//! The programs of a step: one for all processes, or those of a file of `srun --multi-prog`. Each
//! line of the file names ranks, a program and its arguments. Pure.
//!
//! Source: the manual of srun, "MULTIPLE PROGRAM CONFIGURATION".

use gpool_cli::errors;
use gpool_cli::failure::{Failure, Result};

/// The programs of the processes, by rank.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Programs {
    One(Vec<String>),
    Lines(Vec<ProgramLine>),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProgramLine {
    /// First and last rank of each part; empty for the ranks that no other line has.
    ranks: Vec<(usize, usize)>,
    /// The program and its arguments.
    words: Vec<Word>,
}

/// A word, in parts. `true` marks a part whose `%t` and `%o` are replaced.
type Word = Vec<(String, bool)>;

impl Programs {
    /// Parses a file. `more` are arguments for each of its programs.
    ///
    /// # Errors
    /// A line is not `RANKS PROGRAM [ARGUMENTS]`.
    pub fn read(path: &str, text: &str, more: &[String]) -> Result<Self> {
        let text = text.replace("\\\n", " ");
        let mut lines = Vec::new();
        for (at, line) in text.lines().enumerate() {
            if line.starts_with('#') || line.trim().is_empty() {
                continue;
            }
            let bad = |why: String| {
                Failure::new(errors::INVALID, format!("srun: {path}:{}: {why}", at + 1))
                    .tip("0,2-3 python worker.py --rank %t")
            };
            let mut words = split(line).ok_or_else(|| bad("a quote is not closed".to_owned()))?;
            let first: String = words.remove(0).into_iter().map(|(part, _)| part).collect();
            let ranks =
                ranks(&first).ok_or_else(|| bad(format!("{first:?} is no list of ranks")))?;
            if words.is_empty() {
                return Err(bad("the program is missing".to_owned()));
            }
            words.extend(more.iter().map(|word| vec![(word.clone(), false)]));
            lines.push(ProgramLine { ranks, words });
        }
        Ok(Self::Lines(lines))
    }

    /// The command of a process.
    ///
    /// # Errors
    /// No line has its rank.
    pub fn of(&self, rank: usize) -> Result<Vec<String>> {
        let lines = match self {
            Self::One(words) => return Ok(words.clone()),
            Self::Lines(lines) => lines,
        };
        let offset_in = |line: &ProgramLine| {
            let mut before = 0;
            for (first, last) in &line.ranks {
                if (*first..=*last).contains(&rank) {
                    return Some(before + rank - first);
                }
                before += last - first + 1;
            }
            line.ranks.is_empty().then_some(rank)
        };
        let found = lines.iter().find_map(|line| Some((line, offset_in(line)?)));
        let Some((line, offset)) = found else {
            let what = format!("srun: no executable program specified for task {rank}");
            return Err(Failure::new(errors::INVALID, what)
                .tip("* PROGRAM   (as the last line, for all other tasks)"));
        };
        let (rank, offset) = (rank.to_string(), offset.to_string());
        let fill = |(part, is_filled): &(String, bool)| match is_filled {
            true => part.replace("%t", &rank).replace("%o", &offset),
            false => part.clone(),
        };
        Ok(line.words.iter().map(|word| word.iter().map(fill).collect()).collect())
    }
}

/// Parses `0,2-3` or `*`.
fn ranks(text: &str) -> Option<Vec<(usize, usize)>> {
    if text == "*" {
        return Some(Vec::new());
    }
    let part = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (first.parse().ok()?, last.parse().ok()?);
        (first <= last).then_some((first, last))
    };
    text.split(',').map(part).collect()
}

/// Splits a line at blanks. Quotes hold blanks, and single ones also the patterns.
fn split(line: &str) -> Option<Vec<Word>> {
    let mut words: Vec<Word> = Vec::new();
    let mut word: Option<Word> = None;
    let mut rest = line.chars();
    while let Some(c) = rest.next() {
        match c {
            c if c.is_whitespace() => words.extend(word.take()),
            '\'' | '"' => {
                let (inside, after) = rest.as_str().split_once(c)?;
                word.get_or_insert_default().push((inside.to_owned(), c == '"'));
                rest = after.chars();
            }
            c => {
                let parts = word.get_or_insert_default();
                match parts.last_mut() {
                    Some((part, true)) => part.push(c),
                    _ => parts.push((c.to_string(), true)),
                }
            }
        }
    }
    words.extend(word);
    Some(words)
}
