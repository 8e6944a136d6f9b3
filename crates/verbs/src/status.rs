//! `gpool status`: the server and its cluster on one page.

use clap::Args;
use gpool_cli::exit::Exit;
use gpool_cli::failure::Result;
use gpool_cli::render::json;
use gpool_cli::render::yaml;
use gpool_cli::session::Session;

use crate::render::status::page;

#[derive(Debug, Clone, Default, Args)]
pub struct StatusArgs {
    /// Output format: text, json, jsonl or yaml
    #[arg(short, long, value_enum, value_name = "FORM", default_value = "text")]
    #[arg(hide_possible_values = true)]
    output: crate::PageFormat,
}

/// Runs the verb.
pub fn run(args: &StatusArgs, session: &Session) -> Result {
    let client = session.client()?;
    let status = client.status()?;
    let text = match args.output.or_json(session.global.json) {
        crate::PageFormat::Text => page(&status, &client.recovery()?, &session.view()),
        crate::PageFormat::Json | crate::PageFormat::Jsonl => json::one(&status),
        crate::PageFormat::Yaml => yaml::of_json(&json::one(&status)),
    };
    session.screen.data(&text)?;
    Ok(Exit::OK)
}
