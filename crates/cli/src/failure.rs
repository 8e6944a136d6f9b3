//! Failures of verbs, in four parts and always in this order: what failed, why, what to try, and a
//! code to look up.

use std::fmt::Write as _;

use gpool_model::Code;
use gpool_wire::{Problem, catalogue};
use serde_json::{Value, json};

use crate::errors;
use crate::exit::Exit;
use crate::render::safe::{safe, safe_json};
use crate::render::style::Style;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    exit: Exit,
    code: Option<Code>,
    what: String,
    why: Vec<String>,
    tries: Vec<String>,
    /// Data that only the JSON output has.
    facts: Vec<(&'static str, Value)>,
}

/// The result of a verb: an exit code or a failure.
pub type Result<T = Exit> = std::result::Result<T, Failure>;

impl Failure {
    /// A failure with a code, which also sets the exit code.
    #[must_use]
    pub fn new(code: Code, what: impl Into<String>) -> Self {
        Self {
            exit: exit_of(code),
            code: Some(code),
            what: what.into(),
            why: Vec::new(),
            tries: Vec::new(),
            facts: Vec::new(),
        }
    }

    /// The reader of standard output has gone: end without a message.
    #[must_use]
    pub fn pipe_closed() -> Self {
        Self {
            exit: Exit::PIPE_CLOSED,
            code: None,
            what: String::new(),
            why: Vec::new(),
            tries: Vec::new(),
            facts: Vec::new(),
        }
    }

    /// Adds a fact about the cause.
    #[must_use]
    pub fn why(mut self, fact: impl Into<String>) -> Self {
        self.why.push(fact.into());
        self
    }

    #[must_use]
    pub fn tip(mut self, command: impl Into<String>) -> Self {
        self.tries.push(command.into());
        self
    }

    /// Adds data for programs, as a key of the JSON document.
    #[must_use]
    pub fn with(mut self, key: &'static str, value: Value) -> Self {
        self.facts.push((key, value));
        self
    }

    /// Joins several failures into one, with a line for each; the first one sets the exit code. The
    /// JSON document lists them all.
    ///
    /// # Panics
    /// If `failures` is empty.
    #[must_use]
    pub fn of_several(what: impl Into<String>, failures: &[Self]) -> Self {
        const LINES_MAX: usize = 20;
        let first = failures.first().expect("at least one failure");
        let mut whole =
            Self { what: what.into(), why: Vec::new(), facts: Vec::new(), ..first.clone() };
        whole.why = failures.iter().take(LINES_MAX).map(|it| it.what.clone()).collect();
        if failures.len() > LINES_MAX {
            whole.why.push(format!("and {} more", failures.len() - LINES_MAX));
        }
        let item =
            |it: &Self| json!({"code": it.code.map(|code| code.to_string()), "message": it.what});
        whole.with("refused", failures.iter().map(item).collect())
    }

    /// Whether it concerns only the named job, so that others may still succeed. False if the
    /// server can't be reached or the output can't be written.
    #[must_use]
    pub fn is_about_one(&self) -> bool {
        let is_known = self.code.is_some_and(|code| errors::entry(code).is_some());
        let codes = [
            catalogue::EXIT_USAGE,
            catalogue::EXIT_IMPOSSIBLE,
            catalogue::EXIT_NOT_PERMITTED,
            catalogue::EXIT_NO_SUCH,
            catalogue::EXIT_CONFLICT,
        ];
        is_known && codes.contains(&self.exit.0)
    }

    #[must_use]
    pub fn exit_with(mut self, exit: Exit) -> Self {
        self.exit = exit;
        self
    }

    /// Changes the code and the first line.
    #[must_use]
    pub fn moved(mut self, code: Code, what: impl FnOnce(&str) -> String) -> Self {
        self.code = Some(code);
        self.exit = exit_of(code);
        self.what = what(&self.what);
        self
    }

    /// Changes the code and prefixes the place of the error.
    #[must_use]
    pub fn at(self, code: Code, place: &str) -> Self {
        self.moved(code, |what| format!("{place}: {what}"))
    }

    /// Whether no server answered; output and jobs are then read from disk.
    #[must_use]
    pub fn is_no_answer(&self) -> bool {
        matches!(self.code, Some(catalogue::UNREACHABLE | catalogue::SILENT))
    }

    #[must_use]
    pub fn tips(&self) -> &[String] {
        &self.tries
    }

    #[must_use]
    pub fn exit(&self) -> Exit {
        self.exit
    }

    #[must_use]
    pub fn code(&self) -> Option<Code> {
        self.code
    }

    /// Whether it has data for programs.
    #[must_use]
    pub fn has_facts(&self) -> bool {
        !self.facts.is_empty()
    }

    /// The first line.
    #[must_use]
    pub fn what(&self) -> &str {
        &self.what
    }

    /// The text for people; empty if there is nothing to print.
    #[must_use]
    pub fn text(&self, colors: bool) -> String {
        if self.what.is_empty() {
            return String::new();
        }
        let mut text = format!("{} {}\n", Style::Bad.paint("error:", colors), safe(&self.what));
        for (label, lines) in [("why", &self.why), ("try", &self.tries)] {
            for (n, line) in lines.iter().enumerate() {
                let label = if n == 0 { label } else { "" };
                let _ = writeln!(text, "  {label:<3}  {}", safe(line));
            }
        }
        if let Some(code) = self.code {
            let _ = writeln!(text, "  {code} · gpool help {code}");
        }
        text
    }

    /// The failure as a JSON document on one line.
    #[must_use]
    pub fn json(&self) -> String {
        if self.what.is_empty() {
            return String::new();
        }
        let code = self.code.map(|code| code.to_string());
        let mut document = json!({
            "apiVersion": "gpool/v1",
            "error": {
                "docs": code.as_ref().map(|code| format!("gpool help {code}")),
                "code": code,
                "message": self.what,
                "why": self.why,
                "try": self.tries,
            },
        });
        for (key, value) in &self.facts {
            document["error"][key] = value.clone();
        }
        format!("{}\n", safe_json(&document.to_string()))
    }
}

impl From<Problem> for Failure {
    fn from(problem: Problem) -> Self {
        let what = match (problem.detail.as_str(), problem.title.as_str()) {
            ("", "") => format!("the server answered with status {}", problem.status),
            ("", title) => title.to_owned(),
            (detail, _) => detail.to_owned(),
        };
        Self {
            exit: Exit(problem.exit_code()),
            code: code_of(&problem.code),
            what,
            why: problem.why,
            tries: problem.tries,
            facts: Vec::new(),
        }
    }
}

fn code_of(text: &str) -> Option<Code> {
    text.strip_prefix("GP")?.parse().ok().map(Code)
}

fn exit_of(code: Code) -> Exit {
    errors::entry(code).map_or(Exit::FAILED, |entry| Exit(entry.exit))
}
