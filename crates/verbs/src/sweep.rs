//! `gpool sweep`: submits the trials of a sweep, and shows them.

use std::process::{Command, Stdio};

use clap::{Args, Subcommand};
use gpool_cli::args::job_flags::JobFlags;
use gpool_cli::args::list::ListFlags;
use gpool_cli::args::values;
use gpool_cli::caller;
use gpool_cli::errors;
use gpool_cli::exit::Exit;
use gpool_cli::failure::{Failure, Result};
use gpool_cli::hand_in::{dry_run, hand_in, note_terms, note_wait, say};
use gpool_cli::render::json;
use gpool_cli::render::safe::safe;
use gpool_cli::render::words::count;
use gpool_cli::request::{self, Request};
use gpool_cli::session::Session;
use gpool_client::{Client, JobsQuery};
use gpool_model::GroupPlace;
use gpool_model::job::JobState;
use gpool_sweep::driver::{self, Plan};
use gpool_sweep::fault::Fault;
use gpool_sweep::parameter::{Domain, Parameter};
use gpool_sweep::sweep::{EarlyStop, Method, Sweep};
use gpool_sweep::trials::{DRIVER, TRIAL};
use gpool_sweep::wandb;
use gpool_wire::field::heading;
use gpool_wire::{JobCreate, catalogue};

use crate::sweep_show;

const HEADING: &str = "Sweep";
/// The most trials of a driver that run at once, unless the user says it.
const PARALLEL: u32 = 8;

#[derive(Debug, Clone, Args)]
#[command(args_override_self = true, args_conflicts_with_subcommands = true)]
#[command(after_help = "A parameter has values (bs=16,32) or a range (lr=1e-5..1e-1:log, \
    layers=2..8, dropout=0..0.5:0.1). {lr} in the command, and GPOOL_PARAM_LR, have its value. \
    A trial reports the metric as gpool help sweeps says.")]
pub struct SweepArgs {
    #[command(subcommand)]
    action: Option<SweepAction>,
    #[command(flatten)]
    flags: JobFlags,
    /// Maximum number of trials
    #[arg(long, value_name = "N", help_heading = HEADING)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    trials: Option<u32>,
    /// Maximum number of trials that run at once
    #[arg(long, value_name = "N", help_heading = HEADING)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    parallel: Option<u32>,
    /// How values are chosen: grid, random, or bayes, by earlier results with Optuna
    #[arg(long, value_name = "METHOD", help_heading = HEADING)]
    method: Option<String>,
    /// End bad trials early: median, asha or hyperband, e.g. asha:10:3 (steps and factor)
    #[arg(long, value_name = "RULE", help_heading = HEADING)]
    early_stop: Option<String>,
    /// Seed of random values; the same seed draws the same values
    #[arg(long, value_name = "N", help_heading = HEADING)]
    seed: Option<u64>,
    /// Python with the packages gpool and optuna, for bayes and early stopping
    #[arg(long, value_name = "PATH", default_value = "python3", help_heading = HEADING)]
    python: String,
    /// Check the sweep without submitting it
    #[arg(long, help_heading = heading::SUBMISSION)]
    dry_run: bool,
    /// Run the failed trials of a sweep again
    #[arg(long, value_name = "NAME", help_heading = HEADING)]
    retry_failed: Option<String>,
    /// Sweep file of W&B
    #[arg(value_name = "FILE", help_heading = None::<&'static str>)]
    file: Option<String>,
    /// Command of a trial, with {NAME} for the value of a parameter
    #[arg(last = true, value_name = "COMMAND", help_heading = None::<&'static str>)]
    command: Vec<String>,
}

#[derive(Debug, Clone, Subcommand)]
enum SweepAction {
    /// Show the trials of a sweep, the best first
    Show {
        /// The sweep
        #[arg(value_name = "NAME", value_parser = values::filled)]
        name: String,
        #[command(flatten)]
        list: ListFlags,
    },
}

/// Runs the verb.
///
/// # Errors
/// The sweep can't run, or the server refuses a job.
pub fn run(args: &SweepArgs, session: &Session) -> Result {
    if let Some(SweepAction::Show { name, list }) = &args.action {
        return sweep_show::run(name, list, session);
    }
    if let Some(name) = &args.retry_failed {
        let words = ["retry", "--failed", &format!("group:{name}")].map(str::to_owned);
        return session.verb(&words);
    }
    let (sweep, flags) = sweep(args, session)?;
    sweep.check().map_err(fault)?;
    let name = name(&sweep, &flags)?;
    let mut request = request::of_command(flags, &sweep.command)?;
    check_group(&request.job)?;
    let client = session.client()?;
    request.resolve(&client, session)?;
    refuse_used(&client, &name, sweep.needs_driver())?;
    let seed = args.seed.unwrap_or_else(random_seed);
    match sweep.needs_driver() {
        true => put_driver(&mut request, &sweep, &name, seed, args)?,
        false => put_array(&mut request, &sweep, &name, seed, args.parallel)?,
    }
    submit(&client, &request, (&sweep, &name, seed), args, session)
}

/// The sweep of the file and the flags, and the flags for the job.
fn sweep(args: &SweepArgs, session: &Session) -> Result<(Sweep, JobFlags)> {
    let mut sweep = match &args.file {
        Some(path) => of_file(path, session)?,
        None => Sweep::default(),
    };
    let mut flags = args.flags.clone();
    for parameter in std::mem::take(&mut flags.array.param) {
        let name = parameter.name;
        let domain = Domain::parse(parameter.values).map_err(|it| {
            let what = format!("--param {name}: {}", it.what);
            fault(Fault { what, ..it })
        })?;
        // A flag overrides the file.
        sweep.parameters.retain(|own| own.name != name || args.file.is_none());
        sweep.parameters.push(Parameter { name, domain });
    }
    if flags.array != Default::default() || flags.request.0.array.is_some() {
        let what = "a sweep is an array of its trials, and has no other elements";
        return Err(Failure::new(errors::USAGE, what).tip("--param seed=1,2,3"));
    }
    if let Some(method) = &args.method {
        sweep.method = Some(Method::parse(method).ok_or_else(|| {
            Failure::new(catalogue::INVALID, format!("{method:?} is not a value of --method"))
                .why("the values are grid, random and bayes")
        })?);
    }
    if let Some(rule) = &args.early_stop {
        let rule = EarlyStop::parse(rule)
            .map_err(|why| Failure::new(catalogue::INVALID, format!("--early-stop: {why}")))?;
        sweep.early_stop = Some(rule);
    }
    sweep.n_trials = args.trials.or(sweep.n_trials);
    if let Some(metric) = &flags.request.0.metric {
        let objective = gpool_model::Objective::parse(metric);
        let invalid = |error| Failure::new(catalogue::INVALID, format!("--metric: {error}"));
        sweep.objective = Some(objective.map_err(invalid)?);
    }
    flags.request.0.metric = sweep.objective.as_ref().map(ToString::to_string);
    if !args.command.is_empty() {
        sweep.command.clone_from(&args.command);
    }
    if sweep.command.is_empty() {
        return Err(Failure::new(errors::USAGE, "there is no command for the trials")
            .tip("gpool sweep --param lr=0.1,0.01 -- python train.py --lr {lr}"));
    }
    Ok((sweep, flags))
}

fn of_file(path: &str, session: &Session) -> Result<Sweep> {
    let text = std::fs::read_to_string(path).map_err(|error| {
        let failure =
            Failure::new(catalogue::SCRIPT_MISSING, format!("can't read {path}: {error}"));
        failure.tip("a script is a command: gpool sweep --param lr=0.1,0.01 -- ./train.sh")
    })?;
    let (sweep, passed_over) = wandb::read(&text).map_err(|finding| {
        let failure = Failure::new(
            catalogue::INVALID,
            safe(&format!("{path}, line {}: {}", finding.line, finding.what)),
        );
        finding.advice.into_iter().fold(failure, |failure, tip| failure.tip(tip))
    })?;
    if !passed_over.is_empty() {
        let keys = passed_over.join(", ");
        session.screen.note(&safe(&format!("note: {path}: gpool does not use {keys}")));
    }
    Ok(sweep)
}

fn fault(fault: Fault) -> Failure {
    Failure::new(catalogue::INVALID, fault.what).tip(fault.advice)
}

/// The name of the sweep, which is that of its group.
fn name(sweep: &Sweep, flags: &JobFlags) -> Result<String> {
    let name = flags.request.0.name.as_ref().or(sweep.name.as_ref());
    let Some(name) = name else { return Ok(format!("sweep-{:04x}", random_seed() & 0xffff)) };
    match gpool_model::id::is_plain_name(name) {
        true => Ok(name.clone()),
        false => Err(Failure::new(catalogue::INVALID, format!("{name:?} is no name of a sweep"))
            .why("a name has up to 63 letters, digits and . _ -, and begins with a letter")
            .tip("--name tuning")),
    }
}

fn check_group(job: &JobCreate) -> Result<()> {
    match &job.group {
        None => Ok(()),
        Some(group) => {
            let what = format!("a sweep is a group of its own, so it can't be in {group}");
            Err(Failure::new(catalogue::INVALID, what).tip("--name tuning"))
        }
    }
}

/// Refuses the name of another sweep. A driver continues its sweep once the last driver has ended.
fn refuse_used(client: &Client, name: &str, needs_driver: bool) -> Result<()> {
    let query = JobsQuery {
        group: Some(name.to_owned()),
        state: Some("all".to_owned()),
        ..JobsQuery::default()
    };
    for job in client.every_job(query) {
        let job = job?;
        let place = job.request.group.as_deref().and_then(|text| GroupPlace::parse(text).ok());
        let continues = place.is_some_and(|place| match place.role.as_deref() {
            Some(DRIVER) => job.state.is_end(),
            Some(TRIAL) => place.index.is_some(),
            _ => false,
        });
        if !(needs_driver && continues) {
            let what = format!("there is a sweep {name} already, in job {}", job.id);
            return Err(Failure::new(catalogue::INVALID, what)
                .tip("choose another --name")
                .tip(format!("gpool sweep show {name}")));
        }
    }
    Ok(())
}

/// Not for secrets: it only has to differ between sweeps.
fn random_seed() -> u64 {
    u64::from_str_radix(&gpool_client::new_key()[..8], 16).unwrap_or_default()
}

/// Makes the request an array with one element for each trial.
fn put_array(
    request: &mut Request,
    sweep: &Sweep,
    name: &str,
    seed: u64,
    parallel: Option<u32>,
) -> Result<()> {
    let table = sweep.trials(seed).map_err(fault)?;
    let job = &mut request.job;
    job.group = Some(format!("{name}/{TRIAL}"));
    job.name.get_or_insert_with(|| name.to_owned());
    job.table = Some(table);
    job.max_parallel = parallel.or(job.max_parallel);
    Ok(())
}

/// Makes the request the driver, with the request of a trial in its plan.
fn put_driver(
    request: &mut Request,
    sweep: &Sweep,
    name: &str,
    seed: u64,
    args: &SweepArgs,
) -> Result<()> {
    let has_software = !request.job.activate.is_empty() || request.job.setup.is_some();
    if !has_software && !caller::is_remote() {
        check_python(&args.python)?;
    }
    let driver_job = request.take_driver(name);
    let template = JobCreate {
        environment: Default::default(),
        environment_bytes: None,
        max_parallel: None,
        name: Some(request.job.name.clone().unwrap_or_else(|| name.to_owned())),
        ..request.job.clone()
    };
    let n_parallel = args.parallel.or(request.job.max_parallel).unwrap_or(PARALLEL);
    let plan: Option<Plan> = sweep.plan(name, n_parallel, seed, template);
    let text = plan.and_then(|plan| serde_json::to_string(&plan).ok()).unwrap_or_default();
    if text.len() > driver::BYTES_MAX {
        let what =
            format!("the sweep has {} bytes; a driver can have {}", text.len(), driver::BYTES_MAX);
        return Err(Failure::new(catalogue::INVALID, what).tip("put the command into a script"));
    }
    let own = std::mem::take(&mut request.job);
    let mut environment = own.environment;
    environment.insert(driver::VARIABLE.to_owned(), text);
    request.job = JobCreate {
        command: [&*args.python, "-m", driver::MODULE].map(str::to_owned).to_vec(),
        environment,
        environment_bytes: own.environment_bytes,
        pool: own.pool,
        node: own.node,
        not_node: own.not_node,
        activate: own.activate,
        setup: own.setup,
        ..driver_job
    };
    Ok(())
}

/// Checks, before the submission, that the driver can import its packages.
fn check_python(python: &str) -> Result<()> {
    let module = driver::MODULE;
    let found = Command::new(python)
        .args(["-c", &format!("import {module}, optuna")])
        .stdin(Stdio::null())
        .output();
    let why = match found {
        Ok(found) if found.status.success() => return Ok(()),
        Ok(found) => {
            let text = String::from_utf8_lossy(&found.stderr);
            safe(text.trim_end().lines().last().unwrap_or("it failed")).into_owned()
        }
        Err(error) => error.to_string(),
    };
    Err(Failure::new(catalogue::INVALID, "this sweep needs Python with gpool and Optuna")
        .why(format!("{python}: {why}"))
        .tip(format!("{python} -m pip install 'gpool[sweep]'"))
        .tip("--python PATH   (a Python that has them)")
        .tip("--method random   (needs neither)"))
}

fn submit(
    client: &Client,
    request: &Request,
    (sweep, name, seed): (&Sweep, &str, u64),
    args: &SweepArgs,
    session: &Session,
) -> Result {
    let is_quiet = session.screen.quiet;
    if !is_quiet {
        say(request, session);
    }
    if args.dry_run {
        if let Some(table) = &request.job.table {
            session.screen.note(&format!("note: {}", count(table.rows.len() as u64, "trial")));
        }
        return dry_run(client, &request.job, session);
    }
    let job = hand_in(client, request)?;
    if session.global.json {
        session.screen.data(&json::one(&job))?;
        return Ok(Exit::OK);
    }
    session.screen.data(&format!("{}\n", job.id))?;
    if is_quiet {
        return Ok(Exit::OK);
    }
    note_terms(&job, session);
    let n = request.job.table.as_ref().map(|table| table.rows.len() as u64);
    let n = n.or(sweep.n_trials.map(u64::from)).map(|n| format!("{}, ", count(n, "trial")));
    let seed = match sweep.method() {
        Method::Grid => String::new(),
        _ => format!(", seed {seed}"),
    };
    session.screen.note(&format!(
        "note: sweep {name}: {}{}{seed}. gpool sweep show {name}",
        n.unwrap_or_default(),
        sweep.method().as_str()
    ));
    if job.state != JobState::Held {
        note_wait(client, &job, session);
    }
    Ok(Exit::OK)
}
