//! `gpool open`: opens the dashboard in a browser.

use std::process::{Command, Stdio};

use clap::Args;
use gpool_cli::exit::Exit;
use gpool_cli::failure::Result;
use gpool_cli::render::json;
use gpool_cli::session::Session;

/// The arguments of `gpool open`.
#[derive(Debug, Clone, Copy, Args)]
#[command(after_help = "The link signs you in. It works once, within a minute, on this machine; \
    over ssh, forward the port: ssh -L 7478:127.0.0.1:7478 HOST.")]
pub struct OpenArgs {
    /// Print the link and open nothing
    #[arg(long)]
    print: bool,
}

/// Runs the verb.
///
/// # Errors
/// No server answers, or it has no dashboard.
pub fn run(args: OpenArgs, session: &Session) -> Result {
    let client = session.client()?;
    if let Some(address) = client.address() {
        // Over the network a browser signs in with a token.
        let url = format!("{address}/");
        if args.print || !is_opened(&url) {
            session.screen.data(&format!("{url}\n"))?;
        }
        return Ok(Exit::OK);
    }
    let login = client.login()?;
    if session.global.json {
        session.screen.data(&json::one(&login))?;
    } else if args.print || !is_opened(&login.url) {
        session.screen.data(&format!("{}\n", login.url))?;
    }
    Ok(Exit::OK)
}

/// Opens a browser; false if there is none, or no screen for it.
fn is_opened(url: &str) -> bool {
    let has_screen = ["DISPLAY", "WAYLAND_DISPLAY"].iter().any(|it| std::env::var_os(it).is_some());
    let program = std::env::var_os("BROWSER").filter(|it| !it.is_empty());
    if program.is_none() && !has_screen {
        return false;
    }
    let mut command = Command::new(program.unwrap_or_else(|| "xdg-open".into()));
    command.arg(url).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}
