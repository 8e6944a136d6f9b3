//! `gpool man`: writes manual pages, for packages of gpool.

use gpool::cli::{self, HelpSection};
use gpool::verbs::VERBS;
use gpool::verbs::man::settings_page;
use gpool_verbs::keys;

/// The page of one command as roff text.
fn page_of(command: clap::Command) -> std::io::Result<String> {
    let mut page = Vec::new();
    clap_mangen::Man::new(command).render(&mut page)?;
    Ok(String::from_utf8_lossy(&page).into_owned())
}

#[test]
fn every_key_and_every_verb_has_its_place() {
    let settings = String::from_utf8(settings_page()).expect("it is text");
    for name in keys::names() {
        assert!(settings.contains(&name.replace('-', "\\-")), "{name}");
    }
    let page = page_of(cli::command(VERBS)).expect("memory takes it");
    for verb in VERBS.iter().filter(|verb| HelpSection::IN_HELP.contains(&verb.group)) {
        let name = verb.name.replace('-', "\\-");
        assert!(page.contains(&name), "{name}");
    }
}
