//! `scancel`: ends or signals jobs.

use gpool_cli::act::{Each, try_all};
use gpool_cli::errors;
use gpool_cli::exit::Exit;
use gpool_cli::failure::{Failure, Result};
use gpool_cli::foreign::flag::FlagSupport::{Covered, Ignored, Instead};
use gpool_cli::foreign::flag::Takes::{Nothing, Value};
use gpool_cli::foreign::flag::{Flag, ParsedArgs, Spoken, row};
use gpool_cli::resolve::ResolvedJobs;
use gpool_cli::session::Session;
use gpool_model::{JobVerb, SignalTo};
use gpool_wire::{Problem, Quantity, catalogue};
use rustix::process::Signal;

use super::select::{self, Filter};
use crate::shim::{read, say_ignored};

static FLAGS: &[Flag] = &[
    row("account", 'A', Value, Covered, "of these projects"),
    row("batch", 'b', Nothing, Covered, "signals the script only; TERM without --signal"),
    row("clusters", 'M', Value, Ignored, "a server has one cluster"),
    row("ctld", '\0', Nothing, Ignored, "gpool always does this"),
    row("cron", 'c', Nothing, Instead, "crontab -e"),
    row("full", 'f', Nothing, Covered, "signals the script and the processes of srun"),
    row("hurry", 'H', Nothing, Ignored, "there are no burst buffers"),
    row("interactive", 'i', Nothing, Instead, "gpool queue, then scancel ID"),
    row("me", '\0', Nothing, Covered, "only mine"),
    row("name", 'n', Value, Covered, "of these names").also(&["jobname"]),
    row("nodelist", 'w', Value, Covered, "on these nodes"),
    row("partition", 'p', Value, Covered, "in these pools"),
    row("qos", 'q', Value, Instead, "--account names projects"),
    row("quiet", 'Q', Nothing, Covered, "says nothing"),
    row("reservation", 'R', Value, Instead, "scancel ID"),
    row("sibling", '\0', Value, Ignored, "a server has one cluster"),
    row("signal", 's', Value, Covered, "signals the processes of srun; KILL goes to all"),
    row("state", 't', Value, Covered, "in these states"),
    row("usage", '\0', Nothing, Instead, "--help"),
    row("user", 'u', Value, Covered, "of this user"),
    row("verbose", 'v', Nothing, Covered, "shows the actions"),
    row("version", 'V', Nothing, Covered, "prints gpool's"),
    row("wckey", '\0', Value, Instead, "--name"),
];

pub static SPOKEN: Spoken =
    Spoken { name: "scancel", about: "End jobs of gpool", flags: &[FLAGS], words: "ID" };

/// Runs the command.
pub fn run(words: &[String], session: &Session) -> Result {
    let Some(args) = read(&SPOKEN, words, session)? else { return Ok(Exit::OK) };
    say_ignored(&args, session);
    let mut filter = Filter::of(&args, "", session)?;
    if let Some((job, _)) = args.words.iter().find_map(|word| word.split_once('.')) {
        // gpool writes elements like this, and would end a whole job.
        let what = "scancel: steps can't be ended by their number";
        return Err(Failure::new(errors::USAGE, what)
            .tip(format!("scancel {job}   (the whole job)"))
            .tip(format!("scancel {job}_3   (element 3 of an array)"))
            .tip(format!("scancel --signal=TERM {job}   (all steps)")));
    }
    let named = select::ids(args.words.iter().cloned())?;
    if named.is_empty() && filter.is_empty() {
        return Err(
            Failure::new(errors::USAGE, "scancel: which job?").tip("scancel 17 or scancel --me")
        );
    }
    let client = session.client()?;
    let ids = if filter.is_empty() {
        named
    } else {
        filter.ids = named;
        // With a state, only the elements of an array in that state are selected.
        let jobs = match filter.has_states() {
            true => filter.rows(&client, false, true)?,
            false => filter.jobs(&client, false)?,
        };
        jobs.into_iter().map(|job| job.id).collect()
    };
    if ids.is_empty() {
        return Ok(Exit::OK);
    }
    let verb = verb(&args)?;
    if args.has("verbose") && !args.has("quiet") {
        for id in &ids {
            let id = id.replace('.', "_");
            session.screen.note(&match verb {
                JobVerb::Signal { signal, .. } => format!("scancel: Signal {signal} to job {id}"),
                _ => format!("scancel: Terminating job {id}"),
            });
        }
    }
    let mut tried = try_all(&ids, |ids| client.act(verb, ids));
    if verb == JobVerb::Cancel {
        // As in Slurm, it is no error that a job has ended before.
        tried.refused.retain(|(_, failure)| failure.code() != Some(catalogue::ALREADY_ENDED));
    }
    tried.stopped?;
    let mut each = Each::of(&mut ResolvedJobs { ids, ..ResolvedJobs::default() });
    each.refused.extend(tried.refused.into_iter().map(|(_, failure)| failure));
    each.end(verb.name(), Exit::OK)
}

/// What the flags ask for: the end of the jobs, or a signal.
fn verb(args: &ParsedArgs) -> Result<JobVerb> {
    let named = args.value("signal").map(|signal| signal.trim_start_matches("SIG"));
    if named.is_none() && !args.has("batch") {
        return Ok(JobVerb::Cancel);
    }
    let signal = gpool_wire::signal::number(&Quantity::from(named.unwrap_or("TERM")));
    let signal = signal.map_err(|refusal| Failure::from(Problem::from(refusal)))?;
    let is_kill = signal == Signal::KILL.as_raw();
    let to = match (args.has("full") || is_kill, args.has("batch")) {
        (false, false) => SignalTo::Steps,
        (false, true) => SignalTo::Program,
        (true, _) => SignalTo::Job,
    };
    Ok(JobVerb::Signal { signal, to })
}
