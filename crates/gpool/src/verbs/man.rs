//! `gpool man`: writes manual pages, for packages of gpool.

use std::path::{Path, PathBuf};

use clap::Args;
use clap_mangen::roff::{Roff, roman};
use gpool_cli::errors;
use gpool_cli::exit::Exit;
use gpool_cli::failure::{Failure, Result};
use gpool_cli::session::Session;

use crate::cli::{self, Verb};
use gpool_verbs::keys;

#[derive(Debug, Clone, Args)]
#[command(after_help = "The pages are gpool.1, one page per command, and gpool.toml.5, in the \
    subfolders man1 and man5.")]
pub struct ManArgs {
    /// Folder to write to; created if it does not exist
    #[arg(value_name = "FOLDER", value_hint = clap::ValueHint::DirPath)]
    folder: PathBuf,
}

/// Runs the verb.
pub fn run(args: &ManArgs, verbs: &[Verb], session: &Session) -> Result {
    let failed = |error: std::io::Error| {
        let what = format!("can't write manual pages to {}: {error}", args.folder.display());
        Failure::new(errors::NOT_WRITTEN, what)
            .tip("gpool man FOLDER   (with a folder that you can write to)")
    };
    let n_pages = write(&args.folder, verbs).map_err(failed)?;
    session.screen.note(&format!("{n_pages} pages; man -M {} gpool", args.folder.display()));
    Ok(Exit::OK)
}

fn write(folder: &Path, verbs: &[Verb]) -> std::io::Result<usize> {
    let commands = folder.join("man1");
    std::fs::create_dir_all(&commands)?;
    clap_mangen::generate_to(cli::command(verbs), &commands)?;
    let files = folder.join("man5");
    std::fs::create_dir_all(&files)?;
    std::fs::write(files.join("gpool.toml.5"), settings_page())?;
    Ok(std::fs::read_dir(&commands)?.count() + 1)
}

/// The page of the settings file.
pub fn settings_page() -> Vec<u8> {
    let mut page = Roff::new();
    page.control("TH", ["gpool.toml", "5", "", concat!("gpool ", env!("CARGO_PKG_VERSION"))]);
    page.control("SH", ["NAME"]);
    page.text([roman("gpool.toml - settings of the gpool server")]);
    page.control("SH", ["DESCRIPTION"]);
    page.text([roman(
        "gpool up reads the file that GPOOL_CONFIG names, else ~/.config/gpool/gpool.toml, or \
         /etc/gpool/gpool.toml as root. Flags of gpool up override it. An unknown key is refused. \
         gpool init writes a file with all keys.",
    )]);
    page.control("SH", ["KEYS"]);
    for key in keys::KEYS {
        page.control("TP", []);
        page.text([clap_mangen::roff::bold(format!("{} = {}", key.name, key.value))]);
        let without = if key.is_default { "" } else { " The value is an example." };
        page.text([roman(format!("{}{without}", key.about))]);
    }
    page.control("SH", ["SEE ALSO"]);
    page.text([roman("gpool(1), gpool-up(1), gpool-init(1)")]);
    page.render().into_bytes()
}
