//! Patterns for models of devices, as users write them.

use serde::{Deserialize, Serialize};

use crate::mig::split_model;

/// Part of a device's model name, in lower case: `a100`, `a100-80g`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ModelPattern(String);

impl ModelPattern {
    /// The prefix of a pattern that matches exactly one model.
    const EXACTLY: char = '=';

    /// A pattern as users write it.
    #[must_use]
    pub fn new(text: &str) -> Self {
        Self(text.to_ascii_lowercase())
    }

    /// The pattern that matches only this model.
    #[must_use]
    pub fn exactly(model: &str) -> Self {
        Self(format!("{}{model}", Self::EXACTLY))
    }

    /// The pattern that matches every MIG instance.
    #[must_use]
    pub fn any_instance() -> Self {
        Self::new(MIG)
    }

    /// The pattern as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether the pattern matches a model: each word of the pattern is a word of the model, in the
    /// same order, ignoring case; `80g` and `80gb` are the same word. A profile is matched only by
    /// patterns that name one: an instance with 40 GB does not match `a100-40g`.
    #[must_use]
    pub fn matches(&self, model: &str) -> bool {
        if let Some(exact) = self.0.strip_prefix(Self::EXACTLY) {
            return exact == model;
        }
        let (device, profile) = split_model(model);
        let mut rest = match (profile, self.names_instance()) {
            (None, _) | (Some(_), true) => words(model),
            (Some(_), false) => words(device),
        };
        let mut pattern = words(&self.0).peekable();
        pattern.peek().is_some()
            && pattern.all(|word| rest.any(|other| other.eq_ignore_ascii_case(word)))
    }

    /// Whether it requests MIG instances: it has the word `mig`, or the compute slices of a
    /// profile, such as `1g`.
    #[must_use]
    pub fn names_instance(&self) -> bool {
        if let Some(exact) = self.0.strip_prefix(Self::EXACTLY) {
            return split_model(exact).1.is_some();
        }
        let of_profile = |word: &str| {
            word.eq_ignore_ascii_case(MIG) || matches!(word.as_bytes(), [b'1'..=b'7', b'g' | b'G'])
        };
        whole_words(&self.0).any(of_profile)
    }
}

/// The word in the model name of every instance.
const MIG: &str = "mig";

fn whole_words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty())
}

/// The words of a model name; memory sizes are cut after the `G`.
fn words(text: &str) -> impl Iterator<Item = &str> {
    whole_words(text).map(|word| {
        let n_digits = word.bytes().take_while(u8::is_ascii_digit).count();
        match word[n_digits..].eq_ignore_ascii_case("gb") {
            true => &word[..=n_digits],
            false => word,
        }
    })
}

/// The short name of a model for display and requests: `A100-80G` for `NVIDIA A100-SXM4-80GB`,
/// `H100-80G-1g.10gb` for an instance.
#[must_use]
pub fn short_model(model: &str) -> String {
    let (model, profile) = split_model(model);
    let short = short_device(model);
    profile.map_or(short.clone(), |profile| format!("{short}-{profile}"))
}

fn short_device(model: &str) -> String {
    const NOISE: [&str; 9] =
        ["nvidia", "tesla", "geforce", "quadro", "amd", "hbm2", "hbm2e", "hbm3", "hbm3e"];
    let words: Vec<&str> = whole_words(model)
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
