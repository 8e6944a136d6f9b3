//! `gpool events`: prints events as they happen.

use std::collections::BTreeSet;

use clap::Args;
use gpool_cli::args::values::{References, references};
use gpool_cli::exit::Exit;
use gpool_cli::failure::Result;
use gpool_cli::listing::Between;
use gpool_cli::render::{json, yaml};
use gpool_cli::resolve::{self, JobScope};
use gpool_cli::session::Session;
use gpool_wire::{Event, EventKind};

use crate::render::events::{GpuTroubles, at, line};
use crate::render::life;

#[derive(Debug, Clone, Default, Args)]
pub struct EventsArgs {
    /// Jobs to print events of (default: all)
    #[arg(value_name = "JOB", value_parser = references)]
    jobs: Vec<References>,
    /// Keep printing events of the jobs until they have ended
    #[arg(short, long, requires = "jobs")]
    follow: bool,
    /// Output format: text, json, jsonl or yaml
    #[arg(short, long, value_enum, value_name = "FORM", default_value = "text")]
    #[arg(hide_possible_values = true)]
    output: crate::PageFormat,
    /// ID of the event (from --json) after which to continue
    #[arg(long, value_name = "ID", value_parser = event_id)]
    after: Option<String>,
    /// Time of the first event of the jobs, e.g. 2h (ago), 15:30 or 2026-11-20
    #[arg(long, value_name = "WHEN", requires = "jobs")]
    since: Option<String>,
    /// Time of the last event of the jobs
    #[arg(long, value_name = "WHEN", requires = "jobs", conflicts_with = "follow")]
    until: Option<String>,
    /// Number of events after which to stop
    #[arg(short = 'n', long, value_name = "N")]
    limit: Option<u64>,
}

/// Checks an event id: the numbers of the server and of the event.
fn event_id(text: &str) -> std::result::Result<String, String> {
    let is_number = |part: &str| part.parse::<u64>().is_ok();
    match text.split_once('-') {
        Some((server, event)) if is_number(server) && is_number(event) => Ok(text.to_owned()),
        _ => Err(format!("{text:?} is not the id of an event; gpool events --json shows them")),
    }
}

/// Runs the verb.
pub fn run(args: &EventsArgs, session: &Session) -> Result {
    if !args.jobs.is_empty() && args.after.is_none() {
        return of_jobs(args, session);
    }
    let client = session.listener()?;
    let wanted = args.jobs.iter().flat_map(|list| &list.0);
    let found = resolve::jobs(&client, wanted, None, session.me(), JobScope::Ever)?;
    let is_wanted = |event: &Event| match &event.kind {
        _ if args.jobs.is_empty() => true,
        EventKind::JobState { job, .. }
        | EventKind::JobIdle { job, .. }
        | EventKind::JobMoved { job, .. }
        | EventKind::Notified { job, .. } => found.ids.contains(job),
        EventKind::Resync => true,
        EventKind::NodeChanged { .. }
        | EventKind::NodeMembership { .. }
        | EventKind::ReservationChanged { .. }
        | EventKind::ProjectChanged { .. }
        | EventKind::PayerNotified { .. }
        | EventKind::Other => false,
    };
    let mut n_left = args.limit.unwrap_or(u64::MAX);
    if n_left == 0 {
        return Ok(Exit::OK);
    }
    // The trouble that GPUs already have is not an event.
    let mut gpus = GpuTroubles::default();
    gpus.news(&client.gpus()?.items);
    for event in client.events(args.after.clone())? {
        let event = event?;
        if !is_wanted(&event) {
            continue;
        }
        match args.output.or_json(session.global.json) {
            crate::PageFormat::Text => {
                let news = match &event.kind {
                    EventKind::NodeChanged { .. } => gpus.news(&client.gpus()?.items),
                    _ => Vec::new(),
                };
                let Some(usual) = line(&event, &session.view()) else { continue };
                let told: Vec<String> =
                    news.iter().map(|what| at(&event, what, &session.view())).collect();
                let lines = if told.is_empty() { usual } else { told.join("\n") };
                session.screen.data(&format!("{lines}\n"))?;
            }
            crate::PageFormat::Json | crate::PageFormat::Jsonl => {
                session.screen.data(&json::line(&event))?;
            }
            crate::PageFormat::Yaml => session.screen.data(&yaml_item(&event))?,
        }
        n_left -= 1;
        if n_left == 0 {
            break;
        }
    }
    Ok(Exit::OK)
}

/// Prints past events of jobs, and with `--follow` new ones until the jobs have ended.
fn of_jobs(args: &EventsArgs, session: &Session) -> Result {
    let between = Between::read(&args.since, &args.until, session)?;
    let client = session.listener()?;
    // Subscribes before the first request, so that no event is missed.
    let events = if args.follow { Some(client.events(None)?) } else { None };
    let wanted = args.jobs.iter().flat_map(|list| &list.0);
    let found = resolve::jobs(&client, wanted, None, session.me(), JobScope::Ever)?;
    let mut n_left = args.limit.unwrap_or(u64::MAX);
    let mut told = Vec::new();
    let mut open = BTreeSet::new();
    for id in &found.ids {
        told.extend(client.life(id)?.items);
        if !client.job(id)?.state.is_end() {
            open.insert(id.clone());
        }
    }
    told.sort_by_key(|event| event.time);
    told.retain(|event| between.has(event.time));
    let form = args.output.or_json(session.global.json);
    for event in &told {
        if n_left == 0 {
            return Ok(Exit::OK);
        }
        n_left -= 1;
        session.screen.data(&match form {
            crate::PageFormat::Text => format!("{}\n", life::line(event, &session.view())),
            crate::PageFormat::Yaml => yaml_item(event),
            crate::PageFormat::Json | crate::PageFormat::Jsonl => json::line(event),
        })?;
    }
    let known = told.iter().filter_map(|event| event.seq).max().unwrap_or(0);
    let mut events = events.into_iter().flatten();
    while n_left > 0
        && !open.is_empty()
        && let Some(event) = events.next()
    {
        let event = event?;
        let EventKind::JobState { job, state, .. } = &event.kind else { continue };
        if !found.ids.contains(job) {
            continue;
        }
        if state.is_end() {
            open.remove(job);
        }
        if event.seq <= known {
            continue;
        }
        n_left -= 1;
        let text = match form {
            crate::PageFormat::Text => match line(&event, &session.view()) {
                Some(line) => format!("{line}\n"),
                None => continue,
            },
            crate::PageFormat::Yaml => yaml_item(&event),
            crate::PageFormat::Json | crate::PageFormat::Jsonl => json::line(&event),
        };
        session.screen.data(&text)?;
    }
    Ok(Exit::OK)
}

/// One YAML document per item, since the list has no end.
fn yaml_item<T: serde::Serialize>(item: &T) -> String {
    format!("---\n{}", yaml::of_json(&json::line(item)))
}
