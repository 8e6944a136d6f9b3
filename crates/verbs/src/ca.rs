//! `gpool ca`: the server's certificate authority, by which clients on the network recognize it.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use gpool_cli::errors;
use gpool_cli::exit::Exit;
use gpool_cli::failure::{Failure, Result};
use gpool_cli::render::json;
use gpool_cli::session::Session;

#[derive(Debug, Clone, Args)]
pub struct CaArgs {
    #[command(subcommand)]
    action: CaAction,
}

#[derive(Debug, Clone, Subcommand)]
enum CaAction {
    /// Print the fingerprint that gpool login shows
    Show,
    /// Print the certificate of the authority, or write it into a file
    Export {
        /// File to write, for browsers and other clients
        #[arg(value_name = "FILE")]
        to: Option<PathBuf>,
    },
}

/// Runs the verb.
///
/// # Errors
/// The server does not listen on the network, or the file can't be written.
pub fn run(args: &CaArgs, session: &Session) -> Result {
    let authority = session.client()?.authority()?;
    if session.global.json {
        session.screen.data(&json::one(&authority))?;
        return Ok(Exit::OK);
    }
    match &args.action {
        CaAction::Show => {
            session.screen.data(&format!("{}\n", authority.fingerprint))?;
            session.screen.note(&match authority.certificate {
                Some(_) => {
                    format!("gpool's own authority; the server listens on {}", authority.listen)
                }
                None => {
                    format!("certificates of the site; the server listens on {}", authority.listen)
                }
            });
        }
        CaAction::Export { to } => {
            let Some(certificate) = authority.certificate else {
                let what = "the server uses certificates of the site, not of its own authority";
                return Err(Failure::new(errors::NOT_WRITTEN, what));
            };
            match to {
                None => session.screen.data(&certificate)?,
                Some(path) => std::fs::write(path, certificate).map_err(|error| {
                    let what = format!("can't write {}: {error}", path.display());
                    Failure::new(errors::NOT_WRITTEN, what)
                })?,
            }
        }
    }
    Ok(Exit::OK)
}
