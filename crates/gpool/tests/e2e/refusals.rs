//! Lines that the server refuses: each in one clear message, and nothing changes. What the command
//! line refuses by itself has its tables in `tests/it`.

use crate::harness::Cluster;
use crate::here::Here;

/// A cluster of two GPUs, and its user.
fn cluster() -> (Cluster, Here) {
    let cluster = Cluster::new("sim:2xH100-80G");
    let here = Here::of(cluster.socket().to_str().unwrap());
    (cluster, here)
}

#[test]
fn flags_of_jobs_that_can_not_be_are_refused() {
    let (cluster, here) = cluster();
    let many = (0..1001).map(|n| n.to_string()).collect::<Vec<_>>().join(",");
    let (first, second) = (format!("a={many}"), format!("b={many}"));
    let lines = cluster.work().join("lines");
    std::fs::write(&lines, "a\nb\n").unwrap();
    let lines = lines.to_str().unwrap();
    for (flags, code, said) in [
        (&["--max-fails", "3"][..], 2, &["array"][..]),
        (&["--max-fails", "2"], 2, &["it is only for arrays"]),
        (&["--max-parallel", "2"], 2, &["it is only for arrays"]),
        (&["--param", "a=1", "--param", "A=2"], 2, &["twice"]),
        (&["--param", &first, "--param", &second], 2, &["1000000"]),
        (&["--array", "0-9", "--param", "a=1,2"], 2, &["index 9"]),
        (&["--array", "0-3", "--each-line", lines], 2, &["index 3 has no value"]),
        (&["--begin", "now+2h", "--deadline", "now+1h"], 2, &["deadline", "before"]),
        (&["--time", "2h", "--deadline", "now+1h"], 2, &["deadline"]),
        (&["--signal-before", "90s"], 2, &["a signal before the end"]),
        (&["--time", "1m", "--signal-before", "2m"], 2, &["signal"]),
        (&["--exits", "pause"], 2, &["pause,requeue"]),
        (&["--exits", "requeue", "--no-requeue"], 2, &["--no-requeue"]),
        (&["--after", "ok:"], 2, &["--after"]),
        (&["--gpus", "0", "--gpu-memory", "20G"], 2, &["gpu_memory: gpus is 0"]),
        (&["--gpus", "0", "--gpu-share", "0.5"], 2, &["gpu_share: gpus is 0"]),
        (&["--gpus", "1@0.5", "--gpu-memory", "20G"], 2, &["already sets a fraction"]),
        (&["--gpus", "0.5", "--gpu-memory", "20G"], 2, &["already"]),
        (&["--gpu-share", "0.5", "--gpu-memory", "20G"], 2, &["one of them"]),
        (&["--gpu-memory", "500G"], 4, &["500 GiB of a GPU", "H100-80G"]),
        (&["--gpus", "3", "--gpu-share", "0.5"], 4, &["2"]),
        (&["--gpus", "81G.."], 4, &["80"]),
        // A word is a GPU model, and no device is of that model.
        (&["--gpus", "two"], 4, &["no GPU model \"two\"", "H100"]),
        (&["--gpus", "1000"], 4, &["2"]),
        (&["--project", "no-such-project"], 6, &["no-such-project"]),
        (&["--project", "defualt"], 6, &["there are: default", "did you mean \"default\"?"]),
    ] {
        here.refused(&[&["submit"], flags, &["--", "true"]].concat(), code, said);
    }
    let run = ["run", "--project", "no-such-project", "--", "true"];
    here.refused(&run, 6, &["no-such-project"]);
    let unknown = ["submit", "--param", "rate=1,2", "--", "echo", "{rat}"];
    here.refused(&unknown, 2, &["{rat}", "{rate}"]);
    assert!(cluster.all_ids().is_empty());
}

#[test]
fn one_bad_line_refuses_all_with_its_number() {
    let (cluster, here) = cluster();
    let good = "{\"command\":[\"true\"]}";
    let file = cluster.work().join("jobs.jsonl");
    let words = ["submit", "--from-jsonl", file.to_str().unwrap()];
    for (bad, code, said) in [
        ("{\"command\":[\"true\"]", 2, &["line 3"][..]),
        ("not json", 2, &["line 3"]),
        ("{\"comand\":[\"true\"]}", 2, &["line 3", "comand", "command"]),
        ("{\"command\":[]}", 2, &["line 3"]),
        ("{\"command\":[\"true\"],\"gpus\":\"-1\"}", 2, &["line 3", "-1"]),
        ("{\"command\":[\"true\"],\"gpus\":\"3\"}", 4, &["line 3", "no node has more than 2"]),
        ("{\"command\":[\"true\"],\"mem\":\"20\"}", 2, &["line 3", "20G"]),
        ("{\"command\":[\"true\"],\"after\":[\"99\"]}", 6, &["line 3", "99"]),
        ("{\"command\":[\"a\\u0000b\"]}", 2, &["line 3"]),
        ("[]", 2, &["line 3"]),
        ("[[\"true\"]]", 2, &["line 3", "it is an array", "an object"]),
    ] {
        std::fs::write(&file, format!("{good}\n{good}\n{bad}\n{good}\n")).unwrap();
        here.refused(&words, code, said);
    }
    // The lines of standard input have numbers, too.
    let lines = format!("{good}\n{good}\n[]\n");
    let ran = cluster.gpool_reading(["submit", "--from-jsonl", "-"], lines.as_bytes());
    ran.refused(2, &["line 3"]);
    assert!(cluster.all_ids().is_empty());
    // No job number was used up.
    assert_eq!(cluster.submit(["--", "true"]), "1");
}

#[test]
fn unknown_columns_formats_and_words_are_refused() {
    let (cluster, here) = cluster();
    for (line, said) in [
        ("sacctmgr list users format=shoes", &["shoes", "Account"][..]),
        ("sprio -S z", &["can't sort"]),
        ("gqueue -o xml", &["xml"]),
        ("gqueue -n x", &["--limit"]),
        ("gstats -o xml", &["xml"]),
    ] {
        here.shim_refused(line, 2, said);
    }
    assert!(cluster.all_ids().is_empty());
    // The sort keys of a list are the names of its columns.
    cluster.submit(["--hold", "--", "true"]);
    for (words, said) in [
        (&["queue", "--format", "id,nmae"][..], &["nmae", "name"]),
        (&["queue", "--sort", "prioriyt"], &["prioriyt", "priority"]),
        (&["signal", "TREM", "1"], &["TREM", "TERM"]),
    ] {
        here.refused(words, 2, said);
    }
    assert_eq!(cluster.all_ids(), ["1"]);
    assert_eq!(cluster.job("1").state.as_str(), "held");
}
