//! Flags of a job that are refused before a server is asked: each with one clear message.

use crate::here::Here;
use crate::place::{NO_SERVER, Place};

/// Checks that a line is refused with exit code 2 and these words.
#[track_caller]
fn refused(words: &[&str], said: &[&str]) {
    Here::of(NO_SERVER).refused(words, 2, said);
}

/// Checks that `gpool submit FLAGS -- true` is refused with exit code 2 and these words.
#[track_caller]
fn submit(flags: &[&str], said: &[&str]) {
    refused(&[&["submit"], flags, &["--", "true"]].concat(), said);
}

/// `run` takes the same flags: `binary.rs` has rows of it.
#[test]
fn amounts_that_make_no_sense() {
    for (flag, value, said) in [
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
        ("--time", "-1", &["\"-1\" is not a positive length of time"]),
        ("--time", "0", &["0"]),
        ("--time", "soon", &["soon"]),
        ("--time", "1:2:3:4", &["1:2:3:4"]),
        ("--time", "99999999999999999d", &["9999"]),
        ("--priority", "high", &["high", "-1000"]),
        ("--priority", "99999", &["99999"]),
        ("--grace", "x", &["x"]),
        ("-J", "", &["empty"]),
        ("-e", "1BAD=x", &["1BAD"]),
        ("-e", "=x", &["--env"]),
        ("-e", "VH_GPUS=many", &["VH_GPUS"]),
        ("--kind", "game", &["game", "train, notebook, serve and data"]),
        ("--idle-after", "soon", &["soon"]),
        ("--idle-after", "-1", &["\"-1\" is not a positive length of time"]),
        ("--name", "a\tb", &["--name: \"a\\tb\": it contains", "try"]),
        ("--note", "a\x07", &["--note: \"a\\u{7}\": it contains", "try"]),
        ("--exits", "paus", &["pause"]),
    ] {
        submit(&[flag, value], said);
    }
}

#[test]
fn text_that_is_no_time_limit() {
    for text in [
        "",
        " ",
        "h",
        "1x",
        "1h 30",
        "1:60:00",
        "1:2:3:4",
        "-1",
        "-5m",
        "0",
        "0s",
        "1e3",
        "٣",
        "∞",
        "18446744073709551616",
        "99999999999999999999d",
        "nan",
        "inf",
        "1h30",
        "--time",
    ] {
        submit(&[&format!("--time={text}")], &["--time"]);
        refused(&["edit", "1", &format!("--time={text}")], &["time"]);
        refused(&["extend", "1", &format!("--to={text}")], &[]);
    }
}

#[test]
fn arrays_that_make_no_sense() {
    let place = Place::new();
    let ragged = place.file("ragged.csv", b"a,b\n1,2\n3\n");
    let empty = place.file("empty", b"");
    let long = place.file("long", ("x".repeat(1023) + "\n").repeat(17 << 10).as_bytes());
    for (flags, said) in [
        (&["--array", "9-0"][..], &["9-0", "smaller to a larger"][..]),
        (&["--array", "0-9:0"], &["step of at least 1"]),
        (&["--array", "0-99999999999999999999"], &["below 4294967295"]),
        (&["--array", "0-1000000"], &["1,000,000"]),
        (&["--array", "0-9%0"], &["at least 1 element", "0-99%8"]),
        (&["--array", "0-9%"], &["at least 1 element"]),
        (&["--array", ""], &["--array"]),
        (&["--array", "-1"], &["-1"]),
        (&["--array", "1,2,1"], &["each once"]),
        (&["--array", "0-9", "--max-parallel", "0"], &["max-parallel"]),
        (&["--param-file", &ragged], &["line 3", "1 values", "2 names"]),
        (&["--param-file", "none.csv"], &["none.csv"]),
        (&["--each-line", &empty], &["empty"]),
        (&["--each-line", &long], &["long has more than 15 MiB"]),
        (&["--param", "1a=1"], &["1a"]),
        (&["--param", "a"], &["--param"]),
    ] {
        submit(flags, said);
    }
}

#[test]
fn flags_that_contradict_each_other() {
    for (flags, said) in [
        (&["--retry-on", "fail"][..], &["--retry"][..]),
        (&["--backoff", "30s"], &["--retry"]),
        (&["--venv", "a", "--conda", "b"], &["--conda"]),
        (&["--checkpointable=USR9"], &["USR"]),
    ] {
        submit(flags, said);
    }
}

#[test]
fn shares_that_make_no_sense() {
    for (flags, said) in [
        (&["--gpus", "0.8:0.25"][..], &["0.25:0.8"][..]),
        (&["--gpus", "0.5:2"], &["0.5:1"]),
        (&["--gpus", "1@0.5:20G"], &["mixes"]),
        (&["--gpu-share", "20G"], &["--gpu-memory"]),
        (&["--gpu-share", "1.2"], &["0.999"]),
        (&["--gpu-memory", "20"], &["20G"]),
        (&["--gpu-memory", "0G"], &["0G"]),
        (&["--gpu-memory", "40G:20G"], &["20G:40G"]),
        (&["--gpus", "1", "--shared"], &["needs an amount", "--gpu-memory"]),
        (&["--gpus", "1g.10gb:0.5"], &["a fraction of a MIG instance", "a smaller profile"]),
        (&["--gpus", "1g.10gb|h100:1"], &["mixes GPUs and MIG instances"]),
    ] {
        submit(flags, said);
    }
}
