//! The domains of a gang with a topology: the sets of nodes with one value of its label. A cycle
//! tries one after the other, like the flavors of a job.

use std::borrow::Cow;
use std::collections::BTreeMap;

use gpool_model::plan::Fit;
use gpool_model::{NodeName, Reason, Shape};
use gpool_world::World;

use crate::capacity::Capacity;
use crate::fit_reason::too_few_nodes;

/// A shape that is limited to one domain, with the position of the domain by its value; `None` for
/// a shape that is not limited.
pub(crate) type InDomain<'a> = (Option<usize>, Cow<'a, Shape>);

/// Returns the shape once for each domain, the domains with the fewest free devices first so that
/// others stay whole, and last, if the topology is only preferred, as it is. A job without a
/// topology has one shape.
pub(crate) fn in_domains<'a>(
    world: &World,
    capacity: &Capacity<'_>,
    shape: Cow<'a, Shape>,
) -> Vec<InDomain<'a>> {
    let Some(topology) = shape.fit.topology() else { return vec![(None, shape)] };
    let domains = domains(world, &shape.fit);
    let n_free = |names: &[&NodeName]| {
        let places = names.iter().filter_map(|name| capacity.position(world, name));
        places.map(|node_pos| capacity.nodes[node_pos].n_free).sum::<usize>()
    };
    let mut limited: Vec<(usize, InDomain<'a>)> = Vec::new();
    for (ix, names) in domains.values().enumerate() {
        let fit = shape.fit.only_on(names.iter().copied());
        let limit = Shape { fit, ..Shape::clone(&shape) };
        limited.push((n_free(names), (Some(ix), Cow::Owned(limit))));
    }
    limited.sort_by_key(|(n_free, (ix, _))| (*n_free, *ix));
    let is_required = topology.is_required;
    let limited = limited.into_iter().map(|(_, shape)| shape);
    limited.chain((!is_required).then_some((None, shape))).collect()
}

/// The nodes that a fit may use, by the value of its topology's label.
fn domains<'w>(world: &'w World, fit: &Fit) -> BTreeMap<&'w str, Vec<&'w NodeName>> {
    let mut domains = BTreeMap::<&str, Vec<&NodeName>>::new();
    let Some(topology) = fit.topology() else { return domains };
    let nodes = world.nodes_by_name().map(|(_, row)| &row.node);
    for node in nodes.filter(|node| fit.may_be_on(node)) {
        if let Some(value) = node.topology_value(topology) {
            domains.entry(value).or_default().push(&node.name);
        }
    }
    domains
}

/// Why a gang has no place in any domain that it needs: the numbers of the domain that is closest;
/// an empty value if there is no domain. `None` without such a need.
pub(crate) fn reason(world: &World, capacity: &Capacity<'_>, fit: &Fit) -> Option<Reason> {
    fit.topology().filter(|topology| topology.is_required)?;
    let reasons = domains(world, fit).into_iter().map(|(value, names)| {
        let mut reason = too_few_nodes(capacity, &fit.only_on(names.into_iter()), true);
        let mut rank = (false, 0, 0);
        if let Reason::NodesNotFree { need, free, able, within }
        | Reason::TasksNotFree { need, free, able, within } = &mut reason
        {
            *within = Some(value.into());
            rank = (*able >= *need, *free, *able);
        }
        (rank, reason)
    });
    // Of equal domains, the first.
    let best = reasons.reduce(|best, it| if it.0 > best.0 { it } else { best });
    let (need, free, able, within) = (fit.gang.nodes, 0, 0, Some(Box::default()));
    Some(match (best, fit.gang.anywhere) {
        (Some((_, reason)), _) => reason,
        (None, true) => Reason::TasksNotFree { need, free, able, within },
        (None, false) => Reason::NodesNotFree { need, free, able, within },
    })
}
