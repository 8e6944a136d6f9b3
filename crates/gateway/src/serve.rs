//! `gpool serve`: creates, updates and shows services.

use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use clap::{Args, Subcommand};
use gpool_cli::act::cancel_living;
use gpool_cli::args::job_flags::JobFlags;
use gpool_cli::errors;
use gpool_cli::exit::Exit;
use gpool_cli::failure::{Failure, Result};
use gpool_cli::hand_in::{note_wait, say, unsure};
use gpool_cli::render::safe::safe;
use gpool_cli::request;
use gpool_cli::session::Session;
use gpool_client::{Client, JobsQuery, new_key};
use gpool_wire::{Job, JobCreate, RetryPolicy};

use crate::failure::invalid;
use crate::flags::{ScaleFlags, ServiceFlags};
use crate::gateway::{VERB, shown_host};
use crate::service::{Folder, GATEWAY, Revision, Service};
use crate::show;

/// How long `gpool serve` waits for the gateway.
const PATIENCE: Duration = Duration::from_secs(20);
const LOOK: Duration = Duration::from_millis(50);
/// Most restarts of a gateway, as `gpool submit --retry` allows them.
const RESTARTS: u32 = 1000;

/// The arguments of `gpool serve`.
#[derive(Debug, Clone, Args)]
#[command(args_conflicts_with_subcommands = true)]
#[command(
    after_help = "Replicas are jobs of the group of the service, and take the flags of gpool \
    submit. The gateway is one more job, without GPUs. gpool serve with the name of a service \
    updates it. gpool cancel group:NAME ends it."
)]
pub struct ServeArgs {
    #[command(subcommand)]
    action: Option<ServeAction>,
    #[command(flatten)]
    service: ServiceFlags,
    #[command(flatten)]
    job: JobFlags,
    /// Command of a replica, with {port} for its port
    #[arg(trailing_var_arg = true, value_name = "-- COMMAND")]
    #[arg(help_heading = None::<&'static str>)]
    words: Vec<String>,
}

#[derive(Debug, Clone, Subcommand)]
enum ServeAction {
    /// List your services
    List,
    /// Show the replicas of a service, its load, and why it has that many
    Show(NameArgs),
    /// Change the size of a service without an update
    Scale(ScaleArgs),
    /// Send all requests to the canary, and end the replicas before it
    Promote(NameArgs),
    /// Go back to the revision before
    Rollback(NameArgs),
    /// End a service, and remove its folder
    Remove(NameArgs),
}

#[derive(Debug, Clone, Args)]
struct NameArgs {
    /// Name of the service
    name: String,
}

#[derive(Debug, Clone, Args)]
struct ScaleArgs {
    /// Name of the service
    name: String,
    #[command(flatten)]
    flags: ScaleFlags,
}

/// Runs the verb.
///
/// # Errors
/// A value is not valid, the service does not exist, or the server refuses.
pub fn run(args: ServeArgs, session: &Session) -> Result {
    session.refuse_remote("serve")?;
    let all = Folder::of_user().ok_or_else(|| {
        invalid("there is no folder for services: HOME and XDG_DATA_HOME are not set")
    })?;
    match args.action {
        None => serve(args, &all, session),
        Some(ServeAction::List) => show::list(&all, session),
        Some(ServeAction::Show(NameArgs { name })) => {
            let service = stored(&all, &name)?;
            show::one(&all.of(&name), &service, session)
        }
        Some(ServeAction::Scale(args)) => change(
            &all,
            &args.name,
            |service| {
                args.flags.set(&mut service.scale)?;
                Ok(format!("{} has {} replicas", service.name, show::bounds(service)))
            },
            session,
        ),
        Some(ServeAction::Promote(NameArgs { name })) => change(
            &all,
            &name,
            |service| {
                if service.canary.take().is_none() {
                    return Err(invalid(format!("{} has no canary", service.name)));
                }
                Ok(format!(
                    "{}: all requests go to revision {}",
                    service.name, service.current.number
                ))
            },
            session,
        ),
        Some(ServeAction::Remove(NameArgs { name })) => remove(&all, &name, session),
        Some(ServeAction::Rollback(NameArgs { name })) => change(&all, &name, rollback, session),
    }
}

/// Prints why services have their numbers of replicas; groups that are no services are left out.
///
/// # Errors
/// The output can't be written.
pub fn explain(groups: &[&str], session: &Session) -> Result<()> {
    let Some(all) = Folder::of_user() else { return Ok(()) };
    groups.iter().try_for_each(|name| show::reasons(&all.of(name), name, session))
}

fn rollback(service: &mut Service) -> Result<String> {
    let Some(previous) = service.previous.take() else {
        return Err(invalid(format!("{} has no revision before", service.name)));
    };
    let from = std::mem::replace(&mut service.current, previous);
    // Its replicas serve until those of the other revision are ready.
    service.canary = None;
    let to = service.current.number;
    let text = format!("{}: back from revision {} to {to}", service.name, from.number);
    service.previous = Some(from);
    Ok(text)
}

fn stored(all: &Folder, name: &str) -> Result<Service> {
    let known = all.names();
    if !known.iter().any(|it| it == name) {
        return Err(invalid(format!("you have no service {:?}", safe(name)))
            .tip("gpool serve list   (your services)"));
    }
    all.of(name)
        .service()
        .map_err(|error| invalid(format!("can't read the service {name}: {error}")))
}

fn change(
    all: &Folder,
    name: &str,
    change: impl FnOnce(&mut Service) -> Result<String>,
    session: &Session,
) -> Result {
    let mut service = stored(all, name)?;
    let said = change(&mut service)?;
    store(&all.of(name), &service)?;
    session.screen.note(&said);
    Ok(Exit::OK)
}

fn store(folder: &Folder, service: &Service) -> Result<()> {
    folder.put_service(service).map_err(|error| {
        let path = folder.path().display();
        invalid(format!("can't write the service in {path}: {error}"))
    })
}

/// Creates or updates a service.
fn serve(args: ServeArgs, all: &Folder, session: &Session) -> Result {
    if args.words.is_empty() {
        return Err(Failure::new(errors::USAGE, "there is no command for the replicas")
            .tip("gpool serve --port 8000 --gpus 1 -- vllm serve MODEL --port {port}"));
    }
    let mut request = request::of_command(args.job, &args.words)?;
    let client = session.client()?;
    request.resolve(&client, session)?;
    say(&request, session);
    let mut job = request.job;
    let name = name(&mut job)?;
    check(&job)?;
    let folder = all.of(&name);
    let gateway = gateway_job(&client, &name, session)?;
    let stored = folder.service().ok();
    // The folder of a service that has ended has its last flags; a new one starts without them.
    let before = stored.as_ref().filter(|_| gateway.is_some());
    let number = stored.as_ref().map_or(0, last_revision) + 1;
    let mut service = args.service.service(&name, Revision { number, job }, before)?;
    let_drain(&mut service);
    note_port(&service.current.job, session);
    if let Some(gateway) = gateway {
        let before = before.ok_or_else(|| {
            invalid(format!("the group {name} has job {}, but no service", gateway.id))
        })?;
        if service.entrance != before.entrance {
            return Err(invalid(format!("the address of service {name} can't change"))
                .why(format!("it listens on port {}", before.entrance.port))
                .tip(format!("gpool cancel group:{name}   (then start it again)")));
        }
        store(&folder, &service)?;
        let from = before.current.number;
        session.screen.note(&format!("{name}: update from revision {from} to {number}"));
    } else {
        folder.remove_status();
        store(&folder, &service)?;
        start(&client, &folder, &service, args.service.gateway_node, session)?;
    }
    session.screen.data(&format!("{}\n", service.url(&shown_host(&service))))?;
    Ok(Exit::OK)
}

fn last_revision(service: &Service) -> u32 {
    let previous = service.previous.as_ref().map_or(0, |it| it.number);
    service.current.number.max(previous)
}

/// The name of the service, by default that of its program.
fn name(job: &mut JobCreate) -> Result<String> {
    let program = job.command.first().map_or("", |it| it.rsplit('/').next().unwrap_or(it));
    let name = job.name.take().unwrap_or_else(|| program.to_owned());
    let is_group = gpool_model::GroupPlace::parse(&name).is_ok_and(|it| it.role.is_none());
    if !is_group || name.len() > 48 {
        return Err(invalid(format!("{:?} can't be the name of a service", safe(&name)))
            .why("it has up to 48 letters, digits and . _ -")
            .tip("--name chat"));
    }
    Ok(name)
}

/// Refuses requests that a replica can't have.
fn check(job: &JobCreate) -> Result<()> {
    let is_array =
        job.array.is_some() || !job.params.is_empty() || job.items.is_some() || job.table.is_some();
    let is_gang = job.nodes.is_some() || job.tasks.is_some() || !job.parts.is_empty();
    let why = match (is_array, is_gang) {
        (true, _) => "a replica can't be an array",
        (_, true) => "a replica is one task",
        _ if job.group.is_some() => "the name of the service is the name of its group",
        _ if job.hold => "a held replica would never start",
        _ if job.pty.is_some() => "a replica has no terminal",
        _ => return Ok(()),
    };
    Err(invalid(why).tip("gpool serve --help   (the flags of a service)"))
}

/// Gives a preemptible replica the time to drain: gpool sends it SIGURG, which programs ignore by
/// default, and ends it after that time. The gateway drains it meanwhile, and ends it sooner.
fn let_drain(service: &mut Service) {
    let seconds = service.replicas.drain_ms.div_ceil(1000).max(1);
    let job = &mut service.current.job;
    if job.kind.is_none() {
        job.kind = Some("serve".to_owned());
    }
    if job.preemptible == Some(true) && job.exits.is_empty() && job.checkpoint.is_none() {
        job.checkpoint = Some(format!("URG@{seconds}s"));
    }
}

fn note_port(job: &JobCreate, session: &Session) {
    if !job.command.iter().any(|word| word.contains("{port}")) {
        session.screen.note("note: the command has no {port}; it must listen on port $PORT");
    }
}

/// The jobs of a service that have not ended.
fn jobs(client: &Client, name: &str, session: &Session) -> Result<Vec<Job>> {
    let query = JobsQuery {
        group: Some(name.to_owned()),
        user: Some(session.me().to_owned()),
        ..JobsQuery::default()
    };
    client.every_job(query).map(|job| job.map_err(Failure::from)).collect()
}

/// The gateway of a service that runs.
fn gateway_job(client: &Client, name: &str, session: &Session) -> Result<Option<Job>> {
    let place = format!("{name}/{GATEWAY}");
    let is_gateway = |job: &Job| job.request.group.as_deref() == Some(&place);
    Ok(jobs(client, name, session)?.into_iter().find(is_gateway))
}

/// Ends a service, and removes its folder.
fn remove(all: &Folder, name: &str, session: &Session) -> Result {
    stored(all, name)?;
    let client = session.client()?;
    let ids: Vec<String> = jobs(&client, name, session)?.into_iter().map(|job| job.id).collect();
    cancel_living(&client, &ids)?;
    let folder = all.of(name);
    folder
        .remove()
        .map_err(|error| invalid(format!("can't remove {}: {error}", folder.path().display())))?;
    session.screen.note(&format!("{name}: {} jobs end", ids.len()));
    Ok(Exit::OK)
}

/// Submits the gateway, and waits until it listens.
fn start(
    client: &Client,
    folder: &Folder,
    service: &Service,
    node: Option<String>,
    session: &Session,
) -> Result<()> {
    let replica = &service.current.job;
    let program = std::env::current_exe().unwrap_or_else(|_| PathBuf::from("gpool"));
    let grace = service.replicas.drain_ms.div_ceil(1000) + 5;
    let request = JobCreate {
        command: vec![
            program.display().to_string(),
            VERB.to_owned(),
            folder.path().display().to_string(),
        ],
        name: Some(format!("{}-{GATEWAY}", service.name)),
        group: Some(format!("{}/{GATEWAY}", service.name)),
        kind: Some("serve".to_owned()),
        directory: replica.directory.clone(),
        environment: replica.environment.clone(),
        environment_bytes: replica.environment_bytes.clone(),
        umask: replica.umask,
        project: replica.project.clone(),
        preemptible: Some(false),
        node: node.or_else(|| this_node(client)).into_iter().collect(),
        grace: Some(gpool_wire::Quantity::Text(format!("{grace}s"))),
        requeue: Some(true),
        retry: Some(RetryPolicy { most: RESTARTS, ..RetryPolicy::default() }),
        ..JobCreate::default()
    };
    let job = client.submit(&request, Some(&new_key())).map_err(unsure)?;
    session.screen.note(&format!("gateway is job {}", job.id));
    let until = Instant::now() + PATIENCE;
    while Instant::now() < until {
        if folder.status().is_ok() {
            return Ok(());
        }
        let job = client.job(&job.id)?;
        if job.state.is_end() {
            return Err(invalid(format!("the gateway of {} ended", service.name))
                .tip(format!("gpool logs {}", job.id)));
        }
        thread::sleep(LOOK);
    }
    note_wait(client, &client.job(&job.id)?, session);
    Ok(())
}

/// This machine as a node, so that the address of the service stays the same. `None` if the cluster
/// has one node only, or does not know this machine.
fn this_node(client: &Client) -> Option<String> {
    let nodes = client.nodes().ok()?.items;
    let own = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let short = own.split('.').next().unwrap_or(&own).to_owned();
    let is_own = |name: &str| name == own || name == short;
    nodes.into_iter().map(|node| node.name).find(|name| is_own(name))
}
