//! Jobs as lines for a shell.

use crate::Import;
use crate::job::{Flag, ImportedJob};
use crate::printable::{MESSAGE_MAX, is_obeyed};

/// The longest line of flags; longer ones have a line for each flag.
const COLUMNS: usize = 96;

impl ImportedJob {
    /// The flags as words, without `--after`.
    #[must_use]
    pub fn words(&self) -> Vec<String> {
        let name = Flag { name: "name", value: Some(self.name.clone()) };
        let flags = std::iter::once(&name).chain(&self.flags);
        let word = |flag: &Flag| match &flag.value {
            Some(value) => format!("--{}={value}", flag.name),
            None => format!("--{}", flag.name),
        };
        flags.map(word).collect()
    }
}

impl Import {
    /// The commands that submit the jobs, and the notes as comments. `file` is the name of the file
    /// for its comments.
    #[must_use]
    pub fn shell_script(&self, file: &str) -> String {
        let mut text = format!("# {}: {}\n", in_comment(file), self.kind.name());
        for note in &self.notes {
            text.push_str(&format!("# {}\n", in_comment(&note.to_string())));
        }
        for (ix, job) in self.jobs.iter().enumerate() {
            let is_needed = self.jobs.iter().any(|it| it.after.iter().any(|on| on.job_ix == ix));
            let line = match is_needed {
                true => format!("job{}=$({})\n", ix + 1, command(job, "gpool submit --parsable")),
                false => format!("{}\n", command(job, "gpool submit")),
            };
            text.push_str(&line);
        }
        text
    }
}

/// The command that submits a job.
fn command(job: &ImportedJob, verb: &str) -> String {
    let mut flags: Vec<String> = job
        .words()
        .iter()
        .map(|word| match word.split_once('=') {
            Some((name, value)) => format!("{name}={}", quoted(value)),
            None => word.clone(),
        })
        .collect();
    flags.extend(
        job.after.iter().map(|on| format!("--after=\"{}:$job{}\"", on.kind, on.job_ix + 1)),
    );
    let words: Vec<String> = job.command.iter().map(|word| quoted(word)).collect();
    let first_line = format!("{verb} {}", flags.join(" "));
    let flags = match first_line.chars().count() <= COLUMNS {
        true => first_line,
        false => format!("{verb} \\\n    {}", flags.join(" \\\n    ")),
    };
    format!("{flags} \\\n    -- {}", words.join(" "))
}

/// A word for a POSIX shell.
fn quoted(word: &str) -> String {
    let is_plain = |char: char| char.is_ascii_alphanumeric() || "-_./:=,+@%".contains(char);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// A text that stays in its line of comments.
fn in_comment(text: &str) -> String {
    let is_obeyed = |char: char| char.is_control() || is_obeyed(char);
    text.chars().take(MESSAGE_MAX).map(|char| if is_obeyed(char) { '?' } else { char }).collect()
}
