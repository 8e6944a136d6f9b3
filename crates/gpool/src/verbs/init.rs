//! `gpool init`: a file of settings with every key, each said and none set.

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
use crate::keys;

/// Write a commented file of settings
///
/// It is written where gpool up reads it, and sets nothing until a line is uncommented.
#[derive(Debug, Clone, Copy, Default, Args)]
pub struct InitArgs {
    /// This user's: ~/.config/gpool/gpool.toml
    #[arg(long, conflicts_with = "system")]
    user: bool,
    /// The machine's: /etc/gpool/gpool.toml
    #[arg(long)]
    system: bool,
    /// Replace the file that is there; it is kept beside, with .old behind its name
    #[arg(long)]
    force: bool,
    /// Print it instead
    #[arg(long)]
    print: bool,
}

/// Runs it.
///
/// # Errors
/// There is a file already, or it can't be written.
pub fn run(args: InitArgs, session: &Session) -> Result {
    if args.print {
        session.screen.data(&keys::file())?;
        return Ok(Exit::OK);
    }
    let path = path(args)?;
    write_new(&path, &keys::file(), args.force)?;
    session.screen.data(&format!("{}\n", path.display()))?;
    session.screen.note("every key is in it and none is set; gpool up reads it when it starts");
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
        Failure::new(errors::BAD_DIRECTORY, "there is no home to put the file into")
            .tip("gpool init --print > gpool.toml")
    })
}

/// Writes a file that is whole or not there. One that is there is replaced only by force, and kept
/// beside.
///
/// # Errors
/// There is one, or it can't be written.
pub fn write_new(path: &Path, text: &str, force: bool) -> Result<()> {
    let shown = path.display();
    let failed = |error: std::io::Error| {
        Failure::new(errors::NOT_WRITTEN, format!("can't write {shown}: {error}"))
            .tip("write it where you may: the command with --print, and > FILE")
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
        // A link is made only where nothing is.
        false => std::fs::hard_link(&new, path),
        true => match std::fs::rename(path, beside(".old")) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
            _ => std::fs::hard_link(&new, path),
        },
    };
    // What matters is whether it is in its place.
    drop(std::fs::remove_file(&new));
    placed.map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists => {
            Failure::new(errors::FILE_EXISTS, format!("{shown} is there already"))
                .tip("the same with --force keeps the old one beside it, as .old")
                .tip("the same with --print shows what would be written")
        }
        _ => failed(error),
    })
}
