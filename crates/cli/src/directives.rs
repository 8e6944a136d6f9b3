//! Flags of `submit` that stand in a script, in the comments before its first command:
//! `# GPOOL --gpus 2 --time 1h`, and those written for others, `# GFLOW` and `#SBATCH`. Only finds
//! the words; what they mean is for whoever reads flags.

use thiserror::Error;

/// Directives are looked for in so many bytes at a script's start.
///
/// Source: HyperQueue has the same bound; a script that is data at its end is never read through.
const LOOKED_AT: usize = 32 * 1024;

/// For whom a directive was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Slurm.
    Sbatch,
    /// gflow.
    Gflow,
    /// gpool.
    Gpool,
}

impl Kind {
    /// Each of them, the weakest first.
    pub const ALL: [Self; 3] = [Self::Sbatch, Self::Gflow, Self::Gpool];

    /// The word that it begins with.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Sbatch => "SBATCH",
            Self::Gflow => "GFLOW",
            Self::Gpool => "GPOOL",
        }
    }

    /// As it is usually written.
    #[must_use]
    pub fn written(self) -> &'static str {
        match self {
            Self::Sbatch => "#SBATCH",
            Self::Gflow => "# GFLOW",
            Self::Gpool => "# GPOOL",
        }
    }
}

/// One line of flags.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Directive {
    /// For whom.
    pub kind: Kind,
    /// Its line, from 1.
    pub line: usize,
    /// What follows the first word, split as a shell would.
    pub words: Vec<String>,
}

/// What a script says of itself.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Found {
    /// Its directives, in their order.
    pub directives: Vec<Directive>,
    /// Lines that look like directives and stand after the first command, where nobody reads them.
    pub too_late: Vec<(usize, Kind)>,
    /// Lines with `# SBATCH`: with a blank, Slurm takes them for comments, and so does gpool.
    pub with_blank: Vec<usize>,
}

/// A directive that can't be split into words.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("a quotation mark is not closed")]
pub struct UnclosedQuote {
    /// The line, from 1.
    pub line: usize,
}

/// Finds the directives of a script.
///
/// # Errors
/// A line has a quotation mark that is not closed.
pub fn find(script: &[u8]) -> Result<Found, UnclosedQuote> {
    let start = &script[..script.len().min(LOOKED_AT)];
    let mut found = Found::default();
    let mut has_begun = false;
    for (at, line) in start.split(|byte| *byte == b'\n').enumerate() {
        let text = String::from_utf8_lossy(line);
        let text = text.trim();
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
            Some((kind, _, _)) if has_begun => found.too_late.push((number, kind)),
            Some((Kind::Sbatch, true, _)) => found.with_blank.push(number),
            Some((kind, _, rest)) => {
                let words = split(rest).ok_or(UnclosedQuote { line: number })?;
                if !words.is_empty() {
                    found.directives.push(Directive { kind, line: number, words });
                }
            }
        }
    }
    Ok(found)
}

/// The kind of a comment that is a directive, whether a blank stands before its word, and what
/// follows.
fn directive(comment: &str) -> Option<(Kind, bool, &str)> {
    let word = comment.strip_prefix([' ', '\t']).unwrap_or(comment);
    Kind::ALL.into_iter().find_map(|kind| {
        let rest = word.strip_prefix(kind.word())?;
        // "# GPOOLS of Cuba" is a comment like any other.
        let is_it = rest.is_empty() || rest.starts_with([' ', '\t']);
        is_it.then_some((kind, word.len() != comment.len(), rest))
    })
}
/// Splits a line as a shell would, without its expansions; `None` if a quotation mark is not
/// closed. A word that starts with `#` ends the line.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn words(script: &str) -> Vec<(usize, Vec<String>)> {
        let found = find(script.as_bytes()).expect("quotes are closed");
        found.directives.into_iter().map(|directive| (directive.line, directive.words)).collect()
    }

    #[test]
    fn directives_stand_in_the_leading_comments_only() {
        let script = "#!/bin/bash\n# GPOOL --gpus 2 --time 1h\n\n  #GPOOL -J train # why not\n\
                      # GPOOLS are fish\n#SBATCH --gres=gpu:1\n# SBATCH -t 1\necho\n\
                      # GPOOL --gpus 8\n";
        let own = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
        assert_eq!(
            words(script),
            [
                (2, own(&["--gpus", "2", "--time", "1h"])),
                (4, own(&["-J", "train"])),
                (6, own(&["--gres=gpu:1"]))
            ]
        );
        let found = find(script.as_bytes()).expect("quotes are closed");
        assert_eq!(found.too_late, [(9, Kind::Gpool)]);
        assert_eq!(found.with_blank, [7]);
    }

    #[test]
    fn a_blank_makes_a_comment_of_slurms_lines_only() {
        let kinds = |script: &[u8]| -> Vec<Kind> {
            let found = find(script).expect("fine");
            found.directives.into_iter().map(|directive| directive.kind).collect()
        };
        assert_eq!(kinds(b"#!/bin/sh\n#GFLOW --gpus 1\n# GFLOW --gpus 1\n"), [Kind::Gflow; 2]);
        assert_eq!(kinds(b"#!/bin/sh\n##SBATCH -t 10\n# SBATCH -t 10\n#SBATCHES\n"), []);
    }

    #[test]
    fn words_are_quoted_as_in_a_shell() {
        assert_eq!(
            words("# GPOOL --note 'it''s late' -e \"A=b \\\"c\\\"\" x\\ y ''\n")[0].1,
            ["--note", "its late", "-e", "A=b \"c\"", "x y", ""]
        );
        assert_eq!(find(b"#!/bin/sh\n# GPOOL --note 'x\n"), Err(UnclosedQuote { line: 2 }));
    }

    #[test]
    fn only_the_start_of_a_script_is_looked_at() {
        let script = format!("{}\n# GPOOL --gpus 1\n", "#".repeat(LOOKED_AT));
        assert_eq!(words(&script), []);
        assert_eq!(words("# GPOOL --gpus 1\r\n")[0].1, ["--gpus", "1"]);
    }
}
