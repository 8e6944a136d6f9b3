//! Parses references to jobs: `1842`, `1842.3`, `1842#2`, a name, `@`, `@~2`, `last`, `10-20:2`,
//! `group:NAME`, lists and `all`. [`crate::resolve`] finds the jobs.

use std::fmt;
use std::str::FromStr;

use gpool_model::JobId;
use thiserror::Error;

/// A reference to one or more jobs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reference {
    /// One job, or one attempt of it.
    Id {
        job: JobId,
        /// The attempt; `None` is the latest.
        attempt: Option<u32>,
    },
    /// A range of ids with a step.
    Range {
        first: u64,
        /// The last id, if the steps reach it.
        last: u64,
        /// The step, at least 1.
        step: u64,
    },
    /// A range of array elements with a step.
    Elements {
        array: u64,
        first: u32,
        /// The last index, if the steps reach it.
        last: u32,
        /// The step, at least 1.
        step: u32,
    },
    /// The caller's newest job, or one before it.
    Newest {
        /// Number of jobs to go back; 0 is the newest.
        back: u32,
    },
    /// A job by its name, if only one job has it.
    Name(String),
    /// All jobs of the group with this name.
    Group(String),
    /// All jobs of the caller that have not ended.
    All,
}

/// Why a word is not a reference.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{word:?} is not a job: {why}; write, for example, 1842, 10-20, 1,2,3, @ or a name")]
pub struct ReferenceError {
    word: String,
    why: &'static str,
}

impl Reference {
    /// Most ids in a range; a longer range is a typing error.
    pub const RANGE_MAX: u64 = 1_000_000;

    /// Parses a list of references: `1,2,10-20`.
    ///
    /// # Errors
    /// The first word that is not a reference.
    pub fn list(text: &str) -> Result<Vec<Self>, ReferenceError> {
        text.split(',').map(str::parse).collect()
    }

    /// Whether it may refer to several jobs.
    #[must_use]
    pub fn is_several(&self) -> bool {
        matches!(self, Self::Range { .. } | Self::Elements { .. } | Self::Group(_) | Self::All)
    }

    fn range(word: &str) -> Option<Result<Self, &'static str>> {
        let (numbers, step) = match word.split_once(':') {
            Some((numbers, step)) => (numbers, step),
            None => (word, "1"),
        };
        let (first, last) = numbers.split_once('-')?;
        let is_number = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
        if ![first, last, step].into_iter().all(is_number) {
            return None;
        }
        let (Ok(first), Ok(last), Ok(step)) =
            (first.parse::<u64>(), last.parse::<u64>(), step.parse::<u64>())
        else {
            return Some(Err("the number is too large"));
        };
        Some(match () {
            () if step == 0 => Err("a step must be at least 1"),
            () if last < first => Err("the range ends before it starts"),
            () if (last - first) / step >= Self::RANGE_MAX => {
                Err("the range has more than a million numbers")
            }
            () => Ok(Self::Range { first, last, step }),
        })
    }
}

impl Reference {
    /// Parses `1842.3-7`, which is `1842_3-7` in Slurm.
    fn elements(word: &str) -> Option<Result<Self, &'static str>> {
        let (array, indexes) = word.split_once(['.', '_'])?;
        let array: u64 = array.parse().ok().filter(|number| *number > 0)?;
        let (first, last, step) = match Self::range(indexes)? {
            Ok(Self::Range { first, last, step }) => (first, last, step),
            Ok(_) => return None,
            Err(why) => return Some(Err(why)),
        };
        let small = |n: u64| u32::try_from(n).map_err(|_| "the index is too large");
        let all = || {
            let (first, last, step) = (small(first)?, small(last)?, small(step)?);
            Ok(Self::Elements { array, first, last, step })
        };
        Some(all())
    }
}

impl FromStr for Reference {
    type Err = ReferenceError;

    fn from_str(word: &str) -> Result<Self, ReferenceError> {
        let bad = |why| Err(ReferenceError { word: word.chars().take(80).collect(), why });
        match word {
            "" => return bad("it is empty"),
            "all" => return Ok(Self::All),
            "@" | "last" => return Ok(Self::Newest { back: 0 }),
            _ => {}
        }
        if let Some(back) = word.strip_prefix("@~") {
            let Ok(back) = back.parse() else { return bad("@~ needs a number") };
            return Ok(Self::Newest { back });
        }
        if let Some(name) = word.strip_prefix("group:") {
            let is_name = gpool_model::id::is_plain_name(name);
            return match is_name {
                true => Ok(Self::Group(name.to_owned())),
                false => bad("the name of a group has letters, digits, '.', '_' and '-'"),
            };
        }
        if word.starts_with('@') {
            return bad("@ is the newest job, @~2 the third newest");
        }
        if let Some(range) = Self::range(word) {
            return range.or_else(bad);
        }
        if let Some(elements) = Self::elements(word) {
            return elements.or_else(bad);
        }
        if !word.starts_with(|c: char| c.is_ascii_digit()) {
            return Ok(Self::Name(word.to_owned()));
        }
        let (id, attempt) = match word.split_once('#') {
            None => (word, None),
            Some((id, attempt)) => match attempt.parse() {
                Ok(attempt) if attempt > 0 => (id, Some(attempt)),
                _ => return bad("# needs the number of a run, from 1"),
            },
        };
        match id.parse::<JobId>() {
            // Scripts may refer to an element of an array by a single number.
            Ok(JobId { number, element: None }) if number.0 > 0 => {
                Ok(Self::Id { job: JobId::of_plain(number.0), attempt })
            }
            Ok(job) if job.number.0 > 0 => Ok(Self::Id { job, attempt }),
            Ok(_) => bad("numbers start at 1"),
            // A name may start with a digit: 3d-unet.
            Err(_) if attempt.is_none() && id.contains(|c: char| c.is_ascii_alphabetic()) => {
                Ok(Self::Name(word.to_owned()))
            }
            Err(_) => bad("a number was expected"),
        }
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Id { job, attempt: None } => write!(f, "{job}"),
            Self::Id { job, attempt: Some(attempt) } => write!(f, "{job}#{attempt}"),
            Self::Range { first, last, step: 1 } => write!(f, "{first}-{last}"),
            Self::Range { first, last, step } => write!(f, "{first}-{last}:{step}"),
            Self::Elements { array, first, last, step: 1 } => write!(f, "{array}.{first}-{last}"),
            Self::Elements { array, first, last, step } => {
                write!(f, "{array}.{first}-{last}:{step}")
            }
            Self::Newest { back: 0 } => f.write_str("@"),
            Self::Newest { back } => write!(f, "@~{back}"),
            Self::Name(name) => f.write_str(name),
            Self::Group(name) => write!(f, "group:{name}"),
            Self::All => f.write_str("all"),
        }
    }
}
