//! `gpool drain` and `gpool undrain`: stop and resume new work on nodes and GPUs.

use clap::Args;
use gpool_cli::exit::Exit;
use gpool_cli::failure::Result;
use gpool_cli::render::json;
use gpool_cli::render::reserve::{affected, drain_headline};
use gpool_cli::session::Session;
use gpool_wire::{DrainAnswer, DrainRequest, UndrainRequest};

use super::reserve::{must_choose, read_moment};

#[derive(Debug, Clone, Args)]
pub struct DrainArgs {
    /// Nodes or single GPUs to drain, e.g. lab1 or lab1:0-3
    #[arg(required = true, value_name = "NODE|NODE:GPU,…")]
    targets: Vec<String>,
    /// Time at which they must be empty, e.g. 'fri 18:00'
    #[arg(long, value_name = "MOMENT")]
    by: Option<String>,
    /// Reason to show to users of waiting jobs
    #[arg(long, value_name = "TEXT", required = true)]
    reason: String,
    /// Let running jobs finish, even after --by
    #[arg(long, group = "choice")]
    let_finish: bool,
    /// Requeue running jobs at --by (default: now)
    #[arg(long, group = "choice")]
    requeue: bool,
    /// Cancel running jobs at --by (default: now)
    #[arg(long, group = "choice")]
    cancel: bool,
    /// Show the affected jobs and change nothing
    #[arg(long)]
    dry_run: bool,
    /// Drain although jobs of others are affected; implies --let-finish
    #[arg(long)]
    yes: bool,
}

#[derive(Debug, Clone, Args)]
pub struct UndrainArgs {
    /// Nodes or single GPUs, e.g. lab1 or lab1:0-3
    #[arg(required = true, value_name = "NODE|NODE:GPU,…")]
    targets: Vec<String>,
}

/// Runs `gpool drain`.
///
/// # Errors
/// The server can't be asked or refuses; jobs of others are affected and no choice was made.
pub fn run(args: DrainArgs, session: &Session) -> Result {
    let client = session.client()?;
    let by = args.by.as_deref().map(|text| read_moment("by", text, session)).transpose()?;
    let choice = match (args.requeue, args.cancel, args.let_finish || args.yes) {
        (true, _, _) => Some("requeue"),
        (_, true, _) => Some("cancel"),
        (_, _, true) => Some("let_finish"),
        _ => None,
    };
    let request = DrainRequest {
        targets: args.targets,
        by,
        reason: args.reason,
        at_deadline: choice.map(str::to_owned),
        dry_run: false,
    };
    if args.dry_run || choice.is_none() {
        let answer = client.drain(&DrainRequest { dry_run: true, ..request.clone() })?;
        let is_free = answer.affected.too_long.is_empty() && answer.affected.n_waiting == 0;
        if args.dry_run {
            tell(&answer, &request, session)?;
            session.screen.note("nothing changed: this was a dry run");
            return Ok(Exit::OK);
        }
        if !is_free {
            let what = drain_headline(&answer, &request, &session.view());
            return Err(must_choose(what.trim(), &answer.affected, session)
                .tip("--let-finish, --requeue or --cancel   (for the running jobs)"));
        }
    }
    let answer = client.drain(&request)?;
    tell(&answer, &request, session)?;
    Ok(Exit::OK)
}

fn tell(answer: &DrainAnswer, request: &DrainRequest, session: &Session) -> Result<()> {
    if session.global.json {
        return session.screen.data(&json::one(answer));
    }
    let view = session.view();
    let mut text = drain_headline(answer, request, &view);
    text.push_str(&affected(&answer.affected, &view));
    session.screen.data(&text)
}

/// Runs `gpool undrain`.
pub fn undrain(args: UndrainArgs, session: &Session) -> Result {
    let client = session.client()?;
    let answer = client.undrain(&UndrainRequest { targets: args.targets })?;
    if session.global.json {
        session.screen.data(&json::one(&answer))?;
    } else {
        session.screen.note(&format!("{} can run new jobs again", answer.targets.join(", ")));
    }
    Ok(Exit::OK)
}
