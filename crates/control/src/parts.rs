//! Whether a project may ever have the GPUs that a job asks for where quotas name parts of them,
//! by model or by pool.

use gpool_model::reason::Bound;
use gpool_model::{ProjectName, Refusal, ResourceKind};
use gpool_world::{GpuClass, World};

use crate::admission::{Asks, Rule};

/// The tightest bound of the GPUs of one class, in thousandths.
struct Most<'a> {
    amount: u64,
    project: &'a ProjectName,
    kind: &'a ResourceKind,
    bound: Bound,
}

/// Refuses what no class of GPUs, nor all together, could give.
pub(crate) fn check(world: &World, rules: &[Rule], asks: &Asks) -> Result<(), Refusal> {
    let asked = asks.fit.gpus_together().get();
    let names_parts = |rule: &Rule| rule.most.iter().any(|(kind, ..)| kind.is_part_of_gpus());
    if asks.allow_unsatisfiable || asked == 0 || !rules.iter().any(names_parts) {
        return Ok(());
    }
    let classes = world.gpu_classes().filter(|class| class.serves(&asks.fit));
    let mut together = 0_u64;
    let mut first = None;
    for class in classes {
        let Some(most) = most(rules, asks, class).filter(|most| asked > most.amount) else {
            return Ok(());
        };
        together = together.saturating_add(most.amount);
        first.get_or_insert(most);
    }
    let is_mixed = asks.fit.gpus.n_devices() > 1 || asks.fit.gang.n_tasks() > 1;
    match first {
        Some(Most { amount, project, kind, bound }) if !is_mixed || asked > together => {
            let (project, kind) = (project.clone(), kind.clone());
            Err(Refusal::AboveQuota { project, kind, bound, asked, most: amount })
        }
        _ => Ok(()),
    }
}

/// How many GPUs of a class a job may have; `None` without a bound.
fn most<'a>(rules: &'a [Rule], asks: &Asks, class: &GpuClass) -> Option<Most<'a>> {
    let all = rules.iter().flat_map(|rule| rule.most.iter().map(move |it| (rule, it)));
    let parts = all.filter(|(_, (kind, ..))| kind.is_part_of_gpus() && class.counts_as(kind));
    let bounds = parts.flat_map(|(rule, (kind, limit, guaranteed))| {
        let bounds = rule.bounds(asks, *limit, *guaranteed);
        bounds.filter_map(move |(bound, most)| {
            let amount = most.finite()?;
            Some(Most { amount, project: &rule.project, kind, bound })
        })
    });
    bounds.min_by_key(|most| most.amount)
}
