//! Steps with several parts, separated by colons: `srun A : B`. Each part is a step of its own in
//! the tasks of its part of the job, and all run at once.

use std::process::{Child, Command, Stdio};
use std::sync::mpsc::channel;

use gpool_cli::errors;
use gpool_cli::exit::Exit;
use gpool_cli::failure::{Failure, Result};
use gpool_cli::foreign::flag::{ParseOutcome, ParsedArgs};
use gpool_cli::foreign::slurm::flags::SRUN;
use gpool_cli::foreign::slurm::parts::{merged_requests, split};
use gpool_cli::foreign::slurm::shape::{SIZE, is_of_shape};
use gpool_cli::session::Session;
use gpool_step::watch::{Happening, catch_signals};
use gpool_step::{PART, StepJob};
use rustix::process::{Pid, Signal, kill_process};

use super::srun::{self, as_job_of, of_step};

/// Runs `srun`: one step, or the parts of one in the job of this process or in a job of their own.
pub fn run(words: &[String], session: &Session) -> Result {
    if !words.iter().any(|word| word == ":") {
        return srun::run(words, session);
    }
    let mut parts = Vec::new();
    for words in split(words) {
        match SRUN.read(&words)? {
            ParseOutcome::Args(part) => parts.push(part),
            ParseOutcome::Help(text) => {
                session.screen.data(&text)?;
                return Ok(Exit::OK);
            }
        }
    }
    if parts.iter().any(|part| part.words.is_empty()) {
        return Err(Failure::new(errors::USAGE, "srun: the command of a part is missing")
            .tip("srun -n1 A : -n1 B"));
    }
    match StepJob::here() {
        Some(job) => in_job(&job, &parts, session),
        None => as_job(&parts, session),
    }
}

/// Submits a job with a task for each part.
fn as_job(parts: &[ParsedArgs], session: &Session) -> Result {
    let shape =
        |part: &ParsedArgs| part.flags.iter().filter(|flag| is_of_shape(flag)).cloned().collect();
    let shapes = merged_requests(parts.iter().map(shape).collect(), None)?;
    let others = parts[0].flags.iter().filter(|flag| !is_of_shape(flag)).cloned();
    let args = ParsedArgs { flags: others.chain(shapes).collect(), words: parts[0].words.clone() };
    let mut inner = srun::program()?;
    for (at, part) in parts.iter().enumerate() {
        inner.extend((at > 0).then(|| ":".to_owned()));
        inner.extend(of_step(part));
    }
    as_job_of(&args, &inner, session)
}

/// Starts a step for each part, and waits for all.
fn in_job(job: &StepJob, parts: &[ParsedArgs], session: &Session) -> Result {
    let n_parts = std::env::var(SIZE).ok().and_then(|n| n.parse::<usize>().ok()).unwrap_or(1);
    if n_parts != parts.len() {
        let what = format!("srun: the step has {} parts, and the job has {n_parts}", parts.len());
        return Err(Failure::new(errors::USAGE, what)
            .tip("#SBATCH hetjob   (between equal parts of the job)")
            .tip("srun -n1 A & srun -n1 B & wait   (steps that run at once)"));
    }
    let (tell, happenings) = channel();
    // Before other threads start, since they inherit the signal mask.
    catch_signals(tell.clone())?;
    let mut children = Vec::new();
    for (at, part) in parts.iter().enumerate() {
        children.push(start(job, (at, n_parts), part)?);
    }
    let pids: Vec<Pid> = children.iter().map(Pid::from_child).collect();
    for (at, mut child) in children.into_iter().enumerate() {
        let tell = tell.clone();
        std::thread::spawn(move || {
            drop(tell.send(Happening::Part(at, gpool_step::watch::code(&mut child))))
        });
    }
    let mut codes: Vec<Option<u8>> = vec![None; n_parts];
    let signal = |codes: &[Option<u8>], signal: Signal| {
        for (pid, _) in pids.iter().zip(codes).filter(|(_, code)| code.is_none()) {
            let _ = kill_process(*pid, signal);
        }
    };
    while codes.iter().any(Option::is_none) {
        match happenings.recv() {
            Ok(Happening::Part(at, code)) => {
                codes[at] = Some(code);
                if code != 0 && parts[at].has("kill-on-bad-exit") {
                    session.screen.note("srun: ending the other parts of the step");
                    signal(&codes, Signal::TERM);
                }
            }
            Ok(Happening::Signal(number, _)) => {
                if let Some(number) = Signal::from_named_raw(number) {
                    signal(&codes, number);
                }
            }
            Ok(_) => {}
            Err(_) => break,
        }
    }
    Ok(Exit(codes.into_iter().flatten().max().unwrap_or(0)))
}

fn start(job: &StepJob, (at, n_parts): (usize, usize), part: &ParsedArgs) -> Result<Child> {
    let program = srun::program()?;
    let mut command = Command::new(&program[0]);
    command.args(&program[1..]).args(of_step(part)).env(PART, format!("{at}/{n_parts}"));
    for (other, nodes) in job.nodes_of_parts(n_parts).into_iter().enumerate() {
        command.env(format!("SLURM_JOB_NODELIST_HET_GROUP_{other}"), nodes.join(","));
        command.env(format!("SLURM_JOB_NUM_NODES_HET_GROUP_{other}"), nodes.len().to_string());
        command.env(format!("SLURM_JOB_ID_HET_GROUP_{other}"), job.id());
    }
    if at > 0 {
        command.stdin(Stdio::null());
    }
    // Signals come from this process, so that none comes twice.
    std::os::unix::process::CommandExt::process_group(&mut command, 0);
    command.spawn().map_err(|error| {
        Failure::new(errors::INTERNAL, format!("srun: can't start a part: {error}"))
    })
}
