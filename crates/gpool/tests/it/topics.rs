//! Pages of `gpool help` about more than one command.

use gpool_model::Policy;
use gpool_model::job::JobState;
use gpool_model::notify::NotifyOn;

use gpool::topics::{all, compat_of, text};
use gpool_cli::errors;

/// The pages that are made from tables of the program.
const GENERATED: [&str; 2] = ["reasons", "settings"];
/// The pages that are documents: rows of their tables may be long.
const DOCUMENTS: [&str; 3] = ["compat", "runai", "valohai"];

#[test]
fn every_state_stands_on_the_page_of_states() {
    let page = text("states").expect("it is there");
    for state in JobState::ALL {
        let is_told = page.lines().any(|line| line.starts_with(state.as_str()));
        assert!(is_told, "{state}");
    }
}

#[test]
fn the_page_on_scheduling_describes_each_preset() {
    let page = text("scheduling").expect("it is there");
    for name in Policy::PRESETS {
        let policy = Policy::from_preset(name).expect(name);
        let order: Vec<&str> = policy.order.iter().map(|key| key.as_str()).collect();
        let escalates = ["escalated", "attained"].iter().any(|key| order.contains(key));
        let hours = format!("{}h", policy.escalate_after.get() / 3_600_000);
        let hours = if escalates { hours } else { "–".to_owned() };
        let row = [name.to_owned(), order.join(","), hours];
        let line = page.lines().find(|line| line.split_whitespace().take(3).eq(&row));
        let is_default = line.expect(name).contains("the default");
        assert_eq!(is_default, name == Policy::of_new_server().preset, "{name}");
    }
}

#[test]
fn every_page_has_a_name_of_its_own_and_fits_a_terminal() {
    let names: Vec<&str> = all().map(|(name, _)| name).collect();
    let single: std::collections::BTreeSet<&str> = names.iter().copied().collect();
    assert_eq!(single.len(), names.len());
    for name in names {
        let page = text(name).expect("it is listed");
        if DOCUMENTS.contains(&name) {
            continue;
        }
        let width = if GENERATED.contains(&name) { 110 } else { 80 };
        assert!(page.lines().all(|line| line.chars().count() <= width), "{name}");
    }
}

#[test]
fn every_code_says_what_happened_and_what_to_do() {
    for entry in errors::all() {
        assert!(entry.help.len() > 40 && !entry.title.is_empty(), "{}", entry.code);
    }
}

#[test]
fn the_page_on_notifications_has_every_event() {
    let page = text("notifications").expect("it is there");
    let words: Vec<&str> = page.split(|c: char| !(c.is_alphanumeric() || c == '_')).collect();
    for (event, _) in NotifyOn::ALL.iter().chain(&NotifyOn::OF_PAYERS) {
        assert!(words.contains(event), "{event}");
    }
}

#[test]
fn the_page_on_gpu_requests_has_every_form_of_the_document() {
    let page = text("gpu-requests").expect("it is there");
    let document = include_str!("../../../../docs/using/gpus.md").replace("\\|", "|");
    let rows = document.lines().filter_map(|line| line.strip_prefix("| `--gpus "));
    let forms: Vec<&str> = rows.filter_map(|row| row.split('`').next()).collect();
    assert!(forms.len() > 10, "{forms:?}");
    for form in forms {
        assert!(page.contains(&format!("--gpus {form} ")), "{form}");
    }
}

#[test]
fn documents_in_help_have_no_links_to_files() {
    for name in DOCUMENTS {
        let page = text(name).expect("it is listed");
        assert!(!page.contains("](") && !page.contains("```"), "{name}");
    }
    let page = compat_of("sbatch").expect("it is there");
    assert!(page.contains("`--array` `-a` covered") && !page.contains("`srun`"), "{page}");
    assert!(compat_of("gctl").expect("its commands").contains("set-limit"));
    assert_eq!(compat_of("sb"), None);
}
