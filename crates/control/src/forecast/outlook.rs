//! Simulates hypothetical changes: a state machine over an excerpt of the world carries them out as
//! the real one would, and runs forward.

use std::collections::BTreeMap;

use gpool_model::job::JobState;
use gpool_model::{Caller, Command, JobId, MilliGpu, Millis, Node, Refusal, Reply, Timestamp};
use gpool_world::World;

use super::course::{Bounds, Leaving, Runner, SimulationResult};
use super::length::{Length, Pace};
use super::part::ForecastInput;

/// A hypothetical change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Otherwise {
    Command(Command),
    /// A node that is added or replaced.
    Node(Box<Node>),
}

/// The simulated course of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fate {
    /// Its state before; `None` for a job that does not exist yet.
    pub was: Option<JobState>,
    /// Its state after; `None` once it has ended.
    pub is: Option<JobState>,
    /// When it first starts, if it does.
    pub starts: Option<Timestamp>,
    /// When it is first ordered to leave, if it is.
    pub stops: Option<Timestamp>,
    /// When it last ends, if it does.
    pub ends: Option<Timestamp>,
}

/// The result of a simulation.
#[derive(Debug)]
pub struct Outlook {
    /// The courses of the jobs of the excerpt, and of each submitted job.
    pub fates: BTreeMap<JobId, Fate>,
    /// The cluster at the end.
    pub world: World,
    /// The time of that end.
    pub reach: Timestamp,
    /// GPUs times milliseconds that jobs held them; 0 without a time span.
    pub held: u128,
    /// Number of preemptions, pauses included.
    pub n_preempted: u64,
    /// A plan broke an invariant; none of the result can be relied on.
    pub is_broken: bool,
}

/// The largest number of simulated starts.
const STARTS_MAX: usize = 20_000;

/// Simulates these changes, made in this order. Without `until`, the result shows the present
/// moment settled: jobs that are ordered to leave are gone at once, and no other job ends. With it,
/// the result shows the state after that time, if every job ends at its median.
///
/// # Errors
/// The position of the first change that would be refused, and the refusal.
pub fn outlook(
    part: &ForecastInput,
    caller: &Caller,
    otherwise: &[Otherwise],
    until: Option<Millis>,
) -> Result<Outlook, (usize, Refusal)> {
    let leaving = if until.is_some() { Leaving::InTime } else { Leaving::OnOrder };
    let mut runner = Runner::leaving(part, Pace::Middle, leaving);
    for (nth, change) in otherwise.iter().enumerate() {
        match change {
            Otherwise::Node(node) => runner.control.world.put_node((**node).clone()),
            Otherwise::Command(command) => {
                let reply = runner.control.try_out(caller, command.clone());
                let reply = reply.map_err(|refusal| (nth, refusal))?;
                if let Reply::Submitted { first, n_jobs, .. } = reply {
                    let ids = (first.0..).map(JobId::single);
                    for id in ids.take(usize::try_from(n_jobs).unwrap_or(usize::MAX)) {
                        let length = length(runner.control.world(), id);
                        runner.newcomers.extend(length.map(|length| (id, length)));
                    }
                }
            }
        }
    }
    runner.is_measured = until.is_some();
    let horizon = part.now.after(until.unwrap_or(super::HORIZON));
    runner.follow(&Bounds { target: None, n_starts: STARTS_MAX }, horizon);
    let ids: Vec<JobId> =
        part.excerpt.jobs.keys().chain(runner.newcomers.keys()).copied().collect();
    let Runner { control, course, .. } = runner;
    let fate = |id: &JobId| Fate {
        was: part.excerpt.jobs.get(id).map(|row| row.job.phase.state()),
        is: control.world().job(*id).map(|row| row.job.phase.state()),
        starts: course.starts.get(id).map(|start| start.at),
        stops: course.stops.get(id).copied(),
        ends: course.ends.get(id).copied(),
    };
    let fates = ids.iter().map(|id| (*id, fate(id))).collect();
    let SimulationResult { reach, held, n_preempted, is_broken, .. } = course;
    let held = held / u128::from(MilliGpu::DEVICE.get());
    Ok(Outlook { fates, world: control.world, reach, held, n_preempted, is_broken })
}

fn length(world: &World, id: JobId) -> Option<Length> {
    let spec = &world.job(id)?.spec;
    Some(Length::whole(spec.time_limit, spec.grace, world.prediction(spec)))
}
