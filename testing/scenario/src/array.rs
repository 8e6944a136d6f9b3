//! Arrays in scenarios: the states of their elements, and elements with their own line.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use gpool_model::array::ArraySpec;
use gpool_model::{
    ArrayState, Course, DependencyKind, Indexes, Job, JobId, JobSpec, Outcome, Positions, Standing,
};

use crate::gang::courses;
use crate::phase::held_by;
use crate::reader::Reader;
use crate::words::{ScenarioError, Words};

const OUTCOMES: [Outcome; 5] =
    [Outcome::Succeeded, Outcome::Failed, Outcome::TimedOut, Outcome::Lost, Outcome::Cancelled];

/// Parses `0-9%2`: the elements, and how many may run at once.
pub(crate) fn new(text: &str) -> Result<(ArraySpec, Option<u32>), String> {
    let (indexes, most) = match text.split_once('%') {
        Some((indexes, most)) => (indexes, Some(most)),
        None => (text, None),
    };
    let indexes: Indexes = indexes.parse().map_err(|error| format!("{error}"))?;
    let most = most.map(u32::from_str).transpose().map_err(|error| error.to_string())?;
    Ok((ArraySpec { indexes, values: None, objective: None }, most.filter(|most| *most > 0)))
}

/// Parses `failed:0-1/succeeded:2`: the positions of ended elements by outcome.
pub(crate) fn ended(text: &str) -> Result<BTreeMap<Outcome, Positions>, String> {
    let one = |part: &str| {
        let (state, positions) = part.split_once(':')?;
        let outcome = OUTCOMES.into_iter().find(|it| it.state().as_str() == state)?;
        Some((outcome, positions.parse().ok()?))
    };
    let all: Option<BTreeMap<_, _>> = text.split('/').map(one).collect();
    all.ok_or_else(|| "not like failed:0-1/succeeded:2".to_owned())
}

impl Reader {
    /// The state of an array with ended elements, and with elements that wait for those of another
    /// array.
    pub(crate) fn array_state(
        &self,
        (asked, standing): (&ArraySpec, &Standing),
        spec: &JobSpec,
        ended: &BTreeMap<Outcome, Positions>,
    ) -> ArrayState {
        let mut array = ArrayState::new(asked, standing);
        for positions in ended.values() {
            array.unstarted.subtract(positions);
        }
        array.ended = ended.clone();
        for after in spec.after.iter().filter(|it| it.kind == DependencyKind::Each) {
            let jobs = self.situation.jobs.iter();
            for (_, other) in jobs.filter(|(_, other)| other.id.number == after.job.number) {
                let live = match (&other.array, other.id.element) {
                    (Some(other), _) => {
                        other.unstarted.iter().chain(other.waiting.iter()).collect()
                    }
                    (None, Some(index)) => asked.indexes.position(index).into_iter().collect(),
                    (None, None) => Positions::default(),
                };
                let live: Positions =
                    live.iter().filter(|at| array.unstarted.contains(*at)).collect();
                array.unstarted.subtract(&live);
                array.waiting.extend(&live);
            }
        }
        array
    }

    /// Reads `element a 3  running lab1[0] 2h`.
    pub(crate) fn element(&mut self, words: &mut Words<'_>) -> Result<(), ScenarioError> {
        let name = words.need("the name of an array")?;
        let of = self.ids.get(name).copied();
        let of = of.ok_or_else(|| words.error(format!("no job {name} stands above")))?;
        let index = words.parse("an index", u32::from_str)?;
        let state = words.need("the state of the element")?;
        let jobs = &self.situation.jobs;
        let at = jobs.iter().position(|(_, job)| job.id == of).expect("its name was given");
        let (phase, _) = self.phase(state, jobs[at].0.gang.n_tasks(), words)?;
        let jobs = &mut self.situation.jobs;
        let (spec, whole) = &mut jobs[at];
        let position = spec.array.as_ref().and_then(|array| array.indexes.position(index));
        let array = whole.array.as_mut().zip(position);
        let Some((_, attempt)) = array.and_then(|(array, position)| {
            array.unstarted.remove(position).then(|| ((), array.attempt_of(position)))
        }) else {
            return Err(words.error(format!("job {name} has no element {index} left")));
        };
        let id = JobId { element: Some(index), ..of };
        let own = JobSpec { id, ..JobSpec::clone(spec) };
        let phase = held_by(phase, &own, attempt, &self.situation.nodes);
        let (spec, whole) = &self.situation.jobs[at];
        let course = Course { tasks: courses(&phase), ..(*whole.course).clone() };
        let job = Job { id, attempt, array: None, course: course.into(), phase, ..whole.clone() };
        let element = (Arc::clone(spec), job);
        self.situation.jobs.push(element);
        words.end()
    }
}

/// Writes the array part of a job's line.
pub(crate) fn print(f: &mut fmt::Formatter<'_>, spec: &JobSpec, job: &Job) -> fmt::Result {
    let (Some(asked), Some(array)) = (&spec.array, &job.array) else { return Ok(()) };
    write!(f, "  array {}", asked.indexes)?;
    if let Some(most) = array.max_parallel {
        write!(f, "%{most}")?;
    }
    let ended = array.ended.iter().map(|(outcome, at)| format!("{}:{at}", outcome.state()));
    let ended: Vec<String> = ended.collect();
    match ended.is_empty() {
        true => Ok(()),
        false => write!(f, "  ended {}", ended.join("/")),
    }
}
