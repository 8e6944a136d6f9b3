//! Tests that `gpool` finds `gpool-lab` and passes the whole command line on.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::harness::program;
use crate::place::{Place, stderr, stdout};

/// A folder with only `gpool` in it.
struct Alone(PathBuf);

impl Alone {
    fn new(name: &str) -> Self {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        drop(std::fs::remove_dir_all(&folder));
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::hard_link(program(), folder.join("gpool")).unwrap();
        Self(folder)
    }

    fn run(&self, path: &Path, words: &[&str]) -> Output {
        let mut command = Command::new(self.0.join("gpool"));
        command.env_clear().env("PATH", path).current_dir(&self.0).args(words).output().unwrap()
    }
}

impl Drop for Alone {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.0));
    }
}

#[test]
fn without_gpool_lab_its_verbs_say_how_to_get_it() {
    let alone = Alone::new("without-lab");
    for words in [
        &["bench"][..],
        &["bench", "--help"],
        &["replay", "case.json"],
        &["simulate", "packing"],
        &["simulate", "queue", "--trace", "jobs.csv"],
        &["simulate", "scenarios", "case.json"],
    ] {
        let output = alone.run(Path::new("/nonexistent"), words);
        let text = stderr(&output);
        assert_eq!((output.status.code(), stdout(&output).as_str()), (Some(1), ""), "{text}");
        for said in
            ["there is no program gpool-lab", "the folder of gpool", "testing/lab", "GP0259"]
        {
            assert!(text.contains(said), "{said}: {text}");
        }
    }
    let output = alone.run(Path::new("/nonexistent"), &["--json", "bench"]);
    let json: serde_json::Value = serde_json::from_slice(&output.stderr).unwrap();
    assert_eq!(json["error"]["code"], "GP0259", "{json}");
}

#[test]
fn one_in_the_path_is_run_unless_the_folder_is_relative() {
    let alone = Alone::new("lab-in-path");
    let lab = Path::new(env!("CARGO_BIN_EXE_gpool-lab"));
    let output = alone.run(lab.parent().unwrap(), &["bench", "--help"]);
    assert!(stdout(&output).contains("--quick"), "{}", stderr(&output));
    std::fs::create_dir(alone.0.join("bin")).unwrap();
    std::fs::hard_link(lab, alone.0.join("bin/gpool-lab")).unwrap();
    let output = alone.run(Path::new("bin"), &["bench", "--help"]);
    assert_eq!(output.status.code(), Some(1), "{}", stdout(&output));
}

#[test]
fn flags_before_and_behind_the_verb_reach_gpool_lab() {
    let place = Place::new();
    place.file("none.json", b"{\"scenarios\": []}");
    for words in [
        &["--json", "simulate", "scenarios", "none.json"][..],
        &["simulate", "scenarios", "none.json", "--json"],
    ] {
        let output = place.run(words);
        let json: serde_json::Value = serde_json::from_str(&stdout(&output)).unwrap();
        assert_eq!((&json["same"], &json["faults"]), (&0.into(), &0.into()), "{json}");
    }
}

#[test]
fn help_is_that_of_gpool_lab_and_begins_as_the_short_one() {
    let place = Place::new();
    for verb in [
        &["bench"][..],
        &["replay"],
        &["simulate", "packing"],
        &["simulate", "queue"],
        &["simulate", "scenarios"],
    ] {
        let whole = stdout(&place.run(&[verb, &["--help"]].concat()));
        let short = stdout(&place.run(&[&["help"], verb].concat()));
        let usage = format!("Usage: gpool {}", verb.join(" "));
        assert!(whole.contains(&usage) && short.contains(&usage), "{whole}{short}");
        assert_eq!(whole.lines().next(), short.lines().next());
        assert!(short.contains("gpool-lab") && !whole.contains("gpool-lab"), "{whole}{short}");
    }
    let wrong = place.run(&["bench", "--quik"]);
    assert_eq!(wrong.status.code(), Some(2));
    assert!(stderr(&wrong).contains("gpool bench --help"), "{}", stderr(&wrong));
}
