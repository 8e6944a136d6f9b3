//! What a user asks of GPUs: `2`, `a100:2`, `a100|h100:2`, `40G..:2`, `0.5`, `2@20G`, `1g.10gb:2`.

use std::fmt;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::device::Device;
use crate::parse::{self, ParseError};
use crate::pattern::ModelPattern;
use crate::share::{Share, ShareError};
use crate::unit::{Bytes, MilliGpu};

/// A request for GPUs on one node, as written and as understood.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct GpuRequest {
    /// How much of how many devices.
    pub amount: GpuAmount,
    /// Acceptable models in order of preference; empty means any.
    pub models: Vec<ModelPattern>,
    /// Least memory of each device.
    pub least_memory: Option<Bytes>,
}

/// How much of how many devices.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GpuAmount {
    /// That many whole devices of one node.
    Whole(u32),
    /// A part of each of several devices of one node, beside others who have parts of them.
    Shared {
        /// How many devices, at least one.
        count: u32,
        /// How much of each.
        share: Share,
    },
    /// That many MIG instances of one node, all of each.
    Instances {
        /// How many.
        count: u32,
        /// What each counts as at most, of those that there are; a whole device while that is not
        /// known.
        each: MilliGpu,
    },
}

impl GpuAmount {
    /// How many devices.
    #[must_use]
    pub fn count(self) -> u32 {
        match self {
            Self::Whole(count) | Self::Shared { count, .. } | Self::Instances { count, .. } => {
                count
            }
        }
    }

    /// As much of each of so many devices.
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

/// Why a request for GPUs was not understood.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum GpuRequestError {
    /// It follows no form of the grammar.
    #[error(transparent)]
    Malformed(#[from] ParseError),
    /// What it asks of each device is no part of one.
    #[error(transparent)]
    Share(#[from] ShareError),
    /// Some of its alternatives are MIG instances and some are whole devices.
    #[error(
        "{value:?} would take a whole GPU or a MIG instance; ask for one of them, for example \
         h100:1 or '1g.10gb|2g.20gb:1'"
    )]
    DevicesOrInstances {
        /// What was written.
        value: String,
    },
    /// It is a form that the grammar knows and this version can't schedule.
    #[error(
        "{value:?} asks for {what}, which this version does not schedule; ask for whole GPUs, for example 1 or a100:2"
    )]
    Unsupported {
        /// What was written.
        value: String,
        /// What it means.
        what: &'static str,
    },
}

impl GpuRequest {
    /// More devices than any node has; a larger count is a slip of the pen.
    pub const COUNT_MAX: u32 = 1024;

    const EXAMPLE: &str = "2, a100:2, 'a100|h100:1', 40G..:2, 0.5 or 1@20G";

    /// That many whole devices of any model.
    #[must_use]
    pub fn whole(count: u32) -> Self {
        Self { amount: GpuAmount::Whole(count), ..Self::default() }
    }

    /// Reads the grammar of `--gpus`.
    ///
    /// # Errors
    /// [`GpuRequestError`]: with the position where it follows no form.
    pub fn parse(text: &str) -> Result<Self, GpuRequestError> {
        let Some((devices, share)) = text.split_once('@') else {
            return Self::parse_devices(text);
        };
        let share = Share::parse(share)?;
        Ok(Self::parse_devices(devices)?.shared(share)?)
    }

    /// The same devices, of each only that share; one device where none were asked for.
    ///
    /// # Errors
    /// It asks for a share already, or for what is given out whole.
    pub fn shared(self, share: Share) -> Result<Self, ShareError> {
        let value = || self.to_string().chars().take(ParseError::SHOWN).collect();
        match self.amount {
            GpuAmount::Whole(count) => {
                Ok(Self { amount: GpuAmount::Shared { count: count.max(1), share }, ..self })
            }
            GpuAmount::Shared { .. } => Err(ShareError::OfNothing { value: value() }),
            GpuAmount::Instances { .. } => Err(ShareError::OfInstance { value: value() }),
        }
    }

    /// What stands before the share: devices by count, or one fraction.
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
            return Ok(Self { amount, models: Vec::new(), least_memory: Some(least) });
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
        let value = || text.chars().take(ParseError::SHOWN).collect();
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
        Ok(Self { amount, models, least_memory: None })
    }

    /// `2`, or a fraction of one device.
    fn amount(text: &str) -> Result<GpuAmount, GpuRequestError> {
        let bad = |position| ParseError::new("a number of GPUs", text, position, Self::EXAMPLE);
        let digits = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
        if text.split_once("..").is_some_and(|(least, most)| digits(least) && digits(most)) {
            let value = text.chars().take(ParseError::SHOWN).collect();
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

    /// How many devices it needs.
    #[must_use]
    pub fn n_devices(&self) -> u32 {
        self.amount.count()
    }

    /// The same of another number of devices.
    #[must_use]
    pub fn of_count(&self, count: u32) -> Self {
        Self { amount: self.amount.of(count), ..self.clone() }
    }

    /// As much of devices of any model and memory, or as many instances of any.
    #[must_use]
    pub fn of_any_kind(&self) -> Self {
        let models = match self.amount {
            GpuAmount::Whole(_) | GpuAmount::Shared { .. } => Vec::new(),
            GpuAmount::Instances { .. } => vec![ModelPattern::any_instance()],
        };
        Self { amount: self.amount, models, least_memory: None }
    }

    /// What it asks of each device, if it is not the whole.
    #[must_use]
    pub fn share(&self) -> Option<Share> {
        match self.amount {
            GpuAmount::Whole(_) | GpuAmount::Instances { .. } => None,
            GpuAmount::Shared { share, .. } => Some(share),
        }
    }

    /// Whether it asks for MIG instances.
    #[must_use]
    pub fn is_of_instances(&self) -> bool {
        matches!(self.amount, GpuAmount::Instances { .. })
    }

    /// The same where that is all that there is: each instance is taken to count as the largest
    /// does that answers. What one gets may be smaller, and is charged as what it is.
    #[must_use]
    pub fn among<'a>(&self, devices: impl Iterator<Item = &'a Device>) -> Self {
        let GpuAmount::Instances { count, .. } = self.amount else { return self.clone() };
        let answering = devices.filter(|device| self.rank_of(device).is_some());
        let each = answering.map(Device::counts_as).max().unwrap_or(MilliGpu::DEVICE);
        Self { amount: GpuAmount::Instances { count, each }, ..self.clone() }
    }

    /// How large it is among others, for the order of jobs. What a share by memory is charged
    /// depends on the device that it gets; until then it is smaller than a whole device and larger
    /// than any share by time.
    #[must_use]
    pub fn size(&self) -> MilliGpu {
        let each = match self.amount {
            GpuAmount::Whole(_) => MilliGpu::DEVICE,
            GpuAmount::Shared { share: Share::Part(milli), .. } => milli,
            GpuAmount::Shared { share: Share::Memory(_), .. } => MilliGpu::DEVICE,
            GpuAmount::Instances { each, .. } => each,
        };
        each.checked_mul(u64::from(self.n_devices())).unwrap_or(MilliGpu::MAX)
    }

    /// The least memory that a device must have, by the request or by its share.
    #[must_use]
    pub fn memory_needed(&self) -> Option<Bytes> {
        let of_share = match self.share() {
            Some(Share::Memory(memory)) => Some(memory),
            Some(Share::Part(_)) | None => None,
        };
        self.least_memory.max(of_share)
    }

    /// Whether it asks for no GPU at all.
    #[must_use]
    pub fn is_none(&self) -> bool {
        self.n_devices() == 0
    }

    /// How well a device's kind answers: the position in the list of models (0 where any model
    /// will do), or `None` if its model or memory does not. Only who asks for MIG instances gets
    /// any, and gets nothing else.
    #[must_use]
    pub fn rank_of(&self, device: &Device) -> Option<usize> {
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
    /// Writes it in the grammar in which it is read.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let amount = match self.amount {
            GpuAmount::Whole(count) | GpuAmount::Instances { count, .. } => count.to_string(),
            GpuAmount::Shared { count: 1, share: Share::Part(milli) } => {
                Share::Part(milli).to_string()
            }
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
