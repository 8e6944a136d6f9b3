//! The jobs on each GPU: one day on a few nodes, since a whole trace would be too large to read.

use gpool_trace::queue::Outcome;
use gpool_trace::{Layout, Place};
use serde_json::{Value, json};

use super::owners::Owners;
use super::window::{DAY, Window, spread};

/// Most GPUs that are shown.
const GPUS_MAX: u32 = 64;
/// Most runs on GPUs of all policies together.
const RUNS_MAX: usize = 10_000;

/// The shown part: the first nodes in a time range.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Cut<'a> {
    nodes: &'a [Place],
    from: f64,
    to: f64,
}

/// A run on one GPU.
struct OnGpu<'a> {
    /// The number of the GPU among all shown ones.
    row: u32,
    owner: &'a str,
    from: f64,
    to: f64,
}

/// The runs on the first nodes on the day with the highest utilization.
pub fn of(
    played: &[(String, Outcome)],
    owners: &Owners,
    window: Window,
    cluster: &Layout,
) -> Vec<Value> {
    let Some((_, first)) = played.first() else { return Vec::new() };
    let (from, to) = busiest(first, window);
    let all_nodes = &cluster.nodes[..];
    let fits = |n: &usize| first_rows(&all_nodes[..*n]).1 <= GPUS_MAX;
    let n = (1..=all_nodes.len()).take_while(fits).last().unwrap_or(1);
    let mut cut = Cut { nodes: &all_nodes[..n.min(all_nodes.len())], from, to };
    let runs = |cut| -> Vec<Vec<OnGpu<'_>>> {
        played.iter().map(|(_, outcome)| runs_in(outcome, owners, window, cut)).collect()
    };
    let mut all = runs(cut);
    while all.iter().map(Vec::len).sum::<usize>() > RUNS_MAX {
        // Halves the number of nodes; for a single node, halves the time.
        match cut.nodes.len() {
            0 | 1 => cut.to = f64::midpoint(cut.from, cut.to),
            n => cut.nodes = &cut.nodes[..n.div_ceil(2)],
        }
        all = runs(cut);
    }
    played.iter().zip(all).map(|((policy, _), runs)| json(policy, &runs, cut)).collect()
}

fn json(policy: &str, runs: &[OnGpu<'_>], cut: Cut<'_>) -> Value {
    let gpu = |node: &'_ Place| {
        let name = node.name.clone();
        (0..node.n_gpus).map(move |ix| format!("{name} GPU {ix}"))
    };
    let rows: Vec<String> = cut.nodes.iter().flat_map(gpu).collect();
    let busy: f64 = runs.iter().map(|run| run.to - run.from).sum();
    let column = |value: fn(&OnGpu<'_>) -> f64| runs.iter().map(value).collect::<Vec<f64>>();
    json!({
        "policy": policy,
        "shown_s": [cut.from, cut.to],
        "in_use": busy / (rows.len().max(1) as f64 * (cut.to - cut.from)),
        "rows": rows,
        "row": runs.iter().map(|run| run.row).collect::<Vec<_>>(),
        "owner": runs.iter().map(|run| run.owner).collect::<Vec<_>>(),
        "from_s": column(|run| run.from),
        "until_s": column(|run| run.to),
    })
}

/// The begin and the end of the first day with the most GPU time in use.
fn busiest(outcome: &Outcome, window: Window) -> (f64, f64) {
    let days = window.steps(DAY);
    let mut used = vec![0.0; days.len()];
    for job in &outcome.jobs {
        for run in &job.runs {
            let ran = (window.at(run.from), window.at(run.until));
            spread(&days, ran, |ix, span| used[ix] += span * job.n_gpus());
        }
    }
    let most = used.iter().copied().fold(0.0, f64::max);
    let ix = used.iter().position(|used| *used >= most).unwrap_or(0);
    days.get(ix).copied().unwrap_or((0.0, window.span))
}

fn runs_in<'a>(
    outcome: &'a Outcome,
    owners: &'a Owners,
    window: Window,
    cut: Cut<'_>,
) -> Vec<OnGpu<'a>> {
    let (rows, _) = first_rows(cut.nodes);
    let mut found = Vec::new();
    for job in &outcome.jobs {
        for run in &job.runs {
            let (from, to) = (window.at(run.from).max(cut.from), window.at(run.until).min(cut.to));
            if from >= to {
                continue;
            }
            for (node, gpu) in &run.devices {
                let Some(first) = rows.get(*node as usize) else { continue };
                found.push(OnGpu { row: first + gpu, owner: owners.name(&job.owner), from, to });
            }
        }
    }
    found
}

/// The first row of each node, and the number of all rows.
fn first_rows(nodes: &[Place]) -> (Vec<u32>, u32) {
    let mut next = 0;
    let first = |node: &Place| {
        next += node.n_gpus;
        next - node.n_gpus
    };
    let rows = nodes.iter().map(first).collect();
    (rows, next)
}
