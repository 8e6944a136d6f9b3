//! `sbatch`: submits a script, with flags from the command line, `SBATCH_…` variables and the
//! script's directives.

use gpool_cli::args::job_flags::JobFlags;
use gpool_cli::exit::Exit;
use gpool_cli::failure::Result;
use gpool_cli::foreign::flag::{ParsedArgs, PassedFlag};
use gpool_cli::foreign::slurm::flags::SBATCH;
use gpool_cli::foreign::slurm::parts::refuse_colon;
use gpool_cli::foreign::slurm::translate::{translate_over, without_replaced};
use gpool_cli::foreign::translated::Translated;
use gpool_cli::hand_in::{dry_run, hand_in, note_terms, say};
use gpool_cli::request::{self, Request};
use gpool_cli::script::Script;
use gpool_cli::session::Session;

use super::{input_variables, origin};
use crate::shim::{gpool_line, print, read};

/// Runs the command.
pub fn run(words: &[String], session: &Session) -> Result {
    let Some(args) = read(&SBATCH, words, session)? else { return Ok(Exit::OK) };
    refuse_colon("sbatch", &args.words)?;
    let mut request = request(&args)?;
    request.job.compat.push("slurm".to_owned());
    let script = args.words.first().filter(|_| !args.has("wrap"));
    request.job.origin = Some(origin::of("sbatch", words, script.map(String::as_str)));
    let client = session.client()?;
    request.resolve(&client, session)?;
    if !args.has("quiet") {
        say(&request, session);
    }
    if args.has("test-only") {
        return dry_run(&client, &request.job, session);
    }
    let job = hand_in(&client, &request)?;
    note_terms(&job, session);
    let text = match args.has("parsable") {
        true => format!("{}\n", job.id),
        false => format!("Submitted batch job {}\n", job.id),
    };
    print(&text, session)?;
    if args.has("wait") || std::env::var_os("SBATCH_WAIT").is_some() {
        return gpool_line(&["--quiet", "wait", &job.id], session);
    }
    Ok(Exit::OK)
}

fn request(args: &ParsedArgs) -> Result<Request> {
    if let Some(line_of_shell) = args.value("wrap") {
        let (line, translation) = flags(args, &[])?;
        let line = line.or(gpool_cli::flags::from_variables(request::text_variables())?);
        let mut request = request::of_brought(line, &translation, output)?;
        // A script like any other: scancel --signal and scontrol write batch_script depend on it.
        let text =
            format!("#!/bin/sh\n# This script was created by sbatch --wrap.\n\n{line_of_shell}\n");
        request.job.script = Some(Script { path: "wrap".to_owned(), bytes: text.into() }.to_wire());
        return Ok(request);
    }
    let (script, arguments) = match args.words.split_first() {
        Some((script, arguments)) => (script.as_str(), arguments),
        None => ("-", &[][..]),
    };
    let script = Script::read(script)?;
    let (line, translation) = flags(args, &gpool_cli::flags::of_sbatch(&script))?;
    request::of_brought_script(line, translation, output, &script, arguments)
}

/// The flags of the command line and the variables, which override the script.
fn flags(args: &ParsedArgs, of_script: &[PassedFlag]) -> Result<(JobFlags, Translated)> {
    let variables = without_replaced(input_variables::of_batch("SBATCH_"), &args.flags);
    let below: Vec<PassedFlag> = of_script.iter().chain(&variables).cloned().collect();
    let mut translation = translate_over(&args.flags, &below)?;
    let of_variables = translate_over(&variables, of_script)?;
    let line = translation.flags()?.or(of_variables.flags()?);
    translation.join(of_variables, "SBATCH_ variables");
    translation.joins_output = true;
    Ok((line, translation))
}

/// The default output file, in the working folder of the job.
fn output(translation: &Translated) -> Option<&'static str> {
    Some(if translation.is_array { "slurm-%A_%a.out" } else { "slurm-%j.out" })
}
