//! `gpool retry`: lets jobs that ended run again.

use clap::Args;
use gpool_client::Error;
use gpool_model::job::JobState;
use gpool_wire::array::Retried;
use serde_json::{Value, json};

use crate::args::jobs::Jobs;
use crate::exit::Exit;
use crate::failure::{Failure, Result};
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
/// There are no such jobs, or some of them can't run again; the others do, and each of both is
/// said.
pub fn run(args: &RetryArgs, session: &Session) -> Result {
    let client = session.client()?;
    let user = args.jobs.user.as_deref();
    let found = resolve::jobs(&client, args.jobs.references(), user, session.me(), Scope::Ever)?;
    let mut items = Vec::with_capacity(found.ids.len());
    let (mut n_passed_over, mut refused) = (0, Vec::new());
    for id in &found.ids {
        if args.failed && client.job(id)?.state == JobState::Succeeded {
            n_passed_over += 1;
            continue;
        }
        let item = match client.retry(id) {
            Ok(retried) => shown_as(id, &retried),
            Err(Error::Problem(problem)) => {
                refused.push((id.clone(), Failure::from(problem)));
                continue;
            }
            Err(error) => return Err(error.into()),
        };
        if !session.global.json && !session.screen.quiet {
            session.screen.data(&line(id, &item))?;
        }
        items.push(item);
    }
    if session.global.json && (refused.is_empty() || !items.is_empty()) {
        session.screen.data(&shown::list(&items))?;
    }
    if n_passed_over > 0 {
        let jobs = count(n_passed_over, "job");
        session.screen.note(&format!("{jobs} passed over: succeeded"));
    }
    // Nothing more follows from one than from the others.
    let mut refused = refused.into_iter();
    let Some((_, first)) = refused.next() else { return Ok(Exit::OK) };
    let others = |failure: Failure, (id, other): (String, Failure)| {
        failure.why(format!("job {id} does not run again either: {}", other.what()))
    };
    Err(refused.fold(first, others))
}

fn shown_as(id: &str, retried: &Retried) -> Value {
    json!({
        "job": id,
        "id": retried.id,
        "n_elements": retried.n_elements,
        "is_new": retried.is_new,
    })
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
