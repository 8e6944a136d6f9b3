//! `gpool why`: explains why jobs wait.

use clap::Args;
use gpool_cli::act::Each;
use gpool_cli::args::jobs::Jobs;
use gpool_cli::exit::Exit;
use gpool_cli::failure::{Failure, Result};
use gpool_cli::reference::Reference;
use gpool_cli::render::{json, yaml};
use gpool_cli::resolve::{self, JobScope};
use gpool_cli::session::Session;

use crate::render::why::page;

#[derive(Debug, Clone, Args)]
pub struct WhyArgs {
    #[command(flatten)]
    jobs: Jobs,
    /// Output format: text, json, jsonl or yaml
    #[arg(short, long, value_enum, value_name = "FORM", default_value = "text")]
    #[arg(hide_possible_values = true)]
    output: crate::PageFormat,
}

impl WhyArgs {
    /// The groups among the jobs, if the answer is text.
    #[must_use]
    pub fn groups(&self, is_json: bool) -> Vec<&str> {
        let is_text = matches!(self.output.or_json(is_json), crate::PageFormat::Text);
        let groups = self.jobs.references().filter_map(|reference| match reference {
            Reference::Group(name) if is_text => Some(name.as_str()),
            _ => None,
        });
        groups.collect()
    }
}

/// Runs the verb.
pub fn run(args: &WhyArgs, session: &Session) -> Result {
    let client = session.client()?;
    let user = args.jobs.user.as_deref();
    let mut found =
        resolve::each(&client, args.jobs.references(), user, session.me(), JobScope::Ever)?;
    let mut answers = Vec::with_capacity(found.ids.len());
    let mut each = Each::of(&mut found);
    for id in &found.ids {
        answers.extend(each.take(client.why(id).map_err(Failure::from))?);
    }
    if answers.is_empty() && !each.refused.is_empty() {
        return each.end("explain", Exit::OK);
    }
    let text = match args.output.or_json(session.global.json) {
        crate::PageFormat::Text => {
            let pages: Vec<String> = answers.iter().map(|why| page(why, &session.view())).collect();
            pages.join("\n")
        }
        crate::PageFormat::Json => json::list(&answers),
        crate::PageFormat::Jsonl => json::lines(&answers),
        crate::PageFormat::Yaml => yaml::of_json(&json::list(&answers)),
    };
    session.screen.data(&text)?;
    each.end("explain", Exit::OK)
}
