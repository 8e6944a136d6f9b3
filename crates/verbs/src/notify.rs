//! `gpool notify`: notification rules of jobs, projects and users, notifications that wait to be
//! sent, and the key that signs them.

use clap::Args;
use gpool_cli::args::jobs::Jobs;
use gpool_cli::args::list::ListFlags;
use gpool_cli::args::values::{self, references};
use gpool_cli::errors;
use gpool_cli::exit::Exit;
use gpool_cli::failure::{Failure, Result};
use gpool_cli::listing::{Listing, show};
use gpool_cli::render::json;
use gpool_cli::render::list::select;
use gpool_cli::render::safe::safe;
use gpool_cli::request::mail;
use gpool_cli::session::Session;
use gpool_model::ProjectName;
use gpool_wire::notify::{is_payer_rule, payer_rules};
use gpool_wire::{JobCreate, JobPatch, Payer, Problem, Subscription, catalogue};

use super::edit::apply;
use crate::render::notifications::NOTIFICATIONS;

#[derive(Debug, Clone, Default, Args)]
#[command(
    after_help = "The given events and addresses replace those of the jobs, project or user; \
    none removes them. With --project or --user alone, gpool notify shows them. Without arguments, \
    it lists notifications that wait for another attempt or were given up.\n\n\
    Events of projects and users: budget (80 % and 100 % of the budget of the month are used), \
    digest (each Monday at 08:00: the use of GPUs in the last week, its cost, and the jobs that \
    used least of what they held)."
)]
pub struct NotifyArgs {
    /// Jobs to change, e.g. 1842 or 1842,1850
    #[arg(value_name = "JOB")]
    jobs: Option<String>,
    /// Events and address, e.g. done,fail@https://host/path, or none
    #[arg(value_name = "EVENTS@URL")]
    rules: Vec<String>,
    /// Notify about a project and the projects below it, e.g. digest@mailto:ana@example.org
    #[arg(long, value_name = "NAME", conflicts_with_all = ["user", "secret"])]
    project: Option<String>,
    /// Notify about a user, by default yourself
    #[arg(long, value_name = "NAME", num_args = 0..=1, conflicts_with = "secret")]
    user: Option<Option<String>>,
    /// Print the key that signs your notifications
    #[arg(long, conflicts_with = "jobs")]
    secret: bool,
    #[command(flatten)]
    list: ListFlags,
}

/// Runs the verb.
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
    if let Some((payer, rules)) = payer(args, session) {
        return of_payer(&payer, &rules, session);
    }
    match (&args.jobs, args.rules.is_empty()) {
        (None, _) => list(args, session),
        (Some(_), true) => Err(Failure::new(errors::USAGE, "the events and addresses are missing")
            .tip("gpool notify JOB done,fail@https://host/path")
            .tip("gpool notify JOB none")
            .tip("gpool notify --project NAME budget,digest@mailto:ana@example.org")),
        (Some(jobs), false) => {
            let bad = |what: &str, why| Failure::new(catalogue::INVALID, format!("{what}: {why}"));
            let jobs = references(jobs).map_err(|why| bad("JOB", why))?;
            for rule in &args.rules {
                values::notify(rule).map_err(|why| bad("EVENTS@URL", why))?;
            }
            warn(&args.rules, session)?;
            let notify = args.rules.clone();
            let patch = JobPatch::from(JobCreate { notify, ..JobCreate::default() });
            apply(&Jobs { jobs: vec![jobs], user: None }, &patch, session)
        }
    }
}

/// The project or user of the flags, with the rules: then the first word is no job.
fn payer(args: &NotifyArgs, session: &Session) -> Option<(Payer, Vec<String>)> {
    let words = args.jobs.iter().chain(&args.rules).cloned();
    if let Some(project) = &args.project {
        return Some((Payer::Project(ProjectName::new(project)), words.collect()));
    }
    // `--user digest@…` is for oneself.
    let (user, rule) = match args.user.clone()? {
        Some(word) if is_payer_rule(&word) => (None, Some(word)),
        user => (user, None),
    };
    let user = user.unwrap_or_else(|| session.me().to_owned());
    Some((Payer::User(user.into()), rule.into_iter().chain(words).collect()))
}

fn of_payer(payer: &Payer, rules: &[String], session: &Session) -> Result {
    let client = session.client()?;
    let subscription = match rules.is_empty() {
        true => client.subscription(payer)?,
        false => {
            payer_rules(rules).map_err(Problem::from)?;
            warn(rules, session)?;
            client.subscribe(payer, rules)?
        }
    };
    let text = match session.global.json {
        true => json::one(&subscription),
        false => page(&subscription),
    };
    session.screen.data(&text)?;
    Ok(Exit::OK)
}

fn warn(rules: &[String], session: &Session) -> Result<()> {
    if let Some(why) = mail::not_sent(rules, &session.client()?) {
        session.screen.warn(&why);
    }
    Ok(())
}

fn page(subscription: &Subscription) -> String {
    let Subscription { kind, name, notify, set_by } = subscription;
    let name = safe(name);
    let Some(set_by) = set_by else { return format!("{kind} {name} sends no messages\n") };
    let set_by = safe(set_by);
    let line = |rule: &String| format!("{kind} {name} tells {} (set by {set_by})\n", safe(rule));
    notify.iter().map(line).collect()
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
