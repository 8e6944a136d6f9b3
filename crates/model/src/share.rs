//! A requested fraction of a device, of compute and memory alike or of memory: the guaranteed
//! amount, and the limit up to which it may grow.

use std::fmt;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::allocation::SlotPart;
use crate::parse;
use crate::unit::{Bytes, MilliGpu};

/// A part of each requested device: the request is guaranteed, and the job may use up to the limit
/// while the rest is free. The limit is never below the request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Share {
    /// Of compute and memory alike: `0.25:0.8`.
    Part {
        /// Less than a device.
        request: MilliGpu,
        /// At most a device.
        limit: MilliGpu,
    },
    /// Of memory: `20G:40G`. Compute is divided in proportion.
    Memory {
        /// On each device.
        request: Bytes,
        /// On each device; a smaller device limits it further.
        limit: Bytes,
    },
}

/// Why a fraction is invalid.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ShareError {
    /// It is neither a fraction nor an amount of memory.
    #[error(
        "{value:?} is not a fraction of a GPU; write a number such as 0.5, or memory such as 20G"
    )]
    Malformed {
        /// The text.
        value: String,
    },
    /// The request is 0, or at least 1, or has more than three decimals.
    #[error(
        "{value:?} is not a fraction of a GPU; a fraction is from 0.001 to 0.999, and a whole GPU \
         is 1"
    )]
    OutOfRange {
        /// The text.
        value: String,
    },
    /// The limit is above a whole device, or has more than three decimals.
    #[error("the limit of {value:?} is not within one GPU; the largest limit is 1: {tip}")]
    LimitOutOfRange {
        /// The text.
        value: String,
        /// A request with the largest limit.
        tip: String,
    },
    /// The limit is below the request.
    #[error("the limit of {value:?} is below its request; write the request first: {tip}")]
    LimitBelow {
        /// The text.
        value: String,
        /// The same amounts in order.
        tip: String,
    },
    /// One of request and limit is a fraction, the other memory.
    #[error(
        "{value:?} mixes a fraction and memory; write both alike, for example 0.25:0.5 or 20G:40G"
    )]
    Mixed {
        /// The text.
        value: String,
    },
    /// It is a fraction of a fraction.
    #[error("{value:?} has two fractions; write, for example, 2@0.5 or 1@20G")]
    OfNothing {
        /// The text.
        value: String,
    },
    /// It is a fraction of a MIG instance.
    #[error(
        "{value:?} requests a fraction of a MIG instance, which can't be shared; request a smaller \
         profile"
    )]
    OfInstance {
        /// The text.
        value: String,
    },
}

impl Share {
    /// Returns a fraction of compute and memory with the limit at its request.
    #[must_use]
    pub fn part(milli: MilliGpu) -> Self {
        Self::Part { request: milli, limit: milli }
    }

    /// Returns an amount of memory with the limit at its request.
    #[must_use]
    pub fn memory(memory: Bytes) -> Self {
        Self::Memory { request: memory, limit: memory }
    }

    /// Reads `0.5`, `0.25:0.8`, `20G` or `20G:40G`: the request, and the limit if it is larger.
    ///
    /// # Errors
    /// It is no fraction of a device, or the limit is below the request.
    pub fn parse(text: &str) -> Result<Self, ShareError> {
        let value = || text.chars().take(parse::ParseError::VALUE_CHARS_MAX).collect::<String>();
        let (request, limit) = match text.split_once(':') {
            None => (Amount::parse(text), None),
            Some((request, limit)) => (Amount::parse(request), Some(Amount::parse(limit))),
        };
        let malformed = || ShareError::Malformed { value: value() };
        let request = request.ok_or_else(malformed)?;
        let limit = limit.map_or(Some(request), |limit| limit).ok_or_else(malformed)?;
        let share = match (request, limit) {
            (Amount::Billionths(request), Amount::Billionths(limit)) => {
                let milli = |billionths: u64| {
                    let is_whole = billionths.is_multiple_of(1_000_000);
                    is_whole.then(|| MilliGpu::new(billionths / 1_000_000))
                };
                let is_part = |milli: &MilliGpu| !milli.is_zero() && *milli < MilliGpu::DEVICE;
                let request = milli(request).filter(is_part);
                let request = request.ok_or_else(|| ShareError::OutOfRange { value: value() })?;
                let most = Self::Part { request, limit: MilliGpu::DEVICE };
                let limit = milli(limit).filter(|limit| *limit <= MilliGpu::DEVICE);
                let above =
                    || ShareError::LimitOutOfRange { value: value(), tip: most.to_string() };
                Self::Part { request, limit: limit.ok_or_else(above)? }
            }
            (Amount::Memory(request), Amount::Memory(limit)) => Self::Memory { request, limit },
            _ => return Err(ShareError::Mixed { value: value() }),
        };
        match share {
            Self::Memory { request, .. } if request.is_zero() => {
                Err(ShareError::OutOfRange { value: value() })
            }
            Self::Part { request, limit } if limit < request => {
                let tip = Self::Part { request: limit, limit: request }.to_string();
                Err(ShareError::LimitBelow { value: value(), tip })
            }
            Self::Memory { request, limit } if limit < request => {
                let tip = Self::Memory { request: limit, limit: request }.to_string();
                Err(ShareError::LimitBelow { value: value(), tip })
            }
            share => Ok(share),
        }
    }

    /// The guaranteed memory on a device of the given size, rounded down, so that fractions that
    /// add up to 1 fit.
    #[must_use]
    pub fn memory_of(self, device: Bytes) -> Bytes {
        match self {
            Self::Part { request, .. } => part_of(device, request),
            Self::Memory { request, .. } => request,
        }
    }

    /// The most memory that the job may use on a device of the given size.
    #[must_use]
    pub fn limit_of(self, device: Bytes) -> Bytes {
        match self {
            Self::Part { limit, .. } => part_of(device, limit),
            Self::Memory { request, limit } => limit.min(device).max(request),
        }
    }

    /// The charge on a device of the given size, by the request; rounded up for a fraction by
    /// memory.
    #[must_use]
    pub fn charge_of(self, device: Bytes) -> MilliGpu {
        match self {
            Self::Part { request, .. } => request,
            Self::Memory { request, .. } => {
                let device = u128::from(device.get().max(1));
                let milli = (u128::from(request.get()) * 1000).div_ceil(device);
                MilliGpu::new(u64::try_from(milli).unwrap_or(u64::MAX))
            }
        }
    }

    /// The slot on a device of the given size.
    #[must_use]
    pub fn slot_of(self, device: Bytes) -> SlotPart {
        let (charge, memory) = (self.charge_of(device), self.memory_of(device));
        SlotPart::Share { charge, memory, limit: self.limit_of(device) }
    }
}

fn part_of(device: Bytes, part: MilliGpu) -> Bytes {
    let part = u128::from(device.get()) * u128::from(part.get()) / 1000;
    Bytes::new(u64::try_from(part).unwrap_or(u64::MAX))
}

/// One of the two amounts of a share, as it is written.
#[derive(Clone, Copy)]
enum Amount {
    /// A fraction of a device, in billionths.
    Billionths(u64),
    Memory(Bytes),
}

impl Amount {
    fn parse(text: &str) -> Option<Self> {
        if text.contains(|c: char| c.is_ascii_alphabetic()) {
            return parse::bytes(text).ok().map(Self::Memory);
        }
        let (whole, billionths) = parse::decimal(text, 9)?;
        let all = whole.checked_mul(1_000_000_000)?.checked_add(billionths)?;
        Some(Self::Billionths(all))
    }
}

impl fmt::Display for Share {
    /// Writes it in the form that [`Self::parse`] reads.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let part = |milli: MilliGpu| match milli {
            MilliGpu::DEVICE => "1".to_owned(),
            milli => format!("0.{:03}", milli.get()).trim_end_matches('0').to_owned(),
        };
        let (request, limit) = match self {
            Self::Part { request, limit } => (part(*request), part(*limit)),
            Self::Memory { request, limit } => {
                (parse::exact_bytes(*request), parse::exact_bytes(*limit))
            }
        };
        match request == limit {
            true => f.pad(&request),
            false => f.pad(&format!("{request}:{limit}")),
        }
    }
}
