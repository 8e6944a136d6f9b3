//! `gpool sessions end`: ends the sessions of browsers.

use clap::{Args, Subcommand};
use gpool_cli::exit::Exit;
use gpool_cli::failure::Result;
use gpool_cli::render::json;
use gpool_cli::session::Session;

#[derive(Debug, Clone, Args)]
pub struct SessionsArgs {
    #[command(subcommand)]
    what: SessionsAction,
}

#[derive(Debug, Clone, Copy, Subcommand)]
enum SessionsAction {
    /// End your sessions in browsers, and links that were not used yet
    End(EndArgs),
}

#[derive(Debug, Clone, Copy, Args)]
struct EndArgs {
    /// End those of all users, as an admin
    #[arg(long)]
    all: bool,
}

/// Runs the verb.
pub fn run(args: &SessionsArgs, session: &Session) -> Result {
    let SessionsAction::End(end) = args.what;
    let ended = session.client()?.end_sessions(end.all)?;
    if session.global.json {
        session.screen.data(&json::one(ended))?;
        return Ok(Exit::OK);
    }
    session.screen.note(&match ended.n_sessions {
        1 => "1 session is over".to_owned(),
        n_sessions => format!("{n_sessions} sessions are over"),
    });
    Ok(Exit::OK)
}
