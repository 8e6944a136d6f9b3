//! Allocates free and soon free capacity: one unit of a job at a time, in order.

use crate::cycle::place::{How, Lacks};
use crate::cycle::place_unit::{place_unit, wait_together};
use crate::cycle::{Cycle, Obstacle};
use crate::settings::Stage;
use crate::unit;

/// The stage.
pub(crate) fn run(cycle: &mut Cycle<'_>) {
    without_a_turn(cycle);
    let mut turns = cycle.turns(|_| true);
    // What each request lacked when it was refused without any of its tasks placed. This stage only
    // takes capacity, so the request lacks it until the end.
    let mut refused: Vec<Option<Lacks>> = vec![None; cycle.rules.index.asks.len()];
    while let Some(job) = turns.pop(cycle.rules, &cycle.state) {
        match one(cycle, job, &mut refused) {
            Ok(()) => {
                let rules = cycle.rules;
                if let Some(leaf) = rules.index.jobs[job].project {
                    turns.update(rules, &cycle.state, leaf);
                }
                if unit::candidate(&cycle.state, job) {
                    turns.push(rules, &cycle.state, job, None);
                }
            }
            Err(obstacle) => cycle.note(job, Stage::Allocate, obstacle),
        }
    }
}

/// Adds the reasons of jobs that wait without a turn.
fn without_a_turn(cycle: &mut Cycle<'_>) {
    for (job, row) in cycle.rules.index.jobs.iter().enumerate() {
        let waits = row.sets.clone().any(|set| cycle.state.sets[set].waiting > 0);
        if waits && !unit::candidate(&cycle.state, job) {
            let obstacle =
                if row.project.is_some() { Obstacle::TooFew } else { Obstacle::NoProject };
            cycle.note(job, Stage::Allocate, obstacle);
        }
    }
}

fn one(cycle: &mut Cycle<'_>, job: usize, refused: &mut [Option<Lacks>]) -> Result<(), Obstacle> {
    let rules = cycle.rules;
    let tasks = unit::unit(&cycle.state, job).ok_or(Obstacle::TooFew)?;
    let ask = |task: usize| rules.index.tasks[task].ask;
    let first = tasks.first().copied();
    let lacked = tasks.iter().find_map(|&task| refused[ask(task)].map(|lacks| (task, lacks)));
    let mark = cycle.state.mark();
    let how = How { later: false, nodes: None };
    let tried = match lacked {
        // Limits come first: they are the reported reason where both apply.
        Some((task, lacks)) => {
            let asked = unit::charge(&cycle.state, &tasks);
            crate::admit::admit(&cycle.state, rules.entitled, rules.settings, job, asked)
                .map_err(Obstacle::Passed)
                .and(Err(Obstacle::NoRoom { task, lacks }))
        }
        None => place_unit(rules, &mut cycle.state, job, &tasks, how),
    };
    if let Err(obstacle) = tried {
        cycle.state.undo(mark);
        if let Obstacle::NoRoom { task, lacks } = obstacle
            && first == Some(task)
            && lacks.quota == 0
            && rules.settings.shortcuts
        {
            refused[ask(task)] = Some(lacks);
        }
        return Err(obstacle);
    }
    wait_together(&mut cycle.state, job, mark);
    cycle.commit(mark, Stage::Allocate, job);
    Ok(())
}
