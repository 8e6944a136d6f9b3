//! `gpool simulate queue`: the waiting times of a trace's jobs under several policies.

pub mod results;

use std::cell::Cell;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::Args;
use gpool_cli::errors;
use gpool_cli::exit::Exit;
use gpool_cli::failure::{Failure, Result};
use gpool_cli::render::json;
use gpool_cli::render::yaml;
use gpool_cli::session::Session;
use gpool_model::{Millis, Timestamp};
use gpool_trace::Nodes;
use gpool_trace::queue::{Outcome, Terms};
use serde_json::{Value, json};
use signal_hook::consts::SIGINT;

use self::results::{KEYS, WORDS, comparisons, correlated, grid, item, not_as_asked};
use crate::render::csv;
use crate::render::grid::span;
use crate::simulate::compare::Comparison;
use crate::simulate::figures::window::DAY;
use crate::simulate::history::{Asked, Trace};
use crate::simulate::policy::NamedPolicy;
use crate::simulate::progress::Line;
use crate::simulate::{ResultFormat, compare, figures};

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
    /// Output format: text, json, jsonl, yaml or csv
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
    let compared = &comparisons(&played);
    let results = Results { trace: &trace, terms, played: &played, compared, is_part };
    for words in results.warnings() {
        session.screen.warn(&words);
    }
    session.screen.data(&results.text(args.output.or_json(session.global.json), session))?;
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

/// The simulation with its results.
struct Results<'a> {
    trace: &'a Trace,
    terms: Terms,
    /// The policies with their results.
    played: &'a [(String, Outcome)],
    compared: &'a [Comparison],
    /// Whether Ctrl-C ended the last one.
    is_part: bool,
}

impl Results<'_> {
    fn text(&self, form: ResultFormat, session: &Session) -> String {
        match form {
            ResultFormat::Text => self.tables(session),
            ResultFormat::Json => json::one(self.document()),
            ResultFormat::Jsonl => json::lines(&self.items()),
            ResultFormat::Yaml => yaml::of_json(&json::one(self.document())),
            ResultFormat::Csv => csv::of(&KEYS, &self.items()),
        }
    }

    fn items(&self) -> Vec<Value> {
        let layout = &self.trace.layout;
        self.played.iter().map(|(policy, outcome)| item(policy, outcome, layout)).collect()
    }

    fn document(&self) -> Value {
        let Self { trace, terms, played, compared, is_part } = self;
        let span = played.iter().filter_map(|(_, outcome)| outcome.came);
        let span = span.map(|(first, last)| last.since(first)).max().unwrap_or(Millis::ZERO);
        let seconds = |millis: Millis| millis.get() as f64 / 1000.0;
        let mut document = json!({
            "jobs": trace.extent.n_jobs,
            "days": seconds(span) / DAY,
            "nodes": trace.layout.nodes.len(),
            "gpus": trace.layout.n_usable(),
            "known_times": terms.are_ends_known,
            "preemptible": terms.are_preemptible,
            "restart_s": seconds(terms.restart),
            "interrupted": is_part,
            "warnings": self.warnings(),
            "items": self.items(),
            "comparisons": compared.iter().map(|it| it.json(WORDS)).collect::<Vec<_>>(),
            "figures": figures::of(played, &trace.layout),
        });
        if let Some(left_out) = trace.left_out() {
            document["left_out"] = left_out;
        }
        document
    }

    fn tables(&self, session: &Session) -> String {
        let screen = &session.screen;
        let results = grid(self.played, &self.trace.layout).text(screen);
        match compare::grid(self.compared, WORDS, span) {
            Some(compared) => format!("{results}\n{}", compared.text(screen)),
            None => results,
        }
    }

    fn warnings(&self) -> Vec<String> {
        let mut warnings: Vec<String> = Vec::new();
        for (policy, outcome) in self.played {
            warnings.extend(not_as_asked(outcome).iter().map(|it| format!("{policy}: {it}")));
        }
        warnings.extend(compare::warnings(self.compared, WORDS));
        warnings.extend(correlated(self.compared));
        warnings
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
