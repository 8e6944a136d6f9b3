//! The shape of a waiting job, from its records alone.

use gpool_model::{Beneficiary, JobId, Millis, OrderKey, Shape, ShareBetween, Timestamp};
use gpool_world::{JobRow, World};

use crate::job::{self, fit_of, parts_of, ran};
use crate::users::is_capping;

/// Returns the shape of a job, from its records alone.
pub(crate) fn shape_of(world: &World, row: &JobRow) -> Shape {
    let policy = world.policy().of_pool(row.spec.pool.as_ref());
    let asks = policy.order.contains(&OrderKey::Predicted);
    let step = Shape::STEP.get();
    let whole = JobId { element: None, ..row.job.id };
    let own = Beneficiary::Job { id: whole };
    let uid = row.spec.owner.uid;
    let is_for =
        |whom: &Beneficiary| matches!(whom, Beneficiary::User { uid: of, .. } if *of == uid);
    let is_told = world.limits_slots()
        || !world.policy().user_caps.is_none()
        || world.policy().share_between == ShareBetween::Users
        || is_capping(world, &row.spec.project)
        || world.reservations().values().any(|it| is_for(&it.beneficiary));
    let is_reserved = world.reservations().values().any(|it| it.beneficiary == own);
    Shape {
        project: row.spec.project.clone(),
        uid: is_told.then_some(uid),
        reserved_as: is_reserved.then_some(whole),
        domain: job::domain(world.policy(), row).1.cloned(),
        priority: row.job.priority,
        preemptible: row.spec.life.preemptible == Some(true),
        joins: row.spec.joins.is_some(),
        takes: row.spec.time_limit.map(|limit| {
            let limit = limit.saturating_sub(ran(row));
            let n_steps = limit.get().saturating_add(row.spec.grace.get()).div_ceil(step).max(1);
            Millis::new(n_steps.saturating_mul(step))
        }),
        predicted: world.prediction(&row.spec).filter(|_| asks).map(|prediction| {
            let length = prediction.p50.get();
            let shifts = (0..u64::BITS).find(|shift| 1 << shift >= length);
            Millis::new(shifts.map_or(u64::MAX, |shift| 1 << shift))
        }),
        level: policy.order.contains(&OrderKey::Attained).then(|| {
            let level = job::level(world.policy(), row, Timestamp::ZERO);
            u8::try_from(level).unwrap_or(u8::MAX)
        }),
        fit: fit_of(row),
        parts: parts_of(row),
    }
}
