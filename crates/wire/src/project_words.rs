//! Texts of warnings about projects.

use gpool_model::{ProjectWarning, ResourceKind};

use crate::kind::amount_words;

/// Returns the text of a warning, one line.
#[must_use]
pub fn warning(it: &ProjectWarning) -> String {
    match it {
        ProjectWarning::AboveParent { project, kind, promised, guaranteed } => format!(
            "the projects below {project} are guaranteed {} together, and {project} has {}: each \
             can keep its part of that",
            amount_words(kind, *promised),
            amount_words(kind, *guaranteed),
        ),
        ProjectWarning::AboveCluster { kind, promised, capacity } => format!(
            "{} are guaranteed in all, and there are {}: each project can keep its part of that",
            amount_words(kind, *promised),
            amount_words(kind, *capacity),
        ),
        ProjectWarning::AboveOwnLimit { project, kind, guaranteed, limit } => format!(
            "{project} is guaranteed {} and limited to {}: the limit holds",
            amount_words(kind, *guaranteed),
            amount_words(kind, *limit),
        ),
        ProjectWarning::NoSuchGpus { project, kind: ResourceKind::GpuModel(model) } => format!(
            "{project} has a quota of {} GPUs, and no GPU here is of that model: gpool gpus",
            model.to_uppercase()
        ),
        ProjectWarning::NoSuchGpus { project, kind } => {
            format!("{project} has a quota of {kind}, and there are none: gpool node list")
        }
        ProjectWarning::NeverTakenBack { project } => format!(
            "GPUs that {project} holds are never taken back, for it is guaranteed as many as there \
             are; to bound it: gpool project edit {project} --gpus 0"
        ),
        ProjectWarning::HoldsMore { project, kind, held, guaranteed, for_good } => {
            let kept = match for_good {
                0 => String::new(),
                kept => format!("; {} can't be taken back", amount_words(kind, *kept)),
            };
            format!(
                "{project} holds {} and is guaranteed {} now: the rest is on loan, and nothing \
                 ends before its owner asks{kept}",
                amount_words(kind, *held),
                amount_words(kind, *guaranteed),
            )
        }
    }
}
