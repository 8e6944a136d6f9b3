//! Names of objects: a BLAKE3 hash of their bytes.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Bytes of each part of a file; the last part may have fewer.
pub const PART: u64 = 4 << 20;
/// The most bytes of an object. The largest one is a manifest.
pub const OBJECT_MAX: usize = 8 << 20;

/// The name of an object.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ObjectId([u8; 32]);

/// The text is no name of an object.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{text:?} is not the name of an object: 64 of 0-9 and a-f")]
pub struct BadObjectId {
    text: String,
}

impl ObjectId {
    /// Returns the name of these bytes.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        Self(*blake3::hash(bytes).as_bytes())
    }
}

impl fmt::Display for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&blake3::Hash::from_bytes(self.0).to_hex())
    }
}

impl fmt::Debug for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ObjectId({self})")
    }
}

impl FromStr for ObjectId {
    type Err = BadObjectId;

    fn from_str(text: &str) -> Result<Self, BadObjectId> {
        // A name has one form only, so that two names never mean one file.
        let is_lower = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        let bad = || BadObjectId { text: text.chars().take(80).collect() };
        if text.len() != 64 || !text.bytes().all(is_lower) {
            return Err(bad());
        }
        blake3::Hash::from_hex(text).map(|hash| Self(*hash.as_bytes())).map_err(|_| bad())
    }
}

impl TryFrom<String> for ObjectId {
    type Error = BadObjectId;

    fn try_from(text: String) -> Result<Self, BadObjectId> {
        text.parse()
    }
}

impl From<ObjectId> for String {
    fn from(id: ObjectId) -> Self {
        id.to_string()
    }
}
