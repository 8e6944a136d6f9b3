//! The binary without a server: its refusals and exit codes, and no output where none is expected.

use std::io::{Read as _, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::process::Stdio;

use crate::place::{Place, stderr, stdout};

#[test]
fn invalid_arguments_exit_with_2_and_a_message_in_four_parts() {
    let place = Place::new();
    for words in [
        &["quue"][..],
        &["queue", "--nosuch"],
        &["queue", "-X"],
        &["queue", "-s", "bogus"],
        &["queue", "-o", "xml"],
        &["queue", "--since", "someday"],
        &["events", "--after", "foo"],
        &["run"],
        &["run", "--nosuch", "true"],
        &["run", "--gpu", "1", "--", "true"],
        &["run", "--gpus", "-1", "--", "true"],
        &["run", "--gpus", "0.8:0.25", "--", "true"],
        &["run", "--gpus", "99999999999", "--", "true"],
        &["run", "--gpus", "abc:x", "--", "true"],
        &["run", "--cpus", "0", "--", "true"],
        &["run", "--cpus", "many", "--", "true"],
        &["run", "--mem", "12", "--", "true"],
        &["run", "--mem", "12Q", "--", "true"],
        &["run", "--mem", "-5G", "--", "true"],
        &["run", "--mem", "99999999999T", "--", "true"],
        &["run", "--time", "0", "--", "true"],
        &["run", "--time", "-5", "--", "true"],
        &["run", "--priority", "5000", "--", "true"],
        &["run", "-e", "1A=1", "--", "true"],
        &["run", "--name", "", "--", "true"],
        &["run", "--cwd", "/nonexistent", "--", "true"],
        &["submit"],
        &["submit", "no-such-script"],
        &["submit", "/"],
        &["submit", "--from-jsonl", "x", "--", "true"],
        &["cancel"],
        &["cancel", "0"],
        &["cancel", "20-10"],
        &["cancel", "@x"],
        &["signal", "NOSUCH", "1"],
        &["edit", "1"],
        &["wait", "1", "--timeout", "soon"],
        &["logs", "1", "--tail", "-1"],
        &["up", "--devices", "nosuch"],
        &["up", "--strategy", "nosuch"],
        &["up", "--gpus", "3-1"],
        &["help", "nosuch"],
        &["help", "GP9999"],
        &["--server", "", "queue"],
    ] {
        let output = place.run(words);
        let text = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{words:?}: {text}");
        assert!(output.stdout.is_empty(), "{words:?}: {}", stdout(&output));
        assert!(text.starts_with("error: "), "{words:?}: {text}");
        let last = text.lines().last().unwrap();
        assert!(last.starts_with("  GP") && last.contains(" · gpool help GP"), "{words:?}: {text}");
        let code = last.trim().split(' ').next().unwrap();
        assert_eq!(place.run(&["help", code]).status.code(), Some(0), "{code}");
    }
}

#[test]
fn the_nearest_word_is_suggested() {
    let place = Place::new();
    for (words, near) in [
        (&["quue"][..], "queue"),
        (&["run", "--gpu", "1", "--", "x"], "--gpus"),
        (&["submit", "--nmae", "x", "--", "x"], "--name"),
        (&["queue", "-s", "pendign"], "pending"),
        (&["up", "--strategy", "sequental"], "sequential"),
        (&["help", "queeu"], "gpool help queue"),
        (&["--server", "", "queue"], "socket"),
    ] {
        let text = stderr(&place.run(words));
        assert!(text.contains(near), "{words:?}: {text}");
    }
}

#[test]
fn without_a_server_every_other_command_exits_with_3() {
    let place = Place::new();
    for words in [
        &["queue"][..],
        &["run", "true"],
        &["run", "python", "--epochs", "3"],
        &["submit", "--", "true"],
        &["status"],
        &["gpus"],
        &["nodes"],
        &["show", "1"],
        &["why", "1"],
        &["logs", "1"],
        &["wait", "1"],
        &["wait", "all"],
        &["cancel", "1-3"],
        &["hold", "1"],
        &["release", "1"],
        &["signal", "USR1", "1"],
        &["prio", "-5", "1"],
        &["note", "1", "x"],
        &["edit", "1", "--prio", "-3"],
        &["events"],
        &["down"],
    ] {
        let output = place.run(words);
        assert_eq!(output.status.code(), Some(3), "{words:?}: {}", stderr(&output));
        for said in ["api.sock: there is no such socket", "gpool up", "GP0301"] {
            assert!(stderr(&output).contains(said), "{said}: {}", stderr(&output));
        }
    }
    let help = stdout(&place.run(&["help", "GP0301"]));
    assert!(help.contains("GP0301") && help.contains("gpool up"), "{help}");
}

#[test]
fn errors_in_json_go_to_standard_error_as_one_document() {
    let place = Place::new();
    for words in [&["--json", "queue"][..], &["queue", "--json"], &["queue", "--json", "--nosuch"]]
    {
        let output = place.run(words);
        assert!(output.stdout.is_empty());
        let document: serde_json::Value = serde_json::from_str(&stderr(&output)).unwrap();
        assert!(document["error"]["code"].as_str().unwrap().starts_with("GP"), "{document}");
        assert!(document["error"]["message"].is_string());
    }
}

#[test]
fn scripts_that_can_not_run_are_refused() {
    let place = Place::new();
    place.file("binary", b"\x7fELF\x02\x01\0\0");
    place.file("data", b"#!/bin/sh\n\0\0\0");
    place.file("empty", b"");
    place.file("plain", b"echo hi\n");
    place.file("wrong", b"#!/bin/sh\n\n# GPOOL --gpu 2\n");
    for (script, expected) in [
        ("binary", "is a program, not a script"),
        ("data", "is not a text file"),
        ("empty", "is empty"),
        ("plain", "has no interpreter line"),
        ("wrong", "wrong:3: there is no flag --gpu"),
    ] {
        let output = place.run(&["submit", script]);
        assert_eq!(output.status.code(), Some(2));
        assert!(stderr(&output).contains(expected), "{}", stderr(&output));
    }
}

#[test]
fn words_that_are_not_utf_8_are_refused() {
    let place = Place::new();
    let mut command = place.command(&["run"]);
    command.arg(std::ffi::OsStr::from_bytes(b"caf\xe9"));
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("is not UTF-8"), "{}", stderr(&output));
}

#[test]
fn an_environment_that_is_too_large_is_refused() {
    let place = Place::new();
    let mut command = place.command(&["submit", "--", "true"]);
    for n in 0..10 {
        command.env(format!("BIG{n}"), "x".repeat(100_000));
    }
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("--clean-env"), "{}", stderr(&output));
}

#[test]
fn variables_that_are_no_flags_are_refused() {
    let place = Place::new();
    let mut command = place.command(&["submit", "--", "true"]);
    let output = command.env("GPOOL_SUBMIT_GPU", "1").output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("GPOOL_SUBMIT_GPUS"), "{}", stderr(&output));
}

#[test]
fn a_closed_pipe_ends_it_quietly() {
    let place = Place::new();
    let mut child = place
        .command(&["help", "codes"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let mut said = String::new();
    child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    let code = child.wait().unwrap().code();
    // It may have written everything before the pipe was closed.
    assert!(matches!(code, Some(0 | 141)), "{code:?}");
    assert_eq!(said, "");
}

#[test]
fn a_full_disk_is_reported() {
    let place = Place::new();
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let output = place.command(&["help", "codes"]).stdout(full).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("can't write to standard output"));
}

#[test]
fn help_and_versions_need_no_server() {
    let place = Place::new();
    for words in [
        &["--help"][..],
        &["--version"],
        &["version"],
        &["help"],
        &["help", "run"],
        &["help", "gpus", "allow"],
        &["help", "directives"],
        &["run", "--help"],
        &["completion", "bash"],
        &["completion", "zsh"],
        &["completion", "fish"],
    ] {
        let output = place.run(words);
        assert_eq!(output.status.code(), Some(0), "{words:?}: {}", stderr(&output));
        assert!(!output.stdout.is_empty(), "{words:?}");
    }
}

#[test]
fn nothing_is_colored_in_a_pipe_unless_asked() {
    let place = Place::new();
    let plain = place.run(&["doctor"]);
    assert!(!stdout(&plain).contains('\u{1b}'));
    let colored = place.run(&["doctor", "--color", "always"]);
    assert!(stdout(&colored).contains('\u{1b}'));
    let forced = place.command(&["doctor"]).env("CLICOLOR_FORCE", "1").output().unwrap();
    assert!(stdout(&forced).contains('\u{1b}'));
    let ascii = place.run(&["--ascii", "queue"]);
    assert!(stderr(&ascii).is_ascii(), "{}", stderr(&ascii));
}

#[test]
fn a_script_can_come_from_standard_input() {
    let place = Place::new();
    let mut child = place
        .command(&["submit", "-"])
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(b"echo hi\n").unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("has no interpreter line"));
}

#[test]
fn run_has_no_json_output() {
    let output = Place::new().run(&["run", "--json", "--", "true"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("gpool submit --json"), "{}", stderr(&output));
}
