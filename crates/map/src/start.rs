//! `gpool map`: stores the items, and submits the driver.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, File};
use std::io::Cursor;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use gpool_cli::args::job_flags::JobFlags;
use gpool_cli::caller;
use gpool_cli::errors;
use gpool_cli::exit::Exit;
use gpool_cli::failure::{Failure, Result};
use gpool_cli::hand_in::{hand_in, note_wait, say};
use gpool_cli::render::json;
use gpool_cli::render::words::count;
use gpool_cli::request::{self, Request};
use gpool_cli::session::Session;
use gpool_client::{Client, JobsQuery, new_key};
use gpool_model::id::is_plain_name;
use gpool_wire::{JobCreate, catalogue};

use crate::args::MapArgs;
use crate::driver;
use crate::folder::{folder_of, no_map};
use crate::items::{self, Form};
use crate::ledger::Ledger;
use crate::plan::{self, DRIVER, Plan, WORKER, WorkerOptions};
use crate::records::{Record, RecordState, Records};

/// Most workers that gpool chooses.
const WORKERS_MAX: u32 = 64;

/// Starts a map.
///
/// # Errors
/// The list or the request is wrong, or the server refuses.
pub fn run(args: &MapArgs, session: &Session) -> Result {
    if args.command.is_empty() {
        return Err(Failure::new(errors::USAGE, "there is no command for the items")
            .tip("gpool map items.txt --gpus 1 -- python worker.py"));
    }
    let flags = &args.flags;
    let has_own_array = flags.array != Default::default() || flags.request.0.array.is_some();
    if has_own_array || flags.request.0.group.is_some() {
        let what = "the workers of a map are an array in a group of their own";
        return Err(Failure::new(errors::USAGE, what).tip("--workers 4 --name NAME"));
    }
    if flags.request.0.container_user.is_some() {
        let what = "--container-user does not apply to a map";
        return Err(Failure::new(errors::USAGE, what)
            .why("its workers ask the server for items, as your user"));
    }
    let mut request = request::of_command(flags.clone(), &args.command)?;
    let client = session.client()?;
    request.resolve(&client, session)?;
    if caller::is_remote() {
        return Err(Failure::new(catalogue::INVALID, "a map needs a folder that its jobs share")
            .why("this server is on another machine")
            .tip("gpool map on a machine of the cluster"));
    }
    let id = new_key()[..12].to_owned();
    let name = match &request.job.name {
        Some(name) if is_plain_name(name) => name.clone(),
        Some(name) if flags.request.0.name.is_some() => {
            let what = format!("{name:?} is no name of a map");
            return Err(Failure::new(catalogue::INVALID, what).tip("--name frames"));
        }
        _ => format!("map-{}", &id[..4]),
    };
    let folder = create_folder(&name)?;
    let n_items = copy_items(args, &folder).inspect_err(|_| remove(&folder))?;
    let driver_job = request.take_driver(&name);
    let workers = workers(&request, args, &name, n_items, &client)?;
    let plan = Plan {
        name,
        id,
        n_items,
        tries: args.tries,
        program: program(),
        command: std::mem::take(&mut request.job.command),
        options: WorkerOptions { ahead: args.ahead, answer: args.answer },
        workers,
    };
    if !session.screen.quiet {
        say(&request, session);
    }
    submit(&plan, &folder, (request, driver_job), &client, session).inspect_err(|_| remove(&folder))
}

/// A folder without a job would hold its name.
fn remove(folder: &Path) {
    let _ = fs::remove_dir_all(folder);
}

fn program() -> String {
    let program = std::env::current_exe().unwrap_or_else(|_| PathBuf::from("gpool"));
    program.display().to_string()
}

fn create_folder(name: &str) -> Result<PathBuf> {
    let folder = folder_of(name)?;
    let failed = |error: std::io::Error| {
        let what = format!("can't make {}: {error}", folder.display());
        Failure::new(catalogue::INVALID, what)
    };
    let mut builder = DirBuilder::new();
    builder.recursive(true).mode(0o700);
    builder.create(folder.parent().unwrap_or(&folder)).map_err(failed)?;
    match builder.recursive(false).create(&folder) {
        Ok(()) => Ok(folder),
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
            let what = format!("there is a map {name} already, in {}", folder.display());
            Err(Failure::new(catalogue::INVALID, what)
                .tip(format!("gpool map --resume {name}   (handle the rest of its items)"))
                .tip("choose another --name, or remove the folder"))
        }
        Err(error) => Err(failed(error)),
    }
}

/// Copies the items, so that later changes of the list change nothing.
fn copy_items(args: &MapArgs, folder: &Path) -> Result<u64> {
    let to = plan::items(folder);
    let wrong = |path: &str, why: String| {
        let path = if path == "-" { "standard input" } else { path };
        Failure::new(catalogue::INVALID, format!("{path}: {why}"))
    };
    let n_items = match &args.items[..] {
        [] => {
            return Err(Failure::new(errors::USAGE, "which items?")
                .tip("gpool map items.txt -- COMMAND")
                .tip("gpool map 'images/*.jpg' --files -- COMMAND"));
        }
        [path] if path == "-" && !args.files => {
            let form = args.form.unwrap_or(Form::Lines);
            items::copy(std::io::stdin().lock(), form, &to).map_err(|why| wrong(path, why))?
        }
        [path] if !args.files => {
            let form = args.form.unwrap_or_else(|| Form::of_path(Path::new(path)));
            let file = File::open(path).map_err(|error| {
                wrong(path, format!("can't read it: {error}"))
                    .tip("--files   (files are the items)")
            })?;
            items::copy(file, form, &to).map_err(|why| wrong(path, why))?
        }
        paths => {
            let mut names = Vec::new();
            for path in paths {
                names.extend(files(path).map_err(|why| wrong(path, why))?);
            }
            let text = names.join("\n");
            items::copy(Cursor::new(text), Form::Lines, &to).map_err(|why| wrong("--files", why))?
        }
    };
    match n_items {
        0 => Err(Failure::new(catalogue::INVALID, "the list has no items")),
        n => Ok(n),
    }
}

/// The files that a path or a pattern names, in order.
fn files(pattern: &str) -> std::result::Result<Vec<String>, String> {
    if Path::new(pattern).exists() {
        return Ok(vec![pattern.to_owned()]);
    }
    let (folder, name) = pattern.rsplit_once('/').unwrap_or((".", pattern));
    let matcher = globset::GlobBuilder::new(name)
        .literal_separator(true)
        .build()
        .map_err(|error| error.to_string())?
        .compile_matcher();
    let entries = fs::read_dir(folder).map_err(|error| format!("can't list {folder}: {error}"))?;
    let mut found = Vec::new();
    for entry in entries.flatten() {
        let Ok(file) = entry.file_name().into_string() else { continue };
        if matcher.is_match(&file) && !file.starts_with('.') {
            found.push(match pattern.contains('/') {
                true => format!("{folder}/{file}"),
                false => file,
            });
        }
    }
    found.sort();
    match found.is_empty() {
        true => Err("no file has such a name".to_owned()),
        false => Ok(found),
    }
}

/// The request of the workers.
fn workers(
    request: &Request,
    args: &MapArgs,
    name: &str,
    n_items: u64,
    client: &Client,
) -> Result<JobCreate> {
    let mut job = request.job.clone();
    if let Some(n) = args.workers_per_gpu {
        if job.gpus.is_some() || job.gpu_share.is_some() || job.gpu_memory.is_some() {
            let what = "--workers-per-gpu is the part of a GPU that each worker gets";
            return Err(Failure::new(errors::USAGE, what).tip("leave out --gpus"));
        }
        // Two digits: three workers have 0.33 each.
        job.gpus = Some(format!("{}", (100.0 / f64::from(n)).floor() / 100.0));
    }
    let n_workers = match args.workers {
        Some(n) => n,
        None => {
            let n_gpus = u32::try_from(client.gpus()?.items.len()).unwrap_or(u32::MAX);
            let uses_gpus = job.gpus.as_deref().is_some_and(|gpus| gpus != "0");
            let n = if uses_gpus {
                n_gpus.saturating_mul(args.workers_per_gpu.unwrap_or(1))
            } else {
                1
            };
            n.clamp(1, WORKERS_MAX)
        }
    };
    let n_workers = n_workers.min(u32::try_from(n_items).unwrap_or(u32::MAX));
    Ok(JobCreate {
        command: Vec::new(),
        array: Some(format!("0-{}", n_workers - 1)),
        group: Some(format!("{name}/{WORKER}")),
        name: Some(name.to_owned()),
        ..job
    })
}

/// Writes the plan, and submits the driver with the parts of the request that are its own.
fn submit(
    plan: &Plan,
    folder: &Path,
    (mut request, driver_job): (Request, JobCreate),
    client: &Client,
    session: &Session,
) -> Result {
    plan.write(folder).map_err(|why| Failure::new(catalogue::INVALID, why))?;
    let own = std::mem::take(&mut request.job);
    let keep = |name: &&String| ["HOME", "PATH", "USER", "LANG"].contains(&name.as_str());
    let environment: BTreeMap<String, String> =
        own.environment.into_iter().filter(|(name, _)| keep(&name)).collect();
    request.job = JobCreate {
        command: vec![plan.program.clone(), driver::VERB.to_owned(), folder.display().to_string()],
        environment,
        ..driver_job
    };
    let job = hand_in(client, &request)?;
    if session.global.json {
        session.screen.data(&json::one(&job))?;
        return Ok(Exit::OK);
    }
    session.screen.data(&format!("{}\n", job.id))?;
    if !session.screen.quiet {
        let (name, items) = (&plan.name, count(plan.n_items, "item"));
        session.screen.note(&format!("note: map {name}: {items}. gpool map --show {name}"));
        note_wait(client, &job, session);
    }
    Ok(Exit::OK)
}

/// Handles the rest of the items of a map with new workers, and tries those again that were set
/// aside.
///
/// # Errors
/// There is no such map, or it still runs.
pub fn resume(name: &str, session: &Session) -> Result {
    let folder = folder_of(name)?;
    let invalid = |why: String| Failure::new(catalogue::INVALID, why);
    if !folder.is_dir() {
        return Err(no_map(name));
    }
    let client = session.client()?;
    let query = JobsQuery { group: Some(name.to_owned()), ..JobsQuery::default() };
    let is_driver = |job: &gpool_wire::Job| {
        let place = job.request.group.as_deref();
        place.and_then(|place| place.split('/').nth(1)) == Some(DRIVER)
    };
    for job in client.every_job(query) {
        let job = job?;
        // Its workers end by themselves.
        if !is_driver(&job) {
            continue;
        }
        let id = job.id;
        return Err(invalid(format!("the map {name} runs, in job {id}"))
            .tip(format!("gpool cancel group:{name}   (end it; its records stay)")));
    }
    let mut plan = Plan::read(&folder).map_err(invalid)?;
    plan.id = new_key()[..12].to_owned();
    let mut ledger = Ledger::new(plan.n_items, plan.tries);
    let opened = Records::open(&plan::records(&folder), &mut ledger);
    let mut records = opened.map_err(|error| invalid(error.to_string()))?;
    let again = |id: &u64| Record::new(*id, RecordState::Again);
    let again: Vec<Record> = ledger.set_aside().iter().map(again).collect();
    records.append(&again).map_err(|error| invalid(error.to_string()))?;
    if ledger.n_done() == plan.n_items {
        session.screen.note(&format!("note: all items of {name} are done"));
        return Ok(Exit::OK);
    }
    let job = plan.workers.clone();
    let request = request::of_command(JobFlags::default(), &plan.command)?;
    let mut request = Request { job: JobCreate { name: None, ..job }, ..request };
    let driver_job = request.take_driver(&plan.name);
    submit(&plan, &folder, (request, driver_job), &client, session)
}
