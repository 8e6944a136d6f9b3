//! Arrays in the API: how they are asked for, and how they are shown.

use std::collections::BTreeMap;

use gpool_model::job::JobState;
use gpool_model::{Indexes, Job, JobSpec, ParseError, RunTotals};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::time::seconds;

/// A parameter with the values that it takes.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Param {
    /// Its name: letters, digits and `_`.
    pub name: String,
    /// At least one.
    pub values: Vec<String>,
}

/// Parameters with a row of values for each element.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ParamTable {
    /// The parameters.
    pub names: Vec<String>,
    /// Each with a value of every parameter.
    pub rows: Vec<Vec<String>>,
}

/// An array as it is shown.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, ToSchema)]
pub struct ArrayShown {
    /// The indexes of its elements: `0-98:2`.
    pub indexes: String,
    /// How many elements it has.
    pub n_elements: u64,
    /// How many of them are in which state.
    pub n_by_state: BTreeMap<String, u64>,
    /// How many run at once at most.
    pub max_parallel: Option<u32>,
    /// How many may fail before the rest is cancelled.
    pub max_fails: Option<u32>,
    /// GPUs allocated to its elements, each run of an element by itself.
    #[serde(default)]
    pub n_gpus: u64,
    /// Seconds that its elements ran, added up.
    #[serde(default)]
    pub ran_s: f64,
}

/// All elements of a living array together.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Elements {
    /// Number of elements by state.
    pub n_by_state: BTreeMap<JobState, u64>,
    /// Their devices and run time.
    pub totals: RunTotals,
}

impl ArrayShown {
    /// The array of a job; without its living elements, as those that ended left it.
    pub(crate) fn of(spec: &JobSpec, job: &Job, elements: Option<&Elements>) -> Option<Self> {
        let (asked, array) = (spec.array.as_ref()?, job.array.as_ref()?);
        let ended = || {
            let ended = array.ended.iter();
            ended.map(|(outcome, at)| (outcome.state(), u64::from(at.len()))).collect()
        };
        let counts = elements.map_or_else(ended, |it| it.n_by_state.clone()).into_iter();
        let totals = elements.map_or(array.totals, |it| it.totals);
        Some(Self {
            indexes: asked.indexes.to_string(),
            n_elements: u64::from(asked.indexes.len()),
            n_by_state: counts.map(|(state, n)| (state.as_str().to_owned(), n)).collect(),
            max_parallel: array.max_parallel,
            max_fails: array.max_fails,
            n_gpus: totals.n_devices,
            ran_s: seconds(totals.ran),
        })
    }

    /// How many elements are in one of these states.
    #[must_use]
    pub fn n_in(&self, states: &[JobState]) -> u64 {
        let counts = states.iter().filter_map(|state| self.n_by_state.get(state.as_str()));
        counts.fold(0, |sum, n| sum.saturating_add(*n))
    }
}

/// What one element of an array was given.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct ElementShown {
    /// Its array.
    pub array: String,
    /// Its index.
    pub index: u32,
    /// Its line or item.
    pub item: Option<String>,
    /// Its parameters, in order, each with its value.
    pub params: Vec<(String, String)>,
}

impl ElementShown {
    /// An element without its values, which are stored beside it.
    pub(crate) fn of(spec: &JobSpec, job: &Job) -> Option<Self> {
        spec.array.as_ref()?;
        let index = job.id.element?;
        Some(Self { array: job.id.number.to_string(), index, ..Self::default() })
    }
}

/// Reads `0-99:2%8`: indexes, and how many run at once.
///
/// # Errors
/// What is wrong with it, and where.
pub fn read_array(text: &str) -> Result<(Indexes, Option<u32>), ParseError> {
    let Some((indexes, most)) = text.split_once('%') else {
        return Ok((text.parse()?, None));
    };
    let bad = || ParseError {
        expected: "an array of which at least 1 element runs at once",
        value: text.chars().take(80).collect(),
        position: indexes.len() + 1,
        example: "0-99%8",
    };
    let digits = !most.is_empty() && most.bytes().all(|byte| byte.is_ascii_digit());
    let most = most.parse().ok().filter(|most| digits && *most > 0).ok_or_else(bad)?;
    Ok((indexes.parse()?, Some(most)))
}

/// What runs again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Retried {
    /// The job that runs again: the same, or the new one.
    pub id: String,
    /// How many elements of an array.
    pub n_elements: Option<u64>,
    /// Whether it is a new job, because the old one had ended.
    pub is_new: bool,
}
