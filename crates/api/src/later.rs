//! How much later jobs would start that a reservation or a drain keeps from a place: the planner is
//! run forward with it and without it.

use gpool_control::forecast::{self, ForecastInput};
use gpool_model::{Drain, DrainTarget, Refusal, Reservation};
use gpool_wire::reservation::KeptWaiting;
use gpool_world::Snapshot;

use crate::api::Api;
use gpool_server::handle::Age;

/// Number of pending jobs that are simulated.
const LOOKED_AT_MAX: usize = 500;

/// What there is before anything changes.
pub(crate) async fn before(api: &Api, uid: u32) -> Result<ForecastInput, Refusal> {
    let ask = api.handle.look(uid, Age::New, |view| {
        let snapshot = Snapshot { world: view.world, now: view.now };
        ForecastInput::of(&snapshot, LOOKED_AT_MAX, None)
    });
    ask.await
}

/// With a reservation, in the place of one of that name.
pub(crate) fn reserve(part: &mut ForecastInput, it: &Reservation) {
    part.excerpt.reservations.insert(it.name.clone(), it.clone());
}

pub(crate) fn drain(part: &mut ForecastInput, targets: &[DrainTarget], drain: &Drain) {
    for node in &mut part.excerpt.nodes {
        for target in targets.iter().filter(|target| target.node == node.name) {
            let Some(name) = &target.device else {
                node.drain = Some(drain.clone());
                continue;
            };
            let is_it = |device: &&gpool_model::Device| {
                device.index.to_string() == *name || device.uuid.as_str() == name
            };
            if let Some(uuid) = node.devices.iter().find(is_it).map(|it| it.uuid.clone()) {
                node.device_drains.insert(uuid, drain.clone());
            }
        }
    }
}

/// Says of each of these how much later it would start; of one that would start in neither course,
/// or in one alone, that can't be told.
pub(crate) async fn fill(
    api: &Api,
    uid: u32,
    before: ForecastInput,
    after: ForecastInput,
    mut waiting: Vec<KeptWaiting>,
) -> Result<Vec<KeptWaiting>, Refusal> {
    if waiting.is_empty() {
        return Ok(waiting);
    }
    let work = move || {
        let starts = |part| forecast::middle_starts(part, LOOKED_AT_MAX);
        let Some((was, is)) = starts(&before).zip(starts(&after)) else { return Ok(waiting) };
        for (id, was) in was {
            let kept = waiting.iter_mut().find(|kept| kept.id == id.to_string());
            if let Some((kept, is)) = kept.zip(is.get(&id)) {
                kept.later_s = Some(is.since(was).get() / 1000);
            }
        }
        Ok(waiting)
    };
    api.handle.run_slow(uid, work).await
}
