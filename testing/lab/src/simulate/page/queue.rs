//! The page of `gpool simulate queue`.

use std::path::Path;

use gpool_cli::render::safe::safe;
use gpool_cli::render::words::{count, grouped};
use gpool_trace::Layout;
use gpool_trace::interval::Mean;
use gpool_trace::paired::{BLOCKS_MIN, Paired};
use gpool_trace::queue::{Outcome, Terms};
use gpool_wire::Problem;

use super::owners::Owners;
use super::waits::{Unit, mean, span, wait};
use super::window::Window;
use super::{
    Figure, Grid, Page, by_how_much, command, fairness, gantt, interval, listed, owners, signed,
    verdict, waits,
};
use crate::render::plot::DAY;
use crate::simulate::VERSION;

const WORDS: (&str, &str) = ("shorter", "longer");

/// The input and the results.
pub struct Queue<'a> {
    /// The file of the jobs, or the store.
    pub trace: &'a Path,
    /// Whether it is a store.
    pub is_store: bool,
    /// Jobs of the store that are not played, in words.
    pub left_out: Option<String>,
    /// Number of jobs.
    pub n_jobs: u64,
    pub cluster: &'a Layout,
    /// What the scheduler knew about the jobs.
    pub terms: Terms,
    /// The policies with their results.
    pub played: &'a [(String, Outcome)],
    /// Whether the run was interrupted.
    pub is_part: bool,
    /// The table for the terminal.
    pub table: Grid,
}

/// One policy against the first, job by job.
struct Pair<'a> {
    first: &'a str,
    other: &'a str,
    n_jobs: usize,
    /// Mean waits, in milliseconds.
    waits: (f64, f64),
    /// The mean difference of the waits.
    difference: Mean,
}

/// The page as HTML.
#[must_use]
pub fn page(queue: Queue<'_>) -> String {
    let played = queue.played;
    let pairs = pairs(played);
    let names: Vec<&str> = played.iter().map(|(policy, _)| policy.as_str()).collect();
    let facts = facts(&queue, &names);
    let n_times =
        if names.len() > 1 { "once with each of the policies " } else { "with the policy " };
    let page = Page {
        title: format!("Waiting times: {}", listed(&names)),
        lead: format!(
            "The {} of {} ran in virtual time on {}, {n_times}{}.",
            count(queue.n_jobs, "job"),
            if queue.is_store { "a cluster's history" } else { "a trace" },
            nodes(queue.cluster),
            listed(&names)
        ),
        answers: answers(played, &pairs),
        warnings: warnings(&queue, &pairs),
        facts,
        command: command(),
        figures: figures(played, queue.cluster),
        grids: std::iter::once(queue.table).chain(differences(&pairs)).collect(),
        version: VERSION,
    };
    page.to_string()
}

/// The cluster in words: `80 nodes of 8 GPUs each`.
fn nodes(cluster: &Layout) -> String {
    match cluster.alike() {
        Some(nodes) => format!(
            "{} of {} each",
            count(u64::from(nodes.n), "node"),
            count(u64::from(nodes.n_gpus), "GPU")
        ),
        None => format!(
            "{} with {}",
            count(cluster.nodes.len() as u64, "node"),
            count(cluster.n_usable(), "GPU")
        ),
    }
}

fn figures(played: &[(String, Outcome)], cluster: &Layout) -> Vec<Figure> {
    let Some((_, first)) = played.first() else { return Vec::new() };
    let Some(window) = Window::of(played) else { return Vec::new() };
    let owners = Owners::of(first);
    let mut figures = vec![waits::distribution(played), waits::by_size(played)];
    figures.push(waits::over_time(played, window));
    figures.extend(fairness::over_time(played, window));
    figures.push(owners::over_time(played, &owners, window, cluster));
    figures.extend(gantt::figure(played, &owners, window, cluster));
    figures
}

fn pairs(played: &[(String, Outcome)]) -> Vec<Pair<'_>> {
    let Some(((first, before), others)) = played.split_first() else { return Vec::new() };
    let others = others.iter();
    others.filter_map(|(other, after)| Pair::of((first, before), (other, after))).collect()
}

impl<'a> Pair<'a> {
    fn of(first: (&'a str, &'a Outcome), other: (&'a str, &'a Outcome)) -> Option<Self> {
        let Paired { n_jobs, waits, difference, .. } = Paired::of(first.1, other.1)?;
        Some(Self { first: first.0, other: other.0, n_jobs, waits, difference })
    }

    /// The unit of the difference and its interval.
    fn unit(&self) -> Unit {
        let (low, high) = self.difference.interval.unwrap_or_default();
        Unit::of(self.difference.mean.abs().max(low.abs()).max(high.abs()))
    }

    fn answer(&self) -> String {
        let Self { first, other, .. } = self;
        let unit = Unit::of(self.waits.0.max(self.waits.1));
        let (before, after) = unit.pair(self.waits.0, self.waits.1);
        if self.waits.0 == self.waits.1 {
            let name = unit.name_of(&before);
            return format!("Average wait: {before} {name} with {first} and with {other}.");
        }
        let (name, of_difference) = (unit.name_of(&before), self.unit());
        let by = by_how_much(&self.difference, WORDS, |span| of_difference.words(span));
        format!("Average wait: {before} {name} with {first}, {after} with {other}{by}.")
    }
}

fn answers(played: &[(String, Outcome)], pairs: &[Pair<'_>]) -> Vec<String> {
    if !pairs.is_empty() {
        return pairs.iter().map(Pair::answer).collect();
    }
    let alone = |(policy, outcome): &(String, Outcome)| {
        let mean = mean(outcome.jobs.iter())?;
        let n_at_once = outcome.jobs.iter().filter(|job| wait(job) < 1_000.0).count();
        Some(format!(
            "Average wait: {} with {policy}; {:.0} % of the jobs start within a second.",
            Unit::of(mean).words(mean),
            n_at_once as f64 * 100.0 / outcome.jobs.len() as f64
        ))
    };
    let answers: Vec<String> = played.iter().filter_map(alone).collect();
    match answers.is_empty() {
        true => vec!["No job ran: there is no result.".to_owned()],
        false => answers,
    }
}

fn warnings(queue: &Queue<'_>, pairs: &[Pair<'_>]) -> Vec<String> {
    let mut warnings = Vec::new();
    if queue.is_part {
        warnings.push(
            "This result is partial: the simulation was interrupted. The last policy has only the \
             jobs that arrived until then, and later policies are missing."
                .to_owned(),
        );
    }
    warnings.extend(queue.left_out.iter().map(|words| format!("{words}.")));
    for (policy, outcome) in queue.played {
        let reports = not_as_asked(outcome).into_iter();
        warnings.extend(reports.map(|words| format!("With {policy}, {words}.")));
    }
    if let Some(pair) = pairs.iter().find(|pair| pair.difference.n_blocks < BLOCKS_MIN) {
        warnings.push(format!(
            "The trace is too short: its jobs were submitted on {}. Jobs of the same time wait for \
             each other, so the confidence interval counts days, and with fewer than {BLOCKS_MIN} \
             days it is unreliable.",
            count(pair.difference.n_blocks as u64, "day")
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
    let follow = |pair: &&Pair<'_>| {
        pair.difference.n_blocks >= BLOCKS_MIN && pair.difference.is_correlated()
    };
    let following: Vec<&str> = pairs.iter().filter(follow).map(|pair| pair.other).collect();
    if !following.is_empty() {
        warnings.push(format!(
            "The difference between {} and {} on one day resembles that of the day before: the \
             confidence interval is too narrow.",
            pairs[0].first,
            listed(&following)
        ));
    }
    warnings
}

fn facts(queue: &Queue<'_>, names: &[&str]) -> Vec<(&'static str, String)> {
    let Queue { cluster, terms, .. } = queue;
    let span = queue.played.iter().filter_map(|(_, outcome)| outcome.came);
    let days = span.map(|(first, last)| last.since(first).get() as f64 / DAY).fold(0.0, f64::max);
    let known = match terms.are_ends_known {
        true => "the exact run time of each job, for comparison",
        false if queue.is_store => "time limits, and the run times of ended jobs",
        false => "the run times of ended jobs",
    };
    let takes_back = queue.played.iter().filter(|(_, outcome)| outcome.n_taken_back > 0);
    let takes_back: Vec<&str> = takes_back.map(|(name, _)| name.as_str()).collect();
    let restart = format!("they continue later and repeat {} of work", terms.restart);
    let preemption = match terms.are_preemptible {
        true => format!("all jobs are preemptible; {restart}"),
        false if queue.is_store => {
            "preemptible jobs can be preempted; those with checkpoints continue".to_owned()
        }
        false if takes_back.is_empty() => "none".to_owned(),
        false => format!("all jobs are preemptible with {}; {restart}", listed(&takes_back)),
    };
    let in_all = match cluster.alike() {
        Some(_) => format!(", {} in all", count(cluster.n_usable(), "GPU")),
        None => String::new(),
    };
    vec![
        ("Trace", safe(&queue.trace.display().to_string()).into_owned()),
        ("Jobs", format!("{}, submitted within {days:.1} days", grouped(queue.n_jobs))),
        ("Cluster", nodes(cluster) + &in_all),
        ("Policies", names.join(" · ")),
        ("Known run times", known.to_owned()),
        ("Preemption", preemption),
    ]
}

fn differences(pairs: &[Pair<'_>]) -> Option<Grid> {
    let first = pairs.first()?.first;
    let head =
        ["POLICY", "AVG WAIT", "OF", "DIFFERENCE", "95 % INTERVAL", "DAYS", "JOBS", "RESULT"];
    let row = |pair: &Pair<'_>| {
        let unit = pair.unit();
        let text = |span: f64| unit.text(span);
        vec![
            pair.other.to_owned(),
            span(pair.waits.1),
            span(pair.waits.0),
            signed(pair.difference.mean, text),
            interval(&pair.difference, text),
            pair.difference.n_blocks.to_string(),
            grouped(pair.n_jobs as u64),
            verdict(&pair.difference, WORDS),
        ]
    };
    let mut head = head.map(str::to_owned).to_vec();
    head[2] = format!("WITH {first}");
    Some(Grid {
        caption: format!("Comparison with {first}, job by job"),
        head,
        rows: pairs.iter().map(row).collect(),
        note: "DIFFERENCE is the average difference of the waiting times of the same job. Jobs of \
               the same time wait for each other, so the confidence interval uses averages of \
               days (24 hours from the first job) instead of jobs. It holds for one pair of \
               policies and this trace, not for other clusters or months."
            .to_owned(),
    })
}

/// How many jobs did not run as requested, and why.
#[must_use]
pub fn not_as_asked(outcome: &Outcome) -> Vec<String> {
    let were = |n: u64| format!("{} {}", count(n, "job"), if n == 1 { "was" } else { "were" });
    let refused = outcome.refusal.as_ref().map(|refusal| {
        let why = Problem::from(refusal).detail;
        format!("{} refused; the first: {why}", were(outcome.n_refused))
    });
    let stuck = (outcome.n_stuck > 0).then(|| {
        format!("{} never started: no job can be preempted", count(outcome.n_stuck, "job"))
    });
    let cut = (outcome.n_cut > 0)
        .then(|| format!("{} preempted and did not finish", were(outcome.n_cut)));
    refused.into_iter().chain(stuck).chain(cut).collect()
}
