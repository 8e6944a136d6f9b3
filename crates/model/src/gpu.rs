//! Requests for GPUs: `2`, `a100:2`, `a100|h100:2`, `40G..:2`, `0.25:0.8`, `2@20G`, `1g.10gb:2`.

use std::fmt;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::device::Device;
use crate::enforcement::Enforcement;
use crate::parse::{self, ParseError};
use crate::pattern::ModelPattern;
use crate::share::{Share, ShareError};
use crate::unit::{Bytes, MilliGpu};

/// A request for GPUs on one node, parsed.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct GpuRequest {
    /// The number of devices and the part of each.
    pub amount: GpuAmount,
    /// Acceptable models in order of preference; empty means any.
    pub models: Vec<ModelPattern>,
    /// The least memory of each device.
    pub least_memory: Option<Bytes>,
    /// The least enforcement of what the job is given.
    #[serde(default, skip_serializing_if = "Enforcement::is_booked")]
    pub enforce: Enforcement,
}

/// The number of devices and the part of each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GpuAmount {
    /// This number of whole devices of one node.
    Whole(u32),
    /// A fraction of each of several devices of one node, beside fractions of other tasks.
    Shared {
        /// The number of devices, at least one.
        count: u32,
        /// The fraction of each.
        share: Share,
    },
    /// This number of whole MIG instances of one node.
    Instances {
        /// The number of instances.
        count: u32,
        /// The largest charge of an instance that matches; a whole device while it is unknown.
        each: MilliGpu,
    },
}

impl GpuAmount {
    /// The number of devices.
    #[must_use]
    pub fn count(self) -> u32 {
        match self {
            Self::Whole(count) | Self::Shared { count, .. } | Self::Instances { count, .. } => {
                count
            }
        }
    }

    /// The same part of each of `count` devices.
    #[must_use]
    pub fn of(self, count: u32) -> Self {
        match self {
            Self::Whole(_) => Self::Whole(count),
            Self::Shared { share, .. } => Self::Shared { count, share },
            Self::Instances { each, .. } => Self::Instances { count, each },
        }
    }
}

impl Default for GpuAmount {
    fn default() -> Self {
        Self::Whole(0)
    }
}

/// Why a request for GPUs is invalid.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum GpuRequestError {
    /// It does not match the grammar.
    #[error(transparent)]
    Malformed(#[from] ParseError),
    /// The fraction is invalid.
    #[error(transparent)]
    Share(#[from] ShareError),
    /// Some alternatives are MIG instances and others whole devices.
    #[error(
        "{value:?} mixes GPUs and MIG instances; request one of them, for example h100:1 or \
         '1g.10gb|2g.20gb:1'"
    )]
    DevicesOrInstances {
        /// The text of the request.
        value: String,
    },
    /// The grammar allows it, but this version cannot schedule it.
    #[error(
        "{value:?} requests {what}, which this version does not support; request whole GPUs, for \
         example 1 or a100:2"
    )]
    Unsupported {
        /// The text of the request.
        value: String,
        /// Its meaning.
        what: &'static str,
    },
}

impl GpuRequest {
    /// More devices than any node has; a larger count is a typing error.
    pub const COUNT_MAX: u32 = 1024;

    const EXAMPLE: &str = "2, a100:2, 'a100|h100:1', 40G..:2, 0.5 or 1@20G";

    /// A request for this number of whole devices of any model.
    #[must_use]
    pub fn whole(count: u32) -> Self {
        Self { amount: GpuAmount::Whole(count), ..Self::default() }
    }

    /// Reads the grammar of `--gpus`.
    ///
    /// # Errors
    /// [`GpuRequestError`], with the position if it does not match the grammar.
    pub fn parse(text: &str) -> Result<Self, GpuRequestError> {
        let Some((devices, share)) = text.split_once('@') else {
            return Self::parse_devices(text);
        };
        let share = Share::parse(share)?;
        Ok(Self::parse_devices(devices)?.shared(share)?)
    }

    /// The same devices with only this fraction of each; one device if the request is for none.
    ///
    /// # Errors
    /// The request already has a fraction, or is for instances, which are allocated whole.
    pub fn shared(self, share: Share) -> Result<Self, ShareError> {
        let value = || self.to_string().chars().take(ParseError::VALUE_CHARS_MAX).collect();
        match self.amount {
            GpuAmount::Whole(count) => {
                Ok(Self { amount: GpuAmount::Shared { count: count.max(1), share }, ..self })
            }
            GpuAmount::Shared { .. } => Err(ShareError::OfNothing { value: value() }),
            GpuAmount::Instances { .. } => Err(ShareError::OfInstance { value: value() }),
        }
    }

    /// The text before `@`: devices by count, or one fraction.
    fn parse_devices(text: &str) -> Result<Self, GpuRequestError> {
        let bad = |position| ParseError::new("a number of GPUs", text, position, Self::EXAMPLE);
        if text.is_empty() {
            return Err(bad(0).into());
        }
        let first = text.split(':').next().unwrap_or(text);
        if !first.contains(|c: char| c.is_ascii_alphabetic()) {
            return Ok(Self { amount: Self::amount(text)?, ..Self::default() });
        }
        let (kind, amount) = match text.split_once(':') {
            None => (text, GpuAmount::Whole(1)),
            Some((kind, amount)) => {
                let amount = Self::amount(amount).map_err(|error| match error {
                    GpuRequestError::Malformed(e) => bad(kind.len() + 1 + e.position).into(),
                    other => other,
                })?;
                (kind, amount)
            }
        };
        if let Some(least) = kind.strip_suffix("..") {
            let least = parse::bytes(least).map_err(|e| bad(e.position))?;
            return Ok(Self { amount, least_memory: Some(least), ..Self::default() });
        }
        let mut models = Vec::new();
        let mut position = 0;
        for part in kind.split('|') {
            let strange = |c: char| !(c.is_ascii_alphanumeric() || "-_ .".contains(c));
            if let Some(at) = part.find(strange) {
                return Err(bad(position + at).into());
            }
            if !part.contains(|c: char| c.is_ascii_alphabetic()) {
                return Err(bad(position).into());
            }
            models.push(ModelPattern::new(part));
            position += part.len() + 1;
        }
        let value = || text.chars().take(ParseError::VALUE_CHARS_MAX).collect();
        let n_instances = models.iter().filter(|model| model.names_instance()).count();
        let amount = match (amount, n_instances) {
            (amount, 0) => amount,
            (_, n) if n < models.len() => {
                return Err(GpuRequestError::DevicesOrInstances { value: value() });
            }
            (GpuAmount::Shared { .. }, _) => {
                return Err(ShareError::OfInstance { value: value() }.into());
            }
            (amount, _) => GpuAmount::Instances { count: amount.count(), each: MilliGpu::DEVICE },
        };
        Ok(Self { amount, models, ..Self::default() })
    }

    /// `2`, or a fraction of one device.
    fn amount(text: &str) -> Result<GpuAmount, GpuRequestError> {
        let bad = |position| ParseError::new("a number of GPUs", text, position, Self::EXAMPLE);
        let digits = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
        if text.split_once("..").is_some_and(|(least, most)| digits(least) && digits(most)) {
            let value = text.chars().take(ParseError::VALUE_CHARS_MAX).collect();
            let what = "an elastic number of GPUs";
            return Err(GpuRequestError::Unsupported { value, what });
        }
        if text.contains('.') && text.split(':').all(|part| parse::decimal(part, 9).is_some()) {
            return Ok(GpuAmount::Shared { count: 1, share: Share::parse(text)? });
        }
        if let Some(at) = text.find(|c: char| !c.is_ascii_digit()) {
            return Err(bad(at).into());
        }
        let count: u32 = text.parse().map_err(|_| bad(0))?;
        if count > Self::COUNT_MAX {
            return Err(bad(0).into());
        }
        Ok(GpuAmount::Whole(count))
    }

    /// The number of devices that it needs.
    #[must_use]
    pub fn n_devices(&self) -> u32 {
        self.amount.count()
    }

    /// The same request for another number of devices.
    #[must_use]
    pub fn of_count(&self, count: u32) -> Self {
        Self { amount: self.amount.of(count), ..self.clone() }
    }

    /// The same amount of devices of any model and memory, or of instances of any profile.
    #[must_use]
    pub fn of_any_kind(&self) -> Self {
        let models = match self.amount {
            GpuAmount::Whole(_) | GpuAmount::Shared { .. } => Vec::new(),
            GpuAmount::Instances { .. } => vec![ModelPattern::any_instance()],
        };
        Self { amount: self.amount, models, least_memory: None, enforce: self.enforce }
    }

    /// The fraction of each device, if it is not the whole.
    #[must_use]
    pub fn share(&self) -> Option<Share> {
        match self.amount {
            GpuAmount::Whole(_) | GpuAmount::Instances { .. } => None,
            GpuAmount::Shared { share, .. } => Some(share),
        }
    }

    /// Whether it requests MIG instances.
    #[must_use]
    pub fn is_of_instances(&self) -> bool {
        matches!(self.amount, GpuAmount::Instances { .. })
    }

    /// The same request on these devices: each instance is assumed to be charged like the largest
    /// that matches. The job may get a smaller one, and is charged for that.
    #[must_use]
    pub fn among<'a>(&self, devices: impl Iterator<Item = &'a Device>) -> Self {
        let GpuAmount::Instances { count, .. } = self.amount else { return self.clone() };
        let answering = devices.filter(|device| self.rank_of(device).is_some());
        let each = answering.map(Device::counts_as).max().unwrap_or(MilliGpu::DEVICE);
        Self { amount: GpuAmount::Instances { count, each }, ..self.clone() }
    }

    /// Its size in the queue order. A fraction by memory counts as a whole device, because its
    /// charge depends on the device that it gets.
    #[must_use]
    pub fn size(&self) -> MilliGpu {
        let each = match self.amount {
            GpuAmount::Whole(_) => MilliGpu::DEVICE,
            GpuAmount::Shared { share: Share::Part { request, .. }, .. } => request,
            GpuAmount::Shared { share: Share::Memory { .. }, .. } => MilliGpu::DEVICE,
            GpuAmount::Instances { each, .. } => each,
        };
        each.checked_mul(u64::from(self.n_devices())).unwrap_or(MilliGpu::MAX)
    }

    /// The least memory of a device, by the request or by its fraction.
    #[must_use]
    pub fn memory_needed(&self) -> Option<Bytes> {
        let of_share = match self.share() {
            Some(Share::Memory { request, .. }) => Some(request),
            Some(Share::Part { .. }) | None => None,
        };
        self.least_memory.max(of_share)
    }

    /// Whether it requests no GPU.
    #[must_use]
    pub fn is_none(&self) -> bool {
        self.n_devices() == 0
    }

    /// The rank of a device's model: its position in the list of models (0 if any model matches),
    /// or `None` if its model, memory or enforcement does not match. Only requests for MIG
    /// instances match instances, and they match nothing else.
    #[must_use]
    pub fn rank_of(&self, device: &Device) -> Option<usize> {
        self.rank_of_kind(device).filter(|_| self.is_enforced_on(device))
    }

    /// Whether the device has the enforcement that the request needs.
    #[must_use]
    pub fn is_enforced_on(&self, device: &Device) -> bool {
        self.enforce.is_booked() || self.enforce <= self.enforcement_on(device)
    }

    /// The enforcement of the request on a device.
    #[must_use]
    pub fn enforcement_on(&self, device: &Device) -> Enforcement {
        device.enforcement(self.share().is_some())
    }

    /// As [`Self::rank_of`], for a job that runs: the enforcement of a device can change.
    #[must_use]
    pub fn rank_of_kind(&self, device: &Device) -> Option<usize> {
        if device.instance.is_some() != self.is_of_instances() {
            return None;
        }
        if self.memory_needed().is_some_and(|least| device.memory < least) {
            return None;
        }
        if self.models.is_empty() {
            return Some(0);
        }
        self.models.iter().position(|model| model.matches(&device.model))
    }
}

impl fmt::Display for GpuRequest {
    /// Writes it in the grammar that [`Self::parse`] reads.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let amount = match self.amount {
            GpuAmount::Whole(count) | GpuAmount::Instances { count, .. } => count.to_string(),
            GpuAmount::Shared { count: 1, share: share @ Share::Part { .. } } => share.to_string(),
            GpuAmount::Shared { count, share } => format!("{count}@{share}"),
        };
        if let Some(least) = self.least_memory {
            return f.pad(&format!("{}..:{amount}", parse::exact_bytes(least)));
        }
        if self.models.is_empty() {
            return f.pad(&amount);
        }
        let models: Vec<&str> = self.models.iter().map(ModelPattern::as_str).collect();
        f.pad(&format!("{}:{amount}", models.join("|")))
    }
}
