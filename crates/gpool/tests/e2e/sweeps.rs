//! Sweeps: many trials of one command, the best of them, and the driver that chooses trials.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use gpool_client::JobsQuery;

use crate::harness::{Cluster, kill_9, skip, until, until_so};
use crate::web::Browser;

/// Reports a loss that is best at x = 3, and fails for y = bad.
const TRIAL: &str = r#"
x=$1; y=$2
loss=$(awk "BEGIN { print ($x - 3) * ($x - 3) + 0.5 }")
echo "{\"gpool\": {\"metrics\": {\"loss\": $loss}, \"step\": 1}}"
[ "$y" != bad ]
"#;

fn script(cluster: &Cluster, name: &str, text: &str) -> String {
    let path = cluster.work().join(name);
    std::fs::write(&path, text).unwrap();
    path.display().to_string()
}

/// The JSON of `gpool sweep show`.
fn trials(cluster: &Cluster, name: &str) -> Vec<serde_json::Value> {
    let text = cluster.gpool(["sweep", "show", name, "--json"]).ok();
    let list: serde_json::Value = serde_json::from_str(&text).unwrap();
    list["items"].as_array().unwrap().clone()
}

fn until_all_ended(cluster: &Cluster, name: &str, n: usize) -> Vec<serde_json::Value> {
    until("all trials have ended", || {
        let trials = trials(cluster, name);
        let is_end = |it: &&serde_json::Value| {
            ["succeeded", "failed", "cancelled"].contains(&it["state"].as_str().unwrap())
        };
        (trials.len() == n && trials.iter().filter(is_end).count() == n).then_some(trials)
    })
}

#[test]
fn a_grid_shows_its_best_trial_and_runs_failed_ones_again() {
    let cluster = Cluster::new("sim:2xA100-40G");
    let script = script(&cluster, "trial.sh", TRIAL);
    let line = ["--name", "tune", "--metric", "loss:min", "--gpus", "0.5", "--parallel", "3"];
    let command = ["--param", "x=1..4", "--param", "y=good,bad", "--", "sh", &script, "{x}", "{y}"];
    let ran = cluster.gpool([&["sweep"][..], &line, &command].concat());
    assert!(ran.err.contains("sweep tune: 8 trials, grid"), "{}", ran.err);
    let id = ran.ok().trim().to_owned();
    assert_eq!(cluster.until_ended(&id).array.unwrap().max_parallel, Some(3));
    let all = until_all_ended(&cluster, "tune", 8);
    assert_eq!(all[0]["value"], 0.5, "{all:?}");
    let text = cluster.gpool(["sweep", "show", "tune"]).ok();
    assert!(text.contains("8 trials · 4 failed · 4 succeeded"), "{text}");
    // A failed trial is never the best.
    assert!(text.ends_with("best: trial 4, loss 0.5: x=3 y=good\n"), "{text}");
    let first = cluster.gpool(["sweep", "show", "tune", "-n", "1", "-o", "name"]).ok();
    assert_eq!(first.trim(), format!("{id}.4"));
    let browser = Browser::new(&cluster);
    let (code, page) = browser.get("/groups/tune");
    assert!(code == 200 && page.contains("trial 4</a>, loss 0.5"), "{code}: {page}");
    assert_eq!(browser.get("/groups/tuna").0, 404);
    assert_eq!(browser.get("/groups/a%2Fb").0, 404);
    assert_eq!(browser.get("/groups/tune?x=1").0, 400);
    cluster.gpool(["sweep", "--retry-failed", "tune"]).ok();
    let again = until("the failed ones have run again", || {
        let all = until_all_ended(&cluster, "tune", 8);
        let of_new = |it: &serde_json::Value| !it["job"].as_str().unwrap().starts_with(&id);
        (all.iter().filter(|it| of_new(it)).count() == 4).then_some(all)
    });
    assert!(again.iter().all(|it| it["value"].is_f64()), "{again:?}");
    let taken = ["sweep", "--name", "tune", "--param", "a=1,2", "--", "echo", "{a}"];
    cluster.gpool(taken).refused(2, &["there is a sweep tune already", "--name"]);
    cluster.gpool(["sweep", "show", "tuna"]).refused(6, &["there is no sweep tuna"]);
}

#[test]
fn random_trials_repeat_with_their_seed() {
    let cluster = Cluster::new("none");
    let words = |name: &'static str, seed: &'static str| {
        ["--name", name, "--seed", seed, "--param", "lr=1e-5..1e-1:log", "--trials", "6"]
    };
    for (name, seed) in [("a", "7"), ("b", "7"), ("c", "8")] {
        let words = words(name, seed);
        cluster.gpool([&["sweep"][..], &words, &["--", "echo", "{lr}"]].concat()).ok();
    }
    let values = |name: &str| -> Vec<String> {
        let mut trials = until_all_ended(&cluster, name, 6);
        trials.sort_by_key(|it| it["number"].as_u64());
        trials.iter().map(|it| it["parameters"][0][1].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(values("a"), values("b"));
    assert_ne!(values("a"), values("c"));
    // The command gets the value.
    assert_eq!(cluster.stdout_of("1.2").trim(), values("a")[2]);
    let dry = cluster.gpool([
        "sweep",
        "--dry-run",
        "--param",
        "a=1..3",
        "--trials",
        "2",
        "--",
        "echo",
        "{a}",
    ]);
    assert!(dry.err.contains("2 trials"), "{}", dry.err);
    dry.ok();
    let jobs =
        cluster.client().jobs(&JobsQuery { state: Some("all".into()), ..Default::default() });
    assert_eq!(jobs.unwrap().items.len(), 3);
}

#[test]
fn a_file_of_wandb_is_a_sweep() {
    let cluster = Cluster::new("none");
    let trial = "import sys; print({k: v for k, v in (it[2:].split('=') for it in sys.argv[1:])})";
    let program = script(&cluster, "train.py", trial);
    let file = script(
        &cluster,
        "sweep.yaml",
        &format!(
            "program: {program}\nproject: demo\nmethod: grid\nname: from-file\n\
             metric: {{name: loss, goal: minimize}}\nparameters:\n  lr: {{values: [0.1, 0.01]}}\n  \
             epochs: {{value: 3}}\n\
             command: ['${{env}}', python3, '${{program}}', '${{args}}']\n"
        ),
    );
    let ran = cluster.gpool(["sweep", &file, "--parallel", "1"]);
    assert!(ran.err.contains("gpool does not use project"), "{}", ran.err);
    let id = ran.ok().trim().to_owned();
    until_all_ended(&cluster, "from-file", 2);
    let out = cluster.stdout_of(&format!("{id}.1"));
    assert_eq!(out.trim(), "{'lr': '0.01', 'epochs': '3'}");
    // Flags override the file.
    cluster.gpool(["sweep", &file, "--name", "other", "--param", "lr=1,2,3"]).ok();
    until_all_ended(&cluster, "other", 3);
    let wrong = script(&cluster, "wrong.yaml", "method: grid\nparameters: {a: {value: [1]}}\n");
    cluster.gpool(["sweep", &wrong]).refused(2, &["wrong.yaml, line 2", "no value"]);
    cluster.gpool(["sweep", &program]).refused(2, &["train.py, line 1"]);
    cluster.gpool(["sweep", "missing.yaml"]).refused(2, &["missing.yaml", "-- ./train.sh"]);
}

#[test]
fn a_sweep_that_cannot_run_is_refused_with_the_way_out() {
    let cluster = Cluster::new("none");
    let refused = |words: &[&str], texts: &[&str]| {
        cluster.gpool([&["sweep"][..], words].concat()).refused(2, texts);
    };
    refused(&[], &["no command", "--param"]);
    refused(&["--", "true"], &["no parameters", "--param"]);
    refused(&["--param", "a=1,2", "--", "echo", "{b}"], &["{b}", "{a}"]);
    refused(&["--param", "a=0.0..1", "--", "echo"], &["number of trials", "--trials 50"]);
    refused(&["--param", "a=1..", "--trials", "3", "--", "echo"], &["--param a", "no number"]);
    refused(&["--param", "a=5..1", "--trials", "3", "--", "echo"], &["does not ascend"]);
    let grid = ["--method", "grid", "--param", "a=0.0..1", "--", "echo"];
    refused(&grid, &["no steps", "a=0..1:0.1"]);
    refused(&["--method", "anneal", "--param", "a=1,2", "--", "echo"], &["anneal", "bayes"]);
    let bayes = ["--method", "bayes", "--param", "a=1,2", "--trials", "3", "--", "echo"];
    refused(&bayes, &["needs a metric", "--metric loss:min"]);
    refused(&["--early-stop", "asha:0", "--param", "a=1", "--", "echo"], &["--early-stop"]);
    refused(&["--param", "a=1", "--group", "g", "--", "echo"], &["group of its own", "--name"]);
    refused(&["--param", "a=1", "--array", "0-3", "--", "echo"], &["array of its trials"]);
    refused(&["--param", "a=1", "--name", "a b", "--", "echo"], &["no name of a sweep"]);
    let python = ["--metric", "l:min", "--python", "/nonexistent/python"];
    let missing = [&bayes[..6], &python, &["--", "echo"]].concat();
    refused(&missing, &["Python with gpool and Optuna", "pip install", "--method random"]);
    cluster
        .gpool(["submit", "--metric", "loss:min", "--", "true"])
        .refused(2, &["only for arrays"]);
    cluster.gpool(["submit", "--metric", "loss", "--", "true"]).refused(2, &["NAME:min"]);
}

/// Where `cargo xtask test` installs Optuna.
const OPTUNA: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/optuna/bin/python");
const PYTHON: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../python");

fn optuna() -> Option<PathBuf> {
    let path = Path::new(OPTUNA);
    if path.exists() {
        return Some(path.to_owned());
    }
    assert!(std::env::var_os("CI").is_none(), "{OPTUNA} is missing");
    skip("Optuna is missing; cargo xtask test installs it");
    None
}

/// Puts Python with Optuna and the client first; returns whether it is installed.
pub fn find_optuna(command: &mut std::process::Command) -> bool {
    let Some(python) = optuna() else { return false };
    let path = std::env::var_os("PATH").unwrap_or_default();
    let first = python.parent().map(Path::to_owned);
    let all = first.into_iter().chain(std::env::split_paths(&path));
    command.env("PATH", std::env::join_paths(all).unwrap());
    command.env("PYTHONPATH", format!("{PYTHON}/src")).env("PYTHONDONTWRITEBYTECODE", "1");
    true
}

/// A command with the client in Python's path.
fn sweep(cluster: &Cluster, words: &[&str]) -> crate::harness::Ran {
    let mut command = cluster.command();
    command.env("PYTHONPATH", format!("{PYTHON}/src")).env("PYTHONDONTWRITEBYTECODE", "1");
    command.args([&["sweep", "--python", OPTUNA][..], words].concat());
    crate::harness::Running::start(&mut command, None).end()
}

#[test]
fn the_driver_passes_its_tests() {
    let Some(python) = optuna() else { return };
    let mut command = std::process::Command::new(python);
    command.args(["-W", "error", "-m", "unittest", "discover", "-s"]);
    command.arg(format!("{PYTHON}/tests/sweep")).env("PYTHONPATH", format!("{PYTHON}/src"));
    command.env("PYTHONDONTWRITEBYTECODE", "1");
    crate::harness::Running::start(&mut command, None).end().ok();
}

#[test]
fn a_driver_that_is_killed_again_and_again_repeats_no_trial() {
    if optuna().is_none() {
        return;
    }
    let mut cluster = Cluster::new("sim:2xA100-40G");
    let script = script(&cluster, "trial.sh", TRIAL);
    let space = ["--param", "x=0.0..6.0", "--param", "y=good,fine", "--metric", "loss:min"];
    let line = ["--method", "bayes", "--trials", "12", "--parallel", "3", "--gpus", "0.25"];
    let command = ["--name", "smart", "--seed", "1", "--", "sh", &script, "{x}", "{y}"];
    sweep(&cluster, &[&space[..], &line, &command].concat()).ok();
    // Its retries begin it again; the server dies once, too.
    for n_kills in 1..=4 {
        until_so("some trials more", || {
            let has_ended = cluster.job("1").state.is_end();
            has_ended || trials(&cluster, "smart").len() >= 2 * n_kills
        });
        if n_kills == 2 {
            cluster.kill();
            cluster.up();
        }
        if let Some(pid) = driver_pid(&cluster) {
            kill_9(pid);
        }
    }
    let all = until_all_ended(&cluster, "smart", 12);
    assert_eq!(cluster.until_ended("1").state.as_str(), "succeeded");
    let jobs = JobsQuery {
        group: Some("smart".to_owned()),
        state: Some("all".to_owned()),
        ..JobsQuery::default()
    };
    let client = cluster.client();
    let jobs = client.every_job(jobs).map(|job| job.unwrap().request.group.unwrap());
    let groups: Vec<String> = jobs.filter(|group| group.contains("/trial/")).collect();
    assert_eq!(groups.len(), 12, "a trial was repeated: {groups:?}");
    assert_eq!(groups.iter().collect::<BTreeSet<_>>().len(), 12);
    assert!(all.iter().all(|it| it["value"].is_f64()), "{all:?}");
    let text = cluster.gpool(["sweep", "show", "smart"]).ok();
    assert!(text.contains("driver: job 1 succeeded\nbest: trial "), "{text}");
    // The same name continues it.
    let more = ["--method", "bayes", "--trials", "14", "--parallel", "3", "--gpus", "0.25"];
    sweep(&cluster, &[&space[..], &more, &command].concat()).ok();
    until_all_ended(&cluster, "smart", 14);
}

/// The process of the driver, while it runs.
fn driver_pid(cluster: &Cluster) -> Option<u32> {
    let job = cluster.job("1");
    (job.state.as_str() == "running").then(|| cluster.gpool(["show", "1", "--json"]).ok())?;
    let mark = cluster.work().display().to_string();
    std::fs::read_dir("/proc").ok()?.flatten().find_map(|entry| {
        let pid: u32 = entry.file_name().to_str()?.parse().ok()?;
        let line = std::fs::read_to_string(entry.path().join("cmdline")).ok()?;
        let cwd = std::fs::read_link(entry.path().join("cwd")).ok()?;
        let is_driver = line.ends_with("-m\0gpool.sweep\0") && cwd.starts_with(&mark);
        is_driver.then_some(pid)
    })
}

#[test]
fn bad_trials_end_early() {
    if optuna().is_none() {
        return;
    }
    let cluster = Cluster::new("none");
    // A good trial ends at once; a bad one reports until it is cancelled.
    let text = r#"
for step in 1 2 3 4 5 6; do
    loss=$(awk "BEGIN { print $1 + 1 / $step }")
    echo "{\"gpool\": {\"metrics\": {\"loss\": $loss}, \"step\": $step}}"
    [ "$1" -lt 3 ] || sleep 3
done
"#;
    let script = script(&cluster, "steps.sh", text);
    let line = ["--param", "x=1,2,9", "--method", "grid", "--metric", "loss:min"];
    let rule = ["--early-stop", "asha:1:2", "--parallel", "1", "--name", "early"];
    sweep(&cluster, &[&line[..], &rule, &["--", "sh", &script, "{x}"]].concat()).ok();
    let all = until_all_ended(&cluster, "early", 3);
    let state = |x: &str| {
        let mut of_x = all.iter().filter(|it| it["parameters"][0][1] == x);
        of_x.next().unwrap()["state"].as_str().unwrap().to_owned()
    };
    let log = cluster.stdout_of("1");
    let states = (state("1"), state("9"));
    assert_eq!(states, ("succeeded".to_owned(), "cancelled".to_owned()), "{log}");
    assert!(log.contains("ended early at step"), "{log}");
}
