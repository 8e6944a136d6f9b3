//! Names and numbers by which things are known. Numbers are given out once and never again.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::parse::ParseError;

macro_rules! number {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(
            Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize,
            Deserialize,
        )]
        #[serde(transparent)]
        pub struct $name(pub u64);

        impl $name {
            /// The number after this one.
            ///
            /// # Panics
            /// At `u64::MAX`, which no cluster lives to see.
            #[must_use]
            pub fn next(self) -> Self {
                Self(self.0.checked_add(1).expect("2^64 is out of reach"))
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

macro_rules! name {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(Arc<str>);

        impl $name {
            /// Wraps a name that was checked where it came in.
            pub fn new(name: impl AsRef<str>) -> Self {
                Self(Arc::from(name.as_ref()))
            }

            /// The name as text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(&self.0)
            }
        }
    };
}

number!(
    /// What users call a job's id; from 1.
    JobNumber
);
number!(
    /// Grows with each server start or election; agents refuse anything older than they have seen.
    Term
);
number!(
    /// Grows with any change of an allocation's slots or wanted state.
    Generation
);
number!(
    /// Grows with each commit of records.
    Revision
);
number!(
    /// The place of an entry in the journal; from 1, without gaps.
    Seq
);
number!(
    /// Grows with each change of one object that users edit; what `If-Match` compares.
    Version
);
number!(
    /// Ties a reply to the request that is waiting for it, within one server process.
    RequestId
);

number!(
    /// Which question to an agent it is, counted from 1 in each life of the server.
    Round
);

name!(
    /// One run of an agent. Two are the same or not; neither says which came first.
    Incarnation
);
name!(
    /// A machine with an agent; its host name unless configured.
    NodeName
);
name!(
    /// A leaf of the project tree.
    ProjectName
);
name!(
    /// A set of nodes under one policy.
    PoolName
);
name!(
    /// A reservation or a maintenance window that is not over.
    ReservationName
);
name!(
    /// What the driver calls a device, for ever; survives renumbering.
    DeviceUuid
);

/// Whether a name means nothing else wherever it stands: at most 63 letters, digits, dots, dashes
/// and underscores of ASCII, the first a letter or digit, and not a number.
#[must_use]
pub fn is_plain_name(name: &str) -> bool {
    let may_follow = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    name.starts_with(|first: char| first.is_ascii_alphanumeric())
        && name.len() <= 63
        && name.bytes().all(may_follow)
        && !name.bytes().all(|byte| byte.is_ascii_digit())
}

impl PoolName {
    /// The pool of nodes of which nothing else was said.
    #[must_use]
    pub fn usual() -> Self {
        Self::new("default")
    }
}

impl NodeName {
    /// Whether it can name a folder, and a node among others wherever one is asked for: see
    /// [`is_plain_name`].
    #[must_use]
    pub fn is_file_name(&self) -> bool {
        is_plain_name(self.as_str())
    }

    /// Where the files of a node lie that is one of several, below the state folder that they
    /// share; `None` for a name that is that of no folder, which only the one node of a folder
    /// can have.
    #[must_use]
    pub fn folder(&self) -> Option<String> {
        self.is_file_name().then(|| format!("nodes/{self}"))
    }
}

/// Which run of a job, from 1. A requeued job gets the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Attempt(pub u32);

impl Attempt {
    /// The first run.
    pub const FIRST: Self = Self(1);

    /// The run after this one.
    ///
    /// # Panics
    /// After 2^32 runs.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0.checked_add(1).expect("2^32 attempts are out of reach"))
    }
}

impl fmt::Display for Attempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A job, or one element of an array: `1842` or `1842.3`. A string wherever it is written down.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobId {
    /// What the user calls the job.
    pub number: JobNumber,
    /// Which element of an array; `None` for a job that is none.
    pub element: Option<u32>,
}

impl JobId {
    /// Comes after every other.
    pub const MAX: Self = Self { number: JobNumber(u64::MAX), element: Some(u32::MAX) };

    /// A job that is no array.
    #[must_use]
    pub fn single(number: u64) -> Self {
        Self { number: JobNumber(number), element: None }
    }

    /// Above every index of an element, so that the number of an array and an index fit beside each
    /// other: element 3 of job 12 is 120000000003.
    const PLAIN: u64 = 10_000_000_000;

    /// The id as a single number, for programs that know jobs by numbers only. Of a job it is its
    /// number, and no number of a job is as large as that of an element.
    #[must_use]
    pub fn plain(self) -> u64 {
        match self.element {
            None => self.number.0,
            Some(element) => {
                self.number.0.saturating_mul(Self::PLAIN).saturating_add(u64::from(element))
            }
        }
    }

    /// The id that such a number stands for.
    #[must_use]
    pub fn of_plain(plain: u64) -> Self {
        match (plain / Self::PLAIN, u32::try_from(plain % Self::PLAIN)) {
            (number @ 1.., Ok(element)) => {
                Self { number: JobNumber(number), element: Some(element) }
            }
            _ => Self::single(plain),
        }
    }
}

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.element {
            None => f.pad(&self.number.to_string()),
            Some(element) => f.pad(&format!("{}.{element}", self.number)),
        }
    }
}

impl FromStr for JobId {
    type Err = ParseError;

    /// Reads `1842`, `1842.3` or Slurm's `1842_3`.
    fn from_str(text: &str) -> Result<Self, ParseError> {
        let bad = |position| ParseError::new("a job id", text, position, "1842 or 1842.3");
        let (number, element) = match text.find(['.', '_']) {
            None => (text, None),
            Some(at) => (&text[..at], Some((at + 1, &text[at + 1..]))),
        };
        if !number.bytes().all(|b| b.is_ascii_digit()) {
            return Err(bad(number.find(|c: char| !c.is_ascii_digit()).unwrap_or(0)));
        }
        let number = number.parse().map_err(|_| bad(0))?;
        let element = match element {
            None => None,
            Some((at, digits)) if digits.bytes().all(|b| b.is_ascii_digit()) => {
                Some(digits.parse().map_err(|_| bad(at))?)
            }
            Some((at, _)) => return Err(bad(at)),
        };
        Ok(Self { number: JobNumber(number), element })
    }
}

/// One process group of one run of a job: `1842#2/0`. The rank counts a job's tasks from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskId {
    /// The job it belongs to.
    pub job: JobId,
    /// Which run of that job.
    pub attempt: Attempt,
    /// Which task of the gang, from 0.
    pub rank: u32,
}

impl fmt::Display for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}#{}/{}", self.job, self.attempt, self.rank)
    }
}

impl FromStr for TaskId {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let bad = |position| ParseError::new("a task id", text, position, "1842#1/0");
        let hash = text.find('#').ok_or_else(|| bad(0))?;
        let slash = text.find('/').filter(|slash| *slash > hash).ok_or_else(|| bad(hash))?;
        Ok(Self {
            job: text[..hash].parse()?,
            attempt: Attempt(text[hash + 1..slash].parse().map_err(|_| bad(hash + 1))?),
            rank: text[slash + 1..].parse().map_err(|_| bad(slash + 1))?,
        })
    }
}

macro_rules! as_string {
    ($name:ident) => {
        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
                text.parse().map_err(de::Error::custom)
            }
        }
    };
}

as_string!(JobId);
as_string!(TaskId);

/// The name of a file of the store's blob folder, which holds what must not be in records: the
/// environment of a job, its script.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct BlobId(pub Arc<str>);
