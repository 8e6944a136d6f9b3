//! `gbatch`: submits a script or a command.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use gpool_cli::args::job_flags::JobFlags;
use gpool_cli::errors;
use gpool_cli::exit::Exit;
use gpool_cli::failure::{Failure, Result};
use gpool_cli::foreign::flag::{ParsedArgs, PassedFlag, Spoken};
use gpool_cli::foreign::gflow::flags::GBATCH;
use gpool_cli::foreign::gflow::translate::translate;
use gpool_cli::hand_in::{dry_run, hand_in, say};
use gpool_cli::render::safe::safe;
use gpool_cli::render::words;
use gpool_cli::request::{self, Request};
use gpool_cli::script::Script;
use gpool_cli::session::Session;
use gpool_model::array::{ArrayValues, Axis, ElementValues};
use gpool_wire::JobCreate;
use gpool_wire::array::read_array;

use super::{completion, gjob, gqueue};
use crate::shim::{print, read};

pub static NEW: Spoken =
    Spoken { name: "gbatch new", about: "Write a template of a script", flags: &[], words: "NAME" };

/// The contents of a new script.
const TEMPLATE: &str = "#!/bin/bash
# GFLOW --gpus=1
# GFLOW --time=1:00:00
# Others: --priority, --memory, --conda-env, --depends-on, --project, --begin

echo \"Begun on $(hostname) with GPUs $CUDA_VISIBLE_DEVICES\"
";

/// Most elements of an array that a dry run shows one by one.
const SHOWN_MAX: usize = 1000;

/// Runs the command.
pub fn run(words: &[String], session: &Session) -> Result {
    let with = |word: &str, rest: &[String]| {
        std::iter::once(word.to_owned()).chain(rest.iter().cloned()).collect::<Vec<_>>()
    };
    if let Some((word, rest)) = words.split_first() {
        match word.as_str() {
            "new" => return new(rest, session),
            "completion" => return completion(rest, session),
            // Words that users know from `squeue` and `scontrol`.
            "list" | "queue" => return gqueue::run(rest, session),
            "status" => return gjob::run(&with("show", rest), session),
            "log" => return gjob::run(&with("log", rest), session),
            _ => {}
        }
    }
    let Some(args) = read(&GBATCH, words, session)? else { return Ok(Exit::OK) };
    let mut request = request(&args)?;
    request.job.compat.push("gflow".to_owned());
    let client = session.client()?;
    request.resolve(&client, session)?;
    say(&request, session);
    if args.has("dry-run") {
        print(&preview(&request.job)?, session)?;
        return dry_run(&client, &request.job, session);
    }
    let job = hand_in(&client, &request)?;
    print(&format!("Submitted batch job {} ({})\n", job.id, job.name), session)
}

fn request(args: &ParsedArgs) -> Result<Request> {
    let translation = translate(&args.flags)?;
    let line = translation.flags()?;
    let no_file = |_: &_| None;
    if let Some(command) = args.value("command") {
        if let Some(word) = args.words.first() {
            let what = format!("gbatch: --command and {word:?} are two commands");
            return Err(Failure::new(errors::USAGE, what).tip("gbatch --gpus 1 python train.py"));
        }
        return of_command(&args.flags, line, &[command.to_owned()]);
    }
    match args.words.split_first() {
        None => request::of_brought_script(line, translation, no_file, &Script::read("-")?, &[]),
        Some((script, arguments)) if is_script(script) => request::of_brought_script(
            line,
            translation,
            no_file,
            &Script::read(script)?,
            arguments,
        ),
        Some(_) => of_command(&args.flags, line, &args.words),
    }
}

fn of_command(given: &[PassedFlag], mut line: JobFlags, words: &[String]) -> Result<Request> {
    let translation = translate(given)?;
    if line.request.0.notify.is_empty() {
        line.request.0.notify.extend(translation.mail.rule());
    }
    if line.strict {
        translation.refuse_unclear()?;
    }
    let mut request = request::of_command(line, words)?;
    translation.say(&mut request.remarks, &mut request.warnings);
    Ok(request)
}

/// The dry run, one line for each element.
fn preview(job: &JobCreate) -> Result<String> {
    let gpus = job.gpus.as_deref().unwrap_or("0");
    let script = job.script.as_ref().map(|script| script.name.clone());
    let command: Vec<String> = script.into_iter().chain(job.command.iter().cloned()).collect();
    let line = |n: usize, command: &[String], more: &str| {
        let command = safe(&words::command(command)).into_owned();
        format!("  [{n}] {command} (GPUs: {gpus}{more})\n")
    };
    let values = values(job);
    let indexes: Vec<u32> = match (&job.array, &values) {
        (Some(array), _) => {
            let (indexes, _) = read_array(array)
                .map_err(|error| Failure::new(errors::INVALID, format!("--array: {error}")))?;
            let positions = 0..indexes.len();
            positions.take(SHOWN_MAX).filter_map(|position| indexes.at(position)).collect()
        }
        (None, Some(values)) => (0..values.n_rows().unwrap_or(0)).take(SHOWN_MAX).collect(),
        (None, None) => {
            return Ok(format!("Would submit 1 batch job:\n{}", line(1, &command, "")));
        }
    };
    let mut text = format!("Would submit {} batch job(s):\n", indexes.len());
    for (n, index) in indexes.into_iter().enumerate() {
        let params = values.as_ref().map(|values| values.params(index)).unwrap_or_default();
        let filled = command.iter().map(|word| gpool_model::placeholder::fill(word, None, &params));
        let more = if values.is_some() { String::new() } else { format!(", task_id: {index}") };
        text.push_str(&line(n + 1, &filled.collect::<Vec<_>>(), &more));
    }
    Ok(text)
}

fn values(job: &JobCreate) -> Option<ArrayValues> {
    if let Some(table) = &job.table {
        let row = |values: &Vec<String>| ElementValues { item: None, values: values.clone() };
        let rows = table.rows.iter().map(row).collect();
        return Some(ArrayValues::Rows { names: table.names.clone(), rows });
    }
    let axis =
        |param: &gpool_wire::Param| Axis { name: param.name.clone(), values: param.values.clone() };
    (!job.params.is_empty())
        .then(|| ArrayValues::Product { axes: job.params.iter().map(axis).collect() })
}

/// Whether a word names a script and not a command.
pub(super) fn is_script(word: &str) -> bool {
    let begins = || {
        let mut file = std::fs::File::open(word).ok()?;
        let mut start = [0; 2];
        std::io::Read::read_exact(&mut file, &mut start).ok()?;
        Some(&start == b"#!")
    };
    Path::new(word).is_file() && begins() == Some(true)
}

fn new(words: &[String], session: &Session) -> Result {
    let Some(args) = read(&NEW, words, session)? else { return Ok(Exit::OK) };
    let [name] = args.words.as_slice() else {
        return Err(
            Failure::new(errors::USAGE, "gbatch new: give one name").tip("gbatch new train")
        );
    };
    let path = if name.ends_with(".sh") { name.clone() } else { format!("{name}.sh") };
    let mut open = OpenOptions::new();
    // An existing file is never overwritten.
    let written = open.write(true).create_new(true).mode(0o755).open(&path);
    let written = written.and_then(|mut file| file.write_all(TEMPLATE.as_bytes()));
    written.map_err(|error| Failure::new(errors::NOT_WRITTEN, format!("{path}: {error}")))?;
    session.screen.note(&format!("wrote {path}; gbatch {path} submits it"));
    Ok(Exit::OK)
}
