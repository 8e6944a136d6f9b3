//! What a user asks of GPUs: `2`, `a100:2`, `a100|h100:2`, `40G..:2`.

use std::fmt;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::device::Device;
use crate::parse::{self, ParseError};
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

    const EXAMPLE: &str = "2, a100:2, 'a100|h100:1' or 40G..:2";

    /// That many whole devices of any model.
    #[must_use]
    pub fn whole(count: u32) -> Self {
        Self { amount: GpuAmount::Whole(count), ..Self::default() }
    }

    /// Reads the grammar of `--gpus`.
    ///
    /// # Errors
    /// [`GpuRequestError::Malformed`] with the position, or [`GpuRequestError::Unsupported`].
    pub fn parse(text: &str) -> Result<Self, GpuRequestError> {
        let bad = |position| ParseError::new("a number of GPUs", text, position, Self::EXAMPLE);
        if text.is_empty() {
            return Err(bad(0).into());
        }
        let first = text.split(':').next().unwrap_or(text);
        if !first.contains(|c: char| c.is_ascii_alphabetic()) {
            return Ok(Self::whole(Self::count(text)?));
        }
        let (kind, count) = match text.split_once(':') {
            None => (text, 1),
            Some((kind, count)) => {
                let count = Self::count(count).map_err(|error| match error {
                    GpuRequestError::Malformed(e) => bad(kind.len() + 1 + e.position).into(),
                    other => other,
                })?;
                (kind, count)
            }
        };
        if let Some(least) = kind.strip_suffix("..") {
            let least = parse::bytes(least).map_err(|e| bad(e.position))?;
            let least_memory = Some(least);
            return Ok(Self { amount: GpuAmount::Whole(count), models: Vec::new(), least_memory });
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
            models.push(ModelPattern(part.to_ascii_lowercase()));
            position += part.len() + 1;
        }
        Ok(Self { amount: GpuAmount::Whole(count), models, least_memory: None })
    }

    fn count(text: &str) -> Result<u32, GpuRequestError> {
        let bad = |position| ParseError::new("a number of GPUs", text, position, Self::EXAMPLE);
        let unsupported = |what| {
            let value = text.chars().take(ParseError::SHOWN).collect();
            Err(GpuRequestError::Unsupported { value, what })
        };
        let digits = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
        if text.split_once("..").is_some_and(|(least, most)| digits(least) && digits(most)) {
            return unsupported("an elastic number of GPUs");
        }
        if text.contains('.') && text.split(':').all(|part| parse::decimal(part, 9).is_some()) {
            return unsupported("a fraction of a GPU");
        }
        if let Some(at) = text.find(|c: char| !c.is_ascii_digit()) {
            return Err(bad(at).into());
        }
        let count: u32 = text.parse().map_err(|_| bad(0))?;
        if count > Self::COUNT_MAX {
            return Err(bad(0).into());
        }
        Ok(count)
    }

    /// How many devices it needs.
    #[must_use]
    pub fn n_devices(&self) -> u32 {
        match self.amount {
            GpuAmount::Whole(count) => count,
        }
    }

    /// What it is charged.
    #[must_use]
    pub fn charge(&self) -> MilliGpu {
        match self.amount {
            GpuAmount::Whole(count) => MilliGpu::from_devices(count),
        }
    }

    /// Whether it asks for no GPU at all.
    #[must_use]
    pub fn is_none(&self) -> bool {
        self.n_devices() == 0
    }

    /// How well a device's kind answers: the position in the list of models (0 where any model
    /// will do), or `None` if its model or memory does not.
    #[must_use]
    pub fn rank_of(&self, device: &Device) -> Option<usize> {
        if self.least_memory.is_some_and(|least| device.memory < least) {
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
        let count = self.n_devices();
        if let Some(least) = self.least_memory {
            let least = least.get();
            let units = [(30, 'G'), (20, 'M'), (10, 'K')];
            let exact = units.into_iter().find(|(shift, _)| least.is_multiple_of(1 << shift));
            let (shift, unit) = exact.unwrap_or((0, 'B'));
            return f.pad(&format!("{}{unit}..:{count}", least >> shift));
        }
        if self.models.is_empty() {
            return f.pad(&count.to_string());
        }
        let models: Vec<&str> = self.models.iter().map(ModelPattern::as_str).collect();
        f.pad(&format!("{}:{count}", models.join("|")))
    }
}

/// Part of a device's model name, in lower case: `a100`, `a100-80g`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ModelPattern(String);

impl ModelPattern {
    /// The pattern as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether a device of that model answers to the pattern: each word of the pattern is a word
    /// of the model, in the same order, any case; `80g` and `80gb` are one word.
    #[must_use]
    pub fn matches(&self, model: &str) -> bool {
        let words = |text: &str| -> Vec<String> {
            text.split(|c: char| !c.is_ascii_alphanumeric())
                .filter(|word| !word.is_empty())
                .map(|word| word.to_ascii_lowercase())
                .map(|word| match word.strip_suffix("gb") {
                    Some(n) if n.bytes().all(|b| b.is_ascii_digit()) => format!("{n}g"),
                    _ => word,
                })
                .collect()
        };
        let model = words(model);
        let mut rest = model.iter();
        let pattern = words(&self.0);
        !pattern.is_empty() && pattern.iter().all(|word| rest.any(|other| other == word))
    }
}

/// The short name under which a model is shown and asked for: `A100-80G` for
/// `NVIDIA A100-SXM4-80GB`.
#[must_use]
pub fn short_model(model: &str) -> String {
    const NOISE: [&str; 9] =
        ["nvidia", "tesla", "geforce", "quadro", "amd", "hbm2", "hbm2e", "hbm3", "hbm3e"];
    let words: Vec<&str> = model
        .split(|c: char| !c.is_ascii_alphanumeric())
        .filter(|word| !word.is_empty())
        .filter(|word| !NOISE.contains(&word.to_ascii_lowercase().as_str()))
        .filter(|word| {
            let lower = word.to_ascii_lowercase();
            !lower.starts_with("sxm") && lower != "pcie" && lower != "nvl"
        })
        .map(|word| match word.strip_suffix("GB") {
            Some(n) if n.bytes().all(|b| b.is_ascii_digit()) => &word[..word.len() - 1],
            _ => word,
        })
        .collect();
    if words.is_empty() { model.to_owned() } else { words.join("-") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> GpuRequest {
        GpuRequest::parse(text).expect(text)
    }

    #[test]
    fn every_form_of_whole_devices_is_read_and_written_back() {
        for (text, written) in [
            ("2", "2"),
            ("0", "0"),
            ("a100:2", "a100:2"),
            ("A100", "a100:1"),
            ("a100-80g|h100:2", "a100-80g|h100:2"),
            ("40G..:2", "40G..:2"),
            ("40G..", "40G..:1"),
            ("1.5K..:2", "1536B..:2"),
            ("0B..", "0G..:1"),
        ] {
            assert_eq!(parsed(text).to_string(), written);
            assert_eq!(parsed(&parsed(text).to_string()), parsed(text));
        }
    }

    #[test]
    fn malformed_requests_name_the_position() {
        for text in [
            "",
            "-1",
            "1:2",
            "a100:-1",
            "a100:",
            ":2",
            "a100::2",
            "99999999999",
            "1025",
            "a100|:1",
            "40..:2",
            "x\u{1b}[31m",
            "½",
            "2 ",
            "a100:x",
        ] {
            let error = GpuRequest::parse(text).expect_err(text);
            assert!(matches!(error, GpuRequestError::Malformed(_)), "{text}: {error}");
        }
    }

    #[test]
    fn fractions_and_elastic_counts_are_told_apart_from_nonsense() {
        for text in ["0.5", "0.25:0.80", "2..8", "a100:0.5"] {
            let error = GpuRequest::parse(text).expect_err(text);
            assert!(matches!(error, GpuRequestError::Unsupported { .. }), "{text}: {error}");
        }
    }

    #[test]
    fn models_match_whole_words_in_any_case() {
        let model = "NVIDIA A100-SXM4-80GB";
        for pattern in ["a100", "A100-80g", "a100-80gb", "nvidia a100", "sxm4"] {
            assert!(parsed(&format!("{pattern}:1")).models[0].matches(model), "{pattern}");
        }
        for pattern in ["a10", "a100-40g", "80g-a100", "h100", "a100-sxm4-80gb-x"] {
            assert!(!parsed(&format!("{pattern}:1")).models[0].matches(model), "{pattern}");
        }
    }

    #[test]
    fn short_models_keep_what_people_say() {
        for (model, short) in [
            ("NVIDIA A100-SXM4-80GB", "A100-80G"),
            ("NVIDIA H100 80GB HBM3", "H100-80G"),
            ("NVIDIA H200", "H200"),
            ("NVIDIA GeForce RTX 4090", "RTX-4090"),
            ("Tesla T4", "T4"),
            ("NVIDIA", "NVIDIA"),
        ] {
            assert_eq!(short_model(model), short);
        }
    }
}
