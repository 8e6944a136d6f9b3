//! `gpool retry`: lets jobs that ended run again.

use clap::Args;
use gpool_client::Client;
use gpool_model::job::JobState;
use serde_json::{Value, json};

use crate::args::jobs::Jobs;
use crate::exit::Exit;
use crate::failure::Result;
use crate::render::json as shown;
use crate::render::safe::safe;
use crate::render::words::count;
use crate::resolve::{self, Scope};
use crate::session::Session;

/// Let jobs that ended run again; of an array, the elements that did not succeed
#[derive(Debug, Clone, Args)]
pub struct RetryArgs {
    #[command(flatten)]
    jobs: Jobs,
    /// Pass over jobs that succeeded
    #[arg(long)]
    failed: bool,
}

/// Runs it.
///
/// # Errors
/// There are no such jobs, or one of them can't run again; those before it do.
pub fn run(args: &RetryArgs, session: &Session) -> Result {
    let client = session.client()?;
    let user = args.jobs.user.as_deref();
    let found = resolve::jobs(&client, args.jobs.references(), user, session.me(), Scope::Ever)?;
    let mut items = Vec::with_capacity(found.ids.len());
    let mut n_passed_over = 0;
    for id in &found.ids {
        if args.failed && client.job(id)?.state == JobState::Succeeded {
            n_passed_over += 1;
            continue;
        }
        let item = again(&client, id)?;
        if !session.global.json && !session.screen.quiet {
            session.screen.data(&line(id, &item))?;
        }
        items.push(item);
    }
    if session.global.json {
        session.screen.data(&shown::list(&items))?;
    }
    if n_passed_over > 0 {
        let jobs = count(n_passed_over, "job");
        session.screen.note(&format!("{jobs} passed over: succeeded"));
    }
    Ok(Exit::OK)
}

fn again(client: &Client, id: &str) -> Result<Value> {
    let retried = client.retry(id)?;
    Ok(json!({
        "job": id,
        "id": retried.id,
        "n_elements": retried.n_elements,
        "is_new": retried.is_new,
    }))
}

/// `job 5 runs again as job 9: 8 elements`.
fn line(id: &str, item: &Value) -> String {
    let new = match (item["is_new"].as_bool(), item["id"].as_str()) {
        (Some(true), Some(new)) => format!(" as job {}", safe(new)),
        _ => String::new(),
    };
    let elements = item["n_elements"].as_u64().map(|n| format!(": {}", count(n, "element")));
    format!("job {} runs again{new}{}\n", safe(id), elements.unwrap_or_default())
}
