//! `gpool simulate`: what the scheduler does in situations that are written down, without a server.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use gpool_scenario::cycles::{self, Scenario};
use serde_json::json;

use crate::errors;
use crate::exit::Exit;
use crate::failure::{Failure, Result};
use crate::render::json;
use crate::render::safe::safe;
use crate::session::Session;

/// Differences of one case that are shown to people.
const SHOWN: usize = 3;

/// Try what the scheduler decides, without a server
#[derive(Debug, Clone, Args)]
pub struct SimulateArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Clone, Subcommand)]
enum What {
    /// Play cases of clusters with quotas, and compare with what is expected of each
    Scenarios(ScenariosArgs),
}

/// A line for each case, then how many passed and failed; the exit code is 1 if one failed.
#[derive(Debug, Clone, Args)]
struct ScenariosArgs {
    /// Files of cases, in JSON
    #[arg(value_name = "FILE", required = true, value_hint = clap::ValueHint::FilePath)]
    files: Vec<PathBuf>,
    /// Whose rules decide
    #[arg(long, value_name = "PRESET", default_value = "kai", value_parser = ["kai"])]
    policy: String,
}

/// What became of one case.
struct Played {
    id: String,
    name: String,
    differences: Vec<String>,
}

/// Runs it; the exit code is 1 if a case failed.
///
/// # Errors
/// A file can't be read, or is none of cases.
pub fn run(args: &SimulateArgs, session: &Session) -> Result {
    let What::Scenarios(args) = &args.what;
    let mut played = Vec::new();
    for path in &args.files {
        played.extend(read(path)?.iter().map(play));
    }
    let n_failed = played.iter().filter(|it| !it.differences.is_empty()).count();
    let n_passed = played.len() - n_failed;
    let exit = if n_failed == 0 { Exit::OK } else { Exit::FAILED };
    if session.global.json {
        let item = |it: &Played| {
            let passed = it.differences.is_empty();
            json!({"id": it.id, "name": it.name, "passed": passed, "differences": it.differences})
        };
        let items: Vec<_> = played.iter().map(item).collect();
        let document = json!({
            "policy": args.policy,
            "items": items,
            "passed": n_passed,
            "failed": n_failed,
        });
        session.screen.data(&json::one(document))?;
        return Ok(exit);
    }
    let mut text = String::new();
    for it in &played {
        let word = if it.differences.is_empty() { "passed" } else { "failed" };
        let _ = write!(text, "{word}  {}", safe(&it.id));
        if it.name != it.id && !it.name.is_empty() {
            let _ = write!(text, "  {}", safe(&it.name));
        }
        let _ = writeln!(text);
        for difference in it.differences.iter().take(SHOWN) {
            let _ = writeln!(text, "        {}", safe(difference));
        }
        if let more @ 1.. = it.differences.len().saturating_sub(SHOWN) {
            let _ = writeln!(text, "        and {more} more");
        }
    }
    let _ = writeln!(text, "{n_passed} passed, {n_failed} failed");
    session.screen.data(&text)?;
    Ok(exit)
}

fn read(path: &Path) -> Result<Vec<Scenario>> {
    let not_read = |why: String| {
        Failure::new(errors::NO_SCENARIOS, format!("can't play {}", path.display()))
            .why(why)
            .tip("gpool help GP0255 says what such a file has")
    };
    let text = std::fs::read_to_string(path).map_err(|error| not_read(error.to_string()))?;
    let file = cycles::read(&text).map_err(|error| not_read(error.to_string()))?;
    Ok(file.scenarios)
}

/// A case that is not understood is one that failed; the others are played.
fn play(scenario: &Scenario) -> Played {
    let differences = match cycles::play(scenario) {
        Ok(verdict) => verdict.differences,
        Err(error) => vec![error.to_string()],
    };
    Played { id: scenario.id.clone(), name: scenario.name.clone(), differences }
}
