//! Arrays in the API: requests and answers.

use std::collections::BTreeMap;

use gpool_model::job::JobState;
use gpool_model::{Indexes, Job, JobSpec, ParseError, RunTotals};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::time::seconds;

/// A parameter of an array and its values.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Param {
    /// Name of the parameter: letters, digits and `_`.
    pub name: String,
    /// Values of the parameter, at least one.
    pub values: Vec<String>,
}

/// Array parameters as a table with one row of values per element.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ParamTable {
    /// Names of the parameters.
    pub names: Vec<String>,
    /// One row per element, with one value per parameter.
    pub rows: Vec<Vec<String>>,
}

/// The array of a job.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, ToSchema)]
pub struct ArrayStatus {
    /// Indexes of the elements: `0-98:2`.
    pub indexes: String,
    /// Number of elements.
    pub n_elements: u64,
    /// Number of elements by state.
    pub n_by_state: BTreeMap<String, u64>,
    /// Maximum number of elements that run at once.
    pub max_parallel: Option<u32>,
    /// Maximum number of failed elements. After one more failure the server cancels the rest.
    pub max_fails: Option<u32>,
    /// GPUs allocated to the elements, counted once for each run of an element.
    #[serde(default)]
    pub n_gpus: u64,
    /// Total run time of all elements, in seconds.
    #[serde(default)]
    pub ran_s: f64,
}

/// Totals over all elements of an array that has not ended.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Elements {
    /// Number of elements by state.
    pub n_by_state: BTreeMap<JobState, u64>,
    /// Their devices and run time.
    pub totals: RunTotals,
}

impl ArrayStatus {
    /// Returns the array of a job. Without `elements`, the counts include only ended elements.
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

    /// Returns the number of elements in the given states.
    #[must_use]
    pub fn n_in(&self, states: &[JobState]) -> u64 {
        let counts = states.iter().filter_map(|state| self.n_by_state.get(state.as_str()));
        counts.fold(0, |sum, n| sum.saturating_add(*n))
    }
}

/// The parameter values of one array element.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct ArrayElement {
    /// ID of the array.
    pub array: String,
    /// Index of the element.
    pub index: u32,
    /// Item or input line of the element.
    pub item: Option<String>,
    /// Parameters with their values, in order.
    #[schema(value_type = Vec<Vec<String>>)]
    pub params: Vec<(String, String)>,
}

impl ArrayElement {
    /// Returns an element without its values, which are stored separately.
    pub(crate) fn of(spec: &JobSpec, job: &Job) -> Option<Self> {
        spec.array.as_ref()?;
        let index = job.id.element?;
        Some(Self { array: job.id.number.to_string(), index, ..Self::default() })
    }
}

/// Reads `0-99:2%8`: indexes, and the maximum number of elements that run at once.
///
/// # Errors
/// Returns the error and its position.
pub fn read_array(text: &str) -> Result<(Indexes, Option<u32>), ParseError> {
    let Some((indexes, most)) = text.split_once('%') else {
        return Ok((text.parse()?, None));
    };
    let bad = || ParseError {
        expected: "at least 1 element of an array at once",
        value: text.chars().take(80).collect(),
        position: indexes.len() + 1,
        example: "0-99%8",
    };
    let digits = !most.is_empty() && most.bytes().all(|byte| byte.is_ascii_digit());
    let most = most.parse().ok().filter(|most| digits && *most > 0).ok_or_else(bad)?;
    Ok((indexes.parse()?, Some(most)))
}

/// The result of a retry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Retried {
    /// ID of the job that runs again: the same job, or a new one.
    pub id: String,
    /// Number of array elements that run again.
    pub n_elements: Option<u64>,
    /// Whether the retry is a new job. It is if the old job had ended.
    pub is_new: bool,
}
