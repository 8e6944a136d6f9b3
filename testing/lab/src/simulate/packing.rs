//! `gpool simulate packing`: the utilization of a cluster under several policies.

use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use clap::Args;
use gpool_cli::errors;
use gpool_cli::exit::Exit;
use gpool_cli::failure::{Failure, Result};
use gpool_cli::render::json;
use gpool_cli::render::yaml;
use gpool_cli::screen::Screen;
use gpool_cli::session::Session;
use gpool_trace::TraceError;
use gpool_trace::interval::{Mean, Sum};
use gpool_trace::openb::Cluster;
use gpool_trace::packing::{Churned, Experiment, Filled, Mix, TaskDemand};
use gpool_trace::packing_policy::Policy;
use serde_json::{Value, json};
use signal_hook::consts::SIGINT;

use crate::render::csv;
use crate::render::grid::Grid;
use crate::simulate::ResultFormat;
use crate::simulate::compare::{self, Comparison, Words};
use crate::simulate::progress::{Progress, words};

/// Requested fractions of all GPUs at which the allocation is measured.
const AT: [f64; 5] = [0.90, 0.95, 1.00, 1.10, 1.30];
/// The index of 100 % in `AT`.
const ALL: usize = 2;

/// Fill a cluster with tasks under several policies, and report its utilization
#[derive(Debug, Clone, Args)]
#[command(after_help = "Tasks arrive one after the other and stay: first the tasks of the file \
    in random order, then random ones again. A task that does not fit is rejected. With --churn, \
    tasks also end.\n\nPolicies: the rules random, best-fit, fgd, rollout; with settings: \
    rollout:margin=8,length=20, fgd:margin=30. Or presets such as fair: then the real scheduler \
    decides.")]
pub struct PackingArgs {
    /// Table of nodes: sn,cpu_milli,memory_mib,gpu,model
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    nodes: PathBuf,
    #[allow(rustdoc::broken_intra_doc_links, reason = "optional columns, in brackets")]
    /// Table of tasks: cpu_milli,memory_mib,num_gpu,gpu_milli[,gpu_spec]
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    tasks: PathBuf,
    /// Policy that chooses nodes; repeatable
    #[arg(long = "policy", value_name = "POLICY", default_values = ["fgd", "rollout"])]
    policies: Vec<Policy>,
    /// Seeds of random orders of the tasks, e.g. 7, 1,5 or 1..10 (inclusive)
    #[arg(long, value_name = "SEEDS", default_value = "1..10")]
    seeds: Seeds,
    /// Fraction of all GPUs that arriving and ending tasks would use, e.g. 0.95
    #[arg(long, value_name = "LOAD", value_parser = load)]
    churn: Option<f64>,
    /// Maximum number of tasks that may move for a task that does not fit
    #[arg(long, value_name = "N", requires = "churn", default_value_t = 0)]
    moves: usize,
    /// Output format: text, json, jsonl, yaml or csv
    #[arg(short, long, value_enum, value_name = "FORM", default_value = "text")]
    #[arg(hide_possible_values = true)]
    output: ResultFormat,
}

/// Seeds, as written on the command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seeds(pub Vec<u64>);

impl FromStr for Seeds {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let wrong = || format!("{text:?} is not a list of seeds; write 7, 1,5 or 1..10");
        let number = |text: &str| text.trim().parse::<u64>().map_err(|_| wrong());
        let mut seeds = Vec::new();
        for part in text.split(',') {
            match part.split_once("..") {
                None => seeds.push(number(part)?),
                Some((first, last)) => {
                    let (first, last) = (number(first)?, number(last)?);
                    if first > last || last - first >= 1_000 {
                        return Err(format!(
                            "{part:?} is not a range of seeds; write LOW..HIGH, at most 1000 seeds"
                        ));
                    }
                    seeds.extend(first..=last);
                }
            }
        }
        Ok(Self(seeds))
    }
}

fn load(text: &str) -> std::result::Result<f64, String> {
    match text.parse::<f64>() {
        Ok(load) if load > 0.0 && load <= 10.0 => Ok(load),
        _ => Err(format!("{text:?} is not a fraction of all GPUs; write e.g. 0.95")),
    }
}

/// The result of one policy and one seed.
enum Measured {
    Filled(Vec<Filled>),
    Churned(Churned),
}

/// Runs the verb.
///
/// # Errors
/// A file can't be read, or is not valid.
pub fn run(args: &PackingArgs, session: &Session) -> Result {
    let cluster = Cluster::read(&args.nodes).map_err(|error| refused(&error))?;
    let tasks = cluster.read_tasks(&args.tasks).map_err(|error| refused(&error))?;
    if cluster.gpus() == 0 {
        return Err(no_use(&args.nodes, "it has no node with GPUs"));
    }
    if tasks.iter().all(|ask| ask.gpus() == 0) {
        return Err(no_use(&args.tasks, "no task requests GPUs"));
    }
    let mix = Mix::of(&tasks, &cluster.gpus_by_model());
    let stop = Arc::new(AtomicBool::new(false));
    // A second Ctrl-C does not wait for the current seed.
    signal_hook::flag::register_conditional_shutdown(SIGINT, 130, Arc::clone(&stop))
        .and_then(|_| signal_hook::flag::register(SIGINT, Arc::clone(&stop)))
        .map_err(|error| Failure::new(errors::INTERNAL, format!("can't catch Ctrl-C: {error}")))?;
    let measured = measure(args, session, (&cluster, &tasks, &mix), &stop)?;
    let is_part = stop.load(Ordering::Relaxed);
    let compared = comparisons(&measured);
    let warnings = compare::warnings(&compared, WORDS);
    for words in &warnings {
        session.screen.warn(words);
    }
    let keys = if args.churn.is_none() { &FILLED[..] } else { &CHURNED[..] };
    let items = items(&measured, args.churn);
    let document = |items: Vec<Value>| {
        json::one(json!({
            "gpus": cluster.gpus() / 1000,
            "nodes": cluster.nodes.len(),
            "tasks": tasks.len(),
            "churn": args.churn,
            "moves": args.moves,
            "interrupted": is_part,
            "warnings": warnings,
            "items": items,
            "comparisons": compared.iter().map(|it| it.json(WORDS)).collect::<Vec<_>>(),
        }))
    };
    let text = match args.output.or_json(session.global.json) {
        ResultFormat::Text => tables(&measured, &compared, args.churn.is_some(), &session.screen),
        ResultFormat::Json => document(items),
        ResultFormat::Jsonl => json::lines(&items),
        ResultFormat::Yaml => yaml::of_json(&document(items)),
        ResultFormat::Csv => csv::of(keys, &items),
    };
    session.screen.data(&text)?;
    Ok(if is_part { Exit::DETACHED } else { Exit::OK })
}

/// The results of each policy and seed, or those until Ctrl-C.
fn measure<'a>(
    args: &'a PackingArgs,
    session: &Session,
    (cluster, tasks, mix): (&Cluster, &[TaskDemand], &Mix),
    stop: &AtomicBool,
) -> Result<Vec<Of<'a>>> {
    let mut measured: Vec<Of<'_>> = Vec::new();
    let (began, n_seeds) = (Instant::now(), args.seeds.0.len());
    let mut progress = Progress::new(args.policies.len());
    'all: for policy in &args.policies {
        measured.push((policy, Vec::new()));
        for (ix, seed) in args.seeds.0.iter().enumerate() {
            if stop.load(Ordering::Relaxed) {
                session.screen.warn("interrupted: these are the results so far");
                break 'all;
            }
            let (place, nth, part) = (progress.place(), ix + 1, ix as f64 / n_seeds as f64);
            let so_far = words(progress.part(part), progress.left(began.elapsed(), part));
            let shown = format!("{policy}{place}: seed {nth} of {n_seeds}; {so_far}");
            session.screen.progress(&shown);
            let (by, seed) = (&policy.by, *seed);
            let it = Experiment { cluster, tasks, mix, by, seed };
            let result = match args.churn {
                None => it.fill(&AT).map(Measured::Filled),
                Some(load) => it.churn(load, args.moves).map(Measured::Churned),
            };
            let result = result.map_err(|error| {
                let what = format!("{policy}: the tasks can't be placed");
                Failure::new(errors::NOT_PLAYED, what).why(error.to_string())
            })?;
            if let Some((_, all)) = measured.last_mut() {
                all.push((seed, result));
            }
        }
        progress.next(began.elapsed());
    }
    session.screen.progress("");
    measured.retain(|(_, all)| !all.is_empty());
    Ok(measured)
}

fn refused(error: &TraceError) -> Failure {
    Failure::new(errors::BAD_TRACE, error.to_string()).tip("gpool simulate packing --help")
}

fn no_use(file: &Path, why: &str) -> Failure {
    Failure::new(errors::BAD_TRACE, format!("can't use {}", file.display())).why(why)
}

/// The results of one policy, by seed.
type Of<'a> = (&'a Policy, Vec<(u64, Measured)>);

type All<'a> = [Of<'a>];

/// The keys for each policy, seed and amount, in the order of the columns.
const FILLED: [&str; 5] = ["policy", "seed", "arrived", "allocated", "fragment"];
/// The keys with churn.
const CHURNED: [&str; 8] =
    ["policy", "seed", "load", "allocated", "rejected", "rejected_of_eight", "arrivals", "moves"];

fn items(measured: &All<'_>, load: Option<f64>) -> Vec<Value> {
    let mut items = Vec::new();
    for (policy, all) in measured {
        for (seed, result) in all {
            let policy = policy.to_string();
            match result {
                Measured::Filled(filled) => items.extend(filled.iter().map(|it| {
                    json!({
                        "policy": policy, "seed": seed, "arrived": it.arrived,
                        "allocated": it.allocated, "fragment": it.fragment,
                    })
                })),
                Measured::Churned(it) => items.push(json!({
                    "policy": policy, "seed": seed, "load": load, "allocated": it.allocated,
                    "rejected": it.rejected, "rejected_of_eight": it.rejected_of_eight,
                    "arrivals": it.n_arrived, "moves": it.n_moves,
                })),
            }
        }
    }
    items
}

/// The names in a comparison of seeds.
const WORDS: Words = Words {
    unit: "",
    value: "IDLE",
    results: ("less", "more"),
    pairs: "seed",
    block: "seed",
    n_blocks_min: 5,
};

/// The value to compare, lower is better: idle GPUs at 100 %, or rejected GPUs with churn.
fn loss(measured: &Measured) -> Option<f64> {
    match measured {
        Measured::Filled(filled) => filled.get(ALL).map(|it| 1.0 - it.allocated),
        Measured::Churned(it) => Some(it.rejected),
    }
}

/// Each policy against the first, by the seeds that both have.
fn comparisons(measured: &All<'_>) -> Vec<Comparison> {
    let Some(((first, before), others)) = measured.split_first() else { return Vec::new() };
    let comparison = |(policy, after): &Of<'_>| {
        let same = |seed: u64| before.iter().find(|(it, _)| *it == seed);
        let pair = |(seed, it): &(u64, Measured)| Some((loss(&same(*seed)?.1)?, loss(it)?));
        let losses: Vec<(f64, f64)> = after.iter().filter_map(pair).collect();
        let sum = |(first, other): &(f64, f64)| Sum { sum: other - first, n: 1.0 };
        let sums: Vec<Sum> = losses.iter().map(sum).collect();
        let (of_first, of_other) = losses.iter().copied().unzip::<_, _, Vec<_>, Vec<_>>();
        Some(Comparison {
            first: first.to_string(),
            policy: policy.to_string(),
            n_pairs: losses.len(),
            means: (Spread::of(of_first.into_iter()).mean, Spread::of(of_other.into_iter()).mean),
            difference: Mean::of(&sums)?,
            deviation: Spread::of(sums.iter().map(|it| it.sum)).deviation,
        })
    };
    others.iter().filter_map(comparison).collect()
}

fn tables(measured: &All<'_>, compared: &[Comparison], has_churn: bool, screen: &Screen) -> String {
    let results = if has_churn { churned(measured) } else { filled(measured) }.text(screen);
    let words = if has_churn { Words { value: "REJECTED", ..WORDS } } else { WORDS };
    let points = |part: f64| format!("{:.2}%", part * 100.0);
    match compare::grid(compared, words, points) {
        Some(compared) => format!("{results}\n{}", compared.text(screen)),
        None => results,
    }
}

fn filled(measured: &All<'_>) -> Grid {
    let mut head = vec!["POLICY".to_owned()];
    head.extend(AT.iter().map(|at| format!("AT {:.0}%", at * 100.0)));
    head.extend(["FRAGMENTED", "IDLE", "RATIO", "SEEDS"].map(str::to_owned));
    let mut rows = Vec::new();
    let mut first: Option<f64> = None;
    for (policy, all) in measured {
        let of = |at: usize, get: fn(&Filled) -> f64| {
            let values = all.iter().filter_map(|(_, it)| match it {
                Measured::Filled(filled) => filled.get(at).map(get),
                Measured::Churned(_) => None,
            });
            Spread::of(values)
        };
        let mut row = vec![policy.to_string()];
        row.extend((0..AT.len()).map(|at| of(at, |it| it.allocated).percent()));
        let idle = 1.0 - of(ALL, |it| it.allocated).mean;
        row.push(percent(of(ALL, |it| it.fragment).mean) + "%");
        row.push(percent(idle) + "%");
        row.push(ratio(idle, *first.get_or_insert(idle)));
        row.push(all.len().to_string());
        rows.push(row);
    }
    let note =
        "AT 95%      allocated GPUs, in percent of all, once tasks for 95% of all GPUs have been\n\
         \u{20}           requested: the mean of all seeds ± the standard deviation\n\
         FRAGMENTED  GPUs that are idle at 100% and of no use to the next task\n\
         IDLE        all GPUs that are idle at 100%\n\
         RATIO       IDLE divided by that of the first policy\n"
            .to_owned();
    Grid { head, rows, note }
}

fn churned(measured: &All<'_>) -> Grid {
    let head = ["POLICY", "ALLOCATED", "REJECTED", "RATIO", "REJECTED 8 GPUS", "MOVES", "SEEDS"];
    let mut rows = Vec::new();
    let mut first: Option<f64> = None;
    for (policy, all) in measured {
        let of = |get: fn(&Churned) -> f64| {
            let values = all.iter().filter_map(|(_, it)| match it {
                Measured::Churned(churned) => Some(get(churned)),
                Measured::Filled(_) => None,
            });
            Spread::of(values)
        };
        let rejected = of(|it| it.rejected);
        let moves = of(|it| it.n_moves as f64 * 100.0 / it.n_arrived.max(1) as f64).mean;
        rows.push(vec![
            policy.to_string(),
            of(|it| it.allocated).percent(),
            rejected.percent(),
            ratio(rejected.mean, *first.get_or_insert(rejected.mean)),
            of(|it| it.rejected_of_eight).percent(),
            format!("{moves:.2}"),
            all.len().to_string(),
        ]);
    }
    let note = "ALLOCATED        GPUs in use, in percent of all, averaged over time\n\
         REJECTED         rejected GPUs, in percent of the requested ones\n\
         RATIO            REJECTED divided by that of the first policy\n\
         REJECTED 8 GPUS  rejected tasks of 8 GPUs, in percent of these tasks\n\
         MOVES            moved tasks for each 100 tasks that arrived\n"
        .to_owned();
    Grid { head: head.map(str::to_owned).to_vec(), rows, note }
}

/// A mean and its standard deviation.
struct Spread {
    mean: f64,
    deviation: Option<f64>,
}

impl Spread {
    fn of(values: impl Iterator<Item = f64>) -> Self {
        let values: Vec<f64> = values.collect();
        let n = values.len() as f64;
        let mean = values.iter().sum::<f64>() / n.max(1.0);
        let squares: f64 = values.iter().map(|it| (it - mean).powi(2)).sum();
        let deviation = (values.len() > 1).then(|| (squares / (n - 1.0)).sqrt());
        Self { mean, deviation }
    }

    fn percent(&self) -> String {
        match self.deviation {
            Some(deviation) => format!("{:.2}±{:.2}", self.mean * 100.0, deviation * 100.0),
            None => format!("{:.2}", self.mean * 100.0),
        }
    }
}

fn percent(part: f64) -> String {
    format!("{:.2}", part * 100.0)
}

fn ratio(value: f64, first: f64) -> String {
    if first > 0.0 { format!("{:.2}", value / first) } else { "-".to_owned() }
}
