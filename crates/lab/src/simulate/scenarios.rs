//! `gpool simulate scenarios`: the decisions of the scheduler in written scenarios.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use clap::Args;
use gpool_cli::errors;
use gpool_cli::exit::Exit;
use gpool_cli::failure::{Failure, Result};
use gpool_cli::render::json;
use gpool_cli::render::safe::safe;
use gpool_cli::session::Session;
use gpool_kai::cases::{self as cycles, Beside, Scenario};
use serde_json::json;

/// Most differences of one scenario in the text output.
const SHOWN: usize = 3;

/// Prints a line for each scenario, then how many passed and failed; the exit code is 1 if one
/// failed. With fair, the real scheduler plays the same scenarios, and each different result has an
/// explanation.
#[derive(Debug, Clone, Args)]
pub struct ScenariosArgs {
    /// Files of scenarios, in JSON
    #[arg(value_name = "FILE", required = true, value_hint = clap::ValueHint::FilePath)]
    files: Vec<PathBuf>,
    /// Rules that decide
    #[arg(long, value_name = "PRESET", default_value = "kai", value_parser = ["kai", "fair"])]
    policy: String,
}

/// The result of one scenario.
struct Played {
    id: String,
    name: String,
    differences: Vec<String>,
}

/// Runs the verb; the exit code is 1 if a scenario failed.
///
/// # Errors
/// A file can't be read, or has no scenarios.
pub fn run(args: &ScenariosArgs, session: &Session) -> Result {
    if args.policy == "fair" {
        return by_fair(args, session);
    }
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

/// Plays the scenarios with the real scheduler; the exit code is 1 if it breaks an invariant, or if
/// a result differs from kai without a known reason.
fn by_fair(args: &ScenariosArgs, session: &Session) -> Result {
    let (mut n_same, mut n_differ, mut n_not, mut n_faults) = (0u32, 0u32, 0u32, 0u32);
    let (mut text, mut items) = (String::new(), Vec::new());
    for scenario in args.files.iter().map(|path| read(path)).collect::<Result<Vec<_>>>()?.concat() {
        let (word, why, n) = match cycles::beside(&scenario) {
            Ok(Beside::Same) => ("same", Vec::new(), &mut n_same),
            Ok(Beside::Differs(reasons)) => ("differs", cycles::told(&reasons), &mut n_differ),
            Ok(Beside::NotPlayed(missing)) => ("not played", vec![missing.to_string()], &mut n_not),
            Ok(Beside::Fault(faults)) => ("fault", faults, &mut n_faults),
            Err(error) => ("fault", vec![error.to_string()], &mut n_faults),
        };
        *n += 1;
        let _ = writeln!(text, "{word:10}  {}", safe(&scenario.id));
        for line in why.iter().take(SHOWN) {
            let _ = writeln!(text, "            {}", safe(line));
        }
        items.push(json!({
            "id": scenario.id, "name": scenario.name, "is": word.replace(' ', "_"), "why": why,
        }));
    }
    if session.global.json {
        let document = json!({
            "policy": args.policy, "items": items, "same": n_same, "differ": n_differ,
            "not_played": n_not, "faults": n_faults,
        });
        session.screen.data(&json::one(document))?;
    } else {
        let _ =
            write!(text, "{n_same} same, {n_differ} differ with an explanation, {n_not} not run");
        let _ = match n_faults {
            0 => writeln!(text),
            n => writeln!(text, ", {n} with faults"),
        };
        session.screen.data(&text)?;
    }
    Ok(if n_faults == 0 { Exit::OK } else { Exit::FAILED })
}

fn read(path: &Path) -> Result<Vec<Scenario>> {
    let not_read = |why: String| {
        Failure::new(errors::NO_SCENARIOS, format!("can't run the scenarios of {}", path.display()))
            .why(why)
            .tip("gpool help GP0255")
    };
    let text = std::fs::read_to_string(path).map_err(|error| not_read(error.to_string()))?;
    let file = cycles::read(&text).map_err(|error| not_read(error.to_string()))?;
    Ok(file.scenarios)
}

/// A scenario that can't be parsed has failed; the others are played.
fn play(scenario: &Scenario) -> Played {
    let differences = match cycles::play(scenario) {
        Ok(verdict) => verdict.differences,
        Err(error) => vec![error.to_string()],
    };
    Played { id: scenario.id.clone(), name: scenario.name.clone(), differences }
}
