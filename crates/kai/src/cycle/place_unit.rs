//! Places the tasks of a unit, all or none.

use crate::admit::admit;
use crate::board::Board;
use crate::counters::{State, TaskNow};
use crate::cycle::place::{How, place};
use crate::cycle::{Obstacle, Rules};
use crate::unit;

/// Places tasks of a job one after the other.
///
/// # Errors
/// If a task has no place. Tasks before it stay placed, and the caller removes them.
pub(crate) fn place_unit(
    rules: Rules<'_>,
    board: &mut Board<'_>,
    job: usize,
    tasks: &[usize],
    how: How<'_>,
) -> Result<(), Obstacle> {
    let asked = unit::charge(board, tasks);
    admit(board, rules.entitled, rules.settings, job, asked).map_err(Obstacle::Passed)?;
    for &task in tasks {
        place(rules, board, task, how).map_err(|lacks| Obstacle::NoRoom { task, lacks })?;
    }
    Ok(())
}

/// If a part of the gang's minimum has to wait for victims, all tasks placed since the mark wait
/// with it.
pub(crate) fn wait_together(board: &mut Board<'_>, job: usize, mark: usize) {
    let row = &board.cluster.jobs[job];
    let waits = row.sets.clone().any(|set| {
        let now = board.sets[set];
        now.claiming > 0 && now.holding < board.cluster.sets[set].min
    });
    if !waits {
        return;
    }
    for task in board.changed(mark) {
        let now = board.tasks[task];
        if now.state == State::Bound {
            board.set(task, TaskNow { state: State::Pipelined, ..now });
        }
    }
}
