//! `gpool restore`: restores a store from a backup.

use std::path::PathBuf;

use clap::Args;
use gpool_cli::exit::Exit;
use gpool_cli::failure::Result;
use gpool_cli::session::{Session, state_dir};
use gpool_cli::store_file::fault;
use gpool_cli::working::during;
use gpool_store::Existing;

#[derive(Debug, Clone, Args)]
pub struct RestoreArgs {
    /// Backup file
    #[arg(value_name = "FILE")]
    from: PathBuf,
    /// State folder of the server (default: the usual one)
    #[arg(long, value_name = "FOLDER")]
    state_dir: Option<String>,
    /// Move an existing store into a folder beside it
    #[arg(long)]
    put_aside: bool,
}

/// Runs the verb.
///
/// # Errors
/// The backup is damaged, a store exists, or a server uses it; then nothing is changed.
pub fn run(args: &RestoreArgs, session: &Session) -> Result {
    let dir = state_dir(args.state_dir.as_deref())?;
    let existing = if args.put_aside { Existing::PutAside } else { Existing::Refuse };
    let copy = || gpool_store::restore(&args.from, &dir, existing);
    let restored =
        during(&session.screen, "restoring the store", copy).map_err(|error| fault(&error))?;
    session.screen.note(&format!(
        "{}: {} records and {} files as of revision {}",
        dir.display(),
        restored.n_records,
        restored.n_blobs,
        restored.revision
    ));
    if restored.extra_files.iter().any(|it| it.as_os_str() == gpool_server::ACCESS_FILE) {
        session.screen.note(
            "tokens are as in the backup: one that was revoked since then is valid again \
             (gpool token list)",
        );
    }
    if let Some(aside) = restored.put_aside {
        session.screen.note(&format!("the old store is in {}", aside.display()));
    }
    Ok(Exit::OK)
}
