//! `gpool simulate queue`: the waiting times of a trace's jobs under several policies.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::render::csv;
use clap::Args;
use gpool_cli::errors;
use gpool_cli::exit::Exit;
use gpool_cli::failure::{Failure, Result};
use gpool_cli::render::json;
use gpool_cli::render::yaml;
use gpool_cli::session::Session;
use gpool_model::{Millis, Timestamp};
use gpool_trace::queue::{LARGE, Outcome, Played, Terms};
use gpool_trace::{Foretold, Layout, Nodes};
use serde_json::{Value, json};
use signal_hook::consts::SIGINT;

use crate::simulate::ResultFormat;
use crate::simulate::history::{Asked, Trace};
use crate::simulate::page::queue::not_as_asked;
use crate::simulate::page::{Grid, queue, span};
use crate::simulate::policy::NamedPolicy;
use crate::simulate::progress::Line;

/// Run the jobs of a trace on a cluster under several policies, and report waiting times
#[derive(Debug, Clone, Args)]
#[command(after_help = "The real scheduler decides in virtual time, unless the policy is a \
    baseline. No server is needed, and no real cluster is changed.\n\nPolicies are presets with \
    optional settings: valohai:escalate_after=24h, fifo:planned_starts=0; as-is is the policy \
    of a store.\n\nBaselines, only for files, are idealised rules of other schedulers that know \
    the run time of each job. A small separate simulator runs them: fifo-strict, easy, greedy, \
    small-first, valohai-blocking, sjf; srsf and tiresias, which always preempt jobs.")]
pub struct QueueArgs {
    #[allow(rustdoc::broken_intra_doc_links, reason = "optional columns, in brackets")]
    /// Table of jobs: submit_s,duration_s,gpus[,vc]; or a state folder or a backup of a server,
    /// with its jobs and its cluster
    #[arg(long, value_name = "FILE | STORE", value_hint = clap::ValueHint::AnyPath)]
    trace: PathBuf,
    /// Nodes and GPUs per node, e.g. 80x8; replaces the cluster of a store
    #[arg(long, value_name = "NODESxGPUS", value_parser = nodes)]
    cluster: Option<Nodes>,
    /// Change of the store's cluster to assume, e.g. --if 'add 2 nodes x 8 h100'; repeatable
    #[arg(long = "if", value_name = "CHANGE")]
    supposed: Vec<String>,
    /// Earliest submission of the jobs of a store, e.g. 30d (before the last one) or 2026-11-20
    #[arg(long, value_name = "WHEN")]
    since: Option<String>,
    /// Policy: a preset, a baseline or as-is; repeatable (default: fifo and fair, for a store as-is
    /// and fair)
    #[arg(long = "policy", value_name = "POLICY")]
    policies: Vec<NamedPolicy>,
    /// Give each job its exact run time as time limit, for comparison
    #[arg(long)]
    known_times: bool,
    /// Make jobs preemptible, as always with las; they continue later where they stopped
    #[arg(long)]
    preemptible: bool,
    /// Work that a job repeats after each preemption
    #[arg(long, value_name = "TIME", default_value = "60s",
          value_parser = gpool_model::parse::span)]
    restart: Millis,
    /// Interval of forecasts for waiting jobs; reports their accuracy
    #[arg(long, value_name = "TIME", value_parser = gpool_model::parse::span)]
    forecast_every: Option<Millis>,
    /// Output format: text, json, jsonl, yaml, csv or html (one page with tables and plots)
    #[arg(short, long, value_enum, value_name = "FORM", default_value = "text")]
    #[arg(hide_possible_values = true)]
    output: ResultFormat,
}

fn nodes(text: &str) -> std::result::Result<Nodes, String> {
    let parts = text.split_once('x').and_then(|(n, n_gpus)| {
        let nodes = Nodes { n: n.parse().ok()?, n_gpus: n_gpus.parse().ok()? };
        let is_some = nodes.n > 0 && nodes.n_gpus > 0;
        (is_some && nodes.n <= 100_000 && nodes.n_gpus <= 64).then_some(nodes)
    });
    parts.ok_or_else(|| format!("{text:?} is not a cluster; write NODESxGPUS, e.g. 80x8"))
}

/// Runs the verb.
///
/// # Errors
/// The trace can't be read or simulated.
pub fn run(args: &QueueArgs, session: &Session) -> Result {
    let stop = at_interrupt()?;
    let asked = Asked {
        trace: &args.trace,
        cluster: args.cluster,
        supposed: &args.supposed,
        since: args.since.as_deref(),
        policies: &args.policies,
    };
    let trace = Trace::open(asked, session)?;
    let policies = match args.policies.is_empty() {
        true => NamedPolicy::usual(trace.is_store()),
        false => args.policies.clone(),
    };
    let terms = Terms {
        are_ends_known: args.known_times,
        are_preemptible: args.preemptible,
        restart: args.restart,
        forecast_every: args.forecast_every,
    };
    let line = Line::new(session, trace.extent, policies.len());
    let played = play_all(&trace, &policies, terms, (line, &stop))?;
    let is_part = stop.load(Ordering::Relaxed);
    if is_part {
        session.screen.warn("interrupted: the last line has only the jobs that arrived until then");
    }
    let form = args.output.or_json(session.global.json);
    for (text, outcome) in played.iter().filter(|_| form == ResultFormat::Text) {
        for words in not_as_asked(outcome) {
            session.screen.warn(&format!("{text}: {words}"));
        }
    }
    session.screen.data(&text(args, session, &trace, terms, (&played, is_part)))?;
    Ok(if is_part { Exit::DETACHED } else { Exit::OK })
}

/// Handles Ctrl-C. After the first one no more jobs arrive. The second one ends the program at
/// once.
fn at_interrupt() -> Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register_conditional_shutdown(SIGINT, 130, Arc::clone(&stop))
        .and_then(|_| signal_hook::flag::register(SIGINT, Arc::clone(&stop)))
        .map_err(|error| Failure::new(errors::INTERNAL, format!("can't catch Ctrl-C: {error}")))?;
    Ok(stop)
}

/// The results in the requested format; `is_part` if Ctrl-C ended the last one.
fn text(
    args: &QueueArgs,
    session: &Session,
    trace: &Trace,
    terms: Terms,
    (played, is_part): (&[(String, Outcome)], bool),
) -> String {
    let layout = &trace.layout;
    let items: Vec<Value> = played.iter().map(|(text, it)| item(text, it, layout)).collect();
    let document = |items: Vec<Value>| {
        let mut document = json!({"jobs": trace.extent.n_jobs, "items": items});
        if let Some(left_out) = trace.left_out() {
            document["left_out"] = left_out;
        }
        json::one(document)
    };
    match args.output.or_json(session.global.json) {
        ResultFormat::Text => grid(played, layout).text(&session.screen),
        ResultFormat::Json => document(items),
        ResultFormat::Jsonl => json::lines(&items),
        ResultFormat::Yaml => yaml::of_json(&document(items)),
        ResultFormat::Csv => csv::of(&KEYS, &items),
        ResultFormat::Html => queue::page(queue::Queue {
            trace: &args.trace,
            is_store: trace.is_store(),
            left_out: trace.left_out_words(),
            n_jobs: trace.extent.n_jobs,
            cluster: layout,
            terms,
            played,
            is_part,
            table: grid(played, layout),
        }),
    }
}

/// The results of each policy, or of those until an interruption.
fn play_all(
    trace: &Trace,
    policies: &[NamedPolicy],
    terms: Terms,
    (mut line, stop): (Line<'_>, &AtomicBool),
) -> Result<Vec<(String, Outcome)>> {
    let is_stopped = || stop.load(Ordering::Relaxed);
    let mut played = Vec::new();
    for policy in policies {
        let text = &policy.text;
        let n_come = Cell::new(0);
        let comes = || {
            n_come.set(n_come.get() + 1);
            !is_stopped()
        };
        line.begin(text);
        let mut look = |n_live: usize, until: Timestamp| line.look(n_live, until, n_come.get());
        let outcome = trace.play(policy, terms, &comes, &mut look);
        line.end();
        let outcome = outcome?;
        if is_stopped() {
            played.push((format!("{text} (part)"), outcome));
            break;
        }
        played.push((text.clone(), outcome));
    }
    Ok(played)
}

/// Waits in seconds, ascending.
struct Waits(Vec<u64>);

impl Waits {
    fn of(outcome: &Outcome, least: u32) -> Self {
        let is_large = |job: &&Played| job.n_gpus() >= f64::from(least);
        let jobs = outcome.jobs.iter().filter(is_large);
        let mut waits: Vec<u64> = jobs.map(|job| job.wait().get() / 1000).collect();
        waits.sort_unstable();
        Self(waits)
    }

    fn mean(&self) -> f64 {
        self.0.iter().sum::<u64>() as f64 / self.0.len().max(1) as f64
    }

    /// The percentile by nearest rank.
    fn percentile(&self, percent: usize) -> Option<u64> {
        let at = (self.0.len() * percent).div_ceil(100).saturating_sub(1);
        self.0.get(at).copied()
    }
}

/// The mean wait of users with less GPU time than the average user, in seconds: the mean of their
/// means, so that each user counts once. `None` unless there are several users.
fn mean_of_light_users(outcome: &Outcome) -> Option<f64> {
    let mut users = BTreeMap::<&str, (f64, Vec<u64>)>::new();
    for job in &outcome.jobs {
        let (used, waits) = users.entry(&job.owner).or_default();
        *used += job.n_gpus() * job.duration.get() as f64;
        waits.push(job.wait().get() / 1000);
    }
    let equal = users.values().map(|(used, _)| used).sum::<f64>() / users.len().max(1) as f64;
    let light = users.into_values().filter(|(used, _)| *used < equal);
    let means: Vec<f64> = light.map(|(_, waits)| Waits(waits).mean()).collect();
    (!means.is_empty()).then(|| means.iter().sum::<f64>() / means.len() as f64)
}

fn utilization(outcome: &Outcome, cluster: &Layout) -> f64 {
    let Some((first, last)) = outcome.came else { return 0.0 };
    let n_gpus = cluster.n_usable().max(1) as f64;
    outcome.busy as f64 / (last.since(first).get().max(1) as f64 * n_gpus)
}

/// The keys for each policy, in the order of the columns.
const KEYS: [&str; 19] = [
    "policy",
    "jobs",
    "refused",
    "stuck",
    "cut",
    "wait_mean_s",
    "wait_p50_s",
    "wait_p99_s",
    "wait_max_s",
    "wait_p99_large_s",
    "wait_mean_light_s",
    "jct_mean_s",
    "utilization",
    "makespan_s",
    "preemptions",
    "forecasts",
    "forecasts_by_p90",
    "forecasts_by_p50",
    "forecasts_wait_to_p50",
];

fn item(policy: &str, outcome: &Outcome, cluster: &Layout) -> Value {
    let waits = Waits::of(outcome, 0);
    let n_jobs = outcome.jobs.len();
    let ran: u64 = outcome.jobs.iter().map(|job| job.duration.get() / 1000).sum();
    let first = outcome.came.map_or(Timestamp::ZERO, |(first, _)| first);
    let last = outcome.jobs.iter().map(|job| job.ended_at).max().unwrap_or(first);
    let held = Held::of(outcome);
    json!({
        "policy": policy,
        "jobs": n_jobs,
        "refused": outcome.n_refused,
        "stuck": outcome.n_stuck,
        "cut": outcome.n_cut,
        "wait_mean_s": waits.mean(),
        "wait_p50_s": waits.percentile(50),
        "wait_p99_s": waits.percentile(99),
        "wait_max_s": waits.percentile(100),
        "wait_p99_large_s": Waits::of(outcome, LARGE).percentile(99),
        "wait_mean_light_s": mean_of_light_users(outcome),
        "jct_mean_s": waits.mean() + ran as f64 / n_jobs.max(1) as f64,
        "utilization": utilization(outcome, cluster),
        "makespan_s": last.since(first).get() / 1000,
        "preemptions": outcome.n_taken_back,
        "forecasts": held.as_ref().map(|it| it.n),
        "forecasts_by_p90": held.as_ref().map(|it| it.by_p90),
        "forecasts_by_p50": held.as_ref().map(|it| it.by_p50),
        "forecasts_wait_to_p50": held.as_ref().map(|it| it.wait_to_p50),
    })
}

/// The accuracy of the first forecast of each job.
struct Held {
    n: usize,
    /// Fraction of jobs that started by the forecast p90.
    by_p90: f64,
    /// Fraction of jobs that started by the forecast p50.
    by_p50: f64,
    /// Actual waits after the forecast, as a ratio to the forecast p50.
    wait_to_p50: f64,
}

impl Held {
    fn of(outcome: &Outcome) -> Option<Self> {
        let all = &outcome.forecasts;
        let n = all.len();
        let part = |held: fn(&Foretold) -> bool| {
            all.iter().filter(|it| held(it)).count() as f64 / n as f64
        };
        let sum = |until: fn(&Foretold) -> Timestamp| {
            all.iter().map(|it| until(it).since(it.at).get()).sum::<u64>() as f64
        };
        (n > 0).then(|| Self {
            n,
            by_p90: part(|it| it.started_at <= it.p90),
            by_p50: part(|it| it.started_at <= it.p50),
            wait_to_p50: sum(|it| it.started_at) / sum(|it| it.p50).max(1.0),
        })
    }
}

const HEAD: [&str; 10] = [
    "POLICY",
    "AVG WAIT",
    "RATIO",
    "MEDIAN",
    "P99",
    "MAX",
    "P99 LARGE",
    "AVG LIGHT",
    "USED",
    "PREEMPTED",
];
/// Further columns if starts were forecast.
const HEAD_OF_FORECASTS: [&str; 4] = ["FORECASTS", "BY P90", "BY P50", "WAIT TO P50"];

/// The table with the meaning of its columns.
fn grid(played: &[(String, Outcome)], cluster: &Layout) -> Grid {
    let forecasts = played.iter().any(|(_, outcome)| !outcome.forecasts.is_empty());
    let mut rows = Vec::new();
    let mut first: Option<f64> = None;
    let average = |seconds: f64| span(seconds * 1000.0);
    for (policy, outcome) in played {
        let waits = Waits::of(outcome, 0);
        let mean = waits.mean();
        let before = *first.get_or_insert(mean);
        let ratio = if before > 0.0 { format!("{:.2}", mean / before) } else { "-".to_owned() };
        let text = |seconds: u64| Millis::new(seconds.saturating_mul(1000)).to_string();
        let shown = |seconds: Option<u64>| seconds.map_or("-".to_owned(), text);
        let mut row = vec![
            policy.clone(),
            average(mean),
            ratio,
            shown(waits.percentile(50)),
            shown(waits.percentile(99)),
            shown(waits.percentile(100)),
            shown(Waits::of(outcome, LARGE).percentile(99)),
            mean_of_light_users(outcome).map_or("-".to_owned(), average),
            format!("{:.1}%", utilization(outcome, cluster) * 100.0),
            outcome.n_taken_back.to_string(),
        ];
        if forecasts {
            row.extend(match Held::of(outcome) {
                Some(held) => [
                    held.n.to_string(),
                    format!("{:.1}%", held.by_p90 * 100.0),
                    format!("{:.1}%", held.by_p50 * 100.0),
                    format!("{:.2}", held.wait_to_p50),
                ],
                None => [(); 4].map(|()| "-".to_owned()),
            });
        }
        rows.push(row);
    }
    let mut note = format!(
        "AVG WAIT   average waiting time: from submission to end, without the time it ran\n\
         RATIO      AVG WAIT divided by that of the first policy\n\
         MEDIAN     waiting time of the job in the middle; P99 and MAX: 99th percentile, longest\n\
         P99 LARGE  99th percentile for jobs of {LARGE} or more GPUs\n\
         AVG LIGHT  average of users with less GPU-time than the average user\n\
         USED       GPU-time in use until the last submission, in percent of all GPU-time\n\
         PREEMPTED  number of preemptions\n"
    );
    let mut head = HEAD.map(str::to_owned).to_vec();
    if forecasts {
        head.extend(HEAD_OF_FORECASTS.map(str::to_owned));
        note += "FORECASTS  number of jobs with a forecast of their start while they waited\n\
                 BY P90     jobs that started by their first p90; BY P50: by their first p50\n\
                 WAIT TO P50  waiting time after the first forecast, divided by its p50\n";
    }
    Grid { caption: "Waiting times".to_owned(), head, rows, note }
}
