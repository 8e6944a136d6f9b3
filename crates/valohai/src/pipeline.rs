//! The executions of a pipeline: steps with the values of edges, each after those that it needs.

use gpool_yaml::{Node, Value};

use crate::config::{Config, Edge, Pipeline, PipelineNode, Step};
use crate::finding::Finding;
use crate::marks::UsedKey;
use crate::parameter::{Parameter, ParameterType};
use crate::shape::Mark;
use crate::task::{self, TaskValues};

/// An execution of a pipeline.
#[derive(Debug, Clone, PartialEq)]
pub struct PipelineExecution {
    /// The name of its node.
    pub node: String,
    /// Its number among the executions of a task.
    pub number: Option<usize>,
    /// The values that the task gives it.
    pub values: TaskValues,
    pub line: usize,
    /// Its step with the changes of the node and the values of edges.
    pub step: Step,
    pub needs: Vec<Need>,
    pub late: Vec<LateParameter>,
    /// Whether it starts again after a failure.
    pub is_retried: bool,
    /// Inputs with files of other executions, which exist only once these have ended.
    pub late_inputs: Vec<String>,
}

/// An execution that another one waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Need {
    /// Its index in the list of executions.
    pub execution_ix: usize,
    /// Whether the other one also starts after its failure.
    pub may_fail: bool,
}

/// A parameter with a value that another execution reports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LateParameter {
    pub parameter: String,
    /// The index of the other execution.
    pub execution_ix: usize,
    /// The name of the value: its metadata.
    pub key: String,
}

const NODE_TYPE: &str =
    "gpool runs executions, and tasks of type grid_search, random_search and manual_search";
const EDGE_KINDS: &str =
    "gpool passes outputs and inputs to inputs, and parameters and metadata to parameters";

/// The parts of a pipeline that gpool does not run.
#[must_use]
pub fn refused(config: &Config, pipeline: &Pipeline) -> Vec<UsedKey> {
    let mut found = Vec::new();
    let mut add = |line: usize, path: &str, why: &'static str| {
        let path = format!("pipeline.{path}");
        found.push(UsedKey { line, path, mark: Mark::Refused(why) });
    };
    for node in &pipeline.nodes {
        let line_of = |key: &str| node.node.get(key).map(|it| it.line);
        let task = node.task.as_deref().and_then(|name| config.task(name));
        let is_run = match node.kind.as_str() {
            "execution" => true,
            "task" => task
                .is_some_and(|task| !matches!(task.kind.as_str(), "distributed" | "bayesian_tpe")),
            _ => false,
        };
        if !is_run {
            add(line_of("type").unwrap_or(node.node.line), "nodes.type", NODE_TYPE);
        }
        if let Some(line) = line_of("actions") {
            add(line, "nodes.actions", "gpool stops dependents of a failed node");
        }
        if let Some(line) = line_of("commit") {
            add(line, "nodes.commit", "all nodes run files of one commit");
        }
    }
    for edge in &pipeline.edges {
        let ends = (edge.source.kind.as_str(), edge.target.kind.as_str());
        let is_known = matches!(
            ends,
            ("output" | "input", "input")
                | ("parameter" | "metadata", "parameter")
                | ("dependency", "dependency")
        );
        if !is_known {
            add(edge.line, "edges", EDGE_KINDS);
        }
        if edge.source.kind == "output" && edge.source.key.split('/').any(|part| part == "..") {
            add(edge.line, "edges", "an output is a file below the folder of outputs");
        }
    }
    found
}

/// The executions of a pipeline. `values` are those of its parameters by name, and `outputs` is the
/// folder for the outputs of an execution by its index. The same seed draws the same values of
/// random tasks.
///
/// # Errors
/// gpool does not run a part of it, a name is unknown, a value does not fit, or nodes wait for each
/// other.
pub fn executions(
    config: &Config,
    pipeline: &Pipeline,
    values: &[(String, Vec<String>)],
    seed: u64,
    outputs: &dyn Fn(usize) -> String,
) -> Result<Vec<PipelineExecution>, Finding> {
    if let Some(first) = refused(config, pipeline).first() {
        return Err(Finding::error(first.line, format!("{} is refused", first.path))
            .advice(first.mark.why()));
    }
    let mut nodes: Vec<&PipelineNode> = Vec::new();
    let mut executions: Vec<PipelineExecution> = Vec::new();
    for node in order(pipeline)? {
        let own = of_node(config, node, seed)?;
        nodes.extend(std::iter::repeat_n(node, own.len()));
        executions.extend(own);
    }
    set_parameters(pipeline, values, &mut executions)?;
    for ix in 0..executions.len() {
        let mut filled: Vec<&str> = Vec::new();
        for edge in pipeline.edges.iter().filter(|edge| edge.target.node == nodes[ix].name) {
            let is_source = |node: &&PipelineNode| node.name == edge.source.node;
            let Some(first) = nodes.iter().position(is_source) else {
                return Err(unknown(edge.line, "node", &edge.source.node));
            };
            let n_sources = nodes.iter().filter(|node| is_source(node)).count();
            for source_ix in first..first + n_sources {
                let may_fail = nodes[source_ix].on_error == "continue";
                let need = Need { execution_ix: source_ix, may_fail };
                if !executions[ix].needs.contains(&need) {
                    executions[ix].needs.push(need);
                }
                // The first edge to an input replaces its sources.
                let is_first = source_ix == first && !filled.contains(&edge.target.key.as_str());
                let replaces = is_first && !nodes[ix].appends;
                follow(edge, (source_ix, ix), replaces, &mut executions, outputs)?;
            }
            filled.push(&edge.target.key);
        }
    }
    Ok(executions)
}

fn unknown(line: usize, what: &str, name: &str) -> Finding {
    Finding::error(line, format!("there is no {what} {name:?}"))
}

/// The nodes so that each comes after those with edges to it, otherwise as in the file.
fn order(pipeline: &Pipeline) -> Result<Vec<&PipelineNode>, Finding> {
    let mut order: Vec<&PipelineNode> = Vec::new();
    while order.len() < pipeline.nodes.len() {
        let is_done = |name: &str| order.iter().any(|node| node.name == name);
        let is_ready = |node: &&PipelineNode| {
            let mut sources = pipeline.edges.iter().filter(|edge| edge.target.node == node.name);
            !is_done(&node.name) && sources.all(|edge| is_done(&edge.source.node))
        };
        let Some(next) = pipeline.nodes.iter().find(is_ready) else {
            let left = pipeline.nodes.iter().filter(|node| !is_done(&node.name));
            let names: Vec<&str> = left.map(|node| node.name.as_str()).collect();
            let what = format!("nodes wait for each other: {}", names.join(", "));
            return Err(Finding::error(pipeline.line, what).advice("remove one edge"));
        };
        order.push(next);
    }
    Ok(order)
}

/// The execution of a node, or those of its task.
fn of_node(
    config: &Config,
    node: &PipelineNode,
    seed: u64,
) -> Result<Vec<PipelineExecution>, Finding> {
    let line = node.node.line;
    let task = node.task.as_deref().and_then(|name| config.task(name));
    let name = task.map(|task| task.step.as_str()).or(node.step.as_deref()).unwrap_or_default();
    let step = config.step(name).ok_or_else(|| unknown(line, "step", name))?;
    let step = match node.node.get("override") {
        Some(changes) => step.with(changes),
        None => step.clone(),
    };
    let one = |number: Option<usize>, values: TaskValues| {
        let mut step = step.clone();
        for (name, texts) in &values {
            let own = step.parameters.iter_mut().find(|it| it.name == *name);
            let own = own.ok_or_else(|| unknown(line, "parameter", name))?;
            let wrong = |why| Finding::error(line, format!("parameter {name:?}: {why}"));
            own.default = Some(own.value(texts).map_err(wrong)?);
        }
        let (needs, late, late_inputs) = (Vec::new(), Vec::new(), Vec::new());
        let is_retried = node.on_error == "retry";
        let node = node.name.clone();
        Ok(PipelineExecution {
            node,
            number,
            values,
            line,
            step,
            needs,
            late,
            late_inputs,
            is_retried,
        })
    };
    match task {
        None => Ok(vec![one(None, TaskValues::new())?]),
        Some(task) => {
            let rows = task::executions(task, seed)?.into_iter().enumerate();
            rows.map(|(number, values)| one(Some(number), values)).collect()
        }
    }
}

/// Sets the parameters of steps that are targets of parameters of the pipeline.
fn set_parameters(
    pipeline: &Pipeline,
    values: &[(String, Vec<String>)],
    executions: &mut [PipelineExecution],
) -> Result<(), Finding> {
    let is_known = |name: &String| pipeline.parameters.iter().any(|it| it.name == *name);
    if let Some((name, _)) = values.iter().find(|(name, _)| !is_known(name)) {
        let names: Vec<&str> = pipeline.parameters.iter().map(|it| it.name.as_str()).collect();
        let finding = unknown(pipeline.line, "parameter of the pipeline", name);
        return Err(match names.is_empty() {
            true => finding.advice("the pipeline has none"),
            false => finding.advice(format!("it has {}", names.join(", "))),
        });
    }
    for parameter in &pipeline.parameters {
        let texts = values.iter().find(|(name, _)| *name == parameter.name).map(|(_, it)| it);
        for target in &parameter.targets {
            let parts: Vec<&str> = target.split('.').collect();
            let [node, _, name] = parts[..] else {
                return Err(Finding::error(parameter.line, format!("{target:?} is no target"))
                    .advice("NODE.parameters.NAME"));
            };
            if !executions.iter().any(|it| it.node == node) {
                return Err(unknown(parameter.line, "node", node));
            }
            for execution in executions.iter_mut().filter(|it| it.node == node) {
                check_own(execution, name, parameter.line)?;
                let own = execution.step.parameters.iter_mut().find(|it| it.name == name);
                let own = own.ok_or_else(|| unknown(parameter.line, "parameter", name))?;
                let value = match (texts, &parameter.default) {
                    (Some(texts), _) => own.value(texts),
                    (None, Some(default)) => typed(own, default),
                    (None, None) => continue,
                };
                let wrong =
                    |why| Finding::error(parameter.line, format!("{}: {why}", parameter.name));
                own.default = Some(value.map_err(wrong)?);
            }
        }
    }
    Ok(())
}

/// Refuses another value for a parameter that the task of the node already sets.
fn check_own(execution: &PipelineExecution, name: &str, line: usize) -> Result<(), Finding> {
    match execution.values.iter().any(|(own, _)| own == name) {
        true => {
            let what = format!("the task of node {:?} has the values of {name:?}", execution.node);
            Err(Finding::error(line, what))
        }
        false => Ok(()),
    }
}

/// A value in the type of a parameter; each item of a list.
fn typed(parameter: &Parameter, value: &Value) -> Result<Value, String> {
    let Value::List(items) = value else { return parameter.typed(value) };
    let items = items.iter().map(|item| {
        let value = parameter.typed(&item.value)?;
        Ok(Node { line: item.line, value })
    });
    items.collect::<Result<_, String>>().map(Value::List)
}

/// Gives the target of an edge what its source has. `ends` are the indexes of both.
fn follow(
    edge: &Edge,
    ends: (usize, usize),
    replaces: bool,
    executions: &mut [PipelineExecution],
    outputs: &dyn Fn(usize) -> String,
) -> Result<(), Finding> {
    let (source_ix, target_ix) = ends;
    if edge.target.kind == "dependency" {
        return Ok(());
    }
    let source = executions[source_ix].clone();
    let target = &mut executions[target_ix];
    let (line, key) = (edge.line, edge.source.key.as_str());
    if edge.target.kind == "input" {
        let own = target.step.inputs.iter_mut().find(|it| it.name == edge.target.key);
        let own = own.ok_or_else(|| unknown(line, "input", &edge.target.key))?;
        if replaces {
            own.sources.clear();
        }
        if edge.source.kind == "input" {
            let other = source.step.inputs.iter().find(|it| it.name == key);
            let other = other.ok_or_else(|| unknown(line, "input", key))?;
            own.sources.extend(other.sources.iter().cloned());
            if source.late_inputs.iter().any(|name| name == key) {
                target.late_inputs.push(edge.target.key.clone());
            }
        } else {
            own.sources.push(format!("{}/{key}", outputs(source_ix)));
            target.late_inputs.push(edge.target.key.clone());
        }
        return Ok(());
    }
    check_own(target, &edge.target.key, line)?;
    let is_varied = source.values.iter().any(|(name, _)| name == key);
    if source.number.is_some() && (edge.source.kind == "metadata" || is_varied) {
        let what = format!("node {:?} has several executions, and several {key:?}", source.node);
        return Err(Finding::error(line, what).advice("pass their outputs on"));
    }
    let own = target.step.parameters.iter_mut().find(|it| it.name == edge.target.key);
    let own = own.ok_or_else(|| unknown(line, "parameter", &edge.target.key))?;
    if edge.source.kind == "metadata" {
        if own.kind == ParameterType::Flag {
            let what = format!("parameter {:?} is a flag, and metadata are numbers", own.name);
            return Err(Finding::error(line, what));
        }
        let (parameter, key) = (edge.target.key.clone(), key.to_owned());
        target.late.push(LateParameter { parameter, execution_ix: source_ix, key });
        return Ok(());
    }
    if let Some(late) = source.late.iter().find(|late| late.parameter == key) {
        target.late.push(LateParameter { parameter: edge.target.key.clone(), ..late.clone() });
        return Ok(());
    }
    let other = source.step.parameters.iter().find(|it| it.name == key);
    let other = other.ok_or_else(|| unknown(line, "parameter", key))?;
    if let Some(value) = &other.default {
        let wrong = |why| Finding::error(line, format!("parameter {:?}: {why}", edge.target.key));
        own.default = Some(typed(own, value).map_err(wrong)?);
    }
    Ok(())
}
