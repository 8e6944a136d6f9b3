//! The one shape of every document: a version, and either one thing or a list.

use serde::{Deserialize, Deserializer, Serialize};
use utoipa::ToSchema;

use crate::API_VERSION;

fn api_version() -> String {
    API_VERSION.to_owned()
}

/// One thing.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct Document<T> {
    /// `gpool/v1`.
    #[serde(rename = "apiVersion", default = "api_version")]
    pub api_version: String,
    /// The thing, its fields beside the version.
    #[serde(flatten)]
    pub body: T,
}

impl<T> Document<T> {
    /// Wraps it.
    pub fn new(body: T) -> Self {
        Self { api_version: api_version(), body }
    }
}

/// Reads the thing, which passes over the version beside its fields.
impl<'de, T: Deserialize<'de>> Deserialize<'de> for Document<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        T::deserialize(deserializer).map(Self::new)
    }
}

/// A list, whole or a page of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct List<T> {
    /// `gpool/v1`.
    #[serde(rename = "apiVersion", default = "api_version")]
    pub api_version: String,
    /// In order.
    pub items: Vec<T>,
    /// Where the next page begins; absent on the last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
    /// How many there are on all pages, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total: Option<u64>,
}

impl<T> List<T> {
    /// A whole list.
    pub fn new(items: Vec<T>) -> Self {
        Self { api_version: api_version(), items, next_cursor: None, total: None }
    }
}
