//! Groups of jobs: jobs that one user shows, filters and cancels together, such as the trials of a
//! sweep or the replicas of a service.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::id::is_plain_name;
use crate::parse::ParseError;

/// The place of a job in a group of its user. Written `NAME`, `NAME/ROLE` or `NAME/ROLE/INDEX`.
///
/// The scheduler does not read it: jobs of a group start and end one by one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct GroupPlace {
    /// Name of the group. Groups of other users can have the same name.
    pub name: String,
    /// What the job does in the group, such as `trial`; a plain name.
    pub role: Option<String>,
    /// Which of the jobs with this role it is; need not be unique.
    pub index: Option<u64>,
}

impl GroupPlace {
    const EXAMPLE: &str = "tuning, tuning/trial or tuning/trial/12";

    /// Reads `NAME`, `NAME/ROLE` or `NAME/ROLE/INDEX`.
    ///
    /// # Errors
    /// The position of the malformed part.
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        let bad = |position| {
            let what = "a group: NAME, NAME/ROLE or NAME/ROLE/INDEX";
            ParseError::new(what, text, position, Self::EXAMPLE)
        };
        let mut parts = text.splitn(3, '/');
        let mut position = 0;
        let mut part = |check: fn(&str) -> bool| match parts.next() {
            None => Ok(None),
            Some(part) if check(part) => {
                position += part.len() + 1;
                Ok(Some(part))
            }
            Some(_) => Err(bad(position)),
        };
        let name = part(is_plain_name)?.unwrap_or_default().to_owned();
        let role = part(is_plain_name)?.map(str::to_owned);
        let index = part(|index| index_of(index).is_some())?.and_then(index_of);
        Ok(Self { name, role, index })
    }
}

/// A number without sign or leading zeros, so that it is written back as it was.
fn index_of(text: &str) -> Option<u64> {
    text.parse().ok().filter(|index: &u64| index.to_string() == text)
}

impl fmt::Display for GroupPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        if let Some(role) = &self.role {
            write!(f, "/{role}")?;
        }
        if let Some(index) = self.index {
            write!(f, "/{index}")?;
        }
        Ok(())
    }
}

impl TryFrom<String> for GroupPlace {
    type Error = ParseError;

    fn try_from(text: String) -> Result<Self, ParseError> {
        Self::parse(&text)
    }
}

impl From<GroupPlace> for String {
    fn from(place: GroupPlace) -> Self {
        place.to_string()
    }
}
