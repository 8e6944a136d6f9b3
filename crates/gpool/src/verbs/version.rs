//! `gpool version`: the version of this command, and of the server if one answers.

use clap::Args;
use gpool_cli::exit::Exit;
use gpool_cli::failure::Result;
use gpool_cli::render::json;
use gpool_cli::session::Session;
use serde_json::json;

pub const VERSION: &str = env!("CARGO_PKG_VERSION");

#[derive(Debug, Clone, Copy, Default, Args)]
pub struct VersionArgs {}

/// Runs the verb. A server that does not answer is no error.
pub fn run(_: VersionArgs, session: &Session) -> Result {
    let server = session.client().ok().and_then(|client| client.version().ok());
    if session.global.json {
        let body = json!({"version": VERSION, "server": server});
        session.screen.data(&json::one(body))?;
        return Ok(Exit::OK);
    }
    let of_server = match server {
        Some(server) => format!("server {} (pid {})", server.version, server.pid),
        None => "server: none answers".to_owned(),
    };
    session.screen.data(&format!("gpool {VERSION}\n{of_server}\n"))?;
    Ok(Exit::OK)
}
