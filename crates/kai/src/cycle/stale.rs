//! Ends the rest of a gang that has been below its minimum for too long.

use crate::counters::TaskStatus;
use crate::cycle::Cycle;
use crate::settings::Stage;

/// The stage.
pub(crate) fn run(cycle: &mut Cycle<'_>) {
    let grace = cycle.rules.settings.stale_grace;
    if grace < 0 {
        return;
    }
    for job in 0..cycle.rules.index.jobs.len() {
        if !is_stale(cycle, job, grace) {
            continue;
        }
        let mark = cycle.state.mark();
        for task in cycle.rules.index.jobs[job].tasks.clone() {
            if cycle.state.tasks[task].state.active() {
                cycle.state.evict(task);
            }
        }
        for task in cycle.state.changed(mark) {
            if cycle.state.tasks[task].state == TaskStatus::Evicted {
                cycle.ended_for[task] = Some((Stage::StaleGangs, job));
            }
        }
        cycle.state.commit(mark);
    }
}

fn is_stale(cycle: &Cycle<'_>, job: usize, grace: i64) -> bool {
    let (index, state) = (cycle.rules.index, &cycle.state);
    let row = &index.jobs[job];
    let sets = || row.sets.clone().map(|set| state.sets[set]);
    let since = row.stale_since.unwrap_or(index.now);
    let lasts = index.now.saturating_sub(since) >= grace;
    lasts
        && sets().all(|set| set.succeeded == 0)
        && sets().any(|set| set.active() + set.leaving > 0)
        && row.sets.clone().any(|set| state.sets[set].active() < index.sets[set].min)
}
