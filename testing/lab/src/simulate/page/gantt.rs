//! The jobs on each GPU: one day on a few nodes, since a whole trace would be too large to read and
//! to store in a page.

use gpool_cli::render::safe::safe;
use gpool_cli::render::words::count;
use gpool_trace::queue::Outcome;
use gpool_trace::{Layout, Place};

use super::owners::Owners;
use super::window::{Window, spread};
use super::{Figure, Panel, percent};
use crate::render::plot::{Axis, Block, DAY, HOUR, Plot, Scale, plain};

/// Most GPUs that are shown.
const ROWS_MAX: u32 = 64;
/// Most boxes of all plots together; each takes about 20 bytes.
const BLOCKS_MAX: usize = 30_000;
/// Height of a GPU's row.
const ROW: f64 = 6.0;

/// The shown part: the first nodes in a time range.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Cut<'a> {
    nodes: &'a [Place],
    from: f64,
    to: f64,
}

/// The jobs on the first nodes on the day with the highest utilization.
pub fn figure(
    played: &[(String, Outcome)],
    owners: &Owners,
    window: Window,
    cluster: &Layout,
) -> Option<Figure> {
    let (_, first) = played.first()?;
    let (day, from, to) = busiest(first, window);
    let all_nodes = &cluster.nodes[..];
    let fits = |n: &usize| n_rows(&all_nodes[..*n]) <= ROWS_MAX;
    let n = (1..=all_nodes.len()).take_while(fits).last().unwrap_or(1);
    let mut cut = Cut { nodes: all_nodes.get(..n)?, from, to };
    let mut all = blocks_of_all(played, owners, window, cut);
    while all.iter().flatten().map(Vec::len).sum::<usize>() > BLOCKS_MAX {
        // Halves the number of nodes; for a single node, halves the time.
        match cut.nodes.len() {
            1 => cut.to = f64::midpoint(cut.from, cut.to),
            n => cut.nodes = &cut.nodes[..n.div_ceil(2)],
        }
        all = blocks_of_all(played, owners, window, cut);
    }
    let n_rows = n_rows(cut.nodes).max(1);
    let height = f64::from(n_rows).mul_add(ROW, 60.0);
    let which = match cut.nodes.len() {
        n if n == all_nodes.len() => "all nodes".to_owned(),
        1 => "the first node".to_owned(),
        n => format!("the first {n} nodes"),
    };
    let panels = played.iter().zip(all).map(|((policy, _), blocks)| {
        let area: f64 = blocks.iter().flatten().map(|it| it.x.1 - it.x.0).sum();
        let part = area / (f64::from(n_rows) * (cut.to - cut.from));
        let title = format!("GPUs of {which} with {policy}");
        let summary = format!(
            "{} in use {} of the time, by {} of jobs",
            count(u64::from(n_rows), "GPU"),
            percent(part),
            count(blocks.iter().map(Vec::len).sum::<usize>() as u64, "run")
        );
        let mut plot = Plot::new(&title, &summary, (960.0, height), hours(cut), rows(cut.nodes));
        for (class, blocks) in blocks.into_iter().enumerate() {
            let apart = blocks.into_iter().map(|block| block_apart(block, cut));
            plot.blocks(&format!("o{class}"), apart);
        }
        Panel { heading: policy.clone(), plot }
    });
    let text = format!(
        "Each row is a GPU, each box a job in the color of its owner, each gap idle time. Shown \
         are {which} in {} day {day}, the day with the most GPUs in use with {}.",
        if cut.to < to { "the first hours of" } else { "the whole of" },
        played[0].0
    );
    Some(Figure {
        heading: "Jobs on each GPU".to_owned(),
        text,
        keys: owners.keys(),
        panels: panels.collect(),
        grid: None,
        is_wide: true,
        is_long: true,
    })
}

/// The first day with the most GPU time in use: its number from 1, its begin and its end.
fn busiest(outcome: &Outcome, window: Window) -> (usize, f64, f64) {
    let mut days = Vec::new();
    let mut from = 0.0;
    while from < window.span {
        days.push((from, (from + DAY).min(window.span)));
        from += DAY;
    }
    let mut used = vec![0.0; days.len()];
    for job in &outcome.jobs {
        for run in &job.runs {
            let ran = (window.at(run.from), window.at(run.until));
            spread(&days, ran, |ix, span| used[ix] += span * job.n_gpus());
        }
    }
    let most = used.iter().copied().fold(0.0, f64::max);
    let ix = used.iter().position(|used| *used >= most).unwrap_or(0);
    let (from, to) = days.get(ix).copied().unwrap_or((0.0, window.span));
    (ix + 1, from, to)
}

/// The boxes for each policy and color.
fn blocks_of_all(
    played: &[(String, Outcome)],
    owners: &Owners,
    window: Window,
    cut: Cut<'_>,
) -> Vec<Vec<Vec<Block>>> {
    played.iter().map(|(_, outcome)| blocks(outcome, owners, window, cut)).collect()
}

fn blocks(outcome: &Outcome, owners: &Owners, window: Window, cut: Cut<'_>) -> Vec<Vec<Block>> {
    let mut blocks = vec![Vec::new(); owners.classes()];
    let rows = first_rows(cut.nodes);
    for job in &outcome.jobs {
        for run in &job.runs {
            let x = (window.at(run.from).max(cut.from), window.at(run.until).min(cut.to));
            if x.0 >= x.1 {
                continue;
            }
            for (node, gpu) in &run.devices {
                let Some(first) = rows.get(*node as usize) else { continue };
                let row = f64::from(first + gpu);
                let y = (row + 0.92, row + 0.08);
                blocks[owners.class_of(&job.owner)].push(Block { x, y });
            }
        }
    }
    blocks
}

/// A gap separates consecutive jobs; it is small enough not to hide short ones.
fn block_apart(block: Block, cut: Cut<'_>) -> Block {
    let gap = ((block.x.1 - block.x.0) * 0.15).min((cut.to - cut.from) / 1_200.0);
    Block { x: (block.x.0, block.x.1 - gap), ..block }
}

fn hours(cut: Cut<'_>) -> Axis {
    let day = (cut.from / DAY).floor() * DAY;
    let axis = Axis::time("", (cut.from - day, cut.to - day));
    let ticks = axis.ticks.into_iter().map(|(at, text)| (at + day, text)).collect();
    let label = match cut.to - cut.from {
        span if span > 2.0 * HOUR => format!("hours of day {}", plain(day / DAY + 1.0)),
        _ => axis.label.replace("since ", &format!("of day {}", plain(day / DAY + 1.0))),
    };
    Axis { label, scale: Scale::Linear(cut.from, cut.to), ticks }
}

/// The number of rows of all these nodes.
fn n_rows(nodes: &[Place]) -> u32 {
    nodes.iter().map(|node| node.n_gpus).sum()
}

/// The first row of each node.
fn first_rows(nodes: &[Place]) -> Vec<u32> {
    let first = |next: &mut u32, node: &Place| {
        let first = *next;
        *next += node.n_gpus;
        Some(first)
    };
    nodes.iter().scan(0, first).collect()
}

fn rows(nodes: &[Place]) -> Axis {
    let mut ticks = Vec::new();
    // A text is as high as two rows.
    let mut free = 0;
    for (node, row) in nodes.iter().zip(first_rows(nodes)) {
        if row >= free && node.n_gpus > 0 {
            ticks.push((f64::from(row), safe(&node.name).into_owned()));
            free = row + 3;
        }
    }
    let n_rows = f64::from(n_rows(nodes));
    Axis { label: String::new(), scale: Scale::Linear(n_rows, 0.0), ticks }
}
