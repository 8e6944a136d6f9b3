//! Checks whether a project may ever have the GPUs that a job asks for, where quotas name parts of
//! the GPUs by model or by pool.

use gpool_model::plan::Fit;
use gpool_model::reason::Bound;
use gpool_model::{ProjectName, Refusal, ResourceKind};
use gpool_world::{GpuClass, World};

use crate::admission::{AdmissionRequest, Rule};

/// A bound on some GPUs, in thousandths.
struct Most<'a> {
    amount: u64,
    project: &'a ProjectName,
    kind: &'a ResourceKind,
    bound: Bound,
}

impl Most<'_> {
    fn refusal(self, asked: u64) -> Refusal {
        let Self { amount, project, kind, bound } = self;
        Refusal::AboveQuota {
            project: project.clone(),
            kind: kind.clone(),
            bound,
            asked,
            most: amount,
        }
    }
}

/// Refuses a job if no class of GPUs allows it, and the classes that it may combine don't either.
pub(crate) fn check(world: &World, rules: &[Rule], asks: &AdmissionRequest) -> Result<(), Refusal> {
    asks.fits.iter().try_for_each(|(_, fit)| check_fit(world, rules, asks, fit))
}

fn check_fit(
    world: &World,
    rules: &[Rule],
    asks: &AdmissionRequest,
    fit: &Fit,
) -> Result<(), Refusal> {
    let asked = fit.gpus_together().get();
    let names_parts = |rule: &Rule| rule.most.iter().any(|(kind, ..)| kind.is_part_of_gpus());
    if asks.allow_unsatisfiable || asked == 0 || !rules.iter().any(names_parts) {
        return Ok(());
    }
    let classes = world.gpu_classes().filter(|class| class.serves(fit));
    let classes: Vec<&GpuClass> = classes.collect();
    // Bounds that apply to every class.
    let everywhere = bounds(rules, asks, |kind| classes.iter().all(|it| it.counts_as(kind)));
    if let Some(most) = everywhere.min_by_key(|most| most.amount).filter(|it| asked > it.amount)
        && !classes.is_empty()
    {
        return Err(most.refusal(asked));
    }
    let mut together = 0_u64;
    let mut largest: Option<Most<'_>> = None;
    for class in classes {
        let most = bounds(rules, asks, |kind| class.counts_as(kind)).min_by_key(|it| it.amount);
        let Some(most) = most.filter(|most| asked > most.amount) else { return Ok(()) };
        together = together.saturating_add(most.amount);
        if largest.as_ref().is_none_or(|largest| most.amount > largest.amount) {
            largest = Some(most);
        }
    }
    let gpus = &fit.gpus;
    let is_mixed = gpus.models.len() < 2 && (gpus.n_devices() > 1 || fit.gang.n_tasks() > 1);
    match largest {
        Some(most) if !is_mixed || asked > together => Err(most.refusal(asked)),
        _ => Ok(()),
    }
}

/// Returns the bounds of these kinds.
fn bounds<'a>(
    rules: &'a [Rule],
    asks: &AdmissionRequest,
    counts: impl Fn(&ResourceKind) -> bool,
) -> impl Iterator<Item = Most<'a>> {
    let all = rules.iter().flat_map(|rule| rule.most.iter().map(move |it| (rule, it)));
    let parts = all.filter(move |(_, (kind, ..))| kind.is_part_of_gpus() && counts(kind));
    parts.flat_map(|(rule, (kind, limit, guaranteed))| {
        let bounds = rule.bounds(asks, *limit, *guaranteed);
        bounds.filter_map(move |(bound, most)| {
            let amount = most.finite()?;
            Some(Most { amount, project: &rule.project, kind, bound })
        })
    })
}
