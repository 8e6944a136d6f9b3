//! Preempting: a job goes before others of its project that run, may be taken back and have a lower
//! priority (SCHEDULING A10). Where nothing is shared between projects all jobs are of one.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use gpool_model::{Millis, OrderKey, Policy, Project};
use gpool_world::{ProjectIx, Snapshot};

use crate::evict::{Cost, Evictions, Ground, Lent, Search, amounts_of, cost, piece};
use crate::place::{self, Found, Seeker};
use crate::projects::{Amounts, Saturation};
use crate::shares::Row;
use crate::site::Site;

/// Whether jobs go before others that run because of their priority.
pub(crate) fn happens(policy: &Policy) -> bool {
    policy.order.contains(&OrderKey::Priority)
}

impl Evictions {
    /// Whose work of the same project goes so that a job can start, and where that is then; `None`
    /// if none may go that would help. `leaf` is charged `unit` for it, and `may_have` says whether
    /// it may have that once so much is given up.
    pub fn preempt(
        &mut self,
        ground: Ground<'_, '_>,
        seeker: &Seeker<'_>,
        (leaf, unit): (Row, &[u64]),
        may_have: &dyn Fn(&[u64]) -> bool,
    ) -> Option<(Vec<Found>, Vec<Lent>)> {
        let projects = ground.projects;
        let project = projects.are_shared.then(|| projects.project(leaf));
        let own = self.own.remove(&project).unwrap_or_else(|| of_project(ground, project));
        let priority = seeker.shape.priority;
        let may_go = |it: &Lent| it.order.priority < priority && !self.gone.contains(&it.job);
        let search = Search { ground, seeker, unit, all: &own, may_go: &may_go };
        let found = match place::n_nodes(&seeker.shape.fit) {
            1 => self.on_one_node(search, may_have),
            _ => self.nodes(search, &mut |gone| match may_have(&sum(gone, unit.len())) {
                true => Ok(()),
                false => Err(None),
            }),
        };
        self.own.insert(project, own);
        found.map(|found| self.go(found))
    }

    /// Where others may have to go although there is room, since the project has all it may have.
    fn on_one_node(
        &self,
        search: Search<'_, '_, '_>,
        may_have: &dyn Fn(&[u64]) -> bool,
    ) -> Option<(Vec<Found>, Vec<Lent>)> {
        let Search { ground, seeker, unit, all, may_go } = search;
        let mut best: Option<(Cost, Found, Vec<Lent>)> = None;
        for (board_ix, all) in all {
            let all: Vec<&Lent> = all.iter().filter(|it| may_go(it)).collect();
            let site = Site::new(ground, *board_ix, seeker, None, &self.claimed);
            let Some(site) = site.filter(|_| !all.is_empty()) else { continue };
            let found = |gone: &[&Lent]| {
                let found = site.found(gone)?;
                may_have(&sum(gone, unit.len())).then_some(found)
            };
            let Some((victims, found)) = least(&all, &found) else { continue };
            let cost = cost(ground.projects, &victims, unit, *board_ix);
            if best.as_ref().is_none_or(|(least, ..)| cost < *least) {
                best = Some((cost, found, victims.into_iter().cloned().collect()));
            }
        }
        best.map(|(_, found, victims)| (vec![found], victims))
    }
}

/// The least of those that has to go, in the order in which they go, and the place that is had
/// then; `None` if all of them are not enough.
fn least<'l>(
    all: &[&'l Lent],
    found: &dyn Fn(&[&Lent]) -> Option<Found>,
) -> Option<(Vec<&'l Lent>, Found)> {
    let mut chosen = Vec::new();
    let mut place = None;
    for it in all {
        chosen.push(*it);
        place = found(&chosen);
        if place.is_some() {
            break;
        }
    }
    let mut place = place?;
    // The last one was needed. Of the others, who would go last stays first.
    for at in (0..chosen.len() - 1).rev() {
        let mut fewer = chosen.clone();
        fewer.remove(at);
        if let Some(other) = found(&fewer) {
            (chosen, place) = (fewer, other);
        }
    }
    Some((chosen, place))
}

fn sum(victims: &[&Lent], n_kinds: usize) -> Amounts {
    let mut sum = vec![0; n_kinds];
    for it in victims {
        for (sum, amount) in sum.iter_mut().zip(&it.amounts) {
            *sum += amount;
        }
    }
    sum
}

/// All that may go of a project, or of all, by position of its node on the board, who goes first
/// first.
fn of_project(ground: Ground<'_, '_>, project: Option<Row>) -> BTreeMap<usize, Vec<Lent>> {
    let Snapshot { world, now } = *ground.snapshot;
    let projects = ground.projects;
    let mut own = BTreeMap::<usize, Vec<Lent>>::new();
    for (ix, (row, of)) in world.project_rows().iter().zip(projects.rows()).enumerate() {
        if project.is_some_and(|project| project != *of) || row.evictable.is_empty() {
            continue;
        }
        let safe_for = min_runtime(ground, row);
        for job in row.evictable.iter().filter_map(|id| world.job(*id)) {
            let leaf = projects.leaf_of(ProjectIx(ix), job.spec.owner.uid);
            let amounts = amounts_of(projects, job);
            let piece = piece(&ground, job, leaf, amounts, Saturation::EQUAL);
            let Some(piece) = piece else { continue };
            let Reverse(started_at) = piece.order.started_at;
            if started_at.after(safe_for) <= now {
                for board_ix in piece.held.keys() {
                    own.entry(*board_ix).or_default().push(piece.clone());
                }
            }
        }
    }
    own.values_mut().for_each(|all| all.sort_by_key(|it| it.order));
    own
}

/// For how long what a project started is safe from others of it: as it or the first above it
/// says.
fn min_runtime(ground: Ground<'_, '_>, row: &gpool_world::ProjectRow) -> Millis {
    let projects = ground.snapshot.world.projects();
    let above = |it: &&Project| projects.get(it.parent.as_ref()?);
    let mut upwards = std::iter::successors(projects.get(&row.name), above).take(projects.len());
    upwards.find_map(|it| it.min_runtime.preempt).unwrap_or(Millis::ZERO)
}
