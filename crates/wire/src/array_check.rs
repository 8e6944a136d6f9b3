//! Checks the array part of a job request.

use std::collections::BTreeSet;

use gpool_model::array::{ArraySpec, ArrayValues, Axis, ElementValues};
use gpool_model::{Indexes, Objective, Refusal, placeholder};
use serde_json::Value;

use crate::array::{Param, ParamTable, read_array};
use crate::create::JobCreate;

/// Maximum number of characters in a parameter's name.
const NAME_MAX: usize = 64;
/// Maximum number of parameters of one array.
const PARAMS_MAX: usize = 100;
/// Maximum total size of all values of one array, in bytes.
const VALUES_MAX: usize = 64 << 20;

/// The checked array of a request, and its values, which are stored separately.
#[derive(Debug, Default)]
pub(crate) struct CheckedArray {
    pub array: Option<Box<ArraySpec>>,
    pub values: Option<ArrayValues>,
    pub max_parallel: Option<u32>,
}

impl JobCreate {
    /// Checks the array of the request. Its fields are empty if the job is no array.
    pub(crate) fn checked_array(&self) -> Result<CheckedArray, Refusal> {
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
                "index {} has no value: there are {n_rows} values, counted from 0; without an \
                 array, each value gets an element",
                indexes.last()
            );
            return Err(invalid("array", why));
        }
        let max_parallel = self.max_parallel.or(most);
        if max_parallel == Some(0) {
            let why = "with 0, no element could ever run; write 8, or leave it out to run any \
                       number at once";
            return Err(invalid("max_parallel", why.to_owned()));
        }
        self.check_placeholders(values.as_ref().map(|(values, _)| values))?;
        let values = values.map(|(values, _)| values);
        let objective = self.metric.as_deref().map(Objective::parse).transpose();
        let objective = objective.map_err(|error| invalid("metric", error.to_string()))?;
        let array = Some(Box::new(ArraySpec { indexes, values: None, objective }));
        Ok(CheckedArray { array, values, max_parallel })
    }

    fn no_array(&self) -> Result<CheckedArray, Refusal> {
        let of_arrays = [
            ("max_parallel", self.max_parallel.is_some()),
            ("max_fails", self.max_fails.is_some()),
            ("metric", self.metric.is_some()),
        ];
        match of_arrays.into_iter().find(|(_, is_said)| *is_said) {
            Some((field, _)) => {
                Err(invalid(field, "it is only for arrays; add the indexes: array 0-99".to_owned()))
            }
            None => Ok(CheckedArray::default()),
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
            let why = format!("it can't be given together with {field}; leave one of them out");
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
                "it has no values, so the array would have no elements".to_owned(),
            ));
        }
        Ok(Some((values, n_rows)))
    }

    /// Refuses a placeholder that no parameter has: the element would run with the literal text.
    fn check_placeholders(&self, values: Option<&ArrayValues>) -> Result<(), Refusal> {
        let names = values.map(ArrayValues::names).unwrap_or_default();
        if names.is_empty() {
            return Ok(());
        }
        for (at, word) in self.command.iter().enumerate() {
            let used = placeholder::names(word).into_iter().find(|used| !names.contains(used));
            let Some(used) = used else { continue };
            let meant = match gpool_texts::words::nearest(used, names.iter().copied()) {
                Some(near) => format!("; did you mean {{{near}}}?"),
                None => {
                    let known = names.iter().map(|name| format!("{{{name}}}"));
                    format!("; there are {}.", known.collect::<Vec<_>>().join(", "))
                }
            };
            let why = format!(
                "{{{used}}} in word {} is not a parameter{meant} For the literal text, write \
                 {{{{{used}}}}}",
                at + 1
            );
            return Err(invalid("command", why));
        }
        Ok(())
    }
}

fn too_many(field: &str) -> Refusal {
    let why =
        format!("the array would have more than {} elements; split it", Indexes::ELEMENTS_MAX);
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
    let rows = table.rows.iter().map(|row| ElementValues { item: None, values: row.clone() });
    Ok(ArrayValues::Rows { names: table.names.clone(), rows: rows.collect() })
}

/// Builds values from items. Text stays unchanged, other values become JSON. Objects with equal
/// keys also become parameters.
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
    let row = |item: &Value| ElementValues {
        values: names.iter().filter_map(|name| item.get(name)).map(text).collect(),
        item: Some(text(item)),
    };
    let rows: Vec<ElementValues> = items.iter().map(row).collect();
    check_size("items", rows.iter().filter_map(|row| row.item.as_ref()))?;
    Ok(ArrayValues::Rows { names, rows })
}

fn check_names<'a>(field: &str, names: impl Iterator<Item = &'a str>) -> Result<(), Refusal> {
    let mut seen = BTreeSet::new();
    for name in names {
        let shown: String = name.chars().take(NAME_MAX).collect();
        if !placeholder::is_name(name) || name.len() > NAME_MAX {
            let why = format!(
                "{shown:?} is not a parameter name; a name has up to {NAME_MAX} letters, digits \
                 and '_', and does not begin with a digit: learning_rate"
            );
            return Err(invalid(field, why));
        }
        if !seen.insert(name.to_ascii_uppercase()) {
            let why = format!(
                "parameter {shown} is given twice: GPOOL_PARAM_{} can have one value",
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
            return Err(invalid(field, format!("value {} contains a zero byte", at + 1)));
        }
        n_bytes += value.len();
        if n_bytes > VALUES_MAX {
            return Err(invalid(field, format!("its values have more than {VALUES_MAX} bytes")));
        }
    }
    Ok(())
}

fn invalid(field: &str, why: String) -> Refusal {
    Refusal::Invalid { field: field.to_owned(), why }
}
