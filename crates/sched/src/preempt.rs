//! Preempting: a job goes before others of its project that run, may be taken back and have a lower
//! priority (SCHEDULING A10). Where nothing is shared between projects all jobs are of one.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use gpool_model::{Millis, OrderKey, Policy, Project};
use gpool_world::{ProjectIx, Snapshot};

use crate::evict::{Cost, Evictions, Ground, Lent, Site, amounts_of, cost, piece};
use crate::place::{Found, Seeker};
use crate::projects::{Amounts, Saturation};
use crate::shares::Row;

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
    ) -> Option<(Found, Vec<Lent>)> {
        let projects = ground.projects;
        let project = projects.are_shared.then(|| projects.project(leaf));
        let own = self.own.entry(project).or_insert_with(|| of_project(ground, project));
        let mut best: Option<(Cost, Found, Vec<Lent>)> = None;
        for (board_ix, all) in own {
            let priority = seeker.shape.priority;
            let may_go = |it: &&Lent| it.order.priority < priority && !self.gone.contains(&it.job);
            let all: Vec<&Lent> = all.iter().filter(may_go).collect();
            let node = &ground.board.nodes[*board_ix];
            let may_be_on = seeker.shape.fit.may_be_on(&node.row.node);
            if all.is_empty() || !node.row.node.takes_work() || !may_be_on {
                continue;
            }
            let site = Site::new(ground, *board_ix, seeker, &self.claimed);
            let Some(site) = site else { continue };
            let found = |gone: &[&Lent]| {
                let devices = site.devices(gone)?;
                may_have(&sum(gone, unit.len())).then_some(devices)
            };
            let Some((victims, devices)) = least(&all, &found) else { continue };
            let cost = cost(projects, &victims, unit, *board_ix);
            if best.as_ref().is_none_or(|(least, ..)| cost < *least) {
                let share = seeker.shape.fit.gpus.share();
                let found = Found::new(*board_ix, node.ix, devices, share);
                best = Some((cost, found, victims.into_iter().cloned().collect()));
            }
        }
        let (_, found, victims) = best?;
        self.gone.extend(victims.iter().map(|it| it.job));
        self.claimed.extend(found.devices.iter().map(|ix| (found.board_ix, *ix)));
        Some((found, victims))
    }
}

/// The least of those that has to go, in the order in which they go, and the devices that are had
/// then; `None` if all of them are not enough.
fn least<'l>(
    all: &[&'l Lent],
    found: &dyn Fn(&[&Lent]) -> Option<Vec<usize>>,
) -> Option<(Vec<&'l Lent>, Vec<usize>)> {
    let mut chosen = Vec::new();
    let mut devices = None;
    for it in all {
        chosen.push(*it);
        devices = found(&chosen);
        if devices.is_some() {
            break;
        }
    }
    let mut devices = devices?;
    // The last one was needed. Of the others, who would go last stays first.
    for at in (0..chosen.len() - 1).rev() {
        let mut fewer = chosen.clone();
        fewer.remove(at);
        if let Some(other) = found(&fewer) {
            (chosen, devices) = (fewer, other);
        }
    }
    Some((chosen, devices))
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
            let Some((board_ix, piece)) = piece else { continue };
            let Reverse(started_at) = piece.order.started_at;
            if started_at.after(safe_for) <= now {
                own.entry(board_ix).or_default().push(piece);
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
