//! The minimum run time before a job may be evicted.

use crate::cycle::Rules;
use crate::state::State;

/// Whether a job of the same project may not evict this job yet.
pub(crate) fn from_preempt(rules: Rules<'_>, job: usize) -> bool {
    let index = rules.index;
    let least = index.jobs[job]
        .project
        .and_then(|leaf| index.upward(leaf).find_map(|row| index.projects[row].min_run_preempt))
        .unwrap_or(rules.settings.min_run_preempt);
    protected(rules, job, least)
}

/// Whether the minimum run time still protects the job from a reclaim by another project. The
/// setting is looked up from the point at which the paths of the two projects part, upwards; for
/// projects without a common ancestor, at the top.
pub(crate) fn from_reclaim(rules: Rules<'_>, reclaimer: usize, job: usize) -> bool {
    let index = rules.index;
    let least = index.jobs[job]
        .project
        .and_then(|leaf| {
            let common: Vec<usize> = index.upward(reclaimer).collect();
            let path: Vec<usize> = index.upward(leaf).collect();
            let parting = path.iter().take_while(|row| !common.contains(row)).count();
            let from = parting.saturating_sub(1);
            path[from..].iter().find_map(|&row| index.projects[row].min_run_reclaim)
        })
        .unwrap_or(rules.settings.min_run_reclaim);
    protected(rules, job, least)
}

fn protected(rules: Rules<'_>, job: usize, least: i64) -> bool {
    let start = rules.index.jobs[job].last_start;
    rules.settings.min_run
        && start.is_some_and(|start| rules.index.now < start.saturating_add(least))
}

/// Whether a job has more tasks than its gang.
pub(crate) fn elastic(rules: Rules<'_>, job: usize) -> bool {
    rules.index.jobs[job].sets.clone().any(|set| {
        let set = &rules.index.sets[set];
        i64::try_from(set.tasks.len()).is_ok_and(|count| count > set.min)
    })
}

/// Whether the gang of a job still runs.
pub(crate) fn keeps_its_gang(state: &State<'_>, job: usize) -> bool {
    let mut sets = state.index.jobs[job].sets.clone();
    sets.all(|set| state.sets[set].active() >= state.index.sets[set].min)
}
