//! Checks beyond types and keys: names that must exist, values that must fit, keys without effect.

use std::collections::BTreeSet;

use crate::config::{Config, Pipeline, Socket, Step, ends, seconds};
use crate::finding::Finding;
use crate::parameter::{Parameter, ParameterType, truth};
use gpool_yaml::{Node, Value};

const TASK_TYPES: [&str; 5] =
    ["bayesian_tpe", "grid_search", "distributed", "random_search", "manual_search"];
const CHILD_ERRORS: [&str; 3] =
    ["continue-and-complete", "continue-and-error", "stop-all-and-error"];
const SOCKETS: [&str; 8] = [
    "dependency",
    "deployment",
    "environment-variable",
    "file",
    "input",
    "metadata",
    "output",
    "parameter",
];
const WHENS: [&str; 3] = ["node-complete", "node-starting", "node-error"];
const THENS: [&str; 3] = ["noop", "stop-pipeline", "error-pipeline"];

/// Checks a file that has the right types and keys.
#[must_use]
pub fn check(root: &Node, config: &Config) -> Vec<Finding> {
    let mut lint = Lint { config, found: Vec::new() };
    let mut names = BTreeSet::new();
    for item in root.items() {
        let kinds = ["step", "task", "endpoint", "pipeline", "deployment"];
        let Some((kind, node)) = kinds.iter().find_map(|kind| Some((kind, item.get(kind)?))) else {
            let what = "an item is neither a step, task, pipeline nor endpoint";
            lint.warn(item.line, what.to_owned());
            continue;
        };
        let name = node.text_of("name").unwrap_or_default();
        if !names.insert((*kind, name.to_owned())) {
            lint.warn(node.line, format!("there are two of {kind} {name:?}"));
        }
        match *kind {
            "step" => lint.step(node, name),
            "task" => lint.task(node, name),
            "endpoint" => lint.endpoint(node, name),
            "pipeline" => lint.pipeline(node, name),
            _ => lint.deployment(node, name),
        }
    }
    lint.found
}

struct Lint<'a> {
    config: &'a Config,
    found: Vec<Finding>,
}

impl Lint<'_> {
    fn error(&mut self, line: usize, what: String) {
        self.found.push(Finding::error(line, what));
    }

    fn warn(&mut self, line: usize, what: String) {
        self.found.push(Finding::warning(line, what));
    }

    fn step(&mut self, node: &Node, name: &str) {
        for parameter in node.get("parameters").map(Node::items).unwrap_or_default() {
            self.parameter(parameter, name);
        }
        for key in ["time-limit", "no-output-timeout"] {
            if let Some(node) = node.get(key)
                && let Err(why) = seconds(node)
            {
                let finding = Finding::error(node.line, format!("step {name:?}: {key}: {why}"));
                self.found.push(finding.advice(format!("{key}: 1h 30m")));
            }
        }
        let is_set = |key| node.text_of(key).is_some_and(|text| !text.is_empty());
        if is_set("runtime-config-preset") && !is_set("environment") {
            let what = format!("step {name:?}: runtime-config-preset needs an environment");
            self.error(node.line, what);
        }
    }

    fn parameter(&mut self, node: &Node, step: &str) {
        let parameter = Parameter::read(node);
        let here = format!("step {step:?}, parameter {:?}", parameter.name);
        let has = |key| node.text_of(key).is_some_and(|text| !text.is_empty());
        let by_truth = has("pass-true-as") || has("pass-false-as");
        let is_flag = parameter.kind == ParameterType::Flag;
        if is_flag {
            if parameter.multiple.is_some() {
                self.error(node.line, format!("{here}: a flag has only one value"));
            }
            if node.get("optional").is_some_and(|it| truth(&it.value)) {
                self.warn(node.line, format!("{here}: optional has no effect on a flag"));
            }
            if by_truth && has("pass-as") {
                let what = "pass-as has no effect beside pass-true-as and pass-false-as";
                self.warn(node.line, format!("{here}: {what}"));
            }
        } else {
            for key in ["pass-true-as", "pass-false-as"].into_iter().filter(|key| has(key)) {
                self.warn(node.line, format!("{here}: {key} has an effect on flags only"));
            }
        }
        let Some(default) = parameter.default.as_ref().filter(|value| truth(value)) else { return };
        let atoms = match default {
            Value::List(items) => items.iter().map(|item| &item.value).collect(),
            other => vec![other],
        };
        for atom in atoms {
            for why in refusals(&parameter, atom) {
                self.warn(node.line, format!("{here}: the default {why}"));
            }
        }
    }

    fn task(&mut self, node: &Node, name: &str) {
        let kind = node.text_of("type").filter(|kind| !kind.is_empty());
        let kind = kind.unwrap_or("grid_search").to_lowercase().replace('-', "_");
        if !TASK_TYPES.contains(&kind.as_str()) {
            let what = format!("task {name:?}: the type {kind:?} is unknown");
            let finding = Finding::error(node.line, what);
            self.found.push(finding.advice(format!("the types are {}", TASK_TYPES.join(", "))));
        }
        if let Some(text) = node.text_of("on-child-error").filter(|text| !text.is_empty())
            && !CHILD_ERRORS.contains(&text.to_lowercase().replace('_', "-").as_str())
        {
            let what = format!("task {name:?}: on-child-error {text:?} is unknown");
            let finding = Finding::error(node.line, what);
            self.found.push(finding.advice(format!("the values are {}", CHILD_ERRORS.join(", "))));
        }
        let sets = node.get("parameter-sets").map(Node::items).unwrap_or_default();
        if sets.iter().any(|set| truth(&set.value)) && kind != "manual_search" {
            let what = format!("task {name:?}: only manual_search uses parameter-sets");
            self.warn(node.line, what);
        }
        let keys = ["engine", "optimization-target-metric", "optimization-target-value"];
        for key in keys.iter().filter(|key| node.get(key).is_some()) {
            if kind != "bayesian_tpe" {
                self.warn(node.line, format!("task {name:?}: only bayesian_tpe uses {key}"));
            }
        }
    }

    fn endpoint(&mut self, node: &Node, name: &str) {
        let mut used = BTreeSet::new();
        for volume in node.get("shared-volumes").map(Node::items).unwrap_or_default() {
            let path = volume.text_of("mount-path").unwrap_or_default();
            if !path.starts_with('/') {
                let what = format!("endpoint {name:?}: the mount-path {path:?} is not absolute");
                self.error(volume.line, what);
            }
            if volume.text_of("sub-path").is_some_and(|path| path.starts_with('/')) {
                self.error(volume.line, format!("endpoint {name:?}: a sub-path begins with /"));
            }
            if !used.insert(path.to_owned()) {
                self.error(volume.line, format!("endpoint {name:?}: two volumes at {path:?}"));
            }
        }
        if let Some(volume) = node.get("workspace-volume") {
            let path = volume.text_of("mount-path").unwrap_or_default();
            if !path.starts_with('/') || used.contains(path) {
                let what = "the mount-path of its workspace is not absolute, or used twice";
                self.error(volume.line, format!("endpoint {name:?}: {what}"));
            }
        }
    }

    fn deployment(&mut self, node: &Node, name: &str) {
        let target = node.get("defaults").and_then(|it| it.text_of("target"));
        if target.is_none_or(str::is_empty) {
            self.warn(node.line, format!("deployment {name:?} has no defaults.target"));
        }
    }

    fn pipeline(&mut self, node: &Node, name: &str) {
        let pipelines = &self.config.pipelines;
        let Some(pipeline) = pipelines.iter().find(|it| it.line == node.line) else { return };
        let mut names = BTreeSet::new();
        for member in node.get("nodes").map(Node::items).unwrap_or_default() {
            let own = member.text_of("name").unwrap_or_default();
            if !names.insert(own) {
                self.error(member.line, format!("pipeline {name:?} has two nodes {own:?}"));
            }
            self.pipeline_node(member, &format!("pipeline {name:?}, node {own:?}"));
        }
        for edge in node.get("edges").map(Node::items).unwrap_or_default() {
            let both = ends(edge).into_iter().flat_map(|(source, target)| [source, target]);
            for text in both {
                self.socket(text, edge.line, &format!("pipeline {name:?}"), &names);
            }
        }
        for parameter in node.get("parameters").map(Node::items).unwrap_or_default() {
            self.pipeline_parameter(parameter, pipeline);
        }
    }

    fn socket(&mut self, text: &str, line: usize, here: &str, names: &BTreeSet<&str>) {
        let Some(socket) = Socket::parse(text) else {
            let finding = Finding::error(line, format!("{here}: the end {text:?} has not 3 parts"));
            self.found.push(finding.advice("write NODE.KIND.NAME, e.g. train.output.model*"));
            return;
        };
        if !names.contains(socket.node.as_str()) {
            self.error(
                line,
                format!("{here}: an edge names the node {:?}, which is missing", socket.node),
            );
        }
        if !SOCKETS.contains(&socket.kind.as_str()) {
            let what = format!("{here}: {:?} is no kind of an edge's end", socket.kind);
            let advice = format!("the kinds are {}", SOCKETS.join(", "));
            self.found.push(Finding::error(line, what).advice(advice));
        }
    }

    fn pipeline_node(&mut self, node: &Node, here: &str) {
        for action in node.get("actions").map(Node::items).unwrap_or_default() {
            let words = |key| action.get(key).map(Node::one_or_more).unwrap_or_default();
            let unknown = |key, known: &[&str], lower: bool| {
                let words = words(key).iter().filter_map(Node::text);
                words
                    .map(|word| if lower { word.to_lowercase() } else { word.to_owned() })
                    .filter(|word| !known.contains(&word.as_str()))
                    .collect::<Vec<_>>()
            };
            for (key, words) in
                [("when", unknown("when", &WHENS, true)), ("then", unknown("then", &THENS, false))]
            {
                for word in words {
                    self.warn(action.line, format!("{here}: {key} {word:?} is unknown"));
                }
            }
        }
        if node.text_of("commit").is_some_and(|commit| !commit.is_empty()) {
            return;
        }
        let task = node.text_of("task").filter(|name| !name.is_empty());
        let mut step = node.text_of("step").filter(|name| !name.is_empty()).map(str::to_owned);
        if let Some(name) = task {
            match self.config.tasks.iter().rev().find(|task| task.name == name) {
                Some(task) => step = Some(task.step.clone()),
                None => return self.error(node.line, format!("{here}: there is no task {name:?}")),
            }
        }
        let needs_step = matches!(node.text_of("type"), Some("execution" | "task"));
        let Some(name) = step.filter(|_| needs_step) else { return };
        match self.config.step(&name) {
            Some(step) => {
                if let Some(changes) = node.get("override") {
                    self.changes(changes, step, here);
                }
            }
            None => self.error(node.line, format!("{here}: there is no step {name:?}")),
        }
    }

    /// An override must name inputs and parameters of the step.
    fn changes(&mut self, node: &Node, step: &Step, here: &str) {
        let names = |key| {
            let items = node.get(key).map(Node::items).unwrap_or_default().iter();
            items.map(|it| (it.line, it.text_of("name").unwrap_or_default()))
        };
        for (line, name) in names("inputs") {
            if !step.inputs.iter().any(|input| input.name == name) {
                self.error(line, format!("{here}: step {:?} has no input {name:?}", step.name));
            }
        }
        for (line, name) in names("parameters") {
            if !step.parameters.iter().any(|parameter| parameter.name == name) {
                self.error(line, format!("{here}: step {:?} has no parameter {name:?}", step.name));
            }
        }
        let is_set = |key| node.text_of(key).is_some_and(|text| !text.is_empty());
        if is_set("runtime-config-preset") && !is_set("environment") {
            self.error(node.line, format!("{here}: runtime-config-preset needs an environment"));
        }
    }

    fn pipeline_parameter(&mut self, node: &Node, pipeline: &Pipeline) {
        let name = node.text_of("name").unwrap_or_default();
        let here = format!("pipeline {:?}, parameter {name:?}", pipeline.name);
        if node.get("name").is_none() {
            self.error(node.line, format!("pipeline {:?}: a parameter has no name", pipeline.name));
        }
        if node.get("target").is_some() && node.get("targets").is_some() {
            self.error(node.line, format!("{here} has both target and targets"));
        }
        let targets = pipeline.parameters.iter().find(|it| it.line == node.line);
        let targets = targets.map(|it| it.targets.clone()).unwrap_or_default();
        if targets.is_empty() {
            self.warn(node.line, format!("{here} has no target"));
        }
        for text in targets {
            let Some(socket) = Socket::parse(&text) else {
                self.error(node.line, format!("{here}: the target {text:?} has not 3 parts"));
                continue;
            };
            if !socket.kind.starts_with("parameter") {
                self.error(node.line, format!("{here}: the target {text:?} is no parameter"));
            }
            let Some(member) = pipeline.nodes.iter().rev().find(|it| it.name == socket.node) else {
                self.error(node.line, format!("{here}: there is no node {:?}", socket.node));
                continue;
            };
            let is_local = member.node.text_of("commit").is_none_or(str::is_empty);
            if member.kind == "execution" && is_local {
                let step = member.step.as_deref().and_then(|name| self.config.step(name));
                let is_there = step.is_some_and(|step| {
                    step.parameters.iter().any(|parameter| parameter.name == socket.key)
                });
                if !is_there {
                    let what =
                        format!("{here}: node {:?} has no parameter {:?}", socket.node, socket.key);
                    self.error(node.line, what);
                }
            }
        }
    }
}

/// Why a default does not fit its parameter.
fn refusals(parameter: &Parameter, value: &Value) -> Vec<String> {
    let is_text = matches!(value, Value::Text(_));
    if parameter.kind == ParameterType::Text && !is_text {
        return vec![format!("is {}, not a text; put quotes around it", value.kind())];
    }
    let typed = match parameter.kind {
        ParameterType::Integer | ParameterType::Float => parameter.typed(value),
        // A flag accepts only true and false here.
        _ => Ok(value.clone()),
    };
    // Limits hold for the value as written.
    let refusal = parameter.refusal(value);
    typed.err().into_iter().chain(refusal).map(|why| format!("does not fit: {why}")).collect()
}
