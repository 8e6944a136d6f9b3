//! Stage preempt: evicts jobs of lower priority for a job of higher priority in the same project.

use crate::admit;
use crate::cycle::runtime;
use crate::cycle::solver::{Search, Solver};
use crate::cycle::victims::Piece;
use crate::cycle::{Cycle, Obstacle};
use crate::failures::Failures;
use crate::settings::Stage;
use crate::unit;

/// The stage.
pub(crate) fn run(cycle: &mut Cycle<'_>) {
    let rules = cycle.rules;
    let mut turns = cycle.turns(|_| true);
    if turns.leaf().is_none() {
        return;
    }
    let mut solver = Solver::of(cycle, Stage::Preempt);
    let mut failures = Failures::default();
    while let Some(job) = turns.pop(rules, &cycle.state) {
        match one(cycle, &mut solver, &mut failures, job) {
            Ok(changed) => {
                for project in changed {
                    turns.update(rules, &cycle.state, project);
                }
            }
            Err(obstacle) => cycle.note(job, Stage::Preempt, obstacle),
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
    let row = &rules.index.jobs[job];
    let leaf = row.project.ok_or(Obstacle::NobodyGivesWay)?;
    let tasks = unit::unit(&cycle.state, job).ok_or(Obstacle::TooFew)?;
    if !row.preemptible && rules.settings.quotas {
        let asked = unit::charge(&cycle.state, &tasks);
        admit::guaranteed(&cycle.state, rules.entitled, leaf, asked).map_err(Obstacle::Passed)?;
    }
    if let Some(job) = failures.harder(rules.index, row.project, &tasks) {
        return Err(Obstacle::AsAnother { job });
    }
    let protected =
        |victim: usize| runtime::from_preempt(rules, victim) && !runtime::elastic(rules, victim);
    let search = Search {
        job,
        tasks: &tasks,
        leafs: vec![leaf],
        allowed: &|victim| rules.index.jobs[victim].priority < row.priority && !protected(victim),
        most: usize::MAX,
        valid: &mut |cycle, _, pieces| gangs_kept(cycle, pieces),
    };
    let solved = solver.solve(cycle, search);
    if solved.is_err() {
        failures.remember(rules.index, row.project, job, &tasks);
    }
    solved
}

fn gangs_kept(cycle: &Cycle<'_>, pieces: &[Piece]) -> Result<(), Obstacle> {
    let lost = pieces.iter().any(|piece| {
        runtime::from_preempt(cycle.rules, piece.job)
            && !runtime::keeps_its_gang(&cycle.state, piece.job)
    });
    if lost { Err(Obstacle::NobodyGivesWay) } else { Ok(()) }
}
