//! Reclaims over-quota resources of other projects, for a project below its own share.

use std::collections::BTreeMap;

use crate::counters::TaskStatus;
use crate::cycle::runtime;
use crate::cycle::solver::{Search, Solver};
use crate::cycle::victims::Piece;
use crate::cycle::{Cycle, Obstacle};
use crate::failures::Failures;
use crate::input::{Amounts, GpuAsk};
use crate::settings::Stage;
use crate::unit;

/// The stage.
pub(crate) fn run(cycle: &mut Cycle<'_>) {
    let rules = cycle.rules;
    let mut turns = cycle.turns(|_| true);
    if turns.leaf().is_none() {
        return;
    }
    let mut solver = Solver::of(cycle, Stage::Reclaim);
    let mut failures = Failures::default();
    while let Some(job) = turns.pop(rules, &cycle.state) {
        match one(cycle, &mut solver, &mut failures, job) {
            Ok(changed) => {
                for project in changed {
                    turns.update(rules, &cycle.state, project);
                }
            }
            Err(obstacle) => cycle.note(job, Stage::Reclaim, obstacle),
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
    let asked = unit::charge(&cycle.state, &tasks);
    cycle.quotas.write_down(&cycle.state);
    if rules.settings.quotas {
        cycle.quotas.gate(leaf, row.preemptible, asked).map_err(Obstacle::Barred)?;
    }
    if let Some(job) = failures.harder(rules.index, row.project, &tasks) {
        return Err(Obstacle::AsAnother { job });
    }
    if let Some(obstacle) = hopeless(cycle, solver, job, &tasks) {
        failures.remember(rules.index, row.project, job, &tasks);
        return Err(obstacle);
    }
    let projects = 0..rules.index.projects.len();
    let protected = |victim: usize| {
        runtime::from_reclaim(rules, leaf, victim) && !runtime::elastic(rules, victim)
    };
    let search = Search {
        job,
        tasks: &tasks,
        leafs: projects.filter(|&project| project != leaf).collect(),
        allowed: &|victim| !protected(victim),
        most: usize::MAX,
        valid: &mut |cycle, tasks, pieces| holds(cycle, job, leaf, tasks, pieces),
    };
    let solved = solver.solve(cycle, search);
    if solved.is_err() {
        failures.remember(rules.index, row.project, job, &tasks);
    }
    solved
}

/// Returns the reason why no trial can succeed: some task has to leave, because too little is free
/// even if all tasks move, and no project may lose anything. Checked before the search for victims,
/// which is expensive.
///
/// A project that may lose nothing can't give a first piece together with others either: pieces of
/// others only bring its side closer to its share.
fn hopeless(
    cycle: &mut Cycle<'_>,
    solver: &Solver,
    job: usize,
    tasks: &[usize],
) -> Option<Obstacle> {
    let rules = cycle.rules;
    let whole = |task: &usize| matches!(cycle.state.gpu_ask(*task), GpuAsk::Whole(_));
    let first = &tasks[..1];
    let asked = unit::charge(&cycle.state, first);
    // Counting may have cut off less than a thousandth of each shared device.
    let cut = i64::try_from(cycle.state.shared.len()).unwrap_or(i64::MAX);
    if !rules.settings.shortcuts
        || !rules.settings.quotas
        || cycle.promised_more
        || !first.iter().all(whole)
        || asked.gpu <= cycle.state.free_gpu.saturating_add(cut)
    {
        return None;
    }
    let row = &rules.index.jobs[job];
    let mut last = Obstacle::NobodyGivesWay;
    for leaf in solver.projects().filter(|&leaf| Some(leaf) != row.project) {
        let nothing = [(leaf, Amounts::default())];
        match cycle.quotas.check(row.project?, row.preemptible, asked, &nothing) {
            Ok(()) => return None,
            Err(barred) => last = Obstacle::Barred(barred),
        }
    }
    Some(last)
}

/// Whether the victims' projects may lose these tasks, by the allocations at the search's begin.
fn holds(
    cycle: &mut Cycle<'_>,
    job: usize,
    leaf: usize,
    tasks: &[usize],
    pieces: &[Piece],
) -> Result<(), Obstacle> {
    let rules = cycle.rules;
    let lost = pieces.iter().any(|piece| {
        runtime::from_reclaim(rules, leaf, piece.job)
            && !runtime::keeps_its_gang(&cycle.state, piece.job)
    });
    if lost {
        return Err(Obstacle::NobodyGivesWay);
    }
    if !rules.settings.quotas {
        return Ok(());
    }
    let mut taken = taken(cycle, pieces);
    taken.sort_by_key(|(project, _)| *project);
    let preemptible = rules.index.jobs[job].preemptible;
    let asked = unit::charge(&cycle.state, tasks);
    cycle.quotas.check(leaf, preemptible, asked, &taken).map_err(Obstacle::Barred)
}

/// Returns the amounts that leave, by project, in the order of the check: for each job first the
/// tasks beyond the minimum of their set one by one, then all others together. Tasks with another
/// place do not leave.
fn taken(cycle: &Cycle<'_>, pieces: &[Piece]) -> Vec<(usize, Amounts)> {
    let rules = cycle.rules;
    let mut jobs: Vec<usize> = Vec::new();
    for piece in pieces {
        if !jobs.contains(&piece.job) {
            jobs.push(piece.job);
        }
    }
    let mut taken = Vec::new();
    for job in jobs {
        let Some(project) = rules.index.jobs[job].project else { continue };
        let mut counts: BTreeMap<usize, i64> = BTreeMap::new();
        let mut core = Amounts::default();
        let own = pieces.iter().filter(|piece| piece.job == job);
        for &task in own.flat_map(|piece| &piece.tasks) {
            let set = rules.index.tasks[task].set;
            let count = counts.entry(set).or_default();
            *count += 1;
            if cycle.state.tasks[task].state != TaskStatus::Evicted {
                continue;
            }
            let amount = cycle.state.charge(task);
            if *count > rules.index.sets[set].min {
                taken.push((project, amount));
            } else {
                core += amount;
            }
        }
        if core != Amounts::default() {
            taken.push((project, core));
        }
    }
    taken
}
