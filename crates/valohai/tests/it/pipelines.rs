//! Pipelines as executions with the values of their edges.

use gpool_valohai::Document;
use gpool_valohai::pipeline::{Need, PipelineExecution, executions};
use gpool_valohai::yaml::{Value, scalar};

const STEPS: &str = "\
- step:
    name: unused
    image: a
    command: a
    parameters: &more [{name: size, default: 20}]
- step:
    name: prepare
    image: a
    command: prepare
    inputs: [{name: raw, default: /data/raw}]
    parameters: [{name: size, type: integer, default: 10}]
- step:
    name: train
    image: a
    command: train {parameters}
    inputs: [{name: set, default: /data/set}, {name: raw, optional: true}]
    parameters:
      - {name: size, type: integer, default: 1}
      - {name: rate, type: float, default: 0.1}
      - {name: fast, type: flag}
- step: {name: report, image: a, command: report, inputs: [{name: models}]}
";

const NODES: &str = "\
- pipeline:
    name: all
    parameters: [{name: rate, default: 0.5, targets: [train.parameters.rate]}]
    nodes:
      - {name: report, type: execution, step: report}
      - {name: train, type: execution, step: train, on-error: continue}
      - {name: prepare, type: execution, step: prepare, override: {parameters: *more}}
    edges:
";

fn document(edges: &[&str], change: (&str, &str)) -> Document {
    let edges: String = edges.iter().map(|edge| format!("      - [{edge}]\n")).collect();
    Document::read(&format!("{STEPS}{}{edges}", NODES.replace(change.0, change.1)))
}

fn run(
    edges: &[&str],
    change: (&str, &str),
    given: &[(String, Vec<String>)],
) -> Result<Vec<PipelineExecution>, String> {
    let document = document(edges, change);
    assert!(document.can_run(), "{:?}", document.findings);
    let outputs = |ix: usize| format!("/of/{ix}");
    let config = &document.config;
    executions(config, &config.pipelines[0], given, 1, &outputs).map_err(|it| it.to_string())
}

fn value(execution: &PipelineExecution, name: &str) -> String {
    let mut all = execution.step.parameters.iter();
    let found = all.find(|it| it.name == name).unwrap().default.clone();
    scalar::text(&found.unwrap_or(Value::Null))
}

fn sources<'e>(execution: &'e PipelineExecution, name: &str) -> &'e [String] {
    &execution.step.inputs.iter().find(|it| it.name == name).unwrap().sources
}

const EDGES: &[&str] = &[
    "prepare.output.set*, train.input.set",
    "prepare.input.raw, train.input.raw",
    "prepare.parameter.size, train.parameter.size",
    "train.output.*, report.input.models",
];

#[test]
fn edges_give_nodes_an_order_files_and_values() {
    let all = run(EDGES, ("", ""), &[]).unwrap();
    let names: Vec<&str> = all.iter().map(|it| it.node.as_str()).collect();
    assert_eq!(names, ["prepare", "train", "report"]);
    assert_eq!(all[1].needs, [Need { execution_ix: 0, may_fail: false }]);
    assert_eq!(all[2].needs, [Need { execution_ix: 1, may_fail: true }]);
    assert_eq!(sources(&all[1], "set"), ["/of/0/set*"]);
    assert_eq!(sources(&all[1], "raw"), ["/data/raw"]);
    assert_eq!(sources(&all[2], "models"), ["/of/1/*"]);
    assert_eq!(value(&all[1], "size"), "20");
    assert_eq!(value(&all[1], "rate"), "0.5");
    assert_eq!(all[1].late_inputs, ["set"]);
}

#[test]
fn inputs_are_appended_if_the_node_says_so() {
    let change = ("step: train, ", "step: train, edge-merge-mode: append, ");
    let all = run(EDGES, change, &[]).unwrap();
    assert_eq!(sources(&all[1], "set"), ["/data/set", "/of/0/set*"]);
    let two = ["prepare.output.a, train.input.set", "prepare.output.b, train.input.set"];
    let all = run(&two, ("", ""), &[]).unwrap();
    let train = all.iter().find(|it| it.node == "train").unwrap();
    assert_eq!(sources(train, "set"), ["/of/1/a", "/of/1/b"]);
}

#[test]
fn metadata_are_late_and_parameters_of_the_pipeline_can_be_given() {
    let edges = ["prepare.metadata.loss, train.parameter.rate"];
    let given = [("rate".to_owned(), vec!["0.25".to_owned()])];
    let all = run(&edges, ("", ""), &given).unwrap();
    let train = all.iter().find(|it| it.node == "train").unwrap();
    assert_eq!((train.late[0].parameter.as_str(), train.late[0].key.as_str()), ("rate", "loss"));
    let all = run(EDGES, ("", ""), &given).unwrap();
    assert_eq!(value(&all[1], "rate"), "0.25");
}

#[test]
fn parts_that_gpool_does_not_run_are_refused_with_their_line() {
    let line = STEPS.lines().count();
    let edge_line = line + NODES.lines().count() + 1;
    let cases = [
        (
            "step: train, on-error",
            "step: train, commit: abc, on-error",
            "line 27: pipeline.nodes.commit",
        ),
        (
            "step: train,",
            "step: train, actions: [{when: [node-error], then: [noop]}],",
            "line 27: pipeline.nodes.actions",
        ),
        ("type: execution, step: train", "type: task, step: train", "line 27: pipeline.nodes.type"),
    ];
    for (from, to, words) in cases {
        let refusal = run(EDGES, (from, to), &[]).unwrap_err();
        assert!(refusal.contains(words), "{to}: {refusal}");
        let marks = document(EDGES, (from, to)).keys;
        assert!(marks.iter().any(|it| it.mark.word() == "refused" && it.line == 27), "{to}");
    }
    let cases = [
        ("prepare.metadata.a, train.input.set", "pipeline.edges is refused"),
        ("prepare.output.a, train.environment-variable.B", "pipeline.edges is refused"),
        ("prepare.output.../x, train.input.set", "pipeline.edges is refused"),
        ("prepare.output.a, train.input.sets", "there is no input \"sets\""),
        ("prepare.input.none, train.input.set", "there is no input \"none\""),
        ("prepare.parameter.size, train.parameter.none", "there is no parameter \"none\""),
        ("prepare.metadata.a, train.parameter.fast", "is a flag"),
    ];
    for (edge, words) in cases {
        let refusal = run(&[edge], ("", ""), &[]).unwrap_err();
        let place = format!("line {edge_line}: ");
        assert!(refusal.starts_with(&place) && refusal.contains(words), "{edge}: {refusal}");
    }
    let circle = ["prepare.output.a, train.input.set", "train.output.a, prepare.input.raw"];
    let refusal = run(&circle, ("", ""), &[]).unwrap_err();
    assert!(refusal.contains("nodes wait for each other: train, prepare"), "{refusal}");
    let given = [("speed".to_owned(), vec!["1".to_owned()])];
    assert!(run(EDGES, ("", ""), &given).unwrap_err().contains("it has rate"));
    let given = [("rate".to_owned(), vec!["fast".to_owned()])];
    assert!(run(EDGES, ("", ""), &given).unwrap_err().contains("rate: "));
}

const TASK: &str = "\
- task:
    name: grid
    step: train
    parameters:
      - {name: size, style: multiple, rules: {items: [1, 2]}}
      - {name: rate, style: multiple, rules: {items: [0.5]}}
- task: {name: together, step: train, type: distributed, execution-count: 2, parameters: []}
- pipeline:
    name: tasks
    parameters: [{name: size, default: 5, targets: [fit.parameters.size]}]
    nodes:
      - {name: prepare, type: execution, step: prepare}
      - {name: fit, type: task, task: grid, on-error: retry}
      - {name: report, type: execution, step: report}
    edges:
";

#[test]
fn a_task_in_a_pipeline_has_executions_that_pass_all_their_outputs_on() {
    let run = |edges: &[&str], change: (&str, &str)| {
        let edges: String = edges.iter().map(|edge| format!("      - [{edge}]\n")).collect();
        let document =
            Document::read(&format!("{STEPS}{}{edges}", TASK.replace(change.0, change.1)));
        assert!(document.can_run(), "{:?}", document.findings);
        let outputs = |ix: usize| format!("/of/{ix}");
        let config = &document.config;
        executions(config, &config.pipelines[0], &[], 1, &outputs).map_err(|it| it.to_string())
    };
    let edges = ["prepare.output.set*, fit.input.set", "fit.output.m, report.input.models"];
    let change =
        ("    parameters: [{name: size, default: 5, targets: [fit.parameters.size]}]\n", "");
    let all = run(&edges, change).unwrap();
    let names: Vec<_> = all.iter().map(|it| (it.node.as_str(), it.number)).collect();
    assert_eq!(names, [("prepare", None), ("fit", Some(0)), ("fit", Some(1)), ("report", None)]);
    assert_eq!((value(&all[1], "size"), value(&all[2], "size")), ("1".into(), "2".into()));
    assert!(all[1].is_retried && all[2].is_retried && !all[3].is_retried);
    for member in &all[1..3] {
        assert_eq!(sources(member, "set"), ["/of/0/set*"]);
    }
    assert_eq!(sources(&all[3], "models"), ["/of/1/m", "/of/2/m"]);
    let needs: Vec<usize> = all[3].needs.iter().map(|need| need.execution_ix).collect();
    assert_eq!(needs, [1, 2]);
    // One value for what a task varies, or one of several results, is refused.
    let refused = |edges: &[&str], change: (&str, &str), words: &str| {
        let why = run(edges, change).unwrap_err();
        assert!(why.contains(words), "{why}");
    };
    refused(&edges, ("", ""), "the task of node \"fit\" has the values of \"size\"");
    refused(&["prepare.parameter.size, fit.parameter.size"], change, "has the values of \"size\"");
    refused(&edges, ("task: grid,", "task: together,"), "pipeline.nodes.type is refused");
}

#[test]
fn keys_of_pipelines_without_full_effect_are_listed() {
    let text = "\
- step: {name: s, image: i, command: c}
- pipeline:
    name: p
    reuse-executions: true
    nodes:
      - {name: a, type: execution, step: s, on-error: stop-all}
      - name: b
        type: execution
        step: s
        override: {environment: large, runtime-config-preset: x}
    edges:
      - {source: a.dependency.x, target: b.dependency.x, configuration: {}}
";
    let keys = Document::read(text).keys.into_iter();
    let own = keys.filter(|key| key.path.starts_with("pipeline"));
    let own: Vec<_> = own.map(|key| (key.line, key.path, key.mark.word())).collect();
    let expected = [
        (4, "pipeline.reuse-executions", "ignored"),
        (6, "pipeline.nodes.on-error", "approximated"),
        (10, "pipeline.nodes.override.environment", "approximated"),
        (10, "pipeline.nodes.override.runtime-config-preset", "ignored"),
        (12, "pipeline.edges.configuration", "ignored"),
    ];
    assert_eq!(own, expected.map(|(line, path, mark)| (line, path.to_owned(), mark)));
}
