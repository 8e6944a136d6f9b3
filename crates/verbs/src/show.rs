//! `gpool show`: shows jobs in full.

use clap::Args;
use gpool_cli::act::Each;
use gpool_cli::args::jobs::Jobs;
use gpool_cli::exit::Exit;
use gpool_cli::failure::{Failure, Result};
use gpool_cli::render::{json, yaml};
use gpool_cli::resolve::{self, JobScope};
use gpool_cli::session::Session;
use gpool_client::Client;
use gpool_wire::Job;

use crate::render::job::page;

/// Larger arrays are counted and not listed.
const ELEMENTS_MAX: u64 = 10_000;

#[derive(Debug, Clone, Args)]
pub struct ShowArgs {
    #[command(flatten)]
    jobs: Jobs,
    /// Output format: text, json, jsonl or yaml
    #[arg(short, long, value_enum, value_name = "FORM", default_value = "text")]
    #[arg(hide_possible_values = true)]
    output: crate::PageFormat,
}

/// Runs the verb.
pub fn run(args: &ShowArgs, session: &Session) -> Result {
    let client = session.client()?;
    let user = args.jobs.user.as_deref();
    let mut found =
        resolve::each(&client, args.jobs.references(), user, session.me(), JobScope::Ever)?;
    let mut jobs = Vec::with_capacity(found.ids.len());
    let mut each = Each::of(&mut found);
    for id in &found.ids {
        jobs.extend(each.take(client.job(id).map_err(Failure::from))?);
    }
    if jobs.is_empty() && !each.refused.is_empty() {
        return each.end("show", Exit::OK);
    }
    let text = match args.output.or_json(session.global.json) {
        crate::PageFormat::Text => {
            let mut pages = Vec::with_capacity(jobs.len());
            for job in &jobs {
                let elements = elements_of(&client, job)?;
                pages.push(page(job, elements.as_deref(), &session.view()));
            }
            pages.join("\n")
        }
        crate::PageFormat::Json => json::list(&jobs),
        crate::PageFormat::Jsonl => json::lines(&jobs),
        crate::PageFormat::Yaml => yaml::of_json(&json::list(&jobs)),
    };
    session.screen.data(&text)?;
    each.end("show", Exit::OK)
}

fn elements_of(client: &Client, job: &Job) -> Result<Option<Vec<Job>>> {
    match &job.array {
        Some(array) if array.n_elements <= ELEMENTS_MAX => {
            let all = resolve::elements(client, &job.id, "all", 0, usize::MAX)?;
            Ok(Some(all))
        }
        _ => Ok(None),
    }
}
