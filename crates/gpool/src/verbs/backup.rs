//! `gpool backup`: copies the store into one file, with tokens, rules and the audit log, with or
//! without a running server.

use std::path::PathBuf;

use clap::Args;
use gpool_cli::exit::Exit;
use gpool_cli::failure::Result;
use gpool_cli::render::json;
use gpool_cli::session::{Session, state_dir};
use gpool_cli::store_file::fault;
use gpool_cli::working::during;
use serde_json::json;

#[derive(Debug, Clone, Args)]
pub struct BackupArgs {
    /// File to create; it must not exist
    #[arg(value_name = "FILE")]
    to: PathBuf,
    /// State folder of the server (default: the usual one)
    #[arg(long, value_name = "FOLDER")]
    state_dir: Option<String>,
}

/// Runs the verb.
pub fn run(args: &BackupArgs, session: &Session) -> Result {
    let dir = state_dir(args.state_dir.as_deref())?;
    let copy = || gpool_store::backup(&dir, &args.to, &gpool_server::BACKED_UP);
    let made = during(&session.screen, "copying the store", copy).map_err(|error| fault(&error))?;
    if session.global.json {
        let document = json!({
            "file": args.to,
            "revision": made.revision,
            "records": made.n_records,
            "blobs": made.n_blobs,
            "beside": made.n_extra_files,
        });
        session.screen.data(&json::one(document))?;
    } else {
        session.screen.note(&format!(
            "{}: {} records and {} files as of revision {}",
            args.to.display(),
            made.n_records,
            made.n_blobs + made.n_extra_files,
            made.revision
        ));
    }
    Ok(Exit::OK)
}
