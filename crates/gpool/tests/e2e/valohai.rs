//! Steps of a valohai.yaml as jobs: the examples of Valohai's documents, and a step with
//! parameters, inputs, outputs and metrics.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::process::Command;

use crate::harness::{Cluster, Ran, Running, skip};
use crate::sweeps::find_optuna;

const DOCUMENTS: &str = "\
- step:
    name: quick-test
    image: tensorflow/tensorflow:latest-gpu
    command:
      - echo GPUs $VH_GPUS
    environment-variables:
      - name: VH_GPUS
        default: 1
- step:
    name: full-training
    image: pytorch/pytorch:2.0.0-cuda11.7-cudnn8-runtime
    command:
      - echo GPUs $VH_GPUS
    environment-variables:
      - name: VH_GPUS
        default: 4
";

const TRAIN: &str = "\
- step:
    name: train
    image: busybox
    command:
      - echo {parameters}
      - cat $VH_INPUTS_DIR/words/a.txt > $VH_OUTPUTS_DIR/copy.txt
      - 'echo ''{\"loss\": 0.25}'''
    inputs:
      - {name: words, default: 's3://bucket/words/*.txt'}
    parameters:
      - {name: epochs, type: integer, default: 2, max: 9}
      - {name: amp, type: flag}
";

/// A cluster and a project with this file.
pub fn project(file: &str) -> Cluster {
    let cluster = Cluster::new("sim:8xH100-80G");
    fs::create_dir_all(cluster.path("project")).unwrap();
    fs::write(cluster.path("project/valohai.yaml"), file).unwrap();
    cluster
}

pub fn vh(cluster: &Cluster, words: &[&str], exported: Option<&str>) -> Ran {
    let mut command = cluster.command();
    command.current_dir(cluster.path("project")).arg("vh").args(words);
    if let Some(value) = exported {
        command.env("VH_GPUS", value);
    }
    Running::start(&mut command, None).end()
}

#[test]
fn the_examples_of_valohais_documents_run() {
    let cluster = project(DOCUMENTS);
    let cases: [(&[&str], Option<&str>, &str); 6] = [
        (&["quick-test", "--adhoc", "VH_GPUS=1"], None, "1"),
        (&["full-training", "--adhoc", "VH_GPUS=4"], None, "4"),
        (&["full-training", "--adhoc"], None, "4"),
        (&["full-training", "--adhoc", "--var", "VH_GPUS=2"], None, "2"),
        (&["full-training", "--adhoc"], Some("3"), "3"),
        (&["full-training", "--adhoc", "-v", "VH_GPUS=2"], Some("3"), "2"),
    ];
    for (words, exported, gpus) in cases {
        let words = [&["exec", "run", "--no-image"][..], words].concat();
        let id = vh(&cluster, &words, exported).ok();
        let job = cluster.until_ended(id.trim());
        assert_eq!((job.state.as_str(), job.request.gpus_text()), ("succeeded", gpus), "{words:?}");
        assert_eq!(cluster.stdout_of(id.trim()), format!("GPUs {gpus}\n"));
    }
    let listed = vh(&cluster, &["exec", "list"], None).ok();
    assert!(listed.contains("quick-test") && listed.contains("6 executions"), "{listed}");
}

#[test]
fn a_step_has_parameters_inputs_outputs_and_metrics() {
    let cluster = project(TRAIN);
    fs::create_dir_all(cluster.path("data/words")).unwrap();
    fs::write(cluster.path("data/words/a.txt"), "hello").unwrap();
    let prefix = format!("s3://bucket={}", cluster.path("data").display());
    let run = ["exec", "run", "train", "--adhoc", "--no-image"];
    let with = |more: &[&str]| vh(&cluster, &[&run[..], more].concat(), None);
    let id = with(&["--epochs=7", "--amp", "--prefix", &prefix]).ok();
    let job = cluster.until_ended(id.trim());
    assert_eq!(job.state.as_str(), "succeeded", "{}", cluster.gpool(["logs", id.trim()]).ok());
    assert_eq!(cluster.stdout_of(id.trim()), "--epochs=7 --amp\n{\"loss\": 0.25}\n");
    let outputs = vh(&cluster, &["exec", "outputs", id.trim()], None).ok();
    assert_eq!(fs::read_to_string(outputs.trim()).unwrap(), "hello");
    let page = cluster.gpool(["show", id.trim()]).ok();
    assert!(page.contains("loss 0.25"), "{page}");
    with(&[]).refused(2, &["valohai.yaml, line 9", "s3://bucket/words/*.txt", "--prefix"]);
    with(&["--words=datum://latest"]).refused(2, &["datum://latest", "--words=/PATH"]);
    with(&["--epochs=10", "--prefix", &prefix]).refused(2, &["greater than the maximum 9"]);
    with(&["--steps=10"]).refused(2, &["no parameter or input \"steps\"", "it has epochs"]);
    with(&["VH_GPUS=many", "--prefix", &prefix]).refused(2, &["not a number of GPUs"]);
    vh(&cluster, &["exec", "run", "test", "--adhoc"], None).refused(2, &["no step \"test\""]);
    vh(&cluster, &["task", "run", "all", "--adhoc"], None).refused(2, &["no task \"all\""]);
    let lint = vh(&cluster, &["lint"], None).ok();
    assert!(lint.contains("valohai.yaml:3: approximated: step.image"), "{lint}");
}

const PIPELINE: &str = "\
- step:
    name: prepare
    image: busybox
    command:
      - echo $VH_PIPELINE_ID $VH_PIPELINE_NODE_ID {parameters}
      - echo {parameter-value:word} > $VH_OUTPUTS_DIR/set-1.txt
      - echo other > $VH_OUTPUTS_DIR/other.txt
      - 'echo ''{\"best\": 3, \"loss\": 0.5}'''
    parameters: [{name: word, default: hello}]
- step:
    name: train
    image: busybox
    command:
      - ls $VH_INPUTS_DIR/set
      - cat $VH_INPUTS_DIR/set/set-1.txt
      - echo {parameters}
      - cat $VH_CONFIG_DIR/parameters.json
    inputs: [{name: set}]
    parameters: [{name: epochs, type: integer}, {name: word, default: none}]
- step: {name: fails, image: busybox, command: 'exit 3'}
- pipeline:
    name: all
    parameters: [{name: word, default: hi, targets: [prepare.parameters.word]}]
    nodes:
      - {name: train, type: execution, step: train}
      - {name: prepare, type: execution, step: prepare}
    edges:
      - [prepare.output.set*, train.input.set]
      - [prepare.metadata.best, train.parameter.epochs]
      - [prepare.parameter.word, train.parameter.word]
- pipeline:
    name: broken
    nodes:
      - {name: first, type: execution, step: fails}
      - {name: next, type: execution, step: fails}
      - {name: goes-on, type: execution, step: fails, on-error: continue}
      - {name: last, type: execution, step: prepare}
    edges:
      - [first.dependency.a, next.dependency.a]
      - [goes-on.dependency.a, last.dependency.a]
- pipeline:
    name: tasks
    nodes: [{name: a, type: task, step: train}]
    edges: []
- step:
    name: count
    image: busybox
    command: cat $VH_INPUTS_DIR/texts/*
    inputs: [{name: texts}]
- task:
    name: words
    step: prepare
    parameters: [{name: word, style: multiple, rules: {items: [one, two]}}]
- pipeline:
    name: many
    nodes:
      - {name: words, type: task, task: words}
      - {name: count, type: execution, step: count}
    edges: [[words.output.set*, count.input.texts]]
";

#[test]
fn a_pipeline_passes_files_and_values_on() {
    let cluster = project(PIPELINE);
    let run = |words: &[&str]| {
        let run = ["pipeline", "run", "--no-image", "--adhoc"];
        vh(&cluster, &[&run[..], words].concat(), None)
    };
    assert_eq!(run(&["all", "--word=good day"]).ok(), "1 prepare\n2 train\n");
    let job = cluster.until_ended("2");
    assert_eq!(job.state.as_str(), "succeeded", "{}", cluster.gpool(["logs", "2"]).ok());
    assert_eq!(job.request.group.as_deref(), Some("all/train"));
    let output = cluster.stdout_of("1");
    assert!(output.starts_with("all prepare --word=good day\n"), "{output}");
    let output = cluster.stdout_of("2");
    let expected = "set-1.txt\ngood day\n--epochs=3 --word=good day\n";
    assert!(output.starts_with(expected), "{output}");
    assert!(output.contains("\"epochs\": 3"), "{output}");
    let lint = vh(&cluster, &["lint"], None);
    assert!(lint.out.contains("refused: pipeline.nodes.type"), "{lint:?}");
}

#[test]
fn a_task_in_a_pipeline_runs_each_execution_before_the_next_node() {
    let cluster = project(PIPELINE);
    let words = ["pipeline", "run", "many", "--no-image", "--adhoc"];
    assert_eq!(vh(&cluster, &words, None).ok(), "1 words/0\n2 words/1\n3 count\n");
    let job = cluster.until_ended("3");
    assert_eq!(job.state.as_str(), "succeeded", "{}", cluster.gpool(["logs", "3"]).out);
    let mut lines: Vec<String> = cluster.stdout_of("3").lines().map(str::to_owned).collect();
    lines.sort();
    assert_eq!(lines, ["one", "two"]);
    assert_eq!(cluster.job("2").request.group.as_deref(), Some("many/words/1"));
    assert_eq!(cluster.job("2").request.note.as_deref(), Some("word=two"));
}

/// A failure ends the nodes after it, unless the node says that they continue.
#[test]
fn a_failed_node_of_a_pipeline_ends_those_after_it() {
    let cluster = project(PIPELINE);
    let ids = vh(&cluster, &["pipeline", "run", "broken", "--no-image", "-a"], None).ok();
    let ids: Vec<(&str, &str)> = ids.lines().map(|line| line.split_once(' ').unwrap()).collect();
    let state = |name: &str| {
        let (id, _) = ids.iter().find(|(_, node)| *node == name).unwrap();
        cluster.until_ended(id).state.as_str().to_owned()
    };
    assert_eq!(["first", "next"].map(state), ["failed", "cancelled"]);
    assert_eq!(["goes-on", "last"].map(state), ["failed", "succeeded"]);
}

#[test]
fn a_pipeline_that_gpool_does_not_run_submits_nothing() {
    let cluster = project(PIPELINE);
    let refused = |words: &[&str], texts: &[&str]| {
        let run = ["pipeline", "run", "--no-image", "--adhoc"];
        vh(&cluster, &[&run[..], words].concat(), None).refused(2, texts);
    };
    refused(&["tasks"], &["valohai.yaml, line", "pipeline.nodes.type is refused"]);
    refused(&["all", "--speed=1"], &["no parameter of the pipeline \"speed\"", "it has word"]);
    refused(&["none"], &["has no pipeline \"none\"", "its pipelines are all, broken"]);
    refused(&["all", "--watch"], &["--watch does not apply"]);
    let words = ["pipeline", "run", "all", "--adhoc", "--no-image", "--dry-run"];
    let dry = vh(&cluster, &words, None).ok();
    assert_eq!(dry.matches("would start at once").count(), 2, "{dry}");
    assert!(cluster.all_ids().is_empty());
}

#[test]
fn a_step_on_the_host_has_a_private_valohai_and_mounts() {
    let probe = ["--user", "--map-current-user", "--mount", "true"];
    if !Command::new("unshare").args(probe).status().is_ok_and(|it| it.success()) {
        return skip("this machine allows no user namespaces");
    }
    let step = |name: &str, target: &str| {
        let command = format!("cat {target}/a.txt > /valohai/outputs/copy.txt");
        let mount = format!("{{source: DATA, destination: {target}, readonly: true}}");
        format!(
            "- step:\n    name: {name}\n    image: busybox\n    command: '{command}'\n    \
             mounts: [{mount}]\n"
        )
    };
    let cluster = project("");
    fs::create_dir_all(cluster.path("data")).unwrap();
    fs::write(cluster.path("data/a.txt"), "hello").unwrap();
    // A target in a new folder of the root, and one that would be new in a folder of the machine.
    let missing = cluster.path("missing").display().to_string();
    let file = step("new", "/mounts-of-a-step/data") + &step("missing", &missing);
    let data = cluster.path("data").display().to_string();
    fs::write(cluster.path("project/valohai.yaml"), file.replace("DATA", &data)).unwrap();
    let run = |name: &str| {
        let id = vh(&cluster, &["exec", "run", name, "--adhoc", "--no-image"], None).ok();
        (id.trim().to_owned(), cluster.until_ended(id.trim()))
    };
    let (id, job) = run("new");
    assert_eq!(job.state.as_str(), "succeeded", "{}", cluster.gpool(["logs", &id]).ok());
    let outputs = vh(&cluster, &["exec", "outputs", &id], None).ok();
    assert_eq!(fs::read_to_string(outputs.trim()).unwrap(), "hello");
    let (id, job) = run("missing");
    assert_eq!(job.state.as_str(), "failed");
    let said = cluster.gpool(["logs", &id]).ok();
    assert!(said.contains(&format!("{missing} does not exist")), "{said}");
    assert!(!cluster.path("missing").exists());
    for path in ["/valohai", "/mounts-of-a-step"] {
        assert!(!std::path::Path::new(path).exists(), "{path} of the machine");
    }
}

/// Answers requests on a port of this machine: `hello` for `/a.txt`, and 404 for other paths.
fn web() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let mut reader = BufReader::new(&stream);
            let mut request = String::new();
            while reader.read_line(&mut request).is_ok_and(|n| n > 2) {}
            let answer = match request.starts_with("GET /a.txt ") {
                true => "HTTP/1.0 200 OK\r\ncontent-length: 5\r\n\r\nhello",
                false => "HTTP/1.0 404 Not Found\r\ncontent-length: 0\r\n\r\n",
            };
            drop((&stream).write_all(answer.as_bytes()));
        }
    });
    port
}

#[test]
fn inputs_come_over_http() {
    if Command::new("curl").arg("--version").output().is_err() {
        return skip("curl is missing");
    }
    let file = "\
- step:
    name: read
    image: busybox
    command: cat $VH_INPUTS_DIR/words/*
    inputs: [{name: words}]
";
    let cluster = project(file);
    let port = web();
    let run = |path: &str| {
        let input = format!("--words=http://127.0.0.1:{port}/{path}");
        let words = ["exec", "run", "read", "--adhoc", "--no-image", &input];
        cluster.until_ended(vh(&cluster, &words, None).ok().trim())
    };
    let read = run("a.txt?version=1");
    assert_eq!(read.state.as_str(), "failed", "another path of the server");
    let said = cluster.gpool(["logs", &read.id]).ok();
    assert!(said.contains("404") && said.contains("can't be downloaded"), "{said}");
    let read = run("a.txt");
    assert_eq!(read.state.as_str(), "succeeded", "{}", cluster.gpool(["logs", &read.id]).ok());
    assert_eq!(cluster.stdout_of(&read.id), "hello");
}

const TASKS: &str = "\
- step:
    name: train
    image: busybox
    command: echo $VH_TASK_ID {parameters}
    parameters:
      - {name: lr, type: float}
      - {name: n, type: integer, default: 1}
- task:
    name: grid
    step: train
    parameters:
      - {name: lr, style: multiple, rules: {items: [0.1, 0.01]}}
      - {name: n, style: linear, rules: {start: 1, end: 2, step: 1}}
- task:
    name: bad
    step: train
    parameters: [{name: other, style: multiple, rules: {items: [1]}}]
- task:
    name: together
    step: train
    type: distributed
    parameters: []
- step:
    name: member
    image: busybox
    command:
      - python3 meet.py {parameters}
      - echo $VH_DIST_MEMBER_ID > $VH_OUTPUTS_DIR/rank.txt
    parameters: [{name: word, default: hello}]
- task:
    name: three
    step: member
    type: distributed
    execution-count: 3
    parameters: [{name: word, style: multiple, rules: {items: [good day]}}]
- step:
    name: curve
    image: busybox
    command:
      - python3 curve.py {parameter-value:the-x}
      - echo {parameters} > $VH_OUTPUTS_DIR/words.txt
    parameters: [{name: the-x, type: float}, {name: kind, default: none}]
- task:
    name: bayes
    step: curve
    type: bayesian_tpe
    execution-count: 8
    execution-batch-size: 4
    optimization-target-metric: acc
    optimization-target-value: 0.5
    parameters:
      - {name: the-x, style: random, rules: {min: 0, max: 1}}
      - {name: kind, style: multiple, rules: {items: [a b, c]}}
";

/// What a member of a distributed task finds, as valohai-utils reads it.
const MEET: &str = "\
import json, os, sys
with open(os.environ['VH_CONFIG_DIR'] + '/distributed.json') as file:
    found = json.load(file)
members = found['members']
ranks = [member['member_id'] for member in members]
addresses = [member['network']['local_ips'][0] for member in members]
own = found['self']['member_id'], found['config']['member_id'], os.environ['VH_DIST_MEMBER_INDEX']
print(found['config']['group_name'], ranks, len(addresses), found['config']['required_count'])
assert len(set(own)) == 1, own
assert len({member['identity'] for member in members}) == 3
try:
    import valohai
except ImportError:
    pass
else:
    assert valohai.distributed.rank == int(own[0]) and valohai.distributed.master().rank == 0
print(sys.argv[1:])
";

#[test]
fn the_executions_of_a_distributed_task_start_together_and_know_each_other() {
    let cluster = project(TASKS);
    fs::write(cluster.path("project/meet.py"), MEET).unwrap();
    let words = ["task", "run", "three", "--no-image", "--adhoc"];
    assert_eq!(vh(&cluster, &words, None).ok(), "1\n");
    let job = cluster.until_ended("1");
    assert_eq!(job.state.as_str(), "succeeded", "{}", cluster.gpool(["logs", "1"]).out);
    assert_eq!(job.request.group.as_deref(), Some("three"));
    let logs = cluster.gpool(["logs", "1"]).ok();
    assert_eq!(logs.matches("three ['0', '1', '2'] 3 3").count(), 3, "{logs}");
    assert_eq!(logs.matches("['--word=good day']").count(), 3, "{logs}");
    // Each has outputs of its own.
    let copies = cluster.path("copies").display().to_string();
    let listed = vh(&cluster, &["exec", "outputs", "1", "--download", &copies], None).ok();
    assert_eq!(listed.lines().count(), 3, "{listed}");
    for rank in ["0", "1", "2"] {
        let text = fs::read_to_string(cluster.path(&format!("copies/{rank}/rank.txt"))).unwrap();
        assert_eq!(text.trim(), rank);
    }
    let dry = vh(&cluster, &["task", "run", "three", "--no-image", "--adhoc", "--dry-run"], None);
    assert!(dry.ok().contains("would start at once"));
}

#[test]
fn a_bayesian_task_chooses_values_by_results() {
    let cluster = project(TASKS);
    let curve = "import json, sys\nprint(json.dumps({'acc': float(sys.argv[1]), 'n': 1}))\n";
    fs::write(cluster.path("project/curve.py"), curve).unwrap();
    let mut command = cluster.command();
    if !find_optuna(&mut command) {
        return;
    }
    command.current_dir(cluster.path("project"));
    command.args(["vh", "task", "run", "bayes", "--no-image", "--adhoc"]);
    let driver = Running::start(&mut command, None).end().ok();
    let driver = cluster.until_ended(driver.trim());
    assert_eq!(driver.state.as_str(), "succeeded", "{}", cluster.gpool(["logs", &driver.id]).out);
    let shown = cluster.gpool(["sweep", "show", "bayes"]).ok();
    assert!(shown.contains("8 trials · 8 succeeded"), "{shown}");
    let best = shown.lines().find(|line| line.starts_with("best: ")).expect("a best trial");
    assert!(best.contains("acc 0.") && best.contains("the_x=0."), "{shown}");
    // Each execution has its values, and outputs of its own.
    let outputs = vh(&cluster, &["exec", "outputs", "2.0"], None).ok();
    let words = fs::read_to_string(outputs.trim()).unwrap();
    assert!(words.starts_with("--the-x=0.") && words.contains("--kind="), "{words}");
}

#[test]
fn a_task_runs_each_of_its_executions() {
    let cluster = project(TASKS);
    let run = |words: &[&str]| {
        vh(&cluster, &[&["task", "run", "--no-image", "--adhoc"][..], words].concat(), None)
    };
    assert_eq!(run(&["grid"]).ok(), "1\n2\n3\n4\n");
    let outputs = ["1", "2", "3", "4"].map(|id| {
        let job = cluster.until_ended(id);
        assert_eq!(job.state.as_str(), "succeeded", "{}", cluster.gpool(["logs", id]).out);
        cluster.stdout_of(id)
    });
    let expected = ["0.1 --n=1", "0.1 --n=2", "0.01 --n=1", "0.01 --n=2"];
    assert_eq!(outputs, expected.map(|values| format!("grid --lr={values}\n")));
    let last = cluster.job("4").request;
    assert_eq!(last.group.as_deref(), Some("grid/execution/3"));
    assert_eq!(last.note.as_deref(), Some("lr=0.01 n=2"));
    // A value of the command line is that of all executions, and a dry run submits nothing.
    run(&["grid", "--n=7", "--dry-run"]).ok();
    assert_eq!(run(&["grid", "--n=7"]).ok(), "5\n6\n7\n8\n");
    cluster.until_ended("5");
    assert_eq!(cluster.stdout_of("5"), "grid --lr=0.1 --n=7\n");
    run(&["bad"]).refused(2, &["no parameter or input \"other\""]);
    run(&["together"]).refused(2, &["valohai.yaml, line", "needs an execution-count"]);
    run(&["bayes", "--the-x=1", "--kind=c"]).refused(2, &["every parameter of the task"]);
    run(&["none"]).refused(2, &["no task \"none\"", "grid, bad, together"]);
    run(&["grid", "--watch"]).refused(2, &["--watch"]);
    let lint = vh(&cluster, &["lint"], None).out;
    assert!(lint.contains("approximated: task.execution-batch-size"), "{lint}");
}
