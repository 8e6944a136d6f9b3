//! When a job had its devices alone. Before, after and between these times the records of a device
//! are those of other jobs.

use std::collections::BTreeMap;

use gpool_history::Settings;
use gpool_model::{Allocation, DeviceUuid, Millis, Phase, Refusal, Timestamp};

use super::found::FoundJob;
use super::life;
use crate::api::Api;
use gpool_insight::usage::tenure::Tenure;

/// The devices that a job has or had alone, with the time. A part of a device is not among them:
/// its records are those of all its jobs. After a pause, the time begins when the job continued: it
/// may have had other devices before.
pub(super) async fn of(
    api: &Api,
    uid: u32,
    found: &FoundJob,
    now: Timestamp,
) -> Result<Tenure, Refusal> {
    let Some((started_at, ended_at, allocations)) = span(found, now) else {
        return Ok(Tenure::default());
    };
    let (mut from, mut to) = (started_at, ended_at);
    let is_paused = matches!(found.job.phase, Phase::Paused { .. });
    if is_paused || found.job.course.paused > Millis::ZERO {
        for event in life::of(api, uid, found, true).await? {
            match event.kind.as_str() {
                "paused" if event.time.0 >= from => to = event.time.0.min(ended_at),
                "resumed" if event.time.0 >= from => (from, to) = (event.time.0, ended_at),
                _ => {}
            }
        }
    }
    let mut held = BTreeMap::<(Timestamp, Timestamp), Vec<DeviceUuid>>::new();
    for allocation in allocations {
        let mut tasks = found.job.course.tasks.iter();
        let course = tasks.nth(usize::try_from(allocation.task.rank).unwrap_or(usize::MAX));
        let began = course.and_then(|it| it.started_at).unwrap_or(from).max(from);
        let ended = course.and_then(|it| Some(it.end.as_ref()?.ended_at)).unwrap_or(to).min(to);
        let alone = allocation.slots.iter().filter(|slot| slot.part.is_alone());
        let devices = alone.map(|slot| slot.device.clone());
        held.entry((began, ended)).or_default().extend(devices);
    }
    held.retain(|_, devices| !devices.is_empty());
    // Older minutes are not stored any more, only means of hours.
    let kept = Millis::from_hours(24 * Settings::default().minute_days);
    Ok(Tenure { held, has_minutes: now.since(from) < kept })
}

/// When the attempt of a job started and ended, and its allocations.
fn span(found: &FoundJob, now: Timestamp) -> Option<(Timestamp, Timestamp, &[Allocation])> {
    match &found.job.phase {
        Phase::Running { allocations, started_at }
        | Phase::Paused { allocations, started_at, .. } => Some((*started_at, now, allocations)),
        Phase::Stopping { allocations, started_at, .. } => {
            started_at.map(|at| (at, now, &allocations[..]))
        }
        Phase::Ended(end) => end.started_at.map(|at| (at, end.ended_at, &end.allocations[..])),
        _ => None,
    }
}
