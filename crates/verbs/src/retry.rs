//! `gpool retry`: runs ended jobs again.

use clap::Args;
use gpool_cli::act::Each;
use gpool_cli::args::jobs::Jobs;
use gpool_cli::exit::Exit;
use gpool_cli::failure::Result;
use gpool_cli::hand_in::unsure;
use gpool_cli::render::json as shown;
use gpool_cli::render::safe::safe;
use gpool_cli::render::words::count;
use gpool_cli::resolve::{self, JobScope};
use gpool_cli::session::Session;
use gpool_client::Client;
use gpool_model::job::JobState;
use gpool_wire::array::Retried;
use serde_json::{Value, json};

#[derive(Debug, Clone, Args)]
pub struct RetryArgs {
    #[command(flatten)]
    jobs: Jobs,
    /// Skip jobs that succeeded
    #[arg(long)]
    failed: bool,
    /// Hold the jobs, to change them with gpool edit before gpool release
    #[arg(long)]
    hold: bool,
}

/// Runs the verb.
///
/// # Errors
/// There are no such jobs, or some can't be retried; the others are.
pub fn run(args: &RetryArgs, session: &Session) -> Result {
    let client = session.client()?;
    let user = args.jobs.user.as_deref();
    let mut found =
        resolve::each(&client, args.jobs.references(), user, session.me(), JobScope::Ever)?;
    let mut each = Each::of(&mut found);
    let (mut items, mut n_passed_over) = (Vec::with_capacity(found.ids.len()), 0);
    for id in &found.ids {
        let Some(retried) = each.take(retry(&client, id, args))? else { continue };
        let Some(retried) = retried else {
            n_passed_over += 1;
            continue;
        };
        let item = shown_as(id, &retried);
        if !session.global.json && !session.screen.quiet {
            session.screen.data(&line(id, &item))?;
        }
        items.push(item);
    }
    if session.global.json && (each.refused.is_empty() || !items.is_empty()) {
        session.screen.data(&shown::list(&items))?;
    }
    if n_passed_over > 0 {
        let jobs = count(n_passed_over, "job");
        session.screen.note(&format!("skipped {jobs}: succeeded"));
    }
    each.end("retry", Exit::OK)
}

/// Retries one job; `None` if it succeeded and `--failed` skips it.
fn retry(client: &Client, id: &str, args: &RetryArgs) -> Result<Option<Retried>> {
    if args.failed && client.job(id)?.state == JobState::Succeeded {
        return Ok(None);
    }
    let retried = if args.hold { client.retry_held(id) } else { client.retry(id) };
    retried.map(Some).map_err(unsure)
}

fn shown_as(id: &str, retried: &Retried) -> Value {
    json!({
        "job": id,
        "id": retried.id,
        "n_elements": retried.n_elements,
        "is_new": retried.is_new,
    })
}

/// The line of a retried job: `job 5 runs again as job 9: 8 elements`.
fn line(id: &str, item: &Value) -> String {
    let new = match (item["is_new"].as_bool(), item["id"].as_str()) {
        (Some(true), Some(new)) => format!(" as job {}", safe(new)),
        _ => String::new(),
    };
    let elements = item["n_elements"].as_u64().map(|n| format!(": {}", count(n, "element")));
    format!("job {} runs again{new}{}\n", safe(id), elements.unwrap_or_default())
}
