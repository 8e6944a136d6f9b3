//! The envelope of every document: a version, and either one object or a list.

use serde::{Deserialize, Deserializer, Serialize};
use utoipa::ToSchema;

use crate::API_VERSION;

fn api_version() -> String {
    API_VERSION.to_owned()
}

/// One object.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct Document<T> {
    /// `gpool/v1`.
    #[serde(rename = "apiVersion", default = "api_version")]
    pub api_version: String,
    /// The object. Its fields are on the same level as the version.
    #[serde(flatten)]
    pub body: T,
}

impl<T> Document<T> {
    /// Wraps an object.
    pub fn new(body: T) -> Self {
        Self { api_version: api_version(), body }
    }
}

/// Reads the object, which ignores the version next to its fields.
impl<'de, T: Deserialize<'de>> Deserialize<'de> for Document<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        T::deserialize(deserializer).map(Self::new)
    }
}

/// A list, complete or one page of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct List<T> {
    /// `gpool/v1`.
    #[serde(rename = "apiVersion", default = "api_version")]
    pub api_version: String,
    /// The items, in order.
    pub items: Vec<T>,
    /// Cursor of the next page. Absent on the last page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
    /// Number of items on all pages, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total: Option<u64>,
}

impl<T> List<T> {
    /// Returns a complete list.
    pub fn new(items: Vec<T>) -> Self {
        Self { api_version: api_version(), items, next_cursor: None, total: None }
    }
}
