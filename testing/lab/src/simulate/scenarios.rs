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
use serde_json::json;

use crate::kai::{self, CaseResult, Scenario};

/// Most differences of one scenario in the text output.
const SHOWN: usize = 3;

/// Plays scenarios of Run:ai's scheduler KAI with preset fair, and compares the jobs that run in
/// the end with KAI's answer, which is recorded for its public scenarios. Each different result has
/// an explanation; the exit code is 1 if one has none, or if a plan breaks an invariant.
#[derive(Debug, Clone, Args)]
pub struct ScenariosArgs {
    /// Files of scenarios, in JSON
    #[arg(value_name = "FILE", required = true, value_hint = clap::ValueHint::FilePath)]
    files: Vec<PathBuf>,
}

/// Runs the verb.
///
/// # Errors
/// A file can't be read, or has no scenarios.
pub fn run(args: &ScenariosArgs, session: &Session) -> Result {
    let (mut n_same, mut n_differ, mut n_not, mut n_faults) = (0u32, 0u32, 0u32, 0u32);
    let (mut text, mut items) = (String::new(), Vec::new());
    for scenario in args.files.iter().map(|path| read(path)).collect::<Result<Vec<_>>>()?.concat() {
        let (word, why, n) = match kai::play(&scenario) {
            Ok(CaseResult::Same) => ("same", Vec::new(), &mut n_same),
            Ok(CaseResult::Differs(reasons)) => ("differs", kai::told(&reasons), &mut n_differ),
            Ok(CaseResult::NotPlayed(missing)) => {
                ("not played", vec![missing.to_string()], &mut n_not)
            }
            Ok(CaseResult::Fault(faults)) => ("fault", faults, &mut n_faults),
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
            "items": items, "same": n_same, "differ": n_differ, "not_played": n_not,
            "faults": n_faults,
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
    let file = kai::read(&text).map_err(|error| not_read(error.to_string()))?;
    Ok(file.scenarios)
}
