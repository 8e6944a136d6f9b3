//! Finds conda environments in the usual folders. It does not run conda, which takes longer than a
//! submission.

use std::collections::BTreeMap;
use std::path::Path;

use gpool_cli::software::conda::{Places, absent, environments, find};

fn make(folder: &Path) {
    std::fs::create_dir_all(folder.join("conda-meta")).unwrap();
}

#[test]
fn environments_are_found_where_conda_keeps_them() {
    let dir = tempfile::tempdir().unwrap();
    let (home, root) = (dir.path().join("home"), dir.path().join("conda"));
    for folder in ["envs/torch", "envs/jax", "."] {
        make(&root.join(folder));
    }
    std::fs::create_dir_all(root.join("envs/no-environment")).unwrap();
    make(&dir.path().join("own/torch"));
    make(&dir.path().join("elsewhere/tf"));
    std::fs::create_dir_all(home.join(".conda")).unwrap();
    let list =
        format!("{}\n{}\n/gone/x\n", root.display(), dir.path().join("elsewhere/tf").display());
    std::fs::write(home.join(".conda/environments.txt"), list).unwrap();
    let places =
        Places { home: Some(home), envs: vec![dir.path().join("own")], roots: vec![root.clone()] };
    let found = environments(&places);
    assert_eq!(found.keys().collect::<Vec<_>>(), ["base", "jax", "tf", "torch"]);
    assert_eq!(found["torch"], dir.path().join("own/torch"), "the first is it");
    let failure = absent("touch", &found);
    assert!(failure.text(false).contains("--conda torch"), "{}", failure.text(false));
    assert!(absent("x", &BTreeMap::new()).text(false).contains("found no conda"));
}

#[test]
fn a_folder_is_an_environment_or_will_be_made() {
    let dir = tempfile::tempdir().unwrap();
    make(&dir.path().join("e"));
    let found = |may| find("./f", dir.path(), may);
    assert!(find("./e", dir.path(), false).is_ok());
    assert!(found(false).is_err());
    assert!(found(true).is_ok());
}
