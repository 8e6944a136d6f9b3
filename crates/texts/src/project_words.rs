//! Texts of warnings about projects.

use gpool_model::{ProjectWarning, ResourceKind};

use crate::kind::amount_words;

/// Returns the text of a warning, one line.
#[must_use]
pub fn warning(it: &ProjectWarning) -> String {
    match it {
        ProjectWarning::AboveParent { project, kind, promised, guaranteed } => format!(
            "the projects below {project} are guaranteed {} in total, more than the {} of \
             {project}: each gets a proportional part",
            amount_words(kind, *promised),
            amount_words(kind, *guaranteed),
        ),
        ProjectWarning::AboveCluster { kind, promised, capacity } => format!(
            "all projects together are guaranteed {}, and the cluster has {}: each gets a \
             proportional part",
            amount_words(kind, *promised),
            amount_words(kind, *capacity),
        ),
        ProjectWarning::AboveOwnLimit { project, kind, guaranteed, limit } => format!(
            "{project} is guaranteed {}, above its limit of {}: the limit applies",
            amount_words(kind, *guaranteed),
            amount_words(kind, *limit),
        ),
        ProjectWarning::NoSuchGpus { project, kind: ResourceKind::GpuModel(model) } => format!(
            "{project} has a quota for {} GPUs, and the cluster has none of that model (gpool gpus)",
            model.to_uppercase()
        ),
        ProjectWarning::NoSuchGpus { project, kind } => {
            format!("{project} has a quota for {kind}, and the cluster has none (gpool nodes)")
        }
        ProjectWarning::NeverTakenBack { project } => format!(
            "{project} is guaranteed all GPUs, so other projects can't reclaim GPUs from it; to \
             change that: gpool project edit {project} --gpus 0"
        ),
        ProjectWarning::HoldsMore { project, kind, held, guaranteed, for_good } => {
            let kept = match for_good {
                0 => String::new(),
                kept => format!("; {} can't be reclaimed", amount_words(kind, *kept)),
            };
            format!(
                "{project} uses {} and is guaranteed {} now: the rest is borrowed, and its jobs \
                 run until gpool reclaims it{kept}",
                amount_words(kind, *held),
                amount_words(kind, *guaranteed),
            )
        }
    }
}
