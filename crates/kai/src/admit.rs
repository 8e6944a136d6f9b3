//! Whether a project may have more: limits, and guarantees for non-preemptible jobs.

use crate::entitled::Entitlements;
use crate::input::{Amounts, Kind};
use crate::settings::Settings;
use crate::state::State;

/// A line that a request would pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Passed {
    pub project: usize,
    pub kind: Kind,
    pub held: i64,
    pub asked: i64,
    pub bound: i64,
    /// Whether the bound is the guarantee, for non-preemptible jobs; otherwise it is the limit.
    pub guarantee: bool,
}

/// Whether a job may have that much more, for its project and all above it.
///
/// # Errors
/// The first line that it would pass.
pub(crate) fn admit(
    state: &State<'_>,
    entitled: &Entitlements,
    settings: &Settings,
    job: usize,
    request: Amounts,
) -> Result<(), Passed> {
    let job = &state.index.jobs[job];
    let Some(leaf) = job.project else { return Ok(()) };
    if !settings.quotas {
        return Ok(());
    }
    for project in state.index.upward(leaf) {
        let held = state.allocated[project];
        for (kind, limit) in Kind::ALL.into_iter().zip(entitled.projects[project].limit) {
            if let Some(bound) = limit
                && request[kind] > 0
                && held[kind].saturating_add(request[kind]) > bound
            {
                let (held, asked) = (held[kind], request[kind]);
                return Err(Passed { project, kind, held, asked, bound, guarantee: false });
            }
        }
    }
    if job.preemptible { Ok(()) } else { guaranteed(state, entitled, leaf, request) }
}

/// Checks that non-preemptible allocations stay within the guarantee with that much more.
///
/// # Errors
/// The first guarantee that would be exceeded.
pub(crate) fn guaranteed(
    state: &State<'_>,
    entitled: &Entitlements,
    leaf: usize,
    request: Amounts,
) -> Result<(), Passed> {
    for project in state.index.upward(leaf) {
        let held = state.fixed[project];
        for (kind, bound) in Kind::ALL.into_iter().zip(entitled.projects[project].guaranteed) {
            if let Some(bound) = bound
                && held[kind].saturating_add(request[kind]) > bound
            {
                let (held, asked) = (held[kind], request[kind]);
                return Err(Passed { project, kind, held, asked, bound, guarantee: true });
            }
        }
    }
    Ok(())
}
