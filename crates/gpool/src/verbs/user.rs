//! `gpool user limit`: the caps and usage of one user.

use clap::{Args, Subcommand};
use gpool_cli::exit::Exit;
use gpool_cli::failure::Result;
use gpool_cli::render::json;
use gpool_cli::render::safe::safe;
use gpool_cli::session::Session;
use gpool_wire::{UserCapsPatch, UserLimits, Written};

/// The arguments of `gpool user`.
#[derive(Debug, Clone, Args)]
pub struct UserArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Clone, Subcommand)]
enum What {
    /// Show a user's limits, or change them as an admin
    Limit(LimitArgs),
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

/// A cap, or none.
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
///
/// # Errors
/// The server refuses.
pub fn run(args: &UserArgs, session: &Session) -> Result {
    let What::Limit(limit) = &args.what;
    let client = session.client()?;
    let patch = UserCapsPatch {
        running_jobs: limit.running.map(|cap| cap.0),
        pending_jobs: limit.pending.map(|cap| cap.0),
        gpus: limit.gpus.clone().map(|cap| cap.0.map(Written::Text)),
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
