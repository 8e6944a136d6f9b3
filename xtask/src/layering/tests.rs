//! Tests of the table, and of how violations are found.

use super::*;

fn one(folder: &str, ours: &[&str], external: &[&str]) -> Vec<Crate> {
    let set = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
    vec![Crate { folder: folder.to_owned(), ours: set(ours), external: set(external) }]
}

#[test]
fn the_workspace_keeps_the_table() {
    assert_eq!(violations().expect("the workspace can be read"), Vec::<String>::new());
}

#[test]
fn the_workspace_is_read() {
    let crates = read_crates(&step::root()).expect("the workspace can be read");
    let sched = crates.iter().find(|it| it.folder == "sched").expect("there is a scheduler");
    assert!(sched.ours.contains("model"), "{sched:?}");
}

#[test]
fn a_forbidden_arrow_is_named() {
    let found = arrow_violations(&one("sched", &["model", "store"], &[]));
    assert_eq!(found, ["arrow sched -> store is not allowed"]);
    assert_eq!(arrow_violations(&one("gpool", &["stub-nvml"], &[])).len(), 1);
    assert_eq!(arrow_violations(&one("stub-nvml", &["model"], &[])).len(), 1);
    assert!(arrow_violations(&one("gpool", &["server", "model"], &[])).is_empty());
}

#[test]
fn an_arrow_that_no_crate_uses_is_named() {
    let found = unused_rows(&one("link", &["model"], &[]));
    let expected = "arrow link -> protocol is in the table and unused".to_owned();
    assert!(found.contains(&expected), "{found:?}");
    assert!(found.contains(&"the row of wire has no crate".to_owned()), "{found:?}");
    assert!(!found.iter().any(|line| line.contains("link -> model")), "{found:?}");
}

#[test]
fn an_unknown_crate_needs_a_row() {
    let found = arrow_violations(&one("util", &[], &["serde"]));
    assert_eq!(found, ["crate util has no row in the table of allowed imports"]);
}

#[test]
fn a_pure_crate_depends_on_nothing_that_acts() {
    let found = purity_violations(&one("world", &["model", "wire"], &["serde", "tokio"]));
    assert_eq!(found, ["pure crate world depends on wire", "pure crate world depends on tokio"]);
    assert!(purity_violations(&one("scenario", &[], &["proptest"])).is_empty());
}

#[test]
fn verbs_use_only_the_api() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let store = "use gpool_store::Store;\n";
    fs::write(folder.path().join("queue.rs"), store).expect("a file");
    fs::write(folder.path().join("why.rs"), "use gpool_client::Client;\n").expect("a file");
    let metric = "const QUERY: &str = \"gpool_store_writable\";\n";
    fs::write(folder.path().join("panels.rs"), metric).expect("a file");
    assert_eq!(
        behind_the_api(folder.path()).expect("readable"),
        [("queue.rs".to_owned(), "gpool_store")]
    );
}

#[test]
fn every_row_names_rows_and_makes_no_cycle() {
    let mut placed: BTreeSet<&str> = BTreeSet::new();
    for _ in TABLE {
        for (name, allowed) in TABLE {
            let ready = match allowed {
                Allowed::All => true,
                Allowed::Only(names) => names.iter().all(|it| placed.contains(it)),
            };
            if ready {
                placed.insert(name);
            }
        }
    }
    let left: Vec<_> =
        TABLE.iter().map(|(name, _)| name).filter(|name| !placed.contains(**name)).collect();
    assert!(left.is_empty(), "in a cycle or behind an unknown name: {left:?}");
}
