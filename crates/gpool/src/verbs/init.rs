//! `gpool init`: writes a commented settings file.

use std::fs::{DirBuilder, OpenOptions};
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use clap::Args;
use gpool_cli::errors;
use gpool_cli::exit::Exit;
use gpool_cli::failure::{Failure, Result};
use gpool_cli::session::Session;

use crate::config;
use gpool_verbs::keys;

#[derive(Debug, Clone, Copy, Default, Args)]
#[command(after_help = "gpool up reads the file. It sets nothing until a line is uncommented.")]
pub struct InitArgs {
    /// This user's file: ~/.config/gpool/gpool.toml
    #[arg(long, conflicts_with = "system")]
    user: bool,
    /// The machine's file: /etc/gpool/gpool.toml
    #[arg(long)]
    system: bool,
    /// Replace an existing file and rename it to .old
    #[arg(long)]
    force: bool,
    /// Print the text instead
    #[arg(long)]
    print: bool,
}

/// Runs the verb.
///
/// # Errors
/// The file exists or can't be written.
pub fn run(args: InitArgs, session: &Session) -> Result {
    if args.print {
        session.screen.data(&keys::file())?;
        return Ok(Exit::OK);
    }
    let path = path(args)?;
    write_new(&path, &keys::file(), args.force)?;
    session.screen.data(&format!("{}\n", path.display()))?;
    session.screen.note("it has all keys, none of them set; gpool up reads it when it starts");
    Ok(Exit::OK)
}

fn path(args: InitArgs) -> Result<PathBuf> {
    let named = std::env::var_os("GPOOL_CONFIG").filter(|path| !path.is_empty());
    let path = match (args.user, args.system, named) {
        (_, true, _) => Some(PathBuf::from(config::OF_MACHINE)),
        (true, ..) => config::user_path(),
        (false, false, Some(named)) => Some(PathBuf::from(named)),
        (false, false, None) => config::usual_path(),
    };
    path.ok_or_else(|| {
        Failure::new(errors::BAD_DIRECTORY, "there is no home folder for the file")
            .tip("gpool init --print > gpool.toml")
    })
}

/// Writes a file atomically. An existing file is replaced only with `force`, and renamed to `.old`.
///
/// # Errors
/// The file exists, or it can't be written.
pub fn write_new(path: &Path, text: &str, force: bool) -> Result<()> {
    let shown = path.display();
    let failed = |error: std::io::Error| {
        Failure::new(errors::NOT_WRITTEN, format!("can't write {shown}: {error}"))
            .tip("the command with --print > FILE   (writes it elsewhere)")
    };
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        DirBuilder::new().recursive(true).mode(0o755).create(folder).map_err(failed)?;
    }
    let beside = |suffix: &str| {
        let mut name = path.as_os_str().to_owned();
        name.push(suffix);
        PathBuf::from(name)
    };
    let new = beside(".new");
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o644);
    let written = options.open(&new).and_then(|mut file| {
        file.write_all(text.as_bytes())?;
        file.sync_all()
    });
    written.map_err(failed)?;
    let placed = match force {
        // A hard link fails if the file exists.
        false => std::fs::hard_link(&new, path),
        true => match std::fs::rename(path, beside(".old")) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
            _ => std::fs::hard_link(&new, path),
        },
    };
    // The result depends only on the link, not on this removal.
    drop(std::fs::remove_file(&new));
    placed.map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists => {
            Failure::new(errors::FILE_EXISTS, format!("{shown} already exists"))
                .tip("the command with --force   (keeps the old one as .old)")
                .tip("the command with --print   (only shows the file)")
        }
        _ => failed(error),
    })
}
