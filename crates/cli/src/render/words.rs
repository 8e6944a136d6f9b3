//! Short phrases that several pages share.

use std::fmt::Write as _;

use gpool_model::{Bytes, Millis};
use gpool_wire::{GangStatus, Job, PlacedOn, Report};

/// The text for an empty value.
pub const NOTHING: &str = "–";

/// A state in words: `timed out`.
#[must_use]
pub fn state(word: &str) -> String {
    word.replace('_', " ")
}

/// The number of further jobs that a job waits for: `3 more jobs`.
#[must_use]
pub fn more_reasons(n_more: u64) -> Option<String> {
    (n_more > 0).then(|| count(n_more, "more job"))
}

/// A number with its noun: `1 row`, `2 rows`.
#[must_use]
pub fn count(n: u64, word: &str) -> String {
    if n == 1 { format!("1 {word}") } else { format!("{} {word}s", grouped(n)) }
}

/// A number with separators between thousands.
#[must_use]
pub fn grouped(n: u64) -> String {
    let digits = n.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Indexes with runs joined: `0,2–5,7`.
#[must_use]
pub fn indexes(of: &[u32]) -> String {
    let mut text = String::new();
    let mut at = 0;
    while at < of.len() {
        let mut end = at;
        while end + 1 < of.len() && of[end].checked_add(1) == Some(of[end + 1]) {
            end += 1;
        }
        let sign = if text.is_empty() { "" } else { "," };
        let _ = match end - at {
            0 => write!(text, "{sign}{}", of[at]),
            1 => write!(text, "{sign}{},{}", of[at], of[end]),
            _ => write!(text, "{sign}{}–{}", of[at], of[end]),
        };
        at = end + 1;
    }
    text
}

/// Where a job runs: `lab1:0,1`.
#[must_use]
pub fn places(placement: &[PlacedOn]) -> String {
    let place = |placed: &PlacedOn| match placed.devices.as_slice() {
        [] => placed.node.clone(),
        devices => format!("{}:{}", placed.node, indexes(devices)),
    };
    placement.iter().map(place).collect::<Vec<_>>().join(" ")
}

/// How a job ended: `exit 1`, `signal 9`, or the cause.
#[must_use]
pub fn end(job: &Job) -> String {
    match (&job.run.cause_text, job.run.signal, job.run.exit_code) {
        (Some(cause), ..) => cause.clone(),
        (None, Some(signal), _) => format!("signal {}", gpool_wire::signal::word(signal)),
        (None, None, Some(code)) => format!("exit {code}"),
        (None, None, None) => NOTHING.to_owned(),
    }
}

/// The request of a job: `2 GPUs · 4 CPUs · 20 GiB · limit 3h00`.
#[must_use]
pub fn wants(job: &Job) -> String {
    let mut parts = match job.request.parts.is_empty() {
        true => vec![gpus(job.request.gpus_text())],
        false => job.request.parts.clone(),
    };
    let gang = job.gang.as_ref().filter(|_| job.request.parts.is_empty());
    if gang.is_some() {
        parts[0].push_str(" each");
    }
    parts.extend(job.request.cpu_cores().map(cores));
    parts.extend(job.request.mem_bytes().map(|bytes| Bytes::new(bytes).to_string()));
    parts.extend(gang.map(nodes));
    parts.extend(job.joins.as_ref().map(|joined| format!("joins job {joined}")));
    parts.extend(job.request.pool.as_ref().map(|pool| format!("pool {pool}")));
    parts.extend(node_constraints(job));
    parts.push(limit(job).map_or("no time limit".to_owned(), |limit| format!("limit {limit}")));
    parts.join(" · ")
}

/// The nodes that a job may use: `on lab1, lab2`, `not on lab3`, `where rack=3`.
fn node_constraints(job: &Job) -> impl Iterator<Item = String> {
    let lists = [
        ("on", &job.request.node),
        ("not on", &job.request.not_node),
        ("where", &job.request.rules),
    ];
    let lists = lists.into_iter().filter(|(_, names)| !names.is_empty());
    let lists = lists.map(|(word, names)| format!("{word} {}", names.join(", ")));
    lists.chain(job.request.exclusive.then(|| "no other job on its nodes".to_owned()))
}

/// A request for GPUs in words: `no GPU`, `2 GPUs`, `a100:2`.
#[must_use]
pub fn gpus(written: &str) -> String {
    match written {
        "" | "0" => "no GPU".to_owned(),
        "1" => "1 GPU".to_owned(),
        n if n.bytes().all(|b| b.is_ascii_digit()) => format!("{n} GPUs"),
        other => format!("GPUs {other}"),
    }
}

/// The number of a job's tasks, after the request of each: ` ×2`, or ` ×2–4` for a job that grows.
#[must_use]
pub fn tasks(gang: &GangStatus) -> String {
    let of = |nodes: u32| nodes.saturating_mul(gang.tasks_per_node);
    match gang.nodes_most {
        Some(most) => format!(" ×{}–{}", of(gang.nodes), of(most)),
        None => format!(" ×{}", of(gang.nodes)),
    }
}

/// The nodes of a job: `2 nodes`, `2 to 4 nodes · 8 tasks on each`.
#[must_use]
pub fn nodes(gang: &GangStatus) -> String {
    let first = gang.launcher.map(|_| " · the command runs only in the first task");
    format!("{}{}", places_of(gang), first.unwrap_or_default())
}

fn places_of(gang: &GangStatus) -> String {
    if gang.anywhere {
        let most = gang.nodes_most.map(|most| format!(" to {most}")).unwrap_or_default();
        return format!("{}{most} tasks, on any nodes", gang.nodes);
    }
    let most = gang.nodes_most.map(|most| format!(" to {most}")).unwrap_or_default();
    let nodes = match (gang.nodes, gang.nodes_most) {
        (1, None) => "1 node".to_owned(),
        (n, _) => format!("{n}{most} nodes"),
    };
    match gang.tasks_per_node {
        1 => nodes,
        n => format!("{nodes} · {n} tasks on each"),
    }
}

/// CPU cores in words: `1 CPU`, `0.5 CPUs`, `4 CPUs`.
#[must_use]
pub fn cores(cpus: f64) -> String {
    let text = cpus.to_string();
    if text == "1" { "1 CPU".to_owned() } else { format!("{text} CPUs") }
}

#[must_use]
pub fn limit(job: &Job) -> Option<Millis> {
    job.request.time_seconds().map(super::clock::span)
}

/// A command with shell quotes.
#[must_use]
pub fn command(words: &[String]) -> String {
    words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ")
}

fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "_-./=:,@%+".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

/// The software environment of a job.
#[must_use]
pub fn active(activate: &gpool_wire::Activate) -> String {
    use gpool_wire::Activate;
    let text = match activate {
        Activate::Conda(path) => format!("conda {path}"),
        Activate::Venv(path) => format!("venv {path}"),
        Activate::Modules(modules) => format!("modules {}", modules.names.join(" ")),
    };
    super::safe::safe(&text).into_owned()
}

/// The most GPU-hours that a job may use by its time limit; for an array, of each element.
#[must_use]
pub fn requested_gpu_hours(report: &Report) -> Option<f64> {
    let limit = report.job.request.time_seconds().filter(|_| report.job.array.is_none())?;
    let hours = f64::from(report.n_gpus) * limit / 3600.0;
    Some(hours).filter(|hours| *hours > 0.0)
}
