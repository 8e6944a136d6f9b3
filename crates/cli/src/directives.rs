//! Flags of `submit` in the comments before the first command of a script:
//! `# GPOOL --gpus 2 --time 1h`, and those of other schedulers, `# GFLOW` and `#SBATCH`. This
//! module only splits them into words; the parsers of flags read them.

use thiserror::Error;

/// Bytes at the start of a script that may contain directives.
///
/// Source: HyperQueue has the same limit. A script with data at its end is never read through.
pub const LOOKED_AT: usize = 32 * 1024;

/// The scheduler that a directive is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum DirectiveKind {
    Sbatch,
    Gflow,
    Gpool,
}

impl DirectiveKind {
    /// All kinds, the weakest first.
    pub const ALL: [Self; 3] = [Self::Sbatch, Self::Gflow, Self::Gpool];

    /// The first word of the directive.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Sbatch => "SBATCH",
            Self::Gflow => "GFLOW",
            Self::Gpool => "GPOOL",
        }
    }

    #[must_use]
    pub fn spelling(self) -> &'static str {
        match self {
            Self::Sbatch => "#SBATCH",
            Self::Gflow => "# GFLOW",
            Self::Gpool => "# GPOOL",
        }
    }

    /// Whether a line begins as the scheduler requires. Slurm and gflow compare from the first
    /// column, so indenting a line turns it into a comment.
    fn begins(self, line: &str) -> bool {
        match self {
            Self::Sbatch | Self::Gflow => line.starts_with(self.spelling()),
            Self::Gpool => true,
        }
    }
}

/// A directive: one line of flags.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Directive {
    /// The scheduler that it is for.
    pub kind: DirectiveKind,
    /// Its line, from 1.
    pub line: usize,
    /// The words after the first, split like a shell does.
    pub words: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ScriptDirectives {
    pub directives: Vec<Directive>,
    /// Lines that look like directives but come after the first command; they are not read.
    pub too_late: Vec<(usize, DirectiveKind)>,
    /// Lines of other schedulers that these take for comments: `  #SBATCH`, `# SBATCH`, `#GFLOW`.
    pub comments: Vec<(usize, DirectiveKind)>,
}

/// The error of a directive that can't be split into words.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("a quotation mark is not closed")]
pub struct UnclosedQuote {
    /// The line, from 1.
    pub line: usize,
}

/// Finds the directives of a script.
pub fn find(script: &[u8]) -> Result<ScriptDirectives, UnclosedQuote> {
    let start = &script[..script.len().min(LOOKED_AT)];
    let mut found = ScriptDirectives::default();
    let mut has_begun = false;
    for (at, line) in start.split(|byte| *byte == b'\n').enumerate() {
        let line = String::from_utf8_lossy(line);
        let text = line.trim();
        if text.is_empty() {
            continue;
        }
        let Some(comment) = text.strip_prefix('#') else {
            has_begun = true;
            continue;
        };
        let number = at + 1;
        match directive(comment) {
            None => {}
            Some((kind, _)) if has_begun => found.too_late.push((number, kind)),
            Some((kind, _)) if !kind.begins(&line) => found.comments.push((number, kind)),
            Some((kind, rest)) => {
                let words = split(rest).ok_or(UnclosedQuote { line: number })?;
                if !words.is_empty() {
                    found.directives.push(Directive { kind, line: number, words });
                }
            }
        }
    }
    Ok(found)
}

/// Parses a comment as a directive: its kind and the rest.
fn directive(comment: &str) -> Option<(DirectiveKind, &str)> {
    let word = comment.strip_prefix([' ', '\t']).unwrap_or(comment);
    DirectiveKind::ALL.into_iter().find_map(|kind| {
        let rest = word.strip_prefix(kind.word())?;
        // "# GPOOLS of Cuba" is a normal comment.
        let is_it = rest.is_empty() || rest.starts_with([' ', '\t']);
        is_it.then_some((kind, rest))
    })
}

/// Splits a line like a shell, without expansions; `None` if a quotation mark is not closed. A word
/// that starts with `#` ends the line.
fn split(line: &str) -> Option<Vec<String>> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut chars = line.chars();
    while let Some(c) = chars.next() {
        match c {
            ' ' | '\t' => words.extend(word.take()),
            '#' if word.is_none() => break,
            '\'' => {
                let word = word.get_or_insert_default();
                loop {
                    match chars.next()? {
                        '\'' => break,
                        c => word.push(c),
                    }
                }
            }
            '"' => {
                let word = word.get_or_insert_default();
                loop {
                    match chars.next()? {
                        '"' => break,
                        '\\' => word.push(chars.next()?),
                        c => word.push(c),
                    }
                }
            }
            '\\' => word.get_or_insert_default().push(chars.next()?),
            c => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    Some(words)
}
