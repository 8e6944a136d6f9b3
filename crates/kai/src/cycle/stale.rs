//! Ends the rest of a gang that has been below its minimum for too long.

use crate::counters::State;
use crate::cycle::Cycle;
use crate::settings::Stage;

/// The stage.
pub(crate) fn run(cycle: &mut Cycle<'_>) {
    let grace = cycle.rules.settings.stale_grace;
    if grace < 0 {
        return;
    }
    for job in 0..cycle.rules.cluster.jobs.len() {
        if !is_stale(cycle, job, grace) {
            continue;
        }
        let mark = cycle.board.mark();
        for task in cycle.rules.cluster.jobs[job].tasks.clone() {
            if cycle.board.tasks[task].state.active() {
                cycle.board.evict(task);
            }
        }
        for task in cycle.board.changed(mark) {
            if cycle.board.tasks[task].state == State::Evicted {
                cycle.ended_for[task] = Some((Stage::StaleGangs, job));
            }
        }
        cycle.board.commit(mark);
    }
}

fn is_stale(cycle: &Cycle<'_>, job: usize, grace: i64) -> bool {
    let (cluster, board) = (cycle.rules.cluster, &cycle.board);
    let row = &cluster.jobs[job];
    let sets = || row.sets.clone().map(|set| board.sets[set]);
    let since = row.stale_since.unwrap_or(cluster.now);
    let lasts = cluster.now.saturating_sub(since) >= grace;
    lasts
        && sets().all(|set| set.succeeded == 0)
        && sets().any(|set| set.active() + set.leaving > 0)
        && row.sets.clone().any(|set| board.sets[set].active() < cluster.sets[set].min)
}
