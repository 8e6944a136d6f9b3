//! Hypothetical changes written as text: `project red guaranteed=8`, `drain n3`. Each becomes the
//! command that a user would send, so it is refused for the same reasons.

use std::sync::Arc;

use gpool_control::forecast::Otherwise;
use gpool_model::pattern::short_model;
use gpool_model::{
    Bytes, Command, Consent, Device, DeviceUuid, Displace, DrainTarget, JobId, JobPatch, JobVerb,
    NewJob, Node, NodeName, PoolName, ProjectsAsk, Refusal, Resources, parse,
};
use gpool_wire::{JobCreate, Problem, ProjectSettings, json};
use serde_json::{Map, Value};

/// The most that is supposed at once.
const MOST: usize = 64;
/// Nodes that are added at once, and devices of each.
const NODES_MAX: u32 = 10_000;
const DEVICES_MAX: u32 = 64;
/// Jobs that are submitted at once.
const JOBS_MAX: u64 = 10_000;

/// The kinds of change, each with an example.
pub const FORMS: [(&str, &str); 10] = [
    ("project", "project red guaranteed=8"),
    ("drain", "drain n3"),
    ("undrain", "undrain n3"),
    ("add", "add 2 nodes x 8 h100"),
    ("policy", "policy preset=fifo"),
    ("cancel", "cancel 7 8"),
    ("hold", "hold 7"),
    ("release", "release 7"),
    ("priority", "priority 7 10"),
    ("submit", "submit gpus=2 project=red time=1h"),
];

/// One thing that is supposed, understood as far as it can be without the cluster.
#[derive(Debug, Clone, PartialEq)]
pub enum Supposed {
    Command(Command),
    Submit {
        job: Box<JobCreate>,
        n_jobs: u64,
    },
    /// Several equal nodes with several devices of one model each.
    Nodes {
        n_nodes: u32,
        /// How many devices each has; 0 of a model that is not said.
        n_devices: u32,
        /// The model as it was written.
        model: String,
    },
}

/// Reads all of them.
///
/// # Errors
/// The first text that is not understood, with the kinds of change.
pub fn read(texts: &[String]) -> Result<Vec<Supposed>, Refusal> {
    if texts.len() > MOST {
        return Err(invalid(format!("there are {} changes; the maximum is {MOST}", texts.len())));
    }
    texts.iter().map(|text| one(text)).collect()
}

fn one(text: &str) -> Result<Supposed, Refusal> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let Some((verb, rest)) = words.split_first() else {
        return Err(invalid(format!("the change is empty; {}", forms())));
    };
    match *verb {
        "project" => project(text, rest),
        "drain" => targets(text, rest).map(|targets| {
            let consent = Consent { dry_run: false, choice: Some(Displace::LetFinish) };
            let reason = Arc::from("supposed");
            Supposed::Command(Command::Drain { targets, by: None, reason, consent })
        }),
        "undrain" => {
            targets(text, rest).map(|targets| Supposed::Command(Command::Undrain { targets }))
        }
        "add" => nodes(text, rest),
        "policy" => policy(text, rest),
        "cancel" => on_jobs(JobVerb::Cancel, text, rest),
        "hold" => on_jobs(JobVerb::Hold, text, rest),
        "release" => on_jobs(JobVerb::Release { at: None }, text, rest),
        "priority" => priority(text, rest),
        "submit" => submit(rest),
        other => {
            let known = FORMS.map(|(verb, _)| verb);
            let near = json::nearest(other, known).map(example);
            let near = near.map(|near| format!("; did you mean \"{near}\"?")).unwrap_or_default();
            Err(invalid(format!("there is no change {other:?}: {}{near}", forms())))
        }
    }
}

fn forms() -> String {
    format!("the choices are {}", FORMS.map(|(verb, _)| verb).join(", "))
}

fn example(verb: &str) -> &'static str {
    FORMS.iter().find(|(known, _)| *known == verb).map_or("", |(_, example)| example)
}

fn invalid(why: String) -> Refusal {
    Refusal::Invalid { field: "if".to_owned(), why }
}

/// It begins as it should, and goes on otherwise.
fn malformed(text: &str, verb: &str) -> Refusal {
    let shown: String = text.chars().take(80).collect();
    invalid(format!("{shown:?} is not valid; write, for example, \"{}\"", example(verb)))
}

/// `KEY=VALUE` words; numbers and yes or no as JSON has them.
fn pairs(text: &str, verb: &str, words: &[&str]) -> Result<Vec<(String, String)>, Refusal> {
    let pair = |word: &&str| {
        let (key, value) = word.split_once('=').ok_or_else(|| malformed(text, verb))?;
        Ok((key.replace('-', "_"), value.to_owned()))
    };
    words.iter().map(pair).collect()
}

fn value(text: &str) -> Value {
    match text {
        "yes" | "true" => Value::Bool(true),
        "no" | "false" => Value::Bool(false),
        _ => text.parse::<i64>().map_or_else(|_| Value::String(text.to_owned()), Value::from),
    }
}

fn object(pairs: Vec<(String, String)>) -> Map<String, Value> {
    pairs.into_iter().map(|(key, text)| (key, value(&text))).collect()
}

fn project(text: &str, words: &[&str]) -> Result<Supposed, Refusal> {
    let (name, words) = words.split_first().ok_or_else(|| malformed(text, "project"))?;
    if words.is_empty() {
        return Err(malformed(text, "project"));
    }
    let mut settings = object(pairs(text, "project", words)?);
    if let Some(guaranteed) = settings.remove("guaranteed") {
        settings.insert("gpus".to_owned(), guaranteed);
    }
    for key in ["gpus_of", "limit_of", "gpus_in", "limit_in"] {
        if let Some(Value::String(parts)) = settings.get(key) {
            let part = |part: &str| {
                let (name, amount) = part.split_once('=')?;
                Some((name.to_owned(), Value::String(amount.to_owned())))
            };
            let parts: Option<Map<String, Value>> = parts.split(',').map(part).collect();
            let parts = parts.ok_or_else(|| {
                let shown = key.replace('_', "-");
                invalid(format!("{shown} is not valid; write {shown}=NAME=4"))
            })?;
            settings.insert(key.to_owned(), Value::Object(parts));
        }
    }
    let settings: ProjectSettings = read_as(settings)?;
    let changes = vec![settings.edit(name, None)?];
    Ok(Supposed::Command(Command::ChangeProjects(ProjectsAsk {
        changes,
        ..ProjectsAsk::default()
    })))
}

fn read_as<T: serde::de::DeserializeOwned>(members: Map<String, Value>) -> Result<T, Refusal> {
    let read = json::read(Value::Object(members).to_string().as_bytes());
    read.map_err(|problem: Problem| {
        let said = [vec![problem.detail], problem.why, problem.tries].concat();
        invalid(said.join("; "))
    })
}

fn targets(text: &str, words: &[&str]) -> Result<Vec<DrainTarget>, Refusal> {
    let target = |word: &&str| match word.split_once(':') {
        Some((node, device)) => {
            DrainTarget { node: NodeName::new(node), device: Some(device.to_owned()) }
        }
        None => DrainTarget { node: NodeName::new(*word), device: None },
    };
    match words {
        [] => Err(malformed(text, "drain")),
        words => Ok(words.iter().map(target).collect()),
    }
}

fn jobs(text: &str, words: &[&str]) -> Result<Vec<JobId>, Refusal> {
    let verb = text.split_whitespace().next().unwrap_or_default();
    let ids: Result<Vec<JobId>, _> = words.iter().map(|word| word.parse()).collect();
    ids.ok().filter(|ids| !ids.is_empty()).ok_or_else(|| malformed(text, verb))
}

fn on_jobs(verb: JobVerb, text: &str, words: &[&str]) -> Result<Supposed, Refusal> {
    jobs(text, words).map(|jobs| Supposed::Command(Command::OnJobs { jobs, verb }))
}

fn priority(text: &str, words: &[&str]) -> Result<Supposed, Refusal> {
    let [job, priority] = words else { return Err(malformed(text, "priority")) };
    let (Ok(job), Ok(priority)) = (job.parse(), priority.parse()) else {
        return Err(malformed(text, "priority"));
    };
    let patch = JobPatch::default().with("priority", |to| to.standing.priority = priority);
    Ok(Supposed::Command(Command::Edit { job, version: None, patch, ends: Vec::new() }))
}

fn policy(text: &str, words: &[&str]) -> Result<Supposed, Refusal> {
    let mut set = pairs(text, "policy", words)?;
    if set.is_empty() {
        return Err(malformed(text, "policy"));
    }
    let preset = set.iter().position(|(key, _)| key == "preset").map(|at| set.remove(at).1);
    Ok(Supposed::Command(Command::SetPolicy { preset, set, dry_run: false }))
}

/// `add 2 nodes x 8 h100`.
fn nodes(text: &str, words: &[&str]) -> Result<Supposed, Refusal> {
    let [n_nodes, "node" | "nodes", "x", n_devices, model] = words else {
        return Err(malformed(text, "add"));
    };
    let count = |word: &str, most: u32| match word.parse::<u32>() {
        Ok(count) if (1..=most).contains(&count) => Ok(count),
        _ => Err(invalid(format!("{word:?} is not a number from 1 to {most}"))),
    };
    let n_nodes = count(n_nodes, NODES_MAX)?;
    let n_devices = count(n_devices, DEVICES_MAX)?;
    Ok(Supposed::Nodes { n_nodes, n_devices, model: (*model).to_owned() })
}

/// `submit gpus=2 n=4`: the fields of a job, and how many of them.
fn submit(words: &[&str]) -> Result<Supposed, Refusal> {
    let mut fields = object(pairs("submit", "submit", words)?);
    let n_jobs = match fields.remove("n") {
        None => 1,
        Some(n) => match n.as_u64() {
            Some(n @ 1..=JOBS_MAX) => n,
            _ => return Err(invalid(format!("n={n} is not a number from 1 to {JOBS_MAX}"))),
        },
    };
    // As it is asked for by words, what JSON has as text.
    for key in ["gpus", "gpu_share", "name", "project"] {
        if let Some(Value::Number(number)) = fields.get(key) {
            let text = number.to_string();
            fields.insert(key.to_owned(), Value::String(text));
        }
    }
    fields.insert("command".to_owned(), Value::from(vec!["true"]));
    fields.insert("directory".to_owned(), Value::from("/"));
    Ok(Supposed::Submit { job: Box::new(read_as(fields)?), n_jobs })
}

/// Returns the commands for the changes, in order. `nodes` are the present ones, and `new_job`
/// reads a job as its submitter's.
///
/// # Errors
/// The first change that does not apply to this cluster.
pub fn resolve(
    all: Vec<Supposed>,
    nodes: &[Node],
    new_job: impl Fn(&JobCreate) -> Result<Vec<NewJob>, Refusal>,
) -> Result<Vec<(usize, Otherwise)>, Refusal> {
    let mut otherwise = Vec::new();
    let mut n_added = 0;
    for (nth, supposed) in all.into_iter().enumerate() {
        match supposed {
            Supposed::Command(command) => otherwise.push((nth, Otherwise::Command(command))),
            Supposed::Submit { job, n_jobs } => {
                let one = new_job(&job)?;
                let jobs = (0..n_jobs).flat_map(|_| one.clone()).collect();
                let (ends, array_ends) = (Vec::new(), Vec::new());
                let submit = Command::Submit { jobs, key: None, ends, array_ends, dry_run: false };
                otherwise.push((nth, Otherwise::Command(submit)));
            }
            Supposed::Nodes { n_nodes, n_devices, model } => {
                for _ in 0..n_nodes {
                    n_added += 1;
                    let node = added(nodes, n_added, n_devices, &model)?;
                    otherwise.push((nth, Otherwise::Node(Box::new(node))));
                }
            }
        }
    }
    Ok(otherwise)
}

/// A node with devices like those that there are, and the cores and memory of the largest node.
pub fn added(nodes: &[Node], nth: u32, n_devices: u32, model: &str) -> Result<Node, Refusal> {
    let devices = || nodes.iter().flat_map(|node| &node.devices);
    let request = gpool_model::GpuRequest::parse(&format!("{model}:1")).ok();
    let is_asked = |device: &&Device| {
        request
            .as_ref()
            .is_some_and(|request| !request.models.is_empty() && request.rank_of(device).is_some())
    };
    let (model, memory) = match devices().find(is_asked) {
        Some(like) => (like.model.clone(), like.memory),
        None => (model.to_owned(), memory_of(model).ok_or_else(|| unknown(model, nodes))?),
    };
    let name = (nth..).map(|nth| NodeName::new(format!("added-{nth}")));
    let name = name.clone().find(|name| nodes.iter().all(|node| node.name != *name));
    let device = |index: u32| {
        Device::new(
            index,
            DeviceUuid::new(format!("GPU-added-{nth}-{index}")),
            model.clone(),
            memory,
        )
    };
    let largest = nodes.iter().max_by_key(|node| {
        let kinds = [gpool_model::ResourceKind::Cpu, gpool_model::ResourceKind::Memory];
        (kinds.map(|kind| node.capacity.get(&kind)), node.name.clone())
    });
    let name = name.unwrap_or_else(|| NodeName::new("added"));
    let pool = largest.map_or_else(PoolName::usual, |node| node.pool.clone());
    let labels = largest.map(|node| node.all_labels()).unwrap_or_default();
    let capacity = largest.map_or_else(Resources::none, |node| node.capacity.clone());
    let node = Node::new(name, pool, capacity, (0..n_devices).map(device).collect());
    Ok(Node { labels, connected: true, ..node })
}

/// `h100-80G` says it.
fn memory_of(model: &str) -> Option<Bytes> {
    let (_, memory) = model.rsplit_once('-')?;
    memory.ends_with(['G', 'g']).then(|| parse::bytes(memory).ok()).flatten()
}

fn unknown(model: &str, nodes: &[Node]) -> Refusal {
    let devices = nodes.iter().flat_map(|node| &node.devices);
    let mut known: Vec<String> = devices.map(|device| short_model(&device.model)).collect();
    known.sort();
    known.dedup();
    let known = match known.is_empty() {
        true => "the cluster has no GPU".to_owned(),
        false => format!("the choices are {}", known.join(", ")),
    };
    let shown: String = model.chars().take(40).collect();
    invalid(format!(
        "no GPU here is {shown:?}: {known}; give the memory of another model: {shown}-80G"
    ))
}
