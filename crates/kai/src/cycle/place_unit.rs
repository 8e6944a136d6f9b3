//! Places the tasks of a unit, all or none.

use crate::admit::admit;
use crate::counters::{TaskNow, TaskStatus};
use crate::cycle::place::{How, place};
use crate::cycle::{Obstacle, Rules};
use crate::state::State;
use crate::unit;

/// Places tasks of a job one after the other.
///
/// # Errors
/// If a task has no place. Tasks before it stay placed, and the caller removes them.
pub(crate) fn place_unit(
    rules: Rules<'_>,
    state: &mut State<'_>,
    job: usize,
    tasks: &[usize],
    how: How<'_>,
) -> Result<(), Obstacle> {
    let asked = unit::charge(state, tasks);
    admit(state, rules.entitled, rules.settings, job, asked).map_err(Obstacle::Passed)?;
    for &task in tasks {
        place(rules, state, task, how).map_err(|lacks| Obstacle::NoRoom { task, lacks })?;
    }
    Ok(())
}

/// If a part of the gang's minimum has to wait for victims, all tasks placed since the mark wait
/// with it.
pub(crate) fn wait_together(state: &mut State<'_>, job: usize, mark: usize) {
    let row = &state.index.jobs[job];
    let waits = row.sets.clone().any(|set| {
        let now = state.sets[set];
        now.claiming > 0 && now.holding < state.index.sets[set].min
    });
    if !waits {
        return;
    }
    for task in state.changed(mark) {
        let now = state.tasks[task];
        if now.state == TaskStatus::Bound {
            state.set(task, TaskNow { state: TaskStatus::Pipelined, ..now });
        }
    }
}
