//! `gpool vh lint`: checks a file, and lists how gpool treats its keys.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use clap::Args;
use gpool_cli::exit::Exit;
use gpool_cli::failure::{Failure, Result};
use gpool_cli::render::safe::safe;
use gpool_cli::session::Session;
use gpool_valohai::Document;
use gpool_valohai::finding::Level;
use gpool_valohai::shape::Mark;
use serde_json::json;

use crate::failure::invalid;
use crate::file;

#[derive(Debug, Clone, Args)]
pub struct LintArgs {
    /// File to check (default: valohai.yaml of the current folder or one above it)
    #[arg(value_name = "FILE")]
    path: Option<PathBuf>,
}

/// Runs the command.
///
/// # Errors
/// The file can't be read, or has errors.
pub fn run(args: &LintArgs, session: &Session) -> Result {
    let path = match &args.path {
        Some(path) => path.clone(),
        None => file::project(file::NAME)?.join(file::NAME),
    };
    let document = Document::read(&file::text(&path)?);
    let shown = args.path.as_deref().unwrap_or(Path::new(file::NAME)).display().to_string();
    let text = if session.global.json { as_json(&document) } else { as_text(&document, &shown) };
    session.screen.data(&text)?;
    let n_errors = document.findings.iter().filter(|it| it.level == Level::Error).count();
    match n_errors {
        0 => Ok(Exit::OK),
        1 => Err(failed(&shown, "1 error")),
        n => Err(failed(&shown, &format!("{n} errors"))),
    }
}

fn failed(path: &str, errors: &str) -> Failure {
    invalid(format!("{path} has {errors}"))
}

fn word(level: Level) -> &'static str {
    match level {
        Level::Error => "error",
        Level::Warning => "warning",
    }
}

fn as_text(document: &Document, path: &str) -> String {
    let mut text = String::new();
    for finding in &document.findings {
        let _ = writeln!(
            text,
            "{path}:{}: {}: {}",
            finding.line,
            word(finding.level),
            safe(&finding.what)
        );
        if let Some(advice) = &finding.advice {
            let _ = writeln!(text, "  try  {}", safe(advice));
        }
    }
    let n_supported = document.keys.iter().filter(|key| key.mark == Mark::Supported).count();
    for key in document.keys.iter().filter(|key| key.mark != Mark::Supported) {
        let (mark, why) = (key.mark.word(), key.mark.why());
        let _ = writeln!(text, "{path}:{}: {mark}: {}: {why}", key.line, key.path);
    }
    if !document.keys.is_empty() {
        let _ = writeln!(text, "{n_supported} of {} keys supported", document.keys.len());
    }
    text
}

fn as_json(document: &Document) -> String {
    let findings = document.findings.iter().map(|it| {
        json!({"line": it.line, "level": word(it.level), "what": it.what, "advice": it.advice})
    });
    let keys = document.keys.iter().map(
        |it| json!({"line": it.line, "key": it.path, "mark": it.mark.word(), "why": it.mark.why()}),
    );
    let all = json!({
        "findings": findings.collect::<Vec<_>>(),
        "keys": keys.collect::<Vec<_>>(),
    });
    format!("{all:#}\n")
}
