//! The scheduler's answer to a scenario, as text for snapshots in tests.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use gpool_model::{Decision, JobId, Placement, Plan};
use gpool_sched::Explainer;
use gpool_verify::Violation;
use gpool_world::{Snapshot, World};

use crate::amount::span;
use crate::reason::reason_text;
use crate::situation::Situation;
use crate::stream::Cluster;

/// The plan for a scenario, one line for each decision and each wait, after a check of all
/// invariants. A cycle that ends at a resume is carried out, and the lines of the next one follow.
///
/// # Panics
/// If the scenario is not valid or contradicts itself, or the plan breaks an invariant; the message
/// has the whole case.
#[must_use]
pub fn answer(scenario: &str) -> String {
    let mut cluster = cluster(scenario);
    let mut text = String::new();
    loop {
        let plan = cluster.plan();
        let (snapshot, is_cut) = (cluster.snapshot(), cluster.is_cut());
        let policy = snapshot.world.policy();
        text.push_str(&plan_text(&snapshot, &plan));
        none(&gpool_verify::verify(&snapshot, policy, &plan), scenario, &text);
        if !is_cut {
            none(&gpool_verify::verify_fully(&snapshot, policy, &plan), scenario, &text);
            return text;
        }
        cluster.cycle();
    }
}

/// The reasons of jobs that still wait after the plan was carried out: the name of each job, then
/// one line for each reason, the decisive one first.
///
/// # Panics
/// As [`answer`].
#[must_use]
pub fn reasons(scenario: &str) -> String {
    let mut cluster = cluster(scenario);
    cluster.cycle();
    let snapshot = cluster.snapshot();
    let explainer = Explainer::new(snapshot, snapshot.world.policy());
    let mut text = String::new();
    for row in snapshot.world.job_rows() {
        for (at, reason) in explainer.fully(row).iter().enumerate() {
            let name = if at == 0 { &row.spec.name } else { "" };
            let _ = writeln!(text, "{name:3} {}", reason_text(reason));
        }
    }
    text
}

fn cluster(scenario: &str) -> Cluster {
    let situation = match Situation::parse(scenario) {
        Ok(situation) => situation,
        Err(error) => panic!("the scenario is not understood: {error}"),
    };
    let cluster = Cluster::of(&situation);
    none(&gpool_verify::check(&cluster.snapshot()), scenario, "");
    cluster
}

fn none(violations: &[Violation], scenario: &str, plan: &str) {
    let lines: Vec<String> = violations.iter().map(ToString::to_string).collect();
    assert!(lines.is_empty(), "{}\nof the scenario\n{scenario}\n{plan}", lines.join("\n"));
}

/// A plan, one line for each decision and each wait; jobs by name.
#[must_use]
pub fn plan_text(snapshot: &Snapshot<'_>, plan: &Plan) -> String {
    let Snapshot { world, now } = *snapshot;
    let mut text = String::new();
    let mut started = BTreeSet::new();
    // Writing to a string can't fail.
    for decision in &plan.decisions {
        let run = |attempt: &gpool_model::Attempt| match attempt.0 {
            1 => String::new(),
            _ => format!("#{attempt}"),
        };
        let _ = match decision {
            Decision::Start { job, attempt, placements, after } => {
                started.insert(*job);
                let places: Vec<String> = placements.iter().map(place).collect();
                let claims = if after.is_empty() { "" } else { "claim" };
                let what = if claims.is_empty() { "start" } else { claims };
                let (name, run) = (name(world, *job), run(attempt));
                writeln!(text, "{what} {name}{run} {}", places.join(" "))
            }
            Decision::Resume { job, placements, after, .. } => {
                started.insert(*job);
                let places: Vec<String> = placements.iter().map(place).collect();
                let what = if after.is_empty() { "resume" } else { "resume after others" };
                writeln!(text, "{what} {} {}", name(world, *job), places.join(" "))
            }
            Decision::Evict { job, attempt, why, beneficiary, exit } => {
                let (why, run) = (why.as_str(), run(attempt));
                let (name, other) = (name(world, *job), name(world, *beneficiary));
                let by = if exit.is_usual() { String::new() } else { format!(" by {exit}") };
                writeln!(text, "evict {name}{run} {why} for {other}{by}")
            }
        };
    }
    for planned in &plan.planned {
        let places: Vec<String> = planned.placements.iter().map(place).collect();
        let (job, places) = (name(world, planned.job), places.join(" "));
        let (at, basis) = (span(planned.at.since(now)), planned.basis.as_str());
        let _ = writeln!(text, "plan  {job} {places} in {at} by {basis}");
    }
    for wait in &plan.waits {
        let queue = world.shapes().map(|(_, queue)| queue).find(|queue| queue.shape == wait.shape);
        let jobs = queue.into_iter().flat_map(|queue| queue.escalated.iter().chain(&queue.fresh));
        let first = jobs.map(|(_, job)| *job).find(|job| !started.contains(job));
        let first = first.map_or_else(|| "nobody".to_owned(), |job| name(world, job));
        let times = if wait.n_jobs == 1 { String::new() } else { format!(" ×{}", wait.n_jobs) };
        let _ = writeln!(text, "wait  {first}{times} {}", reason_text(&wait.reason));
    }
    text
}

fn name(world: &World, job: JobId) -> String {
    world.job(job).map_or_else(|| job.to_string(), |row| row.spec.name.to_string())
}

fn place(placement: &Placement) -> String {
    let indexes: Vec<String> = placement.slots.iter().map(|slot| slot.index.to_string()).collect();
    match indexes.is_empty() {
        true => placement.node.to_string(),
        false => format!("{}[{}]", placement.node, indexes.join(",")),
    }
}
