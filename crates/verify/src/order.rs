//! Checks that a plan keeps the queue order: among jobs that ask the same of a node, none starts
//! while an earlier one waits. Jobs that ask for different things are not compared, since a later
//! one may fit where an earlier one does not.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

use gpool_model::plan::Fit;
use gpool_model::{
    OrderKey, PartFit, Placement, Plan, Policy, PoolName, Project, ProjectName, ShareBetween,
};
use gpool_world::{JobRow, Snapshot, World};

use crate::arrays::{Running, row_of, waiting_rows};
use crate::job::{domain, fit_of, is_escalated, level, parts_of, started};
use crate::plan_state::PlanState;
use crate::shape::shape_of;
use crate::violation::Violation;

/// Returns the expected GPU-time of a job as the order compares it: the predicted length is a power
/// of two; without a prediction the time limit counts, in steps.
fn gpu_time(snapshot: &Snapshot<'_>, row: &JobRow) -> u64 {
    let shape = shape_of(snapshot.world, row);
    let length = shape.predicted.or(shape.takes);
    let length = length.map_or(u64::MAX, gpool_model::Millis::get);
    length.saturating_mul(row.spec.gpus_together().get().max(1))
}

/// Compares two pending jobs by the policy: jobs that a pool's own policy decides about come first.
pub(crate) fn compare(
    snapshot: &Snapshot<'_>,
    policy: &Policy,
    one: &JobRow,
    other: &JobRow,
) -> Ordering {
    let by_domain = domain(policy, one).cmp(&domain(policy, other));
    if by_domain != Ordering::Equal {
        return by_domain;
    }
    let policy_of_both = policy.of_pool(one.spec.pool.as_ref());
    let escalated = |row| is_escalated(row, policy, snapshot.now).unwrap_or(false);
    let level_of_waiting = |row| match escalated(row) {
        true => 0,
        false => level(policy, row, snapshot.now),
    };
    let mut both_escalated = false;
    let by_joining = one.spec.joins.is_some().cmp(&other.spec.joins.is_some());
    let order = &policy_of_both.order;
    if by_joining != Ordering::Equal && order.first() != Some(&OrderKey::Priority) {
        return by_joining;
    }
    for key in order {
        let by_key = match key {
            OrderKey::Priority => other.job.priority.cmp(&one.job.priority).then(by_joining),
            OrderKey::Escalated => {
                both_escalated = escalated(one) && escalated(other);
                escalated(other).cmp(&escalated(one))
            }
            OrderKey::Gpus | OrderKey::Predicted | OrderKey::Attained if both_escalated => {
                Ordering::Equal
            }
            OrderKey::Attained => level_of_waiting(one).cmp(&level_of_waiting(other)),
            OrderKey::Predicted => gpu_time(snapshot, one).cmp(&gpu_time(snapshot, other)),
            OrderKey::Gpus => one.spec.gpus_together().cmp(&other.spec.gpus_together()),
            OrderKey::Age => one.spec.submitted_at.cmp(&other.spec.submitted_at),
        };
        if by_key != Ordering::Equal {
            return by_key;
        }
    }
    let by_age = one.spec.submitted_at.cmp(&other.spec.submitted_at);
    by_age.then(one.job.id.cmp(&other.job.id))
}

/// Jobs that ask for the same start in queue order.
pub(crate) fn check_decisions(
    snapshot: &Snapshot<'_>,
    policy: &Policy,
    plan: &Plan,
    found: &mut Vec<Violation>,
) {
    type StartKey<'a> = (
        (Fit, Vec<PartFit>),
        (bool, Option<&'a PoolName>),
        &'a ProjectName,
        Option<u32>,
        BTreeSet<(&'a PoolName, &'a str)>,
    );
    let mut last_by_fit = BTreeMap::<StartKey<'_>, &JobRow>::new();
    let world = snapshot.world;
    let names_parts = |it: &Project| it.quotas.iter().any(|(kind, _)| kind.is_part_of_gpus());
    let by_class = world.projects().values().any(names_parts);
    let user =
        |row: &JobRow| (policy.share_between == ShareBetween::Users).then_some(row.spec.owner.uid);
    for decision in &plan.decisions {
        let Some((job, placements)) = decision.started() else { continue };
        let Some(row) = row_of(world, job) else { continue };
        // Quotas of models or pools may allow one job GPUs that they deny another.
        let classes = match by_class {
            true => placements.iter().flat_map(|it| classes_of(world, it)).collect(),
            false => BTreeSet::new(),
        };
        let asked = (fit_of(row), parts_of(row));
        let asked = (asked, domain(policy, row), &row.spec.project, user(row), classes);
        if let Some(before) = last_by_fit.insert(asked, row)
            && compare(snapshot, policy, before, row) == Ordering::Greater
        {
            found.push(Violation::OutOfOrder { started: before.job.id, passed: job });
        }
    }
}

/// Returns the pools and models of the devices of a placement.
fn classes_of<'a>(
    world: &'a World,
    placement: &'a Placement,
) -> impl Iterator<Item = (&'a PoolName, &'a str)> {
    let node = world.node(&placement.node).map(|row| &row.node);
    node.into_iter().flat_map(|node| {
        let all = node.devices.iter();
        let own = all.filter(|it| placement.slots.iter().any(|slot| slot.device == it.uuid));
        own.map(|it| (&node.pool, it.model.as_str()))
    })
}

/// No job starts before one that asks the same and stays pending. Exceptions: while a user has
/// reached a cap, other jobs may pass theirs, and quotas of models or pools may allow one job what
/// they deny another.
pub(crate) fn check_passed_over(
    snapshot: &Snapshot<'_>,
    policy: &Policy,
    plan: &Plan,
    after: &PlanState<'_>,
    found: &mut Vec<Violation>,
) {
    if after.projects.count_parts() {
        return;
    }
    let started = started(plan);
    let world = snapshot.world;
    // By everything that decides about access, then by duration: a longer job may wait where a
    // shorter one fits before a planned start.
    let key = |row: &JobRow| {
        let shape = shape_of(world, row);
        let takes = shape.takes.map_or(u64::MAX, gpool_model::Millis::get);
        ((shape.fit, shape.parts, shape.domain, shape.project, shape.uid, shape.reserved_as), takes)
    };
    let mut first_waiting = BTreeMap::<_, BTreeMap<u64, &JobRow>>::new();
    let running = Running::of(world, plan);
    let is_full = |row: &JobRow| running.is_full(world, row.job.id.number);
    let left = waiting_rows(snapshot, &started).into_iter().map(|(row, _)| row);
    // A job may be passed by others while its user has reached a cap.
    let is_kept = |row: &JobRow| is_full(row) || after.keeps(snapshot, policy, row);
    for row in left.filter(|row| !is_kept(row)) {
        let (alike, takes) = key(row);
        let first = first_waiting.entry(alike).or_default().entry(takes).or_insert(row);
        if compare(snapshot, policy, row, first) == Ordering::Less {
            *first = row;
        }
    }
    for job in started {
        let Some(row) = row_of(world, job) else { continue };
        let (alike, takes) = key(row);
        let waiting = first_waiting.get(&alike).into_iter();
        let mut shorter = waiting.flat_map(|by_length| by_length.range(..=takes));
        let comes_first = |first: &JobRow| compare(snapshot, policy, first, row) == Ordering::Less;
        if let Some((_, first)) = shorter.find(|(_, first)| comes_first(first)) {
            found.push(Violation::OutOfOrder { started: job, passed: first.job.id });
        }
    }
}
