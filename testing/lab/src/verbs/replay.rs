//! `gpool replay`: repeats decisions from a dump or from the journal of a store, and compares them
//! byte for byte with the recorded ones. It changes nothing.

use std::io::{IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};

use clap::Args;
use gpool_cli::errors;
use gpool_cli::exit::Exit;
use gpool_cli::failure::{Failure, Result};
use gpool_cli::render::json;
use gpool_cli::render::safe::safe;
use gpool_cli::session::Session;
use gpool_cli::store_file::{fault, is_store};
use gpool_control::replay::Differs;
use gpool_journal::case::{self, Case, CaseError};
use gpool_journal::replay::{ReplayError, Replayed, replay};
use gpool_store::Reader;
use serde_json::json;

/// Width of the progress bar.
const BAR: u64 = 30;
/// Most characters of a decision in the text output.
const SHOWN: usize = 2000;

const AFTER_HELP: &str = "The exit code is 0 if everything is equal, byte for byte. \
Otherwise it is 1, and the first difference is printed.";

/// The arguments of `gpool replay`.
#[derive(Debug, Clone, Args)]
#[command(after_help = AFTER_HELP)]
pub struct ReplayArgs {
    /// Dump, file of STATE/alerts, state folder or backup
    #[arg(value_name = "DUMP | JOURNAL", value_hint = clap::ValueHint::AnyPath)]
    what: PathBuf,
    /// Backup to start at (default: the begin of the journal)
    #[arg(long, value_name = "BACKUP", value_hint = clap::ValueHint::AnyPath)]
    from: Option<PathBuf>,
}

/// Runs the verb; the exit code is 1 if there is a difference.
///
/// # Errors
/// The input can't be replayed.
pub fn run(args: &ReplayArgs, session: &Session) -> Result {
    if is_store(&args.what).map_err(|error| not_replayed(&args.what, &error))? {
        return journal(args, session);
    }
    if args.from.is_some() {
        return Err(Failure::new(errors::USAGE, "--from needs a state folder or a backup")
            .tip(format!("gpool replay {}", args.what.display())));
    }
    dump(&args.what, session)
}

fn not_replayed(path: &Path, why: &dyn std::fmt::Display) -> Failure {
    Failure::new(errors::NO_DUMP, format!("can't replay {}", path.display())).why(why.to_string())
}

/// The result for a dump.
struct Verdict {
    /// Whether the plan equals the recorded one.
    same: bool,
    difference: Option<case::Difference>,
    /// The recorded violations, and those of the recorded plan now.
    recorded: Vec<String>,
    now: Vec<String>,
}

fn dump(path: &Path, session: &Session) -> Result {
    let text = std::fs::read(path).map_err(|error| not_replayed(path, &error))?;
    let refused = |error: CaseError| refused(path, &error);
    let case = Case::read(&text).map_err(refused)?;
    drop(text);
    let made = case.decide().map_err(refused)?;
    let now = case.judge().map_err(refused)?;
    let difference = match (&case.plan, &made.plan) {
        (Some(recorded), Some(made)) => case::difference(recorded, made),
        (None, None) => None,
        (recorded, made) => Some(case::Difference {
            what: "plan".to_owned(),
            recorded: recorded.as_ref().map(|_| "a finished plan".to_owned()),
            replayed: made.as_ref().map(|_| "a finished plan".to_owned()),
        }),
    };
    let same = difference.is_none() && now == case.violations;
    let verdict = Verdict { same, difference, recorded: case.violations.clone(), now };
    let text = match session.global.json {
        true => as_json(&case, &verdict),
        false => as_text(&case, &verdict),
    };
    session.screen.data(&text)?;
    Ok(if verdict.same { Exit::OK } else { Exit::FAILED })
}

fn refused(path: &Path, error: &CaseError) -> Failure {
    let failure = not_replayed(path, error);
    match error {
        CaseError::OtherVersion { made_by } => {
            failure.tip(format!("replay it with gpool {}", safe(made_by)))
        }
        CaseError::NoDump => failure.tip("gpool debug dump case.json"),
        CaseError::Truncated | CaseError::Damaged => {
            failure.tip("copy it again, and compare the sizes")
        }
        CaseError::NoCase => failure.tip("gpool debug dump --state-dir FOLDER case.json"),
        CaseError::Contradicts(_) => failure,
    }
}

fn as_json(case: &Case, verdict: &Verdict) -> String {
    let difference = verdict
        .difference
        .as_ref()
        .map(|it| json!({"what": it.what, "recorded": it.recorded, "made": it.replayed}));
    json::one(json!({
        "same": verdict.same,
        "revision": case.revision,
        "now": gpool_wire::Time(case.now),
        "records": case.n_records(),
        "jobs": case.n_jobs(),
        "decisions": case.plan.as_ref().map(|plan| plan.decisions.len()),
        "difference": difference,
        "violations": {"recorded": verdict.recorded, "now": verdict.now},
    }))
}

fn as_text(case: &Case, verdict: &Verdict) -> String {
    let mut text = format!(
        "revision {}, {} jobs, {} records\n",
        case.revision,
        case.n_jobs(),
        case.n_records()
    );
    match &verdict.difference {
        None => {
            let n = case.plan.as_ref().map_or(0, |plan| plan.decisions.len());
            text.push_str(&format!("the plan is the same, byte for byte: {n} decisions\n"));
        }
        Some(it) => {
            text.push_str(&differs(&it.what, it.recorded.as_deref(), it.replayed.as_deref()))
        }
    }
    let list = |lines: &[String]| {
        lines.iter().map(|line| format!("  {}\n", safe(line))).collect::<String>()
    };
    if verdict.now == verdict.recorded && !verdict.now.is_empty() {
        text.push_str("it violates the same invariants as recorded:\n");
        text.push_str(&list(&verdict.now));
    } else if verdict.now != verdict.recorded {
        text.push_str("recorded violations:\n");
        text.push_str(&list(&verdict.recorded));
        text.push_str("violations now:\n");
        text.push_str(&list(&verdict.now));
    }
    text
}

/// The first difference, with both sides.
fn differs(what: &str, recorded: Option<&str>, made: Option<&str>) -> String {
    let shown = |side: Option<&str>| match side {
        None => "none".to_owned(),
        Some(text) if text.chars().count() > SHOWN => {
            format!("{} …", safe(&text.chars().take(SHOWN).collect::<String>()))
        }
        Some(text) => safe(text).into_owned(),
    };
    format!("{what} differs\n  recorded  {}\n  now       {}\n", shown(recorded), shown(made))
}

fn journal(args: &ReplayArgs, session: &Session) -> Result {
    let open = |path: &Path| Reader::open(path).map_err(|error| fault(&error));
    let reader = open(&args.what)?;
    let from = args.from.as_deref().map(open).transpose()?;
    let shows = !session.screen.quiet && std::io::stderr().is_terminal();
    let done = replay(&reader, from.as_ref(), |done, all| {
        if shows {
            bar(done, all);
        }
    });
    if shows {
        // Clears the bar.
        let _ = write!(std::io::stderr(), "\r\x1b[K");
    }
    let done = match done {
        Ok(done) => done,
        Err(error) => return other(&args.what, &error, session),
    };
    let text = match session.global.json {
        true => json::one(json!({
            "same": true,
            "events": done.n_events,
            "plans": done.n_plans,
            "commits": done.n_commits,
            "records": done.n_records,
        })),
        false => summary(&done),
    };
    session.screen.data(&text)?;
    Ok(Exit::OK)
}

fn summary(done: &Replayed) -> String {
    let Replayed { n_events, n_plans, n_records, .. } = done;
    format!("{n_events} events, {n_plans} plans: all the same\n{n_records} records: all the same\n")
}

fn bar(done: u64, all: u64) {
    let filled = done.saturating_mul(BAR) / all.max(1);
    let columns: String = (0..BAR).map(|at| if at < filled { '#' } else { '.' }).collect();
    let percent = done.saturating_mul(100) / all.max(1);
    // The bar is only for display, so errors do not matter.
    let _ = write!(std::io::stderr(), "\r{columns} {percent:3}%  {done} of {all} entries");
}

/// A difference is a result; any other error means that there is none.
fn other(path: &Path, error: &ReplayError, session: &Session) -> Result {
    let debug = |it: &dyn std::fmt::Debug| format!("{it:?}");
    let (what, recorded, made) = match error {
        ReplayError::Differs(differs) => match &**differs {
            Differs::Decision { seq, nth, journaled, replayed } => {
                let text = |side: &Option<Box<_>>| side.as_ref().map(one_line);
                let what = format!("decision {} of entry {seq}", nth + 1);
                (what, text(journaled), text(replayed))
            }
            Differs::Planned { seq, journaled, replayed } => {
                let what = format!("planned starts of entry {seq}");
                (what, Some(one_line(journaled)), Some(one_line(replayed)))
            }
            Differs::Entry { seq, journaled, replayed } => {
                let entry = |side: &Option<Box<gpool_model::JournalEntry>>| {
                    side.as_ref().map(|it| one_line(&it.entry))
                };
                (format!("entry {seq}"), entry(journaled), entry(replayed))
            }
            Differs::Revision { journaled, replayed } => {
                let what = format!("the commit of revision {journaled}");
                (what, Some(journaled.to_string()), replayed.as_ref().map(ToString::to_string))
            }
            Differs::Records { why } => {
                ("the records of a start".to_owned(), None, Some(debug(why)))
            }
        },
        ReplayError::Records { key, recorded, replayed } => {
            (format!("record {key}"), recorded.clone(), replayed.clone())
        }
        ReplayError::Unread(why) => return Err(Failure::new(errors::STORE_FAULT, why.clone())),
        ReplayError::Cut { .. } => {
            return Err(not_replayed(path, error).tip("gpool replay --from BACKUP STATE-FOLDER"));
        }
        ReplayError::OtherVersion { version, .. } => {
            let tip = format!("replay it with gpool {}", safe(version));
            return Err(not_replayed(path, error).tip(tip));
        }
        ReplayError::TooOld { .. } => {
            let tip = "gpool backup FILE; then, later, gpool replay --from FILE STATE-FOLDER";
            return Err(not_replayed(path, error).tip(tip));
        }
        ReplayError::OtherStore => return Err(not_replayed(path, error)),
    };
    let text = match session.global.json {
        true => json::one(json!({
            "same": false,
            "difference": {"what": what, "recorded": recorded, "made": made},
        })),
        false => differs(&what, recorded.as_deref(), made.as_deref()),
    };
    session.screen.data(&text)?;
    Ok(Exit::FAILED)
}

fn one_line(value: &impl serde::Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default()
}
