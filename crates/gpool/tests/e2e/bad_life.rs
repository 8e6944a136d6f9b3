//! Limits, dependencies, flags and lines that are invalid or too many: refused as a whole with a
//! remedy, or named.

use crate::harness::Cluster;

#[test]
fn a_time_limit_is_read_in_every_form_and_other_text_is_refused() {
    let cluster = Cluster::new("none");
    for (text, seconds) in [
        ("90s", 90.0),
        ("5m", 300.0),
        ("1h30m", 5400.0),
        ("2d", 172_800.0),
        ("90", 5400.0),
        ("2:30", 150.0),
        ("01:30:00", 5400.0),
        ("2-12", 216_000.0),
        ("2-12:30", 217_800.0),
        ("2-00:00:30", 172_830.0),
        ("1500ms", 1.5),
    ] {
        let id = cluster.submit(["--hold", "--time", text, "--", "true"]);
        assert_eq!(cluster.job(&id).time_limit, Some(seconds), "{text}");
        cluster.gpool(["extend", &id, "--to", "none"]).ok();
        cluster.gpool(["extend", &id, "--to", text]).ok();
        assert_eq!(cluster.job(&id).time_limit, Some(seconds), "{text}");
    }
    let n_before = cluster.all_ids().len();
    let id = cluster.submit(["--hold", "--time", "1h", "--", "true"]);
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
        let submitted = cluster.gpool(["submit", &format!("--time={text}"), "--", "true"]);
        submitted.refused(2, &["--time"]);
        let edited = cluster.gpool(["edit", &id, &format!("--time={text}")]);
        edited.refused(2, &["time"]);
        let extended = cluster.gpool(["extend", &id, &format!("--to={text}")]);
        extended.refused(2, &[]);
    }
    assert_eq!(cluster.all_ids().len(), n_before + 1);
    assert_eq!(cluster.job(&id).time_limit, Some(3600.0));
}

#[test]
fn a_million_dependencies_are_refused_and_a_thousand_are_not() {
    let cluster = Cluster::new("none");
    let many: Vec<String> =
        (0..1000).map(|_| "{\"command\":[\"true\"],\"hold\":true}".into()).collect();
    let ran = cluster.gpool_reading(["submit", "--from-jsonl", "-"], many.join("\n").as_bytes());
    ran.ok();
    let after = |n: usize| (1..=n).map(|id| id.to_string()).collect::<Vec<_>>().join(",");
    let id = cluster.submit(["--after", &after(1000), "--", "true"]);
    assert_eq!(cluster.job(&id).state.as_str(), "waiting");
    cluster
        .gpool(["submit", "--after", &after(1001), "--", "true"])
        .refused(7, &["a job may wait for at most 1000 other jobs", "GP0522"]);
    // Too long for a command line, so it comes as a line of a file, through the API.
    let ids: Vec<String> = (0..1_000_000).map(|n| format!("\"{}\"", n % 1000 + 1)).collect();
    let line = format!("{{\"command\":[\"true\"],\"after\":[{}]}}", ids.join(","));
    let ran = cluster.gpool_reading(["submit", "--from-jsonl", "-"], line.as_bytes());
    ran.refused(2, &["the maximum is 100000"]);
    let edited = cluster.gpool(["edit", &id, "--after", &after(1001)]);
    edited.refused(7, &["a job may wait for at most 1000 other jobs", "GP0522"]);
    assert_eq!(cluster.all_ids().len(), 1001);
}

#[test]
fn flags_that_contradict_each_other_are_refused() {
    let cluster = Cluster::new("sim:2xH100-80G");
    std::fs::write(cluster.work().join("lines"), "a\nb\n").unwrap();
    for (flags, words) in [
        (&["--begin", "now+2h", "--deadline", "now+1h"][..], &["deadline", "before"][..]),
        (&["--time", "2h", "--deadline", "now+1h"], &["deadline"]),
        (&["--array", "0-3", "--each-line", "lines"], &["index 3 has no value"]),
        (&["--gpus", "0", "--gpu-memory", "20G"], &["gpu_memory: gpus is 0"]),
        (&["--gpus", "0", "--gpu-share", "0.5"], &["gpu_share: gpus is 0"]),
        (&["--gpus", "1@0.5", "--gpu-memory", "20G"], &["already sets a fraction"]),
        (&["--max-parallel", "2"], &["it is only for arrays"]),
        (&["--max-fails", "2"], &["it is only for arrays"]),
        (&["--retry-on", "fail"], &["--retry"]),
        (&["--backoff", "30s"], &["--retry"]),
        (&["--signal-before", "90s"], &["a signal before the end"]),
        (&["--time", "1m", "--signal-before", "2m"], &["signal"]),
        (&["--venv", "a", "--conda", "b"], &["--conda"]),
    ] {
        let words_of = |verb| std::iter::once(verb).chain(flags.iter().copied());
        let ran = cluster.gpool(words_of("submit").chain(["--", "true"]));
        assert_eq!(ran.code, 2, "{flags:?}: {ran:?}");
        ran.refused(2, words);
    }
    assert!(cluster.all_ids().is_empty());
}

#[test]
fn directives_in_the_wrong_place_are_named() {
    let cluster = Cluster::new("sim:2xH100-80G");
    for (kind, line) in [
        ("gpool", "# GPOOL --gpus 2"),
        ("slurm", "#SBATCH --gres=gpu:2"),
        ("gflow", "# GFLOW --gpus 2"),
    ] {
        let name = format!("{kind}.sh");
        let text = format!("#!/bin/sh\necho hi\n{line}\n");
        std::fs::write(cluster.work().join(&name), text).unwrap();
        let ran = cluster.gpool(["submit", &name]);
        assert_eq!(ran.code, 0, "{ran:?}");
        assert!(ran.err.contains(&format!("{name}:3: ")), "{kind}: {ran:?}");
        assert_eq!(cluster.job(ran.out.trim()).gpus, "0", "{kind}");
        let strict = cluster.gpool(["submit", "--strict", &name]);
        strict.refused(2, &["is ignored", "without --strict"]);
    }
}

#[test]
fn an_array_with_a_line_of_a_file_for_each_of_100_000_elements_is_one_request() {
    let cluster = Cluster::new("none");
    let lines: String = (0..100_000).map(|n| format!("data/part-{n:08}.tar\n")).collect();
    assert!(lines.len() > 2 << 20);
    std::fs::write(cluster.work().join("lines"), lines).unwrap();
    let id = cluster.submit(["--hold", "--each-line", "lines", "--", "echo", "{item}"]);
    let array = cluster.job(&id).array.unwrap();
    assert_eq!(array.n_elements, 100_000);
    // A file that is larger than a request may be is refused before it is sent.
    let lines = "x".repeat(1023) + "\n";
    std::fs::write(cluster.work().join("long"), lines.repeat(17 << 10)).unwrap();
    let ran = cluster.gpool(["submit", "--hold", "--each-line", "long", "--", "true"]);
    ran.refused(2, &["long has more than 15 MiB"]);
}
