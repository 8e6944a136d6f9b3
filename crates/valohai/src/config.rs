//! The items of a valid file: steps, tasks and pipelines.

use crate::parameter::Parameter;
use gpool_yaml::scalar;
use gpool_yaml::{Node, Value};

/// A file that passed the checks of its schema.
#[derive(Debug, Clone, Default)]
pub struct Config {
    pub steps: Vec<Step>,
    pub tasks: Vec<Task>,
    pub pipelines: Vec<Pipeline>,
}

/// A step: a program with its image, parameters and inputs.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    pub line: usize,
    pub name: String,
    pub image: String,
    pub commands: Vec<String>,
    pub environment: Option<String>,
    pub variables: Vec<EnvironmentVariable>,
    pub inputs: Vec<Input>,
    pub parameters: Vec<Parameter>,
    pub mounts: Vec<Mount>,
    /// Devices by name, with line.
    pub devices: Vec<(String, f64, usize)>,
    pub cpus: Option<f64>,
    pub memory_mb: Option<f64>,
    pub time_limit_s: Option<f64>,
    pub source_path: Option<String>,
    /// Whether a lost execution starts again.
    pub is_restarted: bool,
}

/// A variable of a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EnvironmentVariable {
    pub line: usize,
    pub name: String,
    pub default: Option<String>,
    pub is_optional: bool,
}

/// An input: files that a step finds in `/valohai/inputs/NAME`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Input {
    pub line: usize,
    pub name: String,
    /// Addresses and paths.
    pub sources: Vec<String>,
    pub is_optional: bool,
    pub filename: Option<String>,
    pub folders: KeptFolders,
}

/// The folders of an input with `*` that its files keep.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum KeptFolders {
    #[default]
    None,
    /// Those of the whole path.
    Full,
    /// Those after the first `*`.
    Suffix,
}

/// A path of the node that a step sees.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mount {
    pub line: usize,
    pub source: String,
    pub target: String,
    pub is_readonly: bool,
    /// A kind of file system, which gpool refuses.
    pub kind: Option<String>,
}

/// Executions of a step with different parameters, or together.
#[derive(Debug, Clone, PartialEq)]
pub struct Task {
    pub line: usize,
    pub name: String,
    pub step: String,
    pub kind: String,
    pub n_executions: Option<i64>,
    pub max_parallel: Option<i64>,
    /// The most executions at once of a task that chooses them by results.
    pub batch: Option<i64>,
    /// The metric of such a task, and the value that it should have.
    pub metric: Option<String>,
    pub target: Option<String>,
    /// Name, style and rules of each parameter.
    pub variants: Vec<(String, String, Node)>,
    pub sets: Vec<Vec<(String, Value)>>,
}

/// Executions that pass files and values on.
#[derive(Debug, Clone, PartialEq)]
pub struct Pipeline {
    pub line: usize,
    pub name: String,
    pub nodes: Vec<PipelineNode>,
    pub edges: Vec<Edge>,
    pub parameters: Vec<PipelineParameter>,
}

/// A node of a pipeline.
#[derive(Debug, Clone, PartialEq)]
pub struct PipelineNode {
    pub name: String,
    pub kind: String,
    pub step: Option<String>,
    pub task: Option<String>,
    pub on_error: String,
    /// Whether inputs of edges are added to those of the step.
    pub appends: bool,
    /// The whole node.
    pub node: Node,
}

/// A file or value that goes from one node to another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Edge {
    pub line: usize,
    pub source: Socket,
    pub target: Socket,
}

/// An end of an edge: `NODE.KIND.KEY`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Socket {
    pub node: String,
    pub kind: String,
    pub key: String,
}

impl Socket {
    /// Parses `NODE.KIND.KEY`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.splitn(3, '.').map(str::to_owned);
        Some(Self { node: parts.next()?, kind: parts.next()?, key: parts.next()? })
    }
}

/// A parameter of a pipeline, and the parameters of nodes that get its value.
#[derive(Debug, Clone, PartialEq)]
pub struct PipelineParameter {
    pub line: usize,
    pub name: String,
    pub default: Option<Value>,
    pub targets: Vec<String>,
}

/// The items of a file that passed the checks of its schema.
#[must_use]
pub fn read(root: &Node) -> Config {
    let mut config = Config::default();
    for item in root.items() {
        if let Some(node) = item.get("step") {
            config.steps.push(step(node));
        } else if let Some(node) = item.get("task") {
            config.tasks.push(task(node));
        } else if let Some(node) = item.get("pipeline") {
            config.pipelines.push(pipeline(node));
        }
    }
    config
}

fn text(node: &Node, key: &str) -> String {
    node.text_of(key).unwrap_or_default().to_owned()
}

/// A text that is not empty.
fn some_text(node: &Node, key: &str) -> Option<String> {
    node.text_of(key).filter(|text| !text.is_empty()).map(str::to_owned)
}

fn texts(node: Option<&Node>) -> Vec<String> {
    let items = node.map(Node::one_or_more).unwrap_or_default();
    items.iter().filter_map(|item| item.text().map(str::to_owned)).collect()
}

fn is_true(node: &Node, key: &str) -> bool {
    node.get(key).is_some_and(|node| node.value == Value::Bool(true))
}

fn number(node: Option<&Node>) -> Option<f64> {
    match node?.value {
        Value::Int(whole) => Some(whole as f64),
        Value::Float(number) => Some(number),
        _ => None,
    }
}

fn whole(node: &Node, key: &str) -> Option<i64> {
    match node.get(key)?.value {
        Value::Int(whole) => Some(whole),
        #[expect(clippy::cast_possible_truncation, reason = "the schema accepts whole numbers")]
        Value::Float(number) => Some(number as i64),
        _ => None,
    }
}

fn items<'a>(node: &'a Node, key: &str) -> &'a [Node] {
    node.get(key).map(Node::items).unwrap_or_default()
}

fn step(node: &Node) -> Step {
    let resources = node.get("resources");
    let least = |key| number(resources.and_then(|it| it.get(key)).and_then(|it| it.get("min")));
    let devices = resources.and_then(|it| it.get("devices")).map(Node::entries);
    let devices = devices.unwrap_or_default().iter();
    Step {
        line: node.line,
        name: text(node, "name"),
        image: text(node, "image"),
        commands: texts(node.get("command")),
        environment: some_text(node, "environment"),
        variables: items(node, "environment-variables").iter().map(variable).collect(),
        inputs: items(node, "inputs").iter().map(input).collect(),
        parameters: items(node, "parameters").iter().map(Parameter::read).collect(),
        mounts: items(node, "mounts").iter().map(mount).collect(),
        devices: devices
            .filter_map(|(key, it)| Some((key.text.clone(), number(Some(it))?, key.line)))
            .collect(),
        cpus: least("cpu"),
        memory_mb: least("memory"),
        time_limit_s: node.get("time-limit").and_then(|it| seconds(it).ok().flatten()),
        source_path: node.text_of("source-path").map(str::to_owned),
        is_restarted: is_true(node, "autorestart"),
    }
}

impl Step {
    /// The step with the changes of a node's `override`. Of inputs and parameters, the defaults
    /// change.
    #[must_use]
    pub fn with(&self, changes: &Node) -> Self {
        let new = step(changes);
        let mut step = self.clone();
        let has = |key| changes.get(key).is_some();
        if has("command") {
            step.commands = new.commands;
        }
        if has("image") {
            step.image = new.image;
        }
        if has("environment") {
            step.environment = new.environment;
        }
        if has("autorestart") {
            step.is_restarted = new.is_restarted;
        }
        if has("mounts") {
            step.mounts = new.mounts;
        }
        for parameter in new.parameters {
            let mut own = step.parameters.iter_mut();
            if let Some(own) = own.find(|own| own.name == parameter.name) {
                own.default = parameter.default;
            }
        }
        for input in new.inputs {
            if let Some(own) = step.inputs.iter_mut().find(|own| own.name == input.name) {
                own.sources = input.sources;
            }
        }
        for variable in new.variables {
            step.variables.retain(|own| own.name != variable.name);
            step.variables.push(variable);
        }
        step
    }
}

fn variable(node: &Node) -> EnvironmentVariable {
    EnvironmentVariable {
        line: node.line,
        name: text(node, "name"),
        default: node.get("default").map(|it| scalar::text(&it.value)),
        is_optional: node.get("optional").is_none_or(|it| it.value != Value::Bool(false)),
    }
}

fn input(node: &Node) -> Input {
    let folders = match node.get("keep-directories").map(|it| &it.value) {
        Some(Value::Bool(true)) => KeptFolders::Full,
        Some(Value::Text(text)) if text == "full" => KeptFolders::Full,
        Some(Value::Text(text)) if text == "suffix" => KeptFolders::Suffix,
        _ => KeptFolders::None,
    };
    Input {
        line: node.line,
        name: text(node, "name"),
        sources: texts(node.get("default")),
        is_optional: is_true(node, "optional"),
        filename: some_text(node, "filename"),
        folders,
    }
}

fn mount(node: &Node) -> Mount {
    let (source, target) = match node.text().and_then(|text| text.split_once(':')) {
        Some((source, target)) => (source.to_owned(), target.to_owned()),
        None => (text(node, "source"), text(node, "destination")),
    };
    let kind = some_text(node, "type");
    Mount { line: node.line, source, target, is_readonly: is_true(node, "readonly"), kind }
}

fn task(node: &Node) -> Task {
    let variant = |it: &Node| {
        let rules = it.get("rules").cloned();
        let rules = rules.unwrap_or(Node { line: it.line, value: Value::Map(Vec::new()) });
        (text(it, "name"), text(it, "style"), rules)
    };
    let set = |it: &Node| {
        let entries = it.entries().iter();
        entries.map(|(key, node)| (key.text.clone(), node.value.clone())).collect::<Vec<_>>()
    };
    let kind = node.text_of("type").filter(|kind| !kind.is_empty()).unwrap_or("grid_search");
    Task {
        line: node.line,
        name: text(node, "name"),
        step: text(node, "step"),
        kind: kind.to_lowercase().replace('-', "_"),
        n_executions: whole(node, "execution-count"),
        max_parallel: whole(node, "maximum-queued-executions"),
        batch: whole(node, "execution-batch-size"),
        metric: some_text(node, "optimization-target-metric"),
        target: node.get("optimization-target-value").map(|it| scalar::text(&it.value)),
        variants: items(node, "parameters").iter().map(variant).collect(),
        sets: items(node, "parameter-sets").iter().map(set).filter(|it| !it.is_empty()).collect(),
    }
}

fn pipeline(node: &Node) -> Pipeline {
    let member = |it: &Node| PipelineNode {
        name: text(it, "name"),
        kind: text(it, "type"),
        step: some_text(it, "step"),
        task: some_text(it, "task"),
        on_error: it.text_of("on-error").unwrap_or("stop-all").to_owned(),
        appends: it.text_of("edge-merge-mode") == Some("append"),
        node: it.clone(),
    };
    Pipeline {
        line: node.line,
        name: text(node, "name"),
        nodes: items(node, "nodes").iter().map(member).collect(),
        edges: items(node, "edges").iter().filter_map(edge).collect(),
        parameters: items(node, "parameters").iter().map(pipeline_parameter).collect(),
    }
}

/// The texts of the ends of an edge.
#[must_use]
pub fn ends(node: &Node) -> Option<(&str, &str)> {
    match node.items() {
        [source, target] => Some((source.text()?, target.text()?)),
        _ => Some((node.text_of("source")?, node.text_of("target")?)),
    }
}

fn edge(node: &Node) -> Option<Edge> {
    let (source, target) = ends(node)?;
    Some(Edge { line: node.line, source: Socket::parse(source)?, target: Socket::parse(target)? })
}

fn pipeline_parameter(node: &Node) -> PipelineParameter {
    let default = node.get("default").map(|it| it.value.clone());
    let targets = node.get("target").or_else(|| node.get("targets"));
    PipelineParameter {
        line: node.line,
        name: text(node, "name"),
        default: default.filter(|value| *value != Value::Null),
        targets: texts(targets).into_iter().filter(|target| !target.is_empty()).collect(),
    }
}

/// The seconds of a time limit: a number, or a text such as `1h 30m`.
///
/// # Errors
/// It is neither; the text says what is wrong.
pub fn seconds(node: &Node) -> Result<Option<f64>, String> {
    let text = match &node.value {
        Value::Int(whole) => return Ok(Some(*whole as f64)),
        Value::Text(text) if text.trim().is_empty() => return Ok(None),
        Value::Text(text) => text,
        _ => return Err("it is not a whole number".to_owned()),
    };
    let is_digit = |c: char| c == '.' || c.is_ascii_digit();
    let (mut sum, mut rest) = (0.0, text.as_str());
    while let Some(begin) = rest.find(is_digit) {
        rest = &rest[begin..];
        let end = rest.find(|c| !is_digit(c)).unwrap_or(rest.len());
        let number: f64 =
            rest[..end].parse().map_err(|_| format!("{:?} is no number", &rest[..end]))?;
        rest = rest[end..].trim_start();
        let unit = match rest.chars().next() {
            Some('s') => 1.0,
            Some('m') => 60.0,
            Some('h') => 3600.0,
            Some('d') => 86_400.0,
            Some('w') => 604_800.0,
            _ => return Err(format!("{number} has none of the units s, m, h, d and w")),
        };
        sum += number * unit;
        rest = rest.trim_start_matches(|c: char| c.is_ascii_lowercase());
    }
    if sum > 0.0 { Ok(Some(sum)) } else { Err("it is not a positive time".to_owned()) }
}
