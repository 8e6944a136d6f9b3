//! Flags of `submit` that stand in a script: `# GPOOL --gpus 2 --time 1h`, in the comments before
//! its first command. Only finds the words; what they mean is for the parser of flags.

use thiserror::Error;

/// Directives are looked for in so many bytes at a script's start.
///
/// Source: HyperQueue has the same bound; a script that is data at its end is never read through.
pub const LOOKED_AT: usize = 32 * 1024;

/// One `# GPOOL` line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Directive {
    /// Its line, from 1.
    pub line: usize,
    /// What follows the word GPOOL, split as a shell would.
    pub words: Vec<String>,
}

/// A `# GPOOL` line that can't be split into words.
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
pub fn find(script: &[u8]) -> Result<Vec<Directive>, UnclosedQuote> {
    let start = &script[..script.len().min(LOOKED_AT)];
    let mut found = Vec::new();
    for (at, line) in start.split(|byte| *byte == b'\n').enumerate() {
        let text = String::from_utf8_lossy(line);
        let text = text.trim();
        if text.is_empty() {
            continue;
        }
        let Some(comment) = text.strip_prefix('#') else { break };
        let comment = comment.strip_prefix([' ', '\t']).unwrap_or(comment);
        let Some(rest) = comment.strip_prefix("GPOOL") else { continue };
        // "# GPOOLS of Cuba" is a comment like any other.
        if !rest.is_empty() && !rest.starts_with([' ', '\t']) {
            continue;
        }
        let words = split(rest).ok_or(UnclosedQuote { line: at + 1 })?;
        if !words.is_empty() {
            found.push(Directive { line: at + 1, words });
        }
    }
    Ok(found)
}

/// The first word of directives for others that stand in a script: `#SBATCH`, `# GFLOW`.
#[must_use]
pub fn foreign(script: &[u8]) -> Option<&'static str> {
    const OTHERS: [&str; 2] = ["SBATCH", "GFLOW"];
    let start = String::from_utf8_lossy(&script[..script.len().min(LOOKED_AT)]);
    let comments = start.lines().map(str::trim).filter(|line| !line.is_empty());
    comments.map_while(|line| line.strip_prefix('#')).find_map(|comment| {
        let first = comment.split_whitespace().next()?;
        OTHERS.into_iter().find(|other| *other == first)
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
        found.into_iter().map(|directive| (directive.line, directive.words)).collect()
    }

    #[test]
    fn directives_stand_in_the_leading_comments_only() {
        let script = "#!/bin/bash\n# GPOOL --gpus 2 --time 1h\n\n  #GPOOL -J train # why not\n\
                      # GPOOLS are fish\n#SBATCH --gres=gpu:1\necho\n# GPOOL --gpus 8\n";
        let own = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
        assert_eq!(
            words(script),
            [(2, own(&["--gpus", "2", "--time", "1h"])), (4, own(&["-J", "train"]))]
        );
    }

    #[test]
    fn those_for_others_are_known() {
        assert_eq!(foreign(b"#!/bin/sh\n\n#SBATCH -t 10\n"), Some("SBATCH"));
        assert_eq!(foreign(b"#!/bin/sh\n# GFLOW --gpus 1\n"), Some("GFLOW"));
        assert_eq!(foreign(b"#!/bin/sh\n# GPOOL --gpus 1\ntrue\n#SBATCH -t 10\n"), None);
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
