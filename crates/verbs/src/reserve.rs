//! `gpool reserve` and `gpool maint`: reservations and maintenance windows.

use clap::{ArgGroup, Args, Subcommand};
use gpool_cli::args::list::ListFlags;
use gpool_cli::exit::Exit;
use gpool_cli::failure::{Failure, Result};
use gpool_cli::listing::{self, show_with_count};
use gpool_cli::render::json;
use gpool_cli::render::reserve::{RESERVATIONS, affected, headline, page, timeline};
use gpool_cli::session::Session;
use gpool_wire::{Affected, Quantity, Reservation, ReserveAnswer, ReserveRequest, catalogue};

#[derive(Debug, Clone, Args)]
pub struct ReserveArgs {
    #[command(subcommand)]
    action: ReserveAction,
}

#[derive(Debug, Clone, Args)]
pub struct MaintArgs {
    #[command(subcommand)]
    action: MaintAction,
}

#[derive(Debug, Clone, Subcommand)]
enum ReserveAction {
    /// Reserve GPUs or nodes for a user, a project or a job
    Create(CreateArgs),
    /// List reservations and maintenance windows
    List(ListArgs),
    /// Show reservations in full
    Show {
        /// Reservations to show
        #[arg(required = true, value_name = "NAME")]
        names: Vec<String>,
    },
    /// End reservations early
    #[command(visible_alias = "release")]
    Cancel {
        /// Reservations to end
        #[arg(required = true, value_name = "NAME")]
        names: Vec<String>,
    },
    /// Change a reservation or a maintenance window
    Edit(EditArgs),
}

#[derive(Debug, Clone, Subcommand)]
enum MaintAction {
    /// Reserve nodes or GPUs for maintenance
    Create(MaintCreateArgs),
    /// List maintenance windows
    List(ListArgs),
    /// End maintenance windows early
    Cancel {
        /// Maintenance windows to end
        #[arg(required = true, value_name = "NAME")]
        names: Vec<String>,
    },
}

#[derive(Debug, Clone, Args)]
struct ListArgs {
    /// Draw the times of each reservation
    #[arg(long)]
    timeline: bool,
    #[command(flatten)]
    list: ListFlags,
}

/// The reserved devices.
#[derive(Debug, Clone, Default, Args)]
struct WhatFlags {
    /// Devices to reserve, e.g. lab1:0,1
    #[arg(long, value_name = "NODE:GPU,…")]
    devices: Vec<String>,
    /// Whole nodes to reserve
    #[arg(long, value_name = "NODE", value_delimiter = ',')]
    node: Vec<String>,
}

#[derive(Debug, Clone, Default, Args)]
struct BeneficiaryFlags {
    /// User that can use it
    #[arg(long, value_name = "USER")]
    user: Option<String>,
    /// Project that can use it
    #[arg(long, value_name = "PROJECT")]
    project: Option<String>,
    /// Job that can use it; the reservation ends with the job
    #[arg(long, value_name = "JOB")]
    job: Option<String>,
}

/// The times, and the effect on running jobs.
#[derive(Debug, Clone, Default, Args)]
struct WhenFlags {
    /// Begin, e.g. 18:00 or 'fri 18:00' (default: now)
    #[arg(long, value_name = "MOMENT")]
    from: Option<String>,
    /// End (default: none, until it is cancelled)
    #[arg(long, value_name = "MOMENT", conflicts_with = "length")]
    until: Option<String>,
    /// Duration instead of --until, e.g. 2d
    #[arg(long = "for", id = "length", value_name = "TIME")]
    length: Option<String>,
    /// Interval of repetitions until it is cancelled, e.g. 1d or 7d
    #[arg(long, value_name = "TIME")]
    every: Option<String>,
    /// Reason to show to users of waiting jobs
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    /// Action for jobs of others that run at the begin
    #[arg(long, value_name = "CHOICE", value_parser = ["let-finish", "requeue", "cancel"])]
    at_begin: Option<String>,
    /// Show the affected jobs and change nothing
    #[arg(long)]
    dry_run: bool,
    /// Proceed although jobs of others are affected; running jobs finish
    #[arg(long)]
    yes: bool,
}

#[derive(Debug, Clone, Args)]
#[command(group(ArgGroup::new("what").required(true).args(["gpus", "devices", "node"])))]
#[command(group(ArgGroup::new("whom").required(true).args(["user", "project", "job"])))]
struct CreateArgs {
    /// GPUs that gpool chooses, e.g. 2 or h100:4
    #[arg(short, long, value_name = "GPUS")]
    gpus: Option<String>,
    /// Allow the GPUs of --gpus on several nodes
    #[arg(long, requires = "gpus")]
    spread: bool,
    /// Name of the reservation (default: r1, r2, …)
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    #[command(flatten)]
    what: WhatFlags,
    #[command(flatten)]
    beneficiary: BeneficiaryFlags,
    #[command(flatten)]
    when: WhenFlags,
}

#[derive(Debug, Clone, Args)]
#[command(group(ArgGroup::new("what").required(true).args(["devices", "node", "all"])))]
struct MaintCreateArgs {
    /// Name of the maintenance window (default: m1, m2, …)
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    #[command(flatten)]
    what: WhatFlags,
    /// Reserve all nodes that exist now
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    when: WhenFlags,
}

#[derive(Debug, Clone, Args)]
#[command(group(ArgGroup::new("what").args(["gpus", "devices", "node"])))]
#[command(group(ArgGroup::new("whom").args(["user", "project", "job"])))]
struct EditArgs {
    /// Reservation to change
    #[arg(value_name = "NAME")]
    edited: String,
    /// GPUs that gpool chooses, e.g. 2 or h100:4
    #[arg(short, long, value_name = "GPUS")]
    gpus: Option<String>,
    /// Allow the GPUs of --gpus on several nodes
    #[arg(long, requires = "gpus")]
    spread: bool,
    #[command(flatten)]
    what: WhatFlags,
    #[command(flatten)]
    beneficiary: BeneficiaryFlags,
    #[command(flatten)]
    when: WhenFlags,
}

/// Runs `gpool reserve`.
///
/// # Errors
/// The server can't be asked or refuses; jobs of others are affected and no choice was made.
pub fn run(args: ReserveArgs, session: &Session) -> Result {
    match args.action {
        ReserveAction::Create(args) => {
            let request = ReserveRequest {
                name: args.name,
                gpus: args.gpus,
                spread: args.spread,
                ..request(&args.what, &args.beneficiary, &args.when, session)?
            };
            ask(None, request, &args.when, session)
        }
        ReserveAction::List(args) => list(&args, |_| true, session),
        ReserveAction::Show { names } => pages(&names, session),
        ReserveAction::Cancel { names } => cancel(&names, session),
        ReserveAction::Edit(args) => {
            let request = ReserveRequest {
                gpus: args.gpus,
                spread: args.spread,
                ..request(&args.what, &args.beneficiary, &args.when, session)?
            };
            ask(Some(&args.edited), request, &args.when, session)
        }
    }
}

/// Runs `gpool maint`.
///
/// # Errors
/// The server can't be asked or refuses; jobs of others are affected and no choice was made.
pub fn maint(args: MaintArgs, session: &Session) -> Result {
    match args.action {
        MaintAction::Create(args) => {
            let request = ReserveRequest {
                name: args.name,
                nobody: true,
                all_nodes: args.all,
                ..request(&args.what, &BeneficiaryFlags::default(), &args.when, session)?
            };
            ask(None, request, &args.when, session)
        }
        MaintAction::List(args) => list(&args, |it| it.kind == "maintenance", session),
        MaintAction::Cancel { names } => cancel(&names, session),
    }
}

fn request(
    what: &WhatFlags,
    beneficiary: &BeneficiaryFlags,
    when: &WhenFlags,
    session: &Session,
) -> Result<ReserveRequest> {
    let moment = |flag: &str, text: &Option<String>| {
        text.as_deref().map(|text| read_moment(flag, text, session)).transpose()
    };
    let span = |text: &Option<String>| text.clone().map(Quantity::Text);
    Ok(ReserveRequest {
        user: beneficiary.user.clone(),
        project: beneficiary.project.clone(),
        job: beneficiary.job.clone(),
        devices: what.devices.clone(),
        nodes: what.node.clone(),
        from: moment("from", &when.from)?,
        until: moment("until", &when.until)?,
        length: span(&when.length),
        every: span(&when.every),
        reason: when.reason.clone(),
        ..ReserveRequest::default()
    })
}

/// Parses a time in the future.
pub(super) fn read_moment(flag: &str, text: &str, session: &Session) -> Result<gpool_wire::Time> {
    let read = session.screen.clock.read_ahead(text, session.view().now);
    read.map_err(|why| Failure::new(catalogue::INVALID, format!("--{flag}: {why}")))
}

/// Checks which jobs are affected, and makes the change if there are none or the user chose.
fn ask(
    edited: Option<&str>,
    mut request: ReserveRequest,
    when: &WhenFlags,
    session: &Session,
) -> Result {
    let client = session.client()?;
    let send = |request: &ReserveRequest| match edited {
        Some(name) => client.edit_reservation(name, request),
        None => client.reserve(request),
    };
    let choice = when.at_begin.as_ref().map(|choice| choice.replace('-', "_"));
    request.at_begin = choice.or_else(|| when.yes.then(|| "let_finish".to_owned()));
    if when.dry_run || request.at_begin.is_none() {
        let asked = ReserveRequest { dry_run: true, ..request.clone() };
        let answer = send(&asked)?;
        let is_free = answer.affected.too_long.is_empty() && answer.affected.n_waiting == 0;
        if when.dry_run {
            tell(&answer, session)?;
            session.screen.note("nothing changed: this was a dry run");
            return Ok(Exit::OK);
        }
        // Without affected jobs it is done, unless the state changed in between.
        if !is_free && edited.is_none() {
            let what = headline(&answer.reservation, false, &session.view());
            let what = what.lines().next().unwrap_or_default().to_owned();
            return Err(must_choose(&what, &answer.affected, session)
                .tip("--yes, or --at-begin let-finish|requeue|cancel"));
        }
    }
    let answer = send(&request)?;
    tell(&answer, session)?;
    Ok(Exit::OK)
}

/// The failure that lists the affected jobs; nothing was changed.
pub(super) fn must_choose(what: &str, touched: &Affected, session: &Session) -> Failure {
    let what = format!("nothing changed yet: {what}");
    let mut failure = Failure::new(catalogue::AFFECTS_OTHERS, what);
    for line in affected(touched, &session.view()).lines() {
        failure = failure.why(line.trim());
    }
    let facts = serde_json::to_value(touched).unwrap_or_default();
    failure.with("affected", facts)
}

fn tell(answer: &ReserveAnswer, session: &Session) -> Result<()> {
    if session.global.json {
        return session.screen.data(&json::one(answer));
    }
    let view = session.view();
    let mut text = headline(&answer.reservation, answer.done, &view);
    text.push_str(&affected(&answer.affected, &view));
    session.screen.data(&text)
}

fn list(
    args: &ListArgs,
    predicate: impl Fn(&Reservation) -> bool + Sync,
    session: &Session,
) -> Result {
    let client = session.client()?;
    let read = || -> Result<Vec<Reservation>> {
        Ok(client.reservations()?.items.into_iter().filter(|it| predicate(it)).collect())
    };
    if args.timeline && !session.global.json {
        session.screen.data(&timeline(&read()?, &session.view(), session.screen.ascii))?;
        return Ok(Exit::OK);
    }
    show_with_count(&RESERVATIONS, &args.list, session, "reservation", read)
}

fn pages(names: &[String], session: &Session) -> Result {
    let client = session.client()?;
    let mut found = Vec::with_capacity(names.len());
    for name in names {
        found.push(client.reservation(name)?);
    }
    listing::pages(&found, page, session)
}

fn cancel(names: &[String], session: &Session) -> Result {
    let client = session.client()?;
    for name in names {
        let left = client.cancel_reservation(name)?;
        if session.global.json {
            session.screen.data(&json::list(&left.items))?;
        } else {
            session.screen.note(&format!("{name} has ended; its GPUs are free for all users"));
        }
    }
    Ok(Exit::OK)
}
