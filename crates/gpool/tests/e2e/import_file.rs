//! Files of other tools as jobs.

use std::fs;
use std::process::Command;

use serde_json::Value;

use crate::harness::{Cluster, Ran, Running};

/// The page for users.
const PAGE: &str = include_str!("../../../../docs/using/import.md");

const PIPELINE: &str = "\
name: nightly
---
name: prepare
envs: {WORD: hello}
run: |
  echo $WORD > word.txt
---
name: train
resources: {accelerators: \"H100:2\", cpus: 1+}
run: |
  echo $(cat word.txt) $SKYPILOT_NODE_RANK $SKYPILOT_NUM_NODES $SKYPILOT_NUM_GPUS_PER_NODE
  echo $SKYPILOT_NODE_IPS $SKYPILOT_TASK_ID
";

const DSTACK: &str = "\
type: task
name: two
nodes: 2
env: [A=b c]
commands:
  - test \"$A\" = 'b c'
  - echo $DSTACK_NODE_RANK $DSTACK_NODES_NUM $DSTACK_GPUS_PER_NODE $DSTACK_GPUS_NUM
  - test -n \"$DSTACK_MASTER_NODE_IP\"
  - \"false\"
  - echo not reached
resources: {gpu: 2}
";

fn import(cluster: &Cluster, text: &str, words: &[&str]) -> Ran {
    fs::write(cluster.work().join("file.yaml"), text).unwrap();
    cluster.gpool([&["import", "file.yaml"], words].concat())
}

#[test]
fn a_pipeline_of_skypilot_runs_in_order_with_its_variables() {
    let cluster = Cluster::new("sim:8xH100-80G");
    let ran = import(&cluster, PIPELINE, &[]);
    assert!(ran.err.contains("resources.cpus approximated: 1, the least of 1+"), "{}", ran.err);
    let ids: Vec<String> = ran.ok().lines().map(str::to_owned).collect();
    assert_eq!(ids, ["1", "2"]);
    let job = cluster.until_ended("2");
    assert_eq!(job.state.as_str(), "succeeded", "{}", cluster.gpool(["logs", "2"]).ok());
    let node = &job.placement[0].node;
    assert_eq!(cluster.stdout_of("2"), format!("hello 0 1 2\n{node} gpool-2\n"));
    assert_eq!(job.request.gpus_text(), "h100:2");
    assert_eq!(job.request.group.as_deref(), Some("nightly"));
}

#[test]
fn a_task_of_dstack_runs_on_two_nodes_and_stops_at_a_failure() {
    let mut cluster = Cluster::unstarted(&[]);
    let nodes = cluster.path("nodes.toml");
    let clients = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/clients/nodes.toml");
    fs::copy(clients, &nodes).unwrap();
    cluster.set_flags(&["--devices", nodes.to_str().unwrap()]);
    cluster.up();
    assert_eq!(import(&cluster, DSTACK, &["--quiet"]).ok(), "1\n");
    let job = cluster.until_ended("1");
    assert_eq!(job.state.as_str(), "failed");
    let log = cluster.gpool(["logs", "1"]).ok();
    assert!(log.contains("0 2 2 4") || log.contains("1 2 2 4"), "{log}");
    assert!(!log.contains("not reached"), "{log}");
}

/// The printed commands, run by a shell, submit the same requests as the import.
#[test]
fn the_printed_commands_submit_the_same_jobs() {
    let cluster = Cluster::new("sim:8xH100-80G");
    let folder = std::path::Path::new(env!("CARGO_BIN_EXE_gpool")).parent().unwrap();
    let request = |id: &str| {
        let shown: Value =
            serde_json::from_str(&cluster.gpool(["show", id, "--json"]).ok()).unwrap();
        let mut request = shown["items"][0]["request"].clone();
        request["after"].take();
        request
    };
    for text in [PIPELINE, DSTACK] {
        let text = text.replace("nodes: 2", "nodes: 1");
        let before = cluster.all_ids().len();
        let script = import(&cluster, &text, &["--dry-run"]).ok();
        assert_eq!(cluster.all_ids().len(), before);
        let ids = import(&cluster, &text, &["--quiet"]).ok();
        let ours = cluster.command();
        let mut command = Command::new("sh");
        command.env_clear().current_dir(cluster.work());
        command.envs(ours.get_envs().filter_map(|(name, value)| Some((name, value?))));
        command.env("PATH", format!("{}:/usr/bin:/bin", folder.display()));
        Running::start(command.args(["-c", &script]), None).end().ok();
        let n = ids.lines().count();
        assert_eq!(cluster.all_ids().len(), before + 2 * n);
        for ix in 0..n {
            let id = |number: usize| request(&number.to_string());
            let (imported, printed) = (id(before + ix + 1), id(before + n + ix + 1));
            assert!(imported["command"].is_array(), "{imported}");
            assert_eq!(imported, printed);
        }
    }
}

#[test]
fn files_that_are_no_imports_are_refused_with_their_line() {
    let cluster = Cluster::unstarted(&[]);
    let cases: [(&str, i32, &[&str]); 5] = [
        ("", 2, &["file.yaml, line 1: the file is empty"]),
        ("type: task\ncommands: {}\n", 2, &["file.yaml, line 2: commands needs a text"]),
        ("run: a\nresources: {accelerators: 'H100:x'}\n", 2, &["line 2", "a number of GPUs"]),
        ("run: a\nnum_nodes: 2000000\n", 2, &["begins in file.yaml, line 1"]),
        ("type: task\ncommands: [a]\nname: \"a\\nb\"\n", 2, &["begins in file.yaml"]),
    ];
    for (text, code, words) in cases {
        import(&cluster, text, &["--dry-run"]).refused(code, words);
    }
    fs::write(cluster.work().join("file.yaml"), [0xff, 0xfe]).unwrap();
    cluster.gpool(["import", "file.yaml"]).refused(2, &["it is not UTF-8"]);
    cluster.gpool(["import", "missing.yaml"]).refused(2, &["can't read missing.yaml"]);
    cluster.gpool(["import"]).refused(2, &["FILE"]);
}

/// Follows the page: writes its file, and compares the output of its command.
#[test]
fn the_page_shows_the_output() {
    let cluster = Cluster::unstarted(&[]);
    let (_, rest) = PAGE.split_once("```yaml\n").unwrap();
    let (file, rest) = rest.split_once("```\n").unwrap();
    let name = file.lines().next().unwrap().trim_start_matches("# ");
    fs::write(cluster.work().join(name), file).unwrap();
    let (_, rest) = rest.split_once("```\n$ gpool ").unwrap();
    let (session, _) = rest.split_once("```\n").unwrap();
    let (command, expected) = session.split_once('\n').unwrap();
    let words: Vec<&str> = command.split(' ').collect();
    assert_eq!(cluster.gpool(words).ok(), expected);
    let json: Value =
        serde_json::from_str(&cluster.gpool(["import", name, "--dry-run", "--json"]).ok()).unwrap();
    assert_eq!(json["jobs"][0]["name"], "train");
    assert_eq!(json["notes"][2]["fate"], "not taken");
}
