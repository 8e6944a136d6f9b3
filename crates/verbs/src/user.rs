//! `gpool user limit`: the caps and usage of one user. `gpool user map` and `forget`: network
//! users.

use clap::{Args, Subcommand};
use gpool_cli::args::list::ListFlags;
use gpool_cli::exit::Exit;
use gpool_cli::failure::Result;
use gpool_cli::listing::show_with_count;
use gpool_cli::render::json;
use gpool_cli::render::safe::safe;
use gpool_cli::session::Session;
use gpool_wire::{MapUser, Quantity, UserCapsPatch, UserLimits};

use crate::render::tokens::NETWORK_USERS;

#[derive(Debug, Clone, Args)]
pub struct UserArgs {
    #[command(subcommand)]
    what: UserAction,
}

#[derive(Debug, Clone, Subcommand)]
enum UserAction {
    /// Show a user's limits, or change them as an admin
    Limit(LimitArgs),
    /// List network users, or set the system user of one
    Map(MapArgs),
    /// Forget a network user: its tokens, its system user, and its ID at the identity provider
    Forget(ForgetArgs),
}

#[derive(Debug, Clone, Args)]
struct ForgetArgs {
    /// Network user, e.g. ana@lab.org
    #[arg(value_name = "NAME")]
    name: String,
}

#[derive(Debug, Clone, Args)]
struct MapArgs {
    /// Network user, e.g. ana@lab.org
    #[arg(value_name = "NAME", requires = "change")]
    name: Option<String>,
    /// System user that runs the jobs of the network user
    #[arg(value_name = "USER", group = "change")]
    user: Option<String>,
    /// Remove the rule; the network user can't submit jobs then
    #[arg(long, group = "change", requires = "name")]
    remove: bool,
    #[command(flatten)]
    list: ListFlags,
}

#[derive(Debug, Clone, Args)]
struct LimitArgs {
    /// Name of the user, or all for users without limits of their own
    #[arg(value_name = "USER")]
    user: String,
    /// Maximum number of running jobs, or none
    #[arg(long, value_name = "N", value_parser = count_or_none)]
    running: Option<Cap>,
    /// Maximum number of waiting jobs, or none
    #[arg(long, value_name = "N", value_parser = count_or_none)]
    pending: Option<Cap>,
    /// Maximum number of GPUs, e.g. 4 or 0.5, or none
    #[arg(long, value_name = "N", value_parser = gpus_or_none)]
    gpus: Option<GpuCap>,
}

#[derive(Debug, Clone, Copy)]
struct Cap(Option<u64>);

/// A cap on GPUs, or none.
#[derive(Debug, Clone)]
struct GpuCap(Option<String>);

fn count_or_none(text: &str) -> std::result::Result<Cap, String> {
    match (text, text.parse()) {
        ("none", _) => Ok(Cap(None)),
        (_, Ok(count)) => Ok(Cap(Some(count))),
        _ => Err(format!("{text:?} is not a number; write, for example, 4 or none")),
    }
}

fn gpus_or_none(text: &str) -> std::result::Result<GpuCap, String> {
    match (text, gpool_model::parse::cpus(text)) {
        ("none", _) => Ok(GpuCap(None)),
        (_, Ok(_)) => Ok(GpuCap(Some(text.to_owned()))),
        _ => Err(format!("{text:?} is not a number of GPUs; write, for example, 2 or none")),
    }
}

/// Runs the verb.
pub fn run(args: UserArgs, session: &Session) -> Result {
    match args.what {
        UserAction::Limit(limit) => limits(&limit, session),
        UserAction::Map(map) => mapped(map, session),
        UserAction::Forget(forget) => forgotten(&forget.name, session),
    }
}

fn mapped(args: MapArgs, session: &Session) -> Result {
    let client = session.client()?;
    let Some(name) = args.name else {
        let read = || Ok(client.network_users()?.items);
        return show_with_count(&NETWORK_USERS, &args.list, session, "network user", read);
    };
    let after = client.map_user(&name, &MapUser { user: args.user })?;
    if session.global.json {
        session.screen.data(&json::one(&after))?;
        return Ok(Exit::OK);
    }
    let name = safe(&after.name);
    session.screen.note(&match &after.user {
        Some(user) => format!("jobs of {name} run as {}", safe(user)),
        None => format!("{name} can't submit jobs any more"),
    });
    Ok(Exit::OK)
}

fn forgotten(name: &str, session: &Session) -> Result {
    let after = session.client()?.forget_user(name)?;
    if session.global.json {
        session.screen.data(&json::one(&after))?;
        return Ok(Exit::OK);
    }
    let name = safe(&after.name);
    session.screen.note(&format!("{name} is forgotten; its tokens are refused from now on"));
    Ok(Exit::OK)
}

fn limits(limit: &LimitArgs, session: &Session) -> Result {
    let client = session.client()?;
    let patch = UserCapsPatch {
        running_jobs: limit.running.map(|cap| cap.0),
        pending_jobs: limit.pending.map(|cap| cap.0),
        gpus: limit.gpus.clone().map(|cap| cap.0.map(Quantity::Text)),
    };
    let limits = match patch == UserCapsPatch::default() {
        true => client.user_limits(&limit.user)?,
        false => client.limit_user(&limit.user, &patch)?,
    };
    let text = if session.global.json { json::one(&limits) } else { page(&limits) };
    session.screen.data(&text)?;
    Ok(Exit::OK)
}

fn page(limits: &UserLimits) -> String {
    let of = |most: Option<String>| most.map_or("no cap".to_owned(), |most| format!("of {most}"));
    let own = if limits.own || limits.user == "all" { "" } else { " (as all users)" };
    format!(
        "{}{own}: {} running ({}) · {} waiting ({}) · {} GPUs ({})\n",
        safe(&limits.user),
        limits.n_running,
        of(limits.running_jobs.map(|most| most.to_string())),
        limits.n_pending,
        of(limits.pending_jobs.map(|most| most.to_string())),
        limits.n_gpus,
        of(limits.gpus.map(|most| most.to_string())),
    )
}
