//! Invalid values and words: each is refused with one clear message, and nothing changes.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;

use crate::harness::Cluster;

#[test]
fn amounts_that_make_no_sense_are_refused() {
    let cluster = Cluster::new("sim:2xH100-80G");
    for (flag, value, words) in [
        ("--gpus", "-1", &["-1"][..]),
        ("--gpus", "", &["--gpus"]),
        ("--gpus", "1:2", &["1:2"]),
        ("--gpus", "1.5", &["1.5", "0.999"]),
        ("--gpus", "h100:", &["h100:"]),
        ("--gpus", "99999999999999999999", &["99999999999999999999"]),
        ("--gpus", "4294967295", &["4294967295"]),
        ("--gpus", "40..", &["40"]),
        ("--cpus", "-2", &["-2"]),
        ("--cpus", "0", &["0"]),
        ("--cpus", "many", &["many"]),
        ("--cpus", "99999999999999999999999", &["9999"]),
        ("--mem", "20", &["example, 20G"]),
        ("--mem", "-1G", &["-1G"]),
        ("--mem", "0G", &["0G"]),
        ("--mem", "lots", &["lots"]),
        ("--mem", "20X", &["20X"]),
        ("--mem", "99999999999999T", &["99999999999999T"]),
        ("--time", "-5", &["-5"]),
        ("--time", "0", &["0"]),
        ("--time", "soon", &["soon"]),
        ("--time", "1:2:3:4", &["1:2:3:4"]),
        ("--time", "99999999999999999d", &["9999"]),
        ("--priority", "high", &["high", "-1000"]),
        ("--priority", "99999", &["99999"]),
        ("--grace", "x", &["x"]),
        ("-J", "", &["empty"]),
        ("--after", "ok:", &["--after"]),
        ("-e", "1BAD=x", &["1BAD"]),
        ("-e", "=x", &["--env"]),
        ("--project", "no-such-project", &["no-such-project"]),
    ] {
        for verb in ["submit", "run"] {
            let ran = cluster.gpool([verb, flag, value, "--", "true"]);
            let code = if flag == "--project" { 6 } else { 2 };
            ran.refused(code, words);
        }
    }
    assert!(cluster.all_ids().is_empty());
}

#[test]
fn memory_beyond_all_devices_is_impossible() {
    let cluster = Cluster::new("sim:2xH100-80G");
    cluster.gpool(["submit", "--gpus", "81G..", "--", "true"]).refused(4, &["80"]);
    // A word is a GPU model, and no device is of that model.
    cluster
        .gpool(["submit", "--gpus", "two", "--", "true"])
        .refused(4, &["no GPU model \"two\"", "H100"]);
    cluster.gpool(["submit", "--gpus", "1000", "--", "true"]).refused(4, &["2"]);
    assert!(cluster.all_ids().is_empty());
}

#[test]
fn unknown_words_are_refused_with_the_nearest() {
    let cluster = Cluster::new("none");
    // The sort keys of a list are the names of its columns.
    cluster.submit(["--hold", "--", "true"]);
    for (words, expected) in [
        (&["submti", "--", "true"][..], &["submti", "submit"][..]),
        (&["queu"], &["queu", "queue"]),
        (&["submit", "--gpu", "1", "--", "true"], &["--gpu", "--gpus"]),
        (&["queue", "--stat", "all"], &["--stat", "--state"]),
        (&["queue", "--state", "runing"], &["runing", "running"]),
        (&["queue", "-o", "jsno"], &["jsno", "json"]),
        (&["queue", "--format", "id,nmae"], &["nmae", "name"]),
        (&["queue", "--sort", "prioriyt"], &["prioriyt", "priority"]),
        (&["signal", "TREM", "1"], &["TREM", "TERM"]),
        (&["up", "--strategy", "sequental"], &["sequental", "sequential"]),
        (&["up", "--devices", "sim:0xH100"], &["--devices"]),
        (&["up", "--devices", "smi:8xH100"], &["--devices", "sim:8xH100-80G"]),
        (&["show"], &["which job?"]),
        (&["show", "1-"], &["1-"]),
        (&["cancel"], &["which job?"]),
        (&["run"], &["COMMAND"]),
        (&["submit"], &["nothing to submit"]),
        (&["queue", "--watch=1ms"], &["1ms"]),
        (&["wait", "1", "--timeout", "never"], &["never"]),
        (&["--server", "", "queue"], &["socket"]),
    ] {
        let ran = cluster.gpool(words);
        assert_eq!(ran.code, 2, "{words:?}: {ran:?}");
        ran.refused(2, expected);
    }
    assert_eq!(cluster.all_ids(), ["1"]);
    assert_eq!(cluster.job("1").state.as_str(), "held");
    let ran = cluster.gpool(["help", "GP9999"]);
    assert_ne!(ran.code, 0);
}

#[test]
fn every_code_that_is_named_is_explained_without_a_server() {
    let cluster = Cluster::unstarted(&[]);
    let ran = cluster.gpool(["queue"]);
    ran.refused(3, &["GP0301", "gpool up", "api.sock"]);
    let out = cluster.gpool(["help", "GP0301"]).ok();
    assert!(out.contains("GP0301") && out.contains("gpool up"), "{out}");
    for words in [&["submit", "--", "true"][..], &["down"], &["status"], &["wait", "all"]] {
        cluster.gpool(words).refused(3, &["GP0301"]);
    }
}

#[test]
fn words_that_are_not_utf8_are_refused() {
    let cluster = Cluster::new("none");
    let latin = OsStr::from_bytes(b"caf\xe9");
    for words in [
        &["submit".as_ref(), "--".as_ref(), "echo".as_ref(), latin][..],
        &["run".as_ref(), "--".as_ref(), latin],
        &["submit".as_ref(), latin],
        &["submit".as_ref(), "-J".as_ref(), latin, "--".as_ref(), "true".as_ref()],
        &["show".as_ref(), latin],
    ] {
        let ran = cluster.gpool(words);
        ran.refused(2, &["UTF-8"]);
    }
    assert!(cluster.all_ids().is_empty());
    // An environment and a script may hold any bytes.
    let mut command = cluster.command();
    command.env("BYTES", latin).args(["run", "--", "sh", "-c", "printf %s \"$BYTES\""]);
    assert_eq!(command.output().unwrap().stdout, b"caf\xe9");
    std::fs::write(cluster.work().join("latin.sh"), b"#!/bin/sh\nprintf 'caf\xe9'\n").unwrap();
    let id = cluster.submit(["latin.sh"]);
    assert_eq!(cluster.until_ended(&id).exit_code, Some(0));
    let out = cluster.command().args(["logs", &id]).output().unwrap().stdout;
    assert_eq!(out, b"caf\xe9");
    // So may the working directory: the command is refused or works.
    let folder = cluster.work().join(latin);
    std::fs::create_dir(&folder).unwrap();
    let mut command = cluster.command();
    command.current_dir(&folder).args(["run", "--", "true"]);
    let ran = crate::harness::Running::start(&mut command, None).end();
    ran.refused(2, &["UTF-8"]);
}

#[test]
fn names_that_can_not_be_shown_and_projects_that_are_not_there_have_a_way_out() {
    let cluster = Cluster::new("none");
    let refused = |words: &[&str], said: &[&str]| cluster.gpool(words).refused(2, said);
    refused(
        &["submit", "--name", "a\tb", "--", "true"],
        &["--name: \"a\\tb\": it contains", "try"],
    );
    refused(
        &["submit", "--note", "a\x07", "--", "true"],
        &["--note: \"a\\u{7}\": it contains", "try"],
    );
    refused(&["note", "1", "a\x07"], &["the note: it contains control", "try"]);
    let ran = cluster.gpool(["submit", "--project", "defualt", "--", "true"]);
    ran.refused(6, &["there are: default", "did you mean \"default\"?"]);
}
