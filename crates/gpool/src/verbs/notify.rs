//! `gpool notify`: notification rules of jobs, notifications that wait to be sent, and the key that
//! signs them.

use clap::Args;
use gpool_cli::args::jobs::Jobs;
use gpool_cli::args::list::ListFlags;
use gpool_cli::args::values::{self, References, references};
use gpool_cli::errors;
use gpool_cli::exit::Exit;
use gpool_cli::failure::{Failure, Result};
use gpool_cli::listing::{Listing, show};
use gpool_cli::render::json;
use gpool_cli::render::list::select;
use gpool_cli::session::Session;
use gpool_wire::{JobCreate, JobPatch};

use super::edit::apply;
use crate::render::notifications::NOTIFICATIONS;

/// The arguments of `gpool notify`.
#[derive(Debug, Clone, Default, Args)]
#[command(after_help = "The given events and addresses replace those of the jobs; none removes \
    them. Without arguments, gpool notify lists notifications that wait for another attempt or \
    were given up.")]
pub struct NotifyArgs {
    /// Jobs to change, e.g. 1842 or 1842,1850
    #[arg(value_name = "JOB", value_parser = references)]
    jobs: Option<References>,
    /// Events and address, e.g. done,fail@https://host/path, or none
    #[arg(value_name = "EVENTS@URL", value_parser = values::notify)]
    rules: Vec<String>,
    /// Print the key that signs your notifications
    #[arg(long, conflicts_with = "jobs")]
    secret: bool,
    #[command(flatten)]
    list: ListFlags,
}

/// Runs the verb.
///
/// # Errors
/// There is no such job, or the server refuses.
pub fn run(args: &NotifyArgs, session: &Session) -> Result {
    if args.secret {
        let secret = session.client()?.notify_secret()?;
        let text = match session.global.json {
            true => json::one(&secret),
            false => format!("{}\n", secret.secret),
        };
        session.screen.data(&text)?;
        return Ok(Exit::OK);
    }
    match (&args.jobs, args.rules.is_empty()) {
        (None, _) => list(args, session),
        (Some(_), true) => Err(Failure::new(errors::USAGE, "the events and addresses are missing")
            .tip("gpool notify JOB done,fail@https://host/path")
            .tip("gpool notify JOB none")),
        (Some(jobs), false) => {
            let rules = args.rules.clone();
            let patch = JobPatch::from(JobCreate { notify: rules, ..JobCreate::default() });
            apply(&Jobs { jobs: vec![jobs.clone()], user: None }, &patch, session)
        }
    }
}

fn list(args: &NotifyArgs, session: &Session) -> Result {
    let client = session.client()?;
    show(&NOTIFICATIONS, &args.list, session, || {
        let all = client.notifications()?.items;
        let n_given_up = all.iter().filter(|it| it.given_up_at.is_some()).count();
        let footer = format!("{} waiting · {n_given_up} given up", all.len() - n_given_up);
        Ok(Listing::new(select(&NOTIFICATIONS, all, &args.list)?, footer))
    })
}
