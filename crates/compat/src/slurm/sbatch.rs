//! `sbatch`: submits a script, with flags from the command line, `SBATCH_…` variables and the
//! script's directives.

use gpool_cli::args::job_flags::JobFlags;
use gpool_cli::exit::Exit;
use gpool_cli::failure::Result;
use gpool_cli::foreign::flag::{Given, Said, Takes};
use gpool_cli::foreign::slurm::flags::SBATCH;
use gpool_cli::foreign::slurm::parts::refuse_colon;
use gpool_cli::foreign::slurm::translate::translate_over;
use gpool_cli::foreign::translated::Translated;
use gpool_cli::hand_in::{dry_run, hand_in, note_terms, say};
use gpool_cli::request::{self, Request};
use gpool_cli::script::Script;
use gpool_cli::session::Session;

use super::origin;
use crate::shim::{gpool_line, print, read};

/// The variables that set default flags, without the prefix `SBATCH_` or `SALLOC_`.
///
/// Source: the manuals of sbatch and salloc, "INPUT ENVIRONMENT VARIABLES".
const VARIABLES: &[(&str, &str)] = &[
    ("ACCOUNT", "account"),
    ("ACCTG_FREQ", "acctg-freq"),
    ("ARRAY_INX", "array"),
    ("BATCH", "batch"),
    ("CLUSTERS", "clusters"),
    ("CONSTRAINT", "constraint"),
    ("CONTAINER", "container"),
    ("CORE_SPEC", "core-spec"),
    ("CPUS_PER_GPU", "cpus-per-gpu"),
    ("DEBUG", "verbose"),
    ("DELAY_BOOT", "delay-boot"),
    ("DISTRIBUTION", "distribution"),
    ("ERROR", "error"),
    ("EXCLUSIVE", "exclusive"),
    ("EXPORT", "export"),
    ("GET_USER_ENV", "get-user-env"),
    ("GPUS", "gpus"),
    ("GPUS_PER_NODE", "gpus-per-node"),
    ("GPUS_PER_TASK", "gpus-per-task"),
    ("GPU_BIND", "gpu-bind"),
    ("GPU_FREQ", "gpu-freq"),
    ("GRES", "gres"),
    ("GRES_FLAGS", "gres-flags"),
    ("HINT", "hint"),
    ("IGNORE_PBS", "ignore-pbs"),
    ("INPUT", "input"),
    ("JOB_NAME", "job-name"),
    ("MEM_BIND", "mem-bind"),
    ("MEM_PER_CPU", "mem-per-cpu"),
    ("MEM_PER_GPU", "mem-per-gpu"),
    ("MEM_PER_NODE", "mem"),
    ("NETWORK", "network"),
    ("NO_KILL", "no-kill"),
    ("NO_REQUEUE", "no-requeue"),
    ("OPEN_MODE", "open-mode"),
    ("OUTPUT", "output"),
    ("OVERCOMMIT", "overcommit"),
    ("PARTITION", "partition"),
    ("POWER", "power"),
    ("PROFILE", "profile"),
    ("QOS", "qos"),
    ("REQUEUE", "requeue"),
    ("REQ_SWITCH", "switches"),
    ("RESERVATION", "reservation"),
    ("SIGNAL", "signal"),
    ("SPREAD_JOB", "spread-job"),
    ("THREADS_PER_CORE", "threads-per-core"),
    ("THREAD_SPEC", "thread-spec"),
    ("TIMELIMIT", "time"),
    ("USE_MIN_NODES", "use-min-nodes"),
    ("WAIT", "wait"),
    ("WAIT_ALL_NODES", "wait-all-nodes"),
    ("WCKEY", "wckey"),
];

/// Runs the command.
///
/// # Errors
/// The request is not valid, impossible or refused.
pub fn run(words: &[String], session: &Session) -> Result {
    let Some(said) = read(&SBATCH, words, session)? else { return Ok(Exit::OK) };
    refuse_colon("sbatch", &said.words)?;
    let mut request = request(&said)?;
    request.job.compat.push("slurm".to_owned());
    let script = said.words.first().filter(|_| !said.has("wrap"));
    request.job.origin = Some(origin::of("sbatch", words, script.map(String::as_str)));
    let client = session.client()?;
    request.resolve(&client, session)?;
    if !said.has("quiet") {
        say(&request, session);
    }
    if said.has("test-only") {
        return dry_run(&client, &request.job, session);
    }
    let job = hand_in(&client, &request)?;
    note_terms(&job, session);
    let text = match said.has("parsable") {
        true => format!("{}\n", job.id),
        false => format!("Submitted batch job {}\n", job.id),
    };
    print(&text, session)?;
    if said.has("wait") || std::env::var_os("SBATCH_WAIT").is_some() {
        return gpool_line(&["--quiet", "wait", &job.id], session);
    }
    Ok(Exit::OK)
}

fn request(said: &Said) -> Result<Request> {
    if let Some(line_of_shell) = said.value("wrap") {
        let (line, told) = flags(said, &[])?;
        let line = line.or(gpool_cli::flags::from_variables(request::text_variables())?);
        let mut request = request::of_brought(line, &told, output)?;
        // A script like any other: scancel --signal and scontrol write batch_script depend on it.
        let text =
            format!("#!/bin/sh\n# This script was created by sbatch --wrap.\n\n{line_of_shell}\n");
        request.job.script = Some(Script { path: "wrap".to_owned(), bytes: text.into() }.written());
        return Ok(request);
    }
    let (script, arguments) = match said.words.split_first() {
        Some((script, arguments)) => (script.as_str(), arguments),
        None => ("-", &[][..]),
    };
    let script = Script::read(script)?;
    let (line, told) = flags(said, &gpool_cli::flags::of_sbatch(&script))?;
    request::of_brought_script(line, told, output, &script, arguments)
}

/// The flags of the command line and the variables, which override the script.
fn flags(said: &Said, of_script: &[Given]) -> Result<(JobFlags, Translated)> {
    let variables = variables("SBATCH_");
    let below: Vec<Given> = of_script.iter().chain(&variables).cloned().collect();
    let mut told = translate_over(&said.flags, &below)?;
    let of_variables = translate_over(&variables, of_script)?;
    let line = told.flags()?.or(of_variables.flags()?);
    told.join(of_variables, "SBATCH_ variables");
    told.joins_output = true;
    Ok((line, told))
}

/// The default output file, in the working folder of the job.
fn output(told: &Translated) -> Option<&'static str> {
    Some(if told.is_array { "slurm-%A_%a.out" } else { "slurm-%j.out" })
}

/// The flags from variables with this prefix.
pub fn variables(prefix: &str) -> Vec<Given> {
    let of = |(name, long): &(&str, &str)| {
        let name = format!("{prefix}{name}");
        let value = std::env::var(&name).ok()?;
        let flag = SBATCH.rows().find(|flag| flag.long == *long)?;
        // The value of a switch does not matter, as in Slurm.
        let value = if flag.takes == Takes::Nothing { String::new() } else { value };
        Some(Given { flag, value, place: Some(format!("variable {name}")) })
    };
    VARIABLES.iter().filter_map(of).collect()
}
