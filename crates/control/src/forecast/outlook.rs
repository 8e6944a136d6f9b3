//! What would come of changes that nobody has made: they are asked of a state machine over an
//! excerpt of the world, as they would be of the real one, and it is run forward.

use std::collections::BTreeMap;

use gpool_model::job::JobState;
use gpool_model::{Caller, Command, JobId, Millis, Node, Refusal, Reply, Timestamp};
use gpool_world::World;

use super::course::{Bounds, Leaving, Runner};
use super::length::{Length, Pace};
use super::part::Part;

/// One thing that is otherwise.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Otherwise {
    /// Somebody asked for it.
    Asked(Command),
    /// A node is there, or is another one.
    Node(Box<Node>),
}

/// What becomes of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fate {
    /// Its state when it was looked at; `None` of a job that is not there yet.
    pub was: Option<JobState>,
    /// Its state in the end; `None` once it has ended.
    pub is: Option<JobState>,
    /// When it first starts, if it does.
    pub starts: Option<Timestamp>,
    /// When it is first told to leave, if it is.
    pub stops: Option<Timestamp>,
    /// When it last ends, if it does.
    pub ends: Option<Timestamp>,
}

/// What becomes of everything.
#[derive(Debug)]
pub struct Outlook {
    /// Of each job of the excerpt, and of each that was submitted.
    pub fates: BTreeMap<JobId, Fate>,
    /// The cluster in the end.
    pub world: World,
    /// The moment of that.
    pub reach: Timestamp,
    /// A plan broke an invariant on the way; nothing of this can be relied on.
    pub is_broken: bool,
}

/// Starts that are followed, at the most.
const STARTS_MAX: usize = 20_000;

/// What becomes of everything if this is otherwise, in that order. Without `until` as it would
/// settle now: who is told to leave is gone at once, and nobody else ends. With it, as it is
/// likely to be after so long, if everybody ends in the middle of what is expected.
///
/// # Errors
/// The first thing that would be refused, by its place, and why.
pub fn outlook(
    part: &Part,
    caller: &Caller,
    otherwise: &[Otherwise],
    until: Option<Millis>,
) -> Result<Outlook, (usize, Refusal)> {
    let leaving = if until.is_some() { Leaving::InTime } else { Leaving::IfTold };
    let mut runner = Runner::leaving(part, Pace::Middle, leaving);
    for (nth, change) in otherwise.iter().enumerate() {
        match change {
            Otherwise::Node(node) => runner.control.world.put_node((**node).clone()),
            Otherwise::Asked(command) => {
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
    let (reach, is_broken) = (course.reach, course.is_broken);
    Ok(Outlook { fates, world: control.world, reach, is_broken })
}

fn length(world: &World, id: JobId) -> Option<Length> {
    let spec = &world.job(id)?.spec;
    Some(Length::whole(spec.time_limit, spec.grace, world.prediction(spec)))
}
