//! Every example of gflow's documentation, run as it is written there by the links to gpool. The
//! table beside this says whether it runs or is refused, and what its output has;
//! `docs/using/compat.md` is written from the same table.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::process::Signal;

use crate::harness::{Cluster, Running};

struct Example {
    line: String,
    becomes: String,
    shown: String,
}

fn examples(is_wanted: impl Fn(&str) -> bool) -> Vec<Example> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/examples/gflow.tsv");
    let text = std::fs::read_to_string(path).unwrap();
    let mut all = Vec::new();
    for line in text.lines().filter(|line| !line.starts_with('#') && is_wanted(line)) {
        let mut cells = line.split('\t').map(str::to_owned);
        let mut cell = || cells.next().unwrap_or_default();
        all.push(Example { line: cell(), becomes: cell(), shown: cell() });
    }
    assert!(all.len() > 10, "the table has them");
    all
}

/// Installs the shims, and programs that print their arguments.
fn installed(cluster: &Cluster) -> PathBuf {
    let folder = cluster.path("bin");
    cluster.gpool(["install-shims", "--gflow", folder.to_str().unwrap()]).ok();
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_gpool"), folder.join("gpool")).unwrap();
    std::fs::create_dir_all(cluster.path("conda/envs/myenv/conda-meta")).unwrap();
    std::fs::create_dir_all(cluster.path("conda/bin")).unwrap();
    for path in [folder.join("python"), cluster.path("conda/bin/conda")] {
        std::fs::write(&path, "#!/bin/sh\necho \"python $*\"\n").unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
    }
    folder
}

fn start(cluster: &Cluster, bin: &Path, line: &str) -> Running {
    let mut command = Command::new("bash");
    let of = cluster.command();
    command.env_clear().current_dir(cluster.work());
    command.envs(of.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command.env("GPOOL_CONFIG", cluster.path("gpool.toml"));
    command.env("CONDA_EXE", cluster.path("conda/bin/conda"));
    command.env("PATH", format!("{}:/usr/bin:/bin", bin.display())).args(["-c", line]);
    Running::start(&mut command, None)
}

/// Jobs in the states that the examples need; jobs that an example changes are made anew for it.
struct Jobs<'c> {
    cluster: &'c Cluster,
    kept: BTreeMap<&'static str, String>,
}

impl<'c> Jobs<'c> {
    fn new(cluster: &'c Cluster) -> Self {
        let done = cluster.sh(&[], "echo python");
        let failed = cluster.sh(&["--hold"], "exit 1");
        // It never runs, since the job before it fails.
        let after = cluster.submit(["--after", &failed, "--", "true"]);
        cluster.gpool(["release", &failed]).ok();
        for id in [&done, &failed, &after] {
            cluster.until_ended(id);
        }
        let array = cluster.submit(["--array", "1-3", "--hold", "--", "true"]);
        let user = Command::new("id").arg("-un").output().unwrap().stdout;
        let user = String::from_utf8(user).unwrap().trim().to_owned();
        let kept = [("<done>", done), ("<failed>", failed), ("<array>", array), ("<me>", user)];
        Self { cluster, kept: kept.into_iter().collect() }
    }

    fn put_into(&self, line: &str) -> String {
        let mut line = line.to_owned();
        for (word, id) in &self.kept {
            line = line.replace(word, id);
        }
        let fresh = [("<waiting>", "--begin=now+9h"), ("<held>", "--hold")];
        for (word, flag) in fresh {
            while line.contains(word) {
                line = line.replacen(word, &self.cluster.submit([flag, "--", "true"]), 1);
            }
        }
        line
    }
}

/// How an example's result differs from the table, if it does.
fn differs(cluster: &Cluster, bin: &Path, example: &Example, line: &str) -> Option<String> {
    let running = start(cluster, bin, line);
    if example.becomes == "runs until Ctrl-C" {
        running.until_says(&example.shown);
        running.signal(Signal::INT);
        running.end();
        return None;
    }
    let ran = running.end();
    let all = format!("{}{}", ran.out, ran.err);
    let is_so = match example.becomes.as_str() {
        "runs" => ran.code == 0,
        "refused" => ran.code != 0 && ran.err.contains("error:"),
        _ => false,
    };
    let is_so = is_so && all.contains(&example.shown);
    (!is_so).then(|| format!("{line} {} {:?}: {} {all}", example.becomes, example.shown, ran.code))
}

#[test]
fn examples_of_gflows_documentation_run_or_are_refused_by_name() {
    let cluster = Cluster::new("sim:8xH100-80G");
    let bin = installed(&cluster);
    let script = "#!/bin/bash\n# GFLOW --gpus=1\n# GFLOW --time=2:00:00\npython train.py\n";
    std::fs::write(cluster.work().join("train.sh"), script).unwrap();
    std::fs::write(cluster.work().join("params.csv"), "id\n1\n2\n").unwrap();
    std::fs::write(cluster.path("gpool.toml"), "").unwrap();
    let jobs = Jobs::new(&cluster);
    let differ: Vec<String> = examples(|line| !line.starts_with("gflowd"))
        .iter()
        .filter_map(|example| {
            let line = jobs.put_into(&example.line);
            differs(&cluster, &bin, example, &line)
        })
        .collect();
    assert!(differ.is_empty(), "{}", differ.join("\n"));
}

/// Ends the server that an example has started.
struct Stops<'c>(&'c Cluster);

impl Drop for Stops<'_> {
    fn drop(&mut self) {
        drop(self.0.gpool(["down", "--now"]));
    }
}

#[test]
fn gflowd_starts_and_stops_the_server() {
    let cluster = Cluster::unstarted(&[]);
    let bin = installed(&cluster);
    let _stops = Stops(&cluster);
    for example in examples(|line| line.starts_with("gflowd")) {
        assert_eq!(differs(&cluster, &bin, &example, &example.line), None);
        if example.line == "gflowd init --yes" {
            let path = cluster.path("gpool.toml");
            let text = std::fs::read_to_string(&path).unwrap();
            std::fs::write(&path, format!("devices = \"sim:4xH100-80G\"\n{text}")).unwrap();
        }
    }
}

#[test]
fn a_redo_applies_changes_before_the_start_and_includes_dependents() {
    let cluster = Cluster::new("sim:4xH100-80G");
    let bin = installed(&cluster);
    let first = cluster.sh(&["--hold"], "exit 1");
    let second = cluster.submit(["--after", &first, "--", "true"]);
    let third = cluster.submit(["--after", &second, "--", "true"]);
    cluster.gpool(["release", &first]).ok();
    for id in [&first, &second, &third] {
        cluster.until_ended(id);
    }
    let line = format!("gjob redo {first} --time 10 --gpus 1 --cascade");
    let out = start(&cluster, &bin, &line).end().ok();
    assert_eq!(out.lines().count(), 3, "{out}");
    let job = cluster.until_ended("4");
    assert_eq!(
        (job.request.gpus_text(), job.request.time_seconds(), job.state.as_str()),
        ("1", Some(600.0), "failed")
    );
    for (id, waited) in [("5", "4"), ("6", "5")] {
        let job = cluster.until_ended(id);
        assert_eq!(job.request.after, [format!("ok:{waited}")]);
        assert_eq!(job.run.cause.as_deref(), Some("dependency_failed"));
    }
    // A refused change leaves no new job behind.
    let ran = start(&cluster, &bin, &format!("gjob redo {first} --gpus 64")).end();
    assert_ne!(ran.code, 0, "{ran:?}");
    assert_eq!(cluster.until_ended("7").state.as_str(), "cancelled");
}

#[test]
fn elements_are_rows_of_gqueue_with_names_of_their_own() {
    let cluster = Cluster::new("sim:2xH100-80G");
    let bin = installed(&cluster);
    let run = |line: &str| start(&cluster, &bin, line).end().ok();
    let words = "sh -c 'echo $GPOOL_JOB_NAME $GFLOW_JOB_ID; test {id} != 2 || exec sleep 1000'";
    run(&format!("gbatch --param id=1:3 --name-template 'run_{{id}}' --gpus 1 {words}"));
    for (id, state) in [("1.0", "succeeded"), ("1.1", "running"), ("1.2", "succeeded")] {
        cluster.until_is(id, state);
    }
    assert_eq!(cluster.stdout_of("1.2"), "run_3 1073742850\n");
    let rows = |line: &str| -> Vec<String> {
        let words = |row: &str| row.split_whitespace().collect::<Vec<_>>().join(" ");
        run(line).lines().skip(1).map(words).collect()
    };
    assert_eq!(
        rows("gqueue -a -f 'JOBID,NAME,ST'"),
        ["1.0 run_1 CD", "1.1 run_2 R", "1.2 run_3 CD"]
    );
    assert_eq!(rows("gqueue -f 'JOBID,NODES'"), ["1.1 1"]);
    assert_eq!(rows("gqueue -a -N run_3 -f JOBID"), ["1.2"]);
    run("gcancel $(gqueue -s Running -f JOBID | tail -n +2)");
    assert_eq!(cluster.until_ended("1.1").state.as_str(), "cancelled");
}
