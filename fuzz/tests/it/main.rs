//! Every stored input passes, and every target is complete.

use std::path::{Path, PathBuf};

use gpool_fuzz::TARGETS;

/// All stored inputs of a target.
fn kept(target: &str) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for folder in ["corpus", "regressions"] {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder).join(target);
        let Ok(entries) = std::fs::read_dir(&folder) else { continue };
        files.extend(entries.map(|entry| entry.expect("the folder can be read").path()));
    }
    files.sort();
    files
}

#[test]
fn seeds_and_regressions_pass() {
    for (target, check) in TARGETS {
        let files = kept(target);
        assert!(!files.is_empty(), "{target} has no seeds");
        for file in files {
            // The panic does not name the input.
            println!("{}", file.display());
            check(&std::fs::read(&file).expect("the file can be read"));
        }
    }
}

#[test]
fn every_target_has_a_program_and_every_folder_a_target() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let manifest = std::fs::read_to_string(folder.join("Cargo.toml")).expect("it is there");
    for (target, _) in TARGETS {
        let program = format!("name = \"{target}\"\npath = \"fuzz_targets/{target}.rs\"\n");
        assert!(manifest.contains(&program), "{target} has no program");
    }
    assert_eq!(manifest.matches("[[bin]]").count(), TARGETS.len());
    for place in ["corpus", "regressions"] {
        let Ok(entries) = std::fs::read_dir(folder.join(place)) else { continue };
        for entry in entries {
            let name = entry.expect("the folder can be read").file_name();
            let known = TARGETS.iter().any(|(target, _)| name == *target);
            assert!(known, "{place}/{} is of no target", name.display());
        }
    }
}
