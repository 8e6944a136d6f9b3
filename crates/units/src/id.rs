//! Names and numbers that identify things. Numbers are never used twice.

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
            /// At `u64::MAX`, which no cluster reaches.
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
            /// Wraps a name that was validated on input.
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
    /// The number of a job, as users know it; from 1.
    JobNumber
);
number!(
    /// Grows with each server start or election; agents refuse a term older than the newest that
    /// they have seen.
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
    /// The position of an entry in the journal; from 1, without gaps.
    Seq
);
number!(
    /// Grows with each change of an object by a user; `If-Match` compares it.
    Version
);
number!(
    /// Connects a reply with the request that waits for it, within one server process.
    RequestId
);

number!(
    /// The number of a question to an agent, counted from 1 in each run of the server.
    Round
);

name!(
    /// One run of an agent. Two can be compared for equality only, not for order.
    Incarnation
);
name!(
    /// The name of a machine with an agent; its host name by default.
    NodeName
);
name!(
    /// The name of a project.
    ProjectName
);
name!(
    /// The name of a set of nodes under one policy.
    PoolName
);
name!(
    /// The name of a reservation or maintenance window that has not ended.
    ReservationName
);
name!(
    /// The driver's permanent name for a device; survives renumbering.
    DeviceUuid
);

/// Whether a name is unambiguous in every context: at most 63 ASCII letters, digits, dots, dashes
/// and underscores, the first a letter or digit, and not a number.
#[must_use]
pub fn is_plain_name(name: &str) -> bool {
    let may_follow = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    name.starts_with(|first: char| first.is_ascii_alphanumeric())
        && name.len() <= 63
        && name.bytes().all(may_follow)
        && !name.bytes().all(|byte| byte.is_ascii_digit())
}

impl PoolName {
    /// The pool of nodes that were assigned to no other.
    #[must_use]
    pub fn usual() -> Self {
        Self::new("default")
    }
}

impl NodeName {
    /// Whether it can name a folder, and a node in every argument that takes one: see
    /// [`is_plain_name`].
    #[must_use]
    pub fn is_file_name(&self) -> bool {
        is_plain_name(self.as_str())
    }

    /// The folder of the node's files below a state folder that several nodes share. `None` for a
    /// name that is not valid for a folder; only the single node of a state folder can have such a
    /// name.
    #[must_use]
    pub fn folder(&self) -> Option<String> {
        self.is_file_name().then(|| format!("nodes/{self}"))
    }
}

/// The number of a run of a job, from 1. A requeued job gets the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Attempt(pub u32);

impl Attempt {
    /// The first attempt.
    pub const FIRST: Self = Self(1);

    /// The attempt after this one.
    ///
    /// # Panics
    /// After 2^32 attempts.
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

/// A job, or one element of an array: `1842` or `1842.3`. Serialized as a string.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobId {
    /// The number of the job.
    pub number: JobNumber,
    /// The element of an array; `None` for a whole job.
    pub element: Option<u32>,
}

impl JobId {
    /// The largest ID.
    pub const MAX: Self = Self { number: JobNumber(u64::MAX), element: Some(u32::MAX) };

    /// The ID of a job without an element.
    #[must_use]
    pub fn single(number: u64) -> Self {
        Self { number: JobNumber(number), element: None }
    }

    /// The ID as a single number, for programs that only know numbers: SLURM_JOB_ID. For a job it
    /// is the job number. For an element it is a number of 32 bits from a range of such numbers;
    /// outside of them, job number and index one after the other: element 3000000 of job 12 is
    /// 120003000000. No two IDs have the same number below 2^29 jobs.
    #[must_use]
    pub fn plain(self) -> u64 {
        let Some(element) = self.element else { return self.number.0 };
        let element = u64::from(element);
        match PLAIN_RANGES.iter().find(|range| range.has(self.number.0, element)) {
            Some(range) => {
                range.start + ((self.number.0 - range.first_job) << range.bits) + element
            }
            None => self.number.0.saturating_mul(PLAIN_LONG).saturating_add(element),
        }
    }

    /// The ID for a number of [`Self::plain`].
    #[must_use]
    pub fn of_plain(plain: u64) -> Self {
        let within = |range: &&PlainRange| plain >= range.start && plain < range.end();
        if let Some(range) = PLAIN_RANGES.iter().find(within) {
            let offset = plain - range.start;
            let element = u32::try_from(offset & ((1 << range.bits) - 1)).ok();
            let number = JobNumber(range.first_job + (offset >> range.bits));
            return Self { number, element };
        }
        match (plain / PLAIN_LONG, u32::try_from(plain % PLAIN_LONG)) {
            (number @ 1.., Ok(element)) => {
                Self { number: JobNumber(number), element: Some(element) }
            }
            _ => Self::single(plain),
        }
    }
}

/// A range of numbers for the elements of some jobs.
struct PlainRange {
    /// The first number.
    start: u64,
    /// The first job.
    first_job: u64,
    /// The job after the last.
    end_job: u64,
    /// Bits of an index; the rest is the job.
    bits: u32,
}

impl PlainRange {
    const fn new(start: u64, jobs: std::ops::Range<u64>, bits: u32) -> Self {
        Self { start, first_job: jobs.start, end_job: jobs.end, bits }
    }

    fn has(&self, job: u64, element: u64) -> bool {
        (self.first_job..self.end_job).contains(&job) && element >> self.bits == 0
    }

    fn end(&self) -> u64 {
        self.start + ((self.end_job - self.first_job) << self.bits)
    }
}

/// The numbers of elements, below 2^32: scripts seed random generators with SLURM_JOB_ID, and these
/// accept 32 bits. Many jobs have few elements, so small indexes fit with larger job numbers. The
/// first range is below 2^31, for programs that read a signed number.
static PLAIN_RANGES: [PlainRange; 4] = [
    PlainRange::new(1 << 30, 0..1 << 20, 10),
    PlainRange::new(1 << 31, 0..1 << 16, 14),
    PlainRange::new(3 << 30, 0..1 << 10, 20),
    PlainRange::new(1 << 29, 1 << 20..5 << 20, 7),
];

/// Above every index of an element, so that a job number times this and an index are unambiguous.
const PLAIN_LONG: u64 = 10_000_000_000;

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

/// A task of one attempt of a job: `1842#2/0`. Its rank is counted from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskId {
    /// The job it belongs to.
    pub job: JobId,
    /// The attempt of the job.
    pub attempt: Attempt,
    /// The rank of the task in its gang, from 0.
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

/// The name of a file in the store's blob folder. Blobs hold data that must not be in records: the
/// environment of a job, its script.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct BlobId(pub Arc<str>);
