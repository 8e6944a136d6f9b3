//! `sbatch`: submits a script, with flags from the command line, `SBATCH_…` variables and the
//! script's directives.

use gpool_cli::args::job_flags::JobFlags;
use gpool_cli::exit::Exit;
use gpool_cli::failure::Result;
use gpool_cli::foreign::flag::{Given, Said};
use gpool_cli::foreign::slurm::flags::SBATCH;
use gpool_cli::foreign::slurm::shape::GPUS_PER_PROCESS;
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
    ("ARRAY_INX", "array"),
    ("CONSTRAINT", "constraint"),
    ("CPUS_PER_GPU", "cpus-per-gpu"),
    ("EXCLUSIVE", "exclusive"),
    ("EXPORT", "export"),
    ("GPUS", "gpus"),
    ("GPUS_PER_NODE", "gpus-per-node"),
    ("GPUS_PER_TASK", "gpus-per-task"),
    ("GRES", "gres"),
    ("JOB_NAME", "job-name"),
    ("MEM_PER_CPU", "mem-per-cpu"),
    ("MEM_PER_GPU", "mem-per-gpu"),
    ("MEM_PER_NODE", "mem"),
    ("PARTITION", "partition"),
    ("QOS", "qos"),
    ("REQUEUE", "requeue"),
    ("SIGNAL", "signal"),
    ("TIMELIMIT", "time"),
];

/// Runs the command.
///
/// # Errors
/// The request is not valid, impossible or refused.
pub fn run(words: &[String], session: &Session) -> Result {
    let Some(said) = read(&SBATCH, words, session)? else { return Ok(Exit::OK) };
    let mut request = request(&said)?;
    request.job.compat.push("slurm".to_owned());
    let script = said.words.first().filter(|_| !said.has("wrap"));
    request.job.origin = Some(origin::of("sbatch", words, script.map(String::as_str)));
    forget_own_share(&mut request, &said);
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
    if said.has("wait") {
        return gpool_line(&["--quiet", "wait", &job.id], session);
    }
    Ok(Exit::OK)
}

fn request(said: &Said) -> Result<Request> {
    if let Some(line_of_shell) = said.value("wrap") {
        let (line, told) = flags(said, &[])?;
        let line = line.or(gpool_cli::flags::from_variables(request::text_variables())?);
        let mut request = request::of_brought(line, &told, output)?;
        request.job.command = ["/bin/sh", "-c", line_of_shell].map(str::to_owned).to_vec();
        request.job.name.get_or_insert_with(|| "wrap".to_owned());
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

/// Removes the inherited number of GPUs per process if a job submits another job.
fn forget_own_share(request: &mut Request, said: &Said) {
    let script = request.job.script.as_ref().and_then(|script| script.text.as_deref());
    let is_asked = said.has("gpus-per-task")
        || script.is_some_and(|text| text.contains("--gpus-per-task"))
        || std::env::var_os("SBATCH_GPUS_PER_TASK").is_some();
    if !is_asked {
        request.job.environment.remove(GPUS_PER_PROCESS);
    }
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
        Some(Given { flag, value, place: Some(format!("variable {name}")) })
    };
    VARIABLES.iter().filter_map(of).collect()
}
