//! Arrays in the API: how they are asked for, and how they are shown.

use std::collections::{BTreeMap, BTreeSet};

use gpool_model::array::{ArraySpec, ArrayValues, Axis, Row};
use gpool_model::job::JobState;
use gpool_model::{Indexes, Job, JobSpec, ParseError, Refusal, RunTotals, placeholder};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use crate::create::JobCreate;
use crate::job::seconds;
use crate::json;

/// Characters of a parameter's name.
const NAME_MAX: usize = 64;
/// Parameters of one array.
const PARAMS_MAX: usize = 100;
/// Bytes of all values of one array.
const VALUES_MAX: usize = 64 << 20;

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

/// An array that can be taken as it is, if one is asked for, and the values that are stored beside
/// it.
#[derive(Debug, Default)]
pub(crate) struct ArrayAsked {
    pub array: Option<Box<ArraySpec>>,
    pub values: Option<ArrayValues>,
    pub max_parallel: Option<u32>,
}

fn invalid(field: &str, why: String) -> Refusal {
    Refusal::Invalid { field: field.to_owned(), why }
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

impl JobCreate {
    /// The array that is asked for, if one is.
    pub(crate) fn checked_array(&self) -> Result<ArrayAsked, Refusal> {
        let values = self.checked_values()?;
        let written = self.array.as_deref().map(read_array).transpose();
        let written = written.map_err(|error| invalid("array", error.to_string()))?;
        let (indexes, most) = match (written, &values) {
            (Some((indexes, most)), _) => (indexes, most),
            (None, Some((_, n_rows))) => {
                (Indexes::first_n(*n_rows).ok_or_else(|| too_many("array"))?, None)
            }
            (None, None) => return self.no_array(),
        };
        if let Some((_, n_rows)) = &values
            && indexes.last() >= *n_rows
        {
            let why = format!(
                "index {} has no value: there are {n_rows}, counted from 0; without an array, each \
                 value gets an element",
                indexes.last()
            );
            return Err(invalid("array", why));
        }
        let max_parallel = self.max_parallel.or(most);
        if max_parallel == Some(0) {
            let why = "nothing would ever run; write 8, or leave it out for any number";
            return Err(invalid("max_parallel", why.to_owned()));
        }
        self.check_placeholders(values.as_ref().map(|(values, _)| values))?;
        let values = values.map(|(values, _)| values);
        let array = Some(Box::new(ArraySpec { indexes, values: None }));
        Ok(ArrayAsked { array, values, max_parallel })
    }

    fn no_array(&self) -> Result<ArrayAsked, Refusal> {
        let of_arrays = [
            ("max_parallel", self.max_parallel.is_some()),
            ("max_fails", self.max_fails.is_some()),
        ];
        match of_arrays.into_iter().find(|(_, is_said)| *is_said) {
            Some((field, _)) => {
                Err(invalid(field, "it is for arrays; say which: array 0-99".to_owned()))
            }
            None => Ok(ArrayAsked::default()),
        }
    }

    fn checked_values(&self) -> Result<Option<(ArrayValues, u32)>, Refusal> {
        let given = [
            ("params", !self.params.is_empty()),
            ("items", self.items.is_some()),
            ("table", self.table.is_some()),
        ];
        let mut given = given.into_iter().filter(|(_, is_given)| *is_given).map(|(name, _)| name);
        let Some(field) = given.next() else { return Ok(None) };
        if let Some(other) = given.next() {
            let why = format!("it can't be given together with {field}; one of them is enough");
            return Err(invalid(other, why));
        }
        let values = match (&self.items, &self.table) {
            (Some(items), _) => of_items(items)?,
            (_, Some(table)) => of_table(table)?,
            (None, None) => of_params(&self.params)?,
        };
        let n_rows = values.n_rows().ok_or_else(|| too_many(field))?;
        if n_rows == 0 {
            return Err(invalid(
                field,
                "it has no values, so there would be no element".to_owned(),
            ));
        }
        Ok(Some((values, n_rows)))
    }

    /// A name in braces that is nearly one of a parameter is likely a mistake.
    fn check_placeholders(&self, values: Option<&ArrayValues>) -> Result<(), Refusal> {
        let names = values.map(ArrayValues::names).unwrap_or_default();
        for (at, word) in self.command.iter().enumerate() {
            for used in placeholder::names(word) {
                if names.contains(&used) {
                    continue;
                }
                if let Some(near) = json::nearest(used, names.iter().copied()) {
                    let why = format!(
                        "{{{used}}} in word {} is no parameter; did you mean {{{near}}}? To have \
                         it as it is, write {{{{{used}}}}}",
                        at + 1
                    );
                    return Err(invalid("command", why));
                }
            }
        }
        Ok(())
    }
}

fn too_many(field: &str) -> Refusal {
    let why = format!("it makes more than {} elements; split it", Indexes::ELEMENTS_MAX);
    invalid(field, why)
}

fn of_params(params: &[Param]) -> Result<ArrayValues, Refusal> {
    check_names("params", params.iter().map(|param| param.name.as_str()))?;
    for param in params {
        if param.values.is_empty() {
            let why = format!("{} has no value; write {}=1,2", param.name, param.name);
            return Err(invalid("params", why));
        }
    }
    check_size("params", params.iter().flat_map(|param| &param.values))?;
    let axis = |param: &Param| Axis { name: param.name.clone(), values: param.values.clone() };
    Ok(ArrayValues::Product { axes: params.iter().map(axis).collect() })
}

fn of_table(table: &ParamTable) -> Result<ArrayValues, Refusal> {
    check_names("table", table.names.iter().map(String::as_str))?;
    for (at, row) in table.rows.iter().enumerate() {
        if row.len() != table.names.len() {
            let why = format!(
                "row {} has {} values, and there are {} names",
                at + 1,
                row.len(),
                table.names.len()
            );
            return Err(invalid("table", why));
        }
    }
    check_size("table", table.rows.iter().flatten())?;
    let rows = table.rows.iter().map(|row| Row { item: None, values: row.clone() });
    Ok(ArrayValues::Rows { names: table.names.clone(), rows: rows.collect() })
}

/// Text stays as it is, anything else is written as JSON. Objects of the same keys are parameters
/// beside.
fn of_items(items: &[Value]) -> Result<ArrayValues, Refusal> {
    let text = |value: &Value| match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let keys = |value: &Value| -> Option<Vec<String>> {
        Some(value.as_object()?.keys().cloned().collect())
    };
    let first = items.first().and_then(keys).unwrap_or_default();
    let are_params = !first.is_empty()
        && items.iter().all(|item| keys(item).as_ref() == Some(&first))
        && check_names("items", first.iter().map(String::as_str)).is_ok();
    let names = if are_params { first } else { Vec::new() };
    let row = |item: &Value| Row {
        values: names.iter().filter_map(|name| item.get(name)).map(text).collect(),
        item: Some(text(item)),
    };
    let rows: Vec<Row> = items.iter().map(row).collect();
    check_size("items", rows.iter().filter_map(|row| row.item.as_ref()))?;
    Ok(ArrayValues::Rows { names, rows })
}

fn check_names<'a>(field: &str, names: impl Iterator<Item = &'a str>) -> Result<(), Refusal> {
    let mut seen = BTreeSet::new();
    for name in names {
        let shown: String = name.chars().take(NAME_MAX).collect();
        if !placeholder::is_name(name) || name.len() > NAME_MAX {
            let why = format!(
                "{shown:?} is no name of a parameter; it has up to {NAME_MAX} letters, digits and \
                 '_', and begins with no digit: learning_rate"
            );
            return Err(invalid(field, why));
        }
        if !seen.insert(name.to_ascii_uppercase()) {
            let why = format!(
                "parameter {shown} is given twice; GPOOL_PARAM_{} can hold one",
                name.to_ascii_uppercase()
            );
            return Err(invalid(field, why));
        }
        if seen.len() > PARAMS_MAX {
            return Err(invalid(field, format!("more than {PARAMS_MAX} parameters")));
        }
    }
    Ok(())
}

fn check_size<'a>(field: &str, values: impl Iterator<Item = &'a String>) -> Result<(), Refusal> {
    let mut n_bytes = 0;
    for (at, value) in values.enumerate() {
        if value.contains('\0') {
            return Err(invalid(field, format!("value {} holds a zero byte", at + 1)));
        }
        n_bytes += value.len();
        if n_bytes > VALUES_MAX {
            return Err(invalid(field, format!("its values have more than {VALUES_MAX} bytes")));
        }
    }
    Ok(())
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
