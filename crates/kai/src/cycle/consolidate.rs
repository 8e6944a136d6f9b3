//! Moves running tasks so that a job fits that has enough free capacity, but fragmented. No work is
//! lost: a trial succeeds only if every evicted task has a place again.

use crate::admit;
use crate::counters::TaskStatus;
use crate::cycle::solver::{Search, Solver};
use crate::cycle::victims::Piece;
use crate::cycle::{Cycle, Obstacle};
use crate::failures::Failures;
use crate::settings::Stage;
use crate::unit;

/// The stage.
pub(crate) fn run(cycle: &mut Cycle<'_>) {
    let rules = cycle.rules;
    let mut turns = cycle.turns(|job| rules.index.jobs[job].preemptible);
    if turns.leaf().is_none() {
        return;
    }
    let mut solver = Solver::of(cycle, Stage::Consolidate);
    let mut failures = Failures::default();
    while let Some(job) = turns.pop(rules, &cycle.state) {
        match one(cycle, &mut solver, &mut failures, job) {
            Ok(changed) => {
                for project in changed {
                    turns.update(rules, &cycle.state, project);
                }
            }
            Err(obstacle) => cycle.note(job, Stage::Consolidate, obstacle),
        }
    }
}

fn one(
    cycle: &mut Cycle<'_>,
    solver: &mut Solver,
    failures: &mut Failures,
    job: usize,
) -> Result<Vec<usize>, Obstacle> {
    let rules = cycle.rules;
    let tasks = unit::unit(&cycle.state, job).ok_or(Obstacle::TooFew)?;
    let asked = unit::charge(&cycle.state, &tasks);
    let free = cycle.state.free_gpu;
    if free < asked.gpu {
        return Err(Obstacle::NotEnough { asked: asked.gpu, free });
    }
    let admitted = admit::admit(&cycle.state, rules.entitled, rules.settings, job, asked);
    let admitted = admitted.map_err(Obstacle::Passed);
    // In the end all tasks have their present allocations, and the job its own, unless a task loses
    // a claim, or has another charge in its new place.
    if rules.settings.shortcuts && !cycle.promised_more && rules.index.charges_alike {
        admitted?;
    }
    let project = rules.index.jobs[job].project;
    for project in [None, project] {
        if let Some(job) = failures.harder(rules.index, project, &tasks) {
            return Err(Obstacle::AsAnother { job });
        }
    }
    let search = Search {
        job,
        tasks: &tasks,
        leafs: (0..rules.index.projects.len()).collect(),
        allowed: &|victim| victim != job,
        most: rules.settings.consolidation_victims.unwrap_or(usize::MAX),
        valid: &mut |cycle, _, pieces| all_placed(cycle, pieces),
    };
    let solved = solver.solve(cycle, search);
    if solved.is_err() {
        // A quota of its project is no reason for jobs of other projects.
        let project = if admitted.is_err() { project } else { None };
        failures.remember(rules.index, project, job, &tasks);
        admitted?;
    }
    solved
}

fn all_placed(cycle: &Cycle<'_>, pieces: &[Piece]) -> Result<(), Obstacle> {
    let ended = |task: &usize| cycle.state.tasks[*task].state == TaskStatus::Evicted;
    if pieces.iter().flat_map(|piece| &piece.tasks).any(ended) {
        Err(Obstacle::NobodyGivesWay)
    } else {
        Ok(())
    }
}
