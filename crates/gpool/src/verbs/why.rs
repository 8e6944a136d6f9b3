//! `gpool why`: what keeps a job from starting.

use clap::Args;
use serde_json::json;

use crate::args::jobs::Jobs;
use crate::exit::Exit;
use crate::failure::Result;
use crate::render::safe::safe_json;
use crate::render::why::page;
use crate::resolve::{self, Scope};
use crate::session::Session;

/// Say why jobs wait
#[derive(Debug, Clone, Args)]
pub struct WhyArgs {
    #[command(flatten)]
    jobs: Jobs,
    /// Form of the output
    #[arg(short, long, value_enum, value_name = "FORM", default_value = "text")]
    output: super::PageFormat,
}

/// Runs it.
///
/// # Errors
/// There is no such job.
pub fn run(args: &WhyArgs, session: &Session) -> Result {
    let client = session.client()?;
    let user = args.jobs.user.as_deref();
    let found = resolve::jobs(&client, args.jobs.references(), user, session.me(), Scope::Living)?;
    let mut answers = Vec::with_capacity(found.ids.len());
    for id in &found.ids {
        answers.push(client.why(id)?);
    }
    let text = match args.output.or_json(session.global.json) {
        super::PageFormat::Text => {
            let pages: Vec<String> = answers.iter().map(|why| page(why, &session.view())).collect();
            pages.join("\n")
        }
        super::PageFormat::Json => {
            let document = json!({"apiVersion": gpool_wire::API_VERSION, "items": answers});
            format!("{}\n", safe_json(&format!("{document:#}")))
        }
        super::PageFormat::Jsonl => {
            let lines = answers.iter().map(|why| format!("{}\n", json!(why)));
            safe_json(&lines.collect::<String>()).into_owned()
        }
    };
    session.screen.data(&text)?;
    Ok(Exit::OK)
}
