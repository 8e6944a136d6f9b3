//! A requested fraction of a device: of compute and memory alike, or of memory.

use std::fmt;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::allocation::SlotPart;
use crate::parse;
use crate::unit::{Bytes, MilliGpu};

/// The fraction of each requested device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Share {
    /// A fraction by number, less than 1: `0.5`.
    Part(MilliGpu),
    /// A fraction by memory: `20G`.
    Memory(Bytes),
}

/// Why a fraction is invalid.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ShareError {
    /// It is neither a fraction nor an amount of memory.
    #[error("{value:?} is no part of a GPU; write a fraction such as 0.5, or memory such as 20G")]
    Malformed {
        /// The text.
        value: String,
    },
    /// It is 0, at least 1, or has more than three decimals.
    #[error(
        "{value:?} is no part of a GPU; a fraction is from 0.001 to 0.999, and a whole GPU is 1"
    )]
    OutOfRange {
        /// The text.
        value: String,
    },
    /// The limit differs from the request.
    #[error(
        "{value:?} asks for more than its guarantee when there is room, which this version does \
         not give; ask for the guarantee alone, for example {guarantee}"
    )]
    LimitAbove {
        /// The text.
        value: String,
        /// The request, before the colon.
        guarantee: String,
    },
    /// It is a fraction of a fraction.
    #[error("{value:?} says twice how much of a GPU; write for example 2@0.5, or 1@20G")]
    OfNothing {
        /// The text.
        value: String,
    },
    /// It is a fraction of a MIG instance.
    #[error(
        "{value:?} would share a MIG instance, which is given out whole; ask for a smaller profile"
    )]
    OfInstance {
        /// The text.
        value: String,
    },
}

impl Share {
    /// Reads `0.5` or `20G`; the same twice, `0.5:0.5`, means the same.
    ///
    /// # Errors
    /// It is no fraction of a device.
    pub fn parse(text: &str) -> Result<Self, ShareError> {
        let value = || text.chars().take(parse::ParseError::SHOWN).collect::<String>();
        let one = |part: &str| {
            if part.contains(|c: char| c.is_ascii_alphabetic()) {
                let memory = parse::bytes(part);
                return memory
                    .map(Self::Memory)
                    .map_err(|_| ShareError::Malformed { value: value() });
            }
            let (whole, fraction) =
                parse::decimal(part, 9).ok_or_else(|| ShareError::Malformed { value: value() })?;
            let is_part = whole == 0 && fraction > 0 && fraction.is_multiple_of(1_000_000);
            is_part
                .then(|| Self::Part(MilliGpu::new(fraction / 1_000_000)))
                .ok_or_else(|| ShareError::OutOfRange { value: value() })
        };
        let (request, limit) = text.split_once(':').unwrap_or((text, text));
        let (share, limit) = (one(request)?, one(limit)?);
        if limit != share {
            let guarantee = request.to_owned();
            return Err(ShareError::LimitAbove { value: value(), guarantee });
        }
        if share == Self::Memory(Bytes::ZERO) {
            return Err(ShareError::OutOfRange { value: value() });
        }
        Ok(share)
    }

    /// The memory on a device of the given size, rounded down, so that fractions that add up to 1
    /// fit.
    #[must_use]
    pub fn memory_of(self, device: Bytes) -> Bytes {
        match self {
            Self::Part(milli) => {
                let part = u128::from(device.get()) * u128::from(milli.get()) / 1000;
                Bytes::new(u64::try_from(part).unwrap_or(u64::MAX))
            }
            Self::Memory(memory) => memory,
        }
    }

    /// The charge on a device of the given size; rounded up for a fraction by memory.
    #[must_use]
    pub fn charge_of(self, device: Bytes) -> MilliGpu {
        match self {
            Self::Part(milli) => milli,
            Self::Memory(memory) => {
                let device = u128::from(device.get().max(1));
                let milli = (u128::from(memory.get()) * 1000).div_ceil(device);
                MilliGpu::new(u64::try_from(milli).unwrap_or(u64::MAX))
            }
        }
    }

    /// The slot on a device of the given size.
    #[must_use]
    pub fn slot_of(self, device: Bytes) -> SlotPart {
        SlotPart::Share { charge: self.charge_of(device), memory: self.memory_of(device) }
    }
}

impl fmt::Display for Share {
    /// Writes it in the form that [`Self::parse`] reads.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Part(milli) => {
                let decimals = format!("{:03}", milli.get());
                f.pad(&format!("0.{}", decimals.trim_end_matches('0')))
            }
            Self::Memory(memory) => f.pad(&parse::exact_bytes(*memory)),
        }
    }
}
