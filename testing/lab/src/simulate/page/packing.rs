//! The page of `gpool simulate packing`.

use std::path::Path;

use gpool_cli::render::safe::safe;
use gpool_cli::render::words::{count, grouped};
use gpool_trace::interval::{Mean, Sum};

use super::{
    Figure, Grid, Key, Page, Panel, USUAL, by_how_much, class_of, command, interval, keys, listed,
    percent, points, signed, verdict,
};
use crate::render::plot::{Axis, Block, Plot, Scale};
use crate::simulate::VERSION;

/// With fewer seeds a confidence interval is unreliable.
const SEEDS_MIN: usize = 5;
/// Height of a policy's row.
const ROW: f64 = 46.0;

/// The results of one seed, as fractions of all GPUs or of all requests.
#[derive(Debug, Clone, PartialEq)]
pub struct Seed {
    pub seed: u64,
    /// The compared value; smaller is better.
    pub loss: f64,
    /// Allocated against requested GPUs, without churn.
    pub filled: Vec<(f64, f64)>,
    /// Rejected tasks with eight GPUs, with churn.
    pub of_eight: Option<f64>,
}

/// The input and the results.
pub struct Packing<'a> {
    /// The file of the nodes.
    pub nodes: &'a Path,
    /// The file of the tasks.
    pub tasks: &'a Path,
    /// Number of nodes.
    pub n_nodes: usize,
    /// Number of GPUs.
    pub n_gpus: u64,
    /// Number of tasks.
    pub n_tasks: usize,
    /// With churn: the requested fraction of all GPUs, and the most moves for one task.
    pub churn: Option<(f64, usize)>,
    /// The policies with their results.
    pub measured: Vec<(String, Vec<Seed>)>,
    /// Whether the run was interrupted.
    pub is_part: bool,
    /// The table for the terminal.
    pub table: Grid,
}

/// One policy against the first, seed by seed.
struct Pair<'a> {
    first: &'a str,
    other: &'a str,
    losses: (f64, f64),
    difference: Mean,
    deviation: Option<f64>,
}

/// The texts for the compared value.
struct Words {
    /// The text before the fraction.
    before: &'static str,
    /// The text after the fraction.
    is_lost: &'static str,
    less: (&'static str, &'static str),
    heading: &'static str,
    /// The whole that the value is a fraction of.
    of: &'static str,
}

const FILLED: Words = Words {
    before: "Once tasks for all GPUs have been requested, ",
    is_lost: "of the GPUs are idle",
    less: ("less", "more"),
    heading: "Idle GPUs once all have been requested",
    of: "percent of all GPUs",
};
const CHURNED: Words = Words {
    before: "",
    is_lost: "of the requested GPUs are rejected",
    less: ("less", "more"),
    heading: "Rejected GPUs",
    of: "percent of the requested GPUs",
};

/// The page as HTML.
#[must_use]
pub fn page(packing: Packing<'_>) -> String {
    let words = if packing.churn.is_some() { &CHURNED } else { &FILLED };
    let measured = &packing.measured;
    let pairs = pairs(measured);
    let names: Vec<&str> = measured.iter().map(|(policy, _)| policy.as_str()).collect();
    let each = if names.len() > 1 { ", each for the same tasks" } else { "" };
    let how = match packing.churn {
        None => "arrive one after the other and stay",
        Some(_) => "arrive and end",
    };
    let mut figures = Vec::new();
    if measured.iter().any(|(_, seeds)| !seeds.is_empty()) {
        if packing.churn.is_none() {
            figures.push(curves(measured));
        }
        figures.push(paired((words.heading, words.of), measured, |seed| Some(seed.loss)));
        if packing.churn.is_some() {
            let of_eight = ("Rejected tasks of 8 GPUs", "percent of the tasks of 8 GPUs");
            figures.push(paired(of_eight, measured, |seed| seed.of_eight));
        }
    }
    let page = Page {
        title: format!("Cluster utilization: {}", listed(&names)),
        lead: format!(
            "Tasks {how} in a cluster of {} and {}; a task that does not fit is rejected. Nodes \
             are chosen by {}{each}.",
            count(packing.n_nodes as u64, "node"),
            count(packing.n_gpus, "GPU"),
            listed(&names),
        ),
        answers: answers(measured, &pairs, words),
        warnings: warnings(packing.is_part, &pairs),
        facts: facts(&packing, &names),
        command: command(),
        figures,
        grids: std::iter::once(packing.table).chain(differences(&pairs, words)).collect(),
        version: VERSION,
    };
    page.to_string()
}

fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (sum, n) = values.fold((0.0, 0.0), |(sum, n), value| (sum + value, n + 1.0));
    (n > 0.0).then(|| sum / n)
}

/// The standard deviation.
fn deviation(values: &[f64]) -> Option<f64> {
    let mean = mean(values.iter().copied())?;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (values.len() > 1).then(|| (squares / (values.len() as f64 - 1.0)).sqrt())
}

fn pairs(measured: &[(String, Vec<Seed>)]) -> Vec<Pair<'_>> {
    let Some(((first, before), others)) = measured.split_first() else { return Vec::new() };
    let others = others.iter();
    others.filter_map(|(other, after)| Pair::of((first, before), (other, after))).collect()
}

impl<'a> Pair<'a> {
    /// The seeds that both policies have.
    fn of((first, before): (&'a str, &[Seed]), (other, after): (&'a str, &[Seed])) -> Option<Self> {
        let same = |it: &Seed| before.iter().find(|seed| seed.seed == it.seed);
        let losses: Vec<(f64, f64)> =
            after.iter().filter_map(|it| same(it).map(|seed| (seed.loss, it.loss))).collect();
        let differences: Vec<f64> = losses.iter().map(|(first, other)| other - first).collect();
        let sums: Vec<Sum> = differences.iter().map(|sum| Sum { sum: *sum, n: 1.0 }).collect();
        Some(Self {
            first,
            other,
            losses: (
                mean(losses.iter().map(|(first, _)| *first))?,
                mean(losses.iter().map(|(_, other)| *other))?,
            ),
            difference: Mean::of(&sums)?,
            deviation: deviation(&differences),
        })
    }
}

fn answers(measured: &[(String, Vec<Seed>)], pairs: &[Pair<'_>], words: &Words) -> Vec<String> {
    let Words { before, is_lost, .. } = words;
    let compared = pairs.iter().map(|pair| {
        let Pair { first, other, losses, difference, .. } = pair;
        let (was, is) = (percent(losses.0), percent(losses.1));
        if losses.0 == losses.1 {
            return format!("{before}{is} {is_lost} with {first} and with {other}.");
        }
        let by = by_how_much(difference, words.less, points);
        format!("{before}{was} {is_lost} with {first}, {is} with {other}{by}.")
    });
    let alone = measured.iter().filter_map(|(policy, seeds)| {
        let loss = mean(seeds.iter().map(|seed| seed.loss))?;
        Some(format!("{before}{} {is_lost} with {policy}.", percent(loss)))
    });
    let answers: Vec<String> = if pairs.is_empty() { alone.collect() } else { compared.collect() };
    match answers.is_empty() {
        true => vec!["No seed was completed: there is no result.".to_owned()],
        false => answers,
    }
}

fn warnings(is_part: bool, pairs: &[Pair<'_>]) -> Vec<String> {
    let mut warnings = Vec::new();
    if is_part {
        warnings.push(
            "This result is partial: the simulation was interrupted. Policies are compared by the \
             seeds that both completed."
                .to_owned(),
        );
    }
    if let Some(pair) = pairs.iter().find(|pair| pair.difference.n_blocks < SEEDS_MIN) {
        warnings.push(format!(
            "There are too few seeds: {}. With fewer than {SEEDS_MIN} the confidence interval is \
             unreliable.",
            count(pair.difference.n_blocks as u64, "seed")
        ));
    }
    let are_alike = |pair: &&Pair<'_>| !pair.difference.is_told();
    let alike: Vec<&str> = pairs.iter().filter(are_alike).map(|pair| pair.other).collect();
    if let ([_, ..], Some(pair)) = (&alike[..], pairs.first()) {
        warnings.push(format!(
            "The difference between {} and {} is not significant: its confidence interval contains \
             0, or there is none.",
            pair.first,
            listed(&alike)
        ));
    }
    warnings
}

fn facts(packing: &Packing<'_>, names: &[&str]) -> Vec<(&'static str, String)> {
    let path = |path: &Path| safe(&path.display().to_string()).into_owned();
    let seeds = packing.measured.iter().map(|(_, seeds)| seeds.len()).max().unwrap_or(0);
    let (nodes, gpus) = (packing.n_nodes as u64, packing.n_gpus);
    let mut facts = vec![
        (
            "Cluster",
            format!("{}: {}, {}", path(packing.nodes), count(nodes, "node"), count(gpus, "GPU")),
        ),
        ("Tasks", format!("{}: {}", path(packing.tasks), grouped(packing.n_tasks as u64))),
        ("Policies", names.join(" · ")),
        ("Seeds", format!("{seeds}; each is a random order of the same tasks")),
        ("Known run times", "none: packing does not use them".to_owned()),
    ];
    if let Some((load, n_moves)) = packing.churn {
        let moves = match n_moves {
            0 => "no task moves".to_owned(),
            n => format!("up to {} can move for a task that does not fit", count(n as u64, "task")),
        };
        facts.push(("Load", format!("tasks for {} of all GPUs; {moves}", percent(load))));
    }
    facts
}

fn differences(pairs: &[Pair<'_>], words: &Words) -> Option<Grid> {
    let first = pairs.first()?.first;
    let mut head = ["POLICY", "VALUE", "OF", "DIFFERENCE", "±", "95 % INTERVAL", "SEEDS", "RESULT"]
        .map(str::to_owned)
        .to_vec();
    head[2] = format!("WITH {first}");
    let row = |pair: &Pair<'_>| {
        vec![
            pair.other.to_owned(),
            percent(pair.losses.1),
            percent(pair.losses.0),
            signed(pair.difference.mean, points),
            pair.deviation.map_or("-".to_owned(), points),
            interval(&pair.difference, points),
            pair.difference.n_blocks.to_string(),
            verdict(&pair.difference, ("less", "more")),
        ]
    };
    Some(Grid {
        caption: format!("{}: comparison with {first}, seed by seed", words.heading),
        head,
        rows: pairs.iter().map(row).collect(),
        note: "DIFFERENCE is the average difference between results of the same seed, ± its \
               standard deviation. Seeds are orders of one set of tasks on one cluster; the \
               confidence interval does not hold for others."
            .to_owned(),
    })
}

/// Allocated against requested GPUs.
fn curves(measured: &[(String, Vec<Seed>)]) -> Figure {
    let at: Vec<f64> = measured
        .iter()
        .flat_map(|(_, seeds)| seeds)
        .next()
        .map_or(Vec::new(), |seed| seed.filled.iter().map(|(arrived, _)| *arrived).collect());
    let of = |seeds: &[Seed], ix: usize| -> Vec<f64> {
        seeds.iter().filter_map(|seed| seed.filled.get(ix).map(|(_, given)| *given)).collect()
    };
    let all = measured.iter().flat_map(|(_, seeds)| seeds).flat_map(|seed| &seed.filled);
    let least = all.map(|(_, given)| *given).fold(0.9, f64::min);
    let from = (least * 20.0).floor() / 20.0;
    let ends = (at.first().copied().unwrap_or(0.9), at.last().copied().unwrap_or(1.3));
    let x = Axis {
        label: "requested GPUs, percent of all".to_owned(),
        scale: Scale::Linear(ends.0, ends.1),
        ticks: at.iter().map(|at| (*at, format!("{:.0} %", at * 100.0))).collect(),
    };
    let y = Axis::percent("allocated GPUs, percent of all", (from, 1.0), 5);
    let mut head = vec!["POLICY".to_owned()];
    head.extend(at.iter().map(|at| format!("AT {:.0} %", at * 100.0)));
    let rows = measured.iter().map(|(policy, seeds)| {
        let parts = (0..at.len()).map(|ix| mean(of(seeds, ix).into_iter()));
        let parts = parts.map(|part| part.map_or("-".to_owned(), percent));
        std::iter::once(policy.clone()).chain(parts).collect()
    });
    let caption = "Allocated GPUs by requested GPUs, in percent of all".to_owned();
    let grid = Grid { caption, head, rows: rows.collect(), note: String::new() };
    let said = grid.rows.iter().map(|row| {
        let parts = row[1..].iter().zip(&grid.head[1..]);
        let parts = parts.map(|(part, at)| format!("{part} {}", at.to_lowercase()));
        format!("with {} {}", row[0], parts.collect::<Vec<_>>().join(", "))
    });
    let summary = said.collect::<Vec<_>>().join("; ");
    let mut plot = Plot::new(&grid.caption, &summary, USUAL, x, y);
    plot.line("bound", &[(ends.0, ends.0), (1.0, 1.0), (ends.1, 1.0)]);
    for (ix, (_, seeds)) in measured.iter().enumerate() {
        let (mut band, mut line) = (Vec::new(), Vec::new());
        for (place, at) in at.iter().enumerate() {
            let values = of(seeds, place);
            let Some(mean) = mean(values.iter().copied()) else { continue };
            let away = deviation(&values).unwrap_or(0.0);
            band.push((*at, mean - away, mean + away));
            line.push((*at, mean));
        }
        plot.area(&format!("band {}", class_of(ix)), &band);
        plot.line(&class_of(ix), &line);
        plot.dots(&class_of(ix), &line);
    }
    let text = format!(
        "The line is the average of all seeds, the band its standard deviation, and the dashed \
         line the requested GPUs up to all GPUs. The vertical axis begins at {:.0} %.",
        from * 100.0
    );
    let keys = keys(measured.iter().map(|(policy, _)| policy.as_str()), Key::line);
    Figure::usual("Allocated GPUs", text, keys, plot, grid)
}

/// A bar for the mean of each policy, a dot for each seed, and lines between the dots of a seed.
fn paired(
    (heading, of): (&str, &str),
    measured: &[(String, Vec<Seed>)],
    get: impl Fn(&Seed) -> Option<f64>,
) -> Figure {
    let values = || measured.iter().flat_map(|(_, seeds)| seeds).filter_map(&get);
    let most = values().fold(0.0, f64::max).max(0.001);
    let n = measured.len() as f64;
    let rows = Axis { label: String::new(), scale: Scale::Linear(n, 0.0), ticks: Vec::new() };
    let x = Axis::percent(of, (0.0, most * 1.05), 5);
    let mut grid = Grid {
        caption: heading.to_owned(),
        head: ["SEED"].map(str::to_owned).to_vec(),
        ..Grid::default()
    };
    grid.head.extend(measured.iter().map(|(policy, _)| policy.clone()));
    let means: Vec<Option<f64>> =
        measured.iter().map(|(_, seeds)| mean(seeds.iter().filter_map(&get))).collect();
    let text_of = |value: Option<f64>| value.map_or("-".to_owned(), percent);
    let said = measured.iter().zip(&means).map(|((policy, seeds), mean)| {
        let seeds = count(seeds.len() as u64, "seed");
        format!("with {policy} {} on average of {seeds}", text_of(*mean))
    });
    let summary = said.collect::<Vec<_>>().join("; ");
    let size = (USUAL.0, n.mul_add(ROW, 64.0));
    let mut plot = Plot::new(heading, &summary, size, x, rows);
    for (row, ((policy, _), mean)) in measured.iter().zip(&means).enumerate() {
        let top = row as f64;
        plot.text(0.0, top + 0.3, &format!("{} · {}", safe(policy), text_of(*mean)));
        let bar = mean.map(|mean| Block { x: (0.0, mean), y: (top + 0.9, top + 0.42) });
        plot.blocks(&format!("pale {}", class_of(row)), bar);
    }
    let first: &[Seed] = measured.first().map_or(&[], |(_, seeds)| seeds);
    for Seed { seed, .. } in first {
        let of_seed = |seeds: &[Seed]| seeds.iter().find(|it| it.seed == *seed).and_then(&get);
        let values: Vec<Option<f64>> = measured.iter().map(|(_, seeds)| of_seed(seeds)).collect();
        let points = values.iter().enumerate();
        let points = points.filter_map(|(row, value)| value.map(|it| (it, row as f64 + 0.66)));
        plot.line("pair", &points.collect::<Vec<_>>());
        let row = std::iter::once(seed.to_string()).chain(values.into_iter().map(text_of));
        grid.rows.push(row.collect());
    }
    for (row, (_, seeds)) in measured.iter().enumerate() {
        let dots = seeds.iter().filter_map(&get).map(|value| (value, row as f64 + 0.66));
        plot.dots(&class_of(row), &dots.collect::<Vec<_>>());
    }
    Figure {
        heading: heading.to_owned(),
        text: "A bar is the average, each dot a seed; lines connect the dots of a seed.".to_owned(),
        keys: Vec::new(),
        panels: vec![Panel { heading: String::new(), plot }],
        grid: Some(grid),
        is_wide: false,
        is_long: false,
    }
}
