//! The request for an array: its elements and their values.

use serde::{Deserialize, Serialize};

use crate::id::BlobId;
use crate::indexes::Indexes;
use crate::objective::Objective;

/// The request for an array; never changes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArraySpec {
    /// The indexes of its elements.
    pub indexes: Indexes,
    /// The values that each element gets besides its index.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub values: Option<ValuesRef>,
    /// The metric that tells which element is the best. The scheduler does not read it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub objective: Option<Objective>,
}

/// Where the values of an array's elements are stored. They are in a blob because they may be large
/// and are private to the user.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ValuesRef {
    /// [`ArrayValues`] as JSON.
    pub blob: BlobId,
    /// The number of rows; an element has the row of its index.
    pub n_rows: u32,
}

/// The values that elements get besides their index.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ArrayValues {
    /// All combinations of the values of some parameters; the last parameter changes fastest.
    Product {
        /// The parameters with their values, in the order of the request.
        axes: Vec<Axis>,
    },
    /// A row for each element.
    Rows {
        /// The names of the parameters of each row.
        names: Vec<String>,
        /// The values of each row.
        rows: Vec<ElementValues>,
    },
}

/// A parameter with its values.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Axis {
    /// Its name.
    pub name: String,
    /// The values, at least one.
    pub values: Vec<String>,
}

/// The values of one element.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ElementValues {
    /// The line or item that the row was made from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub item: Option<String>,
    /// A value of each parameter, in their order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<String>,
}

impl ArrayValues {
    /// The number of rows; `None` if it is more than the largest array has.
    #[must_use]
    pub fn n_rows(&self) -> Option<u32> {
        let n = match self {
            Self::Product { axes } => axes
                .iter()
                .try_fold(1u64, |n, axis| n.checked_mul(u64::try_from(axis.values.len()).ok()?))?,
            Self::Rows { rows, .. } => u64::try_from(rows.len()).ok()?,
        };
        u32::try_from(n).ok().filter(|n| *n <= Indexes::ELEMENTS_MAX)
    }

    /// The names of the parameters, in order.
    #[must_use]
    pub fn names(&self) -> Vec<&str> {
        match self {
            Self::Product { axes } => axes.iter().map(|axis| axis.name.as_str()).collect(),
            Self::Rows { names, .. } => names.iter().map(String::as_str).collect(),
        }
    }

    /// The item of a row, if it has one.
    #[must_use]
    pub fn item(&self, row: u32) -> Option<&str> {
        match self {
            Self::Product { .. } => None,
            Self::Rows { rows, .. } => rows.get(usize::try_from(row).ok()?)?.item.as_deref(),
        }
    }

    /// The parameters of a row with their values, in order; none if there is no such row.
    #[must_use]
    pub fn params(&self, row: u32) -> Vec<(&str, &str)> {
        let Ok(row) = usize::try_from(row) else { return Vec::new() };
        match self {
            Self::Product { axes } => {
                let mut rest = row;
                let mut params: Vec<(&str, &str)> = Vec::with_capacity(axes.len());
                for axis in axes.iter().rev() {
                    let n = axis.values.len().max(1);
                    if let Some(value) = axis.values.get(rest % n) {
                        params.push((&axis.name, value));
                    }
                    rest /= n;
                }
                params.reverse();
                if rest == 0 { params } else { Vec::new() }
            }
            Self::Rows { names, rows } => {
                let values = rows.get(row).map_or(&[][..], |row| &row.values);
                names.iter().map(String::as_str).zip(values.iter().map(String::as_str)).collect()
            }
        }
    }
}
