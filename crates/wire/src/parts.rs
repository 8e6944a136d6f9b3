//! Jobs with parts of different shape: checks of their request.

use std::collections::BTreeSet;

use gpool_model::{Gang, JobPart, JobRequest, Refusal};

use crate::check::invalid;
use crate::create::JobCreate;

/// Returns the parts of a job; none for a job whose tasks are alike.
///
/// # Errors
/// [`Refusal::Invalid`] for a text that is no part, a single part, a name that occurs again, too
/// many parts or tasks, and fields that do not go with parts.
pub(crate) fn parts(create: &JobCreate) -> Result<Vec<JobPart>, Refusal> {
    let bad = |why: &str| Err(invalid("parts", why));
    if create.parts.is_empty() {
        return Ok(Vec::new());
    }
    let parsed = create.parts.iter().map(|text| JobPart::parse(text));
    let parts: Vec<JobPart> =
        parsed.collect::<Result<_, _>>().map_err(|error| invalid("parts", &error.to_string()))?;
    if let [only] = &parts[..] {
        return bad(&format!(
            "there is only one part, {}; add another one, or give gpus and nodes instead",
            only.name
        ));
    }
    if parts.len() > JobRequest::PARTS_MAX {
        return bad(&format!("a job has at most {} parts", JobRequest::PARTS_MAX));
    }
    let mut names = BTreeSet::new();
    if let Some(part) = parts.iter().find(|part| !names.insert(&part.name)) {
        return bad(&format!("two parts have the name {}; give each its own", part.name));
    }
    let n_tasks = parts.iter().map(|part| u64::from(part.gang.n_tasks())).sum::<u64>();
    if n_tasks > u64::from(Gang::TASKS_MAX) {
        return bad(&format!("a job has 1 to {} tasks in total", Gang::TASKS_MAX));
    }
    match misfit(create) {
        Some((field, way)) => bad(&format!("{field} does not go with parts; {way}")),
        None => Ok(parts),
    }
}

/// A field that does not go with parts, and what to do instead.
fn misfit(create: &JobCreate) -> Option<(&'static str, &'static str)> {
    const OF_EACH: &str = "each part says it for itself: worker:4xa100:8,cpus=16,mem=100G,tasks=2";
    const LEAVE: &str = "leave it out";
    let of_each = [
        ("gpus", create.gpus.is_some()),
        ("gpu_share", create.gpu_share.is_some()),
        ("gpu_memory", create.gpu_memory.is_some()),
        ("cpus", create.cpus.is_some()),
        ("mem", create.mem.is_some()),
        ("nodes", create.nodes.is_some()),
        ("tasks_per_node", create.tasks_per_node.is_some()),
        ("tasks", create.tasks.is_some()),
    ];
    let others = [
        ("launcher", create.launcher.is_some()),
        ("torchrun", create.torchrun),
        ("topology", create.topology.is_some()),
        ("enforce", create.enforce.is_some()),
    ];
    let found = |all: &[(&'static str, bool)], way| {
        all.iter().find(|(_, is_set)| *is_set).map(|(field, _)| (*field, way))
    };
    found(&of_each, OF_EACH).or_else(|| found(&others, LEAVE))
}
