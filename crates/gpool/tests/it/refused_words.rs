//! Words of the command line that are refused before a server is asked.

use crate::here::Here;
use crate::place::{NO_SERVER, Place};

#[test]
fn unknown_words_are_refused_with_the_nearest() {
    for (words, said) in [
        (&["submti", "--", "true"][..], &["submti", "submit"][..]),
        (&["queu"], &["queu", "queue"]),
        (&["submit", "--gpu", "1", "--", "true"], &["--gpu", "--gpus"]),
        (&["queue", "--stat", "all"], &["--stat", "--state"]),
        (&["queue", "--state", "runing"], &["runing", "running"]),
        (&["queue", "-o", "jsno"], &["jsno", "json"]),
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
        (&["note", "1", "a\x07"], &["the note: it contains control", "try"]),
        (&["edit", "1"], &["there is nothing to change"]),
    ] {
        Here::of(NO_SERVER).refused(words, 2, said);
    }
}

#[test]
fn files_that_are_no_scripts_are_refused() {
    let place = Place::new();
    let file = |name: &str, bytes: &[u8]| place.file(name, bytes);
    let binary = std::fs::read("/bin/true").unwrap();
    for (script, said) in [
        ("no-such.sh".to_owned(), &["there is no script", "gpool submit --"][..]),
        ("/".to_owned(), &["is a directory"]),
        (file("binary", &binary), &["is a program", "gpool submit -- "]),
        (file("plain.sh", b"echo hi\n"), &["#!/bin/bash"]),
        (file("empty.sh", b""), &["is empty"]),
        (file("a.sh", b"#!/bin/sh\n# fine\n# GPOOL --gpu 2\ntrue\n"), &["a.sh:3", "--gpus"]),
        (file("b.sh", b"#!/bin/sh\n# GPOOL --name 'open\ntrue\n"), &["b.sh:2", "quotation"]),
    ] {
        Here::of(NO_SERVER).refused(&["submit", &script], 2, said);
    }
}
