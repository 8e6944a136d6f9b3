//! `gpool man`: writes manual pages, for packages of gpool.

use std::path::{Path, PathBuf};

use clap::Args;
use clap_mangen::roff::{Roff, roman};
use gpool_cli::errors;
use gpool_cli::exit::Exit;
use gpool_cli::failure::{Failure, Result};
use gpool_cli::session::Session;

use crate::cli::{self, Verb};
use crate::keys;

/// Write manual pages into a folder
///
/// gpool.1, one page for each command, and gpool.toml.5, in its subfolders man1 and man5.
#[derive(Debug, Clone, Args)]
pub struct ManArgs {
    /// Folder to write to; created if it does not exist
    #[arg(value_name = "FOLDER", value_hint = clap::ValueHint::DirPath)]
    folder: PathBuf,
}

/// Runs the verb.
///
/// # Errors
/// The pages can't be written.
pub fn run(args: &ManArgs, verbs: &[Verb], session: &Session) -> Result {
    let failed = |error: std::io::Error| {
        let what = format!("can't write manual pages to {}: {error}", args.folder.display());
        Failure::new(errors::NOT_WRITTEN, what).tip("gpool man FOLDER, of one that you may write")
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
fn settings_page() -> Vec<u8> {
    let mut page = Roff::new();
    page.control("TH", ["gpool.toml", "5", "", concat!("gpool ", env!("CARGO_PKG_VERSION"))]);
    page.control("SH", ["NAME"]);
    page.text([roman("gpool.toml - settings of the gpool server")]);
    page.control("SH", ["DESCRIPTION"]);
    page.text([roman(
        "gpool up reads the file that GPOOL_CONFIG names, else ~/.config/gpool/gpool.toml, or \
         /etc/gpool/gpool.toml as root. Flags of up go before it. A key that is none of these is \
         refused. gpool init writes a file with all of them.",
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

/// The page of one command as roff text.
///
/// # Errors
/// The text can't be written.
#[cfg(test)]
fn page_of(command: clap::Command) -> std::io::Result<String> {
    let mut page = Vec::new();
    clap_mangen::Man::new(command).render(&mut page)?;
    Ok(String::from_utf8_lossy(&page).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::Group;
    use crate::verbs::VERBS;

    #[test]
    fn every_key_and_every_verb_has_its_place() {
        let settings = String::from_utf8(settings_page()).expect("it is text");
        for name in keys::names() {
            assert!(settings.contains(&name.replace('-', "\\-")), "{name}");
        }
        let page = page_of(cli::command(VERBS)).expect("memory takes it");
        for verb in VERBS.iter().filter(|verb| verb.group != Group::Internal) {
            let name = verb.name.replace('-', "\\-");
            assert!(page.contains(&name), "{name}");
        }
    }
}
