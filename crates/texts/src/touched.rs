//! Texts for conflicts of reservations and drains, and for the jobs that they affect.

use gpool_model::reserve::RunningThere;
use gpool_model::{Affected, Beneficiary, NodeName, Timestamp};

use crate::problem::Problem;
use crate::reason::span_words;
use crate::time::Time;
use crate::words::beneficiary_words;

/// Maximum number of jobs named in a message.
const NAMED_MAX: usize = 8;

/// Adds the affected jobs, and the choices, to a problem.
pub fn affects(mut problem: Problem, affected: &Affected) -> Problem {
    if !affected.in_time.is_empty() {
        let ids: Vec<String> =
            affected.in_time.iter().take(NAMED_MAX).map(|it| it.job.to_string()).collect();
        let n = affected.in_time.len();
        problem = problem.because(format!("{} will finish in time ({})", jobs(n), more(ids, n)));
    }
    for there in affected.too_long.iter().take(NAMED_MAX) {
        problem = problem.because(too_long(there));
    }
    if let Some(rest) = affected.too_long.len().checked_sub(NAMED_MAX).filter(|rest| *rest > 0) {
        problem = problem.because(format!("{} more will not finish in time", jobs(rest)));
    }
    if affected.n_waiting > 0 {
        let ids: Vec<String> =
            affected.waiting.iter().take(NAMED_MAX).map(|it| it.job.to_string()).collect();
        let n = usize::try_from(affected.n_waiting).unwrap_or(usize::MAX);
        let (ids, jobs) = (more(ids, n), if n == 1 { "job" } else { "jobs" });
        problem = problem.because(format!("{n} waiting {jobs} may no longer start there ({ids})"));
    }
    problem.try_this(
        "--let-finish lets running jobs finish, --requeue requeues them, --cancel ends them",
    )
}

fn too_long(there: &RunningThere) -> String {
    let RunningThere { job, user, node, ends, by_limit, .. } = there;
    let when = match (ends, by_limit) {
        (Some(ends), true) => format!("limit {}", Time(*ends).short()),
        (Some(ends), false) => format!("likely {}", Time(*ends).short()),
        (None, _) => "no time limit".to_owned(),
    };
    format!("job {job} on {node} will not finish in time ({user}, {when})")
}

fn jobs(n: usize) -> String {
    if n == 1 { "1 job".to_owned() } else { format!("{n} jobs") }
}

fn more(mut ids: Vec<String>, n: usize) -> String {
    if n > ids.len() {
        ids.push("…".to_owned());
    }
    ids.join(", ")
}

/// Describes the conflict between two reservations in one line.
pub fn clash(
    beneficiary: &Beneficiary,
    node: &NodeName,
    index: Option<u32>,
    from: Timestamp,
    until: Option<Timestamp>,
) -> String {
    let what = index.map_or_else(|| node.to_string(), |index| format!("GPU {index} of {node}"));
    let whom = match beneficiary_words(beneficiary) {
        (_, None) => "maintenance".to_owned(),
        (kind, Some(name)) => format!("{kind} {name}"),
    };
    format!("{what} is reserved for {whom}, {}", span_words(from, until))
}
