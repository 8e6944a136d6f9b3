//! Plays a situation out with code that the forecast does not share: jobs end when their time is
//! over, and each cycle is applied.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use gpool_model::policy::UserCap;
use gpool_model::{DeviceHealth, JobId, Millis, Outcome, Phase, Timestamp, WhatIf};
use gpool_scenario::{Cluster, Situation, Step};

/// Returns when each job starts if each runs for its length: running jobs from now on, the others
/// from their start.
pub fn starts(
    situation: &Situation,
    lengths: &BTreeMap<JobId, Millis>,
    until: Timestamp,
) -> BTreeMap<JobId, Timestamp> {
    let mut cluster = Cluster::of(situation);
    let mut now = situation.now;
    let mut ends: BTreeSet<(Timestamp, JobId)> = BTreeSet::new();
    let mut starts = BTreeMap::new();
    let length = |id: &JobId| lengths.get(id).copied().unwrap_or_default();
    for (spec, job) in &situation.jobs {
        if !job.phase.allocations().is_empty() {
            ends.insert((now.after(length(&spec.id)), spec.id));
        }
    }
    loop {
        while let Some(&(at, id)) = ends.first().filter(|(at, _)| *at <= now) {
            ends.remove(&(at, id));
            end(&mut cluster, id);
        }
        let plan = cluster.cycle();
        // Other jobs may start when a job runs past the end that a planned start counts on.
        let late = plan.planned.iter().map(|planned| planned.at).filter(|at| *at > now).min();
        for decision in plan.decisions {
            let Some((job, _)) = decision.started() else { continue };
            starts.insert(job, now);
            ends.insert((now.after(length(&job)), job));
        }
        let timer = cluster.snapshot().world.next_timer();
        let due = ends.first().map(|(at, _)| *at).into_iter().chain(timer).chain(late).min();
        let Some(due) = due.filter(|due| *due <= until) else { return starts };
        let next = due.max(Timestamp::new(now.get() + 1));
        cluster.apply(&Step::Pass(next.since(now)));
        now = next;
    }
}

fn end(cluster: &mut Cluster, id: JobId) {
    let holding = |row: &&gpool_world::JobRow| !row.job.phase.allocations().is_empty();
    let snapshot = cluster.snapshot();
    let at = {
        let mut rows = snapshot.world.job_rows().filter(holding);
        rows.position(|row| row.job.id == id).expect("it holds something")
    };
    let phase = &snapshot.world.job(id).expect("it holds something").job.phase;
    // A stopped job does not succeed, and its run time does not count for predictions.
    let outcome = match phase {
        Phase::Stopping { .. } => Outcome::Cancelled,
        _ => Outcome::Succeeded,
    };
    cluster.apply(&Step::End(u32::try_from(at).unwrap(), outcome));
}

/// Returns the situation with one change.
pub fn changed(
    situation: &Situation,
    lengths: &mut BTreeMap<JobId, Millis>,
    what: &WhatIf,
    job: JobId,
) -> Situation {
    let mut other = situation.clone();
    let now = situation.now;
    let is_live = |id: JobId| situation.jobs.iter().any(|(spec, _)| spec.id == id);
    let of_job = other.jobs.iter_mut().find(|(spec, _)| spec.id == job).expect("it is there");
    let (spec, state) = (Arc::make_mut(&mut of_job.0), &mut of_job.1);
    match what {
        WhatIf::Gpus { gpus } => spec.gpus = gpus.clone(),
        WhatIf::TimeLimit { limit } => spec.time_limit = Some(*limit),
        WhatIf::Cpus { cpus } => spec.cpus = Some(*cpus).filter(|it| it.get() > 0),
        WhatIf::Memory { memory } => spec.memory = Some(*memory).filter(|it| it.get() > 0),
        WhatIf::Priority { priority } => state.priority = *priority,
        WhatIf::WithoutCap { user, cap, project } => {
            let of_user = other.policy.user_caps.of.entry(user.clone());
            let caps = match project {
                None => of_user.or_insert(other.policy.user_caps.all),
                Some(project) => {
                    let mut projects = other.projects.iter_mut();
                    &mut projects.find(|it| it.name == *project).expect("it is there").user_caps
                }
            };
            match cap {
                UserCap::RunningJobs => caps.running_jobs = None,
                UserCap::Gpus => caps.gpus = None,
            }
        }
        WhatIf::WithoutReservation { reservation, .. } => {
            other.reservations.retain(|it| it.name != *reservation);
        }
        WhatIf::Resume => {
            if let Phase::Paused { held, .. } = &mut state.phase {
                *held = None;
            }
        }
        WhatIf::WithoutDeadline => spec.life.deadline = None,
        WhatIf::Release | WhatIf::WithoutBegin | WhatIf::WithoutDependency { .. } => {
            match what {
                WhatIf::WithoutDependency { job } => {
                    spec.after.retain(|after| after.job != *job);
                }
                WhatIf::WithoutBegin => spec.life.begin = None,
                _ => {}
            }
            let waits = spec.after.iter().any(|after| is_live(after.job))
                || spec.life.begin.is_some_and(|at| at > now);
            let was_held = matches!(state.phase, Phase::Held { .. });
            if was_held == (*what == WhatIf::Release) {
                let since = now;
                state.phase =
                    if waits { Phase::Waiting { since } } else { Phase::Pending { since } };
            }
        }
        WhatIf::Ended { job } => drop(lengths.insert(*job, Millis::ZERO)),
        WhatIf::NodeBack { node } => {
            let node = other.nodes.iter_mut().find(|it| it.name == *node).unwrap();
            node.connected = true;
            node.drain = None;
        }
        WhatIf::DeviceUsable { node, index } => {
            let node = other.nodes.iter_mut().find(|it| it.name == *node).unwrap();
            let device = node.devices.iter_mut().find(|it| it.index == *index).unwrap();
            device.health = DeviceHealth::Healthy;
            device.unmanaged.clear();
            node.device_drains.remove(&device.uuid);
            if let Some(allowed) = &mut node.allowed {
                allowed.insert(device.uuid.clone());
            }
        }
    }
    other
}
